//! How a compiled group chooses among its members, from its strategy as written.
//!
//! Not the choice itself (`plan`), nor the members (`compile`).

use super::compiled::{GroupStrategy, Member};
use super::prefix_choice::PrefixGroup;
use words::config::balance::BalanceBy;
use words::config::pattern::PatternBudget;
use words::config::strategy::{Condition, Mode, Strategy};
use words::error::Error;

/// The strategy of a group with these members, at this place in the config.
///
/// # Errors
/// 400 for a condition that names no member, and for a pattern whose table cannot be made. `patterns` counts those of the whole config.
pub(super) fn group_strategy(
    strategy: &Strategy,
    members: &[Member],
    path: &str,
    patterns: &PatternBudget,
) -> Result<GroupStrategy, Error> {
    Ok(match strategy.mode {
        Mode::Single => GroupStrategy::Single,
        Mode::Fallback => GroupStrategy::Fallback,
        Mode::LoadBalance => GroupStrategy::LoadBalance {
            by: strategy.by,
            sticky: strategy.sticky.clone(),
            failover: strategy.failover,
            prefix: (strategy.by == BalanceBy::Prefix).then(|| PrefixGroup::new(path, members)),
        },
        Mode::Conditional => {
            let rule = |condition: &Condition| {
                condition.query.make(patterns).map_err(|why| {
                    Error::bad_request(format!("A pattern in the conditions of the config {why}"))
                        .with_param("x-gateway-config")
                })?;
                Ok((condition.query.clone(), member_by_name(members, Some(&condition.then))?))
            };
            let rules = strategy.conditions.iter().map(rule).collect::<Result<_, Error>>()?;
            GroupStrategy::Conditional {
                rules,
                default: member_by_name(members, strategy.default.as_deref())?,
            }
        }
    })
}

/// The index of the member of that name. Validation ensures that there is one.
fn member_by_name(members: &[Member], name: Option<&str>) -> Result<usize, Error> {
    let found = members.iter().position(|member| name.is_some() && member.name.as_deref() == name);
    found.ok_or_else(|| {
        let name = name.unwrap_or_default();
        Error::bad_request(format!("Invalid target name found in the query router: {name}"))
            .with_param("x-gateway-config")
    })
}
