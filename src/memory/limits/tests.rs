//! Tests of the limits in memory: selection, admission and windows, with times that are passed in.

mod advance;
mod idle;
mod invariants;
mod selecting;
mod single;

use super::*;
use futures_util::FutureExt as _;
use jiff::Timestamp;
use uuid::Uuid;

pub(super) fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A policy's limit with this id.
pub(super) fn policy(id: u128, kind: LimitKind) -> Limit {
    Limit::new(Uuid::from_u128(id), LimitScope::Policy, kind)
}

pub(super) fn usage(of: UsageOf, credit: i64, reset: Reset) -> LimitKind {
    LimitKind::Usage { of, credit, alert_at: None, reset }
}

pub(super) fn rate(of: RateOf, unit: RateUnit, value: i64) -> LimitKind {
    LimitKind::Rate { of, unit, value }
}

/// The limits with all their counters.
pub(super) struct Fixture {
    pub limits: Limits,
    pub set: LimitSet,
}

impl Fixture {
    pub fn new(all: Vec<Limit>) -> Self {
        Self::of(Limits::in_memory(Calendar::default()), all)
    }

    pub fn of(limits: Limits, all: Vec<Limit>) -> Self {
        let set = LimitSet::new(all, limits.hash());
        Self { limits, set }
    }

    pub fn change(&mut self, all: Vec<Limit>) {
        self.set = LimitSet::new(all, self.limits.hash());
    }

    pub fn reserve(
        &self,
        user: Option<&'static str>,
        estimate: &Estimate<'_>,
        now: Timestamp,
    ) -> Result<Reservation, Box<Refusal>> {
        let user = user.map(|user| ("_user", user));
        let metadata = user.as_slice();
        let facts = facts(&metadata);
        let selection = self.set.select(&facts, Phase::Request).unwrap();
        self.limits.reserve(&selection, estimate, None, now).now_or_never().expect("ready at once in memory")
    }

    pub fn peek(&self, limit: &Limit, now: Timestamp) -> Vec<UsageView> {
        self.limits.peek(limit, now).now_or_never().unwrap().unwrap()
    }

    pub fn reset(&self, limit: &Limit, entity: Uuid, now: Timestamp) -> bool {
        self.limits.reset(limit, entity, now).now_or_never().unwrap().unwrap()
    }

    /// Spent and held of all buckets of a limit.
    pub fn totals(&self, limit: &Limit, now: Timestamp) -> (i64, i64) {
        let views = self.peek(limit, now);
        (views.iter().map(|view| view.spent).sum(), views.iter().map(|view| view.held).sum())
    }
}

/// A request without a target.
pub(super) fn facts(metadata: &dyn Metadata) -> Facts<'_> {
    Facts {
        organisation: None,
        workspace: None,
        api_key: None,
        config: None,
        prompt: None,
        endpoint_type: None,
        metadata,
        target: None,
    }
}

/// An estimate of as many tokens of input.
pub(super) fn tokens(input_tokens: u64) -> Estimate<'static> {
    Estimate { input_tokens, ..Estimate::default() }
}

/// An estimate at this price, which is also the most it can cost.
pub(super) fn priced(cost: i64) -> Estimate<'static> {
    Estimate { cost: Some(cost), max_cost: Some(cost), max_output_tokens: Some(1), ..Estimate::default() }
}

pub(super) fn used(tokens: u64, cost: i64) -> Actual {
    Actual { requests: 1, tokens: Some(tokens), cost: Some(cost) }
}
