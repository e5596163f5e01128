//! How likely each child of a balanced group is, exactly, as the picks of `pick` have it.
//!
//! Not the picking: no chance is drawn here, it is added up.

use super::MIDDLE;
use crate::config::balance::BalanceBy;
use crate::route::compiled::TargetGroup;
use crate::route::env::RoutingEnv;
use crate::route::pick;
use crate::route::plan::{self, Plan};
use std::time::Duration;

/// Above so many targets the pairs of `least_latency` are not added up.
const MAX_PAIRED: usize = 100;

/// The chance of each child, 0 to 1; empty where it is not told. What sticks is not counted in.
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
        BalanceBy::Weight => shares(None),
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
        BalanceBy::LeastLatency if group.members.len() > MAX_PAIRED => Vec::new(),
        BalanceBy::LeastLatency => {
            let quick: Vec<Duration> =
                group.members.iter().map(|member| plan::latency(&member.node, env)).collect();
            paired(&shares(None), &quick, &shares)
        }
    }
}

/// The two that a draw in the middle gives.
pub(super) fn pair(group: &TargetGroup, plan: &Plan, env: &dyn RoutingEnv) -> Option<(usize, Option<usize>)> {
    let usable = usable_members(group, plan, env);
    let weights: Vec<f64> = group.members.iter().map(|member| member.weight).collect();
    let eligible = |index: usize| usable.get(index).copied().unwrap_or_default();
    pick::power_of_two(&weights, &eligible, MIDDLE, MIDDLE)
}

/// To three digits after the point.
pub(super) fn rounded(chance: f64) -> f64 {
    (chance * 1000.0).round() / 1000.0
}

/// Each is drawn first, then each other one, and the quicker is taken.
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

/// Parts of one; all zero where there is nothing to share.
fn normalized(weights: Vec<f64>) -> Vec<f64> {
    let heaviest = weights.iter().copied().fold(0.0, f64::max);
    if heaviest == 0.0 {
        return weights;
    }
    // Relative to the heaviest: the sum of the largest numbers is no number.
    let sum: f64 = weights.iter().map(|weight| weight / heaviest).sum();
    weights.iter().map(|weight| weight / heaviest / sum).collect()
}
