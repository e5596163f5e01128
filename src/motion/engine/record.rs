//! The record of one finished request: plain data, handed to the `sinks`.
//!
//! Never holds a key or a raw header, and bodies only where the operator wants them kept.

use super::caching::CacheNote;
use super::hook_notes::{HookNote, HookSide};
use super::named::Named;
use super::payload_capture::PayloadCapture;
use super::prompt_misses::PromptMiss;
use super::request_span::RequestSpan;
use super::usage_ceiling::UsageCeiling;
use http::{Method, Uri};
use jiff::Timestamp;
use judgment::route::attempt::Attempt;
use judgment::route::plan::Reason;
use judgment::route::target::Target;
use knowledge::price::Cost;
use knowledge::prompt::FoundPrompt;
use memory::auth::ClientIdentity;
use memory::net::outbound::origin::Origin;
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use words::api::service_tier::ServiceTier;
use words::api::tap::ResponseSummary;
use words::api::usage::Usage;
use words::error::{Error, Kind};
use words::settings::GuardrailSettings;

/// One finished request.
#[derive(Debug)]
pub struct RequestRecord {
    pub span: RequestSpan,
    /// `None`: it was not authenticated.
    pub client: Option<Arc<ClientIdentity>>,
    pub request: ReceivedRequest,
    pub named: Named,
    pub routed: Routed,
    pub response: SentResponse,
    /// What all attempts cost together; `None`: nothing is charged.
    pub cost: Option<Cost>,
    pub times: RequestTimes,
    /// How the cache took part.
    pub cache: CacheNote,
    /// Of which the provider's cache of prompts has read nothing, where a config wants it to. Known after the end.
    pub prompt_miss: Option<PromptMiss>,
    /// What hooks decided, on all attempts together.
    pub hooks: Vec<HookNote>,
    /// The bodies, where they are kept.
    pub capture: Option<Box<PayloadCapture>>,
}

impl RequestRecord {
    /// The user: `_user` of the metadata, else the one whose key it is, or whom the token names.
    pub(super) fn user(&self) -> Option<Cow<'_, str>> {
        let of_client = || self.client.as_ref()?.user.as_deref().map(Cow::from);
        self.named.user().or_else(of_client)
    }

    /// Whether logs and spans leave a side out because it was denied.
    pub(super) fn is_withheld(&self, side: HookSide, settings: &GuardrailSettings) -> bool {
        !settings.keep_denied && self.is_denied(side)
    }

    /// Whether its hooks have denied the request, or the response, and the client got that denial.
    fn is_denied(&self, side: HookSide) -> bool {
        let is_denial = self.response.error.as_ref().is_some_and(|error| error.kind == Kind::HooksFailed);
        let has_denied = |side: HookSide| self.hooks.iter().any(|note| note.is_denied && note.side == side);
        // Every denial has a note, but that of a response that cannot be read.
        is_denial && (has_denied(side) || (side == HookSide::Response && !has_denied(HookSide::Request)))
    }
}

/// The request as it was received.
#[derive(Debug)]
pub struct ReceivedRequest {
    pub client_address: Option<IpAddr>,
    pub method: Method,
    pub uri: Uri,
    /// `control`, or the operation's label.
    pub operation: &'static str,
    /// The length of its body.
    pub bytes: u64,
}

/// Where the plan sent it.
#[derive(Debug)]
pub struct Routed {
    /// The attempt whose response the client got, or the last one.
    pub attempt: Option<Arc<Attempt>>,
    pub attempts: Vec<AttemptRecord>,
    /// Retries at the last target; -1 when they are exhausted.
    pub retries: i32,
    /// Its response came in a provider's batch job.
    pub is_batch: bool,
}

/// The response as the client got it.
#[derive(Debug)]
pub struct SentResponse {
    /// The status that was sent, or would have been sent.
    pub status: u16,
    pub error: Option<Error>,
    pub streamed: bool,
    /// The length of its body.
    pub bytes: u64,
    /// What was observed of it: usage, model, finish.
    pub observed: ResponseSummary,
}

/// When it began by the clock, and how long it took.
#[derive(Debug)]
pub struct RequestTimes {
    pub began: Timestamp,
    pub total: Duration,
    /// The gateway's own share of `total`: without the time spent waiting for the client or for providers.
    pub overhead: Duration,
    /// How long it waited for places at targets.
    pub queued: Duration,
    pub to_first_byte: Option<Duration>,
    pub to_first_token: Option<Duration>,
}

impl RequestRecord {
    /// The prompt of the attempt whose response the client got, or the one that the client named.
    pub fn prompt(&self) -> Option<&FoundPrompt> {
        let of_target = self.routed.attempt.as_ref().and_then(|attempt| attempt.target.prompt.as_ref());
        of_target.or(self.named.prompt.as_ref())
    }

    /// The model of the attempt whose response the client got; of a request that was refused, the one that was wanted.
    pub fn model(&self) -> Option<&str> {
        match (&self.routed.attempt, self.routed.attempts.last()) {
            (Some(attempt), _) => attempt.model.as_deref(),
            (None, Some(refused)) => refused.model.as_deref(),
            (None, None) => self.named.model.as_deref(),
        }
    }

    /// What the attempt that responded used, as far as it was measured.
    pub fn used(&self) -> Option<&AttemptUsage> {
        let responded = self.routed.attempts.iter().rev().find(|attempt| attempt.responded)?;
        responded.used.as_ref().filter(|used| used.is_measured())
    }

    /// What the response used: as charged, else what a response that is not charged reports, such as a stored one that is read again.
    pub fn usage(&self) -> Option<&Usage> {
        self.used().map(|used| &used.usage).or(self.response.observed.usage.as_ref())
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
    pub(crate) time: AttemptTime,
    /// What it used; `None`: nothing is charged for it, because the provider sent nothing of a response.
    pub used: Option<AttemptUsage>,
    /// Its response is from the cache, or from another request's call.
    pub is_from_cache: bool,
    /// Whether the client got its response. Of a resumed stream that is the last attempt.
    pub responded: bool,
}

/// When it was sent, how long it took, and whether it is over for the provider.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AttemptTime {
    /// `None`: it was not sent.
    pub started: Option<Instant>,
    pub spent: Duration,
    /// It was sent, and ended without a report: the provider may charge more than was observed. Hard limits keep what they hold for it.
    pub is_open: bool,
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
            time: AttemptTime::default(),
            used: None,
            is_from_cache: false,
            responded: false,
        }
    }

    /// What it cost; `None`: nothing is charged.
    pub fn cost(&self) -> Option<&Cost> {
        self.used.as_ref()?.cost.as_ref()
    }
}

/// What the provider charges for one attempt.
#[derive(Debug, Clone)]
pub struct AttemptUsage {
    pub usage: Usage,
    pub source: UsageSource,
    /// The model that responded, as the provider names it.
    pub response_model: Option<String>,
    /// The service tier that the response reports.
    pub service_tier: Option<ServiceTier>,
    /// What it cost; `None`: it is not priced yet.
    pub cost: Option<Cost>,
    /// What it can have been at most, where that is to be judged.
    pub(super) ceiling: Option<Box<UsageCeiling>>,
}

impl AttemptUsage {
    /// Whether the counts mean something.
    pub(crate) fn is_measured(&self) -> bool {
        self.source != UsageSource::Unmeasured
    }

    /// What cannot be measured.
    pub(super) fn unmeasured() -> Self {
        Self {
            usage: Usage::default(),
            source: UsageSource::Unmeasured,
            response_model: None,
            service_tier: None,
            cost: None,
            ceiling: None,
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
            cost: None,
            ceiling: None,
        })
    }
}

/// Where the token counts come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum UsageSource {
    /// The provider's own report, complete.
    Reported,
    /// Counted by the gateway, at least in part: an estimate.
    Counted,
    /// The provider reported more than the request could use: the most that it could.
    Bounded,
    /// The response has no tokens that could be counted, and does not say what it used: a generated image, or one that is compressed.
    /// The usage is zero, and what it costs is unknown.
    Unmeasured,
}

impl UsageSource {
    /// As rows of the log store name it.
    pub(super) fn of_row(self) -> &'static str {
        match self {
            Self::Counted => "estimated",
            source => source.as_str(),
        }
    }

    /// As logs name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reported => "reported",
            Self::Counted => "counted",
            Self::Bounded => "bounded",
            Self::Unmeasured => "unknown",
        }
    }
}
