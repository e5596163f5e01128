//! One request as analytics takes it: what it is grouped by and what is counted. Made of a row.

use super::measures::{MAX_RETRIES, Measures};
use crate::ledger::Row;
use uuid::Uuid;

/// What requests are grouped and filtered by, beside their workspace. The order is that of a cell's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dimension {
    /// The vendor.
    AiService,
    /// The model that the request named.
    Model,
    StatusCode,
    /// The id of the service key.
    ApiKey,
    /// The slug of the stored config.
    Config,
    /// The slug of the stored provider.
    Provider,
    /// The slug of the stored prompt.
    Prompt,
    CacheStatus,
}

pub const DIMENSIONS: usize = 8;

/// How the cache responded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hit {
    None,
    Simple,
    Semantic,
}

impl Hit {
    /// Of a row's `cache_status`.
    pub fn of(status: Option<&str>) -> Self {
        match status {
            Some("HIT") => Self::Simple,
            Some("SEMANTIC HIT") => Self::Semantic,
            _ => Self::None,
        }
    }
}

/// One request.
#[derive(Debug, Clone)]
pub struct Sample<'a> {
    pub workspace: Uuid,
    /// Milliseconds since 1970.
    pub at: i64,
    /// The values of the dimensions, in their order; the status apart.
    pub values: [Option<&'a str>; DIMENSIONS],
    pub status: u16,
    pub is_success: bool,
    pub latency_us: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub total_tokens: u64,
    /// Nanodollars.
    pub cost: Option<u64>,
    pub is_unpriced: bool,
    pub hit: Hit,
    /// Nanodollars.
    pub saved: u64,
    pub retries: u64,
    pub is_fallback: bool,
}

impl<'a> Sample<'a> {
    /// Of the row of a request.
    pub fn of(row: &'a Row) -> Self {
        let values = [
            &row.vendor,
            &row.model,
            &None,
            &row.api_key,
            &row.config,
            &row.provider,
            &row.prompt,
            &row.cache_status,
        ];
        let amount = |nanodollars: Option<i64>| nanodollars.map(|n| u64::try_from(n).unwrap_or(0));
        Self {
            workspace: row.workspace.unwrap_or_default(),
            at: row.created_ms,
            values: values.map(Option::as_deref),
            status: row.status,
            is_success: row.is_success,
            latency_us: row.latency_us,
            input_tokens: row.input_tokens.unwrap_or(0),
            output_tokens: row.output_tokens.unwrap_or(0),
            total_tokens: row.total_tokens.unwrap_or(0),
            cost: amount(row.cost),
            is_unpriced: row.cost_status.as_deref() == Some("unknown"),
            hit: Hit::of(row.cache_status.as_deref()),
            saved: amount(row.saved_cost).unwrap_or(0),
            retries: u64::try_from(row.retries).unwrap_or(0),
            is_fallback: row.is_fallback,
        }
    }

    /// Adds this request to sums. Counts of a provider or of a sent log may be arbitrarily large: sums stop at the largest number.
    pub fn count(&self, measures: &mut Measures) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut measures.requests, 1);
        add(&mut measures.latency, self.latency_us);
        add(&mut measures.input_tokens, self.input_tokens);
        add(&mut measures.output_tokens, self.output_tokens);
        add(&mut measures.total_tokens, self.total_tokens);
        if let Some(cost) = self.cost {
            add(&mut measures.cost, cost);
            add(&mut measures.priced, 1);
        }
        add(&mut measures.unpriced, u64::from(self.is_unpriced));
        match self.hit {
            Hit::None => {}
            Hit::Simple => {
                add(&mut measures.simple_hits, 1);
                add(&mut measures.simple_saved, self.saved);
            }
            Hit::Semantic => {
                add(&mut measures.semantic_hits, 1);
                add(&mut measures.semantic_saved, self.saved);
            }
        }
        if self.hit != Hit::None {
            add(&mut measures.hit_latency, self.latency_us);
        }
        if self.is_success {
            add(&mut measures.successes, 1);
            add(&mut measures.fallbacks, u64::from(self.is_fallback));
            let retries = usize::try_from(self.retries).unwrap_or(MAX_RETRIES).min(MAX_RETRIES);
            if let Some(counter) = retries.checked_sub(1).and_then(|at| measures.retried.get_mut(at)) {
                add(counter, 1);
            }
        }
        measures.first = measures.first.min(self.at);
        measures.last = measures.last.max(self.at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::rollup::HourCells;
    use crate::ledger::row;

    #[test]
    fn sums_stop_at_the_largest_number() {
        let most = u64::MAX;
        let row = row::sample(1);
        let sample = Sample {
            input_tokens: most,
            output_tokens: most,
            total_tokens: most,
            latency_us: most,
            cost: Some(most),
            saved: most,
            ..Sample::of(&row)
        };
        let mut cells = HourCells::default();
        let mut measures = Measures::default();
        for hit in [Hit::Simple, Hit::Semantic, Hit::Simple, Hit::Semantic] {
            let sample = Sample { hit, ..sample.clone() };
            sample.count(&mut measures);
            cells.add(&sample);
        }
        assert_eq!(
            (measures.input_tokens, measures.simple_saved, measures.semantic_saved),
            (most, most, most)
        );
        assert_eq!((measures.requests, measures.hits()), (4, 4));
        let mut twice = measures.clone();
        twice.merge(&measures);
        assert_eq!((twice.output_tokens, twice.requests), (most, 8));
        assert_eq!(cells.into_pieces().count(), 1);
    }
}
