//! Hands each finished request to the ledger, whose own thread makes its row of it here, with its attempts.
//!
//! Not for requests that were refused before their client was established, and not for those of the control plane.

use crate::engine::hook_notes::{HookNote, HookSide};
use crate::engine::record::{AttemptRecord, RequestRecord, UsageSource};
use bytes::Bytes;
use judgment::route::target::Target;
use knowledge::prompt::FoundPrompt;
use memory::auth::{ClientIdentity, IdentityKind};
use memory::ledger::id::RowIds;
use memory::ledger::payload::Bodies;
use memory::ledger::{Attempt, Draft, Entry, Row, RowKind, Text};
use memory::state::Shared;
use memory::state::snapshot::SettingsSnapshot;
use memory::store::Kind;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;
use words::api::output_text::OutputText;
use words::api::usage::Usage;
use words::settings::Settings;
use words::settings::logs::Payloads;

/// The most attempts of one request that are kept.
const MAX_ATTEMPTS: usize = 100;
/// The longest name chosen by a client or a provider (a path, a model), bytes.
const MAX_NAME_BYTES: usize = 512;

/// The sink that has rows written.
pub(super) struct LedgerSink(pub Arc<Shared>);

impl LedgerSink {
    /// Keeps what the row is made of. What may be large and is not in it is freed here.
    pub fn take(&self, mut record: Box<RequestRecord>) {
        let Some(ledger) = self.0.ledger() else { return };
        let is_ignored = record.named.log.as_ref().is_some_and(|log| log.is_ignored);
        let Some(client) = record.client.clone() else { return };
        if record.request.operation == "control" || is_ignored {
            return;
        }
        let snapshot = self.0.settings_arc();
        let is_success = record.response.status < 400 && record.response.error.is_none();
        let bodies = bodies(&record, is_success, &snapshot.settings);
        record.capture = None;
        record.response.observed.text = OutputText::default();
        let error_code = record.response.error.take().map(|error| error.kind.row().code);
        let attempt = record.routed.attempt.take();
        let target = attempt.as_ref().map(|attempt| Arc::clone(&attempt.target));
        let model = attempt.and_then(|attempt| attempt.model.clone());
        ledger.push(LoggedRequest {
            record,
            client,
            target,
            model,
            error_code,
            is_success,
            bodies,
            snapshot,
        });
    }
}

/// A finished request whose row is to be made.
struct LoggedRequest {
    /// Without its attempt, error and bodies.
    record: Box<RequestRecord>,
    client: Arc<ClientIdentity>,
    /// Of the attempt whose response the client got, or the last one.
    target: Option<Arc<Target>>,
    /// Requested by that attempt.
    model: Option<Arc<str>>,
    error_code: Option<&'static str>,
    is_success: bool,
    bodies: Option<Box<Bodies>>,
    /// The settings and stored objects in force when it ended.
    snapshot: Arc<SettingsSnapshot>,
}

impl Draft for LoggedRequest {
    fn count(&self) -> usize {
        1
    }

    fn size(&self) -> usize {
        let record = &self.record;
        let path = record.request.uri.path_and_query().map_or(0, |path| path.as_str().len());
        let metadata = record.named.metadata.as_ref().map_or(0, |metadata| metadata.get().len());
        let models = [self.model(), record.response.observed.model.as_deref()];
        let models: usize = models.into_iter().flatten().map(str::len).sum();
        let attempts = record.routed.attempts.len().min(MAX_ATTEMPTS) * size_of::<AttemptRecord>();
        let of_row = size_of::<Row>() + path + metadata + models + attempts;
        of_row + self.bodies.as_ref().map_or(0, |bodies| bodies.size())
    }

    fn make(self: Box<Self>, ids: &RowIds, entries: &mut Vec<Entry>) {
        let began = self.record.times.began.as_millisecond();
        let mut request = self.row(ids.new_id(began), began);
        for attempt in self.record.routed.attempts.iter().take(MAX_ATTEMPTS) {
            let started = attempt.time.started;
            let since =
                started.map_or(self.record.times.total, |at| at.duration_since(self.record.span.started));
            request.add_attempt(&logged(attempt, began.saturating_add(milliseconds(since))));
        }
        entries.push(Entry { bodies: self.bodies, ..Entry::from(request) });
    }
}

impl LoggedRequest {
    /// As [`RequestRecord::model`], which has no attempt any more.
    fn model(&self) -> Option<&str> {
        match &self.target {
            Some(_) => self.model.as_deref(),
            None => self.record.model(),
        }
    }

    /// Its model, shared with the attempt where it may be kept as it is.
    fn logged_model(&self) -> Option<Text> {
        match &self.target {
            Some(_) => self.model.as_ref().map(|model| match storable(model) {
                Cow::Borrowed(kept) if kept.len() == model.len() => Text::from(model),
                kept => copied(&kept),
            }),
            None => self.record.model().map(name),
        }
    }

    /// As [`RequestRecord::prompt`].
    fn prompt(&self) -> Option<&FoundPrompt> {
        let of_target = self.target.as_ref().and_then(|target| target.prompt.as_ref());
        of_target.or(self.record.named.prompt.as_ref())
    }

    /// What its attempts have used together, and where the counts are from: what says most about the sum.
    fn usage(&self) -> (Option<Usage>, UsageSource) {
        let used = self.record.routed.attempts.iter().filter_map(|attempt| attempt.used.as_ref());
        used.filter(|used| used.is_measured()).fold((None, UsageSource::Reported), |(total, source), used| {
            (Some(sum(total.unwrap_or_default(), &used.usage)), source.max(used.source))
        })
    }

    /// The row of the request.
    fn row(&self, id: Uuid, created_ms: i64) -> Row {
        let Self { record, client, is_success, .. } = self;
        let target = self.target.as_deref();
        let first = record.routed.attempts.first().map(|attempt| &attempt.target.path);
        let log = record.named.log.as_deref();
        let (usage, source) = self.usage();
        let mut row = Row {
            trace_id: Text::from(&record.span.trace_id),
            span_id: log.and_then(|log| log.span_id.as_deref()).map(copied),
            parent_span_id: log.and_then(|log| log.parent_span_id.as_deref()).map(copied),
            span_name: log.and_then(|log| log.span_name.as_deref()).map(copied),
            workspace: client.workspace,
            workspace_slug: self.workspace_slug(client.workspace),
            api_key: api_key(client),
            api_key_name: client.name.as_ref().map(Text::from),
            operation: Text::new(record.request.operation),
            method: method(record.request.method.as_str()),
            path: name(record.request.uri.path()),
            provider: target.and_then(|target| target.slug.as_deref()).map(name),
            vendor: target.map(|target| Text::new(target.provider.id())),
            model: self.logged_model(),
            response_model: record.response.observed.model.as_deref().map(name),
            config: target.and_then(config),
            prompt: self.prompt().map(|found| name(&found.prompt.slug)),
            prompt_version: self.prompt().map(|found| found.version.id),
            status: record.response.status,
            error_code: self.error_code.map(Text::new),
            is_success: *is_success,
            streamed: record.response.streamed,
            responded: record.routed.attempts.iter().any(|attempt| attempt.responded),
            latency_us: microseconds(record.times.total),
            upstream_us: microseconds(record.routed.attempts.iter().map(|attempt| attempt.time.spent).sum()),
            overhead_us: microseconds(record.times.overhead),
            first_token_us: record.times.to_first_token.map(microseconds),
            retries: record.routed.retries,
            is_fallback: *is_success && first.zip(target).is_some_and(|(first, last)| *first != last.path),
            cache_status: Some(Text::new(record.cache.status.as_str())),
            cache_type: record.cache.mode.map(|mode| Text::new(mode.as_str())),
            saved_cost: record.cache.saved.cost.and_then(|cost| i64::try_from(cost).ok()),
            target: target.map(|target| copied(&target.path)),
            bytes_in: record.request.bytes,
            bytes_out: record.response.bytes,
            requested_model: record.named.requested_model.as_deref().map(name),
            ..Row::new(id, RowKind::Request, created_ms)
        };
        row.guardrails = guardrails(&record.hooks);
        row.prompt_cache_miss = record.prompt_miss.map(|miss| Text::new(miss.cause));
        row.user = record.user().map(|user| name(&user));
        if let Some(metadata) = &record.named.metadata {
            // PostgreSQL cannot store a NUL, escaped or not.
            row.metadata = Some(Text::from(metadata.get().replace("\\u0000", "\\ufffd")));
        }
        row.set_usage(usage.as_ref(), source.of_row());
        row.set_cost(record.cost.as_ref());
        if record.cost.is_none() && record.cache.status.is_hit() {
            row.cost = Some(0);
        }
        row
    }

    fn workspace_slug(&self, workspace: Option<Uuid>) -> Option<Text> {
        let record = self.snapshot.stored.catalog().get(Kind::Workspace, workspace?)?;
        record.slug.as_deref().map(copied)
    }
}

/// The bodies to keep, without our own credentials.
fn bodies(record: &RequestRecord, is_success: bool, settings: &Settings) -> Option<Box<Bodies>> {
    let logs = &settings.logs;
    let is_withheld = |side| record.is_withheld(side, &settings.guardrails);
    let capture = record.capture.as_deref()?;
    let of_key = record.client.as_ref().and_then(|client| client.defaults.log_payloads);
    let wanted = of_key.unwrap_or(logs.payloads);
    // They may be kept for spans only, or more of them than for logs.
    if wanted == Payloads::Off || (is_success && wanted == Payloads::Errors) {
        return None;
    }
    let max_bytes = logs.max_payload_bytes.min(capture.max_bytes);
    let kept = |body: &Bytes| body.slice(..body.len().min(max_bytes));
    let mut parts = Vec::with_capacity(4);
    let is_request_withheld = is_withheld(HookSide::Request);
    if !is_request_withheld {
        parts.push(("request", kept(&capture.request), capture.request_len));
    }
    if let Some(attempt) = record.routed.attempt.as_ref().filter(|_| !is_request_withheld) {
        let changed = attempt.body.as_ref().filter(|_| attempt.body_changed);
        parts.extend(changed.map(|body| ("transformed_request", kept(body), body.len() as u64)));
    }
    let cut = |body: &[u8]| Bytes::copy_from_slice(body.get(..max_bytes).unwrap_or(body));
    parts.push(("response", cut(&capture.response.bytes), record.response.bytes));
    // A patch may have found nothing to correct.
    let original = capture.original.as_ref().filter(|of| of.bytes != capture.response.bytes);
    if let Some(original) = original.filter(|_| !is_withheld(HookSide::Response)) {
        parts.push(("original_response", cut(&original.bytes), original.len));
    }
    if let Some(attempt) = &record.routed.attempt {
        let mask = attempt.credential_mask();
        for (_, body, _) in &mut parts {
            *body = mask.bytes(std::mem::take(body));
        }
    }
    Some(Box::new(Bodies { parts, max_bytes }))
}

/// An attempt as the row of its request keeps it.
fn logged(attempt: &AttemptRecord, created_ms: i64) -> Attempt<'_> {
    let target = &attempt.target;
    let used = attempt.used.as_ref().filter(|used| used.is_measured());
    let status = attempt.status.unwrap_or_default();
    Attempt {
        number: attempt.id,
        created_ms,
        provider: target.slug.as_deref().map(storable),
        vendor: Some(target.provider.id()),
        model: attempt.model.as_deref().map(storable),
        response_model: attempt.used.as_ref().and_then(|used| used.response_model.as_deref()).map(storable),
        target: Some(&target.path),
        status,
        error_code: attempt.error,
        is_success: attempt.error.is_none() && (1..400).contains(&status),
        responded: attempt.responded,
        spent_us: microseconds(attempt.time.spent),
        usage: used.map(|used| &used.usage),
        usage_source: used.map_or(UsageSource::Reported, |used| used.source).of_row(),
        cost: attempt.cost(),
        is_from_cache: attempt.is_from_cache,
    }
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

/// The guardrails whose checks failed, each once, as a row has them.
fn guardrails(notes: &[HookNote]) -> Option<Text> {
    let mut text = String::new();
    for note in notes.iter().filter(|note| !note.is_passed) {
        let id = storable(&note.id).replace(',', " ");
        if !text.contains(&format!(",{id},")) {
            let _ = write!(text, "{}{id},", if text.is_empty() { "," } else { "" });
        }
    }
    (!text.is_empty()).then(|| text.into())
}

/// The slug of the saved config; `None` for one that came with the request, or none.
fn config(target: &Target) -> Option<Text> {
    (!target.id.is_inline()).then(|| copied(&target.id.config))
}

fn method(method: &str) -> Text {
    let common = ["POST", "GET", "PUT", "DELETE", "PATCH", "HEAD"];
    match common.into_iter().find(|name| *name == method) {
        Some(name) => Text::new(name),
        None => name(method),
    }
}

/// A name chosen by a client or a provider, as [`storable`].
fn name(text: &str) -> Text {
    copied(&storable(text))
}

fn copied(text: &str) -> Text {
    Text::from(Arc::<str>::from(text))
}

/// A name, cut, and without what PostgreSQL cannot store.
fn storable(name: &str) -> Cow<'_, str> {
    let name = name.get(..name.floor_char_boundary(MAX_NAME_BYTES)).unwrap_or(name);
    if name.contains('\0') { Cow::Owned(name.replace('\0', "")) } else { Cow::Borrowed(name) }
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
