//! The state of one request while it runs: what was called, its settings, the current attempt, and what was noted so far.
//!
//! Knows no session: the data plane keeps it in Pingora's per-request context, other users keep it next to their
//! downstream.

use super::attempt::GivenResponse;
use super::attempt_state::AttemptFacts;
use super::limit_holds::LimitHolds;
use super::mcp::McpWatch;
use super::observers::Observers;
use super::record_builder::RecordBuilder;
use super::request_span::RequestSpan;
use http::HeaderValue;
use judgment::route::admission::Endpoint;
use judgment::route::request_mode::RequestMode;
use judgment::route::target::Target;
use knowledge::price::RequestPrices;
use memory::state::Shared;
use memory::state::held_bytes::Hold;
use memory::state::lifecycle::InFlightGuard;
use memory::state::snapshot::SettingsSnapshot;
use std::sync::Arc;
use uuid::Uuid;
use words::api::Dialect;
use words::api::operation::Operation;
use words::config::reply_headers::UsedPrefixes;
use words::error::Error;

/// The state of one request.
pub struct RequestContext {
    pub span: RequestSpan,
    pub api: CalledApi,
    pub reply: ReplyForm,
    /// The settings of this request: they stay the same to its end, even when a reload replaces them.
    pub snapshot: Arc<SettingsSnapshot>,
    /// The prices of this request, which stay the same to its end as well.
    pub prices: RequestPrices,
    pub offline: OfflineTerms,
    /// What it holds of its limits.
    pub limits: LimitHolds,
    /// Of the attempt whose response the client gets, or of the last one that ended.
    pub facts: AttemptFacts,
    pub observers: Observers,
    pub record: RecordBuilder,
    /// The error the client gets or got.
    pub failure: Option<Error>,
    pub load: Load,
}

/// What the client called.
#[derive(Debug, Clone, Copy)]
pub struct CalledApi {
    pub operation: Operation,
    pub mode: RequestMode,
    /// Whose error bodies and stream events the client expects.
    pub dialect: Dialect,
}

/// What the client's response has besides what a provider sends.
#[derive(Default)]
pub struct ReplyForm {
    /// The further header prefixes that the client used, which its response has as well.
    pub used_prefixes: UsedPrefixes,
    /// The value of `Access-Control-Allow-Origin` for a page that may read the response.
    pub allowed_origin: Option<HeaderValue>,
    /// Whether the client speaks HTTP/1.0: it cannot read chunks, so closing the connection ends the response.
    pub is_http10: bool,
    /// What hooks found on the request, for the body of a provider's error: the JSON of `hook_results`.
    pub hook_results: Option<Box<str>>,
    /// What is said in `x-gateway-warnings` of a response of the gateway to an MCP client.
    pub warnings: Vec<String>,
    /// Errors have the status 200: their client reads what JSON-RPC says, and gives up its session at any other status.
    pub hides_status: bool,
    /// The id of the MCP client's message, for the error that it gets: JSON text.
    pub message_id: Option<Box<str>>,
}

/// What is special about a request that came over no connection.
#[derive(Default)]
pub struct OfflineTerms {
    /// The response that the next attempt has without a call.
    pub given: Option<Box<GivenResponse>>,
    /// Whether no limit counts it: it manages what other requests are charged for.
    pub is_unlimited: bool,
    /// Whether it is sent once only, whatever its config's retries are.
    pub is_sent_once: bool,
    /// What watches the response of each attempt while it arrives.
    pub(in crate::engine) watch: Option<Box<McpWatch>>,
}

/// What the request is to the process.
pub struct Load {
    /// Counts the request's body, and what attempts send in its place.
    pub held: Hold,
    /// Counts the request as in flight until it is recorded.
    pub in_flight: Option<InFlightGuard>,
}

impl CalledApi {
    pub fn of(endpoint: &Endpoint) -> Self {
        Self { operation: endpoint.operation, mode: endpoint.mode, dialect: endpoint.dialect() }
    }
}

impl Default for CalledApi {
    /// Until the request's path was read.
    fn default() -> Self {
        let operation = Operation::Passthrough;
        Self { operation, mode: RequestMode::Passthrough, dialect: operation.dialect() }
    }
}

impl RequestContext {
    /// Takes the current settings, and counts the request as in flight.
    pub fn new(shared: &Shared) -> Self {
        Self {
            span: RequestSpan::new(),
            api: CalledApi::default(),
            reply: ReplyForm::default(),
            snapshot: shared.settings_arc(),
            prices: RequestPrices::new(shared.prices.load_full()),
            offline: OfflineTerms::default(),
            limits: LimitHolds::default(),
            facts: AttemptFacts::default(),
            observers: Observers::default(),
            record: RecordBuilder::default(),
            failure: None,
            load: Load { held: shared.held_bytes.holder(), in_flight: Some(shared.lifecycle.enter()) },
        }
    }

    /// The client's workspace: which stored objects it may name.
    pub fn workspace(&self) -> Option<Uuid> {
        self.record.client.as_ref()?.workspace
    }

    /// Whether something is charged for the request already: under hard limits also an attempt that was sent and ended without a report.
    pub(super) fn is_charged(&self) -> bool {
        self.record.is_charged() || (self.record.has_open() && self.limits.holds_hard())
    }

    /// An attempt at this target failed: what it holds is released, unless the provider charges for it, or may under a hard limit.
    pub(super) fn release_unused(&mut self, target: &Arc<Target>) {
        let is_kept = self.record.last_is_open() && self.limits.holds_hard();
        if self.record.last_is_unused() && !is_kept {
            self.limits.release_attempt(target);
        }
    }
}
