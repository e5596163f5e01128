//! The plan held against tables and against a slow, obvious model of the rules.

mod model;
mod retries;
mod rows;

use super::compile::{Sources, compile};
use super::leaf::Leaf;
use super::outcome::Outcome;
use super::plan::{Plan, Step};
use super::tree::{Group, Tree};
use super::world::World;
use crate::config::Checks;
use crate::config::balance::Sticky;
use crate::config::headers::GatewayHeaders;
use crate::config::query::Query;
use crate::net::custom_host::HostRules;
use crate::settings::Settings;
use crate::state::targets::Standing;
use http::HeaderMap;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A world made up for a test.
pub(super) struct Made {
    /// Chance, used up in order; then a half.
    draws: Vec<f64>,
    /// Targets whose circuit is open, by index path, and for how many seconds.
    open: HashMap<String, u64>,
    latency: HashMap<String, u64>,
    stuck: Option<usize>,
    holds: bool,
    now: Instant,
}

impl Default for Made {
    fn default() -> Self {
        Self {
            draws: Vec::new(),
            open: HashMap::new(),
            latency: HashMap::new(),
            stuck: None,
            holds: false,
            now: Instant::now() + Duration::from_secs(100_000),
        }
    }
}

impl Made {
    pub(super) fn now(&self) -> Instant {
        self.now
    }

    /// A target whose circuit has been open for so many seconds.
    pub(super) fn opened(mut self, index: &str, ago: u64) -> Self {
        self.open.insert(index.to_owned(), ago);
        self
    }

    pub(super) fn measured(mut self, index: &str, ms: u64) -> Self {
        self.latency.insert(index.to_owned(), ms);
        self
    }

    /// Every condition holds.
    pub(super) fn holding(mut self) -> Self {
        self.holds = true;
        self
    }
}

impl World for Made {
    fn draw(&mut self) -> f64 {
        if self.draws.is_empty() { 0.5 } else { self.draws.remove(0) }
    }

    fn standing(&self, leaf: &Leaf) -> Standing {
        match self.open.get(&leaf.index) {
            Some(ago) => Standing::Open { since: self.now - Duration::from_secs(*ago) },
            None => Standing::Closed,
        }
    }

    fn latency(&self, leaf: &Leaf) -> Option<Duration> {
        self.latency.get(&leaf.index).map(|ms| Duration::from_millis(*ms))
    }

    fn holds(&self, _: &Query) -> bool {
        self.holds
    }

    fn stuck(&self, _: &Group, _: &Sticky) -> Option<usize> {
        self.stuck
    }

    fn stick(&self, _: &Group, _: &Sticky, _: usize) {}
}

/// Compiles a config.
pub(super) fn tree(json: &str) -> Arc<Tree> {
    let checks = Checks { provider: &|_| Ok(()), account: &|_, _| Ok(()), custom_host: &|_| Ok(()) };
    let sources = crate::settings::SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
    let settings = Settings::parse("", &sources, &checks).unwrap();
    let hosts = HostRules::new(&settings.custom_hosts);
    let mut headers = HeaderMap::new();
    headers.insert("x-gateway-config", json.parse().unwrap());
    let asked = GatewayHeaders::read(&headers, &settings.header_prefixes).unwrap();
    let sources =
        Sources { settings: &settings, hosts: &hosts, asked: &asked, bearer: None, model_slug: None };
    Arc::new(compile(&sources).unwrap())
}

/// A target in short: a provider with a key and what else is said of it.
pub(super) fn target(more: &str) -> String {
    let comma = if more.is_empty() { "" } else { "," };
    format!(r#"{{"provider":"openai","api_key":"k"{comma}{more}}}"#)
}

/// Walks a plan: each outcome in turn, and what was tried, as index paths; `!` where the plan kept the last.
pub(super) fn walk(json: &str, outcomes: &[Outcome], world: &mut Made) -> (Vec<String>, i32) {
    let mut plan = Plan::new(tree(json), Some("asked".to_owned()));
    let (leaf, _) = plan.first(world).unwrap();
    let mut tried = vec![leaf.index.clone()];
    for outcome in outcomes {
        match plan.next(outcome, world) {
            Step::Try { leaf, .. } => tried.push(leaf.index.clone()),
            Step::Keep => {
                tried.push("!".to_owned());
                break;
            }
        }
    }
    (tried, plan.retries())
}

/// `config.targets[0].targets[1]` as `0.1`, for tables one can read.
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
