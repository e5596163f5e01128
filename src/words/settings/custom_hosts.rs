//! `custom_hosts`: the non-public hosts to which clients may direct the gateway.
//!
//! Not here: applying the rules, the ranges refused by default and resolving names (`net`), and the
//! operator's own `custom_host` values, which are trusted.

use super::allow_rule::AllowRule;
use crate::config::members::{FLAG, Form, MemberTable, form, list};
use crate::json::schema;

/// `custom_hosts`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CustomHosts {
    /// Allows every private and loopback range at once.
    pub allow_private: bool,
    pub allow: Vec<AllowRule>,
}

const RULE: Form<AllowRule> =
    form(|at| AllowRule::parse(at.text()?).map_err(|message| at.problem(message)).ok(), schema::text);

impl CustomHosts {
    pub(super) const DOC: &str = "The hosts that clients may name in custom_host.";

    pub(super) fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let private = "Allows all private and loopback ranges; only if every client is trusted.";
        let allow = "Hosts that clients may name besides public ones: names, *.suffix, addresses, ranges, each with an optional :port.";
        let rules = list(RULE, "A host, address or range.");
        Some(Self {
            allow_private: table.or("allow_private", FLAG, false, private),
            allow: table.get("allow", rules, allow).unwrap_or_default(),
        })
    }
}
