//! Whether a group goes on to another member after an outcome, and to which of them.
//!
//! Pure, and the one place that reads `on_status_codes`, `on_errors`, `for_errors` and `failover`. Not here: which members are
//! usable and which of several is taken (`plan`), and whether the same target is tried again (`retry`).

use super::compiled::{GroupStrategy, Member, TargetGroup};
use super::host_group;
use super::outcome::{ErrorClass, Outcome};
use words::config::failure_class::FailureClass;

/// Whether member `next` may follow after `outcome` of member `failed`.
pub(super) fn may_follow(group: &TargetGroup, failed: usize, next: usize, outcome: &Outcome) -> bool {
    let Some(next) = group.members.get(next) else { return false };
    match &group.strategy {
        GroupStrategy::Single | GroupStrategy::Conditional { .. } => false,
        GroupStrategy::Fallback => match &next.for_errors {
            Some(classes) => has_class(outcome, classes),
            None => goes_on(group, failed, outcome),
        },
        // A member that a limit refused, or that had no place, has had no request, so another one takes its place in any case.
        GroupStrategy::LoadBalance { failover, .. } => {
            let is_host =
                || group.members.get(failed).is_some_and(|failed| host_group::goes_on(failed, next, outcome));
            let goes_on = || *failover && goes_on(group, failed, outcome);
            next.weight > 0.0 && (outcome.is_refused_here() || goes_on() || is_host())
        }
    }
}

/// Whether a hedge may be made at this member: nothing has failed yet.
pub(super) fn can_hedge_to(group: &TargetGroup, member: usize) -> bool {
    let Some(member) = group.members.get(member) else { return false };
    match &group.strategy {
        GroupStrategy::Single | GroupStrategy::Conditional { .. } => false,
        GroupStrategy::Fallback => is_for_any_failure(member),
        GroupStrategy::LoadBalance { .. } => member.weight > 0.0,
    }
}

/// Whether a member needs no failure of a certain class to be used, so that it may be the first.
pub(super) fn is_for_any_failure(member: &Member) -> bool {
    member.for_errors.is_none()
}

/// The status list that applies to a member: the strategy's, or else the member's own, or else the group's.
/// `None`: there is none.
pub(super) fn statuses(group: &TargetGroup, member: usize) -> Option<&[u16]> {
    let own = || group.members.get(member).and_then(|member| member.on_status_codes.as_deref());
    group.on_status_codes.as_deref().or_else(own)
}

/// Whether a group goes on after `outcome` of a member.
fn goes_on(group: &TargetGroup, failed: usize, outcome: &Outcome) -> bool {
    let statuses = statuses(group, failed);
    // What a full target would have answered is not known. Only the empty list keeps the request there.
    if let Outcome::Busy = outcome {
        return statuses.is_none_or(|list| !list.is_empty());
    }
    if let Some(classes) = &group.on_errors
        && (statuses.is_none() || has_class(outcome, classes))
    {
        return has_class(outcome, classes);
    }
    match (statuses, outcome) {
        (
            Some(list),
            Outcome::Response { status, .. } | Outcome::Unsupported(status) | Outcome::Limited(status),
        ) => list.contains(status),
        // A list contains only statuses. After an outcome without a status, only the empty list prevents going on.
        (Some(list), _) => !list.is_empty(),
        (None, Outcome::Response { class: ErrorClass::ContentFiltered, .. }) => false,
        (None, outcome) => !outcome.is_success(),
    }
}

/// Whether a client that sticks to a member goes to the one that takes its place after `outcome`: only where the member itself failed. What
/// is wrong with one request is none of the others' business, and a full member may have room again soon.
pub(super) fn moves_clients(outcome: &Outcome) -> bool {
    let is_of_member = |class| {
        matches!(
            class,
            FailureClass::Connection
                | FailureClass::Timeout
                | FailureClass::ServerError
                | FailureClass::RateLimit
                | FailureClass::Quota
                | FailureClass::Auth
        )
    };
    !outcome.is_refused_here() && outcome.failure_class().is_some_and(is_of_member)
}

pub(super) fn has_class(outcome: &Outcome, classes: &[FailureClass]) -> bool {
    outcome.failure_class().is_some_and(|class| classes.contains(&class))
}
