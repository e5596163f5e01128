//! A target ready to be called: its provider, account and address are resolved.
//!
//! Made by `compile` once per config and used by every attempt at it.

use crate::guard::TargetHooks;
use http::{HeaderMap, HeaderValue};
use knowledge::price::{OwnPrices, Rating, RequestPrices};
use knowledge::prompt::FoundPrompt;
use knowledge::provider::engine_metrics::EngineReading;
use knowledge::provider::token_exchange::TokenExchange;
use knowledge::provider::{Call, Provider};
use memory::net::outbound::origin::Origin;
use memory::state::directory::ProviderIds;
use memory::state::discovered_hosts::DiscoveredHost;
use memory::state::drained_providers::DrainedProviders;
use memory::state::engine_loads::EngineLoads;
use memory::state::metrics::TargetSeries;
use memory::state::targets::{TargetId, TargetState};
use std::any::Any;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use words::api::openapi::tool::ApiTool;
use words::api::operation::Operation;
use words::config::account::Account;
use words::config::policies::{Policies, TimeLimits, TtlRule};
use words::error::Error;
use words::settings::{AllowedModels, AllowedNames};

/// One callable target.
#[derive(Debug)]
pub struct Target {
    /// Its place in the config, for example `config` or `config.targets[1]`.
    pub path: String,
    pub provider: &'static dyn Provider,
    /// The slug of the stored provider it names, without the `@`.
    pub slug: Option<String>,
    /// The host of that provider that was found (`discover`), and this is a target at.
    pub host: Option<Box<DiscoveredHost>>,
    /// The records of that provider.
    pub ids: ProviderIds,
    /// The saved config whose name stands before the model in the request (`@config/model`).
    pub model_config: Option<String>,
    /// The prompt that is rendered for it, where the client called one.
    pub prompt: Option<FoundPrompt>,
    /// The operation of an API that a call of it is.
    pub api: Option<Arc<ApiTool>>,
    pub account: Account,
    /// The prices that its stored provider has of its own.
    pub own_prices: Option<Arc<OwnPrices>>,
    /// The models that may be used through its stored provider; `None`: all.
    pub models: Option<Arc<AllowedModels>>,
    /// The same by patterns.
    pub allowed: Option<AllowedNames>,
    /// The config was chosen by the name of the model: an entry of `models`, or `@config`.
    pub by_model_name: bool,
    pub origin: Origin,
    /// The hooks and guardrails of its config, compiled.
    pub hooks: TargetHooks,
    /// Its own and inherited policies, including those of the stored provider, the settings and the request headers.
    pub policies: Policies,
    pub id: TargetId,
    /// Warnings about its config: the same for all of its targets.
    pub config_warnings: Arc<[String]>,
    /// The process's state of this target, looked up once.
    pub state: OnceLock<Arc<TargetState>>,
    /// The client named its host and sent its key: it costs nobody else anything.
    pub is_clients_own: bool,
    /// Whether the operator wrote the account and no client named its host: only then may it use the machine's own
    /// identity.
    pub operator_account: bool,
    /// The engine's layers around attempts at this target, looked up once; opaque to routing.
    pub layers: OnceLock<Box<dyn Any + Send + Sync>>,
    /// The series its requests are counted in.
    pub series: TargetSeries,
    /// [`Target::path`] as a header value.
    pub(super) index_header: OnceLock<HeaderValue>,
    /// The auth headers of the first operation requested; a target is nearly always used for one operation.
    pub(super) auth: OnceLock<(Operation, Arc<HeaderMap>)>,
    /// The token exchange its calls need, looked up once.
    pub(super) token_exchange: OnceLock<Option<Arc<dyn TokenExchange>>>,
}

impl Target {
    /// Whether the marks of its prompts are set for a time that depends on the pauses of the conversation (`prompt_cache.ttl: auto`).
    pub fn marks_by_use(&self) -> bool {
        self.policies.auto_marks() == Some(TtlRule::ByUse)
    }

    /// Whether its config has no retries, timeouts or breaker: one attempt is made, and it is not watched.
    pub(crate) fn has_no_policies(&self) -> bool {
        self.policies.retry().attempts == 0
            && self.policies.request_timeout.is_none()
            && self.policies.breaker.is_none()
            && self.policies.time_limits == TimeLimits::default()
    }

    /// What its model server says of its load, if it is one that is read.
    pub fn engine_reading(&self, loads: &EngineLoads, now: Instant) -> Option<Arc<EngineReading>> {
        self.policies.engine.as_ref()?;
        loads.get(self.ids.provider.unwrap_or_default(), self.server()?, now)
    }

    /// What the state of a server is kept under: the slug of its stored provider, or the name of its host among others of this provider.
    pub(crate) fn server(&self) -> Option<&str> {
        self.host.as_ref().map(|host| &*host.name).or(self.slug.as_deref())
    }

    /// Since when its stored provider is drained, if it is; one that warms up is for some requests. `turn`: a number of the request, at least
    /// 0 and below 1.
    pub fn drained_since(&self, drained: &DrainedProviders, turn: f64, now: Instant) -> Option<Instant> {
        let record = self.ids.provider.unwrap_or_default();
        // A host may be drained alone, or with its provider.
        let names = [self.host.as_ref().map(|host| &*host.name), self.slug.as_deref()];
        let found = names.into_iter().flatten().filter_map(|name| drained.get(record, name, now));
        let passed_over = found.filter(|drained| turn >= drained.share(now));
        passed_over.map(|drained| drained.since).min()
    }

    /// What a model costs here.
    pub fn rating(&self, prices: &RequestPrices, model: &str) -> Rating {
        if self.is_clients_own {
            return Rating::Free;
        }
        prices.rating(self.provider.id(), model, self.own_prices.as_deref())
    }

    /// # Errors
    /// 412 for a model that its integration does not allow.
    pub(crate) fn check_model(&self, model: Option<&str>) -> Result<(), Error> {
        match (&self.models, model) {
            (Some(models), Some(model)) if !models.allows(model) => {
                Err(Error::model_not_allowed(model, self.slug.as_deref().unwrap_or_default()))
            }
            _ => Ok(()),
        }
    }

    /// The provider's auth headers for a call.
    ///
    /// # Errors
    /// As [`Provider::authorize`].
    pub fn auth(&self, call: &Call<'_>) -> Result<Arc<HeaderMap>, Error> {
        let cacheable = call.operation != Operation::Passthrough && !self.provider.auth_varies();
        match self.auth.get() {
            Some((operation, auth)) if cacheable && *operation == call.operation => {
                return Ok(Arc::clone(auth));
            }
            _ => {}
        }
        let mut auth = HeaderMap::new();
        self.provider.authorize(call, &self.account, &mut auth)?;
        let auth = Arc::new(auth);
        let _ = self.auth.set((call.operation, Arc::clone(&auth)));
        Ok(auth)
    }

    /// The token exchange that is needed before calls can be authorized.
    ///
    /// # Errors
    /// As [`Provider::token_exchange`].
    pub fn token_exchange(&self) -> Result<Option<Arc<dyn TokenExchange>>, Error> {
        if let Some(token_exchange) = self.token_exchange.get() {
            return Ok(token_exchange.clone());
        }
        let token_exchange = self.provider.token_exchange(&self.account)?;
        Ok(self.token_exchange.get_or_init(|| token_exchange).clone())
    }

    /// Whether attempts at it need a fetched token or a signature.
    pub fn needs_credentials(&self) -> bool {
        self.provider.signs(&self.account) || !matches!(self.token_exchange(), Ok(None))
    }

    /// Its place in the config as a header value. Names of keys and indexes are always valid there.
    pub fn index_header(&self) -> HeaderValue {
        let make =
            || HeaderValue::from_str(&self.path).unwrap_or_else(|_| HeaderValue::from_static("config"));
        self.index_header.get_or_init(make).clone()
    }

    /// The provider's name in a message to the client. The address of a stored provider is not disclosed.
    pub fn display_name(&self) -> String {
        match &self.slug {
            Some(slug) => format!("@{slug}"),
            None => format!("{} at {}", self.provider.id(), self.origin.authority()),
        }
    }

    /// The model `override_params` sets, if it is a string without escapes.
    pub fn model(&self) -> Option<&str> {
        let (_, value) = self.policies.override_params.iter().find(|(name, _)| name == "model")?;
        value.strip_prefix('"')?.strip_suffix('"').filter(|text| !text.contains('\\'))
    }
}
