//! What limits do while the store of shared counters is away: rates are counted here, with a part of their value; budgets let pass or
//! refuse, as the settings have it; hard ones refuse.

use super::amount::Estimate;
use super::entity::State;
use super::limit::{Limit, LimitKind};
use super::limit_set::{Selected, Selection};
use super::refusal::{Cause, Refusal};
use super::value_key::value_key;
use super::window::Clock;
use std::sync::Arc;

/// Requests that are paid for already pass.
///
/// # Errors
/// A limit cannot be kept, and must be.
pub(super) fn check(
    selection: &Selection<'_>,
    estimate: &Estimate<'_>,
    is_open: bool,
    Clock { calendar, now }: Clock<'_>,
) -> Result<(), Box<Refusal>> {
    let limits = selection.limits().filter(|limit| estimate.concerns(limit) && !estimate.is_made);
    let refusing = limits.filter(|limit| limit.hard || (!limit.is_rate() && !is_open));
    let refusals: Vec<Refusal> = refusing
        .map(|limit| {
            let state = State::new(limit, calendar, now);
            let value_key: Arc<str> = value_key(limit, selection.facts).into();
            Refusal::by(limit, &state, &value_key, Cause::Unavailable, 0, now)
        })
        .collect();
    match Refusal::reported(refusals, super::Tightest::default()) {
        Some(refusal) => Err(Box::new(refusal)),
        None => Ok(()),
    }
}

/// The rate limits, each with this gateway's part, at least 1 of what is not 0; with their buckets.
pub(super) fn rates(selection: &Selection<'_>, gateways: usize) -> Vec<(Arc<Limit>, u128)> {
    let gateways = i64::try_from(gateways).unwrap_or(i64::MAX).max(1);
    let part = |limit: &Limit| match limit.kind {
        LimitKind::Rate { of, unit, value } => {
            let value = (value / gateways).max(value.min(1));
            Some(Limit { kind: LimitKind::Rate { of, unit, value }, ..limit.clone() })
        }
        LimitKind::Usage { .. } => None,
    };
    selection.items.iter().filter_map(|item| Some((Arc::new(part(item.limit)?), item.bucket))).collect()
}

/// The same selection with these limits.
pub(super) fn selection<'a>(selection: &'a Selection<'_>, limits: &'a [(Arc<Limit>, u128)]) -> Selection<'a> {
    let items = limits.iter().map(|(limit, bucket)| Selected { limit, bucket: *bucket });
    Selection { facts: selection.facts, items: items.collect() }
}
