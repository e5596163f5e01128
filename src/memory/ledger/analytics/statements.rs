//! The statements that read single requests and feedback for sums, and their rows: the same for both databases.

use super::super::days::{day, day_of};
use super::super::filter::Filter;
use super::super::id::ms_key;
use super::super::rollup::sample::{Hit, Sample};
use super::feedback_tally::FeedbackSum;
use super::query::{By, Query};
use crate::store::sql::{Dialect, ResultRow, SqlCondition, Statement, WrongType};
use std::ops::Range;

/// What a sample is made of, in order; then the group's value, and the number and sum of the feedback that
/// its workspace has for the trace.
const SAMPLE: &str = "workspace, created_ms, vendor, model, status, api_key, config, provider, prompt, cache_status, is_success, \
                      latency_us, input_tokens, output_tokens, total_tokens, cost, cost_status, saved_cost, retries, is_fallback";

/// The number and sum of the feedback, where it is not wanted.
const NO_FEEDBACK: &str = "CAST(0 AS bigint), CAST(0 AS double precision)";

/// Selects the samples of the requests in `range`, milliseconds since 1970, from a table of rows.
pub fn samples(query: &Query, range: &Range<i64>, table: &str, dialect: Dialect) -> Statement<'static> {
    let filter = Filter { since: Some(range.start), until: Some(range.end), ..query.filter.clone() };
    let mut condition = filter.condition(dialect);
    keys(&mut condition, range, table);
    let group = match &query.by {
        By::User => format!("user_name, {NO_FEEDBACK}"),
        By::RequestedModel => format!("requested_model, {NO_FEEDBACK}"),
        By::Metadata(name) => {
            let value = member(&mut condition, name);
            let own = condition.workspace_of(&format!("{table}."), filter.default_workspace);
            let given = condition.workspace_of("feedback.", filter.default_workspace);
            let of_trace =
                format!("FROM feedback WHERE feedback.trace_id = {table}.trace_id AND {given} = {own}");
            let sum = "coalesce(sum(feedback.value * feedback.weight), 0.0)";
            format!("{value}, (SELECT count(*) {of_trace}), (SELECT {sum} {of_trace})")
        }
        _ => format!("NULL, {NO_FEEDBACK}"),
    };
    let sql = format!("SELECT {SAMPLE}, {group} FROM {table} WHERE kind = 0 AND {}", condition.sql());
    condition.into_statement(sql)
}

/// Bounds of SQLite's key where the range ends within the day of the table, so that the rest of the day is not read.
fn keys(condition: &mut SqlCondition<'_>, range: &Range<i64>, table: &str) {
    let Some(at) = table.strip_prefix("rows_").and_then(day_of) else { return };
    let first = Some(range.start).filter(|start| day(*start) == at);
    let end = Some(range.end).filter(|end| day(*end) == at);
    condition.compare("key >=", first.map(ms_key));
    condition.compare("key <", end.map(ms_key));
}

/// A row of [`samples`].
#[derive(Debug)]
pub(crate) struct SampleRow<'a> {
    pub sample: Sample<'a>,
    /// The group's value: a user, a name of a model or a member of the metadata.
    pub value: Option<&'a str>,
    pub feedback: FeedbackSum,
}

impl<'a> SampleRow<'a> {
    /// Reads the columns in their order.
    ///
    /// # Errors
    /// The database's.
    pub fn read(row: &'a dyn ResultRow) -> Result<Self, WrongType> {
        let text = |column| row.text(column);
        let amount = |column| row.int(column).map(|of| of.and_then(|of| u64::try_from(of).ok()));
        let is_set = |column| row.int(column).map(|of| of == Some(1));
        let sample = Sample {
            workspace: row.uuid(0)?.unwrap_or_default(),
            at: row.int(1)?.unwrap_or_default(),
            values: [text(2)?, text(3)?, None, text(5)?, text(6)?, text(7)?, text(8)?, text(9)?],
            status: row.int(4)?.and_then(|status| u16::try_from(status).ok()).unwrap_or(0),
            is_success: is_set(10)?,
            latency_us: amount(11)?.unwrap_or(0),
            input_tokens: amount(12)?.unwrap_or(0),
            output_tokens: amount(13)?.unwrap_or(0),
            total_tokens: amount(14)?.unwrap_or(0),
            cost: amount(15)?,
            is_unpriced: text(16)? == Some("unknown"),
            hit: Hit::of(text(9)?),
            saved: amount(17)?.unwrap_or(0),
            retries: amount(18)?.unwrap_or(0),
            is_fallback: is_set(19)?,
        };
        let count = amount(21)?.unwrap_or(0);
        let feedback = FeedbackSum {
            requests: u64::from(count > 0),
            count,
            weighted: row.real(22)?.unwrap_or_default(),
        };
        Ok(Self { sample, value: text(20)?, feedback })
    }
}

/// A member of the metadata.
fn member(condition: &mut SqlCondition<'_>, name: &str) -> String {
    let name = condition.argument(name.to_owned());
    match condition.dialect() {
        Dialect::Sqlite => {
            format!("(SELECT pair.value FROM json_each(metadata) AS pair WHERE pair.key = {name})")
        }
        Dialect::Postgres => format!("metadata::jsonb ->> {name}::text"),
    }
}

/// Selects id, time, value, weight and model of feedback. Where `requests` is a table of rows: of the feedback whose requests match the filter,
/// once for each of them; else of all feedback in the filter's times and workspaces, without a model.
pub fn feedback(filter: &Filter, requests: Option<&str>, dialect: Dialect) -> Statement<'static> {
    let columns = "feedback.id, feedback.created_ms, feedback.value, feedback.weight";
    let Some(table) = requests else {
        let condition = filter.about_time_and_workspace().condition(dialect);
        let sql = format!("SELECT {columns}, NULL FROM feedback WHERE {}", condition.sql());
        return condition.into_statement(sql);
    };
    let mut condition = filter.condition(dialect);
    // The times of the feedback are those of the requests.
    let requests =
        format!("SELECT trace_id, workspace, model FROM {table} WHERE kind = 0 AND {}", condition.sql());
    let own = condition.workspace_of("requests.", filter.default_workspace);
    let given = condition.workspace_of("feedback.", filter.default_workspace);
    let mut times = Vec::new();
    for (operator, time) in [(">=", filter.since), ("<", filter.until)] {
        if let Some(time) = time {
            let place = condition.argument(time);
            times.push(format!("feedback.created_ms {operator} {place}"));
        }
    }
    let times = if times.is_empty() { "1 = 1".to_owned() } else { times.join(" AND ") };
    let sql = format!(
        "SELECT {columns}, requests.model FROM feedback JOIN ({requests}) AS requests
            ON requests.trace_id = feedback.trace_id AND {own} = {given} WHERE {times}"
    );
    condition.into_statement(sql)
}
