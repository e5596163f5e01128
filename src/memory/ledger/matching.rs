//! Whether a row that is at hand matches a filter: the same as the filter's SQL says of rows in a log store.
//!
//! Not by feedback, which is given later, and not by `before`, which is about pages. A list of values is prepared once, so that a row costs
//! one look for each kind of value, however many values a reader has named.

use super::Row;
use super::filter::{Bounds, Filter};
use serde_json::{Map, Value};
use std::cell::OnceCell;
use std::collections::HashSet;
use uuid::Uuid;

/// A filter that is prepared for many rows.
pub(super) struct Matcher {
    workspaces: Option<HashSet<Uuid>>,
    since: Option<i64>,
    until: Option<i64>,
    total_tokens: Bounds<i64>,
    input_tokens: Bounds<i64>,
    output_tokens: Bounds<i64>,
    cost: Bounds<i64>,
    status_codes: Values<u16>,
    providers: Values<String>,
    configs: Values<String>,
    prompts: Values<String>,
    api_keys: Values<String>,
    traces: Values<String>,
    spans: Values<String>,
    models: Values<String>,
    cache_statuses: Values<String>,
    guardrails: Values<String>,
    prompt_cache_misses: Values<String>,
    /// Models by vendor.
    vendor_models: Vec<(String, String)>,
    metadata: Vec<(String, String)>,
}

/// Values of which a row must have one; `None` demands nothing.
struct Values<T>(Option<HashSet<T>>);

/// A row, and what is read of it for the first filter that needs it.
pub(super) struct Candidate<'r> {
    pub row: &'r Row,
    metadata: OnceCell<Map<String, Value>>,
}

impl<'r> Candidate<'r> {
    pub fn new(row: &'r Row) -> Self {
        Self { row, metadata: OnceCell::new() }
    }

    fn metadata(&self) -> &Map<String, Value> {
        let read = || self.row.metadata.as_deref().and_then(|text| serde_json::from_str(text).ok());
        self.metadata.get_or_init(|| read().unwrap_or_default())
    }
}

impl Matcher {
    pub fn new(filter: Filter) -> Self {
        // A code that is no number matches nothing.
        let codes = filter.status_codes.iter().map(|code| code.parse().unwrap_or_default());
        Self {
            status_codes: Values::of(codes),
            workspaces: filter.workspaces.map(|ids| ids.into_iter().collect()),
            since: filter.since,
            until: filter.until,
            total_tokens: filter.total_tokens,
            input_tokens: filter.input_tokens,
            output_tokens: filter.output_tokens,
            cost: filter.cost,
            providers: Values::of(filter.providers),
            configs: Values::of(filter.configs),
            prompts: Values::of(filter.prompts),
            api_keys: Values::of(filter.api_keys),
            traces: Values::of(filter.traces),
            spans: Values::of(filter.spans),
            models: Values::of(filter.models),
            cache_statuses: Values::of(filter.cache_statuses),
            guardrails: Values::of(filter.guardrails),
            prompt_cache_misses: Values::of(filter.prompt_cache_misses),
            vendor_models: filter.vendor_models,
            metadata: filter.metadata,
        }
    }

    /// Whether a row has all that the filter demands of it.
    pub fn matches(&self, candidate: &Candidate<'_>) -> bool {
        let row = candidate.row;
        let is_in_time = self.since.is_none_or(|since| row.created_ms >= since)
            && self.until.is_none_or(|until| row.created_ms < until);
        is_in_time
            && self.has_workspace(row)
            && self.status_codes.0.as_ref().is_none_or(|codes| codes.contains(&row.status))
            && self.has_texts(row)
            && is_within(self.total_tokens, row.total_tokens.map(i64::try_from).and_then(Result::ok))
            && is_within(self.input_tokens, row.input_tokens.map(i64::try_from).and_then(Result::ok))
            && is_within(self.output_tokens, row.output_tokens.map(i64::try_from).and_then(Result::ok))
            && is_within(self.cost, row.cost)
            && self.has_guardrail(row)
            && self.has_metadata(candidate)
    }

    /// The nil id stands for no workspace.
    fn has_workspace(&self, row: &Row) -> bool {
        let own = row.workspace.unwrap_or_default();
        self.workspaces.as_ref().is_none_or(|ids| ids.contains(&own))
    }

    fn has_texts(&self, row: &Row) -> bool {
        let texts = [
            (&self.providers, row.provider.as_deref()),
            (&self.configs, row.config.as_deref()),
            (&self.prompts, row.prompt.as_deref()),
            (&self.api_keys, row.api_key.as_deref()),
            (&self.traces, Some(&*row.trace_id)),
            (&self.spans, row.span_id.as_deref()),
            (&self.models, row.model.as_deref()),
            (&self.cache_statuses, row.cache_status.as_deref()),
            (&self.prompt_cache_misses, row.prompt_cache_miss.as_deref()),
        ];
        let is_pair = |(vendor, model): &(String, String)| {
            row.vendor.as_deref() == Some(vendor.as_str()) && row.model.as_deref() == Some(model.as_str())
        };
        texts.into_iter().all(|(wanted, text)| wanted.has(text))
            && (self.vendor_models.is_empty() || self.vendor_models.iter().any(is_pair))
    }

    /// The column has commas around each name.
    fn has_guardrail(&self, row: &Row) -> bool {
        let Some(wanted) = &self.guardrails.0 else { return true };
        row.guardrails.as_deref().is_some_and(|failed| failed.split(',').any(|name| wanted.contains(name)))
    }

    fn has_metadata(&self, candidate: &Candidate<'_>) -> bool {
        let has = |(name, value): &(String, String)| {
            candidate.metadata().get(name).and_then(Value::as_str) == Some(value.as_str())
        };
        self.metadata.iter().all(has)
    }
}

impl<T: std::hash::Hash + Eq> Values<T> {
    fn of(values: impl IntoIterator<Item = T>) -> Self {
        let values: HashSet<T> = values.into_iter().collect();
        Self((!values.is_empty()).then_some(values))
    }
}

impl Values<String> {
    fn has(&self, text: Option<&str>) -> bool {
        self.0.as_ref().is_none_or(|values| text.is_some_and(|text| values.contains(text)))
    }
}

/// Bounds demand that there is a number.
fn is_within(bounds: Bounds<i64>, number: Option<i64>) -> bool {
    let fits = |number: i64| {
        bounds.min.is_none_or(|min| number >= min) && bounds.max.is_none_or(|max| number <= max)
    };
    bounds.is_open() || number.is_some_and(fits)
}
