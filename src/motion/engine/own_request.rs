//! A request of the gateway's own, on behalf of a client's: a model that judges, a text that becomes a vector, a provider's list of models.
//!
//! It takes the way of any other request, with a client in memory. It has its own plan, retries and record, so what it costs is counted; it is under no limits, guardrails or cache, which are the client's request's.

use http::StatusCode;
use memory::auth::ClientIdentity;
use memory::state::snapshot::SettingsSnapshot;
use std::sync::Arc;
use std::time::Duration;
use words::error::Error;

/// What a request of the gateway's own is sent with.
pub(super) struct OwnRequest<'a> {
    /// The settings of the client's request.
    pub snapshot: &'a Arc<SettingsSnapshot>,
    /// Who pays for it.
    pub client: Option<&'a Arc<ClientIdentity>>,
    pub trace_id: &'a Arc<str>,
    /// Of an operation whose body, where it has one, is JSON.
    pub path: &'static str,
    /// A config, the id of a saved one, or the `@slug` of a provider.
    pub config: &'a str,
    /// How long the provider may take, where its config does not say.
    pub timeout: Option<Duration>,
    /// The largest response, bytes.
    pub max_response: usize,
}

/// Why there is no response.
#[derive(Debug)]
pub(super) enum OwnError {
    /// The request cannot be sent.
    Refused(Box<Error>),
    /// It was sent, and there is no complete response.
    Failed(Box<Error>),
    /// The provider's response is an error: its status and its body.
    Status(StatusCode, Vec<u8>),
}

impl OwnError {
    /// What happened, for whoever needed the response.
    pub fn message(&self) -> String {
        match self {
            Self::Refused(error) | Self::Failed(error) => error.message.clone(),
            Self::Status(status, _) => format!("The provider responded with status {}.", status.as_u16()),
        }
    }
}
