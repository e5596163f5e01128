//! `/v1/managed-batches`: the batches that the gateway runs, of one workspace or of all, for operators.
//!
//! Clients use `/v1/batches` at the data port, which is OpenAI's (`batch`).

use super::call::{Call, missing};
use super::field::{Field, Type, nullable, optional, required};
use super::page::{self, Page, WORKSPACE};
use super::reply::Reply;
use super::route::{Access, Route, Shape, get};
use memory::store::{Kind, Record, Status};
use motion::batch::{Makers, view};
use serde_json::{Value, json};
use words::error::Error;
use words::settings::scopes::Scope;

const QUERY: &[Field] =
    &[WORKSPACE, optional("open", Type::Flag, "`true`: only batches that are not finished.")];

const ITEM: &[Field] = &[
    required("id", Type::Text(64), "The batch, as at the data port."),
    required("status", Type::Text(20), "As in OpenAI's API."),
    nullable("workspace_id", Type::Uuid, "Its workspace."),
    required("lines_sent_again", Type::Integer(0, i64::MAX), "Lines that may have been sent twice."),
    required("object", Type::Text(20), "`batch`. The other members are those of OpenAI's batches."),
];

pub(super) const ROUTES: &[Route] = &[
    get(
        "/v1/managed-batches",
        Access::Scope(&[Scope::LogsList]),
        "Lists the batches that the gateway runs, the newest first",
        |call| Box::pin(list(call)),
    )
    .query(QUERY)
    .lists(page::QUERY)
    .replies(Shape::List(ITEM)),
    get(
        "/v1/managed-batches/{id}",
        Access::Scope(&[Scope::LogsList]),
        "Reads a batch that the gateway runs",
        |call| Box::pin(read(call)),
    )
    .replies(Shape::Object(ITEM)),
];

async fn list(call: Call) -> Result<Reply, Error> {
    let catalog = call.catalog()?;
    let workspace = call.list_workspace()?;
    let makers = Makers::of(&call.identity, &catalog);
    let only_open = call.query.get("open").and_then(Value::as_bool) == Some(true);
    let found: Vec<Value> = catalog
        .all(Kind::Batch)
        .rev()
        .filter(|record| workspace.is_none_or(|own| record.workspace == Some(own)))
        .filter(|record| makers.have_made(record))
        .filter(|record| !only_open || record.status == Status::Active)
        .filter_map(|record| item(record))
        .collect();
    Ok(Page::of(&call, 50).reply(&found, Value::clone))
}

async fn read(call: Call) -> Result<Reply, Error> {
    let catalog = call.catalog()?;
    let own = call.own_workspace();
    let makers = Makers::of(&call.identity, &catalog);
    let mut visible = catalog
        .all(Kind::Batch)
        .filter(|record| own.is_none_or(|own| record.workspace == Some(own)))
        .filter(|record| makers.have_made(record));
    let is_it = |item: &Value| item.get("id").and_then(Value::as_str) == Some(call.named());
    match visible.find_map(|record| item(record).filter(is_it)) {
        Some(found) => Ok(Reply::from(found)),
        None => Err(missing(Kind::Batch, call.named())),
    }
}

fn item(record: &Record) -> Option<Value> {
    let mut item = view(record)?;
    item.as_object_mut()?.insert("workspace_id".to_owned(), json!(record.workspace));
    Some(item)
}
