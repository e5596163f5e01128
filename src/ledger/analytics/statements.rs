//! The statements that read single requests and feedback for sums, the same for both databases.

use super::super::filter::{Argument, Condition, Dialect, Filter};
use super::query::{By, Query};
use std::ops::Range;

/// What a sample is made of, in order; then the group's value, and the number and sum of the trace's feedback.
const SAMPLE: &str = "workspace, created_ms, vendor, model, status, api_key, config, provider, prompt, cache_status, is_success, \
                      latency_us, input_tokens, output_tokens, total_tokens, cost, cost_status, saved_cost, retries, is_fallback";

/// The number and sum of the feedback, where it is not wanted.
const NO_FEEDBACK: &str = "CAST(0 AS bigint), CAST(0 AS double precision)";

/// Selects the samples of the requests in `range`, milliseconds since 1970, from a table of rows.
pub fn samples(query: &Query, range: &Range<i64>, table: &str, dialect: Dialect) -> (String, Vec<Argument>) {
    let filter = Filter { since: Some(range.start), until: Some(range.end), ..query.filter.clone() };
    let mut condition = filter.condition(dialect);
    let group = match &query.by {
        By::User => format!("user_name, {NO_FEEDBACK}"),
        By::Metadata(name) => {
            let value = member(&mut condition, name, dialect);
            let of_trace = format!("FROM feedback WHERE feedback.trace_id = {table}.trace_id");
            let sum = "coalesce(sum(feedback.value * feedback.weight), 0.0)";
            format!("{value}, (SELECT count(*) {of_trace}), (SELECT {sum} {of_trace})")
        }
        _ => format!("NULL, {NO_FEEDBACK}"),
    };
    let (condition, arguments) = condition.into_parts();
    (format!("SELECT {SAMPLE}, {group} FROM {table} WHERE kind = 0 AND {condition}"), arguments)
}

/// A member of the metadata.
fn member(condition: &mut Condition, name: &str, dialect: Dialect) -> String {
    let name = condition.argument(Argument::Text(name.to_owned()));
    match dialect {
        Dialect::Sqlite => {
            format!("(SELECT pair.value FROM json_each(metadata) AS pair WHERE pair.key = {name})")
        }
        Dialect::Postgres => format!("metadata::jsonb ->> {name}::text"),
    }
}

/// Selects id, time, value, weight and model of feedback. Where `requests` is a table of rows: of the feedback whose requests match the filter,
/// once for each of them; else of all feedback in the filter's times and workspaces, without a model.
pub fn feedback(filter: &Filter, requests: Option<&str>, dialect: Dialect) -> (String, Vec<Argument>) {
    let columns = "feedback.id, feedback.created_ms, feedback.value, feedback.weight";
    let Some(table) = requests else {
        let (condition, arguments) = filter.about_time_and_workspace().condition(dialect).into_parts();
        return (format!("SELECT {columns}, NULL FROM feedback WHERE {condition}"), arguments);
    };
    let mut condition = filter.condition(dialect);
    // The times of the feedback are those of the requests.
    let requests = format!("SELECT trace_id, model FROM {table} WHERE kind = 0 AND {}", condition.sql());
    let mut times = Vec::new();
    for (operator, time) in [(">=", filter.since), ("<", filter.until)] {
        if let Some(time) = time {
            let place = condition.argument(Argument::Int(time));
            times.push(format!("feedback.created_ms {operator} {place}"));
        }
    }
    let times = if times.is_empty() { "1 = 1".to_owned() } else { times.join(" AND ") };
    let sql = format!(
        "SELECT {columns}, requests.model FROM feedback JOIN ({requests}) AS requests ON requests.trace_id = feedback.trace_id WHERE {times}"
    );
    (sql, condition.into_parts().1)
}
