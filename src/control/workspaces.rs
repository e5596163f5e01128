//! Workspaces and their members.
//!
//! Everything a workspace has is kept apart from the others by `call`, not here.

mod members;

pub(super) use members::ROUTES as MEMBER_ROUTES;

use super::call::{Call, by_id_or_slug};
use super::declared::Managed;
use super::field::{Field, Type, not_null, nullable, optional, required};
use super::giving;
use super::guardrail_owner;
use super::guardrails;
use super::limits::{self, RATE_LIMITS, RESET_USAGE, USAGE_LIMITS};
use super::origin::{ORIGIN, SET};
use super::page;
use super::records::{archived, member, members, overlay, put};
use super::reply::Reply;
use super::resource::{
    Changed, Draft, Item, Resource, create, delete, list, new_record, read, stored_items, update, view,
};
use super::route::{Access, Route, Shape, get};
use super::used::Used;
use jiff::Timestamp;
use memory::auth::DEFAULT_WORKSPACE;
use memory::auth::key_records::revoked;
use memory::limits::LimitScope;
use memory::limits::from_records::USAGE_NUMBERS;
use memory::store::{Catalog, Change, Kind, Record, Status};
use motion::batch;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use uuid::Uuid;
use words::config::read::Problems;
use words::error::Error;
use words::settings::scopes::Scope;

const DEFAULTS: Type = Type::Object(&[
    optional(
        "metadata",
        Type::Map(&Type::Text(512), 16),
        "Added to the metadata of every request; takes precedence.",
    ),
    optional(
        "input_guardrails",
        Type::List(&Type::Name(128), 0, 20),
        "Saved guardrails of the workspace that run on every request, before those of a config: slugs or ids.",
    ),
    optional("output_guardrails", Type::List(&Type::Name(128), 0, 20), "The same for every response."),
    optional("user_api_key_config", Type::Name(128), "The config of user keys that name none."),
]);

const VIEW: &[Field] = &[
    required("id", Type::Uuid, "The workspace."),
    required("slug", Type::Text(128), "Its name in URLs and bodies, as good as the id."),
    required("name", Type::Text(255), "For people."),
    nullable("icon", Type::Text(2048), "A picture of it, as it was given."),
    nullable("description", Type::Text(2048), "For people."),
    required("created_at", Type::Time, "When it was made."),
    required("last_updated_at", Type::Time, "When it was changed last."),
    nullable("defaults", Type::AnyObject, "What its requests have where they say nothing else."),
    required("is_default", Type::Bit, "1 for the workspace of keys that name none."),
    nullable("usage_limits", Type::List(&Type::AnyObject, 0, 10), "How much may be used."),
    nullable("rate_limits", Type::List(&Type::AnyObject, 0, 20), "How much may be used in a unit of time."),
    nullable("security_settings", Type::AnyObject, "What members and managers may see and change."),
    nullable("last_reset_at", Type::Time, "When its usage counted from 0 last."),
    required(
        "status",
        Type::OneOf(&["active", "exhausted", "archived"]),
        "`exhausted`: a usage limit is reached. Archived ones are out of use.",
    ),
    ORIGIN,
    SET,
    required("object", Type::Text(20), "`workspace`."),
];

const CREATE: &[Field] = &[
    required("name", Type::Name(255), "For people; the slug begins with it."),
    optional("slug", Type::Slug(2, 64), "Its name in URLs; made of the name where absent."),
    optional("description", Type::Text(2048), "For people."),
    optional("icon", Type::Text(2048), "A picture of it."),
    optional("defaults", DEFAULTS, "What its requests have where they say nothing else."),
    optional("users", Type::List(&members::USER, 0, 100), "First members."),
    optional(
        "security_settings",
        Type::Map(&Type::Flag, 64),
        "What members and managers may see and change.",
    ),
    USAGE_LIMITS,
    RATE_LIMITS,
];

const UPDATE: &[Field] = &[
    not_null("name", Type::Name(255), "For people."),
    optional("description", Type::Text(2048), "For people."),
    optional("icon", Type::Text(2048), "A picture of it."),
    optional("defaults", DEFAULTS, "Replaces all of them."),
    optional("security_settings", Type::Map(&Type::Flag, 64), "Replaces all of them."),
    USAGE_LIMITS,
    RATE_LIMITS,
    RESET_USAGE,
];

const DELETE: &[Field] = &[
    optional("name", Type::Text(255), "The workspace's name, to be sure; refused if it is another."),
    optional(
        "force_delete",
        Type::Flag,
        "Whether what the workspace has goes with it; else that refuses it.",
    ),
];

const LIST: &[Field] = &[
    optional(
        "status",
        Type::Names(&["active", "archived"]),
        "`active`, `archived` or both with a comma; `active` by default. Archived ones need a key or token of the whole organisation.",
    ),
    optional("name", Type::Name(255), "Part of the name; upper and lower case differ."),
    optional("exact_name", Type::Name(255), "The whole name."),
];

pub(super) const ROUTES: &[Route] = &[
    get("/v1/workspaces", Access::Scope(LISTS), "Lists workspaces", |call| Box::pin(Workspace::list(call)))
        .query(LIST)
        .lists(page::QUERY)
        .replies(Shape::List(VIEW)),
    create::<Workspace>(&[Scope::WorkspacesCreate], "Creates a workspace", CREATE, Shape::Object(VIEW)),
    list::<Workspace>(LISTS, "Lists workspaces", LIST, VIEW),
    read::<Workspace>(&[Scope::WorkspacesRead], "Reads a workspace", VIEW),
    update::<Workspace>(&[Scope::WorkspacesUpdate], "Changes a workspace", UPDATE, Shape::Object(VIEW)),
    delete::<Workspace>(&[Scope::WorkspacesDelete], "Archives a workspace").body(DELETE),
];

const LISTS: &[Scope] = &[Scope::WorkspacesList];

/// The kinds of objects that keep a workspace from being deleted.
const CONTENT: [Kind; 3] = [Kind::Provider, Kind::Config, Kind::ApiKey];

/// As files have it.
pub(super) const MANAGED: Managed = Managed::of::<Workspace>("workspaces");

struct Workspace;

impl Resource for Workspace {
    const KIND: Kind = Kind::Workspace;
    const NAME: &'static str = "workspaces";
    const PATHS: [&'static str; 2] = ["/v1/admin/workspaces", "/v1/admin/workspaces/{id}"];
    const PREFIX: &'static str = "ws-";
    const CHANGED: Changed = Changed::Shown;
    /// `name` is a part of the name, as Portkey has it.
    const IS_NAMED: bool = false;

    fn fill(call: &Call, draft: &mut Draft<'_>) -> Result<(), Error> {
        if call.has("security_settings") {
            let name = "security_settings";
            giving::check_switches(call, draft.body.get(name), call.body.get(name))?;
        }
        let update = checked(call, draft.before.map(|before| before.id), &draft.body)?;
        overlay(
            &mut draft.body,
            &update,
            &[
                "name",
                "description",
                "icon",
                "defaults",
                "security_settings",
                "usage_limits",
                "rate_limits",
                USAGE_NUMBERS,
            ],
        );
        guardrail_owner::keep(call, draft.before, &mut draft.body)?;
        if call.flag("reset_usage") == Some(true) {
            limits::reset(&mut draft.body, "", call.now);
        }
        Ok(())
    }

    fn items(call: &Call) -> Result<Vec<Item>, Error> {
        let statuses = call.query_text("status").unwrap_or("active").split(',');
        let wanted: Vec<Status> = statuses.filter_map(|name| Status::parse(name.trim())).collect();
        if wanted.contains(&Status::Archived) && call.identity.is_bound {
            return Err(Error::forbidden(
                "Only keys and tokens of the whole organisation (admins and owners) list archived workspaces.",
            )
            .with_param("status"));
        }
        let own = call.own_workspace();
        let catalog = call.catalog()?;
        let name_of = |record: &Record| {
            members(record).get("name").and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let found = catalog
            .all(Self::KIND)
            .filter(|record| own.is_none_or(|own| record.id == own) && wanted.contains(&record.status))
            .filter(|record| call.query_text("name").is_none_or(|part| name_of(record).contains(part)))
            .filter(|record| call.query_text("exact_name").is_none_or(|name| name_of(record) == name));
        Ok(stored_items(found.cloned().collect()))
    }

    async fn shown(call: &Call, record: &Arc<Record>) -> Result<Value, Error> {
        let body = members(record);
        let used = Used::of(call, record, LimitScope::Workspace).await;
        let status = match record.status {
            Status::Active => used.status(),
            Status::Archived => Status::Archived.as_str(),
        };
        let own = json!({
            "is_default": u8::from(record.slug.as_deref() == Some(DEFAULT_WORKSPACE)),
            "usage_limits": used.shown(member(&body, "usage_limits")),
            "last_reset_at": used.last_reset(&body, record.created_at),
            "status": status,
            "object": "workspace",
        });
        Ok(view(VIEW, record, own))
    }

    /// With its first members.
    async fn create(mut call: Call) -> Result<Reply, Error> {
        if call.identity.is_bound {
            return Err(Error::forbidden("Only keys of the whole organisation create workspaces."));
        }
        let slug = Self::slug(&call, None)?;
        let record = Arc::new(new_record::<Self>(&call, None, slug)?);
        let mut changes = vec![Change::Put(Arc::clone(&record))];
        changes.extend(members::memberships(&call, record.id, call.body.get("users"))?);
        call.trail.workspace = Some(record.id);
        call.commit(changes).await?;
        Ok(Reply::from(Self::shown(&call, &record).await?))
    }

    /// With all that it has.
    async fn delete(mut call: Call) -> Result<Reply, Error> {
        let record = Self::find(&call)?;
        let name = member(&members(&record), "name");
        if call.text("name").is_some_and(|given| name != given) {
            return Err(Error::invalid_request("name", "It is not the name of this workspace."));
        }
        if record.slug.as_deref() == Some(DEFAULT_WORKSPACE) {
            return Err(Error::conflict("The default workspace cannot be deleted."));
        }
        let is_forced = call.flag("force_delete") == Some(true);
        let now = call.now;
        call.trail.workspace = Some(record.id);
        // Its batches are written all the time while they run.
        call.commit_latest(|catalog| {
            let record = catalog.get(Self::KIND, record.id);
            let record = record.ok_or_else(|| Error::not_found("The workspace is gone."))?;
            removal(catalog, record, is_forced, now)
        })
        .await?;
        Ok(Reply::empty())
    }
}

/// What is written to delete a workspace with all its objects.
///
/// # Errors
/// 409 where it has objects and the client does not force the deletion.
fn removal(
    catalog: &Catalog,
    record: &Record,
    is_forced: bool,
    now: Timestamp,
) -> Result<Vec<Change>, Error> {
    let of_it = |kind: Kind| {
        catalog.all(kind).filter(|found| found.workspace == Some(record.id) && found.status == Status::Active)
    };
    if !is_forced && let Some(kind) = CONTENT.into_iter().find(|kind| of_it(*kind).next().is_some()) {
        return Err(Error::conflict(format!(
            "The workspace has objects of the kind {}. Delete them first, or send force_delete.",
            kind.as_str()
        )));
    }
    let mut changes = vec![put(archived(record, now))];
    for kind in Kind::ALL.into_iter().filter(|kind| kind.is_in_memory()) {
        changes.extend(of_it(kind).map(|found| match kind {
            Kind::ApiKey => put(revoked(found, now)),
            Kind::Member => Change::Delete { kind, id: found.id },
            // It is archived when it has ended. Its worker deletes the files.
            Kind::Batch => put(batch::cancelled(found, now).unwrap_or_else(|| archived(found, now))),
            _ => put(archived(found, now)),
        }));
    }
    Ok(changes)
}

/// The body of a request, its limits and references checked. `workspace`: the one that is changed, `before`: its members.
fn checked(
    call: &Call,
    workspace: Option<Uuid>,
    before: &Map<String, Value>,
) -> Result<Map<String, Value>, Error> {
    let mut body = call.body.clone();
    let problems = Problems::default();
    limits::update(&mut body, before, true, &limits::Today::of(call), &problems);
    let config = body.get("defaults").and_then(|defaults| defaults.get("user_api_key_config")?.as_str());
    if let Some(config) = config {
        let catalog = call.catalog()?;
        let workspace = workspace.or(call.own_workspace());
        let is_stored = by_id_or_slug(&catalog, Kind::Config, workspace, config).is_some();
        if !is_stored && !call.snapshot.settings.configs.contains_key(config) {
            problems.push("defaults.user_api_key_config", None, "names no config");
        }
    }
    guardrails::check_defaults(call, workspace, body.get("defaults"), &problems);
    if problems.is_empty() { Ok(body) } else { Err(Error::invalid_body(problems.into_vec())) }
}
