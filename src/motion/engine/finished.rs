//! Makes the record of a finished request.
//!
//! What happened to the request is collected by `record_builder`; what becomes of the record is the `sinks`' matter.

use super::attempt_usage::Uncounted;
use super::cost;
use super::downstream::Downstream;
use super::record::{ReceivedRequest, RequestRecord, RequestTimes, Routed, SentResponse};
use super::record_builder::{RecordBuilder, RecordSource};
use super::request_context::RequestContext;
use jiff::Timestamp;
use judgment::route::plan::Reason;
use knowledge::price::RequestPrices;
use memory::auth::KeySearch;
use memory::net::inbound::client_address::client_address;
use memory::state::tokenizer::Tokenizer;
use std::time::{Duration, Instant};
use words::api::token_estimate::CountText;
use words::error::{Error, Kind};

/// A finished request, and the attempts, by index, whose tokens are to be counted before it is complete.
pub(super) struct Finished {
    pub record: Box<RequestRecord>,
    pub uncounted: Vec<(usize, Uncounted)>,
}

/// Makes the record of a finished request. `client`: the downstream of its response.
pub(super) fn finish<D: Downstream>(client: &D, ctx: &mut RequestContext) -> Finished {
    let now = Instant::now();
    let mut noted = std::mem::take(&mut ctx.record);
    let error = ctx.failure.take();
    let attempt = ctx.facts.attempt.take();
    let state = ctx.facts.state;
    if let Some(attempt) = attempt.as_ref().filter(|_| noted.attempts.all.is_empty()) {
        let failed = error.as_ref().filter(|_| state.status.is_none());
        noted.attempt_finished(attempt, state, Reason::Only, failed);
        noted.attempts.is_forwarded = state.status.is_some_and(|status| status < 400);
    }
    // A response that broke after it had begun counts as the provider's failure, whatever its status was.
    if let (Some(error), Some(attempt)) = (&error, noted.attempts.all.last_mut())
        && is_of_provider(error.kind)
    {
        attempt.error = Some(error.kind.row().code);
    }
    let status = status(client.sent_status(), error.as_ref());
    let started = ctx.span.started;
    let total = now.duration_since(started);
    let last = if noted.attempts.last_counted || attempt.is_none() {
        Duration::ZERO
    } else {
        state.upstream_time(now)
    };
    let is_cut =
        error.as_ref().is_some_and(|error| !matches!(error.kind, Kind::HooksFailed | Kind::ToolFailed));
    let observed = std::mem::take(&mut ctx.observers).into_summary(attempt.as_deref());
    if let Some(attempt) = &attempt {
        noted.attempt_responded(attempt, &observed, client.sent_status().is_some(), is_cut);
    }
    let request = received(client, ctx, &noted);
    let times = times(&noted, started, total, last);
    // Boxed because it is large and moved several times.
    let record = Box::new(RequestRecord {
        span: ctx.span.clone(),
        client: noted.client,
        request,
        named: noted.named,
        routed: Routed {
            attempt,
            attempts: noted.attempts.all,
            retries: noted.retries,
            is_batch: noted.source == RecordSource::BatchJob,
        },
        response: SentResponse {
            status,
            error,
            streamed: noted.streamed,
            bytes: noted.traffic.bytes_out,
            observed,
        },
        cost: None,
        times,
        cache: ctx.facts.cache,
        prompt_miss: None,
        hooks: noted.hooks.map(|notes| notes.take()).unwrap_or_default(),
        capture: noted.capture,
    });
    Finished { record, uncounted: noted.attempts.uncounted }
}

/// Whether such an error ended a response that a provider, or a proxy on the way to it, had begun.
const fn is_of_provider(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Unreachable
            | Kind::InvalidResponse
            | Kind::ToolFailed
            | Kind::UpstreamTimeout
            | Kind::ProxyRefused
            | Kind::ProxyUnreachable
    )
}

fn received<D: Downstream>(client: &D, ctx: &RequestContext, noted: &RecordBuilder) -> ReceivedRequest {
    let is_control = noted.source == RecordSource::Control;
    let request = client.request();
    // Admission refuses a path with a key in it: only a request without an attempt may have one.
    let uri = if noted.attempts.all.is_empty() {
        KeySearch::new(&request.headers, &request.uri, &ctx.snapshot.service_keys).kept_uri(&request.uri)
    } else {
        request.uri.clone()
    };
    let trusted = &ctx.snapshot.settings.listen.trusted_proxies;
    ReceivedRequest {
        client_address: client.peer_address().map(|peer| client_address(peer, &request.headers, trusted)),
        method: request.method.clone(),
        uri,
        operation: if is_control { "control" } else { ctx.api.operation.label() },
        bytes: noted.traffic.bytes_in,
    }
}

/// `last`: the time of the last attempt, where it does not count yet.
fn times(noted: &RecordBuilder, started: Instant, total: Duration, last: Duration) -> RequestTimes {
    let since_start = |moment: Option<Instant>| moment.map(|moment| moment.duration_since(started));
    RequestTimes {
        began: began(total),
        total,
        overhead: total
            .saturating_sub(noted.attempts.upstream + last + noted.traffic.body_wait + noted.traffic.queued),
        queued: noted.traffic.queued,
        to_first_byte: since_start(noted.traffic.first_byte),
        to_first_token: since_start(noted.traffic.first_token),
    }
}

/// The status that the client got, or would have got.
fn status(sent: Option<u16>, error: Option<&Error>) -> u16 {
    match (sent, error) {
        (Some(status), _) => status,
        (None, Some(error)) => error.status(),
        (None, None) => Kind::ClientClosed.row().status,
    }
}

impl Finished {
    /// Counts what no provider reported: with the tokenizer or by a rule.
    pub fn count(&mut self, tokenizer: &Tokenizer, with_tokenizer: bool) {
        let count = |text: &str| tokenizer.count(text);
        let count = if with_tokenizer { CountText::By(&count) } else { CountText::ByRule };
        for (index, uncounted) in self.uncounted.drain(..) {
            if let Some(attempt) = self.record.routed.attempts.get_mut(index) {
                attempt.used = Some(uncounted.count(&count));
            }
        }
    }

    /// The record with what each attempt cost.
    pub fn priced(self, prices: &RequestPrices) -> Box<RequestRecord> {
        let mut record = self.record;
        let Routed { attempts, is_batch, .. } = &mut record.routed;
        for attempt in &mut *attempts {
            cost::price(prices, attempt, *is_batch, record.times.began);
        }
        record.cost = cost::of_request(attempts);
        record
    }
}

/// When a request began that took so long and ends now.
fn began(total: Duration) -> Timestamp {
    let now = Timestamp::now();
    now.checked_sub(total).unwrap_or(now)
}
