//! Labels of prompt versions: a name that stands for one version of each prompt.
//!
//! Three are the same in every workspace and cannot change. Which version a label stands for is in the prompt's record.

use super::ORGANISATION;
use super::call::Call;
use super::declared::Managed;
use super::field::{Field, Type, not_null, nullable, optional, required};
use super::origin::{ORIGIN, SET};
use super::page;
use super::reply::Reply;
use super::resource::{Draft, Item, Resource, create, delete, list, read, stored_items, update, view};
use super::route::{Route, Shape};
use memory::state::stored::prompts::UNIVERSAL_LABELS;
use memory::store::{Catalog, Change, Kind, Record, Status};
use serde_json::{Value, json};
use std::sync::Arc;
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
    ORIGIN,
    SET,
    required("object", Type::Text(20), "`label`."),
];

const LIST: &[Field] = &[
    page::WORKSPACE,
    optional("organisation_id", Type::Text(64), "Taken from the key."),
    optional("organization_id", Type::Text(64), "The same as `organisation_id`."),
];

pub(super) const ROUTES: &[Route] = &[
    create::<Label>(&[Scope::PromptsCreate], "Makes a label", CREATE, Shape::Object(CREATED)),
    list::<Label>(&[Scope::PromptsList], "Lists labels", LIST, ITEM),
    read::<Label>(&[Scope::PromptsRead], "Reads a label, by its id or name", ITEM),
    update::<Label>(&[Scope::PromptsUpdate], "Changes a label", UPDATE, Shape::Empty),
    delete::<Label>(&[Scope::PromptsDelete], "Deletes a label; requests that name it are refused then"),
];

/// As files have it.
pub(super) const MANAGED: Managed = Managed::of::<Label>("labels");

struct Label;

impl Resource for Label {
    const KIND: Kind = Kind::Label;
    const NAME: &'static str = "labels";
    const PATHS: [&'static str; 2] = ["/v1/labels", "/v1/labels/{id}"];
    const KEPT: &'static [&'static str] = &["description", "color_code"];

    /// Its name.
    fn slug(call: &Call, _: Option<Uuid>) -> Result<String, Error> {
        let name = call.text("name").unwrap_or_default();
        check_name(name)?;
        Ok(name.to_owned())
    }

    fn fill(call: &Call, draft: &mut Draft<'_>) -> Result<(), Error> {
        if let Some(name) = call.text("name").filter(|name| draft.record.slug.as_deref() != Some(*name)) {
            check_name(name)?;
            draft.record.slug = Some(name.to_owned());
        }
        Ok(())
    }

    fn made(record: &Record) -> Reply {
        Reply::from(json!({"id": record.id}))
    }

    fn items(call: &Call) -> Result<Vec<Item>, Error> {
        let universal = UNIVERSAL_LABELS.iter().map(|(id, name)| Item::Unstored(universal_label(*id, name)));
        Ok(universal.chain(stored_items(call.list(Self::KIND)?)).collect())
    }

    fn name(record: &Record) -> Option<String> {
        record.slug.clone()
    }

    fn unstored(call: &Call) -> Result<Option<Value>, Error> {
        Ok(universal_named(call.named()).map(|(id, name)| universal_label(id, name)))
    }

    /// # Errors
    /// 409 for a label that every workspace has.
    fn find(call: &Call) -> Result<Arc<Record>, Error> {
        match universal_named(call.named()) {
            Some((_, name)) => Err(Error::conflict(format!(
                "The label {name} is the same in every workspace. It cannot be changed or deleted."
            ))),
            None => call.find(Self::KIND),
        }
    }

    async fn shown(_: &Call, record: &Arc<Record>) -> Result<Value, Error> {
        Ok(view(ITEM, record, json!({"name": record.slug, "is_universal": false, "object": "label"})))
    }

    /// For good, so that its name is free again.
    fn removal(_: &Call, record: &Record) -> Result<Vec<Change>, Error> {
        Ok(vec![Change::Delete { kind: Self::KIND, id: record.id }])
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
    let is_usable =
        |label: &&Arc<Record>| label.workspace == Some(workspace) && label.status == Status::Active;
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

fn universal_label(id: Uuid, name: &str) -> Value {
    json!({
        "id": id,
        "name": name,
        "description": null,
        "color_code": null,
        "organisation_id": ORGANISATION,
        "workspace_id": null,
        "is_universal": true,
        "status": "active",
        "origin": "store",
        "created_at": null,
        "last_updated_at": null,
        "object": "label",
    })
}
