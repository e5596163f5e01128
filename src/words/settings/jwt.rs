//! `auth.jwt`: tokens of an identity provider that count as service keys.
//!
//! Not here: verifying a token (`auth::jwt`) and fetching the provider's keys (`state::jwks`).

use super::auth::{Scopes, WORKSPACE};
use super::scopes::ScopeSet;
use super::values::URL;
use crate::config::members::{FILE, Form, MemberTable, NON_EMPTY, OneOf, form, list, non_empty, object};
use crate::config::node::NodeKind;
use crate::config::read::Cursor;
use crate::json::schema;
use serde_json::json;
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
    /// Tokens with one of these roles may hold every scope that their role allows, and not only what all tokens may.
    pub write_roles: Vec<&'static str>,
    /// Tokens with one of these roles that name no workspace act for the organisation.
    pub organisation_roles: Vec<&'static str>,
    /// Where tokens may be sent to be exchanged, beside the hosts of `issuer` and of the keys.
    pub exchange_urls: Vec<String>,
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

/// The roles that a token can name.
const ROLES: OneOf = OneOf(&["owner", "admin", "manager", "member"]);
/// Those of them that a person can have in the organisation, with rights there.
const ORGANISATION_ROLES: OneOf = OneOf(&["owner", "admin"]);

/// A text, or a list of them.
const AUDIENCE: Form<Vec<String>> = form(
    |at| Some(audience(at)),
    |doc| {
        let one = schema::non_empty("An audience.");
        json!({
            "anyOf": [one, {"type": "array", "minItems": 1, "items": one}],
            "description": doc,
            "examples": ["turnpike"],
        })
    },
);

impl Jwt {
    pub(super) fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let file = "A file with the keys in place of jwks_url; read again on a reload.";
        let claims = "The claims that say something about the client.";
        let scopes = "The scopes of tokens that name none. Default: none.";
        let url = table.get("jwks_url", URL, "Where the provider publishes its keys.");
        let file = table.get("jwks_file", FILE, file);
        let issuer = table.needed("issuer", NON_EMPTY, "The only issuer that counts (iss).");
        let audience = table.needed("audience", AUDIENCE, "A token must be for one of these (aud).");
        let claims = table.get("claims", object(Claims::members), claims);
        let default_scopes = table.get("default_scopes", Scopes { of_workspace: true }, scopes);
        let workspace =
            table.get("workspace", WORKSPACE, "The slug of the workspace of tokens that name none.");
        let writers = "Tokens with one of these roles may hold every scope that the role allows: policies, guardrails and integrations are \
                       theirs to change, too. Default: none.";
        let write_roles = table.get("write_roles", list(ROLES, "A role of tokens."), writers);
        let of_organisation =
            "Tokens with one of these roles that name no workspace act for the organisation. Default: none.";
        let of_organisation =
            table.get("organisation_roles", list(ORGANISATION_ROLES, "A role of tokens."), of_organisation);
        let exchanges = "Token endpoints, beside those at the hosts of issuer and jwks_url, to which MCP servers with auth_type \
                         token_exchange may have tokens of clients sent. Scheme, host and port count. Default: none.";
        let exchange_urls = table.get("exchange_urls", list(URL, "A token endpoint."), exchanges);
        let has_url = table.at("jwks_url").is_some();
        if has_url && file.is_some() {
            table.problem("jwks_url", "give jwks_url or jwks_file, not both");
        } else if !has_url && file.is_none() {
            table.missing("jwks_url", "is required, or jwks_file");
        }
        Some(Self {
            keys: url.map(JwksSource::Url).or(file.map(JwksSource::File))?,
            issuer: issuer?,
            audience: audience?,
            claims: claims.unwrap_or_default(),
            default_scopes: default_scopes.unwrap_or_default(),
            workspace,
            write_roles: write_roles.unwrap_or_default(),
            organisation_roles: of_organisation.unwrap_or_default(),
            exchange_urls: exchange_urls.unwrap_or_default(),
        })
    }
}

fn audience(at: &Cursor<'_>) -> Vec<String> {
    if let NodeKind::Text(_) = at.node.kind {
        return non_empty(at).map(str::to_owned).into_iter().collect();
    }
    if at.node.is_empty_list() {
        at.problem("must name at least one audience");
    }
    let items = at.list().unwrap_or_default();
    items.iter().filter_map(|item| non_empty(item).map(str::to_owned)).collect()
}

impl Claims {
    fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let mut claim = |name: &'static str, what: &str| {
            let doc = format!("{what} A name, or a JSON pointer such as /realm_access/roles.");
            table.get(name, NON_EMPTY, &doc)
        };
        let workspace = "The workspace's slug. Default: workspace_slug, else portkey_workspace.";
        Some(Self {
            workspace: claim("workspace", workspace),
            user: claim("user", "The user. Default: email_id, else sub, else uid."),
            role: claim("role", "admin, manager or member. Default: role."),
            scopes: claim("scopes", "A list, or a text with spaces. Default: scope, else scopes."),
            defaults: claim("defaults", "An object with config_id and metadata. Default: defaults."),
        })
    }
}
