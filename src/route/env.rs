//! What a plan may ask about the world: chance, breakers, latency, the request's own facts.
//!
//! A trait, so that a plan is tested with a world made up for it. The real one is `engine::request_env`'s.

use super::compiled::TargetGroup;
use super::target::Target;
use crate::config::balance::Sticky;
use crate::config::query::Query;
use crate::state::targets::CircuitStatus;
use std::time::Duration;

/// The world, as a plan sees it.
pub trait RoutingEnv {
    /// Chance: at least 0 and below 1.
    fn random(&mut self) -> f64;
    fn circuit(&self, target: &Target) -> CircuitStatus;
    /// The moving average of its time to the first token; `None` where it was not asked of late.
    fn latency(&self, target: &Target) -> Option<Duration>;
    /// Whether a condition holds for this request.
    fn matches(&self, query: &Query) -> bool;
    /// The child this caller had before.
    fn sticky_choice(&self, group: &TargetGroup, sticky: &Sticky) -> Option<usize>;
    /// Remembers the child this caller has now.
    fn remember_choice(&self, group: &TargetGroup, sticky: &Sticky, child: usize);
}
