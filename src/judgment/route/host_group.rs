//! The hosts of a provider that come and go (`discover`) as a group: one is chosen, and where it fails another one.
//!
//! Not finding them (`memory::state::discovered_hosts`), nor what is compiled of each (`compile`).

use super::compiled::{Member, Node, TargetGroup};
use super::group_strategy::group_strategy;
use words::config::Config;
use words::config::balance::BalanceBy;
use words::config::failure_class::FailureClass;
use words::config::pattern::PatternBudget;
use words::config::strategy::{Mode, Strategy};
use words::error::Error;

/// After these another host is tried. Any other response is what each of them would say.
const ON_ERRORS: [FailureClass; 4] =
    [FailureClass::Connection, FailureClass::ServerError, FailureClass::Timeout, FailureClass::RateLimit];

/// A group of the targets at all hosts of a provider. `config`: of the target that names it; `path`: its place.
///
/// # Errors
/// As [`group_strategy`].
pub(super) fn of(
    config: &Config,
    by: BalanceBy,
    members: Vec<Member>,
    path: String,
    patterns: &PatternBudget,
) -> Result<TargetGroup, Error> {
    let strategy = Strategy {
        mode: Mode::LoadBalance,
        conditions: Vec::new(),
        default: None,
        on_status_codes: None,
        on_errors: None,
        by,
        sticky: None,
        failover: true,
    };
    Ok(TargetGroup {
        strategy: group_strategy(&strategy, &members, &path, patterns)?,
        path,
        members,
        // No status of its own: only those classes.
        on_status_codes: Some(Vec::new()),
        on_errors: Some(ON_ERRORS.to_vec()),
        hedge: config.hedge,
    })
}

/// A member of a load balance: the hosts of its provider in its place, with its weight among them, or itself.
pub(super) fn spread(member: Member, members: &mut Vec<Member>) {
    let hosts = match member.node {
        Node::Group(group) if is_of_hosts(&group) => group.members,
        _ => return members.push(member),
    };
    let all: f64 = hosts.iter().map(|host| host.weight).sum();
    members.extend(hosts.into_iter().map(|host| Member {
        weight: member.weight * host.weight / all,
        price: member.price,
        on_status_codes: member.on_status_codes.clone(),
        for_errors: member.for_errors.clone(),
        ..host
    }));
}

fn is_of_hosts(group: &TargetGroup) -> bool {
    let is_at_host = |member: &Member| matches!(&member.node, Node::Target(target) if target.host.is_some());
    group.members.iter().all(is_at_host)
}

impl Member {
    /// A target at a host of its provider.
    pub(super) fn of_host(node: Node, weight: f64) -> Self {
        Self { node, name: None, weight, price: f64::INFINITY, on_status_codes: None, for_errors: None }
    }
}
