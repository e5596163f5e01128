//! Finds out what an MCP server is: its name, version, capabilities and lists, by a session of its own ([`session`]).
//!
//! The server's address is checked like a host that a client names, also after DNS; one session is bounded to ten seconds. What
//! is remembered of it is `state::mcp_servers`'s.

mod session;

pub use session::{McpDescription, McpFailure};

use super::custom_host::HostRules;
use super::dns::Dns;
use super::origin::Origin;
use super::side_client::{FetchError, SideClients};
use http::{HeaderName, HeaderValue};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::Semaphore;

/// The most sessions of the process at a time.
const MAX_SESSIONS: usize = 16;
/// The timeout of a session, with its wait for others.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// An MCP server with streamable HTTP.
#[derive(Clone)]
pub struct McpServer {
    pub url: String,
    /// Sent with every request; they may be secrets.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

/// Opens sessions.
#[derive(Debug)]
pub struct McpClient {
    clients: SideClients,
    sessions: Semaphore,
}

impl McpClient {
    pub fn new(ca_file: Option<PathBuf>) -> Self {
        Self { clients: SideClients::new(ca_file), sessions: Semaphore::new(MAX_SESSIONS) }
    }

    /// Initializes a session and closes it. `lists`: whether tools, prompts and resources are listed too.
    ///
    /// # Errors
    /// [`McpFailure`].
    pub async fn describe(
        &self,
        server: &McpServer,
        lists: bool,
        dns: &Dns,
        rules: &HostRules,
    ) -> Result<McpDescription, McpFailure> {
        let session = async {
            let _permit = self.sessions.acquire().await;
            let client = self.client(server, dns, rules).await?;
            session::describe(client, &server.url, &server.headers, lists).await
        };
        let bounded = tokio::time::timeout(SESSION_TIMEOUT, session).await;
        bounded.unwrap_or_else(|_| Err(McpFailure::new(format!("no answer within {SESSION_TIMEOUT:?}"))))
    }

    async fn client(
        &self,
        server: &McpServer,
        dns: &Dns,
        rules: &HostRules,
    ) -> Result<reqwest::Client, McpFailure> {
        let origin = Origin::parse(&server.url, false)
            .map_err(|why| McpFailure::new(format!("the URL of the server {why}")))?;
        let client = self.clients.client_for(&origin, dns, rules, CONNECT_TIMEOUT).await;
        client.map(|client| client.http).map_err(|why| match why {
            FetchError::Refused(why) | FetchError::Broken(why) => McpFailure::new(why),
        })
    }
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServer").field("url", &self.url).finish_non_exhaustive()
    }
}
