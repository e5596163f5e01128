//! Whether a row that is at hand matches a filter: the same as the filter's SQL says of rows in a log store.
//!
//! Not by feedback, which is given later, and not by `before`, which is about pages.

use super::Row;
use super::filter::{Bounds, Filter};
use serde_json::{Map, Value};

impl Filter {
    /// Whether a row has all that the filter demands of it.
    pub fn matches(&self, row: &Row) -> bool {
        let is_in_time = self.since.is_none_or(|since| row.created_ms >= since)
            && self.until.is_none_or(|until| row.created_ms < until);
        is_in_time
            && self.has_workspace(row)
            && self.has_texts(row)
            && has(&self.status_codes, |code| code.parse::<u16>() == Ok(row.status))
            && is_within(self.total_tokens, row.total_tokens.map(i64::try_from).and_then(Result::ok))
            && is_within(self.input_tokens, row.input_tokens.map(i64::try_from).and_then(Result::ok))
            && is_within(self.output_tokens, row.output_tokens.map(i64::try_from).and_then(Result::ok))
            && is_within(self.cost, row.cost)
            && self.has_metadata(row)
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
        ];
        let is_pair = |(vendor, model): &(String, String)| {
            row.vendor.as_deref() == Some(vendor.as_str()) && row.model.as_deref() == Some(model.as_str())
        };
        let failed = row.guardrails.as_deref().unwrap_or_default();
        texts.into_iter().all(|(wanted, text)| has(wanted, |value| text == Some(value.as_str())))
            && has(&self.vendor_models, is_pair)
            && has(&self.guardrails, |name| failed.contains(&format!(",{name},")))
    }

    fn has_metadata(&self, row: &Row) -> bool {
        if self.metadata.is_empty() {
            return true;
        }
        let members = row.metadata.as_deref().and_then(|text| serde_json::from_str(text).ok());
        let members: Map<String, Value> = members.unwrap_or_default();
        self.metadata.iter().all(|(name, value)| members.get(name).and_then(Value::as_str) == Some(value.as_str()))
    }
}

/// Whether one of the values fits; none at all demand nothing.
fn has<T>(values: &[T], fits: impl Fn(&T) -> bool) -> bool {
    values.is_empty() || values.iter().any(fits)
}

/// Bounds demand that there is a number.
fn is_within(bounds: Bounds<i64>, number: Option<i64>) -> bool {
    let fits = |number: i64| {
        bounds.min.is_none_or(|min| number >= min) && bounds.max.is_none_or(|max| number <= max)
    };
    bounds.is_open() || number.is_some_and(fits)
}
