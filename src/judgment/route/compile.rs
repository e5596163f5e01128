//! Compiles the config of a request into callable targets.
//!
//! Decides the provider, the account and the address of each target, and rejects a client's
//! host combined with an operator's key, because the key would be sent to that host.

use super::admission::NamedObject;
use super::attempt::Request;
use super::compiled::{CompiledConfig, Member, Node, TargetGroup};
use super::config_hooks::{ConfigHooks, OwnHooks};
use super::group_strategy::group_strategy;
use super::host_group;
use super::model_names::{ModelConfig, ModelNaming, NearNames, is_named};
use super::prompt_call::PromptCall;
use super::provider_ref::{ProviderRef, provider_ref};
use super::resolved_provider::{ResolvedProvider, resolve};
use super::target::Target;
use super::target_prompt;
use knowledge::prompt::FoundPrompt;
use knowledge::provider::{self, Provider};
use memory::net::outbound::custom_host::HostRules;
use memory::net::outbound::origin::Origin;
use memory::state::directory::{DefinedIn, Directory, SavedName};
use memory::state::discovered_hosts::DiscoveredHost;
use memory::state::metrics::TargetSeries;
use memory::state::snapshot::SettingsSnapshot;
use memory::state::targets::TargetId;
use std::borrow::Cow;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};
use uuid::Uuid;
use words::config::account::Account;
use words::config::balance::BalanceBy;
use words::config::headers::GatewayHeaders;
use words::config::pattern::PatternBudget;
use words::config::policies::Policies;
use words::config::strategy::{Mode, Strategy};
use words::config::unused_keys;
use words::config::{Checks, Config};
use words::error::Error;
use words::json::write::push_number;
use words::settings::{DefaultConfig, ModelRoute, Settings};

/// Everything a config is compiled from.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    pub settings: &'a Settings,
    pub hosts: &'a HostRules,
    /// What the client may name.
    pub directory: Directory<'a>,
    pub gateway_headers: &'a GatewayHeaders<'a>,
    /// The provider's key that the client has sent.
    pub provider_key: Option<&'a str>,
    /// The `@slug` of the body's model.
    pub model_slug: Option<&'a str>,
    /// What the model names besides.
    pub names: ModelNaming<'a>,
    /// What the client called, where that was a prompt.
    pub prompt: Option<&'a PromptCall>,
    /// The file or batch that the request is about.
    pub object: Option<NamedObject<'a>>,
}

impl<'a> Sources<'a> {
    /// The sources of `request`, which the client sent with `gateway_headers` and `provider_key`.
    pub fn new(
        snapshot: &'a SettingsSnapshot,
        gateway_headers: &'a GatewayHeaders<'a>,
        provider_key: Option<&'a str>,
        request: &'a Request,
        workspace: Option<Uuid>,
    ) -> Self {
        let directory = snapshot.directory(workspace);
        let names = ModelNaming::find(directory, gateway_headers, request);
        Self {
            settings: &snapshot.settings,
            hosts: &snapshot.hosts,
            directory,
            gateway_headers,
            provider_key,
            model_slug: request.slug.as_deref().filter(|_| names.config.is_none()),
            names,
            prompt: request.prompt.as_deref(),
            object: NamedObject::of(request),
        }
    }

    /// The same; an unknown model is refused with names that are near it.
    #[must_use]
    pub fn with_near(mut self, near: NearNames<'a>) -> Self {
        self.names.near = Some(near);
        self
    }

    /// Whether the request's own config may have patterns, whose tables take time to make.
    pub fn may_have_patterns(&self) -> bool {
        // A backslash: any name may be written with escapes.
        let names = |text: &str| ["regex", "jsonSchema", "\\"].iter().any(|name| text.contains(name));
        let has_unmade = |config: &Config| !config.has_made_patterns();
        self.gateway_headers.config.is_some_and(names) || self.saved_config().is_some_and(has_unmade)
    }

    /// The saved config, or that of a name of models, which the request means.
    fn saved_config(&self) -> Option<&'a Config> {
        let find = |id: &str| self.directory.config(id).map(|(config, _)| config);
        if let Some(config) = self.names.config {
            return find(config.id);
        }
        match self.names.used.map(|used| &used.entry.route) {
            Some(ModelRoute::Saved(id)) => find(id),
            Some(ModelRoute::Inline(config)) => Some(config),
            _ => find(self.gateway_headers.config?),
        }
    }

    /// The cache key of the compiled config: every value it is compiled from. `None` when cloud credentials come
    /// in headers, and for the gateway's own requests; the config of such a request is compiled every time.
    pub fn key(&self, generation: u64) -> Option<String> {
        let gateway_headers = self.gateway_headers;
        if gateway_headers.account.is_some() {
            return None;
        }
        let policies = match &gateway_headers.policies {
            Some(policies) => Some(policies.cache_key()?),
            None => None,
        };
        let parts = [
            gateway_headers.config,
            gateway_headers.provider,
            gateway_headers.virtual_key,
            gateway_headers.custom_host,
            self.provider_key,
            self.model_slug,
        ];
        let length: usize = parts.iter().flatten().map(|part| part.len()).sum();
        let mut key = String::with_capacity(length + 64);
        for part in parts {
            // Absent and empty values differ. A line feed separates them, because no header value contains one.
            key.push_str(if part.is_some() { "+" } else { "-" });
            key.push_str(part.unwrap_or_default());
            key.push('\n');
        }
        if let Some(ModelConfig { id, has_model }) = self.names.config {
            key.push_str(if has_model { "@/" } else { "@" });
            key.push_str(id);
        }
        if let Some(used) = self.names.used {
            key.push_str(used.entry.name.as_str());
        }
        key.push('\n');
        // Lines of its own, up to an empty one.
        key.push_str(policies.unwrap_or_default());
        key.push('\n');
        if let Some(workspace) = self.directory.workspace {
            key.push_str(workspace.simple().encode_lower(&mut Uuid::encode_buffer()));
        }
        key.push('\n');
        if let Some(PromptCall { found, set, .. }) = self.prompt {
            // Writing into a String cannot fail.
            let _ = writeln!(key, "{}@{}", found.version.id, set.generation);
        }
        push_number(&mut key, generation);
        Some(key)
    }
}

/// A config and who wrote it: the operator's hosts and keys are treated differently from a client's.
struct ConfigSource<'a> {
    config: Cow<'a, Config>,
    by: Author,
    /// Its name, if it is saved.
    saved: Option<SavedName>,
    /// The id or slug it was found by, if it is saved.
    id: Option<String>,
}

impl ConfigSource<'_> {
    /// A config that is not saved.
    const fn unsaved(config: Config, by: Author) -> Self {
        Self { config: Cow::Owned(config), by, saved: None, id: None }
    }
}

/// Who wrote a config.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Author {
    /// In the settings.
    Operator,
    /// Somebody with a key of the control plane.
    Workspace,
    /// The client, for this request.
    Client,
}

impl Author {
    fn of(defined_in: DefinedIn) -> Self {
        match defined_in {
            DefinedIn::Settings => Self::Operator,
            DefinedIn::Store => Self::Workspace,
        }
    }
}

/// Compiles the config of a request.
///
/// # Errors
/// 400 with all problems of an inline config; 400 for unknown slugs, ids and providers.
pub fn compile(sources: &Sources<'_>) -> Result<CompiledConfig, Error> {
    compile_with(sources, Some(ConfigHooks::new(sources.directory)))
}

/// As [`compile`], for a request of the gateway's own: a model that a guardrail calls to judge would call itself by the guardrails of a config.
///
/// # Errors
/// As [`compile`].
pub fn compile_own(sources: &Sources<'_>, hooks: OwnHooks) -> Result<CompiledConfig, Error> {
    compile_with(sources, hooks.of(sources.directory))
}

fn compile_with(sources: &Sources<'_>, hooks: Option<ConfigHooks<'_>>) -> Result<CompiledConfig, Error> {
    let source = config_source(sources)?;
    target_prompt::check(&source.config, sources.prompt)?;
    let hash = fingerprint(sources);
    let config_name = source.id.unwrap_or_else(|| format!("inline-{:08x}", hash as u32));
    let config_warnings = unused_keys::find(&source.config, sources.prompt.is_some()).into();
    let by = source.by;
    let patterns = PatternBudget::default();
    let compiler = Compiler { sources, by, config_name, hash, config_warnings, hooks, patterns };
    let root = compiler.node(&source.config, &Policies::default(), None, "config".to_owned())?;
    let hook_bytes = compiler.hooks.map_or(Ok(0), ConfigHooks::finish)?;
    Ok(CompiledConfig::new(root, source.saved).with_hook_bytes(hook_bytes))
}

/// A hash of the values a config is compiled from; the state of its targets is stored under it.
fn fingerprint(sources: &Sources<'_>) -> u64 {
    let gateway_headers = sources.gateway_headers;
    let mut hasher = DefaultHasher::new();
    let parts = [
        gateway_headers.config,
        gateway_headers.provider,
        gateway_headers.virtual_key,
        gateway_headers.custom_host,
        sources.provider_key,
    ];
    let by_model = sources.names.config.map(|config| (config.id, config.has_model));
    let by_name = sources.names.used.map(|used| &used.entry.name);
    (parts, sources.model_slug, by_model, by_name, sources.directory.workspace).hash(&mut hasher);
    hasher.finish()
}

/// One compilation.
struct Compiler<'a> {
    sources: &'a Sources<'a>,
    by: Author,
    /// The config's name in metrics and on the control port.
    config_name: String,
    hash: u64,
    config_warnings: Arc<[String]>,
    /// `None`: hooks are left out.
    hooks: Option<ConfigHooks<'a>>,
    /// Counts the patterns of its conditions that are made now.
    patterns: PatternBudget,
}

impl Compiler<'_> {
    fn node(
        &self,
        config: &Config,
        inherited: &Policies,
        prompt: Option<&FoundPrompt>,
        path: String,
    ) -> Result<Node, Error> {
        let mut policies = config.policies.clone();
        policies.inherit(inherited);
        let prompt = target_prompt::resolve(config, self.sources.prompt, prompt);
        match &config.strategy {
            Some(strategy) if !config.targets.is_empty() => {
                let group = self.group(config, strategy, &policies, prompt.as_ref(), path)?;
                Ok(Node::Group(Box::new(group)))
            }
            _ => match self.hosts(config, prompt.as_ref()) {
                None => self.target(config, policies, prompt, path, None),
                Some((hosts, by)) => {
                    let mut members = Vec::with_capacity(hosts.len());
                    for host in hosts {
                        let node =
                            self.target(config, policies.clone(), prompt.clone(), path.clone(), Some(host))?;
                        members.push(Member::of_host(node, host.weight));
                    }
                    let group = host_group::of(config, by, members, path, &self.patterns)?;
                    Ok(Node::Group(Box::new(group)))
                }
            },
        }
    }

    /// `policies`: of its config, those that it inherits included. `host`: of its provider, where hosts were found.
    fn target(
        &self,
        config: &Config,
        policies: Policies,
        prompt: Option<FoundPrompt>,
        path: String,
        host: Option<&DiscoveredHost>,
    ) -> Result<Node, Error> {
        let sent = self.sources.gateway_headers.policies.as_ref();
        let mut own = sent.map(|sent| sent.policies().clone()).unwrap_or_default();
        own.inherit(&policies);
        Ok(Node::Target(Arc::new(compile_target(self, config, own, prompt, path, host)?)))
    }

    /// The hosts that were found of the provider that a target names.
    fn hosts(
        &self,
        config: &Config,
        prompt: Option<&FoundPrompt>,
    ) -> Option<(&'_ [DiscoveredHost], BalanceBy)> {
        let directory = self.sources.directory;
        if directory.hosts_of.is_empty() {
            return None;
        }
        // What the name of the model says of a provider is read of a copy: the target reads it again.
        let mut params = config.policies.override_params.clone();
        match provider_ref(self.sources, config, &mut params, prompt) {
            Ok(ProviderRef::Slug(slug)) => directory.hosts(&slug),
            // What is wrong with it is said where the target is compiled.
            Ok(ProviderRef::Plain(_)) | Err(_) => None,
        }
    }

    fn group(
        &self,
        config: &Config,
        strategy: &Strategy,
        policies: &Policies,
        prompt: Option<&FoundPrompt>,
        path: String,
    ) -> Result<TargetGroup, Error> {
        let mut members = Vec::with_capacity(config.targets.len());
        // `single` uses only the first target, so the others are not compiled and may be invalid.
        let used_count = if strategy.mode == Mode::Single { 1 } else { config.targets.len() };
        for (number, target) in config.targets.iter().take(used_count).enumerate() {
            let price = target.price.map_or(f64::INFINITY, |price| price.input + price.output);
            let node = self.node(target, policies, prompt, format!("{path}.targets[{number}]"))?;
            let member = Member {
                node,
                name: target.name.clone(),
                weight: target.weight.unwrap_or(1.0),
                price,
                on_status_codes: target.on_status_codes.clone().or_else(|| config.on_status_codes.clone()),
                for_errors: target.for_errors.clone(),
            };
            match strategy.mode {
                // It chooses among the hosts of a provider itself.
                Mode::LoadBalance => host_group::spread(member, &mut members),
                _ => members.push(member),
            }
        }
        Ok(TargetGroup {
            strategy: group_strategy(strategy, &members, &path, &self.patterns)?,
            path,
            on_status_codes: strategy.on_status_codes.clone(),
            on_errors: strategy.on_errors.clone(),
            hedge: config.hedge,
            is_of_hosts: false,
            marks: host_group::marks(&members),
            members,
        })
    }
}

impl Compiler<'_> {
    /// The id under which the process keeps the target's state.
    fn target_id(
        &self,
        provider: &'static str,
        path: &str,
        slug: Option<&str>,
        policies: &Policies,
    ) -> TargetId {
        let model = policies.override_params.iter().find(|(name, _)| name == "model");
        TargetId {
            config: self.config_name.clone(),
            index: path.to_owned(),
            provider,
            slug: slug.map(str::to_owned),
            model: model.and_then(|(_, json)| serde_json::from_str(json).ok()),
            hash: self.hash,
        }
    }
}

/// The config a request contains or names, or else the default config; an empty one when headers name the provider.
fn config_source<'a>(sources: &Sources<'a>) -> Result<ConfigSource<'a>, Error> {
    let gateway_headers = sources.gateway_headers;
    if let Some(config) = sources.names.config {
        return saved(sources, config.id);
    }
    if let Some(used) = sources.names.used {
        match &used.entry.route {
            ModelRoute::Saved(id) => return saved(sources, id),
            ModelRoute::Inline(config) => {
                let id = Some(format!("models.{}", used.entry.name));
                let by = Author::of(used.defined_in);
                return Ok(ConfigSource { config: Cow::Borrowed(config), by, saved: None, id });
            }
            ModelRoute::Provider(_) => {}
        }
    }
    let Some(text) = gateway_headers.config else {
        let no_provider_named = !is_named(gateway_headers) && sources.model_slug.is_none();
        let prompt_names_one =
            || sources.prompt.is_some_and(|call| call.found.version.virtual_key().is_some());
        return match &sources.settings.default_config {
            Some(DefaultConfig::Saved(id)) if no_provider_named => saved(sources, id),
            Some(DefaultConfig::Slug(slug)) if no_provider_named && !prompt_names_one() => {
                let config = Config { provider: Some(format!("@{slug}")), ..Config::default() };
                Ok(ConfigSource::unsaved(config, Author::Operator))
            }
            _ => Ok(ConfigSource::unsaved(Config::default(), Author::Client)),
        };
    };
    if !text.trim_start().starts_with('{') {
        return saved(sources, text);
    }
    let custom_host = |host: &str| {
        let origin = Origin::parse(host, false)?;
        sources.hosts.check_name(&origin)
    };
    let checks = Checks {
        provider: &provider::check_name,
        account: &provider::check_account,
        custom_host: &custom_host,
        ..Checks::NONE
    };
    let config = Config::from_json(text.as_bytes(), &checks)
        .map_err(|problems| Error::invalid_config("x-gateway-config", problems))?;
    Ok(ConfigSource::unsaved(config, Author::Client))
}

fn saved<'a>(sources: &Sources<'a>, id: &str) -> Result<ConfigSource<'a>, Error> {
    let found = sources.directory.config(id).map(|(config, defined_in)| {
        let by = Author::of(defined_in);
        let name = sources.directory.config_name(id);
        ConfigSource { config: Cow::Borrowed(config), by, saved: Some(name), id: Some(id.to_owned()) }
    });
    found.ok_or_else(|| {
        let message = format!(
            "Invalid config id passed: there is no saved config {id:?}. Send a JSON object, or an id from \
             the settings' `configs` or the workspace's saved configs."
        );
        Error::bad_request(message).with_param("x-gateway-config").with_unknown_name(id)
    })
}

/// Compiles one target: resolves its provider, account, address and policies.
fn compile_target(
    compiler: &Compiler<'_>,
    config: &Config,
    mut policies: Policies,
    prompt: Option<FoundPrompt>,
    path: String,
    host: Option<&DiscoveredHost>,
) -> Result<Target, Error> {
    let path = host.map_or(path.clone(), |host| format!("{path}.hosts[{}]", host.authority));
    let sources = compiler.sources;
    let by = compiler.by;
    let by_operator = by == Author::Operator;
    let resolved = resolve(sources, config, &mut policies, prompt.as_ref(), &path)?;
    let ResolvedProvider { provider, mut account, slug, is_trusted, models, allowed } = resolved;
    if let Some(host) = host {
        account.custom_host = Some(host.base.clone());
    }
    let client_host = client_host(compiler, config, &policies, slug.is_some())?;
    // Only an operator's account may use the machine's identity. A saved config that leaves the provider to a header
    // leaves the account to it as well, so that account is not the operator's.
    let operators_account = is_trusted || (by_operator && config.provider.is_some());
    let by_operator_alone = operators_account && client_host.is_none();
    // A host of the client's goes with no key but the client's; one without a key may be the operator's, which custom_hosts.allow opens.
    let is_named = client_host.is_some() && (by == Author::Client || client_host != policies.custom_host);
    let is_clients_own = is_named && account.holds_secret();
    let origin = match client_host {
        Some(host) => {
            let origin = client_origin(sources, &host)?;
            account.custom_host = Some(host);
            origin
        }
        // The host of a workspace's provider is checked as a client's is.
        None if slug.is_some() && !is_trusted && account.custom_host.is_some() => {
            client_origin(sources, account.custom_host.as_deref().unwrap_or_default())?
        }
        None => provider_origin(provider, &mut account, policies.custom_host.take())?,
    };
    policies.inherit(&sources.settings.policies());
    check_model(sources, &policies, &path)?;
    let hooks = compiler.hooks.as_ref().map(|hooks| hooks.of_target(&policies)).unwrap_or_default();
    let own_prices = slug.as_deref().and_then(|slug| sources.directory.own_prices(slug)).cloned();
    Ok(Target {
        own_prices,
        config_warnings: Arc::clone(&compiler.config_warnings),
        id: compiler.target_id(provider.id(), &path, slug.as_deref(), &policies),
        state: OnceLock::new(),
        layers: OnceLock::new(),
        policies,
        path,
        provider,
        ids: slug.as_deref().map(|slug| sources.directory.provider_ids(slug)).unwrap_or_default(),
        slug,
        host: host.cloned().map(Box::new),
        prompt,
        api: None,
        by_model_name: sources.names.is_config(),
        model_config: sources.names.config_before_model(),
        origin,
        hooks,
        account,
        models,
        allowed,
        is_clients_own,
        operator_account: by_operator_alone,
        series: TargetSeries::default(),
        index_header: OnceLock::new(),
        auth: OnceLock::new(),
        token_exchange: OnceLock::new(),
    })
}

/// The host that a client, or the author of a workspace's config, has named; `None`: the provider's own or the operator's.
///
/// # Errors
/// 400 where it would meet a key that is not theirs.
fn client_host(
    compiler: &Compiler<'_>,
    config: &Config,
    policies: &Policies,
    has_slug: bool,
) -> Result<Option<String>, Error> {
    let headers = compiler.sources.gateway_headers;
    let account = headers.account.as_ref().filter(|_| !has_slug && config.provider.is_none());
    let vendor_host = account.and_then(|account| account.custom_host.as_deref());
    let header_host = headers.custom_host.or(vendor_host);
    let of_config = policies.custom_host.as_deref().filter(|_| compiler.by != Author::Operator);
    // A host in a workspace's config goes with a key in the same config, and with no stored one.
    let is_saved = header_host.is_some() && compiler.by != Author::Client;
    let operator_key = has_slug || (is_saved && config.account.holds_secret());
    let host = header_host.or(of_config);
    match host {
        Some(_) if operator_key => Err(Error::bad_request(
            "A custom host cannot be combined with a stored provider or a saved key: the key would be sent to a host its \
             owner did not name. Send the provider's own key, or have the operator store the host.",
        )
        .with_param("custom_host")),
        host => Ok(host.map(str::to_owned)),
    }
}

/// A config whose name alone stands for a model must name the model of each target.
fn check_model(sources: &Sources<'_>, policies: &Policies, path: &str) -> Result<(), Error> {
    let Some(ModelConfig { id, has_model: false }) = sources.names.config else { return Ok(()) };
    if policies.override_params.iter().any(|(name, _)| name == "model") {
        return Ok(());
    }
    let message = format!(
        "The config @{id} names no model at {path} (override_params.model), so its name alone is none. Send the \
         model as @{id}/MODEL."
    );
    Err(Error::invalid_request("model", message))
}

/// The origin of a host the client named: checked here by name, and again by its addresses once they are resolved.
fn client_origin(sources: &Sources<'_>, host: &str) -> Result<Origin, Error> {
    let origin = Origin::parse(host, false);
    let checked = origin.and_then(|origin| sources.hosts.check_name(&origin).map(|()| origin));
    checked.map_err(|why| {
        let why = why.strip_prefix("Invalid custom host: ").unwrap_or(&why);
        Error::bad_request(format!("Invalid custom host: {why}")).with_param("x-gateway-custom-host")
    })
}

/// The origin of the provider: the address the operator stored, or else the provider's own.
fn provider_origin(
    provider: &'static dyn Provider,
    account: &mut Account,
    operators_host: Option<String>,
) -> Result<Origin, Error> {
    if account.custom_host.is_none() {
        account.custom_host = operators_host;
    }
    let base = match &account.custom_host {
        Some(host) => Cow::Owned(host.clone()),
        None => provider.base_url(account)?,
    };
    Origin::parse(&base, true).map_err(|why| Error::internal(format!("base URL {base:?}: {why}")))
}
