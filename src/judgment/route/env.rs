//! The inputs of a plan: random numbers, breakers, latency and the facts of the request.
//!
//! A trait, so that tests can give a plan made-up inputs. The real implementation is in `engine::request_env`.

use super::compiled::TargetGroup;
use super::prefix_choice::{PrefixChoice, PrefixGroup};
use super::prompt_prefix::PromptPrefix;
use super::target::Target;
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
    /// Another attempt would wait for a place.
    pub is_full: bool,
}

impl TargetLoad {
    /// From the attempts under way and the places that one needs, the target's before its provider's, which other targets share.
    pub fn new(in_flight: u32, places: impl Iterator<Item = Option<SlotsView>>) -> Self {
        places.flatten().fold(Self { in_flight, is_full: false }, |load, places| {
            let waiting = u32::try_from(places.waiting).unwrap_or(u32::MAX);
            let own = if places.of_provider { 0 } else { places.in_use.saturating_add(waiting) };
            Self { in_flight: load.in_flight.max(own), is_full: load.is_full || places.is_full() }
        })
    }
}

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
    /// The beginning of the request; `None` if it is no prompt, or no group of its config chooses by it.
    fn prefix(&self) -> Option<&PromptPrefix>;
    /// Writes how many blocks of the beginning each member of the group got, by the members' indexes.
    fn find_prefix(&self, group: &PrefixGroup, blocks_of: &mut [u16]);
    /// The member gets the request: its beginning is known there from now on.
    fn prefix_chosen(&self, group: &PrefixGroup, choice: PrefixChoice);
    /// The member has failed: it may not have what was sent to it.
    fn prefix_failed(&self, group: &PrefixGroup, member: usize);
    /// What a target of a group that chooses by beginnings has to do.
    fn load(&self, target: &Target) -> TargetLoad;
}
