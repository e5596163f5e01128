//! The entities of a usage-limit policy: its buckets, one for each combination of values of `group_by`, with what is used of them.
//!
//! Lists and resets them. Counting is `limits`' business.

use super::super::call::Call;
use super::super::field::{Field, Type, nullable, optional, required};
use super::super::limits::COUNT;
use super::super::records::{changed, members, put, time};
use super::super::reply::Reply;
use super::super::route::{Access, Route, Shape, get, put as put_route};
use super::super::used::amount;
use memory::limits::from_records::{USED_BEFORE, limits_of};
use memory::limits::{CountersFailure, FactKey, Limit, UsageView};
use memory::store::{Kind, Record};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use uuid::Uuid;
use words::error::Error;
use words::settings::scopes::Scope;

const ITEM: &[Field] = &[
    required("id", Type::Uuid, "The bucket."),
    required(
        "value_key",
        Type::Text(8192),
        "Its values: `metadata._user:ann`, several with a dash between them; of a long one the first 96 bytes, and `…`.",
    ),
    required("current_usage", COUNT, "What was used in this window; dollars for `cost`."),
    required("reserved_usage", COUNT, "What is held for requests under way."),
    required(
        "unreconciled_usage",
        COUNT,
        "Of `current_usage`: what was held for requests whose gateway ended before it could count them.",
    ),
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
    let record = call.find_any_status(Kind::UsagePolicy)?;
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
        "unreconciled_usage": amount(limit.counts(), view.unreconciled),
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
        json!({
            "current_usage": amount(limit.counts(), view.spent),
            "status": view.status.as_str(),
            "is_threshold_alerts_sent": view.is_threshold_alert_sent,
            "is_exhausted_alerts_sent": view.is_exhausted_alert_sent,
        })
    };
    let found = found.get(..found.len().min(MAX_IN_RECORD)).unwrap_or_default();
    Ok(Value::Object(names(found).into_iter().zip(found.iter().map(entry)).collect::<Map<_, _>>()))
}

/// A name for each bucket: its value key, with its id where another one reads the same.
fn names(views: &[UsageView]) -> Vec<String> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for view in views {
        *counts.entry(&view.value_key).or_default() += 1;
    }
    let name = |view: &UsageView| match counts.get(&*view.value_key) {
        Some(1) => view.value_key.to_string(),
        _ => format!("{} ({})", view.value_key, view.entity),
    };
    views.iter().map(name).collect()
}

/// The limit of a policy and the buckets of it that the client may see, the most used first.
///
/// # Errors
/// 403 for a client of one workspace where the buckets count other workspaces' requests as well.
async fn buckets(call: &Call, record: &Record) -> Result<(Limit, Vec<UsageView>), Error> {
    let limit = limit(call, record)?;
    let own = call.own_workspace();
    if own.is_some_and(|own| !limit.group_by.contains(&FactKey::Workspace) && !limit.is_of_workspace("", own))
    {
        return Err(Error::forbidden(
            "The policy counts the requests of every workspace together. A key of the organisation reads what is used of it.",
        ));
    }
    let mut found = call.limits.peek(&limit, call.now).await.map_err(unreachable)?;
    found.retain(|view| own.is_none_or(|own| limit.is_of_workspace(&view.value_key, own)));
    found.sort_by(|a, b| b.spent.cmp(&a.spent).then_with(|| a.value_key.cmp(&b.value_key)));
    Ok((limit, found))
}

fn limit(call: &Call, record: &Record) -> Result<Limit, Error> {
    let limit = limits_of(record, &*call.catalog()?, call.now).into_iter().next();
    limit.ok_or_else(|| Error::internal(format!("policy {} cannot be read", record.id)))
}

async fn reset(mut call: Call) -> Result<Reply, Error> {
    let record = call.find(Kind::UsagePolicy)?;
    call.check_owner(&record)?;
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
    match without_used_before(&record) {
        Some(body) => call.commit(vec![put(changed(&record, &body, call.now))]).await?,
        None => call.record_change().await,
    }
    Ok(Reply::empty())
}

/// The body of a policy whose buckets have nothing any more that was used elsewhere; `None`: they had nothing.
pub(super) fn without_used_before(record: &Record) -> Option<Value> {
    let mut body = members(record);
    body.remove(USED_BEFORE)?;
    Some(Value::Object(body))
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
    Error::limits_unavailable("The counters of limits cannot be reached now.")
}

/// The bucket with this value key.
///
/// # Errors
/// 400 if there is none, or more than one: values are not quoted, so that some read the same.
pub(super) async fn named(call: &Call, record: &Record, value_key: &str) -> Result<Uuid, Error> {
    let (limit, found) = buckets(call, record).await?;
    let shown = limit.shown_value_key(value_key);
    let mut named = found.iter().filter(|view| *view.value_key == *shown);
    let why = match (named.next(), named.next()) {
        (Some(view), None) => return Ok(view.entity),
        (None, _) => {
            format!("The policy has no bucket {value_key:?}. The list of its entities has all value keys.")
        }
        (Some(_), Some(_)) => format!(
            "The policy has several buckets whose value key reads {value_key:?}. Reset one by its id, which the list of entities has: \
             PUT .../entities/{{entity_id}}/reset."
        ),
    };
    Err(Error::invalid_request("reset_usage_for_value", why))
}
