//! `auth.jwt`: tokens of an identity provider that count as service keys.
//!
//! Not here: verifying a token (`auth::jwt`) and fetching the provider's keys (`state::jwks`).

use super::auth;
use super::scopes::ScopeSet;
use super::values::{base_url, file, is_id, non_empty};
use crate::config::node::Kind;
use crate::config::read::{Cursor, ObjectReader};
use std::path::PathBuf;

/// The identity provider whose tokens count, and what their claims mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jwt {
    pub keys: JwksSource,
    /// The only `iss` that counts.
    pub issuer: String,
    /// A token must be for one of these (`aud`).
    pub audience: Vec<String>,
    pub claims: Claims,
    /// The scopes of tokens that name none.
    pub default_scopes: ScopeSet,
    /// The slug of the workspace of tokens that name none.
    pub workspace: Option<String>,
}

/// Where the provider's public keys are: a JSON Web Key Set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JwksSource {
    Url(String),
    File(PathBuf),
}

/// The claims that say something about the client: names, or JSON pointers such as `/realm_access/roles`. `None`: the names of the
/// reference, under any prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claims {
    pub workspace: Option<String>,
    pub user: Option<String>,
    pub role: Option<String>,
    pub scopes: Option<String>,
    pub defaults: Option<String>,
}

impl Jwt {
    pub(super) fn read(at: &Cursor<'_>) -> Option<Self> {
        let mut fields = at.fields()?;
        let keys = Self::source(&mut fields);
        let issuer = fields.required(&["issuer"]).and_then(|at| non_empty(&at).map(str::to_owned));
        let audience = fields.required(&["audience"]).map(|at| Self::audience(&at));
        let claims = fields.get(&["claims"]).and_then(|at| at.fields()).map(Claims::read).unwrap_or_default();
        let default_scopes =
            fields.get(&["default_scopes"]).map(|at| auth::scopes(&at, true)).unwrap_or_default();
        let workspace = fields.get(&["workspace"]).and_then(|at| {
            let slug = non_empty(&at)?;
            if !is_id(slug) {
                at.problem(
                    "is no slug of a workspace: letters, digits, dots, dashes and underscores, at most 128",
                );
            }
            Some(slug.to_owned())
        });
        fields.reject_unknown(&[
            "jwks_url",
            "jwks_file",
            "issuer",
            "audience",
            "claims",
            "default_scopes",
            "workspace",
        ]);
        Some(Self { keys: keys?, issuer: issuer?, audience: audience?, claims, default_scopes, workspace })
    }

    fn source(fields: &mut ObjectReader<'_>) -> Option<JwksSource> {
        let url = fields.get(&["jwks_url"]);
        let path = file(fields, "jwks_file").map(JwksSource::File);
        match (url, path) {
            (Some(at), None) => {
                let url = non_empty(&at)?;
                if let Err(why) = base_url(url) {
                    at.problem(why);
                }
                Some(JwksSource::Url(url.to_owned()))
            }
            (None, Some(path)) => Some(path),
            (Some(at), Some(_)) => {
                at.problem("give jwks_url or jwks_file, not both");
                None
            }
            (None, None) => {
                fields.missing("jwks_url", "is required, or jwks_file");
                None
            }
        }
    }

    fn audience(at: &Cursor<'_>) -> Vec<String> {
        if let Kind::Text(_) = at.node.kind {
            return non_empty(at).map(str::to_owned).into_iter().collect();
        }
        let items = at.list().unwrap_or_default();
        if items.is_empty() && matches!(at.node.kind, Kind::List(_)) {
            at.problem("must name at least one audience");
        }
        items.iter().filter_map(|item| non_empty(item).map(str::to_owned)).collect()
    }
}

impl Claims {
    fn read(mut fields: ObjectReader<'_>) -> Self {
        let mut name =
            |name: &'static str| fields.get(&[name]).and_then(|at| non_empty(&at).map(str::to_owned));
        let claims = Self {
            workspace: name("workspace"),
            user: name("user"),
            role: name("role"),
            scopes: name("scopes"),
            defaults: name("defaults"),
        };
        fields.reject_unknown(&["workspace", "user", "role", "scopes", "defaults"]);
        claims
    }
}
