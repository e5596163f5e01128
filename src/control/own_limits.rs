//! `GET /v1/api-keys/self/limits`: the limits over the calling key, with what is left of them: its own, its workspace's, and those of
//! policies.
//!
//! Any key sees them, since it meets them. Of a policy that counts other workspaces as well, a key of one workspace does not see what is
//! used.

use super::api_keys::{LIMIT, USED};
use super::call::Call;
use super::field::{Field, Type, nullable, required};
use super::reply::Reply;
use super::route::{Access, Route, Shape, get};
use super::used::{described, used};
use super::work::Work;
use futures_util::future::join_all;
use memory::auth::{IdentityKind, ORGANISATION};
use memory::limits::from_records::{limits_of, limits_of_key};
use memory::limits::{FactKey, Facts, Id, Limit};
use memory::store::{Kind, Status};
use serde_json::{Value, json};
use uuid::Uuid;
use words::error::Error;
use words::settings::ServiceKey;
use words::tables::concat;

const OWN: [Field; 4] = [
    required("scope", Type::OneOf(&["key", "workspace", "policy"]), "Whose limit it is."),
    nullable("id", Type::Uuid, "The key, workspace or policy; null for a key of the settings."),
    nullable("name", Type::Text(255), "Its name."),
    required(
        "depends_on",
        Type::List(&Type::Text(255), 0, 100),
        "What of a request decides whether it counts, and in which bucket: `model`, `metadata.team`. Where it is not empty, `used` is null.",
    ),
];

const LAST: [Field; 1] = [nullable(
    "used",
    Type::Object(&USED),
    "What is used; null where that depends on the request, counts other workspaces as well, or cannot be read now.",
)];

const ITEM: [Field; 10] = concat::<_, 10>(&concat::<_, 9>(&OWN, &LIMIT), &LAST);

pub(super) const ROUTES: &[Route] =
    &[get("/v1/api-keys/self/limits", Access::AnyKey, "Lists the limits over the calling key", |call| {
        Box::pin(list(call))
    })
    .works_at(Work::Compute)
    .replies(Shape::List(&ITEM))
    .for_clients()];

async fn list(call: Call) -> Result<Reply, Error> {
    let metadata: &[(&str, &str)] = &[];
    let identity = &call.identity;
    let client = Facts {
        organisation: Some(ORGANISATION),
        workspace: identity.workspace.or_else(|| call.snapshot.stored.default_workspace()),
        api_key: identity.key_id.map(Id::Record).or_else(|| identity.id.as_deref().map(Id::Settings)),
        config: None,
        prompt: None,
        endpoint_type: None,
        metadata: &metadata,
        target: None,
    };
    let limits = limits(&call, client.workspace)?;
    let over = limits.iter().filter_map(|(record, limit)| Some((record, limit, limit.over(&client)?)));
    let items = over.map(|(record, limit, depends_on)| item(&call, *record, limit, &client, depends_on));
    let data = join_all(items).await;
    Ok(Reply::from(json!({"object": "list", "total": data.len(), "data": data})))
}

/// The limits that a client of this workspace can meet, each with the record that it is of.
fn limits(call: &Call, workspace: Option<Uuid>) -> Result<Vec<(Option<Uuid>, Limit)>, Error> {
    let catalog = call.catalog()?;
    let identity = &call.identity;
    let is_settings = identity.kind == IdentityKind::Settings;
    let named = |key: &&ServiceKey| is_settings && Some(key.name.as_str()) == identity.name.as_deref();
    let of_settings = call.snapshot.settings.auth.keys.iter().find(named);
    let mut found: Vec<(Option<Uuid>, Limit)> = of_settings
        .map(|key| limits_of_key(key, call.now))
        .into_iter()
        .flatten()
        .map(|limit| (None, limit))
        .collect();
    let key = identity.key_id.and_then(|id| catalog.get(Kind::ApiKey, id));
    let own = workspace.and_then(|id| catalog.get(Kind::Workspace, id));
    let policies = [Kind::UsagePolicy, Kind::RatePolicy].into_iter().flat_map(|kind| catalog.all(kind));
    let records = key.into_iter().chain(own).chain(policies).filter(|record| record.status == Status::Active);
    for record in records {
        let limits = limits_of(record, &catalog, call.now).into_iter();
        found.extend(limits.map(|limit| (Some(record.id), limit)));
    }
    Ok(found)
}

async fn item(
    call: &Call,
    record: Option<Uuid>,
    limit: &Limit,
    client: &Facts<'_>,
    depends_on: Vec<String>,
) -> Value {
    let is_clear = depends_on.is_empty() && is_shown(call, limit);
    let mut members = described(limit);
    let amounts = if is_clear {
        let window = call.limits.calendar().window(&limit.kind, call.now.as_millisecond());
        match call.limits.usage_of(limit, client, call.now).await {
            Ok(view) => Value::Object(used(limit, &window, view.as_ref())),
            Err(failure) => {
                log::warn!(target: "turnpike", "the counters of limits cannot be reached: {}", failure.0);
                Value::Null
            }
        }
    } else {
        Value::Null
    };
    members.extend([
        ("scope".to_owned(), limit.scope.as_str().into()),
        ("id".to_owned(), json!(record)),
        ("name".to_owned(), json!(limit.name)),
        ("depends_on".to_owned(), json!(depends_on)),
        ("used".to_owned(), amounts),
    ]);
    Value::Object(members)
}

/// Whether the client may see what is used: a key of one workspace does not see what others have.
fn is_shown(call: &Call, limit: &Limit) -> bool {
    let Some(own) = call.own_workspace() else { return true };
    limit.is_of_workspace("", own)
        || limit.group_by.iter().any(|key| matches!(key, FactKey::ApiKey | FactKey::Workspace))
}
