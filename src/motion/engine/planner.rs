//! Plans a request: finds its config, checks it against that, picks the first target and holds what the request may use of its limits.
//!
//! The steps of admission after the body is there, the same for every client: a connection of the data port, or a line of a batch.
//! Reads nothing from a connection; which requests may come this far is decided in `route::admission`.

use super::caching::CacheHeaders;
use super::limit_holds::reserve_request;
use super::named::LogHeaders;
use super::orchestrator::Admitted;
use super::payload_capture::PayloadCapture;
use super::prepare::prepare;
use super::request_context::RequestContext;
use super::request_env::RequestEnv;
use super::{Engine, limit_advance};
use judgment::route::admission::key_rules::KeyRules;
use judgment::route::attempt::{Attempt, Request};
use judgment::route::compile::Sources;
use judgment::route::compiled::CompiledConfig;
use judgment::route::config_cache::ConfigCache;
use judgment::route::model_names::{ModelNamer, NearNames};
use judgment::route::plan::{Plan, Reason};
use judgment::route::prompt_prefix::PromptPrefix;
use judgment::route::request_snapshot::RequestSnapshot;
use judgment::route::target::Target;
use memory::auth;
use memory::limits::AdvanceEstimate;
use memory::state::large_work;
use memory::state::snapshot::SettingsSnapshot;
use pingora::http::RequestHeader;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use words::config::headers::GatewayHeaders;
use words::error::Error;
use words::settings::logs::Payloads;

/// How many patterns are matched in place; a pattern and the longest value take 0.2 ms.
const PATTERNS_IN_PLACE: usize = 32;

/// The warning for `x-gateway-ignore-service-log` where the settings forbid it.
const LOG_IS_KEPT: &str = "ignore-service-log has no effect: logs.allow_ignore is false";

/// Plans requests for one engine, with the compiled configs of all.
#[derive(Clone)]
pub struct Planner {
    pub engine: Arc<Engine>,
    configs: ConfigCache,
}

/// The plan of a request, what it looks at, its first target, and its first attempt, if it is made at admission.
pub struct Planned {
    plan: Plan,
    env: RequestEnv,
    first: (Arc<Target>, Reason),
    prepared: Option<Box<Attempt>>,
}

impl Planned {
    /// Whether the first target takes the request, where its attempt is not made yet.
    ///
    /// # Errors
    /// Those of an attempt that cannot be made.
    pub async fn check(
        &self,
        engine: &Engine,
        request: &Request,
        ctx: &mut RequestContext,
    ) -> Result<(), Error> {
        match self.prepared {
            Some(_) => Ok(()),
            None => prepare(&engine.shared, &self.first.0, request, &mut ctx.load.held).await.map(drop),
        }
    }

    /// The request with its plan, ready to run.
    pub fn admit(self, request: Request) -> Box<Admitted> {
        let Self { plan, env, first, prepared } = self;
        Box::new(Admitted { plan, request, env, first, prepared })
    }
}

impl Planner {
    /// Whether providers are requested to report the usage of a stream: limits count what they report, whatever the settings say.
    pub fn requests_stream_usage(&self, snapshot: &SettingsSnapshot) -> bool {
        snapshot.settings.usage.stream_usage || self.engine.limits.in_force(snapshot).counts_usage()
    }

    pub const fn new(engine: Arc<Engine>, configs: ConfigCache) -> Self {
        Self { engine, configs }
    }

    /// The compiled config of a request with this header, against which the request is checked.
    ///
    /// # Errors
    /// 400 for headers, a config or a body that are wrong, or that the client's key forbids; 404 for what is named and not there.
    pub async fn config(
        &self,
        header: &RequestHeader,
        ctx: &mut RequestContext,
        request: &mut Request,
    ) -> Result<Arc<CompiledConfig>, Error> {
        let config = self.find_config(header, ctx, request).await?;
        ctx.api.operation = request.operation;
        ctx.record.capture = self.capture(ctx, request);
        let size = request.body.as_ref().map_or(0, |body| body.bytes().len());
        self.engine.shared.large_work.run(size, || request.check(&config)).await?;
        Ok(config)
    }

    /// Picks the first target and reserves what the request may use. `at_once`: the first attempt is made now, so that its errors are
    /// refusals like any other.
    ///
    /// # Errors
    /// 412 and 429 of limits, and those of a first attempt that cannot be made.
    pub async fn plan(
        &self,
        header: &RequestHeader,
        ctx: &mut RequestContext,
        request: &mut Request,
        config: Arc<CompiledConfig>,
        at_once: bool,
    ) -> Result<Planned, Error> {
        request.learned = Some(self.engine.shared.learned_forms.of(ctx.workspace()));
        let mut env = self.env(header, ctx, &config, request);
        let mut plan = Plan::new(Arc::clone(&config), request.model.clone());
        let first = self.first_target(&config, &mut plan, &mut env, request).await?;
        if let Some(prefix) = env.prefix.as_ref().filter(|_| config.marks_by_use()) {
            request.pauses = self.engine.shared.sent_prompts.note_turn(prefix.first_part(), Instant::now());
        }
        if ctx.offline.given.is_some() || ctx.offline.is_sent_once {
            plan.set_last();
        }
        reserve_request(&self.engine, ctx, request, &config, &first.0).await?;
        let prepared = if at_once {
            Some(prepare(&self.engine.shared, &first.0, request, &mut ctx.load.held).await?)
        } else {
            None
        };
        Ok(Planned { plan, env, first, prepared })
    }

    /// Adds what a request is expected to use to what its batch holds of budgets.
    ///
    /// # Errors
    /// As [`Planner::config`].
    pub(super) async fn add_to_advance(
        &self,
        header: &RequestHeader,
        ctx: &mut RequestContext,
        request: &mut Request,
        sum: &mut AdvanceEstimate,
    ) -> Result<(), Error> {
        let config = self.find_config(header, ctx, request).await?;
        request.check(&config)?;
        let mut env = self.env(header, ctx, &config, request);
        let mut plan = Plan::new(Arc::clone(&config), request.model.clone());
        let (target, _) = self.first_target(&config, &mut plan, &mut env, request).await?;
        limit_advance::add(&self.engine, ctx, request, &config, &target, sum);
        Ok(())
    }

    /// The plan's first target. Many patterns are matched on a thread for large work, and a long body is read there for its beginning.
    async fn first_target(
        &self,
        config: &CompiledConfig,
        plan: &mut Plan,
        env: &mut RequestEnv,
        request: &Request,
    ) -> Result<(Arc<Target>, Reason), Error> {
        let work = if config.patterns().count > PATTERNS_IN_PLACE { large_work::PATTERNS } else { 0 };
        let read = Some(request).filter(|_| config.uses_prefix());
        let bytes = read.and_then(|request| request.body.as_ref()).map_or(0, |body| body.bytes().len());
        let choose = || {
            env.prefix = read.and_then(PromptPrefix::of).map(Box::new);
            plan.first(env)
        };
        let first = self.engine.shared.large_work.run(work.max(bytes), choose).await;
        first.ok_or_else(|| Error::internal("a config without a target"))
    }

    /// What keeps the bodies of a request, where the operator wants them in logs or spans and the client does not refuse it.
    pub(super) fn capture(&self, ctx: &RequestContext, request: &Request) -> Option<Box<PayloadCapture>> {
        let shared = &self.engine.shared;
        let logs = &ctx.snapshot.settings.logs;
        let of_key = ctx.record.client.as_ref().and_then(|client| client.defaults.log_payloads);
        let is_refused = ctx.record.named.log.as_ref().is_some_and(|log| log.is_ignored || log.has_no_bodies);
        if is_refused || of_key == Some(Payloads::Off) {
            return None;
        }
        let is_logged = of_key.unwrap_or(logs.payloads) != Payloads::Off && shared.ledger().is_some();
        let for_spans = shared.spans.get().and_then(|queue| {
            queue
                .max_payload_bytes()
                .filter(|_| queue.sampled(ctx.span.parent.as_ref(), &ctx.span.trace_id).is_some())
        });
        let max_bytes = for_spans.max(is_logged.then_some(logs.max_payload_bytes))?;
        let body = request.body.as_ref().map(|body| body.bytes());
        Some(Box::new(PayloadCapture::new(body, max_bytes, shared.held_bytes.holder())))
    }

    /// What the plan may look at.
    fn env(
        &self,
        header: &RequestHeader,
        ctx: &RequestContext,
        config: &CompiledConfig,
        request: &Request,
    ) -> RequestEnv {
        let request_snapshot = config.uses_facts().then(|| {
            Box::new(RequestSnapshot {
                snapshot: Arc::clone(&ctx.snapshot),
                headers: header.headers.clone(),
                metadata: ctx.record.named.metadata.as_ref().map(|metadata| metadata.get().to_owned()),
                pathname: header.uri.path().to_owned(),
                body: request.body_for_facts(),
            })
        });
        RequestEnv {
            shared: Arc::clone(&self.engine.shared),
            client: ctx.record.client.clone(),
            request: request_snapshot,
            prefix: None,
            turn: OnceLock::new(),
        }
    }

    /// The compiled config: from the cache, or compiled now. The request takes what its model names, and is not checked against the config.
    pub async fn find_config(
        &self,
        header: &RequestHeader,
        ctx: &mut RequestContext,
        request: &mut Request,
    ) -> Result<Arc<CompiledConfig>, Error> {
        let snapshot = &ctx.snapshot;
        let mut gateway_headers = GatewayHeaders::read(&header.headers, &snapshot.settings.header_prefixes)?;
        let client = ctx.record.client.clone().unwrap_or_else(|| snapshot.service_keys.anonymous());
        let rules = KeyRules::new(&client, snapshot);
        let has_key_default = rules.apply(&mut gateway_headers, |name| {
            snapshot.directory(client.workspace).config(name).is_some()
        })?;
        let namer = ModelNamer { snapshot, client: &client, headers: &gateway_headers, has_key_default };
        ctx.record.named.requested_model = request.requested_model().map(Cow::into_owned);
        request.take_names(&namer)?;
        ctx.record.named.metadata =
            rules.metadata(&gateway_headers).and_then(|text| RawValue::from_string(text.into_owned()).ok());
        let may_ignore = snapshot.settings.logs.allow_ignore;
        ctx.record.named.log = LogHeaders::of(&gateway_headers, may_ignore);
        if gateway_headers.ignore_service_log && !may_ignore {
            request.warnings.push(LOG_IS_KEPT.to_owned());
        }
        ctx.record.named.cache = CacheHeaders::of(&gateway_headers);
        let provider_key = auth::provider_key(&header.headers, &header.uri, &snapshot.service_keys)?;
        let near = NearNames { snapshot, client: &client, lists: &self.engine.shared.model_lists };
        let sources =
            Sources::new(snapshot, &gateway_headers, provider_key.as_deref(), request, ctx.workspace())
                .with_near(near);
        let key = sources.key(snapshot.routing_generation());
        if let Some(config) = self.configs.find(key.as_deref()) {
            return Ok(config);
        }
        let work = if sources.may_have_patterns() { large_work::PATTERNS } else { 0 };
        self.engine.shared.large_work.run(work, || self.configs.compile(&sources, key)).await
    }
}
