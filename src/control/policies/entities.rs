//! The entities of a usage-limit policy: its buckets, one for each combination of values of `group_by`, with what is used of them.
//!
//! Lists and resets them. Counting is `limits`' business.

use super::super::call::Call;
use super::super::field::{Field, Type, nullable, optional, required};
use super::super::limits::COUNT;
use super::super::records::time;
use super::super::reply::Reply;
use super::super::route::{Access, Route, Shape, get, put as put_route};
use super::super::used::amount;
use crate::error::Error;
use crate::limits::from_records::limits_of;
use crate::limits::{CountersFailure, Limit, UsageView};
use crate::settings::scopes::Scope;
use crate::store::{Kind, Record};
use serde_json::{Map, Value, json};
use uuid::Uuid;

const ITEM: &[Field] = &[
    required("id", Type::Uuid, "The bucket."),
    required(
        "value_key",
        Type::Text(8192),
        "Its values: `metadata._user:ann`, several with a dash between them.",
    ),
    required("current_usage", COUNT, "What was used in this window; dollars for `cost`."),
    required("reserved_usage", COUNT, "What is held for requests under way."),
    required("status", Type::OneOf(&["active", "exhausted"]), "Whether nothing is left."),
    nullable("next_usage_reset_at", Type::Time, "When it is empty again."),
    required("is_threshold_alerts_sent", Type::Flag, "Whether `alert_threshold` was reached in this window."),
    required("is_exhausted_alerts_sent", Type::Flag, "Whether `credit_limit` was reached in this window."),
];

const LIST: &[Field] = &[
    optional("status", Type::OneOf(&["active", "exhausted"]), "Only those of this status."),
    optional("search", Type::Text(512), "Part of the value key; upper and lower case are the same."),
    super::super::page::CURRENT_PAGE,
    optional("page_size", Type::Integer(1, 100), "Items on a page; 50 by default."),
];

pub(in super::super) const ROUTES: &[Route] = &[
    get(
        "/v1/policies/usage-limits/{id}/entities",
        Access::Scope(&[Scope::PoliciesRead]),
        "Lists the buckets of a usage-limit policy, the most used first",
        |call| Box::pin(list(call)),
    )
    .query(LIST)
    .replies(Shape::List(ITEM)),
    put_route(
        "/v1/policies/usage-limits/{id}/entities/{entity_id}/reset",
        Access::Scope(&[Scope::PoliciesUpdate]),
        "Empties a bucket of a usage-limit policy",
        |call| Box::pin(reset(call)),
    )
    .replies(Shape::Empty)
    .changes("usage-limits-policies", "reset"),
];

/// The most buckets that a policy's own record shows.
const MAX_IN_RECORD: usize = 1000;

async fn list(call: Call) -> Result<Reply, Error> {
    let record = call.find_any_status(Kind::UsagePolicy, "id")?;
    let (limit, mut found) = buckets(&call, &record).await?;
    let search = call.query_text("search").map(str::to_lowercase);
    let status = call.query_text("status");
    found.retain(|view| {
        search.as_ref().is_none_or(|part| view.value_key.to_lowercase().contains(part.as_str()))
            && status.is_none_or(|status| view.status.as_str() == status)
    });
    let page = super::super::page::Page::of(&call, 50);
    Ok(page.reply(&found, |view| item(&limit, view)))
}

fn item(limit: &Limit, view: &UsageView) -> Value {
    json!({
        "id": view.entity,
        "value_key": view.value_key,
        "current_usage": amount(limit.counts(), view.spent),
        "reserved_usage": amount(limit.counts(), view.held),
        "status": view.status.as_str(),
        "next_usage_reset_at": view.window.reset_at().map(time),
        "is_threshold_alerts_sent": view.is_threshold_alert_sent,
        "is_exhausted_alerts_sent": view.is_exhausted_alert_sent,
    })
}

/// What `value_key_usage_map` shows.
pub(super) async fn usage_map(call: &Call, record: &Record) -> Result<Value, Error> {
    let (limit, found) = buckets(call, record).await?;
    let entry = |view: &UsageView| {
        let shown = json!({
            "current_usage": amount(limit.counts(), view.spent),
            "status": view.status.as_str(),
            "is_threshold_alerts_sent": view.is_threshold_alert_sent,
            "is_exhausted_alerts_sent": view.is_exhausted_alert_sent,
        });
        (view.value_key.to_string(), shown)
    };
    Ok(Value::Object(found.iter().take(MAX_IN_RECORD).map(entry).collect::<Map<_, _>>()))
}

/// The limit of a policy and its buckets, the most used first.
async fn buckets(call: &Call, record: &Record) -> Result<(Limit, Vec<UsageView>), Error> {
    let limit = limit(call, record)?;
    let mut found = call.limits.peek(&limit, call.now).await.map_err(unreachable)?;
    found.sort_by(|a, b| b.spent.cmp(&a.spent).then_with(|| a.value_key.cmp(&b.value_key)));
    Ok((limit, found))
}

fn limit(call: &Call, record: &Record) -> Result<Limit, Error> {
    let limit = limits_of(record, &*call.catalog()?).into_iter().next();
    limit.ok_or_else(|| Error::internal(format!("policy {} cannot be read", record.id)))
}

async fn reset(mut call: Call) -> Result<Reply, Error> {
    let record = super::for_change(&call, Kind::UsagePolicy)?;
    let entity = Uuid::try_parse(call.param("entity_id")).ok();
    let is_reset = match entity {
        Some(entity) => reset_one(&call, &record, entity).await?,
        None => false,
    };
    if !is_reset {
        let named = call.param("entity_id");
        return Err(Error::not_found(format!("The policy has no entity {named:?}.")).with_unknown_name(named));
    }
    call.trail.workspace = record.workspace;
    call.record_change().await;
    Ok(Reply::empty())
}

/// Empties a bucket. False: there is no such bucket.
///
/// # Errors
/// 503 where the counters cannot be reached, or the reset could not be written: it may be forgotten.
pub(super) async fn reset_one(call: &Call, record: &Record, entity: Uuid) -> Result<bool, Error> {
    call.limits.reset(&limit(call, record)?, entity, call.now).await.map_err(unreachable)
}

fn unreachable(failure: CountersFailure) -> Error {
    log::warn!(target: "turnpike", "the counters of limits cannot be reached: {}", failure.0);
    Error::limits_unavailable()
}

/// The bucket with this value key.
///
/// # Errors
/// 400 if there is none.
pub(super) async fn named(call: &Call, record: &Record, value_key: &str) -> Result<Uuid, Error> {
    let (_, found) = buckets(call, record).await?;
    let found = found.iter().find(|view| *view.value_key == *value_key);
    found.map(|view| view.entity).ok_or_else(|| {
        Error::invalid_request(
            "reset_usage_for_value",
            format!("The policy has no bucket {value_key:?}. The list of its entities has all value keys."),
        )
    })
}
