//! `/analytics/graphs/…` and `/analytics/summary/cache`: one number in time. The graphs of feedback are in `feedback`.

use super::buckets::{Granularity, MAX_BUCKETS, starts};
use super::{COMMON, Subject, Sum, average_latency, cents, percent, ratio, rounded, sums, time};
use crate::call::Call;
use crate::field::{Field, Type, optional, required};
use crate::reply::Reply;
use crate::route::{Access, Route, Shape, get};
use jiff::tz::TimeZone;
use memory::ledger::analytics::{By, Group};
use memory::ledger::rollup::sample::Dimension;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use words::error::Error;
use words::settings::scopes::Scope;
use words::tables::concat;

const IN_TIME: [Field; 2] = [
    optional(
        "granularity",
        Type::OneOf(Granularity::NAMES),
        "How long a data point is. By default minutes up to 3 hours, hours up to 3 days, days up to 92 days, then weeks.",
    ),
    optional("timezone", Type::Text(64), "Where days and weeks begin, as `Europe/Berlin`; UTC by default."),
];
pub(super) const QUERY: [Field; 29] = concat(&COMMON, &IN_TIME);

pub(super) const GRAPH: Shape = Shape::Object(&[
    required("summary", Type::AnyObject, "Of the whole range."),
    required(
        "data_points",
        Type::List(&Type::AnyObject, 0, 100_000),
        "The oldest first, empty ones included.",
    ),
    required("object", Type::Text(20), "`analytics-graph`."),
]);

const SUMMARY: Shape = Shape::Object(&[
    required("summary", Type::AnyObject, "Of the whole range."),
    required("object", Type::Text(20), "`analytics-summary`."),
]);

pub(super) const VIEW: Access = Access::Scope(&[Scope::AnalyticsView]);

pub(crate) const ROUTES: &[Route] = &[
    get("/v1/analytics/graphs/requests", VIEW, "Requests in time", |call| Box::pin(show(call, &REQUESTS)))
        .query(&QUERY)
        .replies(GRAPH),
    get("/v1/analytics/graphs/cost", VIEW, "Cost in time, cents", |call| Box::pin(show(call, &COST)))
        .query(&QUERY)
        .replies(GRAPH),
    get("/v1/analytics/graphs/latency", VIEW, "Latency in time, milliseconds", |call| {
        Box::pin(show(call, &LATENCY))
    })
    .query(&QUERY)
    .replies(GRAPH),
    get("/v1/analytics/graphs/tokens", VIEW, "Tokens in time", |call| Box::pin(show(call, &TOKENS)))
        .query(&QUERY)
        .replies(GRAPH),
    get("/v1/analytics/graphs/users", VIEW, "Users in time", |call| Box::pin(show(call, &USERS)))
        .query(&QUERY)
        .replies(GRAPH),
    get("/v1/analytics/graphs/users/requests", VIEW, "Requests of a user in time", |call| {
        Box::pin(show(call, &USER_REQUESTS))
    })
    .query(&QUERY)
    .replies(GRAPH),
    get("/v1/analytics/graphs/errors", VIEW, "Errors in time", |call| Box::pin(show(call, &ERRORS)))
        .query(&QUERY)
        .replies(GRAPH),
    get("/v1/analytics/graphs/errors/rate", VIEW, "Errors in time, per cent", |call| {
        Box::pin(show(call, &ERROR_RATE))
    })
    .query(&QUERY)
    .replies(GRAPH),
    get("/v1/analytics/graphs/errors/stacks", VIEW, "Errors in time, by status", |call| {
        Box::pin(show(call, &ERROR_STACKS))
    })
    .query(&QUERY)
    .replies(GRAPH),
    get("/v1/analytics/graphs/errors/status-codes", VIEW, "Errors by status", |call| {
        Box::pin(show(call, &STATUS_CODES))
    })
    .query(&QUERY)
    .replies(GRAPH),
    get("/v1/analytics/graphs/requests/rescued", VIEW, "Requests saved by retries and fallbacks", |call| {
        Box::pin(show(call, &RESCUED))
    })
    .query(&QUERY)
    .replies(GRAPH),
    get("/v1/analytics/graphs/cache/hit-rate", VIEW, "Responses from the cache in time", |call| {
        Box::pin(show(call, &HIT_RATE))
    })
    .query(&QUERY)
    .replies(GRAPH),
    get("/v1/analytics/graphs/cache/latency", VIEW, "Latency of the cache in time", |call| {
        Box::pin(show(call, &HIT_LATENCY))
    })
    .query(&QUERY)
    .replies(GRAPH),
    get("/v1/analytics/summary/cache", VIEW, "What the cache has done", |call| Box::pin(cache(call)))
        .query(&QUERY)
        .replies(SUMMARY),
];

/// One graph.
struct Graph {
    by: By,
    has_percentiles: bool,
    summary: fn(&Answer) -> Value,
    /// The data points.
    points: fn(&Answer) -> Vec<Value>,
}

/// What a graph is made of.
struct Answer {
    /// Milliseconds since 1970.
    starts: Vec<i64>,
    sums: Vec<Sum>,
}

impl Answer {
    /// All of it.
    fn total(&self) -> Group {
        merged(self.sums.iter())
    }

    /// The sums of each bucket.
    fn buckets(&self) -> impl Iterator<Item = (i64, Vec<&Sum>)> {
        let mut buckets: Vec<Vec<&Sum>> = self.starts.iter().map(|_| Vec::new()).collect();
        for sum in &self.sums {
            if let Some(bucket) = buckets.get_mut(sum.bucket) {
                bucket.push(sum);
            }
        }
        self.starts.iter().copied().zip(buckets)
    }

    /// A data point for each bucket, with its time.
    fn points(&self, mut show: impl FnMut(&Group) -> Value) -> Vec<Value> {
        self.buckets().map(|(start, sums)| at(start, show(&merged(sums.into_iter())))).collect()
    }

    /// Errors by status, in order.
    fn errors<'a>(sums: impl Iterator<Item = &'a Sum>) -> BTreeMap<u16, u64> {
        let mut errors = BTreeMap::new();
        for sum in sums.filter(|sum| sum.group.measures.errors() > 0) {
            let status = sum.value.as_deref().and_then(|code| code.parse().ok()).unwrap_or(0);
            *errors.entry(status).or_insert(0) += sum.group.measures.errors();
        }
        errors
    }
}

fn merged<'a>(sums: impl Iterator<Item = &'a Sum>) -> Group {
    let mut all = Group::default();
    sums.for_each(|sum| all.merge(&sum.group));
    all
}

/// A data point with its time.
pub(super) fn at(start: i64, mut point: Value) -> Value {
    if let Value::Object(members) = &mut point {
        members.insert("timestamp".to_owned(), time(start).into());
    }
    point
}

/// The spans of a call's graph.
///
/// # Errors
/// 400 for an unknown zone or too many data points.
pub(super) fn spans(call: &Call, range: &Range<i64>) -> Result<Vec<i64>, Error> {
    let zone = match call.query_text("timezone") {
        None => TimeZone::UTC,
        Some(name) => TimeZone::get(name).map_err(|_| {
            Error::invalid_request("timezone", format!("{name:?} is no time zone such as Europe/Berlin."))
        })?,
    };
    let named = call.query_text("granularity").and_then(Granularity::parse);
    let granularity = named.unwrap_or_else(|| Granularity::for_range(range));
    starts(range, granularity, &zone).ok_or_else(|| {
        let why = format!(
            "The range has more than {MAX_BUCKETS} data points. Choose longer ones, or a shorter range."
        );
        Error::invalid_request("granularity", why)
    })
}

async fn answer(call: &Call, by: By, has_percentiles: bool) -> Result<Answer, Error> {
    let subject = Subject::of(call, true)?;
    let starts = spans(call, &subject.range)?;
    let boundaries = starts.iter().skip(1).copied().collect();
    let sums = sums(call, subject.query(by, boundaries, has_percentiles)).await?;
    Ok(Answer { starts, sums })
}

async fn show(call: Call, graph: &'static Graph) -> Result<Reply, Error> {
    let answer = answer(&call, graph.by.clone(), graph.has_percentiles).await?;
    Ok(Reply::from(json!({
        "summary": (graph.summary)(&answer),
        "data_points": (graph.points)(&answer),
        "object": "analytics-graph",
    })))
}

/// A graph of sums.
const fn plain(summary: fn(&Answer) -> Value, points: fn(&Answer) -> Vec<Value>) -> Graph {
    Graph { by: By::Nothing, has_percentiles: false, summary, points }
}

static REQUESTS: Graph = plain(
    |answer| json!({"total": answer.total().measures.requests}),
    |answer| answer.points(|group| json!({"total": group.measures.requests})),
);

static COST: Graph = plain(
    |answer| {
        let total = answer.total();
        let mut shown = cost(&total);
        if let (Value::Object(members), true) = (&mut shown, total.measures.unpriced > 0) {
            members.insert("unpriced_requests".to_owned(), total.measures.unpriced.into());
        }
        shown
    },
    |answer| answer.points(cost),
);

/// Cents; on average of the requests whose price is there, or that cost nothing.
fn cost(group: &Group) -> Value {
    let measures = &group.measures;
    let total = cents(measures.cost);
    json!({"total": total, "avg": ratio(total, measures.requests.saturating_sub(measures.unpriced))})
}

static LATENCY: Graph = Graph {
    by: By::Nothing,
    has_percentiles: true,
    summary: |answer| latency(&answer.total()),
    points: |answer| answer.points(latency),
};

fn latency(group: &Group) -> Value {
    let [p50, p90, p99] =
        group.latencies.quantiles([0.5, 0.9, 0.99]).map(|found| rounded(found.unwrap_or(0.0)));
    let avg = average_latency(group.measures.latency, group.measures.requests);
    json!({"avg": avg, "p50": p50, "p90": p90, "p99": p99})
}

static TOKENS: Graph = plain(|answer| tokens(&answer.total()), |answer| answer.points(tokens));

fn tokens(group: &Group) -> Value {
    let measures = &group.measures;
    let avg = rounded(ratio(measures.total_tokens as f64, measures.requests));
    json!({"total": measures.total_tokens, "avg": avg})
}

static USERS: Graph = Graph {
    by: By::User,
    has_percentiles: false,
    summary: |answer| json!({"total": users(answer.sums.iter()).len()}),
    points: |answer| {
        let total = |sums: Vec<&Sum>| json!({"total": users(sums.into_iter()).len()});
        answer.buckets().map(|(start, sums)| at(start, total(sums))).collect()
    },
};

/// The requests of each user.
fn users<'a>(sums: impl Iterator<Item = &'a Sum>) -> BTreeMap<Arc<str>, u64> {
    let mut users = BTreeMap::new();
    for sum in sums {
        if let Some(user) = &sum.value {
            *users.entry(Arc::clone(user)).or_insert(0) += sum.group.measures.requests;
        }
    }
    users
}

static USER_REQUESTS: Graph = Graph {
    by: By::User,
    has_percentiles: false,
    summary: |answer| {
        let users = users(answer.sums.iter());
        let total: u64 = users.values().sum();
        json!({"total": total, "unique": users.len(), "avg": rounded(ratio(total as f64, users.len() as u64))})
    },
    points: |answer| {
        let avg = |sums: Vec<&Sum>| {
            let users = users(sums.into_iter());
            json!({"avg": rounded(ratio(users.values().sum::<u64>() as f64, users.len() as u64))})
        };
        answer.buckets().map(|(start, sums)| at(start, avg(sums))).collect()
    },
};

static ERRORS: Graph = plain(
    |answer| json!({"total": answer.total().measures.errors()}),
    |answer| answer.points(|group| json!({"total": group.measures.errors()})),
);

static ERROR_RATE: Graph = plain(|answer| error_rate(&answer.total()), |answer| answer.points(error_rate));

fn error_rate(group: &Group) -> Value {
    json!({"rate": percent(group.measures.errors(), group.measures.requests)})
}

static ERROR_STACKS: Graph = Graph {
    by: By::Dimension(Dimension::StatusCode),
    has_percentiles: false,
    summary: |answer| json!({"total": answer.total().measures.errors()}),
    points: |answer| {
        let stats = |sums: Vec<&Sum>| {
            let errors = Answer::errors(sums.into_iter());
            let stats: Vec<Value> = errors
                .into_iter()
                .map(|(status, count)| json!({"response_status_code": status, "count": count}))
                .collect();
            json!({"stats": stats})
        };
        answer.buckets().map(|(start, sums)| at(start, stats(sums))).collect()
    },
};

static STATUS_CODES: Graph = Graph {
    by: By::Dimension(Dimension::StatusCode),
    has_percentiles: false,
    summary: |answer| {
        let errors = Answer::errors(answer.sums.iter());
        json!({"total_errors": errors.values().sum::<u64>(), "unique_error_codes": errors.len()})
    },
    points: |answer| {
        let errors = Answer::errors(answer.sums.iter()).into_iter();
        errors.map(|(status, count)| json!({"status_code": status, "count": count})).collect()
    },
};

static RESCUED: Graph = plain(
    |answer| {
        let total = answer.total().measures;
        json!({"retry": total.retried.iter().sum::<u64>(), "fallback": total.fallbacks})
    },
    |answer| {
        answer.points(|group| {
            let counts = group.measures.retried.iter().enumerate().filter(|(_, count)| **count > 0);
            let retry: Vec<Value> =
                counts.map(|(at, count)| json!({"retry_success_count": at + 1, "count": count})).collect();
            json!({"retry": retry, "fallback": group.measures.fallbacks})
        })
    },
);

static HIT_RATE: Graph = plain(
    |answer| {
        let total = answer.total().measures;
        json!({"total": total.hits(), "rate": percent(total.hits(), total.requests)})
    },
    |answer| {
        let mut simple = 0;
        let mut semantic = 0;
        answer.points(|group| {
            let measures = &group.measures;
            simple = u64::saturating_add(simple, measures.simple_saved);
            semantic = u64::saturating_add(semantic, measures.semantic_saved);
            json!({
                "simple_hits": measures.simple_hits,
                "semantic_hits": measures.semantic_hits,
                "rate": percent(measures.hits(), measures.requests),
                "cumulative_simple_cache_savings": cents(simple),
                "cumulative_semantic_cache_savings": cents(semantic),
            })
        })
    },
);

static HIT_LATENCY: Graph = plain(
    |_| json!({}),
    |answer| {
        answer.points(
            |group| json!({"avg": average_latency(group.measures.hit_latency, group.measures.hits())}),
        )
    },
);

async fn cache(call: Call) -> Result<Reply, Error> {
    let subject = Subject::of(&call, true)?;
    let sums = sums(&call, subject.query(By::Nothing, Vec::new(), false)).await?;
    let all = merged(sums.iter()).measures;
    let hits = all.hits();
    let of_hits = average_latency(all.hit_latency, hits);
    let of_others = average_latency(all.latency.saturating_sub(all.hit_latency), all.requests - hits);
    // How many times faster a response of the cache is.
    let speedup = if hits == 0 || of_others == 0.0 { 0.0 } else { rounded(of_others / of_hits.max(0.01)) };
    let summary = json!({
        "hits": hits,
        "avg_latency": of_hits,
        "total_requests": all.requests,
        "cache_speedup": speedup,
        "saved_cost": cents(all.simple_saved.saturating_add(all.semantic_saved)),
    });
    Ok(Reply::from(json!({"summary": summary, "object": "analytics-summary"})))
}
