//! The exact probability of each member of a load-balanced group, by the rules of `pick`.
//!
//! Not the picking itself: nothing is drawn here, probabilities are added up.

use super::MIDDLE;
use crate::route::compiled::TargetGroup;
use crate::route::env::RoutingEnv;
use crate::route::least_busy;
use crate::route::pick;
use crate::route::plan::{self, Plan};
use std::time::Duration;
use words::config::balance::BalanceBy;

/// For groups with more members than this, the pairs of `least_latency` are not added up.
const MAX_PAIRED: usize = 100;

/// The probability of each member, 0 to 1; empty if it is not computed. Sticky choices are not taken into
/// account.
pub(super) fn probabilities(
    group: &TargetGroup,
    by: BalanceBy,
    plan: &Plan,
    env: &dyn RoutingEnv,
) -> Vec<f64> {
    let usable = usable_members(group, plan, env);
    let shares = |barred: Option<usize>| {
        let weight = |(index, member): (usize, &crate::route::compiled::Member)| {
            let counts = barred != Some(index) && usable.get(index).copied().unwrap_or_default();
            if counts { member.weight } else { 0.0 }
        };
        normalized(group.members.iter().enumerate().map(weight).collect())
    };
    match by {
        // By prefix: of requests whose beginning is not known.
        BalanceBy::Weight | BalanceBy::Prefix => shares(None),
        BalanceBy::Price => {
            let prices: Vec<f64> = group.members.iter().map(|member| member.price).collect();
            let eligible = |index: usize| usable.get(index).copied().unwrap_or_default();
            let lowest =
                (0..prices.len()).filter(|index| eligible(*index)).filter_map(|index| prices.get(index));
            let lowest = lowest.copied().min_by(f64::total_cmp).unwrap_or_default();
            let share = |(index, price): (usize, &f64)| {
                if eligible(index) && price.total_cmp(&lowest).is_eq() { 1.0 } else { 0.0 }
            };
            normalized(prices.iter().enumerate().map(share).collect())
        }
        BalanceBy::LeastBusy => {
            let eligible = |index: usize| usable.get(index).copied().unwrap_or_default();
            let best = least_busy::best(group, &eligible, plan.client_model(), env);
            normalized(
                (0..group.members.len()).map(|index| f64::from(u8::from(best.contains(&index)))).collect(),
            )
        }
        BalanceBy::LeastLatency if group.members.len() > MAX_PAIRED => Vec::new(),
        BalanceBy::LeastLatency => {
            let quick: Vec<Duration> =
                group.members.iter().map(|member| plan::latency(&member.node, env)).collect();
            paired(&shares(None), &quick, &shares)
        }
    }
}

/// The two members that are drawn if every random number is 0.5.
pub(super) fn pair(group: &TargetGroup, plan: &Plan, env: &dyn RoutingEnv) -> Option<(usize, Option<usize>)> {
    let usable = usable_members(group, plan, env);
    let weights: Vec<f64> = group.members.iter().map(|member| member.weight).collect();
    let eligible = |index: usize| usable.get(index).copied().unwrap_or_default();
    pick::power_of_two(&weights, &eligible, MIDDLE, MIDDLE)
}

/// Rounds to three decimal places.
pub(super) fn rounded(chance: f64) -> f64 {
    (chance * 1000.0).round() / 1000.0
}

/// Adds up all pairs: each member is drawn first, then each other one, and the quicker of the two is taken.
fn paired(first: &[f64], quick: &[Duration], shares: &dyn Fn(Option<usize>) -> Vec<f64>) -> Vec<f64> {
    let mut probabilities = vec![0.0; first.len()];
    for (one, chance) in first.iter().enumerate().filter(|(_, chance)| **chance > 0.0) {
        let second = shares(Some(one));
        let alone = second.iter().all(|share| *share == 0.0);
        if alone && let Some(sum) = probabilities.get_mut(one) {
            *sum += chance;
        }
        for (other, share) in second.iter().enumerate() {
            let winner = if quick.get(other) < quick.get(one) { other } else { one };
            if let Some(sum) = probabilities.get_mut(winner) {
                *sum += chance * share;
            }
        }
    }
    probabilities
}

fn usable_members(group: &TargetGroup, plan: &Plan, env: &dyn RoutingEnv) -> Vec<bool> {
    group.members.iter().map(|member| plan.is_usable(&member.node, env)).collect()
}

/// Scales the weights to a sum of 1; all stay zero if all are zero.
fn normalized(weights: Vec<f64>) -> Vec<f64> {
    let heaviest = weights.iter().copied().fold(0.0, f64::max);
    if heaviest == 0.0 {
        return weights;
    }
    // Weights are divided by the heaviest, since the sum of very large weights would overflow to infinity.
    let sum: f64 = weights.iter().map(|weight| weight / heaviest).sum();
    weights.iter().map(|weight| weight / heaviest / sum).collect()
}
