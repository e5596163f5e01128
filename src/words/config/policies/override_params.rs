//! `override_params`: members to set in the request body.
//!
//! Merged with those of the level above, member by member. Not described: values may be secret.

use super::{Policies, PolicyKey};
use crate::config::members::{Form, MemberTable, form};
use crate::config::read::Cursor;
use crate::json::schema::free;
use std::collections::HashSet;

pub(super) const KEY: PolicyKey =
    PolicyKey { members, in_provider: Some(members), inherit, ..PolicyKey::NONE };

/// Names and JSON texts.
type Params = Vec<(String, Box<str>)>;

const PARAMS: Form<Params> = form(read, free);

/// The members of an object.
pub(super) fn read(at: &Cursor<'_>) -> Option<Params> {
    let entries = at.entries()?.into_iter();
    Some(entries.map(|(entry, _)| (entry.name.clone(), entry.value.to_json().into())).collect())
}

fn members(policies: &mut Policies, table: &mut MemberTable<'_>) {
    let params = table.get("override_params", PARAMS, "Members to set in the request body.");
    policies.override_params = params.unwrap_or_default();
}

fn inherit(policies: &mut Policies, above: &Policies) {
    let own = std::mem::take(&mut policies.override_params);
    policies.override_params = inherited(own, &above.override_params);
}

/// A level's own, behind those of the level above that it does not have.
pub(super) fn inherited(own: Params, above: &Params) -> Params {
    let names: HashSet<&str> = own.iter().map(|(name, _)| name.as_str()).collect();
    let mut all: Params = above.iter().filter(|(name, _)| !names.contains(name.as_str())).cloned().collect();
    all.extend(own);
    all
}

impl Policies {
    /// Whether they change the JSON body.
    pub fn edits_body(&self) -> bool {
        !self.override_params.is_empty() || !self.default_params.is_empty() || !self.drop_params().is_empty()
    }

    /// Whether they set a member of the body. `is_sent`: the client sends it.
    pub fn sets_param(&self, name: &str, is_sent: bool) -> bool {
        let is_in = |params: &Params| params.iter().any(|(set, _)| set == name);
        is_in(&self.override_params) || (!is_sent && is_in(&self.default_params))
    }
}
