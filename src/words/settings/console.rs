//! `console`: the page for operators at the control port, and how persons sign in there.
//!
//! Not here: what it serves (`control`), and which tokens count (`auth.jwt`).

use super::values::SIGN_IN_SCOPE;
use crate::config::members::{FLAG, MemberTable, NON_EMPTY, SECRET, list, object};
use crate::config::secret::Secret;

/// `console`; all of it may be absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleSettings {
    /// Whether the control port has the routes below `/console/`.
    pub is_enabled: bool,
    /// How persons sign in at the identity provider of `auth.jwt`; `None`: with a key or token alone.
    pub sign_in: Option<SignInSettings>,
}

/// `console.sign_in`: what the gateway is at the identity provider of `auth.jwt`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignInSettings {
    /// Who the gateway is there.
    pub client_id: String,
    /// `None`: a public client, which PKCE alone protects.
    pub client_secret: Option<Secret>,
    /// What is asked for, `openid` among it.
    pub scopes: Vec<String>,
}

/// Said where `auth.jwt` is missing, which says who may do what.
pub(super) const NEEDS_JWT: &str =
    "needs auth.jwt, whose issuer signs persons in and whose claims say what they may do";

/// Said where the issuer of `auth.jwt` is no address.
pub(super) const NEEDS_ISSUER_URL: &str =
    "needs an issuer in auth.jwt that is a URL: below it the identity provider says where persons sign in";

const SCOPES: [&str; 3] = ["openid", "profile", "email"];

impl Default for ConsoleSettings {
    fn default() -> Self {
        Self { is_enabled: true, sign_in: None }
    }
}

impl ConsoleSettings {
    pub(super) const DOC: &str = "The console, a page for operators at the control port (docs/console.md).";

    pub(super) fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let enabled = "Whether the control port serves it, below /console/. Read at the start.";
        let sign_in = "Has persons sign in at the identity provider of auth.jwt (OpenID Connect), beside keys and tokens.";
        Some(Self {
            is_enabled: table.or("enabled", FLAG, Self::default().is_enabled, enabled),
            sign_in: table.get("sign_in", object(SignInSettings::members), sign_in),
        })
    }
}

impl SignInSettings {
    fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let client = "Who the gateway is at the identity provider. ID tokens must be for this client.";
        let secret = "The client's secret. Default: none, for a public client.";
        let scopes = "What is asked for; openid always is. Default: openid, profile, email.";
        let client_id = table.needed("client_id", NON_EMPTY, client);
        let client_secret = table.get("client_secret", SECRET, secret);
        let scopes = table.get("scopes", list(SIGN_IN_SCOPE, "A scope."), scopes);
        let mut scopes = scopes.unwrap_or_else(|| SCOPES.map(str::to_owned).to_vec());
        if !scopes.iter().any(|scope| scope == "openid") {
            scopes.insert(0, "openid".to_owned());
        }
        Some(Self { client_id: client_id?, client_secret, scopes })
    }
}
