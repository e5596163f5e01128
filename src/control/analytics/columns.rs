//! The columns of groups: their names, what they show, and how groups are ordered by them.

use super::{average_latency, cents, number, percent, ratio, rounded, time};
use memory::ledger::analytics::Group;
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

/// All columns in their order, with their names. Groups may be ordered by each of them.
const COLUMNS: [(Column, &str); 14] = [
    (Column::Requests, "requests"),
    (Column::Cost, "cost"),
    (Column::TotalTokens, "total_tokens"),
    (Column::AvgTokens, "avg_tokens"),
    (Column::AvgInputTokens, "avg_input_tokens"),
    (Column::AvgOutputTokens, "avg_output_tokens"),
    (Column::AvgLatency, "avg_latency"),
    (Column::P95Latency, "p95_latency"),
    (Column::P99Latency, "p99_latency"),
    (Column::SuccessRate, "success_rate"),
    (Column::ErrorCount, "error_count"),
    (Column::CacheHitRate, "cache_hit_rate"),
    (Column::Last, "last_seen"),
    (Column::First, "first_seen"),
];

const ALL_NAMES: [&str; COLUMNS.len()] = {
    let mut names = [""; COLUMNS.len()];
    let mut from = COLUMNS.as_slice();
    let mut to = names.as_mut_slice();
    while let ([(_, name), rest @ ..], [place, places @ ..]) = (from, to) {
        *place = *name;
        (from, to) = (rest, places);
    }
    names
};

/// What groups may be ordered by.
pub(super) const ORDERS: &[&str] = &ALL_NAMES;

/// The columns that a request may select. The number of requests is there always.
pub(super) const NAMES: &[&str] = match ORDERS {
    [_requests, rest @ ..] => rest,
    [] => &[],
};

impl Column {
    pub fn parse(name: &str) -> Option<Self> {
        COLUMNS.iter().find(|(_, of)| *of == name).map(|(column, _)| *column)
    }

    pub fn name(self) -> &'static str {
        COLUMNS.iter().find(|(column, _)| *column == self).map_or("", |(_, name)| name)
    }

    /// Whether it needs the latencies of single requests.
    pub(crate) const fn is_percentile(self) -> bool {
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
    fn each_column_has_one_name_and_all_but_the_first_may_be_selected() {
        for (column, name) in COLUMNS {
            assert_eq!((column.name(), Column::parse(name)), (name, Some(column)));
        }
        assert_eq!((ORDERS.len(), ORDERS[0], NAMES), (14, "requests", &ORDERS[1..]));
        assert_eq!(Column::parse(""), None);
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
