//! Who has set a limit: what the organisation has set is the organisation's to change.
//!
//! A budget that its spender can raise is a request to the spender. So keys and tokens of one workspace change no limit that one of the
//! organisation has set: not that of their workspace, of a key or a provider in it, nor a policy. What they set themselves is theirs, and
//! nobody changes the limits of the own key. Not here: what limits are (`limits`), and scopes (`dispatch`).

use super::call::Call;
use super::records::{member, members};
use memory::limits::from_records::{KINDS, OF_INTEGRATION, RESETS};
use memory::store::{Catalog, Kind, Record};
use serde_json::{Map, Value};
use uuid::Uuid;
use words::error::Error;

const ORGANISATION: &str = "organisation";
const WORKSPACE: &str = "workspace";
/// The members of an account that say what it costs.
const ADJUSTMENTS: &str = "pricing_adjustments";
const MODELS: &str = "models";
/// Who has set both is kept under one name.
const PRICES: &str = "prices";
const PRICES_REFUSAL: &str = "A key of the organisation has made this account, and only such a key changes what it costs: budgets count by it.";
const MEMBERS: [&str; 2] = ["usage_limits", "rate_limits"];
const REMOVAL: &str = "A key of the organisation has set limits on it, and only such a key deletes it: without them it could be made anew.";
const REFUSAL: &str = "A key of the organisation has set these limits, and only such a key changes or resets them. A workspace adds \
                       limits of its own with policies (POST /v1/policies/usage-limits).";

/// Who sets limits with this call, as records keep it.
pub(super) fn setter(call: &Call) -> &'static str {
    if call.identity.is_bound { WORKSPACE } else { ORGANISATION }
}

/// The member of a body that says who has set the limits of this one.
fn mark(name: &str) -> String {
    format!("{name}_set_by")
}

const fn is_policy(kind: Kind) -> bool {
    matches!(kind, Kind::UsagePolicy | Kind::RatePolicy)
}

/// # Errors
/// 403 for a policy of the organisation and a client of one workspace.
pub(super) fn check_policy(call: &Call, record: &Record) -> Result<(), Error> {
    if !call.identity.is_bound || !is_policy(record.kind) || !is_of_organisation(call, record, "policy") {
        return Ok(());
    }
    Err(Error::forbidden(
        "A key of the organisation has made or changed this policy, and only such a key changes, resets or ends it. A workspace adds \
         policies of its own.",
    ))
}

/// # Errors
/// 403 for an object whose limits the organisation has set and a client of one workspace: they would end with it. It names them.
/// Not asked for keys: one that has leaked must be revoked at once, and a workspace may make keys without limits anyway.
pub(super) fn check_removal(call: &Call, record: &Record) -> Result<(), Error> {
    if !call.identity.is_bound || is_policy(record.kind) || !KINDS.contains(&record.kind) {
        return Ok(());
    }
    let body = members(record);
    let names =
        ["", OF_INTEGRATION].into_iter().flat_map(|prefix| MEMBERS.map(|name| format!("{prefix}{name}")));
    let mut set = names.filter(|name| limits(&body, name).is_some());
    match set.find(|name| is_of_organisation(call, record, name)) {
        None => Ok(()),
        Some(name) => {
            let name = name.strip_prefix(OF_INTEGRATION).unwrap_or(&name).to_owned();
            Err(Error::forbidden(REMOVAL).with_param(name))
        }
    }
}

/// Keeps in `body` who has set its limits and its prices, where the call changes them. `before`: the record that is changed.
///
/// # Errors
/// 403 where a client of one workspace changes what the organisation has set, or the limits of its own key.
pub(super) fn keep(
    call: &Call,
    before: Option<&Record>,
    kind: Kind,
    body: &mut Map<String, Value>,
) -> Result<(), Error> {
    if is_policy(kind) {
        body.insert(mark("policy"), setter(call).into());
        return Ok(());
    }
    if !KINDS.contains(&kind) {
        return Ok(());
    }
    let old = before.map(members).unwrap_or_default();
    if kind == Kind::Provider {
        keep_prices(call, before, &old, body)?;
    }
    for prefix in ["", OF_INTEGRATION] {
        let resets = format!("{prefix}{RESETS}");
        let count = |body: &Map<String, Value>| member(body, &resets).as_u64().unwrap_or(0);
        let is_reset = count(&old) != count(body);
        for name in MEMBERS.map(|name| format!("{prefix}{name}")) {
            let is_changed = limits(&old, &name) != limits(body, &name);
            if !is_changed && !is_reset {
                continue;
            }
            if let Some(before) = before.filter(|_| call.identity.is_bound && limits(&old, &name).is_some()) {
                check_owner(call, before, &name)?;
            }
            if is_changed {
                body.insert(mark(&name), setter(call).into());
            }
        }
    }
    Ok(())
}

/// Budgets count by the prices of an account: those of one that the organisation has made are the organisation's to change.
fn keep_prices(
    call: &Call,
    before: Option<&Record>,
    old: &Map<String, Value>,
    body: &mut Map<String, Value>,
) -> Result<(), Error> {
    let changed = [ADJUSTMENTS, MODELS].into_iter().find(|name| prices(old, name) != prices(body, name));
    let Some(changed) = changed else { return Ok(()) };
    if before.is_some_and(|before| call.identity.is_bound && is_of_organisation(call, before, PRICES)) {
        return Err(Error::forbidden(PRICES_REFUSAL).with_param(changed));
    }
    body.insert(mark(PRICES), setter(call).into());
    Ok(())
}

/// What a member says of prices, by model where it is a list of models.
fn prices(body: &Map<String, Value>, name: &str) -> Vec<Value> {
    let price = |model: &Value| {
        let stated = ["slug", "pricing_config", "base_model_slug"]
            .map(|name| model.get(name).cloned().unwrap_or_default());
        let has_any = stated.iter().skip(1).any(|member| !member.is_null());
        has_any.then(|| stated.into())
    };
    match body.get(name) {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(models)) => models.iter().filter_map(price).collect(),
        Some(other) => vec![other.clone()],
    }
}

/// The limits of a body in this member; `None`: there are none.
fn limits<'a>(body: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    body.get(name)
        .filter(|limits| !limits.is_null() && limits.as_array().is_none_or(|items| !items.is_empty()))
}

fn check_owner(call: &Call, record: &Record, name: &str) -> Result<(), Error> {
    let param = name.strip_prefix(OF_INTEGRATION).unwrap_or(name).to_owned();
    if record.kind == Kind::ApiKey && call.identity.key_id == Some(record.id) {
        let message =
            "A key does not change limits of its own. Another key of the workspace or the organisation does.";
        return Err(Error::forbidden(message).with_param(param));
    }
    if is_of_organisation(call, record, name) {
        return Err(Error::forbidden(REFUSAL).with_param(param));
    }
    Ok(())
}

/// Whether the organisation has set this member. Of records from before that was kept, whether it has made the record; what nobody
/// knows is the organisation's.
fn is_of_organisation(call: &Call, record: &Record, name: &str) -> bool {
    let body = members(record);
    if let Some(setter) = member(&body, &mark(name)).as_str() {
        return setter != WORKSPACE;
    }
    let maker = ["owner_id", "created_by"].into_iter().find_map(|name| body.get(name)?.as_str());
    let Some(maker) = maker.filter(|_| record.kind != Kind::Workspace) else { return true };
    !call.catalog().is_ok_and(|catalog| is_of_workspace(call, &catalog, maker))
}

/// Whether a key of a workspace has this id, or one of the settings this name, or a person who has no role above the workspaces' this id.
fn is_of_workspace(call: &Call, catalog: &Catalog, maker: &str) -> bool {
    match Uuid::try_parse(maker) {
        Ok(id) => {
            let is_member =
                |user: &Record| !matches!(member(&members(user), "role").as_str(), Some("owner" | "admin"));
            catalog.get(Kind::ApiKey, id).is_some_and(|key| key.workspace.is_some())
                || catalog.get(Kind::User, id).is_some_and(|user| is_member(user))
        }
        Err(_) => {
            let keys = &call.snapshot.settings.auth.keys;
            keys.iter().any(|key| key.name == maker && key.workspace.is_some())
        }
    }
}
