//! Verifies tokens of an identity provider, and makes the client's identity of their claims.
//!
//! Pure: the provider's keys are set from outside, time is an argument. A verified token is remembered for at most five minutes, and no
//! longer than it is good. Why a token was refused is for the log; its sender learns whether it expired and nothing else.

use super::identity::{ClientIdentity, IdentityKind, KeyDefaults, Role, ShownToken};
use super::jwks::KeySet;
use super::jwt_crypto;
use super::roles;
use super::signed_token::SignedToken;
pub use super::signed_token::TokenRefusal;
use crate::net::outbound::origin::Origin;
use arc_swap::ArcSwap;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use moka::sync::Cache;
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;
use words::config::secret::Secret;
use words::settings::AllowedNames;
use words::settings::Jwt;
use words::settings::jwt::JwksSource;
use words::settings::scopes::{KeyType, Scope, ScopeSet};

/// How far the provider's clock may be off, seconds.
const LEEWAY_SECONDS: i64 = 60;
/// How many verified tokens are remembered, and how long.
const MAX_REMEMBERED: u64 = 10_000;
const REMEMBERED_FOR: Duration = Duration::from_secs(300);
/// The claims that name a workspace where the settings name none: these alone. At some identity providers users write claims of their own,
/// so that no other name may choose a workspace.
const WORKSPACE_CLAIMS: [&str; 2] = ["workspace_slug", "portkey_workspace"];

impl TokenRefusal {
    /// For the log and the audit log.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Malformed => "jwt_malformed",
            Self::Type => "jwt_type",
            Self::Algorithm => "jwt_algorithm",
            Self::KidMissing => "jwt_kid_missing",
            Self::KidUnknown => "jwt_kid_unknown",
            Self::Signature => "jwt_signature",
            Self::Expired => "jwt_expired",
            Self::NotYetValid => "jwt_not_yet_valid",
            Self::Issuer => "jwt_issuer",
            Self::Audience => "jwt_audience",
            Self::ClaimMissing => "jwt_claim_missing",
            Self::Role => "jwt_role",
            Self::WorkspaceUnknown => "jwt_workspace_unknown",
            Self::Nonce => "jwt_nonce",
        }
    }
}

/// The tokens of one identity provider.
pub struct Tokens {
    settings: Jwt,
    keys: ArcSwap<KeySet>,
    verified: Cache<[u8; 32], Arc<Verified>>,
}

/// A token that was verified.
struct Verified {
    identity: Arc<ClientIdentity>,
    /// What it calls its workspace; `None`: it acts for the organisation.
    workspace: Option<String>,
    until: i64,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens").field("issuer", &self.settings.issuer).finish_non_exhaustive()
    }
}

impl Tokens {
    /// Without keys: every token is refused until [`Tokens::set_keys`].
    pub fn new(settings: Jwt) -> Self {
        jwt_crypto::install();
        let verified = Cache::builder().max_capacity(MAX_REMEMBERED).time_to_live(REMEMBERED_FOR).build();
        Self { settings, keys: ArcSwap::default(), verified }
    }

    pub fn settings(&self) -> &Jwt {
        &self.settings
    }

    /// Puts a new set of keys in force. Tokens of keys that are gone must be verified again.
    pub(crate) fn set_keys(&self, keys: KeySet) {
        self.keys.store(Arc::new(keys));
        self.verified.invalidate_all();
    }

    /// Takes over the keys of the settings before, if they have the same identity provider.
    pub(crate) fn take_over(&self, before: &Self) {
        if before.settings.keys == self.settings.keys && before.settings.issuer == self.settings.issuer {
            self.keys.store(before.keys.load_full());
        }
    }

    pub(crate) fn has_keys(&self) -> bool {
        !self.keys.load().is_empty()
    }

    pub fn drop_expired(&self) {
        self.verified.run_pending_tasks();
    }

    /// The client that a token identifies. `workspace`: the id of the workspace with this slug or id, as text; the outer `None` is an
    /// unknown one.
    ///
    /// # Errors
    /// [`TokenRefusal`].
    pub fn verify(
        &self,
        token: &str,
        workspace: &dyn Fn(&str) -> Option<Option<Uuid>>,
        now: Timestamp,
    ) -> Result<Arc<ClientIdentity>, TokenRefusal> {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        if let Some(found) = self.verified.get(&hash)
            && now.as_second() < found.until
            // The workspace may have been archived since.
            && found.workspace.as_ref().is_none_or(|slug| workspace(slug) == Some(found.identity.workspace))
        {
            return Ok(Arc::clone(&found.identity));
        }
        let claims = self.claims(token, now)?;
        let (mut identity, slug) = self.client(&claims, workspace)?;
        let person = self.person(&claims, &hash);
        identity.shown = Some(ShownToken { text: Secret::new(token), person });
        let identity = Arc::new(identity);
        let end = identity.expires_at.map_or(0, Timestamp::as_second) + LEEWAY_SECONDS;
        let until = end.min(now.as_second() + REMEMBERED_FOR.as_secs() as i64);
        let workspace = slug.map(str::to_owned);
        let verified = Verified { identity: Arc::clone(&identity), workspace, until };
        self.verified.insert(hash, Arc::new(verified));
        Ok(identity)
    }

    /// The client that claims stand for, and what they call its workspace.
    pub(super) fn client<'c>(
        &'c self,
        claims: &'c Map<String, Value>,
        workspace: &dyn Fn(&str) -> Option<Option<Uuid>>,
    ) -> Result<(ClientIdentity, Option<&'c str>), TokenRefusal> {
        let role = self.role_name(claims)?;
        let named = self.workspace_of(claims);
        let is_bound =
            named.is_some() || !role.is_some_and(|role| self.settings.organisation_roles.contains(&role));
        let slug = named.or(self.settings.workspace.as_deref()).filter(|_| is_bound);
        let id = match slug {
            Some(slug) => workspace(slug).ok_or(TokenRefusal::WorkspaceUnknown)?,
            None if is_bound => return Err(TokenRefusal::ClaimMissing),
            None => None,
        };
        let identity = self.identity(claims, role, id, is_bound).ok_or(TokenRefusal::ClaimMissing)?;
        Ok((identity, slug))
    }

    /// Whom a token names. Other claims than the subject may be ones that users write themselves.
    fn person(&self, claims: &Map<String, Value>, hash: &[u8; 32]) -> Arc<str> {
        let subject = claims.get("sub").and_then(Value::as_str).filter(|subject| !subject.is_empty());
        match subject {
            Some(subject) => format!("{}\n{subject}", self.settings.issuer).into(),
            None => {
                let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("token {digits}").into()
            }
        }
    }

    /// Whether a token may be sent to this address to be exchanged: the identity provider's own, or one that the operator names. Whoever may
    /// save an MCP server must not learn the tokens of its clients.
    pub fn may_exchange_at(&self, url: &str) -> bool {
        let place = |url: &str| {
            let origin = Origin::parse(url.split(['?', '#']).next().unwrap_or_default(), true).ok()?;
            Some((origin.tls, origin.host, origin.port))
        };
        let published = match &self.settings.keys {
            JwksSource::Url(url) => Some(url.as_str()),
            JwksSource::File(_) => None,
        };
        let named = self.settings.exchange_urls.iter().map(String::as_str);
        let mut trusted = named.chain([self.settings.issuer.as_str()]).chain(published);
        place(url).is_some_and(|wanted| trusted.any(|own| place(own).as_ref() == Some(&wanted)))
    }

    /// Whether a text claims to be a token for this gateway, whoever signed it: such a text is never a provider's key.
    pub fn is_ours(&self, text: &[u8]) -> bool {
        let Some(text) = str::from_utf8(text).ok().filter(|text| has_form(text)) else { return false };
        let payload = text.split('.').nth(1).and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
        let claims = payload.and_then(|payload| serde_json::from_slice::<Map<String, Value>>(&payload).ok());
        claims.is_some_and(|claims| self.has_issuer(&claims) && self.has_audience(&claims))
    }

    /// The claims of a token that is valid now.
    fn claims(&self, token: &str, now: Timestamp) -> Result<Map<String, Value>, TokenRefusal> {
        let token = SignedToken::read(token)?;
        let kind = token.kind().unwrap_or("JWT");
        if !["JWT", "at+jwt", "application/at+jwt"].iter().any(|good| good.eq_ignore_ascii_case(kind)) {
            return Err(TokenRefusal::Type);
        }
        let claims = token.claims(&self.keys.load())?;
        self.check(&claims, now)?;
        if self.has_audience(&claims) { Ok(claims) } else { Err(TokenRefusal::Audience) }
    }

    /// The claims of an ID token, which is good now; whom it is for, and what it answers, is not looked at.
    ///
    /// # Errors
    /// [`TokenRefusal`].
    pub(super) fn id_claims(&self, token: &str, now: Timestamp) -> Result<Map<String, Value>, TokenRefusal> {
        let claims = SignedToken::read(token)?.claims(&self.keys.load())?;
        self.check(&claims, now)?;
        Ok(claims)
    }

    /// Times and issuer.
    fn check(&self, claims: &Map<String, Value>, now: Timestamp) -> Result<(), TokenRefusal> {
        let now = now.as_second();
        let end = time(claims, "exp")?.ok_or(TokenRefusal::ClaimMissing)?;
        if now >= end.saturating_add(LEEWAY_SECONDS) {
            return Err(TokenRefusal::Expired);
        }
        for name in ["nbf", "iat"] {
            if time(claims, name)?.is_some_and(|start| now < start.saturating_sub(LEEWAY_SECONDS)) {
                return Err(TokenRefusal::NotYetValid);
            }
        }
        if self.has_issuer(claims) { Ok(()) } else { Err(TokenRefusal::Issuer) }
    }

    pub(super) fn has_issuer(&self, claims: &Map<String, Value>) -> bool {
        claims.get("iss").and_then(Value::as_str) == Some(&self.settings.issuer)
    }

    fn has_audience(&self, claims: &Map<String, Value>) -> bool {
        let is_ours = |value: &Value| {
            value.as_str().is_some_and(|name| self.settings.audience.iter().any(|own| own == name))
        };
        match claims.get("aud") {
            Some(Value::Array(items)) => items.iter().any(is_ours),
            Some(value) => is_ours(value),
            None => false,
        }
    }

    fn workspace_of<'c>(&'c self, claims: &'c Map<String, Value>) -> Option<&'c str> {
        let named = match &self.settings.claims.workspace {
            Some(name) => claim(claims, name),
            None => WORKSPACE_CLAIMS.iter().find_map(|name| claims.get(*name)),
        };
        named.and_then(Value::as_str).filter(|slug| !slug.is_empty())
    }

    /// The role that a token names, whatever that is here.
    ///
    /// # Errors
    /// `Role`: what it has there is no text, so that nobody can say what it was meant to limit.
    fn role_name<'c>(&self, claims: &'c Map<String, Value>) -> Result<Option<&'c str>, TokenRefusal> {
        let named = claim(claims, self.settings.claims.role.as_deref().unwrap_or("role"));
        named.map(|role| role.as_str().ok_or(TokenRefusal::Role)).transpose()
    }

    /// `role_name`: as the token has it; `workspace`: where it acts; `is_bound`: whether it must stay there, as all but tokens of the
    /// organisation must.
    fn identity(
        &self,
        claims: &Map<String, Value>,
        role_name: Option<&str>,
        workspace: Option<Uuid>,
        is_bound: bool,
    ) -> Option<ClientIdentity> {
        let named = |name: &Option<String>, of_reference: &[&str]| match name {
            Some(name) => claim(claims, name).cloned(),
            None => of_reference.iter().find_map(|name| claims.get(*name)).cloned(),
        };
        let subject = claims.get("sub").and_then(Value::as_str);
        let user = named(&self.settings.claims.user, &["email_id", "sub", "uid"]);
        let user: Arc<str> = user.as_ref().and_then(Value::as_str).filter(|user| !user.is_empty())?.into();
        // A role that is not listed here gives what the lowest one does: whoever names one acts by no more.
        let listed = if is_bound { Role::of_token } else { Role::of_organisation };
        let role = role_name.map(|name| listed(name).unwrap_or(Role::Member));
        let kind = if is_bound { KeyType::WorkspaceUser } else { KeyType::OrganisationService };
        let may_write = role_name.is_some_and(|role| self.settings.write_roles.contains(&role));
        let given = named(&self.settings.claims.scopes, &["scope", "scopes"]);
        let may_have = |scope: &Scope| scope.is_for_tokens(kind, may_write);
        let scopes = match given {
            Some(given) => scopes(&given, may_have),
            None if is_bound => self.settings.default_scopes,
            // They are meant for one workspace: in all of them a token writes by its role alone.
            None => self.settings.default_scopes.iter().filter(may_have).collect(),
        };
        let scopes = match role {
            Some(role) => scopes.and(&roles::most(role)),
            None => scopes,
        };
        let defaults = named(&self.settings.claims.defaults, &["defaults"]);
        Some(ClientIdentity {
            kind: IdentityKind::Jwt,
            name: Some(Arc::clone(&user)),
            // No name of a key has a line feed.
            id: Some(format!("jwt {}\n{}", self.settings.issuer, subject.unwrap_or(&user)).into()),
            key_id: None,
            workspace,
            is_bound,
            scopes,
            user: Some(user),
            role,
            defaults: defaults.as_ref().map(key_defaults).unwrap_or_default(),
            expires_at: Timestamp::from_second(time(claims, "exp").ok()??).ok(),
            shown: None,
        })
    }
}

/// Whether a text has the form of a signed token: three parts of base64url.
pub(crate) fn has_form(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    text.starts_with("eyJ") && text.split('.').count() == 3 && text.split('.').all(is_part)
}

/// A claim by its name, or by a JSON pointer.
pub(super) fn claim<'c>(claims: &'c Map<String, Value>, name: &str) -> Option<&'c Value> {
    let Some(path) = name.strip_prefix('/') else { return claims.get(name) };
    let mut steps = path.split('/').map(|step| step.replace("~1", "/").replace("~0", "~"));
    let first = claims.get(&steps.next()?)?;
    steps.try_fold(first, |value, step| value.get(step))
}

/// A claim that is a time in seconds. A fraction is allowed (RFC 7519, 2).
fn time(claims: &Map<String, Value>, name: &str) -> Result<Option<i64>, TokenRefusal> {
    match claims.get(name) {
        None => Ok(None),
        Some(Value::Number(number)) => {
            let seconds = number.as_i64().or_else(|| number.as_f64().map(|seconds| seconds as i64));
            seconds.map(Some).ok_or(TokenRefusal::Malformed)
        }
        Some(_) => Err(TokenRefusal::Malformed),
    }
}

/// Scopes as a list or as a text with spaces, bare or behind a vendor's prefix. Unknown ones, and those that it may not have, are ignored.
fn scopes(value: &Value, may_have: impl Fn(&Scope) -> bool) -> ScopeSet {
    let names: Vec<&str> = match value {
        Value::String(text) => text.split_whitespace().collect(),
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let parse = |name: &str| {
        Scope::parse(name).or_else(|| name.split_once('.').and_then(|(_, bare)| Scope::parse(bare)))
    };
    names.into_iter().filter_map(parse).filter(may_have).collect()
}

fn key_defaults(value: &Value) -> KeyDefaults {
    let config_id = value.get("config_id").and_then(Value::as_str).filter(|id| !id.is_empty()).map(Arc::from);
    let metadata = value.get("metadata").and_then(Value::as_object);
    let metadata = metadata.into_iter().flatten();
    let metadata =
        metadata.filter_map(|(name, value)| Some((Arc::from(name.as_str()), Arc::from(value.as_str()?))));
    let allowed_models = value.get("allowed_models").filter(|value| !value.is_null()).map(allowed_names);
    KeyDefaults { config_id, metadata: metadata.collect(), allowed_models, ..KeyDefaults::default() }
}

/// The models of a claim: a list of names, or one name. What is neither allows none.
fn allowed_names(value: &Value) -> AllowedNames {
    let names = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    AllowedNames::new(names.iter().filter_map(Value::as_str))
}

#[cfg(test)]
mod tests;
