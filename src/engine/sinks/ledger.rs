//! Makes the rows of each finished request, one for it and one for each attempt, and hands them to the ledger.
//!
//! Not for requests that were refused before their client was established, and not for those of the control plane.

use super::RecordSink;
use crate::api::usage::Usage;
use crate::auth::{ClientIdentity, IdentityKind};
use crate::engine::record::{AttemptRecord, RequestRecord, UsageSource};
use crate::json::string::unquote;
use crate::json::walk;
use crate::ledger::payload::Bodies;
use crate::ledger::{Entry, Row, RowKind, Text};
use crate::price::Cost;
use crate::route::target::Target;
use crate::settings::logs::Payloads;
use crate::state::Shared;
use crate::store::Kind;
use bytes::Bytes;
use jiff::Timestamp;
use std::sync::Arc;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// The most attempts of one request that have rows.
const MAX_ATTEMPTS: usize = 100;
/// The longest name chosen by a client or a provider (a path, a model), bytes.
const MAX_NAME_BYTES: usize = 512;
/// The member of metadata that names the user.
const USER: &[u8] = b"_user";

/// The sink that writes rows.
pub(super) struct LedgerSink(pub Arc<Shared>);

impl RecordSink for LedgerSink {
    fn record(&self, record: &RequestRecord) {
        let Some(ledger) = self.0.ledger() else { return };
        let Some(client) = record.client.as_deref().filter(|_| record.operation != "control") else { return };
        if record.log.as_ref().is_some_and(|log| log.is_ignored) {
            return;
        }
        let (now, moment) = (Timestamp::now().as_millisecond(), Instant::now());
        let created_ms = now - milliseconds(record.total);
        let request = self.request_row(record, client, (ledger.new_id(created_ms), created_ms));
        let mut entries = Vec::with_capacity(1 + record.attempts.len().min(MAX_ATTEMPTS));
        for attempt in record.attempts.iter().take(MAX_ATTEMPTS) {
            let since = attempt.started.map_or(Duration::ZERO, |started| moment.duration_since(started));
            let created_ms = now - milliseconds(since);
            let row = attempt_row(&request, attempt, (ledger.new_id(created_ms), created_ms));
            entries.push(Entry::from(row));
        }
        let bodies = self.bodies(record, request.is_success);
        entries.push(Entry { bodies, ..Entry::from(request) });
        ledger.push(entries);
    }
}

impl LedgerSink {
    fn request_row(
        &self,
        record: &RequestRecord,
        client: &ClientIdentity,
        (id, created_ms): (Uuid, i64),
    ) -> Row {
        let target = record.attempt.as_ref().map(|attempt| &attempt.target);
        let first = record.attempts.first().map(|attempt| &attempt.target.path);
        let log = record.log.as_deref();
        let (mut usage, mut is_estimated) = (None::<Usage>, false);
        let all_used = record.attempts.iter().filter_map(|attempt| attempt.used.as_ref());
        for used in all_used.filter(|used| used.is_measured()) {
            usage = Some(sum(usage.unwrap_or_default(), &used.usage));
            is_estimated |= used.source == UsageSource::Counted;
        }
        let model = record.attempt.as_ref().and_then(|attempt| attempt.model.as_deref());
        let is_success = record.status < 400 && record.error.is_none();
        let mut row = Row {
            trace_id: Text::from(&record.trace_id),
            span_id: log.and_then(|log| log.span_id.clone()).map(Text::from),
            parent_span_id: log.and_then(|log| log.parent_span_id.clone()).map(Text::from),
            span_name: log.and_then(|log| log.span_name.clone()).map(Text::from),
            workspace: client.workspace,
            workspace_slug: self.workspace_slug(client.workspace),
            api_key: api_key(client),
            api_key_name: client.name.as_ref().map(Text::from),
            operation: Text::new(record.operation),
            method: method(record.method.as_str()),
            path: name(record.uri.path()),
            provider: target.and_then(|target| target.slug.as_deref()).map(name),
            vendor: target.map(|target| Text::new(target.provider.id())),
            model: model.map(name),
            response_model: record.response.model.as_deref().map(name),
            config: target.and_then(|target| config(target)),
            prompt: record.prompt.as_ref().map(|found| name(&found.prompt.slug)),
            prompt_version: record.prompt.as_ref().map(|found| found.version.id),
            status: record.status,
            error_code: record.error.as_ref().map(|error| Text::new(error.kind.row().code)),
            is_success,
            streamed: record.streamed,
            responded: record.attempts.iter().any(|attempt| attempt.responded),
            latency_us: microseconds(record.total),
            upstream_us: microseconds(record.attempts.iter().map(|attempt| attempt.spent).sum()),
            overhead_us: microseconds(record.overhead),
            first_token_us: record.time_to_first_token.map(microseconds),
            retries: record.retries,
            is_fallback: is_success && first.zip(target).is_some_and(|(first, last)| *first != last.path),
            target: target.map(|target| Text::from(target.path.clone())),
            bytes_in: record.bytes_in,
            bytes_out: record.bytes_out,
            ..Row::new(id, RowKind::Request, created_ms)
        };
        if let Some(metadata) = &record.metadata {
            row.user = user(metadata.get());
            // PostgreSQL cannot store a NUL, escaped or not.
            row.metadata = Some(Text::from(metadata.get().replace("\\u0000", "\\ufffd")));
        }
        row.set_usage(usage.as_ref(), is_estimated);
        set_cost(&mut row, record.cost.as_ref());
        row
    }

    /// The bodies to keep, without our own credentials.
    fn bodies(&self, record: &RequestRecord, is_success: bool) -> Option<Box<Bodies>> {
        let capture = record.capture.as_deref()?;
        let settings = self.0.settings();
        let logs = &settings.settings.logs;
        let of_key = record.client.as_ref().and_then(|client| client.defaults.log_payloads);
        let wanted = of_key.unwrap_or(logs.payloads);
        // They may be kept for spans only, or more of them than for logs.
        if wanted == Payloads::Off || (is_success && wanted == Payloads::Errors) {
            return None;
        }
        let max_bytes = logs.max_payload_bytes.min(capture.max_bytes);
        let kept = |body: &Bytes| body.slice(..body.len().min(max_bytes));
        let mut parts = vec![("request", kept(&capture.request), capture.request_len)];
        if let Some(attempt) = &record.attempt {
            let changed = attempt.body.as_ref().filter(|_| attempt.body_changed);
            parts.extend(changed.map(|body| ("transformed_request", kept(body), body.len() as u64)));
        }
        let response = capture.response.get(..max_bytes).unwrap_or(&capture.response);
        parts.push(("response", Bytes::copy_from_slice(response), record.bytes_out));
        if let Some(attempt) = &record.attempt {
            let mask = attempt.credential_mask();
            for (_, body, _) in &mut parts {
                *body = mask.bytes(std::mem::take(body));
            }
        }
        Some(Box::new(Bodies { parts, max_bytes }))
    }

    fn workspace_slug(&self, workspace: Option<Uuid>) -> Option<Text> {
        let settings = self.0.settings();
        let record = settings.stored.catalog().get(Kind::Workspace, workspace?)?;
        record.slug.clone().map(Text::from)
    }
}

/// The row of an attempt: what it has in common with its request, and what is its own.
fn attempt_row(request: &Row, attempt: &AttemptRecord, (id, created_ms): (Uuid, i64)) -> Row {
    let target = &attempt.target;
    let spent = microseconds(attempt.spent);
    let used = attempt.used.as_ref().filter(|used| used.is_measured());
    let status = attempt.status.unwrap_or_default();
    let mut row = Row {
        id,
        kind: RowKind::Attempt,
        request: Some(request.id),
        attempt: Some(attempt.id),
        created_ms,
        provider: target.slug.as_deref().map(name),
        vendor: Some(Text::new(target.provider.id())),
        model: attempt.model.as_deref().map(name),
        response_model: attempt.used.as_ref().and_then(|used| used.response_model.as_deref()).map(name),
        status,
        error_code: attempt.error.map(Text::new),
        is_success: attempt.error.is_none() && (1..400).contains(&status),
        responded: attempt.responded,
        latency_us: spent,
        upstream_us: spent,
        overhead_us: 0,
        first_token_us: request.first_token_us.filter(|_| attempt.responded),
        retries: 0,
        is_fallback: false,
        target: Some(Text::from(target.path.clone())),
        bytes_in: 0,
        bytes_out: 0,
        ..request.clone()
    };
    let is_estimated = used.is_some_and(|used| used.source == UsageSource::Counted);
    row.set_usage(used.map(|used| &used.usage), is_estimated);
    set_cost(&mut row, attempt.cost.as_ref());
    row
}

/// What the row's request or attempt cost; `None`: nothing is charged.
fn set_cost(row: &mut Row, cost: Option<&Cost>) {
    row.cost = cost.and_then(|cost| cost.nanodollars);
    row.cost_status = cost.map(|cost| Text::new(cost.status.as_str()));
    row.price_version = cost.map(|cost| Text::from(Arc::clone(&cost.price_version)));
    row.rates_hash = cost.map(|cost| cost.rates_hash);
}

fn sum(all: Usage, one: &Usage) -> Usage {
    Usage {
        input: all.input.saturating_add(one.input),
        output: all.output.saturating_add(one.output),
        total: all.total.saturating_add(one.total),
        cached: all.cached.saturating_add(one.cached),
        cache_write: all.cache_write.saturating_add(one.cache_write),
        reasoning: all.reasoning.saturating_add(one.reasoning),
        ..all
    }
}

/// The id of a stored key, the name of one of the settings.
fn api_key(client: &ClientIdentity) -> Option<Text> {
    match client.kind {
        IdentityKind::Stored(_) | IdentityKind::Settings => client.id.as_ref().map(Text::from),
        IdentityKind::Anonymous | IdentityKind::Jwt => None,
    }
}

/// The slug of the saved config; `None` for one that came with the request, or none.
fn config(target: &Target) -> Option<Text> {
    (!target.id.is_inline()).then(|| Text::from(target.id.config.clone()))
}

/// `_user` of the metadata.
fn user(metadata: &str) -> Option<Text> {
    let mut members = walk::members(metadata.as_bytes())?;
    let (_, value) = members.find(|(name, _)| *name == USER)?;
    unquote(value).map(|text| name(&text))
}

fn method(method: &str) -> Text {
    let common = ["POST", "GET", "PUT", "DELETE", "PATCH", "HEAD"];
    match common.into_iter().find(|name| *name == method) {
        Some(name) => Text::new(name),
        None => name(method),
    }
}

/// A name chosen by a client or a provider, cut, and without what PostgreSQL cannot store.
fn name(text: &str) -> Text {
    let text = text.get(..text.floor_char_boundary(MAX_NAME_BYTES)).unwrap_or(text);
    match text.contains('\0') {
        true => Text::from(text.replace('\0', "")),
        false => Text::from(text.to_owned()),
    }
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
