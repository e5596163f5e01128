//! Requests of the gateway's own: a catalogue of prices, webhooks, what guardrails call.
//!
//! Bounded in time and size. Token servers have rules of their own (`token_http`).

use super::custom_host::HostRules;
use super::dns::Dns;
use super::origin::Origin;
use super::side_client::{FetchError, SideClients};
use http::{HeaderMap, Method};
use std::path::PathBuf;
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// One request.
#[derive(Debug)]
pub struct SideRequest<'a> {
    pub method: Method,
    pub url: &'a str,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    /// For the whole exchange.
    pub timeout: Duration,
    /// The most bytes of the response's body.
    pub max_body: usize,
    /// The operator wrote the address: it is not judged as a client's is.
    pub trusted: bool,
}

/// Status, headers and body.
#[derive(Debug)]
pub struct SideResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

#[derive(Debug)]
pub struct SideHttpClient {
    clients: SideClients,
}

impl SideHttpClient {
    pub fn new(ca_file: Option<PathBuf>) -> Self {
        Self { clients: SideClients::new(ca_file) }
    }

    /// One that keeps connections open for the next request to the same addresses: for many requests, all made by runtimes that
    /// live as long as the process.
    pub fn pooled(ca_file: Option<PathBuf>) -> Self {
        Self { clients: SideClients::pooled(ca_file) }
    }

    /// # Errors
    /// Why there is no response, without path and query of the URL, which may hold a secret.
    pub async fn send(
        &self,
        request: SideRequest<'_>,
        dns: &Dns,
        rules: &HostRules,
    ) -> Result<SideResponse, FetchError> {
        let timeout = request.timeout;
        let sent = tokio::time::timeout(timeout, self.exchange(request, dns, rules)).await;
        sent.unwrap_or_else(|_| Err(FetchError::Broken(format!("no response within {timeout:?}"))))
    }

    async fn exchange(
        &self,
        request: SideRequest<'_>,
        dns: &Dns,
        rules: &HostRules,
    ) -> Result<SideResponse, FetchError> {
        let bare = request.url.split(['?', '#']).next().unwrap_or_default();
        let refused = |why: String| FetchError::Refused(format!("The URL {why}."));
        let origin = Origin::parse(bare, request.trusted).map_err(refused)?;
        if !request.trusted {
            rules.check_name(&origin).map_err(FetchError::Refused)?;
        }
        let client = self.clients.client_for(&origin, dns, rules, CONNECT_TIMEOUT).await?;
        let sending =
            client.http.request(request.method, request.url).headers(request.headers).body(request.body);
        let mut response = sending.send().await.map_err(|why| client.broken(why))?;
        let status = response.status().as_u16();
        if let Some(refused) = client.refused_by_proxy(status) {
            return Err(refused);
        }
        let headers = std::mem::take(response.headers_mut());
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|why| client.broken(why))? {
            if body.len() + chunk.len() > request.max_body {
                let authority = origin.authority();
                let most = request.max_body;
                return Err(FetchError::Broken(format!("{authority}: the response is over {most} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(SideResponse { status, headers, body })
    }
}
