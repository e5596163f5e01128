//! The world as a plan sees it, for one request: chance, what the process remembers of targets, and the
//! request's own facts.

use crate::api::body::Body;
use crate::config::balance::Sticky;
use crate::config::query::Query;
use crate::route::facts::RequestFacts;
use crate::route::leaf::Leaf;
use crate::route::pick;
use crate::route::tree::Group;
use crate::route::world::World;
use crate::state::Shared;
use crate::state::live::Live;
use crate::state::targets::{Standing, Target};
use http::HeaderMap;
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

/// What conditions and sticky choices go by, kept apart from the session.
pub(super) struct Told {
    pub headers: HeaderMap,
    pub metadata: Option<String>,
    pub pathname: String,
    pub body: Option<Body>,
    pub live: Arc<Live>,
}

impl Told {
    fn facts(&self) -> RequestFacts<'_> {
        let prefixes = &self.live.settings.header_prefixes;
        RequestFacts::new(
            self.body.as_ref(),
            &self.headers,
            prefixes,
            self.metadata.as_deref(),
            &self.pathname,
        )
    }
}

impl Known {
    /// What the process remembers of a target.
    pub fn target<'l>(&self, leaf: &'l Leaf) -> &'l Arc<Target> {
        leaf.memory.get_or_init(|| self.shared.targets.find(&leaf.identity, leaf.breaker.as_ref()))
    }

    fn sticky_key(&self, group: &Group, sticky: &Sticky) -> Option<[u8; 32]> {
        let told = self.told.as_ref()?;
        let first = group.children.first().map(|child| &child.branch);
        let config = first.and_then(|branch| match branch {
            crate::route::tree::Branch::Leaf(leaf) => Some(leaf.identity.hash),
            crate::route::tree::Branch::Group(_) => None,
        });
        // The same fields under another config, or in another group of it, are another choice.
        let whose = format!("{}|{}|{config:?}", self.key.as_deref().unwrap_or_default(), group.index);
        Some(pick::sticky_key(&whose, &sticky.hash_fields, &told.facts()))
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
