//! The process's own YAML: listeners, limits, keys, stored providers, saved configs.
//!
//! Turns the text into typed values, or into *all* problems, each with its path, line and column. Pure: the
//! environment and credentials are passed in as functions ([`SecretSources`]). Not here: the config object
//! itself (`config`), and reloading (`main`).

pub mod access_log;
pub mod alerts;
pub mod allow_rule;
pub mod allowed_models;
pub mod auth;
mod batches;
mod cache;
pub mod cors;
pub mod counting;
pub mod custom_hosts;
pub mod draft;
mod guardrails;
pub mod jwt;
pub mod key_limits;
pub mod limits;
pub mod listen;
pub mod logs;
pub mod prices;
pub mod reference;
pub mod schema;
pub mod scopes;
pub mod server;
pub mod service_key;
pub mod store_settings;
pub mod stored_provider;
pub mod telemetry;
pub mod usage;
mod values;
mod yaml;

pub use access_log::AccessLog;
pub use alerts::AlertSettings;
pub use allow_rule::AllowRule;
pub use allowed_models::AllowedModels;
pub use auth::Auth;
pub use batches::{BatchSettings, S3Credentials, S3Settings};
pub use cache::{CacheSettings, SemanticCacheSettings};
pub use cors::Cors;
pub use counting::{Counting, NEEDS_POSTGRES, OnStoreError, SharedCounters};
pub use custom_hosts::CustomHosts;
pub use draft::Draft;
pub use guardrails::GuardrailSettings;
pub use jwt::Jwt;
pub use key_limits::KeyLimits;
pub use limits::Limits;
pub use listen::{Emulator, Listen, Listener, TlsFiles};
pub use logs::Logs;
pub use prices::{CatalogueSource, PriceSettings};
pub use reference::SecretSources;
pub use server::{Log, LogFormat, Server, UpstreamTls};
pub use service_key::ServiceKey;
pub use store_settings::StoreSettings;
pub use stored_provider::StoredProvider;
pub use telemetry::Telemetry;
pub use usage::UsageSettings;
pub use yaml::read as read_yaml;

use crate::config::members::{self, MemberTable};
use crate::config::node::{Kind, Node};
use crate::config::policies::{Policies, TimeLimits};
use crate::config::read::{Cursor, ObjectReader, Problems};
use crate::config::{Checks, Config};
use crate::error::Problem;
use http::HeaderName;
use listen::UsedAddresses;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use values::{base_url, is_id, non_empty};

/// The keys of the file's top level, in the order the shipped file has them.
const KEYS: [&str; 25] = [
    "server",
    "listen",
    "emulator",
    "limits",
    "time_limits",
    "auth",
    "store",
    "usage",
    "guardrails",
    "cache",
    "semantic_cache",
    "batches",
    "prices",
    "alerts",
    "logs",
    "providers",
    "configs",
    "default_config",
    "custom_hosts",
    "header_prefixes",
    "cors",
    "tls",
    "access_log",
    "log",
    "telemetry",
];

/// All settings: the values of the file, and the defaults of those it does not give.
#[derive(Debug, Clone)]
pub struct Settings {
    pub server: Server,
    pub listen: Listen,
    pub emulator: Emulator,
    pub limits: Limits,
    /// The timeouts of targets whose config gives none.
    pub time_limits: TimeLimits,
    pub auth: Auth,
    pub store: StoreSettings,
    pub usage: UsageSettings,
    pub guardrails: GuardrailSettings,
    pub cache: CacheSettings,
    /// `None`: texts of similar meaning are not found.
    pub semantic_cache: Option<SemanticCacheSettings>,
    pub batches: BatchSettings,
    pub prices: PriceSettings,
    pub alerts: AlertSettings,
    pub logs: Logs,
    /// By slug, without the `@`.
    pub providers: BTreeMap<String, StoredProvider>,
    /// Saved configs by id.
    pub configs: BTreeMap<String, Config>,
    pub default_config: Option<DefaultConfig>,
    pub custom_hosts: CustomHosts,
    /// Lower-case, each ending in `-`.
    pub header_prefixes: Vec<String>,
    /// Which web pages may call; `None`: none may.
    pub cors: Option<Cors>,
    pub tls: UpstreamTls,
    pub access_log: AccessLog,
    pub log: Log,
    pub telemetry: Telemetry,
    /// The first twelve hex digits of the SHA-256 of the text as written, with references unresolved.
    pub hash: String,
}

/// `default_config`: used for requests that name neither a provider nor a config. What it names exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DefaultConfig {
    /// The id of a saved config.
    Saved(String),
    /// The slug of a stored provider, without the `@`.
    Slug(String),
}

impl Settings {
    /// Reads a settings file. `checks.provider` checks plain provider names; slugs are checked here, against
    /// `providers`. Custom hosts in the file are the operator's and trusted: `checks.custom_host` is not
    /// called.
    ///
    /// # Errors
    /// All problems, in the order of the file; none of them repeats a resolved reference.
    pub fn parse(text: &str, sources: &SecretSources<'_>, checks: &Checks<'_>) -> Result<Self, Vec<Problem>> {
        Draft::read(text, sources, checks).finish()
    }

    /// The names of the gateway's header `suffix`, one per accepted prefix.
    pub fn prefixed_headers(&self, suffix: &str) -> Vec<HeaderName> {
        let names = self.header_prefixes.iter().map(|prefix| format!("{prefix}{suffix}"));
        names.filter_map(|name| HeaderName::try_from(name).ok()).collect()
    }

    fn read(node: &Node, text: &str, problems: &Problems, checks: &Checks<'_>) -> Option<Self> {
        let mut fields = Cursor::root(node, problems).fields()?;
        let f = &mut fields;
        let slugs = names(f, "providers");
        let ids = names(f, "configs");
        let mut used_addresses = UsedAddresses::default();
        let settings = Self {
            server: section(f, "server", Server::members).unwrap_or_default(),
            listen: Listen::read(old_section(f, "listen"), &mut used_addresses),
            emulator: old_section(f, "emulator")
                .map(|f| Emulator::read(f, &mut used_addresses))
                .unwrap_or_default(),
            limits: section(f, "limits", Limits::members).unwrap_or_default(),
            time_limits: f.get(&["time_limits"]).and_then(|at| TimeLimits::read(&at)).unwrap_or_default(),
            auth: old_section(f, "auth").map(Auth::read).unwrap_or_default(),
            store: section(f, "store", StoreSettings::members).unwrap_or_default(),
            guardrails: section(f, "guardrails", GuardrailSettings::members).unwrap_or_default(),
            cache: section(f, "cache", CacheSettings::members).unwrap_or_default(),
            semantic_cache: section(f, "semantic_cache", SemanticCacheSettings::members),
            batches: section(f, "batches", BatchSettings::members).unwrap_or_default(),
            usage: section(f, "usage", UsageSettings::members).unwrap_or_default(),
            prices: section(f, "prices", PriceSettings::members).unwrap_or_default(),
            alerts: section(f, "alerts", AlertSettings::members).unwrap_or_default(),
            logs: section(f, "logs", Logs::members).unwrap_or_default(),
            providers: providers(f, checks),
            configs: configs(f, &slugs, checks),
            default_config: default_config(f, &slugs, &ids),
            custom_hosts: section(f, "custom_hosts", CustomHosts::members).unwrap_or_default(),
            header_prefixes: header_prefixes(f),
            cors: section(f, "cors", Cors::members),
            tls: section(f, "tls", UpstreamTls::members).unwrap_or_default(),
            access_log: section(f, "access_log", AccessLog::members).unwrap_or_default(),
            log: section(f, "log", Log::members).unwrap_or_default(),
            telemetry: section(f, "telemetry", Telemetry::members).unwrap_or_default(),
            hash: hash(text),
        };
        settings.check_shared_counters(f);
        fields.reject_unknown(&KEYS);
        Some(settings)
    }

    /// Counters in the store need one that gateways share.
    fn check_shared_counters(&self, f: &ObjectReader<'_>) {
        let is_shared = self.store.url.as_ref().is_some_and(|url| url.expose().starts_with("postgres"));
        if self.limits.counting.shared == Some(SharedCounters::Store)
            && !is_shared
            && let Some(fields) = f.peek(&["limits"]).and_then(|at| at.fields())
            && let Some(at) = fields.peek(&["shared"])
        {
            at.problem(NEEDS_POSTGRES);
        }
    }

    /// What every target inherits, whatever its config: the last level above all others.
    pub fn policies(&self) -> Policies {
        Policies {
            time_limits: self.time_limits,
            request_timeout: self.limits.request_timeout,
            ..Policies::default()
        }
    }
}

/// Formats the problems as lines `FILE:LINE:COLUMN: path: message`, for `turnpike check` and the log.
pub fn report(file: &str, problems: &[Problem]) -> String {
    let mut out = String::new();
    for problem in problems {
        let _ = match problem.place {
            Some((line, column)) => writeln!(out, "{file}:{line}:{column}: {problem}"),
            None => writeln!(out, "{file}: {problem}"),
        };
    }
    out
}

fn section<T>(
    fields: &mut ObjectReader<'_>,
    name: &str,
    members: fn(&mut MemberTable<'_>) -> Option<T>,
) -> Option<T> {
    members::read(&fields.get(&[name])?, members)
}

fn old_section<'a>(fields: &mut ObjectReader<'a>, name: &str) -> Option<ObjectReader<'a>> {
    fields.get(&[name])?.fields()
}

/// The names in a section of free names, including entries that have problems: a reference to one of those is
/// not a second mistake.
fn names(fields: &ObjectReader<'_>, name: &str) -> HashSet<String> {
    match fields.peek(&[name]).map(|at| &at.node.kind) {
        Some(Kind::Map(entries)) => entries.iter().map(|entry| entry.name.clone()).collect(),
        _ => HashSet::new(),
    }
}

fn providers(fields: &mut ObjectReader<'_>, checks: &Checks<'_>) -> BTreeMap<String, StoredProvider> {
    let entries = fields.get(&["providers"]).and_then(|at| at.entries()).unwrap_or_default();
    entries.iter().filter_map(|(entry, at)| StoredProvider::read(&entry.name, at, checks)).collect()
}

fn configs(
    fields: &mut ObjectReader<'_>,
    slugs: &HashSet<String>,
    checks: &Checks<'_>,
) -> BTreeMap<String, Config> {
    let checks = Checks { provider: checks.provider, account: checks.account, custom_host: &base_url };
    let mut configs = BTreeMap::new();
    for (entry, at) in fields.get(&["configs"]).and_then(|at| at.entries()).unwrap_or_default() {
        if !is_id(&entry.name) {
            at.problem("an id is made of letters, digits, dots, dashes and underscores, at most 128");
        }
        if let Some(config) = Config::read(&at, &checks) {
            configs.insert(entry.name.clone(), config);
        }
        check_slugs(&at, slugs);
    }
    configs
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
    let targets = fields.peek(&["targets"]).filter(|at| matches!(at.node.kind, Kind::List(_)));
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

fn default_config(
    fields: &mut ObjectReader<'_>,
    slugs: &HashSet<String>,
    ids: &HashSet<String>,
) -> Option<DefaultConfig> {
    let at = fields.get(&["default_config"])?;
    let name = non_empty(&at)?;
    if let Some(slug) = name.strip_prefix('@') {
        if let Err(message) = check_slug(slug, slugs) {
            at.problem(message);
        }
        return Some(DefaultConfig::Slug(slug.to_owned()));
    }
    if !ids.contains(name) {
        at.problem(format!("names the saved config {name}, but there is no configs.{name}"));
    }
    Some(DefaultConfig::Saved(name.to_owned()))
}

fn header_prefixes(fields: &mut ObjectReader<'_>) -> Vec<String> {
    let Some(at) = fields.get(&["header_prefixes"]) else { return vec!["x-gateway-".to_owned()] };
    let items = at.list().unwrap_or_default();
    if items.is_empty() && matches!(at.node.kind, Kind::List(_)) {
        at.problem("must list at least one prefix");
    }
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
    prefixes
}

fn hash(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    let mut out = String::with_capacity(12);
    for byte in digest.as_ref().iter().take(6) {
        let _ = write!(out, "{byte:02x}");
    }
    out
}

#[cfg(test)]
mod tests;
