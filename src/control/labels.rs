//! Labels of prompt versions: a name that stands for one version of each prompt.
//!
//! Three are the same in every workspace and cannot change. Which version a label stands for is in the prompt's record.

use super::ORGANISATION;
use super::call::Call;
use super::field::{Field, Type, not_null, nullable, optional, required};
use super::page::{self, Page};
use super::records::{changed, created, member, members, overlay, put, time};
use super::reply::Reply;
use super::route::{Access, Route, Shape, delete, get, post, put as put_route};
use memory::state::stored::prompts::UNIVERSAL_LABELS;
use memory::store::{Catalog, Change, Kind, Record, Status};
use serde_json::{Value, json};
use uuid::Uuid;
use words::error::Error;
use words::settings::scopes::Scope;

const CREATE: &[Field] = &[
    required(
        "name",
        Type::Slug(1, 64),
        "Letters, digits, `_` and `-`; not `latest`, not `default`, not digits alone.",
    ),
    optional("description", Type::Text(1024), "For people."),
    optional("color_code", Type::Text(32), "For people: `#aabbcc`."),
    optional(
        "workspace_id",
        Type::Name(128),
        "Id or slug; needed with keys of the organisation unless it is the default one.",
    ),
    optional("organisation_id", Type::Text(64), "Taken from the key."),
    optional("organization_id", Type::Text(64), "The same as `organisation_id`."),
];

const UPDATE: &[Field] = &[
    not_null("name", Type::Slug(1, 64), "As when it is made."),
    optional("description", Type::Text(1024), "For people."),
    optional("color_code", Type::Text(32), "For people."),
];

const CREATED: &[Field] = &[required("id", Type::Uuid, "The label.")];

const ITEM: &[Field] = &[
    required("id", Type::Uuid, "The label."),
    required("name", Type::Text(64), "How requests name it: `slug@name`."),
    nullable("description", Type::Text(1024), "For people."),
    nullable("color_code", Type::Text(32), "For people."),
    required("organisation_id", Type::Uuid, "The organisation."),
    nullable("workspace_id", Type::Uuid, "Its workspace; null for the three that every workspace has."),
    required("is_universal", Type::Flag, "Whether every workspace has it; it cannot be changed then."),
    required("status", Type::Text(20), "`active`."),
    nullable("created_at", Type::Time, "When it was made."),
    nullable("last_updated_at", Type::Time, "When it was changed last."),
    required("object", Type::Text(20), "`label`."),
];

const LIST: &[Field] = &[
    optional("search", Type::Text(255), "Only with this text in the name."),
    page::WORKSPACE,
    page::CURRENT_PAGE,
    page::PAGE_SIZE,
    page::CURRENT_PAGE_CAMEL,
    page::PAGE_SIZE_CAMEL,
];

pub(super) const ROUTES: &[Route] = &[
    post("/v1/labels", Access::Scope(&[Scope::PromptsCreate]), "Makes a label", |call| {
        Box::pin(create(call))
    })
    .body(CREATE)
    .replies(Shape::Object(CREATED))
    .changes("labels", "create"),
    get("/v1/labels", Access::Scope(&[Scope::PromptsList]), "Lists labels", |call| Box::pin(list(call)))
        .query(LIST)
        .replies(Shape::List(ITEM)),
    get(
        "/v1/labels/{id}",
        Access::Scope(&[Scope::PromptsRead]),
        "Reads a label, by its id or name",
        |call| Box::pin(read(call)),
    )
    .replies(Shape::Object(ITEM)),
    put_route("/v1/labels/{id}", Access::Scope(&[Scope::PromptsUpdate]), "Changes a label", |call| {
        Box::pin(update(call))
    })
    .body(UPDATE)
    .replies(Shape::Empty)
    .changes("labels", "update"),
    delete(
        "/v1/labels/{id}",
        Access::Scope(&[Scope::PromptsDelete]),
        "Deletes a label; requests that name it are refused then",
        |call| Box::pin(remove(call)),
    )
    .replies(Shape::Empty)
    .changes("labels", "delete"),
];

async fn create(mut call: Call) -> Result<Reply, Error> {
    let workspace = call.new_workspace()?;
    let name = call.text("name").unwrap_or_default().to_owned();
    check_name(&name)?;
    let mut body = members_of_request(&call);
    body.insert("owner_id".to_owned(), call.actor().into());
    let record = created(Kind::Label, Some(workspace), name, &Value::Object(body), call.now);
    let reply = json!({"id": record.id});
    call.commit(vec![put(record)]).await?;
    Ok(Reply::from(reply))
}

async fn update(mut call: Call) -> Result<Reply, Error> {
    check_own(&call)?;
    let before = call.find(Kind::Label)?;
    let mut body = members(&before);
    overlay(&mut body, &call.body, &["description", "color_code"]);
    let mut record = changed(&before, &Value::Object(body), call.now);
    if let Some(name) = call.text("name").filter(|name| before.slug.as_deref() != Some(*name)) {
        check_name(name)?;
        record.slug = Some(name.to_owned());
    }
    call.commit(vec![put(record)]).await?;
    Ok(Reply::empty())
}

/// Deleted for good, so that its name is free again.
async fn remove(mut call: Call) -> Result<Reply, Error> {
    check_own(&call)?;
    let record = call.find(Kind::Label)?;
    call.commit(vec![Change::Delete { kind: Kind::Label, id: record.id }]).await?;
    Ok(Reply::empty())
}

async fn list(call: Call) -> Result<Reply, Error> {
    let mut items: Vec<Value> = UNIVERSAL_LABELS.iter().map(|(id, name)| universal(*id, name)).collect();
    items.extend(call.list(Kind::Label)?.iter().map(|record| item(record)));
    if let Some(text) = call.query_text("search").map(str::to_lowercase) {
        items.retain(|item| item["name"].as_str().is_some_and(|name| name.to_lowercase().contains(&text)));
    }
    Ok(Page::of(&call, 50).reply(&items, Value::clone))
}

async fn read(call: Call) -> Result<Reply, Error> {
    match universal_named(call.named()) {
        Some((id, name)) => Ok(Reply::from(universal(id, name))),
        None => Ok(Reply::from(item(&*call.find(Kind::Label)?))),
    }
}

/// The label with this id or name that prompts of the workspace may have.
pub(super) fn find(catalog: &Catalog, workspace: Uuid, named: &str) -> Option<Uuid> {
    if let Some((id, _)) = universal_named(named) {
        return Some(id);
    }
    let found = match Uuid::try_parse(named) {
        Ok(id) => catalog.get(Kind::Label, id),
        Err(_) => catalog.by_slug(Kind::Label, Some(workspace), named),
    };
    let is_usable = |label: &&std::sync::Arc<Record>| {
        label.workspace == Some(workspace) && label.status == Status::Active
    };
    found.filter(is_usable).map(|label| label.id)
}

/// The name of a label; `None` where it was deleted.
pub(super) fn name_of(catalog: &Catalog, id: Uuid) -> Option<String> {
    match UNIVERSAL_LABELS.iter().find(|(universal, _)| *universal == id) {
        Some((_, name)) => Some((*name).to_owned()),
        None => catalog.get(Kind::Label, id)?.slug.clone(),
    }
}

fn universal_named(named: &str) -> Option<(Uuid, &'static str)> {
    let id = Uuid::try_parse(named).ok();
    UNIVERSAL_LABELS.into_iter().find(|(universal, name)| Some(*universal) == id || *name == named)
}

/// # Errors
/// 409 for a label that every workspace has.
fn check_own(call: &Call) -> Result<(), Error> {
    match universal_named(call.named()) {
        Some((_, name)) => Err(Error::conflict(format!(
            "The label {name} is the same in every workspace. It cannot be changed or deleted."
        ))),
        None => Ok(()),
    }
}

/// # Errors
/// 400 for a name that means something else after an `@`; 409 for one that every workspace has.
fn check_name(name: &str) -> Result<(), Error> {
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
    if is_number || name.contains('.') || matches!(name, "latest" | "default") {
        let message = "must be letters, digits, _ and -, not latest, not default, and not digits alone";
        return Err(Error::invalid_request("name", format!("name {message}.")));
    }
    if UNIVERSAL_LABELS.iter().any(|(_, universal)| *universal == name) {
        Err(Error::conflict(format!("Every workspace has the label {name}.")).with_param("name"))
    } else {
        Ok(())
    }
}

fn members_of_request(call: &Call) -> serde_json::Map<String, Value> {
    let mut body = serde_json::Map::new();
    overlay(&mut body, &call.body, &["description", "color_code"]);
    body
}

fn item(record: &Record) -> Value {
    let body = members(record);
    json!({
        "id": record.id,
        "name": record.slug,
        "description": member(&body, "description"),
        "color_code": member(&body, "color_code"),
        "organisation_id": ORGANISATION,
        "workspace_id": record.workspace,
        "is_universal": false,
        "status": record.status.as_str(),
        "created_at": time(record.created_at),
        "last_updated_at": time(record.updated_at),
        "object": "label",
    })
}

fn universal(id: Uuid, name: &str) -> Value {
    json!({
        "id": id,
        "name": name,
        "description": null,
        "color_code": null,
        "organisation_id": ORGANISATION,
        "workspace_id": null,
        "is_universal": true,
        "status": "active",
        "created_at": null,
        "last_updated_at": null,
        "object": "label",
    })
}
