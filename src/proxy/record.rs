//! What we remember of a request: one record, from which the access line and the metrics are made.
//!
//! Filled in along the way, read once at the end. Never holds a key, a body or a raw header.

use super::Gateway;
use super::ctx::{Ctx, Errand, Noted};
use crate::api::usage::Usage;
use crate::error::{Error, Kind};
use crate::state::metrics::Finished;
use pingora_proxy::Session;
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, Instant};

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
    pub method: String,
    pub path: String,
    /// The control plane answered it.
    pub by_control: bool,
    pub streamed: bool,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub first_byte: Option<Instant>,
    pub first_token: Option<Instant>,
    /// Time spent waiting for the caller's body: not the gateway's own.
    pub body_wait: Duration,
    pub retries: u32,
    /// The caller's `x-gateway-metadata`, a JSON object.
    pub metadata: Option<Box<serde_json::value::RawValue>>,
    tries: Vec<Try>,
    /// Time spent at providers by attempts before the last one.
    upstream: Duration,
}

/// One attempt, as the access line tells it.
#[derive(Debug, Serialize)]
struct Try {
    target: String,
    provider: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
    ms: f64,
}

/// The access line. Its keys are a promise: `docs/access-log.md`.
#[derive(Serialize)]
struct Line<'a> {
    ts: String,
    trace_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<String>,
    method: &'a str,
    path: &'a str,
    operation: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slug: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_model: Option<&'a str>,
    status: u16,
    stream: bool,
    bytes_in: u64,
    bytes_out: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<Tokens>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish_reason: Option<&'a str>,
    attempts: &'a [Try],
    #[serde(skip_serializing_if = "Option::is_none")]
    ttfb_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttft_ms: Option<f64>,
    total_ms: f64,
    overhead_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a serde_json::value::RawValue>,
}

/// Tokens in OpenAI's sense: `input` includes cached ones, `output` includes reasoning.
#[derive(Serialize)]
struct Tokens {
    input: u64,
    output: u64,
    #[serde(skip_serializing_if = "is_zero")]
    cached: u64,
    #[serde(skip_serializing_if = "is_zero")]
    cache_write: u64,
    #[serde(skip_serializing_if = "is_zero")]
    reasoning: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Record {
    /// Notes what an attempt came to.
    pub fn tried(&mut self, errand: &Errand, error: Option<&Error>) {
        let noted = errand.marks.noted();
        let spent = noted.begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        if self.tries.len() < MOST_TOLD {
            let leaf = &errand.attempt.leaf;
            self.tries.push(Try {
                target: leaf.index.clone(),
                provider: leaf.provider.id(),
                status: noted.status.filter(|_| error.is_none()),
                error: error.map(|error| error.kind.row().code),
                ms: millis(spent),
            });
        }
        if error.is_some() {
            self.upstream += spent;
        }
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
    gateway.shared.access_log.line(|out| write_line(out, session, ctx, &sum));
    ctx.under_way = None;
}

fn sum_up(session: &Session, ctx: &mut Ctx) -> Sum {
    let now = Instant::now();
    let total = now.duration_since(ctx.started);
    let failed = ctx.failure.take();
    let errand = ctx.errand.take();
    let noted = errand.as_ref().map(|errand| errand.marks.noted()).unwrap_or_default();
    if let Some(errand) = errand.as_ref().filter(|_| ctx.record.tries.is_empty()) {
        ctx.record.tried(errand, failed.as_ref().filter(|_| noted.status.is_none()));
    }
    let status = match (session.response_written(), &failed) {
        (Some(head), _) => head.status.as_u16(),
        (None, Some(error)) => error.status(),
        (None, None) => Kind::CallerLeft.row().status,
    };
    // Failed attempts are in `upstream` already.
    let last = noted.status.map_or(Duration::ZERO, |_| upstream_time(&noted, now));
    let overhead = total.saturating_sub(ctx.record.upstream + last + ctx.record.body_wait);
    let usage = ctx.tap.as_ref().and_then(|tap| tap.learned().usage);
    Sum { total, overhead, status, usage, failed, errand }
}

fn count(gateway: &Gateway, ctx: &Ctx, sum: &Sum) {
    let metrics = &gateway.shared.metrics;
    for attempt in &ctx.record.tries {
        metrics.attempted(attempt.provider, attempt.error.unwrap_or("answered"));
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

fn write_line(out: &mut Vec<u8>, session: &Session, ctx: &Ctx, sum: &Sum) {
    let record = &ctx.record;
    let attempt = sum.errand.as_ref().map(|errand| &errand.attempt);
    let leaf = attempt.map(|attempt| &attempt.leaf);
    let learned = ctx.tap.as_ref().map(|tap| tap.learned());
    let since_start = |at: Option<Instant>| at.map(|at| millis(at.duration_since(ctx.started)));
    let line = Line {
        ts: format!("{:.3}", jiff::Timestamp::now()),
        trace_id: &ctx.trace_id,
        key: record.key.as_deref(),
        caller: session.client_addr().and_then(|address| address.as_inet()).map(|inet| inet.ip().to_string()),
        method: &record.method,
        path: clipped(&record.path, MOST_NAME),
        operation: operation(ctx),
        provider: leaf.map(|leaf| leaf.provider.id()),
        slug: leaf.and_then(|leaf| leaf.slug.as_deref()),
        model: attempt.and_then(|attempt| attempt.model.as_deref()).map(|name| clipped(name, MOST_NAME)),
        response_model: learned
            .and_then(|learned| learned.model.as_deref())
            .map(|name| clipped(name, MOST_NAME)),
        status: sum.status,
        stream: record.streamed,
        bytes_in: record.bytes_in,
        bytes_out: record.bytes_out,
        tokens: sum.usage.map(Tokens::from),
        finish_reason: learned
            .and_then(|learned| learned.finish.as_deref())
            .map(|name| clipped(name, MOST_NAME)),
        attempts: &record.tries,
        ttfb_ms: since_start(record.first_byte),
        ttft_ms: since_start(record.first_token),
        total_ms: millis(sum.total),
        overhead_ms: millis(sum.overhead),
        error_code: sum.failed.as_ref().map(|error| error.kind.row().code),
        error: sum.failed.as_ref().map(|error| shortened(error.to_string())),
        metadata: record.metadata.as_deref(),
    };
    // Writing JSON into a Vec cannot fail.
    let _ = serde_json::to_writer(out, &line);
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

/// The beginning of `text`, at most so many bytes of it.
fn clipped(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or(text)
}

fn millis(time: Duration) -> f64 {
    // Microseconds are enough, and a float with three decimals is short.
    (time.as_micros() as f64) / 1000.0
}

impl From<Usage> for Tokens {
    fn from(usage: Usage) -> Self {
        Self {
            input: usage.input,
            output: usage.output,
            cached: usage.cached,
            cache_write: usage.cache_write,
            reasoning: usage.reasoning,
        }
    }
}
