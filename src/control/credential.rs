//! The one record behind integrations, providers and virtual keys: an account with a provider, and its secrets.
//!
//! Reads the names that each of the three APIs has for the same members (`key` and `configurations`, or camel case), checks
//! the account as the settings file does, and keeps secrets sealed. What the three look like is theirs.

use super::call::Call;
use super::field::{Field, Type, optional};
use super::limits::{self, RATE_LIMITS, USAGE_LIMITS};
use super::masking::is_secret;
use super::records::{member, members, overlay};
use super::resource::{Item, stored_items};
use super::used::Used;
use memory::auth::key_format::mask;
use memory::limits::LimitScope;
use memory::limits::from_records::OF_INTEGRATION;
use memory::net::outbound::origin::Origin;
use memory::state::stored::{account_members, read_provider};
use memory::store::{Kind, Record};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use words::config::account::names;
use words::config::read::Problems;
use words::error::{Error, Problem};

/// Members of the virtual-keys API that are not spelled as the account's with another case.
const OTHER_NAMES: [(&str, &str); 5] = [
    ("deployment_name", "deployment_id"),
    ("provider_api_key", "api_key"),
    ("host", "custom_host"),
    ("deployment_config", "deployments"),
    ("base_url", "custom_host"),
];

/// What a provider may have besides its account; it is kept with it.
const POLICIES: [&str; 2] = ["concurrency", "engine"];

/// Members that every one of the three APIs takes in a change.
const COMMON: [&str; 5] = ["name", "note", "expires_at", "description", "allowed_models"];

/// As what a record has limits. One record may be an integration and a provider, with limits of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LimitedAs {
    Provider,
    Integration,
}

impl LimitedAs {
    /// What the names of its members begin with.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Provider => "",
            Self::Integration => OF_INTEGRATION,
        }
    }

    pub const fn scope(self) -> LimitScope {
        match self {
            Self::Provider => LimitScope::Provider,
            Self::Integration => LimitScope::Integration,
        }
    }
}

pub(super) const KEY: Field =
    optional("key", Type::Text(64 << 10), "The provider's key. Kept encrypted, never shown.");
pub(super) const NOTE: Field = optional("note", Type::Text(2048), "For people.");
pub(super) const EXPIRES: Field = optional("expires_at", Type::Time, "When it goes out of use.");
pub(super) const USAGE: Field = USAGE_LIMITS;
pub(super) const RATES: Field = RATE_LIMITS;
pub(super) const ALLOWED_MODELS: Field = optional(
    "allowed_models",
    Type::List(&Type::ModelName, 0, 500),
    "The models that may be used; `*` is any text (docs/models.md). All where absent or null.",
);
pub(super) const CONFIGURATIONS: Field = optional(
    "configurations",
    Type::AnyObject,
    "What else the account has, named as in `providers.<slug>` of the settings (docs/providers.md): `aws_region`, `custom_host`, `resource_name` …; and its `concurrency` and `engine`.",
);

/// What a request says of an account.
#[derive(Debug, Default)]
pub(super) struct AccountInput {
    /// By the settings' names.
    members: Map<String, Value>,
    /// How the request called them, for messages.
    given: Vec<(String, String)>,
}

impl AccountInput {
    /// Reads `key`, `configurations` and all other members of the body that are an account's.
    ///
    /// # Errors
    /// 400 for members of `configurations` that no provider has.
    pub fn read(call: &Call) -> Result<Self, Error> {
        let mut input = Self::default();
        if let Some(key) = call.text("key").filter(|key| !key.is_empty()) {
            input.put("api_key", "key", key.into());
        }
        let problems = Problems::default();
        for (given, value) in &call.body {
            if let Some(name) = account_name(given) {
                input.put(name, given, value.clone());
            }
        }
        if let Some(Value::Object(configurations)) = call.body.get("configurations") {
            for (given, value) in configurations {
                let path = format!("configurations.{given}");
                match account_name(given) {
                    Some(name) => input.put(name, &path, value.clone()),
                    None => problems.push(path, None, "is no member of an account; see docs/providers.md"),
                }
            }
        }
        if problems.is_empty() { Ok(input) } else { Err(Error::invalid_body(problems.into_vec())) }
    }

    fn put(&mut self, name: &str, given: &str, value: Value) {
        self.given.push((name.to_owned(), given.to_owned()));
        self.members.insert(name.to_owned(), value);
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The path of a member as the request wrote it.
    fn path(&self, name: &str) -> String {
        let found = self.given.iter().find(|(found, _)| {
            found == name || names::find(name).is_some_and(|all| all.contains(&found.as_str()))
        });
        match (found, name) {
            (Some((_, given)), _) => given.clone(),
            (None, "api_key") => "key".to_owned(),
            (None, name) => format!("configurations.{name}"),
        }
    }
}

/// The settings' name of a member of an account, or of a policy that is kept with it, in snake case or camel case.
pub(super) fn account_name(given: &str) -> Option<&'static str> {
    let mut snake = String::with_capacity(given.len() + 4);
    for char in given.chars() {
        if char.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(char.to_ascii_lowercase());
    }
    let other = OTHER_NAMES.iter().find(|(name, _)| *name == snake).map(|(_, name)| *name);
    let name = other.unwrap_or(&snake);
    let policy = POLICIES.iter().find(|policy| **policy == name).copied();
    policy.or_else(|| names::find(name)?.first().copied())
}

/// Puts an account into a record: what is open into its body, secrets sealed. An update keeps what `input` does not name; a null
/// removes.
///
/// # Errors
/// 400 with all problems of the account; as [`Call::store`].
pub(super) fn set_account(
    call: &Call,
    record: &mut Record,
    body: &mut Map<String, Value>,
    input: &AccountInput,
) -> Result<(), Error> {
    let store = call.store()?;
    let mut account = account_members(&Value::Object(body.clone()));
    if record.sealed.is_some() {
        let sealed = store.unseal(record).map_err(Error::from)?;
        if call.identity.is_bound || call.staged.is_some() {
            check_receiver(&account, &sealed, input)?;
        }
        account.extend(sealed);
    }
    for (name, value) in &input.members {
        let value = if name == "deployments" { deployments(value) } else { as_object(name, value) };
        match value {
            Value::Null => drop(account.remove(name)),
            value => drop(account.insert(name.clone(), value)),
        }
    }
    check(call, &account, input)?;
    account.remove("provider");
    let (secret, open): (Map<_, _>, Map<_, _>) = account.into_iter().partition(|(name, _)| is_secret(name));
    body.insert("account".to_owned(), Value::Object(open));
    let key = secret.get("api_key").and_then(Value::as_str).map(mask);
    body.insert("masked_key".to_owned(), key.unwrap_or_default().into());
    record.sealed = if secret.is_empty() {
        None
    } else {
        Some(store.seal(record.kind, record.id, &secret).map_err(Error::from)?)
    };
    Ok(())
}

/// A client of one workspace, and a file that is applied, give the secrets anew where they change where an account is (its host, its
/// resource, its region): who may write it may not know those that are kept, and would have them sent to a host of its own.
///
/// # Errors
/// 400 that names the first secret that is not given.
fn check_receiver(
    account: &Map<String, Value>,
    sealed: &Map<String, Value>,
    input: &AccountInput,
) -> Result<(), Error> {
    let is_changed = |(name, value): (&String, &Value)| {
        !is_secret(name)
            && !POLICIES.contains(&name.as_str())
            && *value != *account.get(name).unwrap_or(&Value::Null)
    };
    let kept = sealed.keys().find(|name| !input.members.contains_key(*name));
    match kept.filter(|_| input.members.iter().any(is_changed)) {
        None => Ok(()),
        Some(kept) => Err(Error::invalid_request(
            input.path(kept),
            "Give the account's secrets anew with what else you change of it: a key of a workspace, or a file, does not have kept ones sent elsewhere.",
        )),
    }
}

/// Checks an account as the settings file would, and its host as a client's.
fn check(call: &Call, account: &Map<String, Value>, input: &AccountInput) -> Result<(), Error> {
    let mut problems = match read_provider(account) {
        Ok(_) => Vec::new(),
        Err(problems) => problems,
    };
    for problem in &mut problems {
        problem.path = match problem.path.as_str() {
            "provider" => provider_field(call).to_owned(),
            path => input.path(path),
        };
    }
    let host = names::CUSTOM_HOST.iter().find_map(|name| Some((*name, account.get(*name)?.as_str()?)));
    if let Some((name, host)) = host {
        let checked = Origin::parse(host, false).and_then(|origin| call.snapshot.hosts.check_name(&origin));
        if let Err(why) = checked {
            problems.push(Problem { path: input.path(name), message: why, place: None });
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(Error::invalid_body(problems)) }
}

/// What the request calls the vendor.
fn provider_field(call: &Call) -> &'static str {
    if call.has("ai_provider_id") { "ai_provider_id" } else { "provider" }
}

/// A service account may be given as a text.
fn as_object(name: &str, value: &Value) -> Value {
    let is_object = names::B_SERVICE_ACCOUNT.contains(&name);
    let parsed = value.as_str().filter(|_| is_object).and_then(|text| serde_json::from_str(text).ok());
    parsed.unwrap_or_else(|| value.clone())
}

/// `deploymentConfig` of virtual keys as `deployments` of the settings.
fn deployments(value: &Value) -> Value {
    let Value::Array(items) = value else { return value.clone() };
    let one = |item: &Value| {
        let first =
            |names: [&str; 2]| names.iter().find_map(|name| item.get(*name)).cloned().unwrap_or(Value::Null);
        json!({
            "deployment_id": first(["deploymentName", "deployment_id"]),
            "alias": first(["alias", "alias"]),
            "api_version": first(["apiVersion", "api_version"]),
            "is_default": first(["is_default", "isDefault"]).as_bool().unwrap_or(false),
        })
    };
    items.iter().map(one).collect()
}

/// Takes over name, note, expiry and limits of a request, and resets usage where it says so.
///
/// # Errors
/// 400 for limits that do not go together, and for an expiry that is over.
pub(super) fn set_common(call: &Call, body: &mut Map<String, Value>, role: LimitedAs) -> Result<(), Error> {
    let mut update = call.body.clone();
    let problems = Problems::default();
    let prefix = role.prefix();
    let own = |name: &str| format!("{prefix}{name}");
    let limits_before = ["usage_limits", "rate_limits"]
        .map(|name| (name.to_owned(), body.get(&own(name)).cloned().unwrap_or_default()));
    let before = Map::from_iter(limits_before);
    limits::update(&mut update, &before, false, &limits::Today::of(call), &problems);
    let expiry = update.get("expires_at").and_then(Value::as_str).and_then(|text| text.parse().ok());
    if expiry.is_some_and(|expiry: jiff::Timestamp| expiry <= call.now) {
        problems.push("expires_at", None, "must be in the future");
    }
    if !problems.is_empty() {
        return Err(Error::invalid_body(problems.into_vec()));
    }
    overlay(body, &update, &COMMON);
    for name in ["usage_limits", "rate_limits"] {
        match update.remove(name) {
            Some(Value::Null) => drop(body.remove(&own(name))),
            Some(limits) => drop(body.insert(own(name), limits)),
            None => {}
        }
    }
    if call.flag("reset_usage") == Some(true) {
        limits::reset(body, prefix, call.now);
    }
    Ok(())
}

/// The integration whose account a provider uses: itself, where it has one of its own.
pub(super) fn integration_of(call: &Call, record: &Arc<Record>) -> Result<Arc<Record>, Error> {
    let Some(parent) = record.parent else { return Ok(Arc::clone(record)) };
    let found = call.catalog()?.get(Kind::Provider, parent).cloned();
    found.ok_or_else(|| Error::internal(format!("the integration of provider {} is gone", record.id)))
}

/// The records of a list that are a view of this kind.
pub(super) fn items_with_role(call: &Call, role: &str) -> Result<Vec<Item>, Error> {
    let mut found = call.list(Kind::Provider)?;
    found.retain(|record| has_role(record, role));
    Ok(stored_items(found))
}

/// Whether a record is a view of this kind.
pub(super) fn has_role(record: &Record, role: &str) -> bool {
    members(record).get(role).and_then(Value::as_bool) == Some(true)
}

/// `expired` by the clock, `exhausted` where a usage limit is, else `active`.
pub(super) fn status(body: &Map<String, Value>, used: &Used, now: jiff::Timestamp) -> &'static str {
    let expiry = member(body, "expires_at").as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok());
    if expiry.is_some_and(|expiry| expiry <= now) { "expired" } else { used.status() }
}
