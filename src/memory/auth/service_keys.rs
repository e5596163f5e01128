//! All service keys that count at a moment: those of the settings and those of the store, and the headers that may contain one.
//!
//! The time of a lookup does not reveal how much of a key was right. Which key of a request counts is decided in `auth` itself.

use super::identity::{ClientIdentity, IdentityKind, KeyDefaults, LivingKey};
use super::jwt::{self, TokenRefusal, Tokens};
use super::key_format::KeyText;
use super::session_token::is_token;
use super::signed_in::SignedIn;
use super::stored_keys::{KeyRefusal, StoredKeys};
use http::HeaderName;
use jiff::Timestamp;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use subtle::ConstantTimeEq;
use uuid::Uuid;
use words::config::secret::Secret;
use words::settings::scopes::Scope;
use words::settings::service_key::sha256;
use words::settings::{ServiceKey, Settings, SignInSettings};

/// Up to this many keys of the settings, comparing with each one is cheaper than a digest.
const MAX_COMPARED_KEYS: usize = 8;

/// The slug of the workspace of keys that name none.
pub const DEFAULT_WORKSPACE: &str = "default";

/// The service keys of one generation of settings and one moment of the store.
#[derive(Debug)]
pub struct ServiceKeys {
    /// The headers that may contain a service key, one per accepted prefix.
    pub headers: Vec<HeaderName>,
    /// By the digest of their key, so that a lookup never compares two keys byte by byte.
    by_digest: HashMap<[u8; 32], Arc<ClientIdentity>>,
    /// All keys of the settings if there are at most [`MAX_COMPARED_KEYS`], and none of which only the digest is given; otherwise empty.
    compared: Vec<(Secret, Arc<ClientIdentity>)>,
    /// The names of those of which only the digest is given.
    digests_alone: HashSet<Arc<str>>,
    stored: Arc<StoredKeys>,
    tokens: Option<Arc<Tokens>>,
    anonymous: Arc<ClientIdentity>,
    are_required: bool,
}

/// Why a key or token does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdentityRefusal {
    Key(KeyRefusal),
    Token(TokenRefusal),
}

impl ServiceKeys {
    /// `stored`: the keys and workspaces of the store. `tokens`: made from `settings.auth.jwt`. A key of the settings whose workspace does
    /// not exist reaches the organisation's own objects, and nothing else.
    pub fn new(settings: &Settings, stored: Arc<StoredKeys>, tokens: Option<Arc<Tokens>>) -> Self {
        let keys = &settings.auth.keys;
        let identified: Vec<_> = keys.iter().map(|key| (key, Arc::new(identity(key, &stored)))).collect();
        let few = keys.len() <= MAX_COMPARED_KEYS && keys.iter().all(|key| key.key.text().is_some());
        let may_call = keys.iter().any(|key| key.scopes.contains(Scope::CompletionsWrite));
        Self {
            headers: settings.prefixed_headers("api-key"),
            by_digest: identified
                .iter()
                .map(|(key, identity)| (key.key.sha256(), Arc::clone(identity)))
                .collect(),
            compared: identified
                .into_iter()
                .filter(|_| few)
                .filter_map(|(key, identity)| Some((key.key.text()?.clone(), identity)))
                .collect(),
            digests_alone: keys
                .iter()
                .filter(|key| key.key.text().is_none())
                .map(|key| Arc::from(key.name.as_str()))
                .collect(),
            are_required: may_call || stored.may_call() || tokens.is_some(),
            anonymous: Arc::new(ClientIdentity::anonymous(stored.workspace(DEFAULT_WORKSPACE))),
            stored,
            tokens,
        }
    }

    /// Whether clients of the data port must show a service key: as soon as any key may call, or tokens count. Keys that only
    /// administrate leave the port open.
    pub fn are_required(&self) -> bool {
        self.are_required
    }

    /// Whether there is no key at all.
    pub fn is_empty(&self) -> bool {
        self.by_digest.is_empty() && self.stored.is_empty() && self.tokens.is_none()
    }

    pub fn stored(&self) -> &Arc<StoredKeys> {
        &self.stored
    }

    /// The client of whom no key is demanded.
    pub fn anonymous(&self) -> Arc<ClientIdentity> {
        Arc::clone(&self.anonymous)
    }

    pub fn tokens(&self) -> Option<&Arc<Tokens>> {
        self.tokens.as_ref()
    }

    /// The client with this key or token.
    ///
    /// # Errors
    /// [`IdentityRefusal`].
    pub fn identify(&self, key: &[u8], now: Timestamp) -> Result<Arc<ClientIdentity>, IdentityRefusal> {
        if let Some(identity) = self.of_settings(key) {
            return Ok(Arc::clone(identity));
        }
        if let Some(key) = KeyText::parse(key) {
            return self.stored.verify(&key, now).map(Arc::clone).map_err(IdentityRefusal::Key);
        }
        match (&self.tokens, str::from_utf8(key)) {
            (Some(tokens), Ok(token)) if jwt::has_form(token) => {
                tokens.verify(token, &|name| self.workspace(name), now).map_err(IdentityRefusal::Token)
            }
            _ => self.stored.verify_other(key, now).map(Arc::clone).map_err(IdentityRefusal::Key),
        }
    }

    /// The person whom the identity provider has signed in.
    ///
    /// # Errors
    /// [`TokenRefusal`]: the claims are of another provider or client than the settings have now, or count for nothing any more.
    pub fn identify_person(
        &self,
        person: &SignedIn,
        sign_in: Option<&SignInSettings>,
        now: Timestamp,
    ) -> Result<ClientIdentity, TokenRefusal> {
        let tokens = self.tokens.as_ref().ok_or(TokenRefusal::Issuer)?;
        let client = sign_in.ok_or(TokenRefusal::Audience)?;
        person.identity(tokens, client, &|name| self.workspace(name), now)
    }

    /// The stored key of this record, while it is good.
    pub fn living_stored(&self, record: Uuid, now: Timestamp) -> Option<LivingKey> {
        self.stored.living(record, now)
    }

    /// The key of the settings with this name.
    pub fn living_of_settings(&self, name: &str) -> Option<LivingKey> {
        let mut all = self.by_digest.iter();
        let (digest, identity) = all.find(|(_, identity)| identity.name.as_deref() == Some(name))?;
        Some(LivingKey { identity: Arc::clone(identity), secrets: vec![digest.to_vec()] })
    }

    /// The same with what signs for it: nothing where the settings have its digest alone, which others may have too.
    pub(super) fn signer_of_settings(&self, name: &str) -> Option<LivingKey> {
        self.living_of_settings(name).filter(|_| !self.digests_alone.contains(name))
    }

    /// The id of a workspace in use, by slug or id. Without a store there is none, and what a token names is not looked for.
    fn workspace(&self, name: &str) -> Option<Option<Uuid>> {
        match self.stored.workspace(name) {
            Some(id) => Some(Some(id)),
            None => self.stored.has_no_workspace().then_some(None),
        }
    }

    /// Whether this is a service key or token, or was one, so that it must not be sent to a provider. Anything with the form and the checksum
    /// of a stored key is taken for one, and anything that claims to be a token of the identity provider for this gateway.
    pub(crate) fn is_service_key(&self, key: &[u8]) -> bool {
        self.of_settings(key).is_some()
            || is_token(key)
            || KeyText::parse(key).is_some_and(|key| key.is_intact())
            || self.stored.has_other(key)
            || self.tokens.as_ref().is_some_and(|tokens| tokens.is_ours(key))
    }

    /// A key of the settings. Few keys are compared one by one in constant time; many are found by digest, so that the time does
    /// not grow with their number.
    fn of_settings(&self, key: &[u8]) -> Option<&Arc<ClientIdentity>> {
        if self.compared.len() == self.by_digest.len() {
            let matches =
                |entry: &&(Secret, Arc<ClientIdentity>)| bool::from(entry.0.expose().as_bytes().ct_eq(key));
            return self.compared.iter().find(matches).map(|(_, identity)| identity);
        }
        self.by_digest.get(&sha256(key))
    }
}

fn identity(key: &ServiceKey, stored: &StoredKeys) -> ClientIdentity {
    let name: Arc<str> = key.name.as_str().into();
    let own = key.workspace.as_deref();
    ClientIdentity {
        kind: IdentityKind::Settings,
        name: Some(Arc::clone(&name)),
        id: Some(name),
        key_id: None,
        workspace: stored.workspace(own.unwrap_or(DEFAULT_WORKSPACE)),
        is_bound: own.is_some(),
        scopes: key.scopes,
        user: None,
        role: None,
        defaults: KeyDefaults {
            log_payloads: key.log_payloads,
            priority: key.priority,
            allowed_models: key.allowed_models.clone(),
            ..KeyDefaults::default()
        },
        expires_at: None,
        shown: None,
    }
}
