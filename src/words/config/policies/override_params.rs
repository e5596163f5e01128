//! `override_params`: members to set in the request body.
//!
//! Merged with those of the level above, member by member. Not described: values may be secret.

use super::{Policies, PolicyKey};
use crate::config::members::{Form, MemberTable, form};
use crate::json::schema::free;
use std::collections::HashSet;

pub(super) const KEY: PolicyKey =
    PolicyKey { members, in_provider: Some(members), inherit, ..PolicyKey::NONE };

const PARAMS: Form<Vec<(String, Box<str>)>> = form(
    |at| {
        let entries = at.entries()?.into_iter();
        Some(entries.map(|(entry, _)| (entry.name.clone(), entry.value.to_json().into())).collect())
    },
    free,
);

fn members(policies: &mut Policies, table: &mut MemberTable<'_>) {
    let params = table.get("override_params", PARAMS, "Members to set in the request body.");
    policies.override_params = params.unwrap_or_default();
}

fn inherit(policies: &mut Policies, above: &Policies) {
    let own = std::mem::take(&mut policies.override_params);
    let names: HashSet<&str> = own.iter().map(|(name, _)| name.as_str()).collect();
    let inherited = above.override_params.iter().filter(|(name, _)| !names.contains(name.as_str())).cloned();
    policies.override_params = inherited.collect();
    policies.override_params.extend(own);
}
