//! The columns of groups (spec "Analytics"): their names, what they show, and how groups are ordered by them.

use super::{average_latency, cents, number, percent, ratio, rounded, time};
use crate::ledger::analytics::Group;
use serde_json::Value;

/// A column of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    Requests,
    Cost,
    TotalTokens,
    AvgTokens,
    AvgInputTokens,
    AvgOutputTokens,
    AvgLatency,
    P95Latency,
    P99Latency,
    SuccessRate,
    ErrorCount,
    CacheHitRate,
    Last,
    First,
}

/// The columns that a request may select.
pub(super) const NAMES: &[&str] = &[
    "cost",
    "total_tokens",
    "avg_tokens",
    "avg_input_tokens",
    "avg_output_tokens",
    "avg_latency",
    "p95_latency",
    "p99_latency",
    "success_rate",
    "error_count",
    "cache_hit_rate",
    "last_seen",
    "first_seen",
];

/// What groups may be ordered by.
pub(super) const ORDERS: &[&str] = &[
    "requests",
    "cost",
    "total_tokens",
    "avg_tokens",
    "avg_input_tokens",
    "avg_output_tokens",
    "avg_latency",
    "p95_latency",
    "p99_latency",
    "success_rate",
    "error_count",
    "cache_hit_rate",
    "last_seen",
    "first_seen",
];

const ALL: [Column; 14] = [
    Column::Requests,
    Column::Cost,
    Column::TotalTokens,
    Column::AvgTokens,
    Column::AvgInputTokens,
    Column::AvgOutputTokens,
    Column::AvgLatency,
    Column::P95Latency,
    Column::P99Latency,
    Column::SuccessRate,
    Column::ErrorCount,
    Column::CacheHitRate,
    Column::Last,
    Column::First,
];

impl Column {
    pub fn parse(name: &str) -> Option<Self> {
        ALL.into_iter().find(|column| column.name() == name)
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Cost => "cost",
            Self::TotalTokens => "total_tokens",
            Self::AvgTokens => "avg_tokens",
            Self::AvgInputTokens => "avg_input_tokens",
            Self::AvgOutputTokens => "avg_output_tokens",
            Self::AvgLatency => "avg_latency",
            Self::P95Latency => "p95_latency",
            Self::P99Latency => "p99_latency",
            Self::SuccessRate => "success_rate",
            Self::ErrorCount => "error_count",
            Self::CacheHitRate => "cache_hit_rate",
            Self::Last => "last_seen",
            Self::First => "first_seen",
        }
    }

    /// Whether it needs the latencies of single requests.
    pub const fn is_percentile(self) -> bool {
        matches!(self, Self::P95Latency | Self::P99Latency)
    }

    /// The number that groups are ordered by. `None`: nothing is there.
    pub fn rank(self, group: &Group) -> Option<f64> {
        let measures = &group.measures;
        let requests = measures.requests;
        let average = |sum: u64| rounded(ratio(sum as f64, requests));
        Some(match self {
            Self::Requests => requests as f64,
            Self::Cost => return cost(group),
            Self::TotalTokens => measures.total_tokens as f64,
            Self::AvgTokens => average(measures.total_tokens),
            Self::AvgInputTokens => average(measures.input_tokens),
            Self::AvgOutputTokens => average(measures.output_tokens),
            Self::AvgLatency => average_latency(measures.latency, requests),
            Self::P95Latency => return percentile(group, 0.95),
            Self::P99Latency => return percentile(group, 0.99),
            Self::SuccessRate => percent(measures.successes, requests),
            Self::ErrorCount => measures.errors() as f64,
            Self::CacheHitRate => percent(measures.hits(), requests),
            Self::Last => measures.last as f64,
            Self::First => measures.first as f64,
        })
    }

    /// The value in a response.
    pub fn show(self, group: &Group) -> Value {
        match self {
            Self::Requests => group.measures.requests.into(),
            Self::TotalTokens => group.measures.total_tokens.into(),
            Self::ErrorCount => group.measures.errors().into(),
            Self::Last => time(group.measures.last).into(),
            Self::First => time(group.measures.first).into(),
            column => number(column.rank(group)),
        }
    }
}

/// Cents. `None` where there were requests that cost something and none of them has a price: that is not 0.
pub(super) fn cost(group: &Group) -> Option<f64> {
    let measures = &group.measures;
    (measures.priced > 0 || measures.unpriced == 0).then(|| cents(measures.cost))
}

fn percentile(group: &Group, quantile: f64) -> Option<f64> {
    let [found] = group.latencies.quantiles([quantile]);
    found.map(rounded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_of_names_are_those_of_the_columns() {
        let names: Vec<&str> = ALL.iter().map(|column| column.name()).collect();
        assert_eq!(names, ORDERS);
        assert_eq!(names[1..], *NAMES);
    }

    #[test]
    fn an_unknown_price_is_not_zero() {
        let mut group = Group::default();
        assert_eq!(Column::Cost.show(&group), 0.0);
        group.measures.unpriced = 1;
        assert_eq!(Column::Cost.show(&group), Value::Null);
        group.measures.priced = 1;
        group.measures.cost = 75_000;
        assert_eq!(Column::Cost.show(&group), 0.0075);
    }
}
