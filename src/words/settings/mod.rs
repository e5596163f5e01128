//! The process's own YAML: listeners, limits, keys, stored providers, saved configs.
//!
//! Turns the text into typed values, or into *all* problems, each with its path, line and column. Pure: the
//! environment and credentials are passed in as functions ([`SecretSources`]). Not here: the config object
//! itself (`config`), and reloading (`main`).

pub mod access_log;
mod acme;
pub mod alerts;
pub(crate) mod allow_rule;
pub mod allowed_models;
pub mod auth;
mod batches;
mod cache;
mod console;
pub mod control;
pub mod cors;
pub mod counting;
pub mod custom_hosts;
pub mod discovery;
mod draft;
mod guardrails;
pub mod jwt;
pub mod key_limits;
pub mod limits;
pub mod listen;
pub mod logs;
pub mod mcp;
pub mod metrics;
pub mod model_entry;
pub mod model_names;
pub mod model_pattern;
pub mod outbound;
pub mod prices;
pub mod realtime;
pub mod reference;
pub mod restart;
pub mod schema;
pub mod scopes;
mod sections;
pub mod server;
pub mod service_key;
mod settings_source;
pub(crate) mod store_settings;
pub(crate) mod stored_provider;
pub mod telemetry;
mod text;
pub mod trusted_proxies;
pub mod usage;
mod values;
mod yaml;

pub use access_log::AccessLog;
pub use acme::{AcmeChallenge, AcmeSettings, ExternalAccount};
pub use alerts::AlertSettings;
pub use allow_rule::AllowRule;
pub use allowed_models::AllowedModels;
pub use auth::Auth;
pub use batches::{BatchSettings, S3Credentials, S3Settings};
pub use cache::{CacheSettings, SemanticCacheSettings};
pub use console::{ConsoleSettings, SignInSettings};
pub use control::{ControlSettings, NodeRole};
pub use cors::Cors;
pub use counting::{Counting, NEEDS_POSTGRES, OnStoreError, SharedCounters};
pub use custom_hosts::CustomHosts;
pub use discovery::{Discovery, HostSource};
pub use draft::Draft;
pub use guardrails::GuardrailSettings;
pub use jwt::Jwt;
pub use key_limits::KeyLimits;
pub use limits::Limits;
pub use listen::{CertificateSource, ClientAuthority, Emulator, Listen, Listener, ListenerTls};
pub use logs::Logs;
pub use mcp::McpSettings;
pub use metrics::{ClientLabel, MetricsSettings};
pub use model_entry::{ModelEntry, ModelRoute};
pub use model_names::ModelNames;
pub use model_pattern::{AllowedNames, ModelPattern};
pub use outbound::Outbound;
pub use prices::{CatalogueSource, PriceSettings};
pub use realtime::RealtimeSettings;
pub use reference::SecretSources;
pub use server::{Log, LogFormat, Server, UpstreamTls};
pub use service_key::ServiceKey;
pub use settings_source::SettingsSource;
pub use store_settings::StoreSettings;
pub use stored_provider::StoredProvider;
pub use telemetry::Telemetry;
pub use text::report;
pub use trusted_proxies::TrustedProxies;
pub use usage::UsageSettings;
pub use yaml::read as read_yaml;

use crate::config::members;
use crate::config::node::Node;
use crate::config::policies::{Policies, TimeLimits};
use crate::config::read::{Cursor, Problems};
use crate::config::{Checks, Config};
use crate::error::Problem;
use http::HeaderName;
use std::collections::BTreeMap;

/// All settings: the values of the file, and the defaults of those it does not give.
#[derive(Debug, Clone)]
pub struct Settings {
    pub server: Server,
    pub listen: Listen,
    pub acme: AcmeSettings,
    pub emulator: Emulator,
    pub console: ConsoleSettings,
    pub limits: Limits,
    /// The timeouts of targets whose config gives none.
    pub time_limits: TimeLimits,
    pub auth: Auth,
    pub store: StoreSettings,
    pub control: ControlSettings,
    pub usage: UsageSettings,
    pub guardrails: GuardrailSettings,
    pub realtime: RealtimeSettings,
    pub mcp: McpSettings,
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
    /// The names that work as `model`.
    pub models: ModelNames,
    pub custom_hosts: CustomHosts,
    pub outbound: Outbound,
    /// Lower-case, each ending in `-`.
    pub header_prefixes: Vec<String>,
    /// Which web pages may call; `None`: none may.
    pub cors: Option<Cors>,
    pub tls: UpstreamTls,
    pub access_log: AccessLog,
    pub log: Log,
    pub telemetry: Telemetry,
    pub metrics: MetricsSettings,
    /// The first twelve hex digits of the SHA-256 of the text as written, with references unresolved.
    pub hash: String,
    pub source: SettingsSource,
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
        let at = Cursor::root(node, problems);
        let settings = members::read(&at, |table| Self::members(table, checks))?;
        Some(Self { hash: text::hash(text), ..settings })
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

#[cfg(test)]
mod tests;
