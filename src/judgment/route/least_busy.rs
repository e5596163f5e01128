//! Chooses the member of a group that has the least to do for its weight (`strategy.by: least_busy`), and adds up loads below a member.
//!
//! Pure: loads are read from the environment, random numbers are passed in. Not here: which members are usable (`plan`).

use super::compiled::{Node, TargetGroup};
use super::env::{RoutingEnv, TargetLoad};
use super::target::Target;

/// One of the [`best`], all with equal chances. `None`: no member is usable.
pub(super) fn choose(
    group: &TargetGroup,
    usable: &dyn Fn(usize) -> bool,
    client_model: Option<&str>,
    random: f64,
    env: &dyn RoutingEnv,
) -> Option<usize> {
    let best = best(group, usable, client_model, env);
    let nth = ((random * best.len() as f64) as usize).min(best.len().saturating_sub(1));
    best.get(nth).copied()
}

/// The least busy of the usable members: those with a free place before those without, those whose model server has the adapter before
/// others, then those with the fewest attempts for their weight. `client_model`: the model of targets that set none.
pub(super) fn best(
    group: &TargetGroup,
    usable: &dyn Fn(usize) -> bool,
    client_model: Option<&str>,
    env: &dyn RoutingEnv,
) -> Vec<usize> {
    let ranks = ranks(group, usable, client_model, env);
    let best = ranks.iter().map(|(_, rank)| *rank).min_by(Rank::compare);
    let is_best = |(_, rank): &&(usize, Rank)| best.is_some_and(|best| rank.compare(&best).is_eq());
    ranks.iter().filter(is_best).map(|(member, _)| *member).collect()
}

/// How busy a member is.
#[derive(Debug, Clone, Copy)]
struct Rank {
    is_full: bool,
    has_adapter: bool,
    /// Attempts under way and this one, for each unit of weight.
    share: f64,
}

impl Rank {
    fn compare(&self, other: &Self) -> std::cmp::Ordering {
        let places = self.is_full.cmp(&other.is_full);
        let adapters = other.has_adapter.cmp(&self.has_adapter);
        places.then(adapters).then(self.share.total_cmp(&other.share))
    }
}

fn ranks(
    group: &TargetGroup,
    usable: &dyn Fn(usize) -> bool,
    client_model: Option<&str>,
    env: &dyn RoutingEnv,
) -> Vec<(usize, Rank)> {
    let members = group.members.iter().enumerate();
    let usable = members.filter(|(index, member)| member.weight > 0.0 && usable(*index));
    let ranked = usable.map(|(index, member)| {
        let TargetLoad { in_flight, is_full, has_adapter } = load(&member.node, client_model, env);
        let share = (f64::from(in_flight) + 1.0) / member.weight;
        (index, Rank { is_full, has_adapter, share })
    });
    ranked.collect()
}

/// What all targets below have to do. It is full where all of them are.
pub(super) fn load(node: &Node, client_model: Option<&str>, env: &dyn RoutingEnv) -> TargetLoad {
    match node {
        Node::Target(target) => env.load(target, model(target, client_model)),
        Node::Group(group) => {
            let loads = group.members.iter().map(|member| load(&member.node, client_model, env));
            let empty = TargetLoad { is_full: true, ..TargetLoad::default() };
            loads.fold(empty, |all, one| TargetLoad {
                in_flight: all.in_flight.saturating_add(one.in_flight),
                is_full: all.is_full && one.is_full,
                has_adapter: all.has_adapter || one.has_adapter,
            })
        }
    }
}

fn model<'a>(target: &'a Target, client_model: Option<&'a str>) -> Option<&'a str> {
    target.model().or(client_model)
}
