//! The world as a plan sees it, for one request: chance, what the process remembers of targets, and the
//! request's own facts.

use crate::config::balance::Sticky;
use crate::config::query::Query;
use crate::route::leaf::Leaf;
use crate::route::told::Told;
use crate::route::tree::Group;
use crate::route::world::World;
use crate::state::Shared;
use crate::state::targets::{Standing, Target};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// See the module.
pub(super) struct Known {
    pub shared: Arc<Shared>,
    /// The service key's name.
    pub key: Option<Arc<str>>,
    /// `None` where no strategy asks for them.
    pub told: Option<Box<Told>>,
}

impl Known {
    /// What the process remembers of a target.
    pub fn target<'l>(&self, leaf: &'l Leaf) -> &'l Arc<Target> {
        leaf.memory.get_or_init(|| self.shared.targets.find(&leaf.identity, leaf.breaker.as_ref()))
    }

    fn sticky_key(&self, group: &Group, sticky: &Sticky) -> Option<[u8; 32]> {
        Some(self.told.as_ref()?.sticky_key(self.key.as_deref(), group, sticky))
    }
}

impl World for Known {
    fn draw(&mut self) -> f64 {
        fastrand::f64()
    }

    fn standing(&self, leaf: &Leaf) -> Standing {
        match leaf.breaker {
            Some(_) => self.target(leaf).standing(Instant::now()),
            None => Standing::Closed,
        }
    }

    fn latency(&self, leaf: &Leaf) -> Option<Duration> {
        self.target(leaf).latency(Instant::now())
    }

    fn holds(&self, query: &Query) -> bool {
        self.told.as_ref().is_some_and(|told| query.holds(&told.facts()))
    }

    fn stuck(&self, group: &Group, sticky: &Sticky) -> Option<usize> {
        let key = self.sticky_key(group, sticky)?;
        self.shared.sticky.find(&key, Instant::now()).and_then(|index| usize::try_from(index).ok())
    }

    fn stick(&self, group: &Group, sticky: &Sticky, child: usize) {
        let (Some(key), Ok(index)) = (self.sticky_key(group, sticky), u32::try_from(child)) else { return };
        self.shared.sticky.keep(&key, index, Duration::from_secs(sticky.ttl), Instant::now());
    }
}
