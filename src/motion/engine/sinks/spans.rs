//! Makes the spans of each finished request: one for the request, one for each of its attempts, with attributes of the OpenTelemetry
//! conventions for HTTP and for generative AI.
//!
//! Never a header or a key, and bodies only where the settings want them (`telemetry.otlp.payloads`). Which traces are sent is decided here, sending them is `main`'s (`state::span_queue`).

use super::{RecordSink, span_messages, span_request};
use crate::engine::hook_notes::HookSide;
use crate::engine::payload_capture::PayloadCapture;
use crate::engine::record::{AttemptRecord, RequestRecord};
use bytes::Bytes;
use knowledge::price::{Cost, money};
use memory::state::Shared;
use memory::state::span_queue::{SpanQueue, Trace};
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, StringValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Instant, SystemTime};
use words::api::usage::Usage;
use words::settings::GuardrailSettings;

/// The sink that makes spans.
pub(super) struct SpanSink(pub Arc<Shared>);

impl RecordSink for SpanSink {
    fn record(&self, record: &RequestRecord) {
        let Some(queue) = self.0.spans.get() else { return };
        // Routes of the control plane are no calls of models.
        if record.request.operation == "control" {
            return;
        }
        if self.trace(record, queue).is_some_and(|trace| !queue.push(trace)) {
            self.0.metrics.count_traces("dropped", 1);
        }
    }
}

impl SpanSink {
    /// What is sent for a request; `None` where its trace is not.
    fn trace(&self, record: &RequestRecord, queue: &SpanQueue) -> Option<Trace> {
        let mut spans = spans(record, queue)?;
        let max_bytes = queue.max_payload_bytes().filter(|_| record.capture.is_some());
        let held = max_bytes.zip(spans.first_mut()).and_then(|(max_bytes, span)| {
            let bodies = bodies(record, max_bytes, &self.0.settings_arc().settings.guardrails);
            let mut held = self.0.held_bytes.holder();
            // Where the process holds too much already, the trace goes without them.
            held.set(bodies.iter().map(|(_, text)| text.len()).sum()).ok()?;
            let attributes = bodies.into_iter().map(|(name, text)| KeyValue::new(name, text));
            span.attributes.extend(attributes);
            Some(held)
        });
        Some(Trace { spans, held })
    }
}

/// The beginnings of request and response, without our own credentials.
fn bodies(
    record: &RequestRecord,
    max_bytes: usize,
    settings: &GuardrailSettings,
) -> Vec<(&'static str, String)> {
    let Some(capture) = &record.capture else { return Vec::new() };
    let is_withheld = record.is_withheld(HookSide::Request, settings);
    let mask = record.routed.attempt.as_ref().map(|attempt| attempt.credential_mask());
    let text = |body: &[u8]| {
        let body = Bytes::copy_from_slice(body);
        let body = mask.as_ref().map_or_else(|| body.clone(), |mask| mask.bytes(body.clone()));
        let readable = match std::str::from_utf8(&body) {
            Ok(text) => text,
            // It was cut within a character. Anything else is no text, but audio or a compressed body.
            Err(error) if error.error_len().is_none() => {
                let whole = body.get(..error.valid_up_to()).unwrap_or_default();
                std::str::from_utf8(whole).unwrap_or_default()
            }
            Err(_) => "",
        };
        readable.get(..readable.floor_char_boundary(max_bytes)).unwrap_or_default().to_owned()
    };
    let request = if is_withheld { String::new() } else { text(&capture.request) };
    let response = text(&capture.response.bytes);
    let mut found = messages(record, capture, &request, &response);
    found.extend([("turnpike.request.body", request), ("turnpike.response.body", response)]);
    found.retain(|(_, text)| !text.is_empty());
    found
}

/// The same as messages, of those bodies that are there whole.
fn messages(
    record: &RequestRecord,
    capture: &PayloadCapture,
    request: &str,
    response: &str,
) -> Vec<(&'static str, String)> {
    let Some(attempt) = &record.routed.attempt else { return Vec::new() };
    let is_whole = |text: &str, length: u64| u64::try_from(text.len()) == Ok(length);
    let mut found = Vec::new();
    if is_whole(request, capture.request_len) {
        found.extend(span_messages::of_request(attempt.operation, request));
    }
    if is_whole(response, capture.response.len) {
        found.extend(span_messages::of_response(attempt.operation, record.response.streamed, response));
    }
    found
}

/// The spans of a request, its own first; `None` where its trace is not sent.
fn spans(record: &RequestRecord, queue: &SpanQueue) -> Option<Vec<SpanData>> {
    let id = queue.sampled(record.span.parent.as_ref(), &record.span.trace_id)?;
    let now = Now { monotonic: Instant::now(), wall: SystemTime::now() };
    // The record may have waited for tokens to be counted.
    let start = now.wall_at(record.span.started);
    let over = start.checked_add(record.times.total).unwrap_or(now.wall);
    let own = SpanId::from_bytes(fastrand::u64(1..).to_be_bytes());
    let mut spans = Vec::with_capacity(record.routed.attempts.len() + 1);
    let parent = record.span.parent.map_or(0, |parent| parent.span());
    let body = record.routed.attempt.as_ref().and_then(|attempt| attempt.body.as_deref());
    let of_body = body.map(span_request::of_body).unwrap_or_default();
    spans.push(SpanData {
        parent_span_is_remote: record.span.parent.is_some(),
        span_kind: SpanKind::Server,
        name: name(record.request.operation, record.model()),
        attributes: of_request(record, &of_body),
        status: status(
            record.response.error.as_ref().map(|error| error.kind.row().code),
            record.response.status,
            500,
        ),
        ..span(id, own, parent, start..over)
    });
    for attempt in &record.routed.attempts {
        // One that was refused before it was made took no time.
        let begin = attempt.time.started.map_or(over, |started| now.wall_at(started));
        let end = begin.checked_add(attempt.time.spent).unwrap_or(begin).min(over);
        let code = attempt.status.unwrap_or_default();
        // The provider got this id. An attempt that was never sent has none.
        let span_id = attempt.span.unwrap_or_else(|| fastrand::u64(1..));
        spans.push(SpanData {
            span_kind: SpanKind::Client,
            name: name(record.request.operation, attempt.model.as_deref()),
            attributes: of_attempt(record, attempt, &of_body),
            status: status(attempt.error, code, 400),
            ..span(
                id,
                SpanId::from_bytes(span_id.to_be_bytes()),
                u64::from_be_bytes(own.to_bytes()),
                begin..end,
            )
        });
    }
    Some(spans)
}

/// A span without its name, kind and attributes.
fn span(trace: u128, own: SpanId, parent: u64, time: Range<SystemTime>) -> SpanData {
    let trace = TraceId::from_bytes(trace.to_be_bytes());
    SpanData {
        span_context: SpanContext::new(trace, own, TraceFlags::SAMPLED, false, TraceState::NONE),
        parent_span_id: SpanId::from_bytes(parent.to_be_bytes()),
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name: Cow::Borrowed(""),
        start_time: time.start,
        end_time: time.end,
        attributes: Vec::new(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: Status::Unset,
        instrumentation_scope: InstrumentationScope::builder("turnpike")
            .with_version(env!("CARGO_PKG_VERSION"))
            .build(),
    }
}

/// The same moment by both clocks.
struct Now {
    monotonic: Instant,
    wall: SystemTime,
}

impl Now {
    /// A past moment by the wall's clock.
    fn wall_at(&self, moment: Instant) -> SystemTime {
        self.wall.checked_sub(self.monotonic.saturating_duration_since(moment)).unwrap_or(self.wall)
    }
}

/// `chat gpt-4o`, as the conventions name spans of generative AI.
fn name(operation: &'static str, model: Option<&str>) -> Cow<'static, str> {
    match model {
        Some(model) => Cow::Owned(format!("{} {model}", operation_name(operation))),
        None => Cow::Borrowed(operation_name(operation)),
    }
}

/// `errors_from`: the first status that is an error; a server's span has none for what its client did wrong.
fn status(error: Option<&'static str>, status: u16, errors_from: u16) -> Status {
    match error {
        Some(code) if status == 0 || status >= errors_from => Status::error(code),
        None if status >= errors_from => Status::error(status.to_string()),
        _ => Status::Unset,
    }
}

/// `of_body`: as for [`of_attempt`].
fn of_request(record: &RequestRecord, of_body: &[KeyValue]) -> Vec<KeyValue> {
    let mut attributes = Attributes::default();
    attributes.text("http.request.method", record.request.method.as_str());
    attributes.text("url.path", record.request.uri.path());
    attributes.number("http.response.status_code", record.response.status.into());
    attributes.text("gen_ai.operation.name", operation_name(record.request.operation));
    if let Some(attempt) = &record.routed.attempt {
        attributes.text("gen_ai.provider.name", provider_name(attempt.target.provider.id()));
        attributes.optional("gen_ai.request.model", attempt.model.as_deref());
        attributes.0.extend_from_slice(of_body);
    }
    let response = &record.response.observed;
    attributes.optional("gen_ai.response.id", response.id.as_deref());
    attributes.optional("gen_ai.response.model", response.model.as_deref());
    attributes.list("gen_ai.response.finish_reasons", response.finish.as_deref());
    if let Some(usage) = record.usage() {
        attributes.usage(usage);
    }
    match (&record.response.error, record.response.status) {
        (Some(error), _) => attributes.text("error.type", error.kind.row().code),
        (None, status @ 400..) => attributes.text("error.type", &status.to_string()),
        _ => {}
    }
    attributes.cost(record.cost.as_ref());
    if let Some(time) = record.times.to_first_token {
        attributes.0.push(KeyValue::new("turnpike.time_to_first_token", time.as_secs_f64()));
    }
    attributes.0.push(KeyValue::new("turnpike.overhead", record.times.overhead.as_secs_f64()));
    attributes.0.push(KeyValue::new("turnpike.stream", record.response.streamed));
    attributes.text("turnpike.trace_id", &record.span.trace_id);
    if let Some(client) = &record.client {
        attributes.optional("turnpike.key", client.name.as_deref());
        let user = record.user();
        attributes.optional("user.id", user.as_deref().filter(|user| !user.is_empty()));
    }
    attributes.optional("turnpike.prompt", record.prompt().map(|found| found.prompt.slug.as_str()));
    attributes.0
}

/// `of_body`: what the body says that the provider got.
fn of_attempt(record: &RequestRecord, attempt: &AttemptRecord, of_body: &[KeyValue]) -> Vec<KeyValue> {
    let mut attributes = Attributes::default();
    let target = &attempt.target;
    attributes.text("gen_ai.operation.name", operation_name(record.request.operation));
    attributes.text("gen_ai.provider.name", provider_name(target.provider.id()));
    attributes.optional("gen_ai.request.model", attempt.model.as_deref());
    let origin = attempt.other_origin.as_deref().unwrap_or(&target.origin);
    attributes.text("server.address", origin.sni());
    attributes.number("server.port", origin.port.into());
    if let Some(status) = attempt.status {
        attributes.number("http.response.status_code", status.into());
    }
    match (attempt.error, attempt.status) {
        (Some(code), _) => attributes.text("error.type", code),
        (None, Some(status @ 400..)) => attributes.text("error.type", &status.to_string()),
        _ => {}
    }
    if let Some(used) = &attempt.used {
        attributes.optional("gen_ai.response.model", used.response_model.as_deref());
        attributes.usage(&used.usage);
    }
    attributes.cost(attempt.cost());
    if attempt.responded {
        attributes.0.extend_from_slice(of_body);
        attributes.optional("gen_ai.response.id", record.response.observed.id.as_deref());
        attributes.list("gen_ai.response.finish_reasons", record.response.observed.finish.as_deref());
    }
    attributes.number("turnpike.attempt", attempt.id.into());
    attributes.text("turnpike.target", &target.path);
    attributes.text("turnpike.reason", attempt.reason.as_str());
    attributes.optional("turnpike.provider", target.slug.as_deref());
    attributes.0
}

/// The longest text of an attribute, bytes: a client may send anything as a path or a model.
const MAX_TEXT: usize = 512;

#[derive(Default)]
struct Attributes(Vec<KeyValue>);

impl Attributes {
    fn text(&mut self, name: &'static str, value: &str) {
        self.0.push(KeyValue::new(name, clipped(value).to_owned()));
    }

    fn optional(&mut self, name: &'static str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(name, value);
        }
    }

    fn number(&mut self, name: &'static str, value: u64) {
        self.0.push(KeyValue::new(name, i64::try_from(value).unwrap_or(i64::MAX)));
    }

    /// A list of one.
    fn list(&mut self, name: &'static str, value: Option<&str>) {
        if let Some(value) = value {
            let items = vec![StringValue::from(clipped(value).to_owned())];
            self.0.push(KeyValue::new(name, Value::Array(items.into())));
        }
    }

    /// The conventions have no name for costs; this is the one that collectors for generative AI read.
    fn cost(&mut self, cost: Option<&Cost>) {
        let Some(cost) = cost else { return };
        if let Some(nanodollars) = cost.nanodollars {
            self.0.push(KeyValue::new("gen_ai.usage.cost", money::dollars(nanodollars)));
        }
        self.text("turnpike.cost_status", cost.status.as_str());
    }

    fn usage(&mut self, usage: &Usage) {
        self.number("gen_ai.usage.input_tokens", usage.input);
        self.number("gen_ai.usage.output_tokens", usage.output);
        for (name, count) in [
            ("gen_ai.usage.cache_read.input_tokens", usage.cached),
            ("gen_ai.usage.cache_creation.input_tokens", usage.cache_write),
            ("gen_ai.usage.reasoning.output_tokens", usage.reasoning),
        ] {
            if count > 0 {
                self.number(name, count);
            }
        }
    }
}

fn clipped(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_TEXT)).unwrap_or_default()
}

/// The convention's name of an operation; our own where it has none.
fn operation_name(label: &'static str) -> &'static str {
    match label {
        "messages" | "responses" => "chat",
        "generate_content" | "stream_generate_content" => "generate_content",
        label => label,
    }
}

/// The convention's name of a provider; our own where it has none.
fn provider_name(id: &'static str) -> &'static str {
    match id {
        "azure-openai" => "azure.ai.openai",
        "azure-ai" | "azure-foundry" => "azure.ai.inference",
        "bedrock" => "aws.bedrock",
        "google" => "gcp.gemini",
        "vertex-ai" => "gcp.vertex_ai",
        "mistral-ai" => "mistral_ai",
        "perplexity-ai" => "perplexity",
        "x-ai" => "x_ai",
        "moonshot" => "moonshot_ai",
        id => id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_error_is_no_error_of_the_server() {
        assert_eq!(status(Some("invalid_request"), 400, 500), Status::Unset);
        assert_eq!(status(Some("upstream_unreachable"), 502, 500), Status::error("upstream_unreachable"));
        assert_eq!(status(None, 429, 400), Status::error("429"));
        assert_eq!(status(Some("upstream_timeout"), 0, 400), Status::error("upstream_timeout"));
        assert_eq!(status(None, 200, 400), Status::Unset);
    }
}
