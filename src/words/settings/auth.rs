//! `auth`: who may call, and what calls may bring with them.
//!
//! Not here: provider keys, and looking up the key of a request (`auth`).

use super::scopes::{KeyType, ScopeSet};
use super::{Jwt, ServiceKey};
use crate::config::read::{Cursor, ObjectReader};
use std::collections::HashSet;

/// The section `auth`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Auth {
    /// `auth.keys`; without any, and without stored keys, clients need no service key.
    pub keys: Vec<ServiceKey>,
    /// Whether requests may only use stored providers and saved configs.
    pub saved_only: bool,
    /// The identity provider whose tokens count, too.
    pub jwt: Option<Jwt>,
}

impl Auth {
    pub(super) fn read(mut fields: ObjectReader<'_>) -> Self {
        let items = fields.get(&["keys"]).and_then(|at| at.list()).unwrap_or_default();
        let (mut names, mut texts) = (HashSet::new(), HashSet::new());
        let auth = Self {
            keys: items.iter().filter_map(|at| ServiceKey::read(at, &mut names, &mut texts)).collect(),
            saved_only: fields.flag(&["saved_only"]).unwrap_or_default(),
            jwt: fields.get(&["jwt"]).and_then(|at| Jwt::read(&at)),
        };
        fields.reject_unknown(&["keys", "saved_only", "jwt"]);
        auth
    }
}

/// The names that stand for several scopes in the settings.
pub(super) const SHORTHANDS: [&str; 2] = ["all", "administration"];

/// The scopes that a list of names and shorthands gives; `at` is that list. Unknown names are reported.
pub(super) fn scopes(at: &Cursor<'_>, of_workspace: bool) -> ScopeSet {
    let mut scopes = ScopeSet::default();
    let most = if of_workspace { KeyType::WorkspaceService.scopes() } else { ScopeSet::all() };
    for item in at.list().unwrap_or_default() {
        let Some(name) = item.text() else { continue };
        let named = match name {
            "all" => most,
            "administration" => KeyType::OrganisationService.scopes().and(&most),
            name => {
                let (named, unknown) = ScopeSet::parse([name]);
                if !unknown.is_empty() {
                    item.problem("is no scope; docs/keys.md lists them");
                } else if named.and(&most).is_empty() {
                    item.problem(
                        "is a scope of the whole organisation, which a key with a workspace cannot hold",
                    );
                }
                named
            }
        };
        scopes = scopes.or(&named);
    }
    scopes
}
