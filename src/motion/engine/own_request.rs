//! A request of the gateway's own, on behalf of a client's: a model that judges, a text that becomes a vector, a provider's list of models.
//!
//! It takes the way of any other request, with a client in memory. It has its own plan, retries and record, and is under the limits of the
//! client for whom it is sent: what it may cost is held, or it is not sent. What a client has written into it passes the guardrails of its
//! workspace; other guardrails and the cache are the client's request's.

use super::limit_holds::Behalf;
use super::request_context::RequestContext;
use http::StatusCode;
use memory::auth::ClientIdentity;
use memory::limits::Advance;
use memory::state::snapshot::SettingsSnapshot;
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Duration;
use words::error::Error;

/// What a request of the gateway's own is sent with.
pub(super) struct OwnRequest<'a> {
    /// The settings of the client's request.
    pub snapshot: &'a Arc<SettingsSnapshot>,
    /// Who pays for it.
    pub payer: &'a Payer,
    pub trace_id: &'a Arc<str>,
    /// Of an operation whose body, where it has one, is JSON.
    pub path: &'static str,
    /// A config, the id of a saved one, or the `@slug` of a provider.
    pub config: &'a str,
    /// How long the provider may take, where its config does not say.
    pub timeout: Option<Duration>,
    /// The largest response, bytes.
    pub max_response: usize,
    /// Whether the guardrails of the client's workspace judge it, as they do what the client sends.
    pub is_judged: bool,
    /// Whether a config names its model, so that the client's key must allow it.
    pub is_of_config: bool,
}

/// For whom the gateway sends a request of its own: their limits hold it, and its record is theirs.
#[derive(Debug, Default)]
pub(super) struct Payer {
    pub client: Option<Arc<ClientIdentity>>,
    /// That of the client's request.
    pub metadata: Option<Box<RawValue>>,
    pub behalf: Behalf,
    /// What is held for the batch of the client's request.
    pub advance: Option<Arc<Advance>>,
}

impl Payer {
    /// Who has sent a request.
    pub fn of(ctx: &RequestContext) -> Self {
        Self {
            client: ctx.record.client.clone(),
            metadata: ctx.record.named.metadata.clone(),
            behalf: Behalf::of(ctx),
            advance: ctx.limits.advance.clone(),
        }
    }
}

/// Why there is no response.
#[derive(Debug)]
pub(super) enum OwnError {
    /// The request cannot be sent: it is wrong, a limit has no room for it, or a guardrail denies it.
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
