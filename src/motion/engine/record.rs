//! The record of one finished request: plain data, handed to the `sinks`.
//!
//! Never holds a key or a raw header, and bodies only where the operator wants them kept.

use super::caching::CacheNote;
use super::hook_notes::HookNote;
use super::payload_capture::PayloadCapture;
use http::{Method, Uri};
use jiff::Timestamp;
use judgment::route::attempt::Attempt;
use judgment::route::plan::Reason;
use judgment::route::target::Target;
use knowledge::price::Cost;
use knowledge::prompt::FoundPrompt;
use memory::auth::ClientIdentity;
use memory::net::outbound::origin::Origin;
use serde_json::value::RawValue;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use words::api::service_tier::ServiceTier;
use words::api::tap::ResponseSummary;
use words::api::trace::TraceParent;
use words::api::usage::Usage;
use words::config::headers::GatewayHeaders;
use words::error::Error;

/// One finished request.
#[derive(Debug)]
pub struct RequestRecord {
    pub trace_id: Arc<str>,
    /// The client's span.
    pub parent: Option<TraceParent>,
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
    /// The model that the client named, of a request that was refused before its first attempt.
    pub model: Option<String>,
    pub attempts: Vec<AttemptRecord>,
    /// Its response came in a provider's batch job.
    pub is_batch: bool,
    /// The status of the response that was sent, or would have been sent.
    pub status: u16,
    pub error: Option<Error>,
    pub streamed: bool,
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// What all attempts cost together; `None`: nothing is charged.
    pub cost: Option<Cost>,
    /// What was observed of the response: usage, model, finish.
    pub response: ResponseSummary,
    pub time_to_first_byte: Option<Duration>,
    pub time_to_first_token: Option<Duration>,
    /// When the client's request arrived.
    pub started: Instant,
    /// The same by the clock.
    pub began: Timestamp,
    pub total: Duration,
    /// The gateway's own share of `total`: without the time spent waiting for the client or for providers.
    pub overhead: Duration,
    /// The client's `x-gateway-metadata`, a JSON object.
    pub metadata: Option<Box<RawValue>>,
    /// Retries at the last target; -1 when they are exhausted.
    pub retries: i32,
    /// What the client wants of its log; `None`: nothing in particular.
    pub log: Option<Box<LogHeaders>>,
    /// How the cache took part.
    pub cache: CacheNote,
    /// What hooks decided, on all attempts together.
    pub hooks: Vec<HookNote>,
    /// The bodies, where they are kept.
    pub capture: Option<Box<PayloadCapture>>,
}

impl RequestRecord {
    /// The model of the attempt whose response the client got; of a request that was refused, the one that was wanted.
    pub fn model(&self) -> Option<&str> {
        match (&self.attempt, self.attempts.last()) {
            (Some(attempt), _) => attempt.model.as_deref(),
            (None, Some(refused)) => refused.model.as_deref(),
            (None, None) => self.model.as_deref(),
        }
    }

    /// What the response used: of the attempt that responded, as far as it was measured, else what a response that is not charged
    /// reports.
    pub fn usage(&self) -> Option<&Usage> {
        let responded = self.attempts.iter().rev().find(|attempt| attempt.responded);
        let used = responded.and_then(|attempt| attempt.used.as_ref()).filter(|used| used.is_measured());
        used.map(|used| &used.usage).or(self.response.usage.as_ref())
    }
}

/// What a client's headers say about the log of its request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogHeaders {
    pub span_id: Option<String>,
    pub parent_span_id: Option<String>,
    pub span_name: Option<String>,
    /// Whether no log is kept. What it costs is charged nevertheless.
    pub is_ignored: bool,
    /// Whether no body is kept.
    pub has_no_bodies: bool,
}

impl LogHeaders {
    /// Those of a request, if it has any.
    pub fn of(headers: &GatewayHeaders<'_>) -> Option<Box<Self>> {
        let text = |text: Option<&str>| text.map(str::to_owned);
        let GatewayHeaders { span_id, parent_span_id, span_name, ignore_service_log, debug, .. } = *headers;
        let has_no_bodies = debug == Some(false);
        let has_any =
            span_id.or(parent_span_id).or(span_name).is_some() || ignore_service_log || has_no_bodies;
        has_any.then(|| {
            Box::new(Self {
                span_id: text(span_id),
                parent_span_id: text(parent_span_id),
                span_name: text(span_name),
                is_ignored: ignore_service_log,
                has_no_bodies,
            })
        })
    }
}

/// One attempt.
#[derive(Debug)]
pub struct AttemptRecord {
    /// Its number within the request, from 1.
    pub id: u32,
    pub target: Arc<Target>,
    /// Where it was sent, if that is not its target's own host.
    pub other_origin: Option<Arc<Origin>>,
    /// The model it requested, or would have; `None` if the request names none.
    pub model: Option<Arc<str>>,
    pub status: Option<u16>,
    /// The code of its error.
    pub error: Option<&'static str>,
    /// Its span, if the request's trace is recorded and the provider was told of it.
    pub span: Option<u64>,
    /// Why its target was picked.
    pub reason: Reason,
    pub started: Option<Instant>,
    pub spent: Duration,
    /// What it used; `None`: nothing is charged for it, because the provider sent nothing of a response.
    pub used: Option<AttemptUsage>,
    /// What it cost; `None`: nothing is charged.
    pub cost: Option<Cost>,
    /// Its response is from the cache, or from another request's call.
    pub is_from_cache: bool,
    /// Whether the client got its response. Of a resumed stream that is the last attempt.
    pub responded: bool,
}

impl AttemptRecord {
    /// An attempt of which nothing is known but its target.
    pub(super) fn new(target: &Arc<Target>, reason: Reason) -> Self {
        Self {
            id: 0,
            target: Arc::clone(target),
            other_origin: None,
            model: None,
            status: None,
            error: None,
            span: None,
            reason,
            started: None,
            spent: Duration::ZERO,
            used: None,
            cost: None,
            is_from_cache: false,
            responded: false,
        }
    }
}

/// What the provider charges for one attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptUsage {
    pub usage: Usage,
    pub source: UsageSource,
    /// The model that responded, as the provider names it.
    pub response_model: Option<String>,
    /// The service tier that the response reports.
    pub service_tier: Option<ServiceTier>,
}

impl AttemptUsage {
    /// Whether the counts mean something.
    pub fn is_measured(&self) -> bool {
        self.source != UsageSource::Unmeasured
    }

    /// What cannot be measured.
    pub(super) fn unmeasured() -> Self {
        Self {
            usage: Usage::default(),
            source: UsageSource::Unmeasured,
            response_model: None,
            service_tier: None,
        }
    }

    /// What a response reported; `None` if it reported nothing.
    pub(super) fn reported(response: &ResponseSummary) -> Option<Self> {
        let usage = response.usage?;
        Some(Self {
            usage: Usage { web_searches: usage.web_searches.max(response.web_searches.count()), ..usage }
                .capped(),
            source: UsageSource::Reported,
            response_model: response.model.clone(),
            service_tier: response.service_tier,
        })
    }
}

/// Where the token counts come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageSource {
    /// The provider's own report, complete.
    Reported,
    /// Counted by the gateway, at least in part: an estimate.
    Counted,
    /// The response has no tokens that could be counted, and does not say what it used: a generated image, or one that is compressed.
    /// The usage is zero, and what it costs is unknown.
    Unmeasured,
}

impl UsageSource {
    /// As logs and rows name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reported => "reported",
            Self::Counted => "counted",
            Self::Unmeasured => "unknown",
        }
    }
}
