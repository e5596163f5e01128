//! Writes each finished request as one line of JSON to the access log. Its keys are stable: `docs/access-log.md`.
//!
//! Not where lines are written to (`state::access_log`).

use super::RecordSink;
use crate::engine::caching::{CacheNote, CacheStatus, NotStored};
use crate::engine::hook_notes::{HookNote, HookSide};
use crate::engine::record::{AttemptRecord, RequestRecord, RequestTimes, UsageSource};
use judgment::route::plan::Reason;
use knowledge::prompt::FoundPrompt;
use memory::state::Shared;
use std::sync::Arc;
use std::time::SystemTime;
use uuid::Uuid;
use words::api::tap::NO_REASON;
use words::api::usage::Usage;
use words::error::Error;
use words::json::write::{ObjectWriter, key, write_number};

/// The most attempts one line lists.
const MAX_ATTEMPTS_SHOWN: usize = 16;
/// The longest metadata that is written, bytes.
const MAX_METADATA_BYTES: usize = 4096;
/// The longest error text in one line, bytes.
const MAX_TEXT_BYTES: usize = 600;
/// The longest name chosen by the client or the provider (a path, a model), bytes.
const MAX_NAME_BYTES: usize = 512;

/// The sink that writes access lines.
pub(super) struct AccessLineSink(pub Arc<Shared>);

impl RecordSink for AccessLineSink {
    fn record(&self, record: &RequestRecord) {
        self.0.access_log.line(SystemTime::now(), |out, stamp| write_line(out, stamp, record));
    }
}

fn write_line(out: &mut Vec<u8>, stamp: &str, record: &RequestRecord) {
    let attempt = record.routed.attempt.as_ref();
    let target = attempt.map(|attempt| &attempt.target);
    let response = &record.response.observed;
    let mut line = ObjectWriter::open(out);
    line.text(key!("ts"), stamp);
    line.text(key!("trace_id"), &record.span.trace_id);
    let client = record.client.as_deref();
    line.optional_text(key!("key"), client.and_then(|client| client.name.as_deref()));
    if let Some(id) = client.and_then(|client| client.key_id) {
        line.text(key!("key_id"), id.as_hyphenated().encode_lower(&mut Uuid::encode_buffer()));
    }
    if let Some(address) = record.request.client_address {
        line.address(key!("caller"), address);
    }
    line.text(key!("method"), record.request.method.as_str());
    line.text(key!("path"), clipped(record.request.uri.path(), MAX_NAME_BYTES));
    line.text(key!("operation"), record.request.operation);
    line.optional_text(key!("provider"), target.map(|target| target.provider.id()));
    line.optional_text(key!("slug"), target.and_then(|target| target.slug.as_deref()));
    if let Some(FoundPrompt { prompt, version }) = record.prompt() {
        line.text(key!("prompt_slug"), clipped(&prompt.slug, MAX_NAME_BYTES));
        line.text(key!("prompt_version_id"), &version.id.to_string());
    }
    line.optional_text(key!("model"), name(record.model()));
    let requested = record.named.requested_model.as_deref().filter(|name| Some(*name) != record.model());
    line.optional_text(key!("requested_model"), name(requested));
    line.optional_text(key!("response_model"), name(response.model.as_deref()));
    line.number(key!("status"), record.response.status.into());
    line.flag(key!("stream"), record.response.streamed);
    line.number(key!("bytes_in"), record.request.bytes);
    line.number(key!("bytes_out"), record.response.bytes);
    write_charge(&mut line, record);
    if record.cache.status != CacheStatus::Disabled {
        line.object(key!("cache"), |line| write_cache(line, &record.cache));
    }
    if !record.hooks.is_empty() {
        line.list(key!("hooks"), &record.hooks, write_hook);
    }
    line.optional_text(key!("finish_reason"), name(response.finish.as_deref()));
    line.optional_text(key!("provider_error"), name(response.error.as_deref()));
    let warnings = attempt.iter().flat_map(|attempt| &attempt.warnings).map(String::as_str);
    let warnings: Vec<&str> = warnings.chain(response.lacks_reason.then_some(NO_REASON)).collect();
    if !warnings.is_empty() {
        line.text(key!("warnings"), clipped(&warnings.join("; "), MAX_TEXT_BYTES));
    }
    let shown = record.routed.attempts.get(..MAX_ATTEMPTS_SHOWN).unwrap_or(&record.routed.attempts);
    line.list(key!("attempts"), shown, write_attempt);
    write_times(&mut line, &record.times);
    if let Some(error) = &record.response.error {
        write_error(&mut line, error);
    }
    let metadata = record.named.metadata.as_ref();
    if let Some(metadata) = metadata.filter(|text| text.get().len() <= MAX_METADATA_BYTES) {
        line.raw(key!("metadata"), metadata.get());
    }
    line.close();
}

/// How long it took.
fn write_times(line: &mut ObjectWriter<'_>, times: &RequestTimes) {
    for (name, time) in [(key!("ttfb_ms"), times.to_first_byte), (key!("ttft_ms"), times.to_first_token)] {
        if let Some(time) = time {
            line.millis(name, time);
        }
    }
    if !times.queued.is_zero() {
        line.millis(key!("queued_ms"), times.queued);
    }
    line.millis(key!("total_ms"), times.total);
    line.millis(key!("overhead_ms"), times.overhead);
}

/// What the gateway reported, and which limit refused the request.
fn write_error(line: &mut ObjectWriter<'_>, error: &Error) {
    line.text(key!("error_code"), error.kind.row().code);
    line.text(key!("error"), &shortened(error.to_string()));
    if let Some(limit) = &error.limit {
        line.object(key!("limit"), |line| {
            line.text(key!("scope"), limit.scope);
            line.text(key!("id"), &limit.id);
            line.optional_text(key!("name"), limit.name.as_deref());
            line.text(key!("kind"), limit.kind);
        });
    }
}

/// What one hook decided.
fn write_hook(line: &mut ObjectWriter<'_>, hook: &HookNote) {
    line.text(key!("id"), clipped(&hook.id, MAX_NAME_BYTES));
    line.text(key!("on"), if hook.side == HookSide::Request { "request" } else { "response" });
    line.text(
        key!("verdict"),
        match (hook.is_denied, hook.is_passed) {
            (true, _) => "denied",
            (false, true) => "passed",
            (false, false) => "failed",
        },
    );
    if hook.is_changed {
        line.flag(key!("changed"), true);
    }
    if hook.errors > 0 {
        line.number(key!("errors"), hook.errors as u64);
    }
    line.millis(key!("ms"), hook.time);
}

/// How the cache took part.
fn write_cache(line: &mut ObjectWriter<'_>, note: &CacheNote) {
    line.text(key!("status"), note.status.as_str());
    if let Some(key) = note.key {
        line.text(key!("key"), &key.to_string());
    }
    if let Some(age) = note.age {
        line.number(key!("age"), age);
    }
    if note.is_shared {
        line.flag(key!("shared"), true);
    }
    if let Some(saved) = note.saved.cost.and_then(|cost| i64::try_from(cost).ok()) {
        push_dollars(line.name(key!("saved_usd")), saved);
    }
    if let Some(stored) = note.stored {
        line.flag(key!("stored"), stored.is_ok());
        line.optional_text(key!("not_stored"), stored.err().map(NotStored::as_str));
    }
}

/// What was used, and what it cost.
fn write_charge(line: &mut ObjectWriter<'_>, record: &RequestRecord) {
    if let Some(usage) = record.usage() {
        line.object(key!("tokens"), |tokens| write_tokens(tokens, usage));
        if usage.web_searches > 0 {
            line.number(key!("web_searches"), usage.web_searches);
        }
    }
    if record.used().is_some_and(|used| used.source == UsageSource::Counted) {
        line.flag(key!("tokens_estimated"), true);
    }
    if record.used().is_some_and(|used| used.source == UsageSource::Bounded) {
        line.flag(key!("tokens_bounded"), true);
    }
    if let Some(cost) = &record.cost {
        if let Some(nanodollars) = cost.nanodollars {
            push_dollars(line.name(key!("cost_usd")), nanodollars);
        }
        line.text(key!("cost_status"), cost.status.as_str());
    }
}

/// An amount in dollars, exactly: a whole number, and up to nine decimals.
fn push_dollars(out: &mut Vec<u8>, nanodollars: i64) {
    const DOLLAR: u64 = 1_000_000_000;
    // Costs are not negative.
    let amount = nanodollars.unsigned_abs();
    write_number(out, amount / DOLLAR);
    let mut rest = amount % DOLLAR;
    if rest > 0 {
        out.push(b'.');
    }
    while rest > 0 {
        rest *= 10;
        out.push(b'0' + (rest / DOLLAR) as u8);
        rest %= DOLLAR;
    }
}

/// Tokens as OpenAI counts them: `input` includes cached tokens, `output` includes reasoning.
fn write_tokens(line: &mut ObjectWriter<'_>, usage: &Usage) {
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

fn write_attempt(line: &mut ObjectWriter<'_>, attempt: &AttemptRecord) {
    line.text(key!("target"), &attempt.target.path);
    line.text(key!("provider"), attempt.target.provider.id());
    if let Some(status) = attempt.status {
        line.number(key!("status"), status.into());
    }
    line.optional_text(key!("error"), attempt.error);
    if let Some(nanodollars) = attempt.cost().and_then(|cost| cost.nanodollars) {
        push_dollars(line.name(key!("cost_usd")), nanodollars);
    }
    line.text(key!("why"), attempt.reason.as_str());
    if let Reason::Prefix(blocks) = attempt.reason {
        line.number(key!("prefix_blocks"), blocks.into());
    }
    line.millis(key!("ms"), attempt.time.spent);
}

/// Cuts a long error text: the client has all of it in the response, the line only has to be found.
fn shortened(mut text: String) -> String {
    if text.len() > MAX_TEXT_BYTES {
        text.truncate(clipped(&text, MAX_TEXT_BYTES).len());
        text.push('…');
    }
    text
}

/// A name chosen by the client or the provider, cut to [`MAX_NAME_BYTES`].
fn name(text: Option<&str>) -> Option<&str> {
    text.map(|text| clipped(text, MAX_NAME_BYTES))
}

/// The beginning of `text`, at most `max_len` bytes of it.
fn clipped(text: &str, max_len: usize) -> &str {
    text.get(..text.floor_char_boundary(max_len)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_written_exactly() {
        let cases = [
            (0, "0"),
            (1, "0.000000001"),
            (75_000, "0.000075"),
            (12_000_000_000, "12"),
            (1_234_567_890, "1.23456789"),
            (i64::MAX, "9223372036.854775807"),
        ];
        for (nanodollars, wanted) in cases {
            let mut out = Vec::new();
            push_dollars(&mut out, nanodollars);
            assert_eq!(String::from_utf8(out).unwrap(), wanted);
        }
    }
}
