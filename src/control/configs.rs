//! Saved configs: every change of `config` is a version; checked as a whole before it is saved.
//!
//! A config that has secrets of its own (a provider's key) is kept sealed, and shown with them masked.

mod check;

pub(super) use check::check_object;

use super::ORGANISATION;
use super::call::Call;
use super::declared::Managed;
use super::field::{Field, Type, not_null, nullable, optional, required};
use super::origin::{self, ORIGIN, SET};
use super::page::{self, Page};
use super::records::{changed, member, members, put, set, time, version};
use super::reply::Reply;
use super::resource::{Changed, Draft, Item, Resource, create, delete, list, read, stored_items, update};
use super::route::{Access, Route, Shape, get};
use memory::store::{Change, Kind, Record, Status};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use uuid::Uuid;
use words::error::Error;
use words::settings::scopes::Scope;

/// The member of a body that may have secrets in it.
const SECRET: &[&str] = &["config"];
/// As text at most 1 MiB of characters.
const CONFIG: Type = Type::AnyOf(&[Type::ConfigObject, Type::Text(1 << 20)]);

const CREATE: &[Field] = &[
    required("name", Type::Name(255), "For people; the slug begins with it."),
    required("config", CONFIG, "The config object, or its JSON text."),
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
    optional("config", CONFIG, "The config object, or its JSON text: a new version."),
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
    ORIGIN,
    SET,
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
    create::<SavedConfig>(&[Scope::ConfigsCreate], "Saves a config", CREATE, Shape::Data(CHANGED)),
    list::<SavedConfig>(&[Scope::ConfigsList], "Lists configs", page::WORKSPACE_QUERY, ITEM),
    read::<SavedConfig>(&[Scope::ConfigsRead], "Reads a config", ONE).query(page::IN_WORKSPACE),
    update::<SavedConfig>(&[Scope::ConfigsUpdate], "Changes a config", UPDATE, Shape::Data(CHANGED))
        .query(page::IN_WORKSPACE),
    delete::<SavedConfig>(&[Scope::ConfigsDelete], "Takes a config out of use").query(page::IN_WORKSPACE),
    get(
        "/v1/configs/{slug}/versions",
        Access::Scope(&[Scope::ConfigsRead]),
        "Lists the versions of a config",
        |call| Box::pin(versions(call)),
    )
    .lists(page::QUERY)
    .replies(Shape::List(ONE)),
];

/// As files have it.
pub(super) const MANAGED: Managed = Managed::of::<SavedConfig>("configs");

struct SavedConfig;

impl Resource for SavedConfig {
    const KIND: Kind = Kind::Config;
    const NAME: &'static str = "configs";
    const PATHS: [&'static str; 2] = ["/v1/configs", "/v1/configs/{slug}"];
    const PREFIX: &'static str = "pc-";
    const IS_COMPILED: bool = true;
    const KEPT: &'static [&'static str] = &["name"];
    const SECRET: &'static [&'static str] = SECRET;
    const CHANGED: Changed = Changed::Made;

    fn fill(call: &Call, draft: &mut Draft<'_>) -> Result<(), Error> {
        let body = &mut draft.body;
        if let Some(config) = check::config(call, draft.record.workspace)? {
            let number = member(body, "version").as_u64().unwrap_or(0) + 1;
            set(body, "config", config);
            set(body, "version", number);
            set(body, "version_id", Uuid::now_v7().to_string());
        }
        if let Some(is_default) = is_default(call).or(draft.before.is_none().then_some(false)) {
            set(body, "is_default", is_default);
        }
        Ok(())
    }

    /// The version that was made, and the config that is no longer the workspace's default one.
    fn more_changes(call: &Call, before: Option<&Record>, record: &Record) -> Result<Vec<Change>, Error> {
        let mut changes = Vec::new();
        let id = version_id(record);
        if let Some(id) = id.filter(|_| id != before.and_then(version_id)) {
            changes.push(put(version_of(call, record, id)?));
        }
        if is_default(call) == Some(true) {
            changes.extend(no_longer_default(call, record)?);
        }
        Ok(changes)
    }

    fn made(record: &Record) -> Reply {
        Reply::data(json!({
            "id": record.id,
            "version_id": version_id(record),
            "slug": record.slug,
            "object": "config",
        }))
    }

    fn items(call: &Call) -> Result<Vec<Item>, Error> {
        let settings = call.snapshot.settings.configs.keys();
        let mut items = stored_items(call.list(Self::KIND)?);
        items.extend(settings.map(|id| Item::Unstored(Value::Object(item_of_settings(id)))));
        Ok(items)
    }

    fn unstored(call: &Call) -> Result<Option<Value>, Error> {
        let is_of_settings = call.snapshot.settings.configs.contains_key(call.named());
        Ok(is_of_settings.then(|| one_of_settings(call.named())))
    }

    /// # Errors
    /// 409 for a config of the settings.
    fn find(call: &Call) -> Result<Arc<Record>, Error> {
        if call.snapshot.settings.configs.contains_key(call.named()) {
            Err(Error::conflict("The config is one of the settings file, and changed there."))
        } else {
            call.find(Self::KIND)
        }
    }

    async fn shown(_: &Call, record: &Arc<Record>) -> Result<Value, Error> {
        Ok(shown(record, None))
    }

    async fn listed(_: &Call, record: &Arc<Record>) -> Result<Value, Error> {
        Ok(Value::Object(item(record)))
    }

    fn check_unused(call: &Call, record: &Record) -> Result<(), Error> {
        check::is_unused(call, record)
    }
}

async fn versions(call: Call) -> Result<Reply, Error> {
    if let Some(one) = SavedConfig::unstored(&call)? {
        return Ok(Page::of(&call, 50).reply(&[one], Value::clone));
    }
    let record = call.find(Kind::Config)?;
    let versions = call.store()?.children(Kind::ConfigVersion, record.id).await.map_err(Error::from)?;
    Ok(Page::of(&call, 50).reply(&versions, |version| shown(&record, Some(&**version))))
}

fn one_of_settings(slug: &str) -> Value {
    one(item_of_settings(slug), &json!({}))
}

fn is_default(call: &Call) -> Option<bool> {
    call.flag("isDefault").or_else(|| call.flag("is_default"))
}

/// The version that a config is in.
fn version_id(record: &Record) -> Option<Uuid> {
    member(&members(record), "version_id").as_str().and_then(|id| Uuid::try_parse(id).ok())
}

/// The record of a version: the config as it is now.
fn version_of(call: &Call, config: &Record, id: Uuid) -> Result<Record, Error> {
    let mut body = call.open_members(config)?;
    let number = member(&body, "version").as_u64().and_then(|number| u32::try_from(number).ok());
    body.retain(|name, _| name == "config" || name == "updated_by");
    let new = version(Kind::ConfigVersion, config, number.unwrap_or(1), &Value::Null, call.now);
    let mut record = Record { id, ..new };
    call.set_body(&mut record, body, SECRET)?;
    Ok(record)
}

/// The changes that make `record` the workspace's only default config.
fn no_longer_default(call: &Call, record: &Record) -> Result<Vec<Change>, Error> {
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
    ]);
    origin::show(&body, &mut item);
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
