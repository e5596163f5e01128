//! The world for a plan that is only explained: what the process remembers, looked at and never touched.
//!
//! Not the one requests are routed by (`proxy::known`), which remembers choices and finds targets anew.

use crate::config::balance::Sticky;
use crate::config::query::Query;
use crate::route::leaf::Leaf;
use crate::route::told::Told;
use crate::route::tree::Group;
use crate::route::world::World;
use crate::state::sticky::Sticky as Choices;
use crate::state::targets::{Standing, Targets};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// See the module.
pub(super) struct Seen<'a> {
    pub targets: &'a Targets,
    pub sticky: &'a Choices,
    pub told: Told,
    /// The service key's name.
    pub key: Option<Arc<str>>,
    pub now: Instant,
}

impl World for Seen<'_> {
    fn draw(&mut self) -> f64 {
        fastrand::f64()
    }

    fn standing(&self, leaf: &Leaf) -> Standing {
        let known = self.targets.look(&leaf.identity).filter(|_| leaf.breaker.is_some());
        known.map_or(Standing::Closed, |target| target.standing(self.now))
    }

    fn latency(&self, leaf: &Leaf) -> Option<Duration> {
        self.targets.look(&leaf.identity)?.latency(self.now)
    }

    fn holds(&self, query: &Query) -> bool {
        query.holds(&self.told.facts())
    }

    fn stuck(&self, group: &Group, sticky: &Sticky) -> Option<usize> {
        let key = self.told.sticky_key(self.key.as_deref(), group, sticky);
        self.sticky.find(&key, self.now).and_then(|index| usize::try_from(index).ok())
    }

    fn stick(&self, _: &Group, _: &Sticky, _: usize) {}
}
