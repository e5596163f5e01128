//! `default_params`: members of the request body where the client sends none of the name.
//!
//! Merged with those of the level above, member by member, as `override_params`, which count before them. Not described: values may
//! be secret.

use super::override_params::{inherited, read};
use super::{Policies, PolicyKey};
use crate::config::members::{Form, MemberTable, form};
use crate::json::schema::free;

pub(super) const KEY: PolicyKey =
    PolicyKey { members, in_provider: Some(members), inherit, ..PolicyKey::NONE };

const PARAMS: Form<Vec<(String, Box<str>)>> = form(
    |at| {
        if let Some(model) = at.member("model") {
            model.problem("is no default: a target sets its model with override_params: {model: NAME}");
            return None;
        }
        // A response would be of another kind than the one that the client reads.
        if let Some(stream) = at.member("stream") {
            stream.problem("is no default: whether a response is streamed is for the client to say");
            return None;
        }
        read(at)
    },
    free,
);

fn members(policies: &mut Policies, table: &mut MemberTable<'_>) {
    let doc =
        "Members of the request body, but for model and stream, where the client sends none of the name.";
    policies.default_params = table.get("default_params", PARAMS, doc).unwrap_or_default();
}

fn inherit(policies: &mut Policies, above: &Policies) {
    let own = std::mem::take(&mut policies.default_params);
    policies.default_params = inherited(own, &above.default_params);
}
