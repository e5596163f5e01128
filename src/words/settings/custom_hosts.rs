//! `custom_hosts`: the non-public hosts to which clients may direct the gateway.
//!
//! Not here: applying the rules, the ranges refused by default and resolving names (`net`), and the
//! operator's own `custom_host` values, which are trusted.

use super::allow_rule::AllowRule;
use crate::config::read::{Cursor, ObjectReader};

/// `custom_hosts`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CustomHosts {
    /// Allows every private and loopback range at once.
    pub allow_private: bool,
    pub allow: Vec<AllowRule>,
}

impl CustomHosts {
    pub(super) fn read(mut fields: ObjectReader<'_>) -> Self {
        let allow_private = fields.flag(&["allow_private"]).unwrap_or_default();
        let items = fields.get(&["allow"]).and_then(|at| at.list()).unwrap_or_default();
        fields.reject_unknown(&["allow_private", "allow"]);
        Self { allow_private, allow: items.iter().filter_map(rule).collect() }
    }
}

fn rule(at: &Cursor<'_>) -> Option<AllowRule> {
    match AllowRule::parse(at.text()?) {
        Ok(rule) => Some(rule),
        Err(message) => {
            at.problem(message);
            None
        }
    }
}
