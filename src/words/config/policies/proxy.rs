//! `proxy`: the proxy that attempts at a provider go through, or `none`. Providers of the settings file have it; no config, header
//! or stored object does, because it decides where the operator's keys are sent.
//!
//! Not the proxy of the other connections (`settings::outbound`).

use super::{Policies, PolicyKey, inherit_value};
use crate::config::members::MemberTable;
use crate::config::proxy_url::PROXY;

pub(super) const KEY: PolicyKey = PolicyKey {
    in_provider: Some(members),
    inherit: |policies, above| inherit_value(&mut policies.proxy, &above.proxy),
    ..PolicyKey::NONE
};

fn members(policies: &mut Policies, table: &mut MemberTable<'_>) {
    let doc =
        "The proxy for this provider in place of outbound's: http(s)://[user:password@]host:port, or none.";
    policies.proxy = table.get("proxy", PROXY, doc);
}
