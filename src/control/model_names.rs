//! Stored names of models: what works as `model` in a workspace, and what it stands for.
//!
//! An entry has the members of one in the settings' `models` (`words::settings::model_entry`), and its name. Those of the settings are
//! listed, and read-only. What requests make of a name is `route::model_names`.

use super::ORGANISATION;
use super::call::Call;
use super::configs::check_object;
use super::declared::Managed;
use super::field::{Field, Type, not_null, nullable, optional, required};
use super::origin::{ORIGIN, SET};
use super::page;
use super::records::{member, members};
use super::reply::Reply;
use super::resource::{
    Changed, Draft, Item, Resource, create, delete, list, read, stored_items, update, view,
};
use super::route::{Route, Shape};
use judgment::route::model_names::is_for_workspace;
use memory::auth::ClientIdentity;
use memory::state::snapshot::SettingsSnapshot;
use memory::state::stored::read_model;
use memory::store::{Change, Kind, Record, Status};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use words::error::Error;
use words::settings::scopes::Scope;
use words::settings::{ModelEntry, ModelRoute};

const NAME: &str = "What requests send as `model`; `*` stands for any text.";
const TO: Type = Type::AnyOf(&[Type::Name(512), Type::ConfigObject]);
const TO_DOC: &str = "`@slug`, `@slug/model`, the slug of a saved config, or a config or target.";
const TEXTS: Type = Type::List(&Type::Name(256), 0, 500);

const MODEL: Field = optional(
    "model",
    Type::ModelName,
    "The model that is requested; `*` is what the `*` of the name stands for. The name itself where absent.",
);
const OPERATIONS: Field = optional(
    "operations",
    Type::List(&Type::Operation, 0, 500),
    "What it may be used for (docs/operations.md). Everything where absent.",
);
const KEYS: Field = optional(
    "keys",
    TEXTS,
    "The keys that may use it: those of the settings by name, others by id. All where absent.",
);
const WORKSPACES: Field =
    optional("workspaces", TEXTS, "The slugs or ids of the workspaces that may use it. All where absent.");
const DESCRIPTION: Field = optional("description", Type::Text(2048), "For people.");

const CREATE: &[Field] = &[
    required("name", Type::ModelName, NAME),
    required("to", TO, TO_DOC),
    MODEL,
    OPERATIONS,
    KEYS,
    WORKSPACES,
    DESCRIPTION,
    optional("slug", Type::Slug(1, 128), "How these routes name it; made of the name where absent."),
    optional("workspace_id", Type::Name(128), "Id or slug of the workspace."),
    optional("organisation_id", Type::Text(64), "Taken from the key."),
];

const UPDATE: &[Field] = &[
    not_null("name", Type::ModelName, NAME),
    not_null("to", TO, TO_DOC),
    MODEL,
    OPERATIONS,
    KEYS,
    WORKSPACES,
    DESCRIPTION,
];

const MADE: &[Field] = &[
    required("id", Type::Uuid, "The entry."),
    required("slug", Type::Text(128), "How these routes name it."),
    required("object", Type::Text(20), "`model-name`."),
];

const ITEM: &[Field] = &[
    nullable("id", Type::Uuid, "The entry; null for one of the settings."),
    nullable("slug", Type::Text(128), "How these routes name it; null for one of the settings."),
    required("name", Type::Text(256), "What requests send as `model`."),
    required(
        "to",
        Type::Any,
        "What it stands for, secrets masked; null: a config of the settings that is not shown.",
    ),
    nullable("model", Type::Text(256), "The model that is requested; null: the name itself."),
    nullable("operations", TEXTS, "What it may be used for; null: everything."),
    nullable("keys", TEXTS, "The keys that may use it; null: all, or not to be seen with this key."),
    nullable("workspaces", TEXTS, "The workspaces that may use it; null: all, or not to be seen."),
    nullable("description", Type::Text(2048), "For people."),
    required("organisation_id", Type::Uuid, "The organisation."),
    nullable("workspace_id", Type::Uuid, "Where it is used; null for every workspace."),
    required("status", Type::Text(20), "`active`."),
    nullable("owner_id", Type::Text(128), "Who made it."),
    nullable("updated_by", Type::Text(128), "Who changed it last."),
    nullable("created_at", Type::Time, "When it was made."),
    nullable("last_updated_at", Type::Time, "When it was changed last."),
    ORIGIN,
    SET,
    required("object", Type::Text(20), "`model-name`."),
];

pub(super) const ROUTES: &[Route] = &[
    create::<ModelName>(&[Scope::ConfigsCreate], "Makes a name of models", CREATE, Shape::Object(MADE)),
    list::<ModelName>(&[Scope::ConfigsList], "Lists names of models", page::WORKSPACE_QUERY, ITEM),
    read::<ModelName>(&[Scope::ConfigsRead], "Reads a name of models", ITEM).query(page::IN_WORKSPACE),
    update::<ModelName>(&[Scope::ConfigsUpdate], "Changes a name of models", UPDATE, Shape::Object(MADE))
        .query(page::IN_WORKSPACE),
    delete::<ModelName>(&[Scope::ConfigsDelete], "Deletes a name of models").query(page::IN_WORKSPACE),
];

/// As files have it.
pub(super) const MANAGED: Managed = Managed::of::<ModelName>("model-names");

struct ModelName;

impl Resource for ModelName {
    const KIND: Kind = Kind::ModelName;
    const NAME: &'static str = "model-names";
    const PATHS: [&'static str; 2] = ["/v1/model-names", "/v1/model-names/{slug}"];
    const PREFIX: &'static str = "mn-";
    const IS_COMPILED: bool = true;
    const KEPT: &'static [&'static str] =
        &["name", "to", "model", "operations", "keys", "workspaces", "description"];
    const SECRET: &'static [&'static str] = &["to"];
    const CHANGED: Changed = Changed::Made;

    fn fill(call: &Call, draft: &mut Draft<'_>) -> Result<(), Error> {
        may_change(&call.identity)?;
        let entry = check(call, draft)?;
        let catalog = call.catalog()?;
        let mut others = catalog.all(Kind::ModelName).filter(|other| {
            other.workspace == draft.record.workspace
                && other.id != draft.record.id
                && other.status == Status::Active
        });
        let name = entry.name.as_str();
        if others.any(|other| member(&members(other), "name") == name) {
            return Err(Error::conflict(format!("There is a name {name} already.")).with_param("name"));
        }
        Ok(())
    }

    fn made(record: &Record) -> Reply {
        Reply::from(json!({"id": record.id, "slug": record.slug, "object": "model-name"}))
    }

    fn items(call: &Call) -> Result<Vec<Item>, Error> {
        let mut items = stored_items(call.list(Self::KIND)?);
        let entries = shown_entries(&call.snapshot, &call.identity);
        items.extend(entries.into_iter().map(Item::Unstored));
        Ok(items)
    }

    async fn shown(_: &Call, record: &Arc<Record>) -> Result<Value, Error> {
        Ok(view(ITEM, record, json!({"object": "model-name"})))
    }

    /// For good, so that its name is free again.
    fn removal(call: &Call, record: &Record) -> Result<Vec<Change>, Error> {
        may_change(&call.identity)?;
        Ok(vec![Change::Delete { kind: Self::KIND, id: record.id }])
    }
}

/// # Errors
/// 403 for a key that may use only some models: a name of its list could be made to stand for any other.
fn may_change(client: &ClientIdentity) -> Result<(), Error> {
    if client.defaults.allowed_models.is_none() {
        return Ok(());
    }
    let message = "The calling key may use only some models, and cannot say what names of models stand for.";
    Err(Error::forbidden(message).with_param("name"))
}

/// The entry that a draft has become, whose provider or config exists.
///
/// # Errors
/// 400 with all problems.
fn check(call: &Call, draft: &Draft<'_>) -> Result<ModelEntry, Error> {
    let entry = read_model(&draft.body, &call.snapshot.hosts, false).map_err(Error::invalid_body)?;
    let workspace = draft.record.workspace;
    let directory = call.snapshot.directory(workspace);
    let missing = match &entry.route {
        ModelRoute::Provider(slug) => {
            directory.provider(slug).is_none().then(|| format!("the stored provider @{slug}"))
        }
        ModelRoute::Saved(id) => directory.config(id).is_none().then(|| format!("the saved config {id}")),
        ModelRoute::Inline(_) => {
            check_object(call, workspace, &member(&draft.body, "to"), "to")?;
            None
        }
    };
    match missing {
        Some(what) => Err(Error::invalid_request("to", format!("to names {what}, which does not exist."))),
        None => Ok(entry),
    }
}

/// The entries of the settings file. A client that must stay in its workspace gets those that are for it, and not whom else they are for.
fn shown_entries(snapshot: &SettingsSnapshot, client: &ClientIdentity) -> Vec<Value> {
    let entries = snapshot.settings.models.iter();
    let shown =
        entries.filter(|entry| !client.is_bound || is_for_workspace(entry, snapshot, client.workspace));
    shown.map(|entry| of_settings(entry, !client.is_bound)).collect()
}

/// An entry of the settings file; `with_users`: also whom it is for. A config in it is not shown: it may have secrets that came by
/// reference.
fn of_settings(entry: &ModelEntry, with_users: bool) -> Value {
    let to = match &entry.route {
        ModelRoute::Provider(slug) => Some(format!("@{slug}")),
        ModelRoute::Saved(id) => Some(id.clone()),
        ModelRoute::Inline(_) => None,
    };
    let own = json!({
        "name": entry.name.as_str(),
        "to": to,
        "model": entry.model.as_ref().map(|model| model.as_str()),
        "operations": entry.operations,
        "keys": entry.keys.as_ref().filter(|_| with_users),
        "workspaces": entry.workspaces.as_ref().filter(|_| with_users),
        "organisation_id": ORGANISATION,
        "status": "active",
        "origin": "settings",
        "object": "model-name",
    });
    let mut own = super::records::object(own);
    let shown = ITEM.iter().map(|field| (field.name.to_owned(), own.remove(field.name).unwrap_or_default()));
    Value::Object(shown.collect::<Map<String, Value>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use words::config::Checks;
    use words::settings::{AllowedNames, SecretSources, Settings};

    #[test]
    fn a_key_of_a_workspace_sees_no_entries_for_others_nor_whom_one_is_for() {
        let yaml = "auth: {keys: [{name: vip, key: tp-vip-0123456789}]}\nproviders: {a: {provider: openai, api_key: k}}\n\
                    models: {fast: {to: '@a', keys: [vip]}, reserved: {to: '@a', workspaces: [red]}}";
        let checks = Checks::NONE;
        let sources = SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
        let snapshot = SettingsSnapshot::new(Settings::parse(yaml, &sources, &checks).unwrap(), 0);
        let visible = |client: &ClientIdentity| -> Vec<(Value, Value)> {
            let shown = shown_entries(&snapshot, client);
            shown.iter().map(|entry| (entry["name"].clone(), entry["keys"].clone())).collect()
        };
        let mut client = ClientIdentity::anonymous(None);
        assert_eq!(visible(&client), [(json!("fast"), Value::Null)]);
        client.is_bound = false;
        assert_eq!(visible(&client), [(json!("fast"), json!(["vip"])), (json!("reserved"), Value::Null)]);
    }

    #[test]
    fn a_key_that_may_use_some_models_changes_no_names() {
        let mut client = ClientIdentity::anonymous(None);
        assert!(may_change(&client).is_ok());
        client.defaults.allowed_models = Some(AllowedNames::new(["gpt-4o*"]));
        let error = may_change(&client).expect_err("it could allow itself any model");
        assert_eq!((error.status(), error.param.as_deref()), (403, Some("name")));
    }
}
