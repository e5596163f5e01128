//! What we remember of a request: one record, from which the access line and the metrics are made.
//!
//! Filled in along the way, read once at the end. Never holds a key, a body or a raw header.

use super::Engine;
use super::json_line::{JsonLine, key};
use super::request_context::{AttemptHandle, AttemptState, RequestContext};
use crate::api::usage::Usage;
use crate::error::{Error, Kind};
use crate::route::plan::Reason;
use crate::route::target::Target;
use crate::state::metrics::{FinishedRequest, status_text};
use pingora_proxy::Session;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// The most attempts of one request that are counted.
const MAX_ATTEMPTS_COUNTED: usize = 1000;
/// The most attempts one line tells of.
const MAX_ATTEMPTS_SHOWN: usize = 16;
/// The most of an error's text one line carries, bytes.
const MAX_TEXT_BYTES: usize = 600;
/// The most of a name the caller or the provider chose (a path, a model), bytes.
const MAX_NAME_BYTES: usize = 512;

/// Findings of a request under way.
#[derive(Debug, Default)]
pub struct Record {
    pub key: Option<Arc<str>>,
    /// The control plane answered it.
    pub is_control: bool,
    pub streamed: bool,
    /// One target and one try: there is no story.
    pub is_single_attempt: bool,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub first_byte: Option<Instant>,
    pub first_token: Option<Instant>,
    /// Time spent waiting for the caller's body: not the gateway's own.
    pub body_wait: Duration,
    /// Of the target at hand; -1 when they were used up.
    pub retries: i32,
    /// The caller's `x-gateway-metadata`, a JSON object.
    pub metadata: Option<Box<serde_json::value::RawValue>>,
    attempts: Vec<AttemptRecord>,
    /// Time spent at providers by attempts that came to nothing.
    upstream: Duration,
    /// The last attempt is among them.
    last_counted: bool,
}

/// One attempt, as the access line tells it.
#[derive(Debug)]
struct AttemptRecord {
    target: Arc<Target>,
    status: Option<u16>,
    error: Option<&'static str>,
    reason: Reason,
    started: Option<Instant>,
    spent: Duration,
}

impl Record {
    /// Notes what an attempt came to.
    pub fn attempt_finished(&mut self, handle: &AttemptHandle, reason: Reason, error: Option<&Error>) {
        let (started, status) = handle.state.read(|state| (state.sent_at, state.status));
        let spent = started.map_or(Duration::ZERO, |started| started.elapsed());
        let error = error.map(|error| error.kind.row().code);
        self.push(AttemptRecord {
            target: Arc::clone(&handle.attempt.target),
            status,
            error,
            reason,
            started,
            spent,
        });
        let failed = error.is_some() || status.is_some_and(|status| status >= 300);
        if failed {
            self.upstream += spent;
        }
        self.last_counted = failed;
    }

    /// The last attempt's answer had a good status and told an error all the same.
    pub fn error_in_success(&mut self, status: u16) {
        if let Some(last) = self.attempts.last_mut() {
            last.status = Some(status);
            if !std::mem::replace(&mut self.last_counted, true) {
                self.upstream += last.spent;
            }
        }
    }

    /// Time that passed without the gateway doing anything.
    pub fn add_wait(&mut self, wait: Duration) {
        self.upstream += wait;
    }

    /// An attempt that could not be made at its target.
    pub fn attempt_unsupported(&mut self, target: &Arc<Target>, reason: Reason, error: &Error) {
        let error = Some(error.kind.row().code);
        self.push(AttemptRecord {
            target: Arc::clone(target),
            status: None,
            error,
            reason,
            started: None,
            spent: Duration::ZERO,
        });
    }

    /// An attempt that another one beside it was quicker than.
    pub fn lost_race(&mut self, handle: &AttemptHandle, reason: Reason) {
        let spent =
            handle.state.read(|state| state.sent_at).map_or(Duration::ZERO, |started| started.elapsed());
        let target = Arc::clone(&handle.attempt.target);
        self.push(AttemptRecord {
            target,
            status: None,
            error: Some("outrun"),
            reason,
            started: None,
            spent,
        });
    }

    /// The answer of the last attempt broke after it began.
    pub fn response_broke(&mut self, error: &Error) {
        if let Some(last) = self.attempts.last_mut() {
            last.error = Some(error.kind.row().code);
            last.spent = last.started.map_or(last.spent, |started| started.elapsed());
            self.upstream += last.spent;
        }
        self.last_counted = true;
    }

    fn push(&mut self, attempt: AttemptRecord) {
        if self.attempts.len() < MAX_ATTEMPTS_COUNTED {
            self.attempts.push(attempt);
        }
    }

    /// Whether the attempts are worth a header: there could have been more than one, or the answer is a stream.
    pub fn shows_attempts(&self) -> bool {
        !self.attempts.is_empty() && (self.streamed || !self.is_single_attempt)
    }

    /// The attempts in one line: target, what came of it, milliseconds (`x-gateway-attempts`).
    pub fn attempts_text(&self) -> String {
        let mut text = String::with_capacity(32 * self.attempts.len());
        for attempt in self.attempts.iter().take(MAX_ATTEMPTS_SHOWN) {
            if !text.is_empty() {
                text.push_str(", ");
            }
            let ms = attempt.spent.as_millis();
            // Writing into a String cannot fail.
            let _ = match (attempt.error, attempt.status) {
                (Some(error), _) => write!(text, "{}:{error}:{ms}", attempt.target.path),
                (None, Some(status)) => write!(text, "{}:{status}:{ms}", attempt.target.path),
                (None, None) => write!(text, "{}:-:{ms}", attempt.target.path),
            };
        }
        text
    }

    /// Retries as header text, without allocating for the common ones.
    pub fn retries_text(&self) -> http::HeaderValue {
        match self.retries {
            0 => http::HeaderValue::from_static("0"),
            retries => http::HeaderValue::from(retries),
        }
    }
}

/// What is worked out once a request is over, for the metrics and the line alike.
struct RequestSummary {
    total: Duration,
    overhead: Duration,
    status: u16,
    usage: Option<Usage>,
    error: Option<Error>,
    handle: Option<AttemptHandle>,
}

/// Closes the record: metrics, then the access line.
pub(crate) fn finish(engine: &Engine, session: &mut Session, ctx: &mut RequestContext) {
    if let Some(tap) = &mut ctx.tap {
        tap.finish();
    }
    let summary = summarize(session, ctx);
    count(engine, ctx, &summary);
    engine
        .shared
        .access_log
        .line(SystemTime::now(), |out, stamp| write_line(out, stamp, session, ctx, &summary));
    ctx.in_flight = None;
}

fn summarize(session: &Session, ctx: &mut RequestContext) -> RequestSummary {
    let now = Instant::now();
    let total = now.duration_since(ctx.started);
    let failed = ctx.failure.take();
    let handle = ctx.attempt_handle.take();
    let (got_response, last) = match &handle {
        Some(handle) => handle.state.read(|state| (state.status.is_some(), upstream_time(state, now))),
        None => (false, Duration::ZERO),
    };
    if let Some(handle) = handle.as_ref().filter(|_| ctx.record.attempts.is_empty()) {
        ctx.record.attempt_finished(handle, Reason::Only, failed.as_ref().filter(|_| !got_response));
    }
    // An answer that broke after it began is no success of the provider's, whatever its status was.
    if let (Some(error), Some(attempt)) = (&failed, ctx.record.attempts.last_mut())
        && matches!(error.kind, Kind::Unreachable | Kind::InvalidResponse | Kind::UpstreamTimeout)
    {
        attempt.error = Some(error.kind.row().code);
    }
    let status = match (session.response_written(), &failed) {
        (Some(header), _) => header.status.as_u16(),
        (None, Some(error)) => error.status(),
        (None, None) => Kind::ClientClosed.row().status,
    };
    let last = if ctx.record.last_counted { Duration::ZERO } else { last };
    let overhead = total.saturating_sub(ctx.record.upstream + last + ctx.record.body_wait);
    let usage = ctx.response_summary().and_then(|response_summary| response_summary.usage);
    RequestSummary { total, overhead, status, usage, error: failed, handle }
}

fn count(engine: &Engine, ctx: &RequestContext, summary: &RequestSummary) {
    let metrics = &engine.shared.metrics;
    // Here, not where a failure is told: a stream's is told in its last event, a caller that left hears none.
    if let Some(error) = &summary.error {
        metrics.record_error(error.kind);
    }
    for attempt in &ctx.record.attempts {
        let outcome = match (attempt.error, attempt.status) {
            (Some(code), _) => code,
            (None, Some(status)) if status >= 400 => status_text(status),
            _ => "answered",
        };
        metrics.record_attempt(attempt.target.provider.id(), &attempt.target.path, outcome);
    }
    let attempt = summary.handle.as_ref().map(|handle| &handle.attempt);
    metrics.record_request(&FinishedRequest {
        operation: operation(ctx),
        provider: attempt.map_or("", |attempt| attempt.target.provider.id()),
        model: attempt.and_then(|attempt| attempt.model.as_deref()).unwrap_or_default(),
        status: summary.status,
        total: summary.total,
        first_chunk: ctx.record.first_byte.filter(|_| ctx.record.streamed).map(|at| at - ctx.started),
        overhead: summary.overhead,
        input_tokens: summary.usage.map(|usage| usage.input),
        output_tokens: summary.usage.map(|usage| usage.output),
        bytes_in: ctx.record.bytes_in,
        bytes_out: ctx.record.bytes_out,
    });
}

/// The access line. Its keys are a promise: `docs/access-log.md`.
fn write_line(
    out: &mut Vec<u8>,
    stamp: &str,
    session: &Session,
    ctx: &RequestContext,
    summary: &RequestSummary,
) {
    let record = &ctx.record;
    let header = session.req_header();
    let attempt = summary.handle.as_ref().map(|handle| &handle.attempt);
    let target = attempt.map(|attempt| &attempt.target);
    let response_summary = ctx.response_summary();
    let mut line = JsonLine::open(out);
    line.text(key!("ts"), stamp);
    line.text(key!("trace_id"), &ctx.trace_id);
    line.optional_text(key!("key"), record.key.as_deref());
    if let Some(inet) = session.client_addr().and_then(|address| address.as_inet()) {
        line.address(key!("caller"), inet.ip());
    }
    line.text(key!("method"), header.method.as_str());
    line.text(key!("path"), clipped(header.uri.path(), MAX_NAME_BYTES));
    line.text(key!("operation"), operation(ctx));
    line.optional_text(key!("provider"), target.map(|target| target.provider.id()));
    line.optional_text(key!("slug"), target.and_then(|target| target.slug.as_deref()));
    line.optional_text(key!("model"), name(attempt.and_then(|attempt| attempt.model.as_deref())));
    line.optional_text(
        key!("response_model"),
        name(response_summary.and_then(|response_summary| response_summary.model.as_deref())),
    );
    line.number(key!("status"), summary.status.into());
    line.flag(key!("stream"), record.streamed);
    line.number(key!("bytes_in"), record.bytes_in);
    line.number(key!("bytes_out"), record.bytes_out);
    if let Some(usage) = &summary.usage {
        line.object(key!("tokens"), |tokens| write_tokens(tokens, usage));
    }
    line.optional_text(
        key!("finish_reason"),
        name(response_summary.and_then(|response_summary| response_summary.finish.as_deref())),
    );
    line.optional_text(
        key!("provider_error"),
        name(response_summary.and_then(|response_summary| response_summary.error.as_deref())),
    );
    if let Some(warnings) = attempt.map(|attempt| &attempt.warnings).filter(|warnings| !warnings.is_empty()) {
        line.text(key!("warnings"), clipped(&warnings.join("; "), MAX_TEXT_BYTES));
    }
    let shown = record.attempts.get(..MAX_ATTEMPTS_SHOWN).unwrap_or(&record.attempts);
    line.list(key!("attempts"), shown, write_attempt);
    for (name, moment) in [(key!("ttfb_ms"), record.first_byte), (key!("ttft_ms"), record.first_token)] {
        if let Some(moment) = moment {
            line.millis(name, moment.duration_since(ctx.started));
        }
    }
    line.millis(key!("total_ms"), summary.total);
    line.millis(key!("overhead_ms"), summary.overhead);
    if let Some(error) = &summary.error {
        line.text(key!("error_code"), error.kind.row().code);
        line.text(key!("error"), &shortened(error.to_string()));
    }
    if let Some(metadata) = &record.metadata {
        line.raw(key!("metadata"), metadata.get());
    }
    line.close();
}

/// In OpenAI's sense: `input` includes cached ones, `output` includes reasoning.
fn write_tokens(line: &mut JsonLine<'_>, usage: &Usage) {
    line.number(key!("input"), usage.input);
    line.number(key!("output"), usage.output);
    let details = [
        (key!("cached"), usage.cached),
        (key!("cache_write"), usage.cache_write),
        (key!("reasoning"), usage.reasoning),
    ];
    for (name, count) in details.into_iter().filter(|(_, count)| *count > 0) {
        line.number(name, count);
    }
}

fn write_attempt(line: &mut JsonLine<'_>, attempt: &AttemptRecord) {
    line.text(key!("target"), &attempt.target.path);
    line.text(key!("provider"), attempt.target.provider.id());
    if let Some(status) = attempt.status {
        line.number(key!("status"), status.into());
    }
    line.optional_text(key!("error"), attempt.error);
    line.text(key!("why"), attempt.reason.as_str());
    line.millis(key!("ms"), attempt.spent);
}

/// What was asked for, in the words of the line and the metrics.
fn operation(ctx: &RequestContext) -> &'static str {
    if ctx.record.is_control { "control" } else { ctx.operation.label() }
}

/// How long the last attempt was with the provider.
fn upstream_time(state: &AttemptState, now: Instant) -> Duration {
    state.sent_at.map_or(Duration::ZERO, |started| state.ended_at.unwrap_or(now).duration_since(started))
}

/// A long story is cut: it is in the answer, the line is for finding it.
fn shortened(mut text: String) -> String {
    if text.len() > MAX_TEXT_BYTES {
        text.truncate(clipped(&text, MAX_TEXT_BYTES).len());
        text.push('…');
    }
    text
}

/// What somebody else chose to call a thing, cut to a length.
fn name(text: Option<&str>) -> Option<&str> {
    text.map(|text| clipped(text, MAX_NAME_BYTES))
}

/// The beginning of `text`, at most so many bytes of it.
fn clipped(text: &str, max_len: usize) -> &str {
    text.get(..text.floor_char_boundary(max_len)).unwrap_or(text)
}
