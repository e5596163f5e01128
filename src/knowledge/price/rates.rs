//! The prices of a model's units at one time: flat, or by the number of input tokens.
//!
//! Not here: which of a model's prices are in force (`rate_card`), how they are written (`decode`).

use super::unit::Unit;

/// What a unit costs, in millionths of a dollar for [`Unit::per`] of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rate {
    pub base: u64,
    /// By rising `start`. The last one that the input tokens exceed is in force for the whole request: tiers are cliffs.
    pub tiers: Box<[Tier]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tier {
    /// In force for requests with more input tokens than this.
    pub start: u64,
    pub price: u64,
}

impl Rate {
    pub(crate) fn flat(price: u64) -> Self {
        Self { base: price, tiers: Box::default() }
    }

    /// The price for a request with this many input tokens.
    pub fn at(&self, input_tokens: u64) -> u64 {
        let tier = self.tiers.iter().rev().find(|tier| input_tokens > tier.start);
        tier.map_or(self.base, |tier| tier.price)
    }

    /// The highest price of requests with up to this many input tokens.
    pub fn up_to(&self, input_tokens: u64) -> u64 {
        let within = self.tiers.iter().filter(|tier| input_tokens > tier.start).map(|tier| tier.price);
        within.fold(self.base, u64::max)
    }

    /// With each price changed.
    pub fn map(&self, change: impl Fn(u64) -> u64) -> Self {
        let tiers = self.tiers.iter().map(|tier| Tier { start: tier.start, price: change(tier.price) });
        Self { base: change(self.base), tiers: tiers.collect() }
    }
}

/// A rate for each unit that has one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rates([Option<Rate>; Unit::COUNT]);

impl Rates {
    pub fn get(&self, unit: Unit) -> Option<&Rate> {
        self.0.get(unit as usize).and_then(Option::as_ref)
    }

    pub fn set(&mut self, unit: Unit, rate: Rate) {
        if let Some(place) = self.0.get_mut(unit as usize) {
            *place = Some(rate);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// The units that have a rate, the general before the specific.
    pub fn iter(&self) -> impl Iterator<Item = (Unit, &Rate)> {
        Unit::ALL.into_iter().filter_map(|unit| Some((unit, self.get(unit)?)))
    }
}
