//! Usage-limit policies: budgets of money, tokens or requests, a bucket for each value of `group_by`.

use super::super::call::Call;
use super::super::declared::Managed;
use super::super::field::{Field, Type, not_null, nullable, optional, required};
use super::super::limits::{COUNT as CREDIT, FIT, HARD, RAISE, Today, USED, check_usage, set_day};
use super::super::page;
use super::super::records::{members, put};
use super::super::reply::Reply;
use super::super::resource::{
    Draft, Item, Resource, changed_record, create, delete, list, read, update, view,
};
use super::super::route::{Route, Shape};
use super::super::used::Used;
use super::conditions::{self, CONDITIONS, CONDITIONS_FIELD, GROUP_BY_FIELD};
use super::entities;
use super::{DESCRIPTION, MADE, NAME, ON_MISSING, ORGANISATION_ID, SLUG, STATUS, WORKSPACE};
use jiff::Timestamp;
use memory::limits::LimitScope;
use memory::limits::from_records::USED_BEFORE;
use memory::store::{Kind, Record};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use uuid::Uuid;
use words::config::read::Problems;
use words::error::Error;
use words::settings::scopes::Scope;
use words::tables::concat;

pub(super) const OBJECT: &str = "policy_usage_limits";

const TYPE: Type = Type::OneOf(&["cost", "tokens", "requests"]);
const CREDIT_DOC: &str = "The most that may be used in a bucket: dollars for `cost`; 0: nothing passes.";

const ALERT: Field = optional(
    "alert_threshold",
    CREDIT,
    "Where an alert is sent, in the unit of `credit_limit`, and below it.",
);
const PERIOD: Field = optional(
    "periodic_reset",
    Type::OneOf(&["weekly", "monthly"]),
    "When buckets are empty again: at the start of each week (`limits.week_start`) or month, in `limits.timezone`. Absent: never.",
);
const DAYS: Field = optional(
    "periodic_reset_days",
    Type::Integer(1, 365),
    "Every so many days instead; not together with `periodic_reset`.",
);
const NEXT: Field = optional(
    "next_usage_reset_at",
    Type::Time,
    "With `periodic_reset_days`: a day at whose start (`limits.timezone`) the count starts anew; the days are counted from it forwards \
     and backwards, so that there may be a start before it. The time of day does not matter. So many days from today where absent.",
);
const IDLE: Field = optional(
    "reset_after_idle_minutes",
    Type::Integer(1, 10_080),
    "A bucket is empty again when no request came for so many minutes, refused ones included: for a budget for each session of an agent. \
     Not together with `periodic_reset` or `periodic_reset_days`.",
);
const CREATE: &[Field] = &[
    CONDITIONS_FIELD,
    GROUP_BY_FIELD,
    required("type", TYPE, "What is counted."),
    required("credit_limit", CREDIT, CREDIT_DOC),
    NAME,
    DESCRIPTION,
    SLUG,
    ALERT,
    PERIOD,
    DAYS,
    NEXT,
    IDLE,
    RAISE,
    USED,
    ON_MISSING,
    HARD,
    FIT,
    WORKSPACE,
    ORGANISATION_ID,
];

const UPDATE: &[Field] = &[
    NAME,
    DESCRIPTION,
    not_null("conditions", CONDITIONS, "Replaces all conditions."),
    not_null("credit_limit", CREDIT, CREDIT_DOC),
    ALERT,
    PERIOD,
    DAYS,
    NEXT,
    IDLE,
    RAISE,
    USED,
    ON_MISSING,
    HARD,
    FIT,
    optional(
        "reset_usage_for_value",
        Type::Text(4096),
        "The value key of the bucket that is emptied, as `value_key` of the entities has it: `metadata._user:ann`.",
    ),
];

const VALUE_USAGE: Type = Type::Object(&[
    required("current_usage", Type::Number(0.0, 9e15), "What was used in this window."),
    required("status", Type::OneOf(&["active", "exhausted"]), "Whether nothing is left."),
    required("is_threshold_alerts_sent", Type::Flag, "Whether `alert_threshold` was reached in this window."),
    required("is_exhausted_alerts_sent", Type::Flag, "Whether `credit_limit` was reached in this window."),
]);

const VIEW: &[Field] = &concat::<_, 29>(
    &super::SHOWN,
    &[
        required("type", TYPE, "What is counted."),
        required("credit_limit", CREDIT, CREDIT_DOC),
        nullable("alert_threshold", CREDIT, "Where an alert is sent."),
        nullable("periodic_reset", Type::Text(10), "When buckets are empty again."),
        nullable(
            "periodic_reset_days",
            Type::Integer(1, 365),
            "After how many days buckets are empty again.",
        ),
        nullable("next_usage_reset_at", Type::Time, "When buckets are empty again next."),
        nullable(
            "reset_after_idle_minutes",
            Type::Integer(1, 10_080),
            "After how many minutes without a request a bucket is empty again.",
        ),
        nullable("raise", Type::AnyObject, "`amount` more than `credit_limit`, `until` some time."),
        nullable(
            "used_before",
            Type::AnyObject,
            "What each bucket had used elsewhere: `amount`, `until` some time.",
        ),
        nullable(
            "last_reset_at",
            Type::Time,
            "When buckets became empty last: the start of the window, once there was one before.",
        ),
        required("hard", Type::Flag, "Whether it is never exceeded."),
        required("fit", Type::Flag, "Whether the length of responses is lowered to what is left."),
        optional(
            "value_key_usage_map",
            Type::Map(&VALUE_USAGE, 1000),
            "With `include_usage=true`: what was used in this window, by the value key of each bucket; at most 1,000 of them. The \
         list of entities has all.",
        ),
    ],
);

const LIST: &[Field] = &[page::WORKSPACE, STATUS, optional("type", TYPE, "Only policies of this type.")];

const READ: &[Field] =
    &[STATUS, optional("include_usage", Type::Flag, "Whether the response has `value_key_usage_map`.")];

pub(in super::super) const ROUTES: &[Route] = &[
    create::<UsagePolicy>(
        &[Scope::PoliciesCreate],
        "Creates a usage-limit policy",
        CREATE,
        Shape::Object(MADE),
    )
    .checked_by(check_create),
    list::<UsagePolicy>(&[Scope::PoliciesList], "Lists usage-limit policies", LIST, VIEW),
    read::<UsagePolicy>(&[Scope::PoliciesRead], "Reads a usage-limit policy", VIEW).query(READ),
    update::<UsagePolicy>(
        &[Scope::PoliciesUpdate],
        "Changes a usage-limit policy, which keeps what it has counted",
        UPDATE,
        Shape::Empty,
    )
    .checked_by(check_form),
    delete::<UsagePolicy>(&[Scope::PoliciesDelete], "Archives a usage-limit policy"),
];

fn check_form(body: &mut Map<String, Value>, _: Timestamp, problems: &Problems) {
    conditions::check(body, problems);
}

fn check_create(body: &mut Map<String, Value>, _: Timestamp, problems: &Problems) {
    conditions::check(body, problems);
    check_usage(body, "", problems);
}

fn check_idle(body: &Map<String, Value>, problems: &Problems) {
    let has = |name: &str| body.get(name).is_some_and(|value| !value.is_null());
    let idle = "reset_after_idle_minutes";
    if has(idle) && ["periodic_reset", "periodic_reset_days"].into_iter().any(has) {
        problems.push(idle, None, "cannot be combined with periodic_reset or periodic_reset_days");
    }
}

/// As files have it.
pub(in super::super) const MANAGED: Managed = Managed::of::<UsagePolicy>("policies/usage-limits");

struct UsagePolicy;

impl Resource for UsagePolicy {
    const KIND: Kind = Kind::UsagePolicy;
    const NAME: &'static str = "usage-limits-policies";
    const PATHS: [&'static str; 2] = ["/v1/policies/usage-limits", "/v1/policies/usage-limits/{id}"];
    const PREFIX: &'static str = "ul-";
    const IS_COMPILED: bool = true;
    const KEPT: &'static [&'static str] = &[
        "name",
        "description",
        "conditions",
        "group_by",
        "type",
        "credit_limit",
        "alert_threshold",
        "periodic_reset",
        "periodic_reset_days",
        "next_usage_reset_at",
        "reset_after_idle_minutes",
        "raise",
        USED_BEFORE,
        "on_missing",
        "hard",
        "fit",
    ];

    fn workspace(call: &Call) -> Result<Option<Uuid>, Error> {
        super::workspace(call)
    }

    fn slug(call: &Call, workspace: Option<Uuid>) -> Result<String, Error> {
        super::slug::<Self>(call, workspace)
    }

    fn fill(call: &Call, draft: &mut Draft<'_>) -> Result<(), Error> {
        conditions::check_workspace(call, draft.record.workspace)?;
        let body = &mut draft.body;
        if !call.has("next_usage_reset_at") && !body.contains_key("periodic_reset_days") {
            // It was kept for the days that are no more.
            body.remove("next_usage_reset_at");
        }
        let problems = Problems::default();
        check_usage(body, "", &problems);
        check_idle(body, &problems);
        set_day(body, draft.before.map(members).as_ref(), &Today::of(call));
        if problems.is_empty() { Ok(()) } else { Err(Error::invalid_body(problems.into_vec())) }
    }

    fn made(record: &Record) -> Reply {
        Reply::from(json!({"id": record.id, "object": OBJECT}))
    }

    fn items(call: &Call) -> Result<Vec<Item>, Error> {
        super::items::<Self>(call, &["type"])
    }

    async fn shown(call: &Call, record: &Arc<Record>) -> Result<Value, Error> {
        let body = members(record);
        let used = Used::of(call, record, LimitScope::Policy).await;
        let wants_usage = call.query.get("include_usage").and_then(Value::as_bool) == Some(true);
        let usage = if wants_usage { entities::usage_map(call, record).await? } else { Value::Null };
        let own = json!({
            "on_missing": super::on_missing(&body),
            "next_usage_reset_at": used.next_reset(),
            "last_reset_at": used.last_reset(&body, record.created_at),
            "hard": super::flag(&body, "hard"),
            "fit": super::flag(&body, "fit"),
            "value_key_usage_map": usage,
            "object": OBJECT,
        });
        Ok(view(VIEW, record, own))
    }

    /// Empties a bucket besides, where the request names one.
    async fn update(mut call: Call) -> Result<Reply, Error> {
        let before = Self::find(&call)?;
        let record = changed_record::<Self>(&call, &before)?;
        let entity = match call.text("reset_usage_for_value") {
            Some(value) => Some(entities::named(&call, &before, value).await?),
            None => None,
        };
        let record = match entities::without_used_before(&record).filter(|_| entity.is_some()) {
            Some(body) => Record { body: body.to_string().into(), ..record },
            None => record,
        };
        call.commit(vec![put(record)]).await?;
        if let Some(entity) = entity {
            entities::reset_one(&call, &before, entity).await?;
        }
        Ok(Reply::empty())
    }
}
