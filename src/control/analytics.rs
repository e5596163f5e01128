//! Sums over the ledger's requests: groups, graphs, the summary of the cache.
//!
//! Reads the parameters of a call and has the ledger answer; what is counted and where it is read is the ledger's matter.

mod buckets;
mod columns;
mod feedback;
mod graphs;
mod groups;

use super::call::Call;
use super::field::{Field, Type, required};
use super::log_filter::{self, FIELDS};
use super::logs;
pub(super) use feedback::ROUTES as FEEDBACK_ROUTES;
pub(super) use graphs::ROUTES as GRAPH_ROUTES;
pub(super) use groups::ROUTES as GROUP_ROUTES;
use jiff::{SignedDuration, Timestamp};
use knowledge::price::money;
use memory::ledger::Question;
use memory::ledger::analytics::{By, Group, Query, Tally};
use memory::ledger::filter::Filter;
use memory::ledger::log_store::LogError;
use serde_json::Value;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use words::config::read::Problems;
use words::error::Error;
use words::tables::concat;

/// How long an answer may be looked for.
const TIMEOUT: Duration = Duration::from_secs(10);

const TIMES: [Field; 2] = [
    required("time_of_generation_min", Type::Time, "The first moment; included."),
    required("time_of_generation_max", Type::Time, "The last moment; not included."),
];

/// The parameters of all calls but groups.
const COMMON: [Field; 27] = concat(&TIMES, &FIELDS);

/// The time that a call is about which names only its end, or neither.
const DEFAULT_RANGE: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Which requests a call is about.
struct Subject {
    filter: Filter,
    range: Range<i64>,
}

impl Subject {
    /// Reads the parameters. `has_archived`: whether archived workspaces are there for keys of the organisation.
    ///
    /// # Errors
    /// 400 with all problems; those of [`log_filter::workspaces`].
    fn of(call: &Call, has_archived: bool) -> Result<Self, Error> {
        let problems = Problems::default();
        let mut filter = log_filter::read(call, &call.query, &problems);
        let time = |name: &str| {
            let text = call.query_text(name)?;
            text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond)
        };
        // The end is not included.
        let now = call.now.as_millisecond().saturating_add(1);
        let max = time("time_of_generation_max").unwrap_or(now);
        let before = max.saturating_sub(DEFAULT_RANGE.as_secs().saturating_mul(1000));
        let min = time("time_of_generation_min").unwrap_or(before);
        if min >= max {
            problems.push("time_of_generation_max", None, "must be after time_of_generation_min");
        }
        if !problems.is_empty() {
            return Err(Error::invalid_body(problems.into_vec()));
        }
        let named = call.query_text("workspace_slug").or_else(|| call.query_text("workspace_id"));
        filter.workspaces = Some(log_filter::workspaces(call, named, has_archived)?);
        log_filter::restrict(&mut filter, call.visible_keys());
        Ok(Self { filter, range: min..max })
    }

    fn query(self, by: By, boundaries: Vec<i64>, has_percentiles: bool) -> Query {
        Query { filter: self.filter, range: self.range, boundaries, by, has_percentiles }
    }
}

/// The sums of one bucket and one value of what is grouped by.
struct Sum {
    bucket: usize,
    value: Option<Arc<str>>,
    group: Group,
}

/// Has the ledger answer.
///
/// # Errors
/// 400 for a question that would take too long or too much memory, 503 while the log store is away, or as many ask as may.
async fn sums(call: &Call, query: Query) -> Result<Vec<Sum>, Error> {
    let reads_rows = !query.plan().cover.rows.is_empty() && query.plan().cover.hours.is_empty();
    let held = call.held_by_answer();
    let question = Question::Sums.of(call.own_workspace());
    let done = logs::ledger(call)?.run(question, TIMEOUT, move |store, control| {
        let mut tally = Tally::within(query, held);
        store.sums(&mut tally, control)?;
        let sum = |(bucket, value, group): (u32, Option<Arc<str>>, Group)| Sum {
            bucket: usize::try_from(bucket).unwrap_or(usize::MAX),
            value,
            group,
        };
        Ok(tally.into_groups().map(sum).collect())
    });
    done.await.map_err(|error| refused(error, reads_rows))
}

fn refused(error: LogError, reads_rows: bool) -> Error {
    let too_much = |what: &str| {
        let why = if reads_rows {
            " Users, metadata, tokens, costs, traces, feedback and minutes are read from single requests."
        } else {
            ""
        };
        let advice = "Choose a shorter range, or fewer conditions.";
        Error::invalid_request("time_of_generation_min", format!("{what}.{why} {advice}"))
    };
    match error {
        LogError::TooLong => too_much("The range has more requests than can be read in 10 s"),
        LogError::TooMany => too_much("The range has more groups than fit into memory"),
        error => logs::refused(error),
    }
}

/// A time as responses have it. `None` for what is no time.
fn time(milliseconds: i64) -> Option<String> {
    Timestamp::from_millisecond(milliseconds).ok().map(|time| format!("{time:.3}"))
}

/// Cents of nanodollars.
fn cents(nanodollars: u64) -> f64 {
    money::cents(i64::try_from(nanodollars).unwrap_or(i64::MAX))
}

/// `part` of `whole`, 0 of nothing.
fn ratio(part: f64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part / whole as f64 }
}

/// `part` in per cent of `whole`, with two decimals.
fn percent(part: u64, whole: u64) -> f64 {
    rounded(ratio(part as f64 * 100.0, whole))
}

/// Two decimals.
fn rounded(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

/// Milliseconds with two decimals of microseconds, on average.
fn average_latency(microseconds: u64, requests: u64) -> f64 {
    rounded(ratio(microseconds as f64 / 1000.0, requests))
}

/// A number that may be absent.
fn number(value: Option<f64>) -> Value {
    value.map_or(Value::Null, Value::from)
}
