//! Counts each finished request in the metrics: what it was, how long it took, its attempts, its error.
//!
//! Not the families themselves (`state::metrics`).

use super::RecordSink;
use crate::engine::caching::{CacheNote, CacheStatus, NotStored};
use crate::engine::record::{RequestRecord, UsageSource};
use knowledge::price::money;
use memory::auth::DEFAULT_WORKSPACE;
use memory::state::Shared;
use memory::state::metrics::{CachedRequest, ClientRequest, FinishedRequest, status_text};
use memory::store::Kind;
use std::borrow::Cow;
use std::sync::Arc;
use uuid::Uuid;
use words::api::usage::Usage;
use words::settings::ClientLabel;

/// The sink that counts requests.
pub(super) struct MetricsSink(pub Arc<Shared>);

impl RecordSink for MetricsSink {
    fn record(&self, record: &RequestRecord) {
        let metrics = &self.0.metrics;
        // Counted here and not where errors are sent: the error of a stream is its last event, and a client that has
        // disconnected is sent none.
        if let Some(error) = &record.response.error {
            metrics.record_error(error.kind);
        }
        if let Some(cached) = cached(&record.cache) {
            metrics.record_cache(&cached);
        }
        for attempt in record.routed.attempts.iter().filter(|attempt| !attempt.is_from_cache) {
            let provider = attempt.target.provider.id();
            let index = &attempt.target.path;
            match (attempt.error, attempt.status) {
                (Some(code), _) => metrics.record_failed_attempt(provider, index, code),
                (None, Some(status)) if status >= 400 => {
                    metrics.record_failed_attempt(provider, index, status_text(status));
                }
                _ => metrics.record_answered_attempt(provider, index, &attempt.target.series),
            }
        }
        for attempt in &record.routed.attempts {
            if let (Some(used), Some(cost)) = (&attempt.used, attempt.cost()) {
                let is_estimated = used.source == UsageSource::Counted;
                let provider = attempt.target.provider.id();
                let series = &attempt.target.series;
                metrics.record_usage(provider, series, &used.usage, is_estimated, cost);
                if used.source == UsageSource::Bounded {
                    metrics.record_bounded_report(provider);
                }
            }
        }
        if let Some(miss) = record.prompt_miss {
            metrics.record_prompt_miss(miss.cause, miss.tokens);
        }
        let attempt = record.routed.attempt.as_ref();
        let usage = record.usage();
        let finished = FinishedRequest {
            operation: record.request.operation,
            provider: attempt.map_or("", |attempt| attempt.target.provider.id()),
            model: attempt.and_then(|attempt| attempt.model.as_deref()).unwrap_or_default(),
            status: record.response.status,
            total: record.times.total,
            first_chunk: record.times.to_first_byte.filter(|_| record.response.streamed),
            overhead: record.times.overhead,
            input_tokens: usage.map(|usage| usage.input),
            output_tokens: usage.map(|usage| usage.output),
            cost: record.cost.as_ref().and_then(|cost| cost.nanodollars).map(money::dollars),
            bytes_in: record.request.bytes,
            bytes_out: record.response.bytes,
        };
        self.count_client(record);
        let series = attempt.map(|attempt| &attempt.target.series);
        metrics.record_request(&finished, series, &|| trace(record, &self.0));
    }
}

impl MetricsSink {
    /// Counts the request by its client, where the settings want that.
    fn count_client(&self, record: &RequestRecord) {
        let Some(client) = &record.client else { return };
        self.0.metrics.record_client(|labels| {
            let value = |label: &ClientLabel| match label {
                ClientLabel::Key => Cow::from(client.name.as_deref().unwrap_or_default()),
                ClientLabel::Workspace => Cow::from(self.workspace(client.workspace)),
                ClientLabel::User => record.user().unwrap_or_default(),
            };
            let used = record.routed.attempts.iter().filter_map(|attempt| attempt.used.as_ref());
            let costs = record.routed.attempts.iter().filter_map(|attempt| attempt.cost()?.nanodollars);
            let sum = |count: fn(&Usage) -> u64| {
                used.clone().map(|used| count(&used.usage)).fold(0, u64::saturating_add)
            };
            ClientRequest {
                values: labels.iter().map(value).collect(),
                status: record.response.status,
                input_tokens: sum(|usage| usage.input),
                output_tokens: sum(|usage| usage.output),
                dollars: costs.map(money::dollars).sum(),
            }
        });
    }

    /// The slug of a workspace; keys without one are in the default one.
    fn workspace(&self, id: Option<Uuid>) -> String {
        let snapshot = self.0.settings();
        let catalog = snapshot.stored.catalog();
        let record = id.and_then(|id| catalog.get(Kind::Workspace, id));
        let slug = record.and_then(|record| record.slug.clone());
        match (slug, id) {
            (Some(slug), _) => slug,
            (None, Some(id)) => id.to_string(),
            (None, None) => DEFAULT_WORKSPACE.to_owned(),
        }
    }
}

/// The trace of a request, as whoever records it calls it: the collector, or without one the log. `None`: it was not sampled, or
/// the client's own name for it is unusual.
fn trace(record: &RequestRecord, shared: &Shared) -> Option<String> {
    let own = &*record.span.trace_id;
    let Some(queue) = shared.spans.get() else {
        let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
        return own.bytes().all(is_usual).then(|| own.to_owned());
    };
    queue.sampled(record.span.parent.as_ref(), own).map(|id| format!("{id:032x}"))
}

/// What the cache did; `None`: it had no part in the request.
fn cached(note: &CacheNote) -> Option<CachedRequest> {
    let status = match note.status {
        CacheStatus::Disabled => return None,
        CacheStatus::Hit => "hit",
        CacheStatus::SemanticHit => "semantic_hit",
        CacheStatus::Miss => "miss",
        CacheStatus::SemanticMiss => "semantic_miss",
        CacheStatus::Refresh => "refresh",
    };
    let dollars = note.saved.cost.and_then(|cost| i64::try_from(cost).ok()).map_or(0.0, money::dollars);
    Some(CachedRequest {
        status,
        is_shared: note.is_shared,
        saved_input_tokens: note.saved.input_tokens,
        saved_output_tokens: note.saved.output_tokens,
        saved_dollars: dollars,
        not_stored: note.stored.and_then(Result::err).map(NotStored::as_str),
    })
}
