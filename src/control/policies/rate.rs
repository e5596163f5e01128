//! Rate-limit policies: requests or tokens in a unit of time, a bucket for each value of `group_by`.

use super::super::call::Call;
use super::super::declared::Managed;
use super::super::field::{Field, Type, not_null, optional, required};
use super::super::limits::{COUNT as VALUE, SMOOTH};
use super::super::page;
use super::super::records::members;
use super::super::reply::Reply;
use super::super::resource::{Draft, Item, Resource, create, delete, list, read, update, view};
use super::super::route::{Route, Shape};
use super::conditions::{self, CONDITIONS, CONDITIONS_FIELD, GROUP_BY_FIELD};
use super::{DESCRIPTION, MADE, NAME, ON_MISSING, ORGANISATION_ID, READ, SLUG, STATUS, WORKSPACE};
use jiff::Timestamp;
use memory::store::{Kind, Record};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use uuid::Uuid;
use words::config::read::Problems;
use words::error::Error;
use words::settings::scopes::Scope;
use words::tables::concat;

const OBJECT: &str = "policy_rate_limits";

const TYPE: Type = Type::OneOf(&["requests", "tokens"]);
const UNIT: Type = Type::OneOf(&["rps", "rpm", "rph", "rpd", "rpw"]);
const UNIT_DOC: &str = "The window: `rpm`: a minute, `rph`: an hour, `rpd`: a day, `rpw`: a week, `rps`: a second. Windows begin with the \
                        clock's minute, hour …, in UTC.";
const VALUE_DOC: &str = "The most in a window of a bucket; 0: nothing passes.";

const TARGET: Field = optional("target", Type::OneOf(&["llm"]), "Calls of models, which is what is limited.");

const CREATE: &[Field] = &[
    CONDITIONS_FIELD,
    GROUP_BY_FIELD,
    required("type", TYPE, "What is counted."),
    required("unit", UNIT, UNIT_DOC),
    required("value", VALUE, VALUE_DOC),
    NAME,
    DESCRIPTION,
    SLUG,
    ON_MISSING,
    SMOOTH,
    TARGET,
    WORKSPACE,
    ORGANISATION_ID,
];

const UPDATE: &[Field] = &[
    NAME,
    DESCRIPTION,
    not_null("conditions", CONDITIONS, "Replaces all conditions."),
    not_null("unit", UNIT, UNIT_DOC),
    not_null("value", VALUE, VALUE_DOC),
    ON_MISSING,
    SMOOTH,
];

const VIEW: &[Field] = &concat::<_, 21>(
    &super::SHOWN,
    &[
        required("type", TYPE, "What is counted."),
        required("unit", UNIT, UNIT_DOC),
        required("value", VALUE, VALUE_DOC),
        required("smooth", Type::Flag, "Whether the window before counts in part."),
        required("target", Type::OneOf(&["llm"]), "Calls of models."),
    ],
);

const LIST: &[Field] = &[
    page::WORKSPACE,
    STATUS,
    optional("type", TYPE, "Only policies of this type."),
    optional("unit", UNIT, "Only policies of this unit."),
];

pub(in super::super) const ROUTES: &[Route] = &[
    create::<RatePolicy>(
        &[Scope::PoliciesCreate],
        "Creates a rate-limit policy",
        CREATE,
        Shape::Object(MADE),
    )
    .checked_by(check_form),
    list::<RatePolicy>(&[Scope::PoliciesList], "Lists rate-limit policies", LIST, VIEW),
    read::<RatePolicy>(&[Scope::PoliciesRead], "Reads a rate-limit policy", VIEW).query(READ),
    update::<RatePolicy>(&[Scope::PoliciesUpdate], "Changes a rate-limit policy", UPDATE, Shape::Empty)
        .checked_by(check_form),
    delete::<RatePolicy>(&[Scope::PoliciesDelete], "Archives a rate-limit policy"),
];

fn check_form(body: &mut Map<String, Value>, _: Timestamp, problems: &Problems) {
    conditions::check(body, problems);
}

/// As files have it.
pub(in super::super) const MANAGED: Managed = Managed::of::<RatePolicy>("policies/rate-limits");

struct RatePolicy;

impl Resource for RatePolicy {
    const KIND: Kind = Kind::RatePolicy;
    const NAME: &'static str = "rate-limits-policies";
    const PATHS: [&'static str; 2] = ["/v1/policies/rate-limits", "/v1/policies/rate-limits/{id}"];
    const PREFIX: &'static str = "rl-";
    const IS_COMPILED: bool = true;
    const KEPT: &'static [&'static str] =
        &["name", "description", "conditions", "group_by", "type", "unit", "value", "on_missing", "smooth"];

    fn workspace(call: &Call) -> Result<Option<Uuid>, Error> {
        super::workspace(call)
    }

    fn slug(call: &Call, workspace: Option<Uuid>) -> Result<String, Error> {
        super::slug::<Self>(call, workspace)
    }

    fn fill(call: &Call, draft: &mut Draft<'_>) -> Result<(), Error> {
        conditions::check_workspace(call, draft.record.workspace)
    }

    fn made(record: &Record) -> Reply {
        Reply::from(json!({"id": record.id, "object": OBJECT}))
    }

    fn items(call: &Call) -> Result<Vec<Item>, Error> {
        super::items::<Self>(call, &["type", "unit"])
    }

    async fn shown(_: &Call, record: &Arc<Record>) -> Result<Value, Error> {
        let body = members(record);
        let own = json!({
            "on_missing": super::on_missing(&body),
            "smooth": super::flag(&body, "smooth"),
            "target": "llm",
            "object": OBJECT,
        });
        Ok(view(VIEW, record, own))
    }
}
