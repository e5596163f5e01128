//! What we remember of a request: one record, from which the access line and the metrics are made.
//!
//! Filled in along the way, read once at the end. Never holds a key, a body or a raw header.

use super::Gateway;
use super::ctx::{Ctx, Errand, Noted};
use super::line::{Line, key};
use crate::api::usage::Usage;
use crate::error::{Error, Kind};
use crate::route::leaf::Leaf;
use crate::route::plan::Why;
use crate::state::metrics::{Finished, status_text};
use pingora_proxy::Session;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// The most attempts of one request that are counted.
const MOST_COUNTED: usize = 1000;
/// The most attempts one line tells of.
const MOST_TOLD: usize = 16;
/// The most of an error's text one line carries, bytes.
const MOST_TEXT: usize = 600;
/// The most of a name the caller or the provider chose (a path, a model), bytes.
const MOST_NAME: usize = 512;

/// Findings of a request under way.
#[derive(Debug, Default)]
pub struct Record {
    pub key: Option<Arc<str>>,
    /// The control plane answered it.
    pub by_control: bool,
    pub streamed: bool,
    /// One target and one try: there is no story.
    pub is_plain: bool,
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
    tries: Vec<Try>,
    /// Time spent at providers by attempts that came to nothing.
    upstream: Duration,
    /// The last attempt is among them.
    last_counted: bool,
}

/// One attempt, as the access line tells it.
#[derive(Debug)]
struct Try {
    leaf: Arc<Leaf>,
    status: Option<u16>,
    error: Option<&'static str>,
    why: Why,
    begun: Option<Instant>,
    spent: Duration,
}

impl Record {
    /// Notes what an attempt came to.
    pub fn tried(&mut self, errand: &Errand, why: Why, error: Option<&Error>) {
        let (begun, status) = errand.marks.read(|noted| (noted.begun, noted.status));
        let spent = begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        let error = error.map(|error| error.kind.row().code);
        self.push(Try { leaf: Arc::clone(&errand.attempt.leaf), status, error, why, begun, spent });
        let failed = error.is_some() || status.is_some_and(|status| status >= 300);
        if failed {
            self.upstream += spent;
        }
        self.last_counted = failed;
    }

    /// The last attempt's answer had a good status and told an error all the same.
    pub fn failed_inside(&mut self, status: u16) {
        if let Some(last) = self.tries.last_mut() {
            last.status = Some(status);
            if !std::mem::replace(&mut self.last_counted, true) {
                self.upstream += last.spent;
            }
        }
    }

    /// Time that passed without the gateway doing anything.
    pub fn waited(&mut self, wait: Duration) {
        self.upstream += wait;
    }

    /// An attempt that could not be made at its target.
    pub fn refused(&mut self, leaf: &Arc<Leaf>, why: Why, error: &Error) {
        let error = Some(error.kind.row().code);
        self.push(Try {
            leaf: Arc::clone(leaf),
            status: None,
            error,
            why,
            begun: None,
            spent: Duration::ZERO,
        });
    }

    /// An attempt that another one beside it was quicker than.
    pub fn outrun(&mut self, errand: &Errand, why: Why) {
        let spent = errand.marks.read(|noted| noted.begun).map_or(Duration::ZERO, |begun| begun.elapsed());
        let leaf = Arc::clone(&errand.attempt.leaf);
        self.push(Try { leaf, status: None, error: Some("outrun"), why, begun: None, spent });
    }

    /// The answer of the last attempt broke after it began.
    pub fn broke(&mut self, error: &Error) {
        if let Some(last) = self.tries.last_mut() {
            last.error = Some(error.kind.row().code);
            last.spent = last.begun.map_or(last.spent, |begun| begun.elapsed());
            self.upstream += last.spent;
        }
        self.last_counted = true;
    }

    fn push(&mut self, attempt: Try) {
        if self.tries.len() < MOST_COUNTED {
            self.tries.push(attempt);
        }
    }

    /// Whether the attempts are worth a header: there could have been more than one, or the answer is a stream.
    pub fn is_a_story(&self) -> bool {
        !self.tries.is_empty() && (self.streamed || !self.is_plain)
    }

    /// The attempts in one line: target, what came of it, milliseconds (`x-gateway-attempts`).
    pub fn attempts_text(&self) -> String {
        let mut text = String::with_capacity(32 * self.tries.len());
        for attempt in self.tries.iter().take(MOST_TOLD) {
            if !text.is_empty() {
                text.push_str(", ");
            }
            let ms = attempt.spent.as_millis();
            // Writing into a String cannot fail.
            let _ = match (attempt.error, attempt.status) {
                (Some(error), _) => write!(text, "{}:{error}:{ms}", attempt.leaf.index),
                (None, Some(status)) => write!(text, "{}:{status}:{ms}", attempt.leaf.index),
                (None, None) => write!(text, "{}:-:{ms}", attempt.leaf.index),
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
struct Sum {
    total: Duration,
    overhead: Duration,
    status: u16,
    usage: Option<Usage>,
    failed: Option<Error>,
    errand: Option<Errand>,
}

/// Closes the record: metrics, then the access line.
pub(super) fn finish(gateway: &Gateway, session: &mut Session, ctx: &mut Ctx) {
    if let Some(tap) = &mut ctx.tap {
        tap.finish();
    }
    let sum = sum_up(session, ctx);
    count(gateway, ctx, &sum);
    gateway
        .shared
        .access_log
        .line(SystemTime::now(), |out, stamp| write_line(out, stamp, session, ctx, &sum));
    ctx.under_way = None;
}

fn sum_up(session: &Session, ctx: &mut Ctx) -> Sum {
    let now = Instant::now();
    let total = now.duration_since(ctx.started);
    let failed = ctx.failure.take();
    let errand = ctx.errand.take();
    let (answered, last) = match &errand {
        Some(errand) => errand.marks.read(|noted| (noted.status.is_some(), upstream_time(noted, now))),
        None => (false, Duration::ZERO),
    };
    if let Some(errand) = errand.as_ref().filter(|_| ctx.record.tries.is_empty()) {
        ctx.record.tried(errand, Why::Only, failed.as_ref().filter(|_| !answered));
    }
    // An answer that broke after it began is no success of the provider's, whatever its status was.
    if let (Some(error), Some(attempt)) = (&failed, ctx.record.tries.last_mut())
        && matches!(error.kind, Kind::Unreachable | Kind::InvalidResponse | Kind::UpstreamTimeout)
    {
        attempt.error = Some(error.kind.row().code);
    }
    let status = match (session.response_written(), &failed) {
        (Some(head), _) => head.status.as_u16(),
        (None, Some(error)) => error.status(),
        (None, None) => Kind::ClientClosed.row().status,
    };
    let last = if ctx.record.last_counted { Duration::ZERO } else { last };
    let overhead = total.saturating_sub(ctx.record.upstream + last + ctx.record.body_wait);
    let usage = ctx.learned().and_then(|learned| learned.usage);
    Sum { total, overhead, status, usage, failed, errand }
}

fn count(gateway: &Gateway, ctx: &Ctx, sum: &Sum) {
    let metrics = &gateway.shared.metrics;
    // Here, not where a failure is told: a stream's is told in its last event, a caller that left hears none.
    if let Some(error) = &sum.failed {
        metrics.failed(error.kind);
    }
    for attempt in &ctx.record.tries {
        let outcome = match (attempt.error, attempt.status) {
            (Some(code), _) => code,
            (None, Some(status)) if status >= 400 => status_text(status),
            _ => "answered",
        };
        metrics.attempted(attempt.leaf.provider.id(), &attempt.leaf.index, outcome);
    }
    let attempt = sum.errand.as_ref().map(|errand| &errand.attempt);
    metrics.finished(&Finished {
        operation: operation(ctx),
        provider: attempt.map_or("", |attempt| attempt.leaf.provider.id()),
        model: attempt.and_then(|attempt| attempt.model.as_deref()).unwrap_or_default(),
        status: sum.status,
        total: sum.total,
        first_chunk: ctx.record.first_byte.filter(|_| ctx.record.streamed).map(|at| at - ctx.started),
        overhead: sum.overhead,
        input_tokens: sum.usage.map(|usage| usage.input),
        output_tokens: sum.usage.map(|usage| usage.output),
        bytes_in: ctx.record.bytes_in,
        bytes_out: ctx.record.bytes_out,
    });
}

/// The access line. Its keys are a promise: `docs/access-log.md`.
fn write_line(out: &mut Vec<u8>, stamp: &str, session: &Session, ctx: &Ctx, sum: &Sum) {
    let record = &ctx.record;
    let head = session.req_header();
    let attempt = sum.errand.as_ref().map(|errand| &errand.attempt);
    let leaf = attempt.map(|attempt| &attempt.leaf);
    let learned = ctx.learned();
    let mut line = Line::open(out);
    line.text(key!("ts"), stamp);
    line.text(key!("trace_id"), &ctx.trace_id);
    line.maybe(key!("key"), record.key.as_deref());
    if let Some(inet) = session.client_addr().and_then(|address| address.as_inet()) {
        line.address(key!("caller"), inet.ip());
    }
    line.text(key!("method"), head.method.as_str());
    line.text(key!("path"), clipped(head.uri.path(), MOST_NAME));
    line.text(key!("operation"), operation(ctx));
    line.maybe(key!("provider"), leaf.map(|leaf| leaf.provider.id()));
    line.maybe(key!("slug"), leaf.and_then(|leaf| leaf.slug.as_deref()));
    line.maybe(key!("model"), name(attempt.and_then(|attempt| attempt.model.as_deref())));
    line.maybe(key!("response_model"), name(learned.and_then(|learned| learned.model.as_deref())));
    line.number(key!("status"), sum.status.into());
    line.flag(key!("stream"), record.streamed);
    line.number(key!("bytes_in"), record.bytes_in);
    line.number(key!("bytes_out"), record.bytes_out);
    if let Some(usage) = &sum.usage {
        line.object(key!("tokens"), |tokens| write_tokens(tokens, usage));
    }
    line.maybe(key!("finish_reason"), name(learned.and_then(|learned| learned.finish.as_deref())));
    line.maybe(key!("provider_error"), name(learned.and_then(|learned| learned.error.as_deref())));
    if let Some(warnings) = attempt.map(|attempt| &attempt.warnings).filter(|warnings| !warnings.is_empty()) {
        line.text(key!("warnings"), clipped(&warnings.join("; "), MOST_TEXT));
    }
    let told = record.tries.get(..MOST_TOLD).unwrap_or(&record.tries);
    line.list(key!("attempts"), told, write_try);
    for (name, moment) in [(key!("ttfb_ms"), record.first_byte), (key!("ttft_ms"), record.first_token)] {
        if let Some(moment) = moment {
            line.millis(name, moment.duration_since(ctx.started));
        }
    }
    line.millis(key!("total_ms"), sum.total);
    line.millis(key!("overhead_ms"), sum.overhead);
    if let Some(error) = &sum.failed {
        line.text(key!("error_code"), error.kind.row().code);
        line.text(key!("error"), &shortened(error.to_string()));
    }
    if let Some(metadata) = &record.metadata {
        line.raw(key!("metadata"), metadata.get());
    }
    line.close();
}

/// In OpenAI's sense: `input` includes cached ones, `output` includes reasoning.
fn write_tokens(line: &mut Line<'_>, usage: &Usage) {
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

fn write_try(line: &mut Line<'_>, attempt: &Try) {
    line.text(key!("target"), &attempt.leaf.index);
    line.text(key!("provider"), attempt.leaf.provider.id());
    if let Some(status) = attempt.status {
        line.number(key!("status"), status.into());
    }
    line.maybe(key!("error"), attempt.error);
    line.text(key!("why"), attempt.why.word());
    line.millis(key!("ms"), attempt.spent);
}

/// What was asked for, in the words of the line and the metrics.
fn operation(ctx: &Ctx) -> &'static str {
    if ctx.record.by_control { "control" } else { ctx.operation.label() }
}

/// How long the last attempt was with the provider.
fn upstream_time(noted: &Noted, now: Instant) -> Duration {
    noted.begun.map_or(Duration::ZERO, |begun| noted.ended.unwrap_or(now).duration_since(begun))
}

/// A long story is cut: it is in the answer, the line is for finding it.
fn shortened(mut text: String) -> String {
    if text.len() > MOST_TEXT {
        text.truncate(clipped(&text, MOST_TEXT).len());
        text.push('…');
    }
    text
}

/// What somebody else chose to call a thing, cut to a length.
fn name(text: Option<&str>) -> Option<&str> {
    text.map(|text| clipped(text, MOST_NAME))
}

/// The beginning of `text`, at most so many bytes of it.
fn clipped(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or(text)
}
