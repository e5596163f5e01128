//! The world for a plan that is only explained: what the process remembers, looked at and never touched.
//!
//! Not the one requests are routed by (`proxy::known`), which remembers choices and finds targets anew.

use crate::config::balance::Sticky;
use crate::config::query::Query;
use crate::route::compiled::TargetGroup;
use crate::route::env::RoutingEnv;
use crate::route::request_snapshot::RequestSnapshot;
use crate::route::target::Target;
use crate::state::sticky_sessions::StickySessions as Choices;
use crate::state::targets::{CircuitStatus, TargetRegistry};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// See the module.
pub(super) struct ReadOnlyEnv<'a> {
    pub targets: &'a TargetRegistry,
    pub sticky: &'a Choices,
    pub request: RequestSnapshot,
    /// The service key's name.
    pub key_name: Option<Arc<str>>,
    pub now: Instant,
}

impl RoutingEnv for ReadOnlyEnv<'_> {
    fn random(&mut self) -> f64 {
        fastrand::f64()
    }

    fn circuit(&self, target: &Target) -> CircuitStatus {
        let state = self.targets.get(&target.id).filter(|_| target.breaker.is_some());
        state.map_or(CircuitStatus::Closed, |target| target.circuit(self.now))
    }

    fn latency(&self, target: &Target) -> Option<Duration> {
        self.targets.get(&target.id)?.latency(self.now)
    }

    fn matches(&self, query: &Query) -> bool {
        query.holds(&self.request.facts())
    }

    fn sticky_choice(&self, group: &TargetGroup, sticky: &Sticky) -> Option<usize> {
        let key = self.request.sticky_key(self.key_name.as_deref(), group, sticky);
        self.sticky.get(&key, self.now).and_then(|index| usize::try_from(index).ok())
    }

    fn remember_choice(&self, _: &TargetGroup, _: &Sticky, _: usize) {}
}
