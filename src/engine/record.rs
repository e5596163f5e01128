//! The record of one finished request: plain data, handed to the `sinks`.
//!
//! Never holds a key, a body or a raw header.

use crate::api::tap::ResponseSummary;
use crate::auth::ClientIdentity;
use crate::error::Error;
use crate::prompt::FoundPrompt;
use crate::route::attempt::Attempt;
use crate::route::plan::Reason;
use crate::route::target::Target;
use http::{Method, Uri};
use serde_json::value::RawValue;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One finished request.
#[derive(Debug)]
pub struct RequestRecord {
    pub trace_id: Arc<str>,
    /// `None`: it was not authenticated.
    pub client: Option<Arc<ClientIdentity>>,
    pub client_address: Option<IpAddr>,
    pub method: Method,
    pub uri: Uri,
    /// `control`, or the operation's label.
    pub operation: &'static str,
    /// The attempt whose response the client got, or the last one.
    pub attempt: Option<Arc<Attempt>>,
    /// The prompt of that attempt, or the one that the client named.
    pub prompt: Option<FoundPrompt>,
    pub attempts: Vec<AttemptRecord>,
    /// The status of the response that was sent, or would have been sent.
    pub status: u16,
    pub error: Option<Error>,
    pub streamed: bool,
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// What was observed of the response: usage, model, finish.
    pub response: ResponseSummary,
    pub time_to_first_byte: Option<Duration>,
    pub time_to_first_token: Option<Duration>,
    pub total: Duration,
    /// The gateway's own share of `total`: without the time spent waiting for the client or for providers.
    pub overhead: Duration,
    /// The client's `x-gateway-metadata`, a JSON object.
    pub metadata: Option<Box<RawValue>>,
}

/// One attempt.
#[derive(Debug)]
pub struct AttemptRecord {
    pub target: Arc<Target>,
    pub status: Option<u16>,
    /// The code of its error.
    pub error: Option<&'static str>,
    /// Why its target was picked.
    pub reason: Reason,
    pub started: Option<Instant>,
    pub spent: Duration,
}
