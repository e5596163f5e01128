//! How the requests of a client are authorized at a server: by the gateway's own sign-in, or by a token that is issued for the client's.
//!
//! A server that takes tokens of persons is called for a client that shows one, and never without.

use crate::engine::Engine;
use crate::engine::credentials::cached_or_fetched;
use http::HeaderValue;
use jiff::Timestamp;
use knowledge::provider::key::bearer;
use knowledge::provider::token_exchange::{Credentials, TokenExchange};
use memory::auth::{ClientIdentity, ShownToken};
use memory::state::snapshot::SettingsSnapshot;
use memory::state::stored::mcp_servers::StoredMcpServer;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use words::error::Error;

/// How a client's requests are authorized at a server.
#[derive(Debug, Clone)]
pub(super) enum SignIn {
    /// By the server's headers alone.
    Headers,
    /// By a token of the gateway's own.
    Own(Arc<dyn TokenExchange>),
    /// By a token that is issued for the client's: whom that names.
    Person(Arc<str>, Arc<dyn TokenExchange>),
    /// The client shows no token that could be exchanged.
    NoToken,
    /// Clients' tokens may not be sent to the server's token endpoint.
    Elsewhere,
}

impl SignIn {
    pub fn of(
        server: &StoredMcpServer,
        client: Option<&ClientIdentity>,
        snapshot: &SettingsSnapshot,
    ) -> Self {
        let Some(exchange) = &server.exchange else {
            return server.sign_in.clone().map_or(Self::Headers, Self::Own);
        };
        let Some((ShownToken { text, person }, tokens)) =
            client.and_then(|client| client.shown.as_ref()).zip(snapshot.service_keys.tokens())
        else {
            return Self::NoToken;
        };
        // The settings may have changed since the server was saved.
        if !tokens.may_exchange_at(&exchange.token_url) {
            return Self::Elsewhere;
        }
        let end = client.and_then(|client| client.expires_at).map_or(0, Timestamp::as_second);
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(end).unwrap_or_default());
        Self::Person(Arc::clone(person), Arc::new(exchange.of(text, end)))
    }

    /// What must be fetched before a request can be sent.
    pub fn exchange(&self) -> Option<&Arc<dyn TokenExchange>> {
        match self {
            Self::Own(exchange) | Self::Person(_, exchange) => Some(exchange),
            Self::Headers | Self::NoToken | Self::Elsewhere => None,
        }
    }

    /// Why nothing can be sent to the server for the client, and what to do.
    pub fn refusal(&self, slug: &str) -> Option<Error> {
        let why = match self {
            Self::Headers | Self::Own(_) | Self::Person(..) => return None,
            Self::NoToken => format!(
                "The MCP server {slug} is used in the name of a person, and a service key names none. Send a token of the identity provider \
                 (auth.jwt of the settings) in its place."
            ),
            Self::Elsewhere => format!(
                "The MCP server {slug} cannot be used: its token endpoint is at no host where tokens may be exchanged. Ask the operator to \
                 add it to auth.jwt.exchange_urls of the settings."
            ),
        };
        Some(Error::forbidden(why))
    }

    /// The header with the token, where one is sent.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn header(
        &self,
        engine: &Engine,
        snapshot: &Arc<SettingsSnapshot>,
        slug: &str,
    ) -> Result<Option<HeaderValue>, Error> {
        if let Some(refusal) = self.refusal(slug) {
            return Err(refusal);
        }
        let Some(exchange) = self.exchange() else { return Ok(None) };
        match cached_or_fetched(&engine.shared, snapshot, Arc::clone(exchange), false).await? {
            Credentials::Bearer(token) => bearer(&token).map(Some),
            Credentials::Aws { .. } => Ok(None),
        }
    }
}
