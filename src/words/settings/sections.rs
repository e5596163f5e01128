//! The top level of the settings file: its sections, and the names in one that stand in another.
//!
//! Not here: what is in a section.

use super::console::{NEEDS_ISSUER_URL, NEEDS_JWT};
use super::control::EDGE_NEEDS_POSTGRES;
use super::listen::UsedAddresses;
use super::values::{ID, base_url, is_id};
use super::{
    AccessLog, AcmeSettings, AlertSettings, Auth, BatchSettings, CacheSettings, ConsoleSettings,
    ControlSettings, Cors, CustomHosts, DefaultConfig, Emulator, GuardrailSettings, Limits, Listen, Log,
    Logs, McpSettings, MetricsSettings, ModelEntry, ModelNames, ModelRoute, NEEDS_POSTGRES, Outbound,
    PriceSettings, RealtimeSettings, SemanticCacheSettings, Server, Settings, SettingsSource, SharedCounters,
    StoreSettings, StoredProvider, Telemetry, UpstreamTls, UsageSettings,
};
use crate::config::members::{Form, MemberTable, MemberType, NON_EMPTY, form, object, see};
use crate::config::node::NodeKind;
use crate::config::policies::TimeLimits;
use crate::config::read::Cursor;
use crate::config::{Checks, Config};
use crate::json::schema::{list, pattern};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Sections of LiteLLM's file, and what is in their place here.
const HINTS: &[(&str, &str)] = &[
    (
        "model_list",
        "it is LiteLLM's, which `turnpike import litellm FILE` reads. Here the accounts are in providers, the names for clients in models, \
         groups and fallbacks in configs (docs/moving/litellm.md)",
    ),
    ("router_settings", "it is LiteLLM's. Here strategy, retry and breaker are in configs (docs/config.md)"),
    (
        "litellm_settings",
        "it is LiteLLM's. Here are cache, guardrails and telemetry for the process, and the rest in configs (docs/config.md)",
    ),
    (
        "general_settings",
        "it is LiteLLM's. Here are auth for keys, and store for the database (docs/keys.md, docs/store.md)",
    ),
];

fn time_limits(table: &mut MemberTable<'_>) -> TimeLimits {
    let doc = "Time limits of targets whose config sets none, in milliseconds; 0 is no limit.";
    let limits = see("time_limits", object(TimeLimits::members));
    table.get("time_limits", limits, doc).unwrap_or_default()
}

impl Settings {
    pub(super) const DOC: &str = "All settings of Turnpike, an AI gateway.";

    pub(super) fn members(table: &mut MemberTable<'_>, checks: &Checks<'_>) -> Option<Self> {
        table.hints(HINTS);
        let used = UsedAddresses::default();
        let slugs = names(table, "providers");
        let ids = names(table, "configs");
        let listen = object(|table| Listen::members(table, &used));
        let semantic = object(SemanticCacheSettings::members);
        let emulator = object(|table| Emulator::members(table, &used));
        let models = "Names that work as model: whole ones, or with one * for any text (docs/models.md).";
        let configs = "Saved configs by id, as named in x-gateway-config.";
        let prefixes = "Prefixes of the gateway's own headers. The same headers work under each of them.";
        let default_prefixes = vec!["x-gateway-".to_owned()];
        let settings = Self {
            server: section(table, "server", Server::DOC, Server::members),
            // Addresses are used by default, too.
            listen: table
                .get("listen", listen, Listen::DOC)
                .or_else(|| Listen::members(&mut MemberTable::default(), &used))
                .unwrap_or_default(),
            emulator: table.get("emulator", emulator, Emulator::DOC).unwrap_or_default(),
            console: section(table, "console", ConsoleSettings::DOC, ConsoleSettings::members),
            acme: AcmeSettings::section(table, &used),
            limits: section(table, "limits", Limits::DOC, Limits::members),
            time_limits: time_limits(table),
            auth: section(table, "auth", Auth::DOC, Auth::members),
            store: section(table, "store", StoreSettings::DOC, StoreSettings::members),
            control: section(table, "control", ControlSettings::DOC, ControlSettings::members),
            usage: section(table, "usage", UsageSettings::DOC, UsageSettings::members),
            guardrails: section(table, "guardrails", GuardrailSettings::DOC, GuardrailSettings::members),
            mcp: section(table, "mcp", McpSettings::DOC, McpSettings::members),
            realtime: section(table, "realtime", RealtimeSettings::DOC, RealtimeSettings::members),
            cache: section(table, "cache", CacheSettings::DOC, CacheSettings::members),
            semantic_cache: table.get("semantic_cache", semantic, SemanticCacheSettings::DOC),
            batches: section(table, "batches", BatchSettings::DOC, BatchSettings::members),
            prices: section(table, "prices", PriceSettings::DOC, PriceSettings::members),
            alerts: section(table, "alerts", AlertSettings::DOC, AlertSettings::members),
            logs: section(table, "logs", Logs::DOC, Logs::members),
            providers: table
                .get("providers", Providers(checks), "Stored providers by slug: what @slug means.")
                .unwrap_or_default(),
            configs: table.get("configs", Configs { checks, slugs: &slugs }, configs).unwrap_or_default(),
            default_config: DefaultConfig::read(table, &slugs, &ids),
            models: table
                .get("models", Models { checks, slugs: &slugs, ids: &ids }, models)
                .unwrap_or_default(),
            custom_hosts: section(table, "custom_hosts", CustomHosts::DOC, CustomHosts::members),
            outbound: section(table, "outbound", Outbound::DOC, Outbound::members),
            header_prefixes: table.or("header_prefixes", PREFIXES, default_prefixes, prefixes),
            cors: table.get("cors", object(Cors::members), Cors::DOC),
            tls: section(table, "tls", UpstreamTls::DOC, UpstreamTls::members),
            access_log: section(table, "access_log", AccessLog::DOC, AccessLog::members),
            log: section(table, "log", Log::DOC, Log::members),
            telemetry: section(table, "telemetry", Telemetry::DOC, Telemetry::members),
            metrics: section(table, "metrics", MetricsSettings::DOC, MetricsSettings::members),
            hash: String::new(),
            source: SettingsSource::default(),
        };
        settings.check_needs_of_postgres(table);
        settings.check_acme(table, &used);
        settings.check_sign_in(table);
        Some(settings)
    }

    /// What listeners with `tls.acme` need of the section `acme`.
    fn check_acme(&self, table: &MemberTable<'_>, used: &UsedAddresses) {
        if !self.uses_acme() {
            return;
        }
        let at = table.at("acme");
        if !self.acme.terms_of_service_agreed {
            const WHY: &str = "must be true where a listener has tls.acme: the authority's terms of service";
            match at.as_ref().and_then(|at| at.member("terms_of_service_agreed")) {
                Some(given) => given.problem(WHY),
                None => table.missing("acme.terms_of_service_agreed", WHY),
            }
        }
        let is_default = at.as_ref().and_then(|at| at.member("http_listen")).is_none();
        if let Some(address) = self.acme_http().filter(|_| is_default)
            && let Some(holder) = used.holder(address)
        {
            table.missing(
                "acme.http_listen",
                format!("is not given, and {holder} takes its default {address}"),
            );
        }
    }

    /// Signing in at the console needs an identity provider, which is found by its issuer.
    fn check_sign_in(&self, table: &MemberTable<'_>) {
        let Some(at) = table.at("console").and_then(|at| at.member("sign_in")) else { return };
        let issuer = self.auth.jwt.as_ref().map(|jwt| base_url(&jwt.issuer).is_ok());
        match issuer {
            _ if self.console.sign_in.is_none() => {}
            None => at.problem(NEEDS_JWT),
            Some(false) => at.problem(NEEDS_ISSUER_URL),
            Some(true) => {}
        }
    }

    /// Counters in the store need one that gateways share, and an edge node one that others write.
    fn check_needs_of_postgres(&self, table: &MemberTable<'_>) {
        let is_shared = self.store.url.as_ref().is_some_and(|url| url.expose().starts_with("postgres"));
        if self.limits.counting.shared == Some(SharedCounters::Store)
            && !is_shared
            && let Some(at) = table.at("limits").and_then(|at| at.member("shared"))
        {
            at.problem(NEEDS_POSTGRES);
        }
        if self.control.role.is_edge()
            && !is_shared
            && let Some(at) = table.at("control").and_then(|at| at.member("role"))
        {
            at.problem(EDGE_NEEDS_POSTGRES);
        }
    }
}

fn section<T: Default + 'static>(
    table: &mut MemberTable<'_>,
    name: &'static str,
    doc: &str,
    members: fn(&mut MemberTable<'_>) -> Option<T>,
) -> T {
    table.get(name, object(members), doc).unwrap_or_default()
}

/// The names in a section of free names, including entries that have problems: a reference to one of those is
/// not a second mistake.
fn names(table: &MemberTable<'_>, section: &'static str) -> HashSet<String> {
    match table.at(section).map(|at| &at.node.kind) {
        Some(NodeKind::Map(entries)) => entries.iter().map(|entry| entry.name.clone()).collect(),
        _ => HashSet::new(),
    }
}

/// The schema of an object with free names, each with a value of this definition.
fn named(doc: &str, definition: &str) -> Value {
    json!({
        "type": "object",
        "description": doc,
        "propertyNames": {"pattern": ID},
        "additionalProperties": {"$ref": format!("#/$defs/{definition}")},
    })
}

/// Stored providers by slug.
struct Providers<'c>(&'c Checks<'c>);

impl MemberType for Providers<'_> {
    type Value = BTreeMap<String, StoredProvider>;

    fn read(&self, at: &Cursor<'_>) -> Option<Self::Value> {
        let mut providers = BTreeMap::new();
        for (entry, at) in at.entries()? {
            if !is_id(&entry.name) {
                at.problem("a slug is made of letters, digits, dots, dashes and underscores, at most 128");
            }
            if let Some(provider) = StoredProvider::read_members(&at, self.0) {
                providers.insert(entry.name.clone(), provider);
            }
        }
        Some(providers)
    }

    fn schema(&self, doc: &str) -> Value {
        named(doc, "stored_provider")
    }
}

/// Saved configs by id.
struct Configs<'c> {
    checks: &'c Checks<'c>,
    /// Those of stored providers.
    slugs: &'c HashSet<String>,
}

impl MemberType for Configs<'_> {
    type Value = BTreeMap<String, Config>;

    fn read(&self, at: &Cursor<'_>) -> Option<Self::Value> {
        let checks = Checks { custom_host: &base_url, ..*self.checks };
        let mut configs = BTreeMap::new();
        for (entry, at) in at.entries()? {
            if !is_id(&entry.name) {
                at.problem("an id is made of letters, digits, dots, dashes and underscores, at most 128");
            }
            if let Some(config) = Config::read_with(&at, &checks, Some(self.slugs)) {
                configs.insert(entry.name.clone(), config);
            }
            check_slugs(&at, self.slugs);
        }
        Some(configs)
    }

    fn schema(&self, doc: &str) -> Value {
        named(doc, "config")
    }
}

/// Names of models.
struct Models<'c> {
    checks: &'c Checks<'c>,
    /// Those of stored providers.
    slugs: &'c HashSet<String>,
    /// Those of saved configs.
    ids: &'c HashSet<String>,
}

impl MemberType for Models<'_> {
    type Value = ModelNames;

    fn read(&self, at: &Cursor<'_>) -> Option<Self::Value> {
        let checks = Checks { custom_host: &base_url, ..*self.checks };
        let mut models = Vec::new();
        for (entry, at) in at.entries()? {
            let Some(read) = ModelEntry::read(&entry.name, &at, &checks) else { continue };
            let named = match &read.route {
                ModelRoute::Provider(slug) => check_slug(slug, self.slugs),
                ModelRoute::Saved(id) => check_id(id, self.ids),
                ModelRoute::Inline(_) => Ok(()),
            };
            let to = at.member("to").unwrap_or(at);
            match named {
                Ok(()) => check_slugs(&to, self.slugs),
                Err(message) => to.problem(message),
            }
            models.push(Arc::new(read));
        }
        Some(ModelNames::new(models))
    }

    fn schema(&self, doc: &str) -> Value {
        json!({
            "type": "object",
            "description": doc,
            "propertyNames": {"pattern": r"^[^@\s]\S*$", "maxLength": 256},
            "additionalProperties": {"$ref": "#/$defs/model_entry"},
        })
    }
}

/// Checks the slugs that a saved config and its targets name. The config of a request may name a slug that a
/// later reload adds, but a saved config is in the same file as its slugs, so a missing slug is a mistake.
fn check_slugs(at: &Cursor<'_>, slugs: &HashSet<String>) {
    let Some(fields) = at.node.is_object().then(|| at.fields()).flatten() else { return };
    let provider = fields.peek(&["provider"]);
    let named = provider.as_ref().and_then(|at| Some((at, at.node.as_text()?.strip_prefix('@')?)));
    let key = fields.peek(&["virtual_key"]);
    let keyed = key.as_ref().and_then(|at| Some((at, at.node.as_text()?)));
    for (at, slug) in named.into_iter().chain(keyed).filter(|(_, slug)| !slug.is_empty()) {
        if let Err(message) = check_slug(slug, slugs) {
            at.problem(message);
        }
    }
    let targets = fields.peek(&["targets"]).filter(|at| matches!(at.node.kind, NodeKind::List(_)));
    for target in targets.and_then(|at| at.list()).unwrap_or_default() {
        check_slugs(&target, slugs);
    }
}

fn check_slug(slug: &str, slugs: &HashSet<String>) -> Result<(), String> {
    if slugs.contains(slug) {
        return Ok(());
    }
    Err(format!("names the stored provider @{slug}, but there is no providers.{slug}"))
}

fn check_id(id: &str, ids: &HashSet<String>) -> Result<(), String> {
    if ids.contains(id) {
        return Ok(());
    }
    Err(format!("names the saved config {id}, but there is no configs.{id}"))
}

impl DefaultConfig {
    fn read(table: &mut MemberTable<'_>, slugs: &HashSet<String>, ids: &HashSet<String>) -> Option<Self> {
        let doc = "For requests that name no provider, config or custom host: the id of a saved config, or an @slug. Without \
                   it they are refused.";
        let name = table.get("default_config", NON_EMPTY, doc)?;
        Some(Self::named(&name, table, slugs, ids))
    }

    /// What `name` stands for; reported if there is no such thing.
    fn named(name: &str, table: &MemberTable<'_>, slugs: &HashSet<String>, ids: &HashSet<String>) -> Self {
        if let Some(slug) = name.strip_prefix('@') {
            if let Err(message) = check_slug(slug, slugs) {
                table.problem("default_config", &message);
            }
            return Self::Slug(slug.to_owned());
        }
        if let Err(message) = check_id(name, ids) {
            table.problem("default_config", &message);
        }
        Self::Saved(name.to_owned())
    }
}

const PREFIXES: Form<Vec<String>> = form(header_prefixes, |doc| {
    let prefix = pattern("Lower-case, ending in a dash.", "^[a-z0-9_.-]+-$", &["x-gateway-"]);
    let mut schema = list(doc, prefix);
    if let Value::Object(members) = &mut schema {
        members.insert("minItems".to_owned(), 1.into());
    }
    schema
})
.written(|prefixes| Some(prefixes.as_slice().into()));

fn header_prefixes(at: &Cursor<'_>) -> Option<Vec<String>> {
    if at.node.is_empty_list() {
        at.problem("must list at least one prefix");
    }
    let items = at.list().unwrap_or_default();
    let mut prefixes = Vec::with_capacity(items.len());
    let mut before = HashSet::new();
    for item in items {
        let Some(prefix) = item.text() else { continue };
        let stem = prefix.strip_suffix('-').unwrap_or_default();
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b);
        if stem.is_empty() || !stem.bytes().all(plain) {
            item.problem(
                "must be the lower-case beginning of header names, ending in a dash, such as x-gateway-",
            );
        } else if !before.insert(prefix) {
            item.problem("stands twice");
        }
        prefixes.push(prefix.to_owned());
    }
    Some(prefixes)
}
