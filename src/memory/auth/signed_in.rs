//! A person whom the identity provider has signed in at the console: the claims of the ID token that say who it is and what it may do.
//!
//! Kept in place of the token: that one is longer, and is often good for a few minutes only, while a session lasts for hours. The claims are
//! judged at each call by the settings of that moment (`auth.jwt`), as those of a token are. Where they are kept, and that nobody changes
//! them there, is `control::console`'s. Not here: how the ID token is had (`sign_in_code`).

use super::identity::ClientIdentity;
use super::jwt::{Tokens, claim};
use super::refusals::refused;
use super::service_keys::{IdentityRefusal, ServiceKeys};
use super::signed_token::TokenRefusal;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;
use subtle::ConstantTimeEq;
use uuid::Uuid;
use words::error::Error;
use words::settings::{Jwt, SignInSettings};

/// Names that the reference has for what the settings name no claim for.
const OF_REFERENCE: [&str; 9] =
    ["workspace_slug", "portkey_workspace", "email_id", "uid", "role", "scope", "scopes", "defaults", "sub"];

/// Who has signed in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SignedIn {
    /// The client that the ID token was for.
    client: String,
    claims: Map<String, Value>,
}

impl SignedIn {
    /// Reads the ID token that answers a sign-in. `nonce`: what the answer must have; `until`: when the session ends, seconds since 1970.
    ///
    /// # Errors
    /// [`TokenRefusal`]; `Nonce` where it answers another sign-in.
    pub fn read(
        id_token: &str,
        tokens: &Tokens,
        client_id: &str,
        nonce: &str,
        now: Timestamp,
        until: i64,
    ) -> Result<Self, TokenRefusal> {
        let claims = tokens.id_claims(id_token, now)?;
        if !is_for(&claims, client_id) {
            return Err(TokenRefusal::Audience);
        }
        let answered = claims.get("nonce").and_then(Value::as_str).unwrap_or_default();
        if !bool::from(answered.as_bytes().ct_eq(nonce.as_bytes())) {
            return Err(TokenRefusal::Nonce);
        }
        // OpenID Connect Core, 2: what nothing else of the provider is called.
        if claims.get("sub").and_then(Value::as_str).is_none_or(str::is_empty) {
            return Err(TokenRefusal::ClaimMissing);
        }
        let mut kept = needed(&claims, tokens.settings());
        kept.insert("exp".to_owned(), until.into());
        Ok(Self { client: client_id.to_owned(), claims: kept })
    }

    /// The client that it is under the settings in force. `sign_in`: `console.sign_in`.
    ///
    /// # Errors
    /// 401 where the claims count for nothing any more.
    pub fn authenticate(
        &self,
        sign_in: Option<&SignInSettings>,
        keys: &ServiceKeys,
        now: Timestamp,
    ) -> Result<Arc<ClientIdentity>, Error> {
        let identified = keys.identify_person(self, sign_in, now);
        identified.map(Arc::new).map_err(|refusal| refused(&IdentityRefusal::Token(refusal), "cookie"))
    }

    /// As [`SignedIn::authenticate`], with what the settings say of tokens.
    pub(super) fn identity(
        &self,
        tokens: &Tokens,
        client: &SignInSettings,
        workspace: &dyn Fn(&str) -> Option<Option<Uuid>>,
        now: Timestamp,
    ) -> Result<ClientIdentity, TokenRefusal> {
        if !tokens.has_issuer(&self.claims) {
            return Err(TokenRefusal::Issuer);
        }
        if self.client != client.client_id {
            return Err(TokenRefusal::Audience);
        }
        let (identity, _) = tokens.client(&self.claims, workspace)?;
        if identity.expires_at.is_some_and(|end| now < end) {
            Ok(identity)
        } else {
            Err(TokenRefusal::Expired)
        }
    }
}

/// Whether an ID token is for this client (OpenID Connect Core, 3.1.3.7): where it is for others, too, this one must have asked for it.
fn is_for(claims: &Map<String, Value>, client_id: &str) -> bool {
    let party = claims.get("azp").map(|party| party.as_str() == Some(client_id));
    match claims.get("aud") {
        Some(Value::String(one)) => one == client_id && party.unwrap_or(true),
        Some(Value::Array(all)) => {
            let is_named = all.iter().any(|one| one.as_str() == Some(client_id));
            is_named && party.unwrap_or(all.len() == 1)
        }
        _ => false,
    }
}

/// The claims that say who somebody is and what they may do. Groups, pictures and whatever else there is would not fit into a cookie.
fn needed(claims: &Map<String, Value>, settings: &Jwt) -> Map<String, Value> {
    let own = &settings.claims;
    let named = [&own.workspace, &own.user, &own.role, &own.scopes, &own.defaults];
    let mut kept = Map::new();
    for name in OF_REFERENCE.into_iter().chain(["iss"]) {
        if let Some(value) = claims.get(name) {
            kept.insert(name.to_owned(), value.clone());
        }
    }
    for name in named.into_iter().flatten() {
        if let Some(value) = claim(claims, name) {
            put(&mut kept, name, value.clone());
        }
    }
    kept
}

/// Puts a claim where [`claim`] finds it.
fn put(kept: &mut Map<String, Value>, name: &str, value: Value) {
    let Some(path) = name.strip_prefix('/') else {
        kept.insert(name.to_owned(), value);
        return;
    };
    let mut steps: Vec<String> =
        path.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect();
    let Some(last) = steps.pop() else { return };
    let mut place = kept;
    for step in steps {
        let below = place.entry(step).or_insert_with(|| Value::Object(Map::new()));
        let Value::Object(members) = below else { return };
        place = members;
    }
    place.insert(last, value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn map(value: &Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn an_id_token_is_for_one_client() {
        for (claims, wanted) in [
            (json!({"aud": "us"}), true),
            (json!({"aud": ["us"]}), true),
            (json!({"aud": ["us"], "azp": "us"}), true),
            (json!({"aud": ["us", "them"], "azp": "us"}), true),
            (json!({"aud": ["us", "them"]}), false),
            (json!({"aud": ["us", "them"], "azp": "them"}), false),
            (json!({"aud": "us", "azp": "them"}), false),
            (json!({"aud": "us", "azp": 7}), false),
            (json!({"aud": ["them"], "azp": "us"}), false),
            (json!({"aud": "them"}), false),
            (json!({"aud": []}), false),
            (json!({"aud": null}), false),
            (json!({}), false),
        ] {
            assert_eq!(is_for(&map(&claims), "us"), wanted, "{claims}");
        }
    }

    #[test]
    fn only_what_is_needed_is_kept_where_it_was() {
        let mut settings = Jwt {
            keys: words::settings::jwt::JwksSource::Url(String::new()),
            issuer: "https://id.test".to_owned(),
            audience: vec!["turnpike".to_owned()],
            claims: words::settings::jwt::Claims::default(),
            default_scopes: words::settings::scopes::ScopeSet::default(),
            workspace: None,
            write_roles: Vec::new(),
            organisation_roles: Vec::new(),
            exchange_urls: Vec::new(),
        };
        settings.claims.scopes = Some("/realm_access/roles".to_owned());
        settings.claims.role = Some("/a~1b/c~0d".to_owned());
        settings.claims.user = Some("email".to_owned());
        let claims = map(
            &json!({"iss": "https://id.test", "sub": "7", "email": "ann@x.test", "picture": "x",
            "groups": ["a"], "realm_access": {"roles": ["logs.list"], "more": 1}, "a/b": {"c~d": "admin"}, "nonce": "n"}),
        );
        let wanted = json!({"iss": "https://id.test", "sub": "7", "email": "ann@x.test",
            "realm_access": {"roles": ["logs.list"]}, "a/b": {"c~d": "admin"}});
        let kept = needed(&claims, &settings);
        assert_eq!(Value::Object(kept.clone()), wanted);
        for name in ["/realm_access/roles", "/a~1b/c~0d", "email"] {
            assert_eq!(claim(&kept, name), claim(&claims, name), "{name}");
        }
    }
}
