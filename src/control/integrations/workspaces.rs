//! Which workspaces may use an integration of the organisation, and with which limits.
//!
//! Kept in the integration's record. Requests are held to the access in `state/stored`; the limits are compiled by `limits`.

use super::super::call::{Call, by_id_or_slug};
use super::super::field::{Field, Type, nullable, optional, required};
use super::super::limits::{self, RATE_LIMITS, USAGE_LIMITS};
use super::super::page::{self, Page};
use super::super::providers;
use super::super::records::{changed, member, members, object, put};
use super::super::reply::Reply;
use super::super::resource::Resource;
use super::super::route::{Access, MaxBody, Route, Shape, get, put as put_route};
use super::super::used::Used;
use super::{Integration, READS, UPDATES};
use memory::limits::from_records::{LAST_RESET, RESETS, integration_workspace_id, limits_of};
use memory::limits::{Limit, LimitScope};
use memory::store::{Change, Kind, Record, Status};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;
use words::config::read::Problems;
use words::error::Error;

/// The most workspaces with an entry.
const MAX_ENTRIES: usize = 5000;

const ENTRY: Type = Type::Object(&[
    required("id", Type::Name(128), "Id or slug of the workspace."),
    required("enabled", Type::Flag, "Whether the workspace may use the integration."),
    USAGE_LIMITS,
    RATE_LIMITS,
    optional("reset_usage", Type::Flag, "Whether what the workspace used is forgotten."),
    optional(
        "create_default_provider",
        Type::Flag,
        "Whether the workspace gets a provider of its own that uses it.",
    ),
    optional(
        "default_provider_slug",
        Type::Slug(1, 128),
        "The slug of that provider; the integration's where absent.",
    ),
]);

const GLOBAL: Type = Type::Object(&[
    required("enabled", Type::Flag, "Whether workspaces without an entry may use the integration."),
    USAGE_LIMITS,
    RATE_LIMITS,
]);

const PUT: &[Field] = &[
    optional("workspaces", Type::List(&ENTRY, 0, 1000), "Entries to add or to replace; the others stay."),
    optional(
        "global_workspace_access",
        GLOBAL,
        "What holds for workspaces without an entry; null: they may use it.",
    ),
    optional(
        "override_existing_workspace_access",
        Type::Flag,
        "Whether all entries that are not sent are removed.",
    ),
];

const SHOWN_ENTRY: Type = Type::Object(&[
    required("id", Type::Uuid, "The workspace."),
    required("slug", Type::Text(128), "Its slug."),
    required("enabled", Type::Flag, "Whether it may use the integration."),
    required("usage_limits", Type::List(&Type::AnyObject, 0, 1), "How much it may use."),
    required("rate_limits", Type::List(&Type::AnyObject, 0, 20), "How much it may use in a unit of time."),
    required("status", Type::OneOf(&["active", "exhausted"]), "Whether it has used up what it may use."),
    nullable("last_reset_at", Type::Time, "When its usage counted from 0 last."),
    required("usage", Type::List(&Type::AnyObject, 0, 30), "What it has used of each limit."),
]);

const SHOWN: &[Field] = &[
    required("object", Type::OneOf(&["list"]), "`list`."),
    required("total", Type::Integer(0, i64::MAX), "How many entries there are on all pages."),
    required("workspaces", Type::List(&SHOWN_ENTRY, 0, 1000), "The workspaces with an entry."),
    required("global_workspace_access", Type::AnyObject, "What holds for the others."),
];

const PATH: &str = "/v1/integrations/{slug}/workspaces";

pub(in super::super) const ROUTES: &[Route] = &[
    get(PATH, Access::Scope(READS), "Lists which workspaces may use an integration", |call| {
        Box::pin(list(call))
    })
    .lists(page::QUERY)
    .replies(Shape::Object(SHOWN)),
    put_route(PATH, Access::Scope(UPDATES), "Changes which workspaces may use an integration", |call| {
        Box::pin(update(call))
    })
    .body(PUT)
    .takes(MaxBody::Large)
    .replies(Shape::Empty)
    .changes("integrations", "update"),
];

/// What holds for workspaces without an entry.
pub(super) fn global(body: &Map<String, Value>) -> Value {
    match body.get("global_workspace_access") {
        Some(Value::Object(access)) => Value::Object(access.clone()),
        _ => access_without_limits(true),
    }
}

fn access_without_limits(is_enabled: bool) -> Value {
    json!({"enabled": is_enabled, "usage_limits": [], "rate_limits": []})
}

/// The entries of an integration's body.
pub(super) fn entries(body: &Map<String, Value>) -> Vec<Value> {
    body.get("workspaces").and_then(Value::as_array).cloned().unwrap_or_default()
}

fn id(entry: &Value) -> Option<Uuid> {
    entry.get("id")?.as_str()?.parse().ok()
}

async fn list(call: Call) -> Result<Reply, Error> {
    let record = Integration::find(&call)?;
    let mut body = members(&record);
    let catalog = call.catalog()?;
    let own = call.own_workspace();
    let mut all = entries(&body);
    if let Some(workspace) = record.workspace {
        all = vec![json!({"id": workspace, "enabled": true})];
        body.insert("global_workspace_access".to_owned(), access_without_limits(false));
    }
    let visible = all.into_iter().filter_map(|entry| {
        let workspace = catalog.get(Kind::Workspace, id(&entry)?)?;
        let Value::Object(entry) = entry else { return None };
        own.is_none_or(|own| own == workspace.id).then(|| (Arc::clone(workspace), entry))
    });
    let visible: Vec<(Arc<Record>, Map<String, Value>)> = visible.collect();
    let mut limits: HashMap<Uuid, Vec<Limit>> = HashMap::new();
    for limit in limits_of(&record, &catalog, call.now) {
        limits.entry(limit.id).or_default().push(limit);
    }
    let page = Page::of(&call, 1000);
    let mut shown = Vec::new();
    for (workspace, entry) in visible.iter().skip(page.offset).take(page.size) {
        let limits = limits.remove(&integration_workspace_id(record.id, Some(workspace.id)));
        let used = Used::of_limits(&call, limits.unwrap_or_default(), LimitScope::Integration).await;
        shown.push(json!({
            "id": workspace.id,
            "slug": workspace.slug,
            "enabled": member(entry, "enabled"),
            "usage_limits": used.shown(listed(entry, "usage_limits")),
            "rate_limits": listed(entry, "rate_limits"),
            "status": used.status(),
            "last_reset_at": used.last_reset_by(entry.get(LAST_RESET), record.created_at),
            "usage": used.list(),
        }));
    }
    Ok(Reply::from(json!({
        "object": "list",
        "total": visible.len(),
        "workspaces": shown,
        "global_workspace_access": global(&body),
    })))
}

fn listed(entry: &Map<String, Value>, name: &str) -> Value {
    entry.get(name).filter(|value| value.is_array()).cloned().unwrap_or_else(|| json!([]))
}

/// An integration that has no workspace of its own.
fn of_organisation(call: &Call) -> Result<Arc<Record>, Error> {
    let record = Integration::find(call)?;
    match record.workspace {
        None => Ok(record),
        Some(_) => Err(Error::conflict("The integration belongs to one workspace, which alone uses it.")),
    }
}

async fn update(mut call: Call) -> Result<Reply, Error> {
    let before = of_organisation(&call)?;
    call.check_owner(&before)?;
    let mut body = members(&before);
    let problems = Problems::default();
    let mut all = match call.flag("override_existing_workspace_access") {
        Some(true) => Vec::new(),
        _ => entries(&body),
    };
    let mut changes = Vec::new();
    let given = call.body.get("workspaces").and_then(Value::as_array).cloned().unwrap_or_default();
    for (index, entry) in given.into_iter().enumerate() {
        let Value::Object(entry) = entry else { continue };
        let path = format!("workspaces[{index}]");
        let named = entry.get("id").and_then(Value::as_str).unwrap_or_default();
        let catalog = call.catalog()?;
        let workspace = by_id_or_slug(&catalog, Kind::Workspace, None, named);
        let Some(workspace) = workspace.filter(|found| found.status == Status::Active) else {
            problems.push(format!("{path}.id"), None, format!("there is no workspace {named:?}"));
            continue;
        };
        changes.extend(default_provider(&call, &before, &workspace, &entry)?);
        let old = all.iter().position(|old| id(old) == Some(workspace.id)).map(|at| all.remove(at));
        all.push(made(&call, entry, &workspace, old.as_ref(), &path, &problems));
    }
    let access = call.body.get("global_workspace_access").cloned();
    let before_access = object(global(&body));
    let access =
        access.map(|access| limited(&call, access, &before_access, "global_workspace_access", &problems));
    if all.len() > MAX_ENTRIES {
        problems.push("workspaces", None, format!("would be more than {MAX_ENTRIES}"));
    }
    if !problems.is_empty() {
        return Err(Error::invalid_body(problems.into_vec()));
    }
    body.insert("workspaces".to_owned(), all.into());
    if let Some(access) = access {
        body.insert("global_workspace_access".to_owned(), access);
    }
    changes.insert(0, put(changed(&before, &Value::Object(body), call.now)));
    call.commit(changes).await?;
    Ok(Reply::empty())
}

/// An entry as it is kept; `old`: what was there for the workspace.
fn made(
    call: &Call,
    mut entry: Map<String, Value>,
    workspace: &Record,
    old: Option<&Value>,
    path: &str,
    problems: &Problems,
) -> Value {
    entry.insert("id".to_owned(), json!(workspace.id));
    let is_reset = entry.remove("reset_usage") == Some(json!(true));
    for name in ["create_default_provider", "default_provider_slug"] {
        entry.remove(name);
    }
    let old = old.and_then(Value::as_object).cloned().unwrap_or_default();
    // What the entry counts of its usage goes on, unless it is reset.
    for name in [RESETS, LAST_RESET] {
        entry.extend(old.get(name).map(|value| (name.to_owned(), value.clone())));
    }
    if is_reset {
        limits::reset(&mut entry, "", call.now);
    }
    limited(call, Value::Object(entry), &old, path, problems)
}

/// The limits of an entry in their normal form: lists of them, one usage limit at most. `old`: the entry until now.
fn limited(call: &Call, entry: Value, old: &Map<String, Value>, path: &str, problems: &Problems) -> Value {
    let Value::Object(mut entry) = entry else { return entry };
    let own = Problems::default();
    limits::update(&mut entry, old, true, &limits::Today::of(call), &own);
    for problem in own.into_vec() {
        problems.push(format!("{path}.{}", problem.path), None, problem.message);
    }
    if entry.get("usage_limits").and_then(Value::as_array).is_some_and(|limits| limits.len() > 1) {
        problems.push(format!("{path}.usage_limits"), None, "takes one limit");
    }
    Value::Object(entry)
}

/// The provider that a workspace gets, unless it has one that uses the integration.
fn default_provider(
    call: &Call,
    integration: &Record,
    workspace: &Record,
    entry: &Map<String, Value>,
) -> Result<Option<Change>, Error> {
    let is_true = |name: &str| entry.get(name).and_then(Value::as_bool) == Some(true);
    let catalog = call.catalog()?;
    let has_one = catalog
        .children(Kind::Provider, integration.id)
        .any(|record| record.workspace == Some(workspace.id) && record.status == Status::Active);
    if !is_true("enabled") || !is_true("create_default_provider") || has_one {
        return Ok(None);
    }
    let own = entry.get("default_provider_slug").and_then(Value::as_str);
    let slug = own.or(integration.slug.as_deref()).unwrap_or_default().to_owned();
    call.check_free_slug(Kind::Provider, "default_provider_slug", &slug)?;
    let name = member(&members(integration), "name");
    let name = name.as_str().unwrap_or_default();
    Ok(Some(put(providers::derived(call, integration, Some(workspace.id), slug, name))))
}
