//! Policies: what usage and rate limits of policies have in common.
//!
//! The two kinds are `usage` and `rate`, whose requests a policy applies to is checked in `conditions`. Nothing here counts: that is
//! `limits`.

pub(super) mod conditions;
mod entities;
mod rate;
mod usage;

use super::ORGANISATION;
use super::call::Call;
use super::field::{Field, Type, nullable, optional, required};
use super::origin::{ORIGIN, SET};
use super::records::members;
use super::resource::{Item, Resource, stored_items};
pub(super) use entities::ROUTES as ENTITY_ROUTES;
use memory::auth::IdentityKind;
pub(super) use rate::{MANAGED as MANAGED_RATE, ROUTES as RATE_ROUTES};
use serde_json::{Map, Value};
pub(super) use usage::{MANAGED as MANAGED_USAGE, ROUTES as USAGE_ROUTES};
use uuid::Uuid;
use words::config::read::Problems;
use words::error::Error;

const NAME: Field = optional("name", Type::Text(255), "For people.");
const DESCRIPTION: Field = optional("description", Type::Text(500), "For people.");
const SLUG: Field =
    optional("slug", Type::Slug(2, 128), "As good as the id in paths; made of the name where absent.");
const WORKSPACE: Field = optional(
    "workspace_id",
    Type::Name(128),
    "Id or slug of the workspace whose requests are limited; the key's own, or the default one, where absent. Null, from a key of \
     the organisation: the requests of every workspace.",
);
const ORGANISATION_ID: Field = optional(
    "organisation_id",
    Type::Uuid,
    "Taken from the key. A token must name it, and `workspace_id`: a token has no organisation of its own.",
);
const ON_MISSING: Field = optional(
    "on_missing",
    Type::OneOf(&["skip", "shared", "deny"]),
    "A request without a value for a key of `group_by`: `skip` (the default): the policy does not apply; `shared`: all such \
     requests share one bucket; `deny`: refused with 400.",
);
const STATUS: Field = optional("status", Type::OneOf(&["active", "archived"]), "`active` by default.");

const MADE: &[Field] = &[
    required("id", Type::Uuid, "The policy."),
    required("object", Type::Text(20), "`policy_usage_limits` or `policy_rate_limits`."),
];

const READ: &[Field] = &[STATUS];

/// The fields that records of both kinds have.
const SHOWN: [Field; 16] = [
    required("id", Type::Uuid, "The policy."),
    required("slug", Type::Text(128), "As good as the id in paths."),
    nullable("name", Type::Text(255), "For people."),
    nullable("description", Type::Text(500), "For people."),
    required("conditions", conditions::CONDITIONS, "Whose requests are limited."),
    required("group_by", conditions::GROUP_BY, "What has a bucket of its own."),
    required("on_missing", Type::Text(10), "A request without a value for a key of `group_by`."),
    required("status", Type::OneOf(&["active", "archived"]), "Archived ones limit nothing."),
    nullable("workspace_id", Type::Uuid, "Whose requests are limited; null: those of every workspace."),
    required("organisation_id", Type::Uuid, "The organisation."),
    required("created_at", Type::Time, "When it was made."),
    required("last_updated_at", Type::Time, "When it was changed last."),
    nullable("owner_id", Type::Text(128), "Who made it."),
    ORIGIN,
    SET,
    required("object", Type::Text(20), "`policy_usage_limits` or `policy_rate_limits`."),
];

/// What is done with requests without a value for a key of `group_by`.
fn on_missing(body: &Map<String, Value>) -> &str {
    body.get("on_missing").and_then(Value::as_str).unwrap_or("skip")
}

/// A flag of the body, false where it has none.
fn flag(body: &Map<String, Value>, name: &str) -> bool {
    body.get(name).and_then(Value::as_bool).unwrap_or(false)
}

/// The workspace of a new policy; `None`: all.
///
/// # Errors
/// 400 where a token does not name workspace and organisation (specification, Authentication 6).
fn workspace(call: &Call) -> Result<Option<Uuid>, Error> {
    if call.identity.kind == IdentityKind::Jwt {
        check_named(call)?;
    }
    let is_null = call.body.get("workspace_id").is_some_and(Value::is_null);
    if is_null && !call.identity.is_bound { Ok(None) } else { call.new_workspace().map(Some) }
}

/// # Errors
/// 400 with what a token does not name, or names wrongly.
fn check_named(call: &Call) -> Result<(), Error> {
    let problems = Problems::default();
    let may_be_null = !call.identity.is_bound;
    let has_workspace = call.text("workspace_id").is_some() || (may_be_null && call.has("workspace_id"));
    if !has_workspace {
        problems.push("workspace_id", None, "is required of tokens");
    }
    match call.text("organisation_id") {
        None => problems.push("organisation_id", None, "is required of tokens"),
        Some(id) if id != ORGANISATION.to_string() => {
            problems.push(
                "organisation_id",
                None,
                format!("must be {ORGANISATION}, the gateway's organisation"),
            );
        }
        Some(_) => {}
    }
    if problems.is_empty() { Ok(()) } else { Err(Error::invalid_body(problems.into_vec())) }
}

/// The slug of a new policy, which may have no name.
fn slug<R: Resource>(call: &Call, workspace: Option<Uuid>) -> Result<String, Error> {
    let name = call.text("name").filter(|name| !name.is_empty()).unwrap_or("policy");
    call.new_slug(R::KIND, workspace, R::PREFIX, name)
}

/// The policies that have the value of the query for each of these members, where it names one.
fn items<R: Resource>(call: &Call, names: &[&str]) -> Result<Vec<Item>, Error> {
    let mut found = call.list(R::KIND)?;
    found.retain(|record| {
        let body = members(record);
        names.iter().all(|name| {
            let wanted = call.query_text(name);
            wanted.is_none_or(|wanted| body.get(*name).and_then(Value::as_str) == Some(wanted))
        })
    });
    Ok(stored_items(found))
}
