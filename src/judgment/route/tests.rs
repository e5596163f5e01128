//! Tests of the plan, by tables and against a slow, obvious model of the rules.

mod failover;
mod least_busy;
mod model;
mod parameters;
mod prefix;
mod retries;
mod rows;

use super::compile::{Sources, compile};
use super::compiled::{CompiledConfig, TargetGroup};
use super::env::{RoutingEnv, TargetLoad};
use super::model_names::ModelNaming;
use super::outcome::Outcome;
use super::plan::{Decision, Plan};
use super::prefix_choice::{PrefixChoice, PrefixGroup};
use super::prompt_prefix::PromptPrefix;
use super::target::Target;
use http::HeaderMap;
use memory::net::outbound::custom_host::HostRules;
use memory::state::directory::Directory;
use memory::state::discovered_hosts::HostLists;
use memory::state::prefix_tables::PrefixTable;
use memory::state::stored::Stored;
use memory::state::targets::CircuitStatus;
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use words::config::Checks;
use words::config::balance::Sticky;
use words::config::headers::GatewayHeaders;
use words::config::query::Query;
use words::error::Error;
use words::settings::Settings;

/// A routing environment for tests.
pub(super) struct TestEnv {
    /// Random numbers, used in order; after the last one 0.5.
    randoms: Vec<f64>,
    /// Targets with an open circuit, by index path, and for how many seconds it has been open.
    open: HashMap<String, u64>,
    latency: HashMap<String, u64>,
    sticky_choice: Option<usize>,
    /// The members that were remembered for the client.
    remembered: RefCell<Vec<usize>>,
    matches: bool,
    now: Instant,
    /// The beginning of the request.
    prefix: Option<PromptPrefix>,
    /// Where beginnings were sent, made at the first choice by one.
    prefixes: OnceCell<PrefixTable>,
    /// By index path.
    loads: HashMap<String, TargetLoad>,
}

impl Default for TestEnv {
    fn default() -> Self {
        Self {
            randoms: Vec::new(),
            open: HashMap::new(),
            latency: HashMap::new(),
            sticky_choice: None,
            remembered: RefCell::default(),
            matches: false,
            now: Instant::now() + Duration::from_secs(100_000),
            prefix: None,
            prefixes: OnceCell::new(),
            loads: HashMap::new(),
        }
    }
}

impl TestEnv {
    /// Opens the circuit of a target, so many seconds ago.
    pub(super) fn opened(mut self, index: &str, ago: u64) -> Self {
        self.open.insert(index.to_owned(), ago);
        self
    }

    pub(super) fn measured(mut self, index: &str, ms: u64) -> Self {
        self.latency.insert(index.to_owned(), ms);
        self
    }

    /// Makes every condition hold.
    pub(super) fn matching(mut self) -> Self {
        self.matches = true;
        self
    }
}

impl RoutingEnv for TestEnv {
    fn random(&mut self) -> f64 {
        if self.randoms.is_empty() { 0.5 } else { self.randoms.remove(0) }
    }

    fn circuit(&self, target: &Target) -> CircuitStatus {
        match self.open.get(&target.path) {
            Some(ago) => CircuitStatus::Open { since: self.now - Duration::from_secs(*ago) },
            None => CircuitStatus::Closed,
        }
    }

    fn latency(&self, target: &Target) -> Option<Duration> {
        self.latency.get(&target.path).map(|ms| Duration::from_millis(*ms))
    }

    fn matches(&self, _: &Query) -> bool {
        self.matches
    }

    fn sticky_choice(&self, _: &TargetGroup, _: &Sticky) -> Option<usize> {
        self.sticky_choice
    }

    fn remember_choice(&self, _: &TargetGroup, _: &Sticky, member: usize) {
        self.remembered.borrow_mut().push(member);
    }

    fn prefix(&self) -> Option<&PromptPrefix> {
        self.prefix.as_ref()
    }

    fn find_prefix(&self, _: &PrefixGroup, blocks_of: &mut [u16]) {
        let table = self.prefixes.get_or_init(|| PrefixTable::new(self.now));
        table.find(self.prefix.as_ref().unwrap().blocks(), self.now, blocks_of);
    }

    fn prefix_chosen(&self, _: &PrefixGroup, choice: PrefixChoice) {
        let blocks = self.prefix.as_ref().unwrap().blocks();
        self.prefixes.get().unwrap().insert(blocks, choice.member, choice.ttl, self.now);
    }

    fn prefix_failed(&self, _: &PrefixGroup, member: usize) {
        self.prefixes.get().unwrap().remove(self.prefix.as_ref().unwrap().blocks(), member);
    }

    fn load(&self, target: &Target, _: Option<&str>) -> TargetLoad {
        self.loads.get(&target.path).copied().unwrap_or_default()
    }
}

/// Compiles a config.
pub(super) fn compiled(json: &str) -> Arc<CompiledConfig> {
    with_sources(json, |sources| Arc::new(compile(sources).unwrap()))
}

/// Does `work` with the sources of a request that has this config and default settings.
pub(super) fn with_sources<T>(json: &str, work: impl FnOnce(&Sources<'_>) -> T) -> T {
    let mut headers = HeaderMap::new();
    headers.insert("x-gateway-config", json.parse().unwrap());
    with_headers(&headers, work).unwrap()
}

/// Does `work` with the sources of a request that has these headers and default settings.
///
/// # Errors
/// That of a header that cannot be read.
pub(super) fn with_headers<T>(headers: &HeaderMap, work: impl FnOnce(&Sources<'_>) -> T) -> Result<T, Error> {
    let checks = Checks::NONE;
    let sources = words::settings::SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
    let settings = Settings::parse("", &sources, &checks).unwrap();
    let hosts = HostRules::new(&settings.custom_hosts);
    let stored = Stored::default();
    let gateway_headers = GatewayHeaders::read(headers, &settings.header_prefixes)?;
    let sources = Sources {
        settings: &settings,
        hosts: &hosts,
        directory: Directory {
            settings: &settings,
            stored: &stored,
            hosts_of: &HostLists::new(),
            workspace: None,
        },
        gateway_headers: &gateway_headers,
        provider_key: None,
        model_slug: None,
        names: ModelNaming::default(),
        prompt: None,
        object: None,
    };
    Ok(work(&sources))
}

/// A target in short form: a provider, a key and the given further fields.
pub(super) fn target(members: &str) -> String {
    let comma = if members.is_empty() { "" } else { "," };
    format!(r#"{{"provider":"openai","api_key":"k"{comma}{members}}}"#)
}

/// Runs a plan with these outcomes in turn. Gives the attempted targets as index paths; `!` means that the
/// plan returned the last result.
pub(super) fn run_plan(json: &str, outcomes: &[Outcome], env: &mut TestEnv) -> (Vec<String>, i32) {
    let mut plan = Plan::new(compiled(json), Some("asked".to_owned()));
    let (target, _) = plan.first(env).unwrap();
    let mut tried = vec![target.path.clone()];
    for outcome in outcomes {
        match plan.next(outcome, env) {
            Decision::Attempt { target, .. } => tried.push(target.path.clone()),
            Decision::Return => {
                tried.push("!".to_owned());
                break;
            }
        }
    }
    (tried, plan.retry_count())
}

/// Shortens `config.targets[0].targets[1]` to `0.1`, for readable tables.
pub(super) fn short(paths: &[String]) -> String {
    let one = |path: &String| {
        path.replace("config", "")
            .replace(".targets[", ".")
            .replace(']', "")
            .trim_start_matches('.')
            .to_owned()
    };
    paths.iter().map(one).collect::<Vec<_>>().join(" ")
}
