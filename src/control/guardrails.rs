//! Saved guardrails (reference 1.6): kept and checked. Nothing here runs them.

use super::ORGANISATION;
use super::call::Call;
use super::field::{Field, Type, not_null, nullable, optional, required};
use super::page::{self, Page};
use super::records::{archived, changed, created, member, members, overlay, put, slug, time};
use super::reply::Reply;
use super::route::{Access, Route, Shape, delete, get, post, put as put_route};
use crate::config::read::Problems;
use crate::error::Error;
use crate::settings::scopes::Scope;
use crate::store::{Kind, Record};
use serde_json::{Map, Value, json};
use uuid::Uuid;

const CHECK: Type = Type::Object(&[
    required("id", Type::Name(128), "The check: `default.contains`, `default.regexMatch` …"),
    optional("parameters", Type::AnyObject, "What the check needs."),
    optional("name", Type::Text(255), "For people."),
    optional("is_enabled", Type::Flag, "True by default."),
]);

const FEEDBACK: Type = Type::Object(&[
    optional("value", Type::Number(-10.0, 10.0), "The rating."),
    optional("weight", Type::Number(0.0, 1.0), "How much it counts; 1 by default."),
    optional("metadata", Type::AnyObject, "Kept with it."),
]);

const OUTCOME: Type = Type::Object(&[optional("feedback", FEEDBACK, "The feedback that is written.")]);

const ACTIONS: Type = Type::Object(&[
    optional("deny", Type::Flag, "Whether a failed check refuses the request or response."),
    optional("async", Type::Flag, "Whether it runs beside the request and cannot hold it up."),
    optional("sequential", Type::Flag, "Whether checks run one after another."),
    optional("on_success", OUTCOME, "What follows when all checks pass."),
    optional("on_fail", OUTCOME, "What follows when a check fails."),
    optional("message", Type::Text(2048), "What the client is told."),
]);

const CHECKS: Type = Type::List(&CHECK, 1, 100);

const CREATE: &[Field] = &[
    required("name", Type::Name(255), "For people; the slug begins with it."),
    required("checks", CHECKS, "What is checked."),
    required("actions", ACTIONS, "What follows."),
    optional("slug", Type::Slug(2, 128), "How configs name it; made of the name where absent."),
    optional("workspace_id", Type::Name(128), "Id or slug of the workspace."),
    optional("organisation_id", Type::Text(64), "Taken from the key."),
];

const UPDATE: &[Field] = &[
    not_null("name", Type::Name(255), "For people."),
    optional("checks", CHECKS, "Replaces all checks."),
    optional("actions", ACTIONS, "Replaces all actions."),
];

const MADE: &[Field] = &[
    required("id", Type::Uuid, "The guardrail."),
    required("slug", Type::Text(128), "How configs name it."),
    required("version_id", Type::Uuid, "Changes with every change."),
];

const ITEM: &[Field] = &[
    required("id", Type::Uuid, "The guardrail."),
    required("slug", Type::Text(128), "How configs name it."),
    required("name", Type::Text(255), "For people."),
    required("organisation_id", Type::Uuid, "The organisation."),
    nullable("workspace_id", Type::Uuid, "Where it is used."),
    required("status", Type::Text(20), "`active`."),
    required("created_at", Type::Time, "When it was made."),
    required("last_updated_at", Type::Time, "When it was changed last."),
    nullable("owner_id", Type::Text(128), "Who made it."),
    nullable("updated_by", Type::Text(128), "Who changed it last."),
    required("version_id", Type::Uuid, "Changes with every change."),
    required("checks", Type::List(&Type::AnyObject, 0, 100), "What is checked, secrets masked."),
    required("actions", Type::AnyObject, "What follows."),
    required("object", Type::Text(20), "`guardrail`."),
];

const LIST: &[Field] = &[
    page::WORKSPACE,
    page::CURRENT_PAGE,
    page::PAGE_SIZE,
    optional("ids", Type::Ids(4096), "Only these: ids or slugs with commas."),
];

pub(super) const ROUTES: &[Route] = &[
    post(
        "/v1/guardrails",
        Access::Scope(&[Scope::GuardrailsCreate, Scope::OrganisationGuardrailsCreate]),
        "Saves a guardrail",
        |call| Box::pin(create(call)),
    )
    .body(CREATE)
    .replies(Shape::Object(MADE))
    .changes("guardrails", "create"),
    get(
        "/v1/guardrails",
        Access::Scope(&[Scope::GuardrailsList, Scope::OrganisationGuardrailsList]),
        "Lists guardrails",
        |call| Box::pin(list(call)),
    )
    .query(LIST)
    .replies(Shape::List(ITEM)),
    get(
        "/v1/guardrails/{id}",
        Access::Scope(&[Scope::GuardrailsRead, Scope::OrganisationGuardrailsRead]),
        "Reads a guardrail",
        |call| Box::pin(read(call)),
    )
    .query(page::IN_WORKSPACE)
    .replies(Shape::Object(ITEM)),
    put_route(
        "/v1/guardrails/{id}",
        Access::Scope(&[Scope::GuardrailsUpdate, Scope::OrganisationGuardrailsUpdate]),
        "Changes a guardrail",
        |call| Box::pin(update(call)),
    )
    .query(page::IN_WORKSPACE)
    .body(UPDATE)
    .replies(Shape::Object(MADE))
    .changes("guardrails", "update"),
    delete(
        "/v1/guardrails/{id}",
        Access::Scope(&[Scope::GuardrailsDelete, Scope::OrganisationGuardrailsDelete]),
        "Takes a guardrail out of use",
        |call| Box::pin(remove(call)),
    )
    .query(page::IN_WORKSPACE)
    .replies(Shape::Empty)
    .changes("guardrails", "delete"),
];

/// The checks that the specification and the reference (section 9) build in.
const BUILT_IN: [&str; 25] = [
    "regexMatch",
    "sentenceCount",
    "wordCount",
    "characterCount",
    "jsonSchema",
    "jsonKeys",
    "contains",
    "validUrls",
    "containsCode",
    "alluppercase",
    "alllowercase",
    "endsWith",
    "modelWhitelist",
    "modelRules",
    "allowedRequestTypes",
    "requiredMetadataKeys",
    "requiredMetadataKeyValuePairs",
    "jwt",
    "regexReplace",
    "addPrefix",
    "notNull",
    "webhook",
    "log",
    "requestParametersCheck",
    "inlineImageUrls",
];

/// # Errors
/// 400 for a check of the gateway's own that there is not.
fn check_names(call: &Call) -> Result<(), Error> {
    let problems = Problems::default();
    let checks = call.body.get("checks").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (index, check) in checks.iter().enumerate() {
        let id = check.get("id").and_then(Value::as_str).unwrap_or_default();
        if let Some(name) = id.strip_prefix("default.").filter(|name| !BUILT_IN.contains(name)) {
            problems.push(format!("checks[{index}].id"), None, format!("there is no check default.{name}"));
        }
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(Error::invalid_body(problems.into_vec())),
    }
}

async fn create(mut call: Call) -> Result<Reply, Error> {
    check_names(&call)?;
    let workspace = call.new_workspace()?;
    let name = call.text("name").unwrap_or_default();
    let slug = call.text("slug").map_or_else(|| slug("pg-", name), str::to_owned);
    let version_id = Uuid::now_v7();
    let mut body = Map::new();
    overlay(&mut body, &call.body, &["name", "checks", "actions"]);
    for (key, value) in
        [("owner_id", call.actor()), ("updated_by", call.actor()), ("version_id", version_id.to_string())]
    {
        body.insert(key.to_owned(), value.into());
    }
    let mut record = created(Kind::Guardrail, Some(workspace), slug, &Value::Null, call.now);
    call.set_body(&mut record, body, &["checks"])?;
    call.commit(vec![put(record.clone())]).await?;
    Ok(Reply::from(json!({"id": record.id, "slug": record.slug, "version_id": version_id})))
}

async fn update(mut call: Call) -> Result<Reply, Error> {
    check_names(&call)?;
    let before = call.find(Kind::Guardrail, "id")?;
    call.check_owner(&before)?;
    let mut body = call.open_members(&before)?;
    for name in ["name", "checks", "actions"] {
        if let Some(value) = call.body.get(name).filter(|value| !value.is_null()) {
            body.insert(name.to_owned(), value.clone());
        }
    }
    let version_id = Uuid::now_v7();
    body.insert("version_id".to_owned(), version_id.to_string().into());
    body.insert("updated_by".to_owned(), call.actor().into());
    let mut record = changed(&before, &Value::Null, call.now);
    call.set_body(&mut record, body, &["checks"])?;
    call.commit(vec![put(record)]).await?;
    Ok(Reply::from(json!({"id": before.id, "slug": before.slug, "version_id": version_id})))
}

async fn list(call: Call) -> Result<Reply, Error> {
    let mut found = call.list(Kind::Guardrail)?;
    if let Some(ids) = call.query_text("ids") {
        let wanted: Vec<&str> = ids.split(',').map(str::trim).collect();
        found.retain(|record| {
            wanted.contains(&record.id.to_string().as_str())
                || record.slug.as_deref().is_some_and(|slug| wanted.contains(&slug))
        });
    }
    Ok(Page::of(&call, 100).reply(&found, |record| view(record)))
}

async fn read(call: Call) -> Result<Reply, Error> {
    Ok(Reply::from(view(&*call.find(Kind::Guardrail, "id")?)))
}

async fn remove(mut call: Call) -> Result<Reply, Error> {
    let record = call.find(Kind::Guardrail, "id")?;
    call.check_owner(&record)?;
    call.commit(vec![put(archived(&record, call.now))]).await?;
    Ok(Reply::empty())
}

fn view(record: &Record) -> Value {
    let body = members(record);
    json!({
        "id": record.id,
        "slug": record.slug,
        "name": member(&body, "name"),
        "organisation_id": ORGANISATION,
        "workspace_id": record.workspace,
        "status": record.status.as_str(),
        "created_at": time(record.created_at),
        "last_updated_at": time(record.updated_at),
        "owner_id": member(&body, "owner_id"),
        "updated_by": member(&body, "updated_by"),
        "version_id": member(&body, "version_id"),
        "checks": member(&body, "checks"),
        "actions": member(&body, "actions"),
        "object": "guardrail",
    })
}
