//! `GET /v1/audit-logs`: who changed what, or was refused.
//!
//! Only reads; entries are written with the change they are about.

use super::call::Call;
use super::field::{Field, Type, optional, required};
use super::page::{self, Page};
use super::reply::Reply;
use super::route::{Access, Route, Shape, get};
use jiff::Timestamp;
use memory::store::audit::AuditQuery;
use serde_json::{Value, json};
use words::error::Error;
use words::settings::scopes::Scope;

const QUERY: &[Field] = &[
    optional("start_time", Type::Time, "The first moment; included."),
    optional("end_time", Type::Time, "The last moment; not included."),
    optional("organisation_id", Type::Text(64), "Taken from the key."),
    optional("method", Type::Text(16), "`POST`, `PUT` or `DELETE`."),
    optional("uri", Type::Text(2048), "The path."),
    optional("request_id", Type::Text(128), "One call."),
    optional("user_id", Type::Text(128), "Who: the id of a user or a service key."),
    optional("user_type", Type::OneOf(&["user", "api_key"]), "Who."),
    page::WORKSPACE,
    optional("response_status_code", Type::Integer(100, 599), "With which outcome."),
    optional("resource_type", Type::Text(64), "`configs`, `api-keys` …"),
    optional("action", Type::Text(64), "`create`, `update`, `delete` …"),
    optional("client_ip", Type::Text(64), "From where."),
    optional("country", Type::Text(64), "From where; entries have none, so that nothing is found."),
    page::CURRENT_PAGE,
    optional("page_size", Type::Integer(1, 100), "Entries on a page; 50 by default."),
];

const LIST: &[Field] = &[
    required("records", Type::List(&Type::AnyObject, 0, 100), "The entries, the newest first."),
    required("total", Type::Integer(0, i64::MAX), "How many there are on all pages."),
    required("object", Type::Text(20), "`list`."),
];

pub(super) const ROUTES: &[Route] = &[
    get("/v1/audit-logs", Access::Scope(&[Scope::AuditLogsList]), "Lists the audit log", |call| {
        Box::pin(list(call))
    })
    .query(QUERY)
    .replies(Shape::Object(LIST)),
    get(
        "/v1/audit-logs/{id}",
        Access::Scope(&[Scope::AuditLogsList]),
        "Reads an entry of the audit log by the id of its call",
        |call| Box::pin(read(call)),
    ),
];

/// The newest entry of a call: one that changed several things has several.
async fn read(call: Call) -> Result<Reply, Error> {
    let query = AuditQuery {
        workspace: call.own_workspace(),
        members: vec![("request_id", call.named().to_owned())],
        limit: 1,
        ..AuditQuery::default()
    };
    let found = call.store()?.audit(query).await.map_err(Error::from)?;
    let entry = found.entries.first().and_then(|entry| serde_json::from_str::<Value>(&entry.body).ok());
    entry.map(Reply::from).ok_or_else(|| {
        let message = format!("There is no entry of the audit log {:?} that this key may see.", call.named());
        Error::not_found(message).with_unknown_name(call.named())
    })
}

async fn list(call: Call) -> Result<Reply, Error> {
    let page = Page::of(&call, 50);
    let text = |name: &str| call.query_text(name).map(str::to_owned);
    let time = |name: &str| call.query_text(name).and_then(|text| text.parse::<Timestamp>().ok());
    let members = ["uri", "request_id", "client_ip", "country"];
    let query = AuditQuery {
        since: time("start_time"),
        until: time("end_time"),
        workspace: call.list_workspace()?,
        actor: text("user_id"),
        actor_type: text("user_type"),
        action: text("action"),
        resource: text("resource_type"),
        method: text("method"),
        status: call
            .query
            .get("response_status_code")
            .and_then(Value::as_u64)
            .and_then(|n| u16::try_from(n).ok()),
        members: members.into_iter().filter_map(|name| Some((name, text(name)?))).collect(),
        limit: u32::try_from(page.size).unwrap_or(100),
        offset: u32::try_from(page.offset).unwrap_or(u32::MAX),
    };
    let found = call.store()?.audit(query).await.map_err(Error::from)?;
    let records: Vec<Value> =
        found.entries.iter().map(|entry| serde_json::from_str(&entry.body).unwrap_or_default()).collect();
    Ok(Reply::from(json!({"records": records, "total": found.total, "object": "list"})))
}
