//! `/v1/logs`: the ledger's requests, listed and one by one; logs of requests that others have made.

mod custom;
mod export_file;
mod exports;
mod link_maker;
mod prompt_cache;
mod tail;

use super::call::Call;
use super::field::{Field, Type, nullable, optional, required};
use super::log_filter::{self, FIELDS};
use super::log_view;
use super::page::{self, Page};
use super::reply::Reply;
use super::route::{Access, MaxBody, Route, Shape, get, post};
pub(super) use export_file::ROUTES as FILE_ROUTES;
pub(super) use exports::ROUTES as EXPORT_ROUTES;
use jiff::Timestamp;
use memory::ledger::filter::Filter;
use memory::ledger::log_store::LogError;
use memory::ledger::{Ledger, Question, Row, RowKind};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;
use words::config::read::Problems;
use words::error::Error;
use words::settings::scopes::Scope;
use words::tables::concat;

/// How long one log may be looked for.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// What a row of a list takes, as it is read and as it is shown.
const ROW_BYTES: usize = 8 << 10;
/// What a log keeps of a request and its response besides their bodies, at most: their headers.
const MAX_HEADERS: usize = 128 << 10;
/// How often a body of a log is copied while it is unpacked and shown.
const BODY_COPIES: usize = 8;
/// The logs of a trace that `GET /v1/logs/{trace id}` chooses from.
const MAX_TRACE: usize = 1;

const TIMES: [Field; 2] = [
    optional("time_of_generation_min", Type::Time, "The first moment; included."),
    optional("time_of_generation_max", Type::Time, "The last moment; not included."),
];

const PARAMETERS: [Field; 27] = concat(&TIMES, &FIELDS);

const ITEM: &[Field] = &[
    required("id", Type::Uuid, "The log."),
    required("trace_id", Type::Text(256), "Joins requests."),
    nullable("span_id", Type::Text(256), "As the client sent it."),
    nullable("parent_span_id", Type::Text(256), "As the client sent it."),
    required("created_at", Type::Time, "When the request began."),
    required("response_status_code", Type::Integer(0, 999), "What the client got."),
    required("is_success", Type::Flag, "Whether it succeeded."),
    nullable(
        "cost",
        Type::Number(0.0, 1e15),
        "Cents; null where the price is unknown or nothing was charged.",
    ),
    nullable("total_units", Type::Integer(0, i64::MAX), "Tokens, of all attempts."),
    required("response_time", Type::Number(0.0, 1e15), "Milliseconds."),
    required("object", Type::Text(20), "`log`. docs/logs.md lists the other members."),
];

const CREATED: &[Field] = &[
    required("status", Type::Text(20), "`success`."),
    required("ids", Type::List(&Type::Uuid, 1, 1000), "The logs, in the order of the request."),
];

pub(super) const ROUTES: &[Route] = &[
    get("/v1/logs", Access::Scope(&[Scope::LogsList]), "Lists logs, the newest first", |call| {
        Box::pin(list(call))
    })
    .query(&PARAMETERS)
    .lists(page::QUERY)
    .replies(Shape::List(ITEM)),
    get(
        "/v1/logs/tail",
        Access::Scope(&[Scope::LogsList]),
        "Follows the requests of this gateway as they end",
        |call| Box::pin(tail::follow(call)),
    )
    .query(&PARAMETERS)
    .refusing_others()
    .replies(Shape::Text(tail::EVENTS)),
    get("/v1/logs/{id}", Access::Scope(&[Scope::LogsView]), "Reads a log by its id or trace id", |call| {
        Box::pin(read(call))
    }),
    get(
        "/v1/logs/{id}/prompt-cache",
        Access::Scope(&[Scope::LogsView]),
        "Compares the prompt of a request with that of an earlier one",
        |call| Box::pin(prompt_cache::compare(call)),
    )
    .query(prompt_cache::QUERY)
    .refusing_others()
    .replies(Shape::Object(prompt_cache::REPLY)),
    post(
        "/v1/logs",
        Access::Scope(&[Scope::LogsWrite, Scope::CompletionsWrite]),
        "Keeps logs of requests that did not pass the gateway",
        |call| Box::pin(custom::create(call)),
    )
    .of_members(custom::LOG)
    .takes(MaxBody::Settings)
    .replies(Shape::Object(CREATED))
    .for_clients(),
];

/// # Errors
/// 503 where the settings turn the ledger off.
pub(super) fn ledger(call: &Call) -> Result<&Arc<Ledger>, Error> {
    call.shared.ledger().ok_or_else(|| {
        Error::store_unavailable("This gateway keeps no logs: logs.enabled is false in its settings.")
    })
}

/// What a client is told of a failure of the log store.
pub(super) fn refused(error: LogError) -> Error {
    match error {
        LogError::Busy => Error::store_unavailable(
            "As many questions to the log store run and wait as may. Try again in a moment.",
        ),
        LogError::NoMemory => Error::store_unavailable(
            "The gateway holds as much in memory as it may of requests, responses and answers. Try again in a moment, or narrow the search.",
        ),
        LogError::TooLong | LogError::TooMany => Error::store_unavailable(
            "The search reads too many logs. Narrow it: time_of_generation_min and _max, a workspace, a key, a model or a provider.",
        ),
        LogError::Unavailable(cause) | LogError::Refused(cause) => {
            log::warn!(target: "turnpike::ledger", "the log store cannot be read: {cause}");
            let message = "The log store cannot be used now; requests to providers go on. Try again.";
            Error::store_unavailable(message).with_cause(cause)
        }
    }
}

/// 503: neither the log store nor the spool keeps up.
fn refused_too_many() -> Error {
    Error::store_unavailable(
        "The ledger takes no more logs now: the log store is too slow. Nothing was kept; try again.",
    )
}

/// The filter that a query or the filters of an export describe, within the workspaces that the client may see.
///
/// # Errors
/// 400 with all problems; those of [`log_filter::workspaces`].
pub(super) fn filter(call: &Call, values: &Map<String, Value>) -> Result<Filter, Error> {
    let problems = Problems::default();
    let mut filter = about_requests(call, values, &problems);
    if !problems.is_empty() {
        return Err(Error::invalid_body(problems.into_vec()));
    }
    let named = ["workspace_slug", "workspace_id"].iter().find_map(|name| values.get(*name)?.as_str());
    filter.workspaces = match (named, call.own_workspace()) {
        // The whole organisation, with workspaces that are gone.
        (None, None) => None,
        _ => Some(log_filter::workspaces(call, named, true)?),
    };
    log_filter::restrict(&mut filter, call.visible_keys());
    Ok(filter)
}

/// The filter without workspaces.
fn about_requests(call: &Call, values: &Map<String, Value>, problems: &Problems) -> Filter {
    let mut filter = log_filter::read(call, values, problems);
    let time = |name: &str| {
        let text = values.get(name)?.as_str()?;
        text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond)
    };
    filter.since = time("time_of_generation_min");
    filter.until = time("time_of_generation_max");
    if let (Some(since), Some(until)) = (filter.since, filter.until)
        && since >= until
    {
        problems.push("time_of_generation_max", None, "must be after time_of_generation_min");
    }
    filter
}

async fn list(call: Call) -> Result<Reply, Error> {
    let filter = filter(&call, &call.query)?;
    let Page { offset, size } = Page::of(&call, 50);
    let _held = call.hold(size * ROW_BYTES)?;
    let found =
        ledger(&call)?.page(call.own_workspace(), filter, offset as u64, size).await.map_err(refused)?;
    Ok(Reply::from(json!({
        "object": "list",
        "total": found.total,
        "total_is_exact": found.total_is_exact,
        "data": found.rows.iter().map(log_view::item).collect::<Vec<Value>>(),
    })))
}

/// Whether the client may see a row. `keys`: those whose requests alone it may see.
fn is_visible(call: &Call, keys: Option<&Vec<String>>, row: &Row) -> bool {
    let is_of_key =
        |keys: &Vec<String>| row.api_key.as_deref().is_some_and(|key| keys.iter().any(|id| id == key));
    if !keys.is_none_or(is_of_key) {
        return false;
    }
    let Some(own) = call.own_workspace() else { return true };
    match row.workspace {
        Some(workspace) => workspace == own,
        None => call.snapshot.stored.default_workspace() == Some(own),
    }
}

/// The log that a client names by its id, or the newest of its trace id.
///
/// # Errors
/// 404: there is none that the client may see.
async fn find(call: &Call, named: &str) -> Result<Row, Error> {
    let ledger = ledger(call)?;
    let question = Question::Rows.of(call.own_workspace());
    let by_id = match Uuid::try_parse(named) {
        Ok(id) => ledger.run(question, READ_TIMEOUT, move |store, _| store.row(id)).await.map_err(refused)?,
        Err(_) => None,
    };
    let keys = call.visible_keys();
    if let Some(row) = by_id.filter(|row| is_visible(call, keys.as_ref(), row)) {
        return Ok(row);
    }
    let mut values = Map::new();
    values.insert("trace_id".to_owned(), Value::Array(vec![named.into()]));
    let of_trace = filter(call, &values)?;
    let page = ledger.page(call.own_workspace(), of_trace, 0, MAX_TRACE).await.map_err(refused)?;
    page.rows.into_iter().next().ok_or_else(|| {
        let message = format!("There is no log with the id or trace id {named:?} that this key may see.");
        Error::not_found(message).with_unknown_name(named)
    })
}

/// How many bytes the bodies of a log take while they are unpacked and shown.
fn bytes_of_bodies(call: &Call, row: &Row) -> usize {
    // Of the request and the response that were kept, as far as they were.
    let kept = usize::try_from(row.bytes_in.saturating_add(row.bytes_out)).unwrap_or(usize::MAX);
    BODY_COPIES * kept.saturating_add(MAX_HEADERS).min(call.snapshot.settings.logs.max_payload_bytes)
}

/// The bodies of a log, where they were kept. The caller holds their bytes.
async fn kept_bodies(call: &Call, row: &Row) -> Result<Option<Map<String, Value>>, Error> {
    // Bodies are the request's.
    if row.kind != RowKind::Request {
        return Ok(None);
    }
    let id = row.id;
    let question = Question::Rows.of(call.own_workspace());
    let packed = ledger(call)?.run(question, READ_TIMEOUT, move |store, _| store.payload(id)).await;
    Ok(packed.map_err(refused)?.and_then(|bytes| memory::ledger::payload::read(&bytes)))
}

async fn read(call: Call) -> Result<Reply, Error> {
    let named = call.named().to_owned();
    let row = find(&call, &named).await?;
    let question = Question::Rows.of(call.own_workspace());
    let of_row = row.clone();
    let attempts = ledger(&call)?
        .run(question, READ_TIMEOUT, move |store, _| store.attempts(&of_row))
        .await
        .map_err(refused)?;
    // Held as long as they are shown.
    let without_bodies = call.data_access().without_bodies;
    let _held = call.hold(if without_bodies { 0 } else { bytes_of_bodies(&call, &row) })?;
    let payload = if without_bodies { None } else { kept_bodies(&call, &row).await? };
    Ok(Reply::from(log_view::whole(&row, &attempts, payload.as_ref())))
}
