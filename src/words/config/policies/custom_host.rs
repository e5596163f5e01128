//! `custom_host`, as far as targets inherit it from groups.
//!
//! It is a field of the account, which reads and reports it; here it is only looked up. Not described: an operator's
//! host is not shown.

use super::{Policies, PolicyKey, inherit_value};
use crate::config::account::names::CUSTOM_HOST;
use crate::config::members::MemberTable;

/// Its member is the account's.
pub(super) const KEY: PolicyKey = PolicyKey {
    members,
    inherit: |policies, above| inherit_value(&mut policies.custom_host, &above.custom_host),
    ..PolicyKey::NONE
};

fn members(policies: &mut Policies, table: &mut MemberTable<'_>) {
    let host = table.at(CUSTOM_HOST).and_then(|at| at.node.as_text());
    policies.custom_host = host.filter(|host| !host.is_empty()).map(str::to_owned);
}
