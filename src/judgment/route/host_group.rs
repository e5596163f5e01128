//! The hosts of a provider that come and go (`discover`) as a group: one is chosen, and where it fails another one.
//!
//! Not finding them (`memory::state::discovered_hosts`), nor what is compiled of each (`compile`).

use super::compiled::{Member, Node, TargetGroup};
use super::continuation::has_class;
use super::group_strategy::group_strategy;
use super::outcome::Outcome;
use foldhash::quality::FixedState;
use std::hash::{BuildHasher, Hasher};
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
        is_of_hosts: true,
        marks: marks(&members),
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
        Node::Group(group) if group.is_of_hosts => group.members,
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

/// What tells members from each other where some are at hosts that come and go. `None`: none is.
pub(super) fn marks(members: &[Member]) -> Option<Box<[u32]>> {
    members.iter().any(|member| place(member).is_some()).then(|| members.iter().map(mark).collect())
}

/// No place in a list is that large.
const MARK: u32 = 1 << 31;

fn mark(member: &Member) -> u32 {
    // The path of a target at a host names the host.
    let path = match &member.node {
        Node::Target(target) => &target.path,
        Node::Group(group) => &group.path,
    };
    let mut hasher = FixedState::default().build_hasher();
    hasher.write(path.as_bytes());
    hasher.finish() as u32 | MARK
}

/// Whether two members are hosts of one provider at one place of a config, and the failure is one after which another of them is tried.
pub(super) fn goes_on(failed: &Member, next: &Member, outcome: &Outcome) -> bool {
    let is_one = place(failed).is_some() && place(failed) == place(next);
    is_one && has_class(outcome, &ON_ERRORS)
}

/// The hosts of one provider that a request is sent to, at most: what makes one fail may make all of them fail.
const MAX_TRIED: usize = 3;

/// Whether a member is a host of a provider of which enough were tried.
pub(super) fn is_tried_enough(group: &TargetGroup, tried: &[usize], next: usize) -> bool {
    let at = |member: usize| group.members.get(member).and_then(place);
    let Some(next) = at(next) else { return false };
    tried.iter().filter(|member| at(**member) == Some(next)).count() >= MAX_TRIED
}

/// The place in the config of a target at a host, without the host.
fn place(member: &Member) -> Option<&str> {
    let Node::Target(target) = &member.node else { return None };
    target.host.as_ref()?;
    Some(target.path.rsplit_once(".hosts[")?.0)
}

impl Member {
    /// A target at a host of its provider.
    pub(super) fn of_host(node: Node, weight: f64) -> Self {
        Self { node, name: None, weight, price: f64::INFINITY, on_status_codes: None, for_errors: None }
    }
}
