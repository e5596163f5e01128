//! What one inherited key says of itself, as a value of the table of them (`inherited!`).
//!
//! Not a key's values, which are those of [`Policies`].

use super::from_headers::PolicyHeader;
use super::{DescribeContext, Policies};
use crate::config::members::MemberTable;
use serde_json::Value;

/// One inherited key, or a few that are inherited together.
pub(super) struct PolicyKey {
    /// Its members of which a config may consist alone (spec: the list of combinations of which it must have one).
    pub enough: &'static [&'static str],
    /// Its members in one level of a config.
    pub members: Members,
    /// What schemas refer to: names, and what makes each.
    pub definitions: &'static [Definition],
    /// Its members in a stored provider, if one may have it.
    pub in_provider: Option<Members>,
    /// The request header for it, where there is one.
    pub header: Option<PolicyHeader>,
    /// Takes from the level above (the second argument) what the level itself leaves open.
    pub inherit: fn(&mut Policies, &Policies),
    /// Its name and value in an explanation, defaults filled in; nothing that may be secret.
    pub describe: Option<Describe>,
}

pub(super) type Members = fn(&mut Policies, &mut MemberTable<'_>);
/// The name of a schema that others refer to, and what makes it.
pub(super) type Definition = (&'static str, fn() -> Value);
pub(super) type Describe = fn(&Policies, &DescribeContext) -> (&'static str, Value);

impl PolicyKey {
    /// What most keys have none of.
    pub const NONE: Self = Self {
        enough: &[],
        members: |_, _| {},
        definitions: &[],
        in_provider: None,
        header: None,
        inherit: |_, _| {},
        describe: None,
    };
}
