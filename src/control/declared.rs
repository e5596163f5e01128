//! Objects that are kept in files: exported, compared with what is stored, and applied as a whole.
//!
//! `POST /v1/apply` takes the objects of a set as files have them, finds out what must be made, changed and deleted (`plan`), and makes
//! these calls one after the other on a stage (`super::stage`): by the functions of their routes, with the rights of the client. Where all
//! pass they are written in one transaction; where one is refused, none is. `GET /v1/export` is the other way (`export`). What a file has
//! of each kind is in `kinds` and `members`; how secrets stand in a file is in `secrets`. Files and YAML are the command's (`main`).

mod account;
mod apply;
mod comparison;
mod export;
mod kinds;
mod members;
mod numbered;
mod plan;
mod secrets;

pub(super) use kinds::Managed;
pub(super) use members::has_same_members;

use super::field::{Field, Type, not_null, optional, required};
use super::page;
use super::route::{Access, MaxBody, Route, Shape, get, post};
use super::work::Work;

/// The most objects of a call.
const MAX_OBJECTS: usize = 20_000;

const SET: Type = Type::Slug(1, 64);

const APPLY: &[Field] = &[
    required(
        "set",
        SET,
        "The set of files that the objects are of. Objects of other sets are never changed.",
    ),
    required(
        "objects",
        Type::List(&Type::AnyObject, 0, MAX_OBJECTS),
        "All objects of the set: `kind`, then the members of the call that makes one. Found by slug (labels and keys by name) in their \
         `workspace_id`. A member that is absent is cleared; a secret is its value, or `{\"from_env\": NAME}`, which keeps the stored one.",
    ),
    not_null("prune", Type::Flag, "Whether objects of this set that are not among them are deleted."),
    not_null("dry_run", Type::Flag, "Whether nothing is written: the response is the plan."),
    not_null(
        "take_over",
        Type::Flag,
        "Whether objects of the API, or of another set, become objects of this set.",
    ),
    optional(
        "expect",
        Type::Text(64),
        "The `digest` of a plan: where the plan is no longer the same, nothing is written, with a 409.",
    ),
];

const CHANGE: Type = Type::Object(&[
    required("kind", Type::Text(64), "As in `turnpike get`: `configs`, `policies/usage-limits`."),
    required("name", Type::Text(255), "Its slug; the name of labels and keys."),
    required(
        "workspace_id",
        Type::Any,
        "Its workspace as it was sent; null: the organisation, or the default one.",
    ),
    required(
        "action",
        Type::OneOf(&["create", "update", "delete", "unchanged", "refused"]),
        "What is done, or would be.",
    ),
    required("changed", Type::List(&Type::Text(255), 0, 1000), "The paths of the members that differ."),
    required("problem", Type::Any, "Why it is refused: `path`, `message`. Else null."),
    required("notes", Type::List(&Type::Text(1024), 0, 100), "What else is to be looked at."),
]);

const PLAN: &[Field] = &[
    required("object", Type::Text(20), "`plan`."),
    required("set", Type::Text(64), "The set."),
    required("applied", Type::Flag, "Whether it was written."),
    required("digest", Type::Text(64), "Names this plan on this state, for `expect`."),
    required("totals", Type::AnyObject, "How many objects of each action."),
    required("changes", Type::List(&CHANGE, 0, 2 * MAX_OBJECTS), "What becomes of each object."),
];

const EXPORT: &[Field] = &[
    page::WORKSPACE,
    optional("set", Type::Text(64), "Only the objects of this set."),
    optional(
        "keys",
        Type::Switch,
        "Whether service keys are among them, without their secrets: another gateway needs `key_sha256` for each.",
    ),
];

const EXPORTED: &[Field] = &[
    required("object", Type::Text(20), "`export`."),
    required(
        "objects",
        Type::List(&Type::AnyObject, 0, 1_000_000),
        "As `POST /v1/apply` takes them. Of secrets there are names: `{\"from_env\": NAME}`.",
    ),
    required("left_out", Type::List(&Type::Text(1024), 0, 1000), "What is stored and is not among them."),
];

pub(super) const ROUTES: &[Route] = &[
    post("/v1/apply", Access::AnyKey, "Makes stored objects as files have them", |call| {
        Box::pin(apply::apply(call))
    })
    .body(APPLY)
    .works_at(Work::Compute)
    .takes(MaxBody::Settings)
    .replies(Shape::Object(PLAN))
    .also(
        "409",
        "An object is refused (the response is the plan), or the plan is not the expected one. Nothing was written.",
        // The plan, or an error.
        Shape::Free,
    )
    .changes("files", "apply")
    .on_control_port_only(),
    get("/v1/export", Access::AnyKey, "Shows stored objects as files have them", |call| {
        Box::pin(export::export(call))
    })
    .query(EXPORT)
    .refusing_others()
    .works_at(Work::Compute)
    .replies(Shape::Object(EXPORTED))
    .on_control_port_only(),
];
