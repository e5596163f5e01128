//! `/v1/logs/exports`: an export is a saved question, asked of the log store while its answer is downloaded.
//!
//! So it takes no disk, outlives a restart, and any gateway that shares the stores has it. `start` freezes the time up to which logs
//! are in it. The answer itself is `export_file`.

use super::export_file;
use crate::call::Call;
use crate::field::{Field, Type, not_null, nullable, optional, required};
use crate::log_filter::{self, FIELDS, LIST_CHARS};
use crate::page::{self, Page};
use crate::records::{changed, created, member, members, object, put as put_record, set, time};
use crate::reply::Reply;
use crate::resource;
use crate::route::{Access, Route, Shape, get, post, put};
use jiff::Timestamp;
use memory::ledger::filter::Filter;
use memory::store::{Change, Kind, Record};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use uuid::Uuid;
use words::config::read::Problems;
use words::error::{Error, Problem};
use words::settings::logs::EXPORT_FIELDS;
use words::settings::scopes::Scope;

/// Rows of one export, at most and where the filters name no number.
const MAX_ROWS: i64 = 50_000;
/// Exports that are kept. The oldest go first.
const MAX_EXPORTS: usize = 1000;

pub(super) const DRAFT: &str = "draft";
pub(super) const SUCCESS: &str = "success";
pub(super) const STOPPED: &str = "stopped";

/// A list of values: a text with commas, or a list.
const VALUES: Type = Type::AnyOf(&[
    Type::Text(LIST_CHARS),
    Type::List(&Type::AnyOf(&[Type::Text(512), Type::Integer(0, i64::MAX)]), 0, 500),
]);
/// The place of `metadata` in [`FIELDS`].
const METADATA: usize = 19;

/// The filters of lists, times and a page.
const FILTERS: [Field; 29] = filters();

const fn filters() -> [Field; 29] {
    let mut all =
        [optional("page_size", Type::Integer(1, MAX_ROWS), "Logs, at most; 50,000 by default."); 29];
    let mut at = 0;
    while at < FIELDS.len() {
        #[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
        {
            all[at] = FIELDS[at];
            if matches!(FIELDS[at].of, Type::Text(LIST_CHARS)) {
                all[at].of = if at == METADATA {
                    Type::AnyOf(&[Type::AnyObject, Type::Text(LIST_CHARS)])
                } else {
                    VALUES
                };
            }
        }
        at += 1;
    }
    #[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
    {
        all[FIELDS.len()] = optional("time_of_generation_min", Type::Time, "The first moment; included.");
        all[FIELDS.len() + 1] =
            optional("time_of_generation_max", Type::Time, "The last moment; not included.");
        all[FIELDS.len() + 2] =
            optional("current_page", Type::Integer(0, 1_000_000), "The page of `page_size` logs, from 0.");
    }
    all
}

const REQUESTED: Type = Type::List(&Type::OneOf(&EXPORT_FIELDS), 1, 100);

const FIELD_NAMES: Type = Type::List(&Type::OneOf(&EXPORT_FIELDS), 0, 100);

const CREATE: &[Field] = &[
    required("filters", Type::Object(&FILTERS), "Which logs: the parameters of `GET /v1/logs`."),
    required("requested_data", REQUESTED, "The members of each line."),
    optional("description", Type::Text(1024), "For people."),
    optional("workspace_id", Type::Text(128), "Id or slug of a workspace; the key's own where absent."),
];

const UPDATE: &[Field] = &[
    not_null("filters", Type::Object(&FILTERS), "Replaces all filters."),
    not_null("requested_data", REQUESTED, "Replaces the members."),
    optional("description", Type::Text(1024), "For people; null removes it."),
    optional("workspace_id", Type::Text(128), "The workspace of the export; it cannot be changed."),
];

const MADE: &[Field] = &[
    required("id", Type::Uuid, "The export."),
    required("total", Type::Integer(0, i64::MAX), "How many logs match, or at least so many."),
    required("object", Type::Text(20), "`export`."),
];

const DONE: &[Field] =
    &[required("message", Type::Text(200), "For people."), required("object", Type::Text(20), "`export`.")];

const LINK: &[Field] = &[
    required("signed_url", Type::Text(4096), "Where the file is, without a key, for 15 minutes."),
    required("expires_at", Type::Time, "Until when."),
];

const RESTRICTIONS: &[Field] = &[
    required("allowed_fields", FIELD_NAMES, "What `requested_data` may have."),
    required("denied_fields", FIELD_NAMES, "What the operator does not allow (`logs.export_denied_fields`)."),
    required("object", Type::Text(30), "`export-field-restrictions`."),
];

const ITEM: &[Field] = &[
    required("id", Type::Uuid, "The export."),
    required("organisation_id", Type::Uuid, "The organisation."),
    nullable("workspace_id", Type::Uuid, "Whose logs are in it; null: those of all workspaces."),
    required("status", Type::OneOf(&[DRAFT, SUCCESS, STOPPED]), "Whether it can be downloaded: `success`."),
    nullable("description", Type::Text(1024), "For people."),
    required("filters", Type::AnyObject, "Which logs."),
    required("requested_data", REQUESTED, "The members of each line."),
    nullable("started_at", Type::Time, "Later logs are not in it."),
    required("created_at", Type::Time, "When it was made."),
    required("last_updated_at", Type::Time, "When it was changed last."),
    required("created_by", Type::Text(128), "Who made it."),
    required("object", Type::Text(20), "`export`."),
];

const EXPORT: Access = Access::Scope(&[Scope::LogsExport]);
const RESOURCE: &str = "log_exports";

pub(crate) const ROUTES: &[Route] = &[
    post("/v1/logs/exports", EXPORT, "Makes an export of logs: a draft", |call| Box::pin(create(call)))
        .body(CREATE)
        .replies(Shape::Object(MADE))
        .changes(RESOURCE, "create"),
    get("/v1/logs/exports", EXPORT, "Lists exports, the newest first", |call| Box::pin(list(call)))
        .query(page::WORKSPACE_QUERY)
        .lists(page::QUERY)
        .replies(Shape::List(ITEM)),
    get("/v1/logs/exports/field-restrictions", EXPORT, "Lists what exports may have of each log", |call| {
        Box::pin(restrictions(call))
    })
    .replies(Shape::Object(RESTRICTIONS)),
    get("/v1/logs/exports/{id}", EXPORT, "Reads an export", |call| Box::pin(read(call)))
        .replies(Shape::Object(ITEM)),
    put("/v1/logs/exports/{id}", EXPORT, "Changes a draft", |call| Box::pin(update(call)))
        .body(UPDATE)
        .replies(Shape::Object(MADE))
        .changes(RESOURCE, "update"),
    post("/v1/logs/exports/{id}/start", EXPORT, "Ends a draft: from then on it can be downloaded", |call| {
        Box::pin(start(call))
    })
    .replies(Shape::Object(DONE))
    .changes(RESOURCE, "start"),
    post("/v1/logs/exports/{id}/cancel", EXPORT, "Stops an export, its links and downloads", |call| {
        Box::pin(cancel(call))
    })
    .replies(Shape::Object(DONE))
    .changes(RESOURCE, "cancel"),
    get("/v1/logs/exports/{id}/download", EXPORT, "Makes a link to the file of an export", |call| {
        Box::pin(download(call))
    })
    .replies(Shape::Object(LINK))
    .changes(RESOURCE, "download"),
];

/// What an export finds: the filter, the place of its first log, and how many it has at most.
pub(super) struct Selection {
    pub filter: Filter,
    pub offset: u64,
    pub limit: usize,
}

/// Reads the filters of an export; the workspaces are the caller's to add.
fn selection(call: &Call, filters: &Map<String, Value>) -> Result<Selection, Error> {
    let problems = Problems::default();
    let filter = super::about_requests(call, filters, &problems);
    if !problems.is_empty() {
        // The one that counts the rest has no path.
        let below = |problem: Problem| {
            if problem.path.is_empty() {
                problem
            } else {
                Problem { path: format!("filters.{}", problem.path), ..problem }
            }
        };
        return Err(Error::invalid_body(problems.into_vec().into_iter().map(below).collect()));
    }
    let number = |name: &str| filters.get(name).and_then(Value::as_i64);
    let limit = number("page_size").unwrap_or(MAX_ROWS);
    let offset = number("current_page").unwrap_or(0).saturating_mul(limit);
    Ok(Selection {
        filter,
        offset: u64::try_from(offset).unwrap_or_default(),
        limit: usize::try_from(limit).unwrap_or_default(),
    })
}

/// The logs of an export, as far as its maker might see them then, and the client may now.
///
/// # Errors
/// 400 where its filters are no longer understood, or a member that it has is denied by now.
pub(super) fn of_record(call: &Call, record: &Record) -> Result<Selection, Error> {
    let body = members(record);
    check_fields(call, &member(&body, "requested_data"))?;
    let mut found = selection(call, &object(member(&body, "filters")))?;
    let started = member(&body, "started_ms").as_i64();
    found.filter.until = found.filter.until.into_iter().chain(started).min();
    let id = |value: &Value| value.as_str().and_then(|text| Uuid::try_parse(text).ok());
    let workspaces = member(&body, "workspaces");
    found.filter.workspaces = workspaces.as_array().map(|ids| ids.iter().filter_map(id).collect());
    let keys = serde_json::from_value::<Option<Vec<String>>>(member(&body, "api_keys")).unwrap_or_default();
    log_filter::restrict(&mut found.filter, keys);
    // What the client may see may be less by now than when the export was made.
    log_filter::restrict(&mut found.filter, call.visible_keys());
    Ok(found)
}

/// # Errors
/// 400 where the settings deny some of the requested members, or the role of the client's user.
fn check_fields(call: &Call, requested: &Value) -> Result<(), Error> {
    let denied = &call.snapshot.settings.logs.export_denied_fields;
    let without_bodies = call.data_access().without_bodies;
    let problems = Problems::default();
    for (index, name) in requested.as_array().into_iter().flatten().enumerate() {
        if denied.iter().any(|denied| name.as_str() == Some(denied)) {
            let message = "the operator does not allow it in exports (logs.export_denied_fields)";
            problems.push(format!("requested_data[{index}]"), None, message);
        } else if without_bodies && BODIES.iter().any(|body| name.as_str() == Some(body)) {
            let message = "the role of the key's user shows no bodies (...ViewLogs of the workspace)";
            problems.push(format!("requested_data[{index}]"), None, message);
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(Error::invalid_body(problems.into_vec())) }
}

async fn restrictions(call: Call) -> Result<Reply, Error> {
    let denied = &call.snapshot.settings.logs.export_denied_fields;
    let allowed: Vec<&str> = EXPORT_FIELDS.into_iter().filter(|name| !denied.contains(name)).collect();
    Ok(Reply::from(json!({
        "allowed_fields": allowed,
        "denied_fields": denied,
        "object": "export-field-restrictions",
    })))
}

/// Of the members that may be requested, those with bodies.
const BODIES: [&str; 2] = ["request", "response"];

/// How many logs it finds, or at least so many.
async fn total(call: &Call, Selection { filter, offset, limit }: Selection) -> Result<u64, Error> {
    let page = super::ledger(call)?.page(call.own_workspace(), filter, 0, 0).await.map_err(super::refused)?;
    Ok(page.total.saturating_sub(offset).min(limit as u64))
}

fn made(id: Uuid, total: u64) -> Reply {
    Reply::from(json!({"id": id, "total": total, "object": "export"}))
}

async fn create(mut call: Call) -> Result<Reply, Error> {
    let filters = object(member(&call.body, "filters"));
    check_fields(&call, &member(&call.body, "requested_data"))?;
    let mut found = selection(&call, &filters)?;
    let named = call
        .text("workspace_id")
        .or_else(|| ["workspace_slug", "workspace_id"].iter().find_map(|name| filters.get(*name)?.as_str()));
    let workspaces = match (named, call.own_workspace()) {
        (None, None) => None,
        _ => Some(log_filter::workspaces(&call, named, true)?),
    };
    let workspace = workspaces.as_ref().and_then(|ids| ids.first().copied());
    found.filter.workspaces = workspaces.clone();
    let keys = call.visible_keys();
    log_filter::restrict(&mut found.filter, keys.clone());
    let total = total(&call, found).await?;
    let body = json!({
        "description": member(&call.body, "description"),
        "filters": filters,
        "requested_data": member(&call.body, "requested_data"),
        "workspaces": workspaces,
        // Those whose requests its maker may see; null: all.
        "api_keys": keys,
        "status": DRAFT,
        "started_ms": null,
        "created_by": call.actor(),
    });
    let record = created(Kind::LogExport, workspace, String::new(), &body, call.now);
    let record = Record { slug: None, ..record };
    let catalog = call.catalog()?;
    let too_many = (catalog.all(Kind::LogExport).count() + 1).saturating_sub(MAX_EXPORTS);
    let oldest = catalog.all(Kind::LogExport).take(too_many);
    let deleted = oldest.map(|record| Change::Delete { kind: Kind::LogExport, id: record.id });
    let id = record.id;
    let changes = deleted.chain([put_record(record)]).collect();
    call.commit(changes).await?;
    Ok(made(id, total))
}

async fn list(call: Call) -> Result<Reply, Error> {
    let mut found = call.list(Kind::LogExport)?;
    let is_restricted = call.data_access().own_keys_only;
    found.retain(|record| !is_restricted || is_own(&call, record));
    Ok(Page::of(&call, 50).reply(&found, |record| view(record)))
}

async fn read(call: Call) -> Result<Reply, Error> {
    Ok(Reply::from(view(&*find(&call)?)))
}

async fn update(mut call: Call) -> Result<Reply, Error> {
    let before = with_status(&call, &[DRAFT], "changed")?;
    let mut body = members(&before);
    for name in ["filters", "requested_data"] {
        if call.has(name) {
            set(&mut body, name, member(&call.body, name));
        }
    }
    if call.has("description") {
        set(&mut body, "description", member(&call.body, "description"));
    }
    let record = changed(&before, &Value::Object(body), call.now);
    let total = total(&call, of_record(&call, &record)?).await?;
    call.commit(vec![put_record(record)]).await?;
    Ok(made(before.id, total))
}

async fn start(mut call: Call) -> Result<Reply, Error> {
    let before = with_status(&call, &[DRAFT], "started")?;
    of_record(&call, &before)?;
    let mut body = members(&before);
    set(&mut body, "status", SUCCESS);
    set(&mut body, "started_ms", call.now.as_millisecond());
    done(
        &mut call,
        &before,
        body,
        "The export is ready. GET /v1/logs/exports/{id}/download has a link to it.",
    )
    .await
}

async fn cancel(mut call: Call) -> Result<Reply, Error> {
    let before = with_status(&call, &[DRAFT, SUCCESS], "stopped")?;
    let mut body = members(&before);
    set(&mut body, "status", STOPPED);
    done(&mut call, &before, body, "The export is stopped. Its links are not valid any more.").await
}

async fn done(
    call: &mut Call,
    before: &Record,
    body: Map<String, Value>,
    message: &str,
) -> Result<Reply, Error> {
    call.commit(vec![put_record(changed(before, &Value::Object(body), call.now))]).await?;
    Ok(Reply::from(json!({"message": message, "object": "export"})))
}

async fn download(mut call: Call) -> Result<Reply, Error> {
    let record = with_status(&call, &[SUCCESS], "downloaded")?;
    of_record(&call, &record)?;
    let reply = export_file::link(&call, record.id)?;
    call.record_change().await;
    Ok(reply)
}

/// Whether the client made it.
fn is_own(call: &Call, record: &Record) -> bool {
    member(&members(record), "created_by").as_str() == Some(&call.actor())
}

/// The export that the path names.
///
/// # Errors
/// 404, also for those of others where the client may see only its own requests.
fn find(call: &Call) -> Result<Arc<Record>, Error> {
    let record = call.find(Kind::LogExport)?;
    if call.data_access().own_keys_only && !is_own(call, &record) {
        Err(super::super::call::missing(Kind::LogExport, call.named()))
    } else {
        Ok(record)
    }
}

/// The export that the path names, if it has one of these statuses.
///
/// # Errors
/// 404, and 409 for another status.
fn with_status(call: &Call, allowed: &[&str], what: &str) -> Result<Arc<Record>, Error> {
    let record = find(call)?;
    let status = status(&record);
    if allowed.contains(&status.as_str()) {
        Ok(record)
    } else {
        let allowed = allowed.join(" or ");
        Err(Error::conflict(format!(
            "The export has the status {status}. Only one that is {allowed} can be {what}."
        )))
    }
}

pub(super) fn status(record: &Record) -> String {
    member(&members(record), "status").as_str().unwrap_or_default().to_owned()
}

/// The members of each line.
pub(super) fn columns(record: &Record) -> Vec<String> {
    let names = member(&members(record), "requested_data");
    names.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn view(record: &Record) -> Value {
    let started = member(&members(record), "started_ms").as_i64();
    let started = started.and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let own = json!({"status": status(record), "started_at": started.map(time), "object": "export"});
    resource::view(ITEM, record, own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_those_of_lists_and_metadata_is_an_object() {
        assert_eq!(FIELDS[METADATA].name, "metadata");
        let names: std::collections::HashSet<&str> = FILTERS.iter().map(|field| field.name).collect();
        assert_eq!(names.len(), FILTERS.len());
        assert!(names.contains("page_size") && names.contains("current_page"));
    }
}
