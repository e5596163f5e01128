//! Rate-limit policies: requests or tokens in a unit of time, a bucket for each value of `group_by`.

use super::super::call::Call;
use super::super::field::{Field, Type, not_null, optional, required};
use super::super::limits::{COUNT as VALUE, SMOOTH};
use super::super::page::{self, Page};
use super::super::records::{changed, member, members, overlay, put};
use super::super::reply::Reply;
use super::super::route::{Access, Route, Shape, delete, get, post, put as put_route};
use super::conditions::{self, CONDITIONS, CONDITIONS_FIELD, GROUP_BY_FIELD};
use super::{DESCRIPTION, MADE, NAME, ON_MISSING, ORGANISATION_ID, READ, SLUG, STATUS, WORKSPACE};
use jiff::Timestamp;
use memory::store::{Kind, Record};
use serde_json::{Map, Value, json};
use words::config::read::Problems;
use words::error::Error;
use words::settings::scopes::Scope;

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

/// The members of a body that a policy keeps.
const KEPT: [&str; 9] =
    ["name", "description", "conditions", "group_by", "type", "unit", "value", "on_missing", "smooth"];

const VIEW: &[Field] = &super::shown::<5, 19>([
    required("type", TYPE, "What is counted."),
    required("unit", UNIT, UNIT_DOC),
    required("value", VALUE, VALUE_DOC),
    required("smooth", Type::Flag, "Whether the window before counts in part."),
    required("target", Type::OneOf(&["llm"]), "Calls of models."),
]);

const LIST: &[Field] = &[
    page::WORKSPACE,
    STATUS,
    optional("type", TYPE, "Only policies of this type."),
    optional("unit", UNIT, "Only policies of this unit."),
    page::CURRENT_PAGE,
    page::PAGE_SIZE,
];

pub(in super::super) const ROUTES: &[Route] = &[
    post(
        "/v1/policies/rate-limits",
        Access::Scope(&[Scope::PoliciesCreate]),
        "Creates a rate-limit policy",
        |call| Box::pin(create(call)),
    )
    .body(CREATE)
    .checked_by(check_form)
    .replies(Shape::Object(MADE))
    .changes("rate-limits-policies", "create"),
    get(
        "/v1/policies/rate-limits",
        Access::Scope(&[Scope::PoliciesList]),
        "Lists rate-limit policies",
        |call| Box::pin(list(call)),
    )
    .query(LIST)
    .replies(Shape::List(VIEW)),
    get(
        "/v1/policies/rate-limits/{id}",
        Access::Scope(&[Scope::PoliciesRead]),
        "Reads a rate-limit policy",
        |call| Box::pin(read(call)),
    )
    .query(READ)
    .replies(Shape::Object(VIEW)),
    put_route(
        "/v1/policies/rate-limits/{id}",
        Access::Scope(&[Scope::PoliciesUpdate]),
        "Changes a rate-limit policy",
        |call| Box::pin(update(call)),
    )
    .body(UPDATE)
    .checked_by(check_form)
    .replies(Shape::Empty)
    .changes("rate-limits-policies", "update"),
    delete(
        "/v1/policies/rate-limits/{id}",
        Access::Scope(&[Scope::PoliciesDelete]),
        "Archives a rate-limit policy",
        |call| Box::pin(super::remove(call, Kind::RatePolicy)),
    )
    .replies(Shape::Empty)
    .changes("rate-limits-policies", "delete"),
];

fn check_form(body: &mut Map<String, Value>, _: Timestamp, problems: &Problems) {
    conditions::check(body, problems);
}

async fn create(call: Call) -> Result<Reply, Error> {
    super::create(call, Kind::RatePolicy, "rl-", OBJECT, &KEPT).await
}

async fn list(call: Call) -> Result<Reply, Error> {
    let found = super::filtered(&call, Kind::RatePolicy, &["type", "unit"])?;
    Ok(Page::of(&call, 50).reply(&found, |record| Value::Object(view(record))))
}

async fn read(call: Call) -> Result<Reply, Error> {
    let record = call.find(Kind::RatePolicy)?;
    Ok(Reply::from(Value::Object(view(&record))))
}

async fn update(mut call: Call) -> Result<Reply, Error> {
    let before = super::for_change(&call, Kind::RatePolicy)?;
    conditions::check_workspace(&call, before.workspace)?;
    let mut body = members(&before);
    overlay(&mut body, &call.body, &KEPT);
    call.commit(vec![put(changed(&before, &Value::Object(body), call.now))]).await?;
    Ok(Reply::empty())
}

fn view(record: &Record) -> Map<String, Value> {
    let body = members(record);
    let mut shown = super::view(record, OBJECT);
    let own = json!({
        "type": member(&body, "type"),
        "unit": member(&body, "unit"),
        "value": member(&body, "value"),
        "smooth": body.get("smooth").and_then(Value::as_bool).unwrap_or(false),
        "target": "llm",
    });
    shown.extend(super::super::records::object(own));
    shown
}
