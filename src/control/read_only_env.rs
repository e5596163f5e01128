//! The routing environment of a plan that is only explained: reads the state of the process and never changes it.
//!
//! Not the environment that routes requests (`engine::request_env`), which stores sticky choices and creates targets.

use judgment::route::compiled::TargetGroup;
use judgment::route::env::{RoutingEnv, TargetLoad};
use judgment::route::place_owners::place_owners;
use judgment::route::prefix_choice::{PrefixChoice, PrefixGroup};
use judgment::route::prompt_prefix::PromptPrefix;
use judgment::route::request_snapshot::RequestSnapshot;
use judgment::route::target::Target;
use memory::auth::ClientIdentity;
use memory::state::drained_providers::DrainedProviders;
use memory::state::engine_loads::EngineLoads;
use memory::state::prefix_tables::PrefixTables;
use memory::state::slots::SlotRegistry;
use memory::state::sticky_sessions::StickySessions;
use memory::state::targets::{CircuitStatus, TargetRegistry};
use std::sync::Arc;
use std::time::{Duration, Instant};
use words::config::balance::Sticky;
use words::config::query::Query;

/// A read-only [`RoutingEnv`] for one explained request.
pub(super) struct ReadOnlyEnv<'a> {
    pub targets: &'a TargetRegistry,
    pub sticky: &'a StickySessions,
    pub prefix_tables: &'a PrefixTables,
    pub slots: &'a SlotRegistry,
    pub engine_loads: &'a EngineLoads,
    pub drained_providers: &'a DrainedProviders,
    pub request: RequestSnapshot,
    pub prefix: Option<PromptPrefix>,
    pub client: Arc<ClientIdentity>,
    /// Whether it goes to providers that warm up: at least 0 and below 1.
    pub turn: f64,
    pub now: Instant,
}

impl RoutingEnv for ReadOnlyEnv<'_> {
    fn random(&mut self) -> f64 {
        fastrand::f64()
    }

    fn circuit(&self, target: &Target) -> CircuitStatus {
        if let Some(since) = target.drained_since(self.drained_providers, self.turn, self.now) {
            return CircuitStatus::Open { since };
        }
        let state = self.targets.get(&target.id).filter(|_| target.policies.breaker.is_some());
        state.map_or(CircuitStatus::Closed, |target| target.circuit(self.now))
    }

    fn latency(&self, target: &Target) -> Option<Duration> {
        self.targets.get(&target.id)?.latency(self.now)
    }

    fn matches(&self, query: &Query) -> bool {
        query.holds(&self.request.facts())
    }

    fn sticky_choice(&self, group: &TargetGroup, sticky: &Sticky) -> Option<usize> {
        let key = self.request.sticky_key(self.client.id.as_deref(), group, sticky);
        group.member_of(self.sticky.get(&key, self.now)?)
    }

    fn remember_choice(&self, _: &TargetGroup, _: &Sticky, _: usize) {}

    fn prefix(&self) -> Option<&PromptPrefix> {
        self.prefix.as_ref()
    }

    fn find_prefix(&self, group: &PrefixGroup, blocks_of: &mut [u16]) {
        if let (Some(table), Some(prefix)) = (self.prefix_tables.get(group.owner), &self.prefix) {
            table.find(prefix.blocks(), self.now, blocks_of);
        }
    }

    fn prefix_chosen(&self, _: &PrefixGroup, _: PrefixChoice) {}

    fn prefix_failed(&self, _: &PrefixGroup, _: usize) {}

    fn load(&self, target: &Target, model: Option<&str>) -> TargetLoad {
        let in_flight = self.targets.get(&target.id).map_or(0, |target| target.in_flight());
        let places = place_owners(target, self.client.workspace).map(|(owner, _)| self.slots.get(&owner));
        let engine = target.engine_reading(self.engine_loads, self.now);
        TargetLoad::new(in_flight, places).with_engine(engine.as_deref(), model)
    }
}
