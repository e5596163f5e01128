//! The inputs of a plan: random numbers, breakers, latency and the facts of the request.
//!
//! A trait, so that tests can give a plan made-up inputs. The real implementation is in `engine::request_env`.

use super::compiled::TargetGroup;
use super::target::Target;
use memory::state::targets::CircuitStatus;
use std::time::Duration;
use words::config::balance::Sticky;
use words::config::query::Query;

/// The inputs a plan decides by.
pub trait RoutingEnv {
    /// A random number, at least 0 and below 1.
    fn random(&mut self) -> f64;
    fn circuit(&self, target: &Target) -> CircuitStatus;
    /// The moving average of the target's time to the first token; `None` if it had no recent requests.
    fn latency(&self, target: &Target) -> Option<Duration>;
    /// Whether a condition matches this request.
    fn matches(&self, query: &Query) -> bool;
    /// The member of the group that was chosen for this client before.
    fn sticky_choice(&self, group: &TargetGroup, sticky: &Sticky) -> Option<usize>;
    /// Remembers the member that is now chosen for this client.
    fn remember_choice(&self, group: &TargetGroup, sticky: &Sticky, child: usize);
}
