//! Saved configs: every change of `config` is a version; checked as a whole before it is saved.
//!
//! A config that has secrets of its own (a provider's key) is kept sealed, and shown with them masked.

mod check;

use super::ORGANISATION;
use super::call::Call;
use super::field::{Field, Type, not_null, nullable, optional, required};
use super::page::{self, Page};
use super::records::{archived, changed, created, member, members, put, time, version};
use super::reply::Reply;
use super::route::{Access, Route, Shape, delete, get, post, put as put_route};
use memory::store::{Change, Kind, Record, Status};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use uuid::Uuid;
use words::error::Error;
use words::settings::scopes::Scope;

/// The member of a body that may have secrets in it.
const SECRET: &[&str] = &["config"];

const CREATE: &[Field] = &[
    required("name", Type::Name(255), "For people; the slug begins with it."),
    required("config", Type::Config, "The config object, or its JSON text."),
    optional("isDefault", Type::Flag, "Whether it is the workspace's default config."),
    optional("is_default", Type::Flag, "The same as `isDefault`."),
    optional("slug", Type::Slug(2, 128), "How requests name it; made of the name where absent."),
    optional(
        "workspace_id",
        Type::Name(128),
        "Id or slug; needed with keys of the organisation unless it is the default one.",
    ),
    optional("organisation_id", Type::Text(64), "Taken from the key."),
];

const UPDATE: &[Field] = &[
    not_null("name", Type::Name(255), "For people."),
    optional("config", Type::Config, "The config object, or its JSON text: a new version."),
    optional("status", Type::OneOf(&["active", "archived"]), "`archived` takes it out of use."),
    optional("isDefault", Type::Flag, "Whether it is the workspace's default config."),
    optional("is_default", Type::Flag, "The same as `isDefault`."),
];

const CHANGED: &[Field] = &[
    required("id", Type::Uuid, "The config."),
    required("version_id", Type::Uuid, "The version that was made."),
    required("slug", Type::Text(128), "How requests name it."),
    required("object", Type::Text(20), "`config`."),
];

const ITEM: &[Field] = &[
    nullable("id", Type::Uuid, "The config; null for one of the settings."),
    required("name", Type::Text(255), "For people."),
    nullable("workspace_id", Type::Uuid, "Where it is used; null for every workspace."),
    required("slug", Type::Text(128), "How requests name it."),
    nullable("organisation_id", Type::Uuid, "The organisation."),
    required("is_default", Type::Bit, "Whether it is the workspace's default config."),
    required("status", Type::Text(20), "`active`."),
    nullable("owner_id", Type::Text(128), "Who made it."),
    nullable("updated_by", Type::Text(128), "Who changed it last."),
    nullable("created_at", Type::Time, "When it was made."),
    nullable("last_updated_at", Type::Time, "When it was changed last."),
    required("origin", Type::OneOf(&["settings", "store"]), "`settings`: from the settings file, read-only."),
    required("object", Type::Text(20), "`config`."),
];

const ONE: &[Field] = &[
    required("config", Type::Text(1 << 20), "The config as JSON text, secrets masked."),
    required("format", Type::Text(20), "`json`."),
    required("type", Type::Text(20), "`ORG_CONFIG`."),
    nullable("version_id", Type::Uuid, "The version."),
    required("slug", Type::Text(128), "How requests name it."),
    required("name", Type::Text(255), "For people."),
    required("success", Type::Flag, "`true`."),
    required("data", Type::AnyObject, "The same, with `config` as an object."),
];

pub(super) const ROUTES: &[Route] = &[
    post("/v1/configs", Access::Scope(&[Scope::ConfigsCreate]), "Saves a config", |call| {
        Box::pin(create(call))
    })
    .body(CREATE)
    .replies(Shape::Data(CHANGED))
    .changes("configs", "create"),
    get("/v1/configs", Access::Scope(&[Scope::ConfigsList]), "Lists configs", |call| Box::pin(list(call)))
        .query(page::WORKSPACE_QUERY)
        .replies(Shape::List(ITEM)),
    get("/v1/configs/{slug}", Access::Scope(&[Scope::ConfigsRead]), "Reads a config", |call| {
        Box::pin(read(call))
    })
    .query(page::IN_WORKSPACE)
    .replies(Shape::Object(ONE)),
    put_route("/v1/configs/{slug}", Access::Scope(&[Scope::ConfigsUpdate]), "Changes a config", |call| {
        Box::pin(update(call))
    })
    .query(page::IN_WORKSPACE)
    .body(UPDATE)
    .replies(Shape::Data(CHANGED))
    .changes("configs", "update"),
    delete(
        "/v1/configs/{slug}",
        Access::Scope(&[Scope::ConfigsDelete]),
        "Takes a config out of use",
        |call| Box::pin(remove(call)),
    )
    .query(page::IN_WORKSPACE)
    .replies(Shape::Empty)
    .changes("configs", "delete"),
    get(
        "/v1/configs/{slug}/versions",
        Access::Scope(&[Scope::ConfigsRead]),
        "Lists the versions of a config",
        |call| Box::pin(versions(call)),
    )
    .query(page::QUERY)
    .replies(Shape::List(ONE)),
];

async fn create(mut call: Call) -> Result<Reply, Error> {
    let workspace = call.new_workspace()?;
    let config = check::config(&call, Some(workspace))?;
    let name = call.text("name").unwrap_or_default();
    let slug = call.new_slug(Kind::Config, Some(workspace), "pc-", name)?;
    let version_id = Uuid::now_v7();
    let is_default = is_default(&call).unwrap_or(false);
    let body = Map::from_iter([
        ("name".to_owned(), name.into()),
        ("config".to_owned(), config.unwrap_or_default()),
        ("is_default".to_owned(), is_default.into()),
        ("owner_id".to_owned(), call.actor().into()),
        ("updated_by".to_owned(), call.actor().into()),
        ("version_id".to_owned(), version_id.to_string().into()),
        ("version".to_owned(), 1.into()),
    ]);
    let mut record = created(Kind::Config, Some(workspace), slug, &Value::Null, call.now);
    call.set_body(&mut record, body, SECRET)?;
    let mut changes = vec![put(version_of(&call, &record, version_id, 1)?)];
    changes.extend(no_longer_default(&call, &record, is_default)?);
    changes.push(put(record.clone()));
    call.commit(changes).await?;
    Ok(Reply::data(made(&record, &json!(version_id))))
}

/// What a client gets of a config it has made or changed.
fn made(record: &Record, version_id: &Value) -> Value {
    json!({"id": record.id, "version_id": version_id, "slug": record.slug, "object": "config"})
}

async fn update(mut call: Call) -> Result<Reply, Error> {
    let before = stored(&call)?;
    call.check_owner(&before)?;
    let config = check::config(&call, before.workspace)?;
    let mut body = call.open_members(&before)?;
    let mut record = changed(&before, &Value::Null, call.now);
    if let Some(name) = call.text("name") {
        body.insert("name".to_owned(), name.into());
    }
    body.insert("updated_by".to_owned(), call.actor().into());
    let is_default = is_default(&call);
    if let Some(is_default) = is_default {
        body.insert("is_default".to_owned(), is_default.into());
    }
    let number = member(&body, "version").as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0) + 1;
    let is_new_version = config.is_some();
    let version_id =
        if is_new_version { Uuid::now_v7().to_string().into() } else { member(&body, "version_id") };
    if let Some(config) = config {
        body.insert("config".to_owned(), config);
        body.insert("version".to_owned(), number.into());
        body.insert("version_id".to_owned(), version_id.clone());
    }
    call.set_body(&mut record, body, SECRET)?;
    let mut changes = no_longer_default(&call, &record, is_default == Some(true))?;
    if let Some(id) = version_id.as_str().and_then(|id| Uuid::try_parse(id).ok()).filter(|_| is_new_version) {
        changes.push(put(version_of(&call, &record, id, number)?));
    }
    if call.text("status") == Some("archived") {
        check::is_unused(&call, &before)?;
        record = Record { revision: record.revision, ..archived(&record, call.now) };
    }
    changes.push(put(record));
    call.commit(changes).await?;
    Ok(Reply::data(made(&before, &version_id)))
}

async fn remove(mut call: Call) -> Result<Reply, Error> {
    let record = stored(&call)?;
    call.check_owner(&record)?;
    check::is_unused(&call, &record)?;
    call.commit(vec![put(archived(&record, call.now))]).await?;
    Ok(Reply::empty())
}

async fn list(call: Call) -> Result<Reply, Error> {
    let records = call.list(Kind::Config)?;
    let settings = call.snapshot.settings.configs.keys();
    let mut items: Vec<Value> = records.iter().map(|record| Value::Object(item(record))).collect();
    items.extend(settings.map(|id| Value::Object(item_of_settings(id))));
    Ok(Page::of(&call, 50).reply(&items, Value::clone))
}

async fn read(call: Call) -> Result<Reply, Error> {
    let named = call.named();
    if call.snapshot.settings.configs.contains_key(named) {
        return Ok(Reply::from(one_of_settings(named)));
    }
    let record = call.find(Kind::Config)?;
    Ok(Reply::from(shown(&record, None)))
}

fn one_of_settings(slug: &str) -> Value {
    one(item_of_settings(slug), &json!({}))
}

/// The config that the path names, which can be changed.
fn stored(call: &Call) -> Result<Arc<Record>, Error> {
    if call.snapshot.settings.configs.contains_key(call.named()) {
        Err(Error::conflict("The config is one of the settings file, and changed there."))
    } else {
        call.find(Kind::Config)
    }
}

async fn versions(call: Call) -> Result<Reply, Error> {
    let named = call.named();
    if call.snapshot.settings.configs.contains_key(named) {
        return Ok(Page::of(&call, 50).reply(&[one_of_settings(named)], Value::clone));
    }
    let record = call.find(Kind::Config)?;
    let versions = call.store()?.children(Kind::ConfigVersion, record.id).await.map_err(Error::from)?;
    Ok(Page::of(&call, 50).reply(&versions, |version| shown(&record, Some(&**version))))
}

fn is_default(call: &Call) -> Option<bool> {
    call.flag("isDefault").or_else(|| call.flag("is_default"))
}

/// The record of a version: the config as it is now.
fn version_of(call: &Call, config: &Record, id: Uuid, number: u32) -> Result<Record, Error> {
    let mut body = call.open_members(config)?;
    body.retain(|name, _| name == "config" || name == "updated_by");
    let mut record = Record { id, ..version(Kind::ConfigVersion, config, number, &Value::Null, call.now) };
    call.set_body(&mut record, body, SECRET)?;
    Ok(record)
}

/// The changes that make `record` the workspace's only default config.
fn no_longer_default(call: &Call, record: &Record, is_default: bool) -> Result<Vec<Change>, Error> {
    if !is_default {
        return Ok(Vec::new());
    }
    let catalog = call.catalog()?;
    let others = catalog
        .all(Kind::Config)
        .filter(|other| other.workspace == record.workspace && other.id != record.id);
    let mut changes = Vec::new();
    for other in others.filter(|other| other.status == Status::Active) {
        let mut body = members(other);
        if body.get("is_default").and_then(Value::as_bool) == Some(true) {
            body.insert("is_default".to_owned(), false.into());
            changes.push(put(changed(other, &Value::Object(body), call.now)));
        }
    }
    Ok(changes)
}

/// The members of a config in a list.
fn item(record: &Record) -> Map<String, Value> {
    let body = members(record);
    let mut item = Map::from_iter([
        ("id".to_owned(), json!(record.id)),
        ("name".to_owned(), member(&body, "name")),
        ("workspace_id".to_owned(), json!(record.workspace)),
        ("slug".to_owned(), json!(record.slug)),
        ("is_default".to_owned(), u8::from(member(&body, "is_default") == true).into()),
        ("status".to_owned(), record.status.as_str().into()),
        ("owner_id".to_owned(), member(&body, "owner_id")),
        ("updated_by".to_owned(), member(&body, "updated_by")),
        ("created_at".to_owned(), time(record.created_at)),
        ("last_updated_at".to_owned(), time(record.updated_at)),
        ("version_id".to_owned(), member(&body, "version_id")),
        ("origin".to_owned(), "store".into()),
    ]);
    item.extend(of_every_config());
    item
}

/// A config of the settings file. Its content is not shown: it may have secrets that came by reference.
fn item_of_settings(id: &str) -> Map<String, Value> {
    let names =
        ["id", "workspace_id", "owner_id", "updated_by", "created_at", "last_updated_at", "version_id"];
    let mut item = Map::from_iter(names.map(|name| (name.to_owned(), Value::Null)));
    item.extend([
        ("name".to_owned(), id.into()),
        ("slug".to_owned(), id.into()),
        ("is_default".to_owned(), 0.into()),
        ("status".to_owned(), "active".into()),
        ("origin".to_owned(), "settings".into()),
    ]);
    item.extend(of_every_config());
    item
}

fn of_every_config() -> [(String, Value); 2] {
    [("organisation_id".to_owned(), json!(ORGANISATION)), ("object".to_owned(), "config".into())]
}

/// A config, or one of its versions, in both shapes that clients read.
fn shown(record: &Record, version: Option<&Record>) -> Value {
    let mut shown = item(record);
    let body = members(version.unwrap_or(record));
    if let Some(version) = version {
        shown.extend([
            ("version_id".to_owned(), json!(version.id)),
            ("version".to_owned(), json!(version.number)),
            ("created_at".to_owned(), time(version.created_at)),
            ("updated_by".to_owned(), member(&body, "updated_by")),
        ]);
    }
    one(shown, &member(&body, "config"))
}

/// Portkey's recorded responses are flat, with the config as text; its document shows `data` with an object.
fn one(mut item: Map<String, Value>, config: &Value) -> Value {
    let mut data = item.clone();
    data.insert("config".to_owned(), config.clone());
    item.extend([
        ("config".to_owned(), config.to_string().into()),
        ("format".to_owned(), "json".into()),
        ("type".to_owned(), "ORG_CONFIG".into()),
        ("success".to_owned(), true.into()),
        ("data".to_owned(), Value::Object(data)),
    ]);
    Value::Object(item)
}
