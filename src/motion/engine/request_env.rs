//! What a plan may look at for one request: random numbers, the state of targets, and the request's facts.
//!
//! Decides nothing; the plan (`route::plan`) does.

use judgment::route::compiled::TargetGroup;
use judgment::route::env::{RoutingEnv, TargetLoad};
use judgment::route::place_owners::place_owners;
use judgment::route::prefix_choice::{PrefixChoice, PrefixGroup};
use judgment::route::prompt_prefix::PromptPrefix;
use judgment::route::request_snapshot::RequestSnapshot;
use judgment::route::target::Target;
use memory::auth::ClientIdentity;
use memory::state::Shared;
use memory::state::targets::{CircuitStatus, TargetState};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use words::config::balance::Sticky;
use words::config::query::Query;

/// The routing environment of one request.
pub struct RequestEnv {
    pub shared: Arc<Shared>,
    pub client: Option<Arc<ClientIdentity>>,
    /// The request's facts; `None` if no strategy of its config uses them.
    pub request: Option<Box<RequestSnapshot>>,
    /// The beginning of the request; `None` if no strategy of its config uses it.
    pub prefix: Option<Box<PromptPrefix>>,
    /// The same for all questions of this request: whether it goes to providers that warm up.
    pub turn: OnceLock<f64>,
}

impl RequestEnv {
    /// Of a request whose config chooses by nothing that the request has.
    pub fn plain(shared: &Arc<Shared>, client: Option<Arc<ClientIdentity>>) -> Self {
        Self { shared: Arc::clone(shared), client, request: None, prefix: None, turn: OnceLock::new() }
    }

    /// The state that the process keeps for a target between requests.
    pub(crate) fn target_state<'l>(&self, target: &'l Target) -> &'l Arc<TargetState> {
        target
            .state
            .get_or_init(|| self.shared.targets.find_or_insert(&target.id, target.policies.breaker.as_ref()))
    }

    fn sticky_key(&self, group: &TargetGroup, sticky: &Sticky) -> Option<[u8; 32]> {
        let client = self.client.as_ref().and_then(|client| client.id.as_deref());
        Some(self.request.as_ref()?.sticky_key(client, group, sticky))
    }
}

impl RoutingEnv for RequestEnv {
    fn random(&mut self) -> f64 {
        fastrand::f64()
    }

    fn circuit(&self, target: &Target) -> CircuitStatus {
        let drained = &self.shared.drained_providers;
        if !drained.is_empty()
            && let Some(since) =
                target.drained_since(drained, *self.turn.get_or_init(fastrand::f64), Instant::now())
        {
            return CircuitStatus::Open { since };
        }
        match target.policies.breaker {
            Some(_) => self.target_state(target).circuit(Instant::now()),
            None => CircuitStatus::Closed,
        }
    }

    fn latency(&self, target: &Target) -> Option<Duration> {
        self.target_state(target).latency(Instant::now())
    }

    fn matches(&self, query: &Query) -> bool {
        self.request.as_ref().is_some_and(|request| query.holds(&request.facts()))
    }

    fn sticky_choice(&self, group: &TargetGroup, sticky: &Sticky) -> Option<usize> {
        let key = self.sticky_key(group, sticky)?;
        group.member_of(self.shared.sticky_sessions.get(&key, Instant::now())?)
    }

    fn remember_choice(&self, group: &TargetGroup, sticky: &Sticky, child: usize) {
        let (Some(key), Some(mark)) = (self.sticky_key(group, sticky), group.mark_of(child)) else { return };
        self.shared.sticky_sessions.insert(&key, mark, Duration::from_secs(sticky.ttl), Instant::now());
    }

    fn prefix(&self) -> Option<&PromptPrefix> {
        self.prefix.as_deref()
    }

    fn find_prefix(&self, group: &PrefixGroup, blocks_of: &mut [u16]) {
        let table = self.shared.prefix_tables.get(group.owner);
        if let (Some(table), Some(prefix)) = (table, &self.prefix) {
            table.find(prefix.blocks(), Instant::now(), blocks_of);
        }
    }

    fn prefix_chosen(&self, group: &PrefixGroup, choice: PrefixChoice) {
        let Some(prefix) = &self.prefix else { return };
        let now = Instant::now();
        let table = self.shared.prefix_tables.find_or_insert(group.owner, now);
        table.insert(prefix.blocks(), choice.member, choice.ttl, now);
        self.shared.metrics.record_prefix_choice(choice.result());
    }

    fn prefix_failed(&self, group: &PrefixGroup, member: usize) {
        if let (Some(table), Some(prefix)) = (self.shared.prefix_tables.get(group.owner), &self.prefix) {
            table.remove(prefix.blocks(), member);
        }
    }

    fn load(&self, target: &Target, model: Option<&str>) -> TargetLoad {
        let workspace = self.client.as_ref().and_then(|client| client.workspace);
        let places = place_owners(target, workspace).map(|(owner, _)| self.shared.slots.get(&owner));
        let engine = target.engine_reading(&self.shared.engine_loads, Instant::now());
        TargetLoad::new(self.target_state(target).in_flight(), places).with_engine(engine.as_deref(), model)
    }
}
