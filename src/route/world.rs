//! What a plan may ask about the world: chance, breakers, latency, the request's own facts.
//!
//! A trait, so that a plan is tested with a world made up for it. The real one is `proxy`'s.

use super::leaf::Leaf;
use super::tree::Group;
use crate::config::balance::Sticky;
use crate::config::query::Query;
use crate::state::targets::Standing;
use std::time::Duration;

/// The world, as a plan sees it.
pub trait World {
    /// Chance: at least 0 and below 1.
    fn draw(&mut self) -> f64;
    fn standing(&self, leaf: &Leaf) -> Standing;
    /// The moving average of its time to the first token; `None` where it was not asked of late.
    fn latency(&self, leaf: &Leaf) -> Option<Duration>;
    /// Whether a condition holds for this request.
    fn holds(&self, query: &Query) -> bool;
    /// The child this caller had before.
    fn stuck(&self, group: &Group, sticky: &Sticky) -> Option<usize>;
    /// Remembers the child this caller has now.
    fn stick(&self, group: &Group, sticky: &Sticky, child: usize);
}
