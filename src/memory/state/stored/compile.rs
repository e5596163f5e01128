//! Compiles a record's body and secrets to what requests use.
//!
//! The same readers as for the settings file: a stored provider has the members of `providers.<slug>`, in `account`.

use crate::net::outbound::custom_host::HostRules;
use crate::net::outbound::origin::Origin;
use crate::store::{Catalog, Kind, Record, Store};
use jiff::Timestamp;
use knowledge::price::OwnPrices;
use knowledge::provider;
use serde::Deserialize as _;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;
use words::config::hooks::{Hook, HookPhase};
use words::config::node::Node;
use words::config::policies::Policies;
use words::config::read::{Cursor, Problems};
use words::config::{Checks, Config};
use words::error::Problem;
use words::settings::{AllowedModels, AllowedNames, ModelEntry, StoredProvider};

/// A provider, and when it goes out of use.
#[derive(Debug, Clone)]
pub(crate) struct SavedProvider {
    pub provider: Arc<StoredProvider>,
    pub expires_at: Option<Timestamp>,
    /// Prices of its own, and of its integration.
    pub own_prices: Option<Arc<OwnPrices>>,
    /// `None`: every workspace that sees it may use it.
    access: Option<Arc<WorkspaceAccess>>,
}

/// Which workspaces may use an integration.
#[derive(Debug)]
struct WorkspaceAccess {
    /// Those without an entry.
    others: bool,
    listed: HashMap<Uuid, bool>,
}

impl SavedProvider {
    /// Whether clients of this workspace may use it.
    pub fn is_for(&self, workspace: Option<Uuid>) -> bool {
        self.access.as_ref().is_none_or(|access| {
            workspace.and_then(|workspace| access.listed.get(&workspace)).copied().unwrap_or(access.others)
        })
    }
}

/// A provider's record: `ai_provider` and `account` of its body, and its sealed members; those of the integration that it
/// belongs to, if it does. `None`: an integration that is no provider.
///
/// # Errors
/// Why it cannot be used, without secrets.
pub(crate) fn compile_provider(
    record: &Record,
    catalog: &Catalog,
    store: &Store,
) -> Result<Option<SavedProvider>, String> {
    let body: Value = serde_json::from_str(&record.body).map_err(|why| why.to_string())?;
    if body.get("is_provider").and_then(Value::as_bool) != Some(true) {
        return Ok(None);
    }
    let owner =
        record.parent.map(|parent| catalog.get(Kind::Provider, parent).ok_or("its integration is gone"));
    let owner = owner.transpose()?.map(|owner| &**owner);
    let account: Option<Value> =
        owner.map(|owner| serde_json::from_str(&owner.body)).transpose().map_err(|why| why.to_string())?;
    let own_prices = OwnPrices::from_records(account.as_ref(), &body).map(Arc::new);
    let mut members = account_members(account.as_ref().unwrap_or(&body));
    let account = account.as_ref().unwrap_or(&body);
    let owner = owner.unwrap_or(record);
    if owner.sealed.is_some() {
        members.extend(store.unseal(owner).map_err(|why| why.to_string())?);
    }
    let mut provider = read_provider(&members).map_err(|problems| texts(&problems))?;
    provider.models = allowed_models(account).map(Arc::new);
    let names = |of: &Value| {
        let names = of.get("allowed_models")?.as_array()?;
        Some(AllowedNames::new(names.iter().filter_map(Value::as_str)))
    };
    provider.allowed = names(&body).or_else(|| names(account)).or_else(|| provider.allowed.take());
    let expires_at = body.get("expires_at").and_then(Value::as_str).and_then(|text| text.parse().ok());
    let access = workspace_access(account).map(Arc::new);
    Ok(Some(SavedProvider { provider: Arc::new(provider), expires_at, own_prices, access }))
}

/// The models that an integration's body allows; `None`: all.
fn allowed_models(body: &Value) -> Option<AllowedModels> {
    let allows_others = body.get("allow_all_models").and_then(Value::as_bool).unwrap_or(true);
    let models = body.get("models").and_then(Value::as_array).into_iter().flatten();
    let listed: HashMap<String, bool> = models
        .filter_map(|model| Some((model.get("slug")?.as_str()?.to_owned(), model.get("enabled")?.as_bool()?)))
        .collect();
    let allows_all = allows_others && listed.values().all(|enabled| *enabled);
    (!allows_all).then_some(AllowedModels { allows_others, listed })
}

/// The workspaces that an integration's body lets use it; `None`: all.
fn workspace_access(body: &Value) -> Option<WorkspaceAccess> {
    let is_enabled = |entry: &Value| entry.get("enabled").and_then(Value::as_bool);
    let others = body.get("global_workspace_access").and_then(is_enabled).unwrap_or(true);
    let entries = body.get("workspaces").and_then(Value::as_array).into_iter().flatten();
    let listed: HashMap<Uuid, bool> = entries
        .filter_map(|entry| Some((entry.get("id")?.as_str()?.parse().ok()?, is_enabled(entry)?)))
        .collect();
    let allows_all = others && listed.values().all(|enabled| *enabled);
    (!allows_all).then_some(WorkspaceAccess { others, listed })
}

/// The members of `providers.<slug>` that a record's body has.
pub fn account_members(body: &Value) -> Map<String, Value> {
    let mut members = body.get("account").and_then(Value::as_object).cloned().unwrap_or_default();
    if let Some(provider) = body.get("ai_provider") {
        members.insert("provider".to_owned(), provider.clone());
    }
    members
}

/// Reads a provider as the settings file does.
///
/// # Errors
/// All problems, with paths of the settings' names.
pub fn read_provider(members: &Map<String, Value>) -> Result<StoredProvider, Vec<Problem>> {
    let problems = Problems::default();
    let node = Node::deserialize(members).map_err(|why| vec![problem(&why.to_string())])?;
    let checks =
        Checks { provider: &provider::check_name, account: &provider::check_account, ..Checks::NONE };
    let read = StoredProvider::read_members(&Cursor::root(&node, &problems), &checks);
    match (read, problems.is_empty()) {
        // Whoever may write providers of a workspace chooses neither where the gateway connects to nor which files it reads.
        (Some(stored), true) => {
            let Policies { proxy, client_certificate, .. } = &stored.policies;
            let given = [
                ("proxy", proxy.is_some()),
                ("client_certificate", client_certificate.is_some()),
                ("discover", stored.discover.is_some()),
            ];
            let message = "is for providers of the settings file only";
            let problem = |&(name, _): &(&str, bool)| Problem {
                path: name.to_owned(),
                message: message.to_owned(),
                place: None,
            };
            let problems: Vec<Problem> =
                given.iter().filter(|(_, is_given)| *is_given).map(problem).collect();
            if problems.is_empty() { Ok(stored) } else { Err(problems) }
        }
        _ => Err(problems.into_vec()),
    }
}

/// A config's record: `config` of its body, or of its sealed members where it has secrets.
///
/// # Errors
/// Why it cannot be used, without secrets.
pub(crate) fn compile_config(record: &Record, store: &Store, hosts: &HostRules) -> Result<Config, String> {
    let sealed = match record.sealed {
        Some(_) => store.unseal(record).map_err(|why| why.to_string())?,
        None => Map::new(),
    };
    let body: Value = serde_json::from_str(&record.body).map_err(|why| why.to_string())?;
    let config = sealed.get("config").or_else(|| body.get("config"));
    let node = Node::deserialize(config.ok_or("it has no config")?).map_err(|why| why.to_string())?;
    let named = |_: &str| Ok(());
    let custom_host = |host: &str| hosts.check_name(&Origin::parse(host, false)?);
    let account = &provider::check_account;
    let checks = Checks { provider: &named, account, custom_host: &custom_host, defers_patterns: true };
    let problems = Problems::default();
    let read = Config::read(&Cursor::root(&node, &problems), &checks);
    read.ok_or_else(|| texts(&problems.into_vec()))
}

/// The record of a name of models: the members of an entry of the settings' `models`, and `name`.
///
/// # Errors
/// Why it cannot be used, without secrets.
pub(crate) fn compile_model(record: &Record, store: &Store, hosts: &HostRules) -> Result<ModelEntry, String> {
    let mut members: Map<String, Value> =
        serde_json::from_str(&record.body).map_err(|why| why.to_string())?;
    if record.sealed.is_some() {
        members.extend(store.unseal(record).map_err(|why| why.to_string())?);
    }
    read_model(&members, hosts, true).map_err(|problems| texts(&problems))
}

/// Reads a name of models as the settings file does. `is_checked`: it was before, so that its patterns need no tables yet.
///
/// # Errors
/// All problems.
pub fn read_model(
    members: &Map<String, Value>,
    hosts: &HostRules,
    is_checked: bool,
) -> Result<ModelEntry, Vec<Problem>> {
    let name = members.get("name").and_then(Value::as_str).unwrap_or_default();
    let of_entry = |name: &str| members.get(name).filter(|value| !value.is_null());
    let entry =
        ModelEntry::MEMBERS.iter().filter_map(|name| Some(((*name).to_owned(), of_entry(name)?.clone())));
    let entry: Map<String, Value> = entry.collect();
    let problems = Problems::default();
    let node = Node::deserialize(&entry).map_err(|why| vec![problem(&why.to_string())])?;
    let named = |_: &str| Ok(());
    let custom_host = |host: &str| hosts.check_name(&Origin::parse(host, false)?);
    let account = &provider::check_account;
    let checks = Checks { provider: &named, account, custom_host: &custom_host, defers_patterns: is_checked };
    let read = ModelEntry::read(name, &Cursor::root(&node, &problems), &checks);
    read.ok_or_else(|| problems.into_vec())
}

/// A guardrail's record as a hook: `checks` of its body, or of its sealed members where they have secrets, and `actions`.
///
/// # Errors
/// Why it cannot be used, without secrets.
pub fn compile_guardrail(record: &Record, store: &Store) -> Result<Hook, String> {
    let sealed = match record.sealed {
        Some(_) => store.unseal(record).map_err(|why| why.to_string())?,
        None => Map::new(),
    };
    let body: Value = serde_json::from_str(&record.body).map_err(|why| why.to_string())?;
    let checks = sealed.get("checks").or_else(|| body.get("checks")).cloned().unwrap_or_default();
    let slug = record.slug.as_deref().unwrap_or_default();
    guardrail_hook(slug, checks, body.get("actions")).map_err(|problems| texts(&problems))
}

/// The saved guardrails that a workspace has run on everything, by slug or id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DefaultGuardrails {
    input: Vec<String>,
    output: Vec<String>,
}

impl DefaultGuardrails {
    /// Those of a phase, in their order.
    pub fn of(&self, phase: HookPhase) -> &[String] {
        match phase {
            HookPhase::Before => &self.input,
            HookPhase::After => &self.output,
        }
    }
}

/// The default guardrails of a workspace; `None`: it has none.
pub fn default_guardrails(workspace: &Record) -> Option<DefaultGuardrails> {
    let body: Value = serde_json::from_str(&workspace.body).ok()?;
    let defaults = body.get("defaults")?;
    let list = |name: &str| -> Vec<String> {
        let slugs = defaults.get(name).and_then(Value::as_array).into_iter().flatten();
        slugs.filter_map(|slug| slug.as_str().map(str::to_owned)).collect()
    };
    let found = DefaultGuardrails { input: list("input_guardrails"), output: list("output_guardrails") };
    (!found.input.is_empty() || !found.output.is_empty()).then_some(found)
}

/// The hook of a guardrail with these checks and actions.
///
/// # Errors
/// What is wrong with its form; what its checks need is not judged here.
pub fn guardrail_hook(slug: &str, mut checks: Value, actions: Option<&Value>) -> Result<Hook, Vec<Problem>> {
    for check in checks.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        let parameters = check.entry("parameters").or_insert(Value::Null);
        if parameters.is_null() {
            *parameters = Value::Object(Map::new());
        }
    }
    let mut members = actions.and_then(Value::as_object).cloned().unwrap_or_default();
    members.insert("id".to_owned(), slug.into());
    members.insert("checks".to_owned(), checks);
    members.retain(|_, value| !value.is_null());
    let problems = Problems::default();
    let node = Node::deserialize(&members).map_err(|why| vec![problem(&why.to_string())])?;
    let hook = Hook::read_saved(&Cursor::root(&node, &problems));
    match (hook, problems.is_empty()) {
        (Some(hook), true) => Ok(hook),
        _ => Err(problems.into_vec()),
    }
}

fn texts(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn problem(message: &str) -> Problem {
    Problem { path: String::new(), message: message.to_owned(), place: None }
}
