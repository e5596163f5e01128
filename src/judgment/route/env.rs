//! The inputs of a plan: random numbers, breakers, latency and the facts of the request.
//!
//! A trait, so that tests can give a plan made-up inputs. The real implementation is in `engine::request_env`.

use super::compiled::TargetGroup;
use super::prefix_choice::{PrefixChoice, PrefixGroup};
use super::prompt_prefix::PromptPrefix;
use super::target::Target;
use knowledge::provider::engine_metrics::EngineReading;
use memory::state::slots::SlotsView;
use memory::state::targets::CircuitStatus;
use std::time::Duration;
use words::config::balance::Sticky;
use words::config::query::Query;

/// What a target has to do now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TargetLoad {
    /// Attempts under way, and those that wait for a place.
    pub in_flight: u32,
    /// Another attempt would wait for a place, here or in the model server.
    pub is_full: bool,
    /// The model server has the adapter (LoRA) that the request names as its model.
    pub has_adapter: bool,
}

/// A model server whose cache of keys and values is fuller than this has to take requests back that it has begun.
const FULL_CACHE: f64 = 0.95;

impl TargetLoad {
    /// From the attempts under way and the places that one needs: the target's, and its provider's, at which attempts of other configs are
    /// under way as well.
    pub fn new(in_flight: u32, places: impl Iterator<Item = Option<SlotsView>>) -> Self {
        places.flatten().fold(Self { in_flight, ..Self::default() }, |load, places| {
            let waiting = u32::try_from(places.waiting).unwrap_or(u32::MAX);
            let is_full = load.is_full || places.is_full();
            Self { in_flight: load.in_flight.max(places.in_use.saturating_add(waiting)), is_full, ..load }
        })
    }

    /// The same with what the model server says of itself: it has requests of others, too. `model`: what the request names.
    #[must_use]
    pub fn with_engine(self, engine: Option<&EngineReading>, model: Option<&str>) -> Self {
        let Some(engine) = engine else { return self };
        let is_full = engine.waiting > 0 || engine.cache_use.is_some_and(|share| share > FULL_CACHE);
        let has_adapter = model.is_some_and(|model| engine.adapters.iter().any(|name| **name == *model));
        Self {
            in_flight: self.in_flight.max(engine.running.saturating_add(engine.waiting)),
            is_full: self.is_full || is_full,
            has_adapter,
        }
    }
}

/// The inputs a plan decides by.
pub trait RoutingEnv {
    /// A random number, at least 0 and below 1.
    fn random(&mut self) -> f64;
    /// The state of the target's circuit. That of a drained one is open.
    fn circuit(&self, target: &Target) -> CircuitStatus;
    /// The moving average of the target's time to the first token; `None` if it had no recent requests.
    fn latency(&self, target: &Target) -> Option<Duration>;
    /// Whether a condition matches this request.
    fn matches(&self, query: &Query) -> bool;
    /// The member of the group that was chosen for this client before.
    fn sticky_choice(&self, group: &TargetGroup, sticky: &Sticky) -> Option<usize>;
    /// Remembers the member that is now chosen for this client.
    fn remember_choice(&self, group: &TargetGroup, sticky: &Sticky, child: usize);
    /// The beginning of the request; `None` if it is no prompt, or no group of its config chooses by it.
    fn prefix(&self) -> Option<&PromptPrefix>;
    /// Writes how many blocks of the beginning each member of the group got, by the members' indexes.
    fn find_prefix(&self, group: &PrefixGroup, blocks_of: &mut [u16]);
    /// The member gets the request: its beginning is known there from now on.
    fn prefix_chosen(&self, group: &PrefixGroup, choice: PrefixChoice);
    /// The member has failed: it may not have what was sent to it.
    fn prefix_failed(&self, group: &PrefixGroup, member: usize);
    /// What a target of a group that chooses by load has to do. `model`: what the request names there.
    fn load(&self, target: &Target, model: Option<&str>) -> TargetLoad;
}
