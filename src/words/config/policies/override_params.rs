//! `override_params`: members to set in the request body.
//!
//! Merged with those of the level above, member by member. Not described: values may be secret.

use super::{Policies, PolicyKey};
use crate::config::read::ObjectReader;
use crate::json::schema::free;
use serde_json::Value;
use std::collections::HashSet;

pub(super) const KEY: PolicyKey = PolicyKey {
    names: &["override_params"],
    read,
    schema,
    in_provider: Some((read, schema)),
    inherit,
    ..PolicyKey::NONE
};

fn read(policies: &mut Policies, fields: &mut ObjectReader<'_>) {
    let entries = fields.get(&["override_params"]).and_then(|at| at.entries()).unwrap_or_default();
    let members = entries.into_iter().map(|(entry, _)| (entry.name.clone(), entry.value.to_json().into()));
    policies.override_params = members.collect();
}

fn schema(_: &str) -> Value {
    free("Members to set in the request body.")
}

fn inherit(policies: &mut Policies, above: &Policies) {
    let own = std::mem::take(&mut policies.override_params);
    let names: HashSet<&str> = own.iter().map(|(name, _)| name.as_str()).collect();
    let inherited = above.override_params.iter().filter(|(name, _)| !names.contains(name.as_str())).cloned();
    policies.override_params = inherited.collect();
    policies.override_params.extend(own);
}
