//! `/analytics/groups/…` and `/logs/groups/…`: sums by one property of requests.

use super::columns::{Column, NAMES, ORDERS, cost};
use super::{Subject, Sum, ratio, rounded, sums, time};
use crate::call::{Call, by_id_or_slug};
use crate::field::{Field, Type, nullable, optional, required};
use crate::log_filter::FIELDS;
use crate::page::{self, Page};
use crate::records::{member, members};
use crate::reply::Reply;
use crate::route::{Access, Route, Run, Shape, get};
use memory::ledger::analytics::By;
use memory::ledger::rollup::sample::Dimension;
use memory::store::{Kind, Record};
use serde_json::{Value, json};
use std::sync::Arc;
use uuid::Uuid;
use words::error::Error;
use words::settings::scopes::Scope;
use words::tables::concat;

const TIMES: [Field; 2] = [
    optional(
        "time_of_generation_min",
        Type::Time,
        "The first moment; included. 30 days before the last by default.",
    ),
    optional("time_of_generation_max", Type::Time, "The last moment; not included. Now by default."),
];
const COMMON: [Field; 27] = concat(&TIMES, &FIELDS);

const CHOICES: [Field; 3] = [
    optional(
        "columns",
        Type::Names(NAMES),
        "What each group shows beside its number of requests, with commas.",
    ),
    optional("order_by", Type::OneOf(ORDERS), "`requests` by default."),
    optional(
        "order",
        Type::OneOf(&["asc", "desc"]),
        "`desc` by default. Equals are in order of their value.",
    ),
];
const QUERY: [Field; 30] = concat(&COMMON, &CHOICES);

const ITEM: &[Field] = &[
    required("requests", Type::Any, "How many requests."),
    required("object", Type::Text(20), "`analytics-group`."),
];

const METADATA_ITEM: &[Field] = &[
    required("metadata_value", Type::Text(512), "The value."),
    required("requests", Type::Integer(0, i64::MAX), "How many requests."),
    nullable("cost", Type::Number(0.0, f64::MAX), "Cents; null where no price is there."),
    required("avg_tokens", Type::Number(0.0, f64::MAX), "Tokens of a request."),
    nullable("avg_weighted_feedback", Type::Number(-10.0, 10.0), "Value × weight; null without feedback."),
    required("requests_with_feedback", Type::Integer(0, i64::MAX), "How many of the requests have feedback."),
    nullable("last_seen", Type::Time, "When the last of them began."),
    required("object", Type::Text(20), "`analytics-group`."),
];

const VIEW: Access = Access::Scope(&[Scope::AnalyticsView]);
const LOGS: Access = Access::Scope(&[Scope::LogsList]);

/// Clients of Portkey add parameters of their own.
const fn group(
    path: &'static str,
    access: Access,
    summary: &'static str,
    query: &'static [Field],
    run: Run,
) -> Route {
    get(path, access, summary, run)
        .query(query)
        .lists(page::QUERY)
        .ignoring_others()
        .replies(Shape::List(ITEM))
}

pub(crate) const ROUTES: &[Route] = &[
    group("/v1/analytics/groups/{groupBy}", VIEW, "Sums up requests by a property", &QUERY, |call| {
        Box::pin(generic(call, true))
    }),
    group("/v1/analytics/groups/users", VIEW, "Sums up requests by user", &COMMON, |call| {
        Box::pin(users(call))
    }),
    group("/v1/analytics/groups/ai-models", VIEW, "Counts requests by model", &COMMON, |call| {
        Box::pin(models(call))
    }),
    group(
        "/v1/analytics/groups/metadata/{metadataKey}",
        VIEW,
        "Sums up requests by metadata",
        &COMMON,
        |call| Box::pin(metadata(call)),
    )
    .replies(Shape::List(METADATA_ITEM)),
    group(
        "/v1/logs/groups/{groupBy}",
        LOGS,
        "Sums up the requests of the logs by a property",
        &QUERY,
        |call| Box::pin(generic(call, false)),
    ),
];

/// What `groupBy` may be.
const PROPERTIES: [(&str, By); 9] = [
    ("ai_service", By::Dimension(Dimension::AiService)),
    ("model", By::Dimension(Dimension::Model)),
    ("requested_model", By::RequestedModel),
    ("status_code", By::Dimension(Dimension::StatusCode)),
    ("api_key", By::Dimension(Dimension::ApiKey)),
    ("config", By::Dimension(Dimension::Config)),
    ("workspace", By::Workspace),
    ("provider", By::Dimension(Dimension::Provider)),
    ("prompt", By::Dimension(Dimension::Prompt)),
];

/// `of_metrics`: the call for analytics, else the one for logs, which reaches as far back as rows are kept.
async fn generic(call: Call, of_metrics: bool) -> Result<Reply, Error> {
    let name = call.param("groupBy");
    let Some((property, by)) = PROPERTIES.into_iter().find(|(property, _)| *property == name) else {
        let names = PROPERTIES.map(|(name, _)| name).join(", ");
        return Err(Error::invalid_request("groupBy", format!("{name:?} must be one of {names}.")));
    };
    let mut subject = Subject::of(&call, of_metrics)?;
    if !of_metrics {
        subject.range.start = subject.range.start.max(rows_since(&call)).min(subject.range.end);
    }
    let columns: Vec<Column> = call
        .query_text("columns")
        .map(|names| names.split(',').filter_map(|name| Column::parse(name.trim())).collect())
        .unwrap_or_default();
    let order = call.query_text("order_by").and_then(Column::parse).unwrap_or(Column::Requests);
    let is_ascending = call.query_text("order") == Some("asc");
    let has_percentiles = columns.iter().chain([&order]).any(|column| column.is_percentile());
    let workspaces = subject.filter.workspaces.clone().unwrap_or_default();
    let mut found = sums(&call, subject.query(by.clone(), Vec::new(), has_percentiles)).await?;
    if by == By::Workspace {
        found = in_their_workspace(&call, found);
    }
    let found = sorted_elsewhere(&call, found, order, is_ascending).await;
    let show = |sum: &Sum| {
        let mut item = serde_json::Map::new();
        let (value, name) = shown(&call, &by, &workspaces, sum.value.as_deref());
        item.insert(property.to_owned(), value);
        if let Some(name) = name {
            item.insert("name".to_owned(), name);
        }
        item.insert("requests".to_owned(), sum.group.measures.requests.into());
        for column in &columns {
            item.insert(column.name().to_owned(), column.show(&sum.group));
        }
        if columns.contains(&Column::Cost) && sum.group.measures.unpriced > 0 {
            item.insert("unpriced_requests".to_owned(), sum.group.measures.unpriced.into());
        }
        item.insert("object".to_owned(), "analytics-group".into());
        Value::Object(item)
    };
    Ok(Page::of(&call, 50).reply(&found, show))
}

/// Since when rows are kept, milliseconds since 1970.
fn rows_since(call: &Call) -> i64 {
    let retention = call.snapshot.settings.logs.retention.rows;
    let milliseconds = retention.and_then(|rows| i64::try_from(rows.as_millis()).ok());
    milliseconds.map_or(i64::MIN, |rows| call.now.as_millisecond().saturating_sub(rows))
}

/// Requests without a workspace are those of the default one.
fn in_their_workspace(call: &Call, found: Vec<Sum>) -> Vec<Sum> {
    let default = call.snapshot.stored.default_workspace();
    let default: Option<Arc<str>> = default.map(|id| id.to_string().into());
    let mut merged: Vec<Sum> = Vec::new();
    for mut sum in found {
        sum.value = sum.value.or_else(|| default.clone());
        match merged.iter_mut().find(|other| other.value == sum.value) {
            Some(other) => other.group.merge(&sum.group),
            None => merged.push(sum),
        }
    }
    merged
}

/// As [`sorted`]; many on a thread of their own.
async fn sorted_elsewhere(call: &Call, found: Vec<Sum>, order: Column, is_ascending: bool) -> Vec<Sum> {
    /// Sorting one takes as long as reading so many bytes.
    const SUM_BYTES: usize = 1 << 10;
    let work = found.len() * SUM_BYTES;
    call.shared.large_work.run(work, || sorted(found, order, is_ascending)).await
}

/// By the column, then by the value.
fn sorted(found: Vec<Sum>, order: Column, is_ascending: bool) -> Vec<Sum> {
    // Percentiles take a while: once for each group.
    let rank = |sum: Sum| (order.rank(&sum.group).unwrap_or(f64::NEG_INFINITY), sum);
    let mut ranked: Vec<(f64, Sum)> = found.into_iter().map(rank).collect();
    ranked.sort_by(|(a, first), (b, second)| {
        let by_rank = if is_ascending { a.total_cmp(b) } else { b.total_cmp(a) };
        by_rank.then_with(|| first.value.cmp(&second.value))
    });
    ranked.into_iter().map(|(_, sum)| sum).collect()
}

/// The value of a group, and the name of the object where it is one that has a name.
fn shown(call: &Call, by: &By, workspaces: &[Uuid], value: Option<&str>) -> (Value, Option<Value>) {
    let record = |kind: Kind| {
        let value = value?;
        let catalog = call.catalog().ok()?;
        let workspaces = workspaces.iter().filter(|id| !id.is_nil()).map(|id| Some(*id));
        let mut found =
            workspaces.chain([None]).filter_map(|workspace| by_id_or_slug(&catalog, kind, workspace, value));
        // Workspaces may each have an object of this slug.
        let first = found.next()?;
        found.all(|other| other.id == first.id).then_some(first)
    };
    let name =
        |record: Option<Arc<Record>>| record.map_or(Value::Null, |record| member(&members(&record), "name"));
    match by {
        By::Dimension(Dimension::StatusCode) => {
            (value.and_then(|code| code.parse::<u16>().ok()).map_or(Value::Null, Value::from), None)
        }
        By::Dimension(Dimension::ApiKey) => {
            // The settings' keys have a name and no id.
            let own = value.filter(|value| Uuid::try_parse(value).is_err()).map(Value::from);
            (value.into(), Some(own.unwrap_or_else(|| name(record(Kind::ApiKey)))))
        }
        By::Dimension(Dimension::Config) => (value.into(), Some(name(record(Kind::Config)))),
        By::Dimension(Dimension::Prompt) => (value.into(), Some(name(record(Kind::Prompt)))),
        By::Workspace => {
            let record = record(Kind::Workspace);
            let slug = record.as_ref().and_then(|record| record.slug.clone());
            (slug.map_or_else(|| value.into(), Value::from), Some(name(record)))
        }
        _ => (value.into(), None),
    }
}

/// Those with a value, the most frequent first.
async fn by_value(call: &Call, by: By) -> Result<Vec<Sum>, Error> {
    let subject = Subject::of(call, true)?;
    let mut found = sums(call, subject.query(by, Vec::new(), false)).await?;
    found.retain(|sum| sum.value.is_some());
    Ok(sorted_elsewhere(call, found, Column::Requests, false).await)
}

/// Portkey writes the numbers of this list, and of the next, as texts.
async fn users(call: Call) -> Result<Reply, Error> {
    let found = by_value(&call, By::User).await?;
    Ok(Page::of(&call, 50).reply(&found, |sum| {
        json!({
            "user": sum.value,
            "requests": sum.group.measures.requests.to_string(),
            "cost": cost(&sum.group).map(|cents| cents.to_string()),
            "object": "analytics-group",
        })
    }))
}

async fn models(call: Call) -> Result<Reply, Error> {
    let found = by_value(&call, By::Dimension(Dimension::Model)).await?;
    Ok(Page::of(&call, 50).reply(&found, |sum| {
        json!({
            "ai_model": sum.value,
            "requests": sum.group.measures.requests.to_string(),
            "object": "analytics-group",
        })
    }))
}

async fn metadata(call: Call) -> Result<Reply, Error> {
    let key = call.param("metadataKey");
    if key.contains('\0') {
        return Err(Error::invalid_request(
            "metadataKey",
            "No metadata has a name with the character U+0000.",
        ));
    }
    let found = by_value(&call, By::Metadata(key.to_owned())).await?;
    Ok(Page::of(&call, 50).reply(&found, |sum| {
        let measures = &sum.group.measures;
        let feedback = &sum.group.feedback;
        json!({
            "metadata_value": sum.value,
            "requests": measures.requests,
            "cost": cost(&sum.group),
            "avg_tokens": rounded(ratio(measures.total_tokens as f64, measures.requests)),
            "avg_weighted_feedback": feedback.average().map(rounded),
            "requests_with_feedback": feedback.requests,
            "last_seen": time(measures.last),
            "object": "analytics-group",
        })
    }))
}
