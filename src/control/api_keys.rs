//! Service keys of the store: made, shown masked, changed, rotated, deleted. Beside them, the keys of the settings
//! file, which are only shown.
//!
//! Nobody gives a right that is not theirs to give: see `giving`. How a key looks and is hashed is `auth`'s.

mod adopted;
mod fields;
mod freedom;
mod listing;
pub(super) use listing::is_made_of;

use super::ORGANISATION;
use super::call::{Call, by_id_or_slug};
use super::giving::{self, GivenKey};
use super::limit_owner;
use super::limits;
use super::page;
use super::records::{changed, members, object, put, time};
use super::reply::Reply;
use super::route::{Access, Route, Shape, delete, get, post, put as put_route};
use super::used::Used;
pub(super) use fields::{LIMIT, USED};
use fields::{LIST, MADE, OF_ORGANISATION, OF_USER, OF_WORKSPACE, ROTATE, ROTATED, UPDATE, VIEW};
use jiff::Timestamp;
use lettre::Address;
use memory::auth::IdentityKind;
use memory::auth::key_body::{BodyDefaults, KeyBody};
use memory::auth::key_format::KeyHash;
use memory::auth::key_records::{self, RotationRefusal, TRANSITION_MS};
use memory::limits::LimitScope;
use memory::limits::from_records::limits_of_key;
use memory::store::{Kind, Record, Status};
use serde_json::{Map, Value, json};
use uuid::Uuid;
use words::config::read::Problems;
use words::error::Error;
use words::settings::ServiceKey;
use words::settings::scopes::{KeyType, Scope, ScopeSet};

/// The three types' scopes for one action.
const fn of_types(action: Action) -> Access {
    match action {
        Action::List => Access::Scope(&[
            Scope::OrganisationServiceApiKeysList,
            Scope::WorkspaceServiceApiKeysList,
            Scope::WorkspaceUserApiKeysList,
        ]),
        Action::Read => Access::Scope(&[
            Scope::OrganisationServiceApiKeysRead,
            Scope::WorkspaceServiceApiKeysRead,
            Scope::WorkspaceUserApiKeysRead,
        ]),
        Action::Update => Access::Scope(&[
            Scope::OrganisationServiceApiKeysUpdate,
            Scope::WorkspaceServiceApiKeysUpdate,
            Scope::WorkspaceUserApiKeysUpdate,
        ]),
        Action::Delete => Access::Scope(&[
            Scope::OrganisationServiceApiKeysDelete,
            Scope::WorkspaceServiceApiKeysDelete,
            Scope::WorkspaceUserApiKeysDelete,
        ]),
        Action::Rotate => Access::Scope(&[
            Scope::OrganisationServiceApiKeysRotate,
            Scope::WorkspaceServiceApiKeysRotate,
            Scope::WorkspaceUserApiKeysRotate,
        ]),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    List,
    Read,
    Update,
    Delete,
    Rotate,
}

pub(super) const ROUTES: &[Route] = &[
    post(
        "/v1/api-keys/organisation/service",
        Access::Scope(&[Scope::OrganisationServiceApiKeysCreate]),
        "Makes a key of the organisation",
        |call| Box::pin(create(call, KeyType::OrganisationService)),
    )
    .body(OF_ORGANISATION)
    .checked_by(check_body)
    .replies(Shape::Object(MADE))
    .changes("api-keys", "create"),
    post(
        "/v1/api-keys/workspace/service",
        Access::Scope(&[Scope::WorkspaceServiceApiKeysCreate]),
        "Makes a key of a workspace",
        |call| Box::pin(create(call, KeyType::WorkspaceService)),
    )
    .body(OF_WORKSPACE)
    .checked_by(check_body)
    .replies(Shape::Object(MADE))
    .changes("api-keys", "create"),
    post(
        "/v1/api-keys/workspace/user",
        Access::Scope(&[Scope::WorkspaceUserApiKeysCreate]),
        "Makes a key of a user in a workspace",
        |call| Box::pin(create(call, KeyType::WorkspaceUser)),
    )
    .body(OF_USER)
    .checked_by(check_body)
    .replies(Shape::Object(MADE))
    .changes("api-keys", "create"),
    get("/v1/api-keys", of_types(Action::List), "Lists keys, those of the settings last", |call| {
        Box::pin(listing::list(call))
    })
    .query(LIST)
    .lists(page::NAMED)
    .replies(Shape::List(VIEW)),
    get("/v1/api-keys/self", Access::AnyKey, "Shows the calling key", |call| Box::pin(own(call)))
        .replies(Shape::Object(VIEW))
        .for_clients(),
    get("/v1/api-keys/{id}", of_types(Action::Read), "Reads a key", |call| Box::pin(read(call)))
        .replies(Shape::Object(VIEW)),
    put_route("/v1/api-keys/{id}", of_types(Action::Update), "Changes a key", |call| Box::pin(update(call)))
        .body(UPDATE)
        .checked_by(check_update)
        .replies(Shape::Empty)
        .changes("api-keys", "update"),
    delete("/v1/api-keys/{id}", of_types(Action::Delete), "Deletes a key, effective at once", |call| {
        Box::pin(remove(call))
    })
    .replies(Shape::Empty)
    .changes("api-keys", "delete"),
    post("/v1/api-keys/{id}/rotate", of_types(Action::Rotate), "Gives a key another secret", |call| {
        Box::pin(rotate(call))
    })
    .body(ROTATE)
    .checked_by(check_rotate)
    .replies(Shape::Object(ROTATED))
    .changes("api-keys", "rotate"),
];

/// The scope for an action on keys of this type.
fn scope(kind: KeyType, action: Action) -> Scope {
    let Access::Scope(scopes) = of_types(action) else { return Scope::OrganisationServiceApiKeysDelete };
    let index = match kind {
        KeyType::OrganisationService => 0,
        KeyType::WorkspaceService => 1,
        KeyType::WorkspaceUser => 2,
    };
    scopes.get(index).copied().unwrap_or(Scope::OrganisationServiceApiKeysDelete)
}

fn check_body(body: &mut Map<String, Value>, now: Timestamp, problems: &Problems) {
    check_update(body, now, problems);
    limits::normalise(body, false, problems);
}

/// The limits of an update are checked together with those before.
fn check_update(body: &mut Map<String, Value>, now: Timestamp, problems: &Problems) {
    check_expiry(body, now, problems);
    for (index, address) in texts(body, "alert_emails").iter().enumerate() {
        // What the mailer cannot read would be found out with the first alert.
        if address.parse::<Address>().is_err() {
            problems.push(
                format!("alert_emails[{index}]"),
                None,
                "must be an address such as ann@example.com",
            );
        }
    }
    check_policy(body, problems);
}

fn check_rotate(body: &mut Map<String, Value>, _: Timestamp, problems: &Problems) {
    let period = body.get("key_transition_period_ms").and_then(Value::as_i64);
    if period.is_some_and(|period| (1..TRANSITION_MS).contains(&period)) {
        problems.push("key_transition_period_ms", None, format!("must be 0, or at least {TRANSITION_MS}"));
    }
}

fn check_expiry(body: &Map<String, Value>, now: Timestamp, problems: &Problems) {
    if moment(body, "expires_at").is_some_and(|end| end <= now) {
        problems.push("expires_at", None, "must be in the future");
    }
}

fn check_policy(body: &Map<String, Value>, problems: &Problems) {
    let Some(policy) = body.get("rotation_policy").and_then(Value::as_object) else { return };
    let has = |name: &str| policy.get(name).is_some_and(|value| !value.is_null());
    if has("rotation_period") && has("rotation_period_days") {
        problems.push(
            "rotation_policy.rotation_period_days",
            None,
            "cannot be combined with rotation_period",
        );
    }
    if !has("rotation_period") && !has("rotation_period_days") && !has("next_rotation_at") {
        problems.push(
            "rotation_policy",
            None,
            "must have rotation_period, rotation_period_days or next_rotation_at",
        );
    }
    let days = policy.get("rotation_period_days").and_then(Value::as_i64);
    let transition = policy.get("key_transition_period_ms").and_then(Value::as_i64);
    if let (Some(days), Some(transition)) = (days, transition)
        && transition >= days * 24 * 3_600_000
    {
        problems.push("rotation_policy.key_transition_period_ms", None, "must be shorter than the period");
    }
}

fn texts(body: &Map<String, Value>, name: &str) -> Vec<String> {
    let items = body.get(name).and_then(Value::as_array);
    items.into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

fn moment(body: &Map<String, Value>, name: &str) -> Option<Timestamp> {
    body.get(name)?.as_str()?.parse().ok()
}

/// The names of scopes in their own spelling, once each.
fn scopes(call: &Call, kind: KeyType, most: &ScopeSet) -> Result<Vec<String>, Error> {
    let names = texts(&call.body, "scopes");
    let (wanted, _) = ScopeSet::parse(names.iter().map(String::as_str));
    if let Some(scope) = wanted.without(most).iter().next() {
        let place = names.iter().position(|name| Scope::parse(name) == Some(scope)).unwrap_or_default();
        let message = format!("A key of type {} cannot hold {scope}.", kind.as_str());
        return Err(Error::invalid_request(format!("scopes[{place}]"), message));
    }
    giving::check_scopes(call, &wanted)?;
    Ok(wanted.iter().map(|scope| scope.as_str().to_owned()).collect())
}

fn defaults(call: &Call, workspace: Option<Uuid>) -> Result<BodyDefaults, Error> {
    let Some(given) = call.body.get("defaults").and_then(Value::as_object) else {
        return Ok(BodyDefaults::default());
    };
    let config_id = given.get("config_id").and_then(Value::as_str).map(str::to_owned);
    if let Some(config) = &config_id {
        let catalog = call.catalog()?;
        let is_stored = by_id_or_slug(&catalog, Kind::Config, workspace, config).is_some();
        if !is_stored && !call.snapshot.settings.configs.contains_key(config) {
            return Err(Error::invalid_request(
                "defaults.config_id",
                format!("There is no config {config:?}."),
            ));
        }
    }
    let metadata = given.get("metadata").and_then(Value::as_object).into_iter().flatten();
    let metadata = metadata.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
    let allow_config_override = given.get("allow_config_override").and_then(Value::as_bool).unwrap_or(true);
    let log_payloads = given.get("log_payloads").and_then(Value::as_str).map(str::to_owned);
    let priority = given.get("priority").and_then(Value::as_str).map(str::to_owned);
    Ok(BodyDefaults {
        config_id,
        metadata: metadata.collect(),
        allow_config_override,
        log_payloads,
        priority,
    })
}

/// The models that the request lets a key use; `None`: all.
fn allowed_models(call: &Call) -> Option<Vec<String>> {
    let is_list = call.body.get("allowed_models").is_some_and(Value::is_array);
    is_list.then(|| texts(&call.body, "allowed_models"))
}

fn pepper(call: &Call) -> Result<KeyHash, Error> {
    let pepper = call.store()?.pepper().ok_or_else(|| {
        Error::store_unavailable("The store has not been read yet, so keys cannot be made.")
    })?;
    Ok(KeyHash::new(pepper.as_bytes()))
}

async fn create(mut call: Call, kind: KeyType) -> Result<Reply, Error> {
    let workspace = match kind {
        KeyType::OrganisationService if call.identity.is_bound => {
            return Err(Error::forbidden("Only keys of the organisation make keys of the organisation."));
        }
        KeyType::OrganisationService => None,
        KeyType::WorkspaceService | KeyType::WorkspaceUser => Some(call.new_workspace()?),
    };
    let scopes = scopes(&call, kind, &kind.scopes())?;
    if let Some(user) = call.text("user_id") {
        let catalog = call.catalog()?;
        if Uuid::try_parse(user).ok().and_then(|id| catalog.get(Kind::User, id)).is_none() {
            return Err(Error::invalid_request("user_id", format!("There is no user {user}.")));
        }
    }
    GivenKey {
        kind,
        user: call.text("user_id"),
        workspace,
        scopes: ScopeSet::parse(scopes.iter().map(String::as_str)).0,
    }
    .check(&call)?;
    let today = limits::Today::of(&call);
    limits::set_first_days(&mut call.body, &Map::new(), &today);
    let take = |name: &str| call.body.get(name).cloned().unwrap_or_default();
    let body = KeyBody {
        description: call.text("description").map(str::to_owned),
        scopes,
        user_id: call.text("user_id").map(str::to_owned),
        expires_at: moment(&call.body, "expires_at"),
        defaults: defaults(&call, workspace)?,
        allowed_models: allowed_models(&call),
        rate_limits: take("rate_limits"),
        usage_limits: take("usage_limits"),
        rate_limits_set_by: Some(limit_owner::setter(&call).to_owned()),
        usage_limits_set_by: Some(limit_owner::setter(&call).to_owned()),
        alert_emails: texts(&call.body, "alert_emails"),
        rotation_policy: take("rotation_policy"),
        created_by: Some(call.actor()),
        ..KeyBody::new(call.text("name").unwrap_or_default(), kind)
    };
    freedom::check(&call.identity, &body)?;
    call.trail.workspace = workspace;
    if let Some(digest) = call.text("key_sha256") {
        let digest = adopted::digest(&call, digest)?;
        let record = key_records::adopt(body, workspace, &digest, &pepper(&call)?, call.now);
        let record = record.map_err(Error::internal)?;
        let id = record.id;
        adopted::commit(&mut call, record).await?;
        return Ok(Reply::from(json!({"id": id, "object": "api-key"})));
    }
    let made = key_records::make(body, workspace, &pepper(&call)?, call.now).map_err(Error::internal)?;
    call.commit(vec![put(made.record.clone())]).await?;
    Ok(Reply::from(json!({"id": made.record.id, "key": made.text.expose(), "object": "api-key"})))
}

/// A stored key, as something that is given.
fn given<'a>(record: &Record, body: &'a KeyBody) -> GivenKey<'a> {
    GivenKey {
        kind: body.kind,
        user: body.user_id.as_deref(),
        workspace: record.workspace,
        scopes: body.scope_set(),
    }
}

/// The key that the path names, where the client may do this with keys of its type.
fn find(call: &Call, action: Action) -> Result<(std::sync::Arc<Record>, KeyBody), Error> {
    let record = call.find(Kind::ApiKey)?;
    let body = KeyBody::parse(&record.body).map_err(Error::internal)?;
    call.identity.require(scope(body.kind, action))?;
    Ok((record, body))
}

async fn read(call: Call) -> Result<Reply, Error> {
    let (record, body) = find(&call, Action::Read)?;
    Ok(Reply::from(view(&call, &record, &body).await))
}

async fn own(call: Call) -> Result<Reply, Error> {
    if let Some(record) =
        call.identity.key_id.and_then(|id| call.catalog().ok()?.get(Kind::ApiKey, id).cloned())
    {
        let body = KeyBody::parse(&record.body).map_err(Error::internal)?;
        return Ok(Reply::from(view(&call, &record, &body).await));
    }
    let keys = &call.snapshot.settings.auth.keys;
    let name = call.identity.name.as_deref().unwrap_or_default();
    match keys.iter().find(|key| call.identity.kind == IdentityKind::Settings && key.name == name) {
        Some(key) => Ok(Reply::from(settings_view(&call, key).await)),
        None => Ok(Reply::from(token_view(&call))),
    }
}

/// The body of an update with its limits as they are from then on.
///
/// # Errors
/// 400 for limits that do not go together.
fn changed_limits(call: &Call, before: &Map<String, Value>) -> Result<Map<String, Value>, Error> {
    let mut update = call.body.clone();
    let problems = Problems::default();
    limits::update(&mut update, before, false, &limits::Today::of(call), &problems);
    if problems.is_empty() { Ok(update) } else { Err(Error::invalid_body(problems.into_vec())) }
}

async fn update(mut call: Call) -> Result<Reply, Error> {
    let (record, mut body) = find(&call, Action::Update)?;
    given(&record, &body).check(&call)?;
    freedom::check(&call.identity, &body)?;
    let before = body.clone();
    if call.has("scopes") {
        body.scopes = scopes(&call, body.kind, &body.most_scopes())?;
        given(&record, &body).check(&call)?;
    }
    if let Some(name) = call.text("name") {
        name.clone_into(&mut body.name);
    }
    if call.has("description") {
        body.description = call.text("description").map(str::to_owned);
    }
    if call.has("expires_at") {
        body.expires_at = moment(&call.body, "expires_at");
    }
    if call.has("defaults") {
        body.defaults = defaults(&call, record.workspace)?;
    }
    if call.has("allowed_models") {
        body.allowed_models = allowed_models(&call);
    }
    if call.has("alert_emails") {
        body.alert_emails = texts(&call.body, "alert_emails");
    }
    if let Some(policy) = call.body.get("rotation_policy") {
        body.rotation_policy = policy.clone();
    }
    let mut update = changed_limits(&call, &members(&record))?;
    if let Some(limits) = update.remove("usage_limits") {
        body.usage_limits = limits;
    }
    if let Some(limits) = update.remove("rate_limits") {
        body.rate_limits = limits;
    }
    if call.flag("reset_usage") == Some(true) {
        body.usage_resets = body.usage_resets.saturating_add(1);
        body.last_reset_at = Some(call.now);
        limits::forget_used_before(&mut body.usage_limits);
    }
    if call.identity.key_id == Some(record.id) {
        freedom::check_own(&before, &body)?;
    }
    freedom::check(&call.identity, &body)?;
    let body = serde_json::to_value(&body).map_err(|why| Error::internal(why.to_string()))?;
    let mut body = object(body);
    limit_owner::keep(&call, Some(&record), Kind::ApiKey, &mut body)?;
    call.trail.workspace = record.workspace;
    call.commit(vec![put(changed(&record, &Value::Object(body), call.now))]).await?;
    Ok(Reply::empty())
}

async fn remove(mut call: Call) -> Result<Reply, Error> {
    let (record, _) = find(&call, Action::Delete)?;
    call.trail.workspace = record.workspace;
    let revoked = key_records::revoked(&record, call.now);
    call.commit(vec![put(revoked)]).await?;
    Ok(Reply::empty())
}

async fn rotate(mut call: Call) -> Result<Reply, Error> {
    let (record, body) = find(&call, Action::Rotate)?;
    // Whoever rotates a key has it in hand afterwards.
    given(&record, &body).check(&call)?;
    freedom::check(&call.identity, &body)?;
    let number = |value: Option<&Value>| value.and_then(Value::as_i64);
    let period = number(call.body.get("key_transition_period_ms"))
        .or_else(|| number(body.rotation_policy.get("key_transition_period_ms")))
        .unwrap_or(TRANSITION_MS);
    let made =
        key_records::rotate(&record, &pepper(&call)?, period, call.now).map_err(|refusal| match refusal {
            RotationRefusal::InTransition(_) => {
                Error::conflict(format!("{}.", capital(&refusal.to_string())))
            }
            RotationRefusal::Broken(why) => Error::internal(why),
        })?;
    call.trail.workspace = record.workspace;
    call.commit(vec![put(made.record)]).await?;
    Ok(Reply::from(json!({
        "id": record.id,
        "key": made.text.expose(),
        "key_transition_expires_at": made.transition_ends.map(time),
        "object": "api-key",
    })))
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

async fn view(call: &Call, record: &Record, body: &KeyBody) -> Value {
    let is_expired = body.expires_at.is_some_and(|end| end <= call.now);
    let noted = record.slug.as_deref().and_then(|slug| call.snapshot.service_keys.stored().last_use(slug));
    let last_use = noted.max(body.last_used_at);
    let used = Used::of(call, record, LimitScope::Key).await;
    let last_reset = used.last_reset(&members(record), record.created_at);
    json!({
        "id": record.id,
        "key": body.masked,
        "name": body.name,
        "description": body.description,
        "type": body.kind.as_str(),
        "organisation_id": ORGANISATION,
        "workspace_id": record.workspace,
        "user_id": body.user_id,
        "status": match record.status {
            Status::Archived => "revoked",
            Status::Active if is_expired => "expired",
            Status::Active => used.status(),
        },
        "created_at": time(record.created_at),
        "last_updated_at": time(record.updated_at),
        "last_used_at": last_use.map(time),
        "creation_mode": if body.created_by.is_some() { "api" } else { "auto" },
        "rate_limits": if body.rate_limits.is_array() { body.rate_limits.clone() } else { json!([]) },
        "usage_limits": used.shown(body.usage_limits.clone()),
        "usage": used.list(),
        "reset_usage": null,
        "expires_at": body.expires_at.map(time),
        "last_reset_at": last_reset,
        "next_usage_reset_at": used.next_reset(),
        "alert_emails": body.alert_emails,
        "expiry_enforced": 0,
        "scopes": body.scopes,
        "defaults": body.defaults,
        "allowed_models": body.allowed_models,
        "rotation_policy": body.rotation_policy,
        "origin": if body.file_set.is_some() { "file" } else { "store" },
        "file_set": body.file_set,
        "object": "api-key",
    })
}

/// What is shown of a key that is in no record.
fn unstored(name: &str, kind: &str, workspace: Option<Uuid>, scopes: &ScopeSet) -> Value {
    let scopes: Vec<&str> = scopes.iter().map(Scope::as_str).collect();
    json!({
        "id": null, "key": "*****", "name": name, "description": null, "type": kind, "organisation_id": ORGANISATION,
        "workspace_id": workspace, "user_id": null, "status": "active", "created_at": null, "last_updated_at": null,
        "last_used_at": null, "creation_mode": "auto", "rate_limits": [], "usage_limits": null, "usage": [],
        "reset_usage": null,
        "expires_at": null, "last_reset_at": null, "next_usage_reset_at": null, "alert_emails": [], "expiry_enforced": 0,
        "scopes": scopes, "defaults": BodyDefaults::default(), "allowed_models": null, "rotation_policy": null, "origin": "settings",
        "object": "api-key",
    })
}

async fn settings_view(call: &Call, key: &ServiceKey) -> Value {
    let workspace = key.workspace.as_deref().and_then(|slug| call.snapshot.stored.workspace(slug));
    let kind = if key.workspace.is_some() { KeyType::WorkspaceService } else { KeyType::OrganisationService };
    let used = Used::of_limits(call, limits_of_key(key, call.now), LimitScope::Key).await;
    let mut shown = unstored(&key.name, kind.as_str(), workspace, &key.scopes);
    if let Value::Object(shown) = &mut shown {
        let usage_limits = match key.limits.usage.as_slice() {
            [] => Value::Null,
            [one] => one.clone(),
            several => several.into(),
        };
        for (name, value) in [
            ("status", used.status().into()),
            ("rate_limits", key.limits.rates.as_slice().into()),
            ("usage_limits", used.shown(usage_limits)),
            ("usage", used.list()),
            (
                "allowed_models",
                key.allowed_models.as_ref().map(|names| names.names().collect()).unwrap_or_default(),
            ),
            ("next_usage_reset_at", used.next_reset()),
        ] {
            shown.insert(name.to_owned(), value);
        }
    }
    shown
}

fn token_view(call: &Call) -> Value {
    let identity = &call.identity;
    let mut shown =
        unstored(identity.name.as_deref().unwrap_or_default(), "token", identity.workspace, &identity.scopes);
    if let Value::Object(members) = &mut shown {
        members.insert("user_id".to_owned(), json!(identity.user));
        members.insert("expires_at".to_owned(), json!(identity.expires_at.map(time)));
    }
    shown
}
