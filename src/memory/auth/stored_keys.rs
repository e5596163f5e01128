//! The service keys of the store: an immutable table by public id. The next one is made from the one before: only what has changed in the
//! store is looked at, and everything else is shared. What requests need of a key is kept from its first use on: most keys of a large store
//! have none for days. That it can be read is seen when it changes.
//!
//! A key is verified by its HMAC once; then its secret is kept in memory and compared in constant time, so that a stored key costs a
//! request no more than one of the settings. Expiry is compared with the clock of each request. Not here: how keys are made
//! (`control`), and where in a request they stand.

use super::identity::{ClientIdentity, IdentityKind, KeyDefaults, LivingKey};
use super::key_body::{BodyDefaults, KeyBody, MAX_SECRETS, OtherForm};
use super::key_format::{KeyHash, KeyText, PublicId};
use crate::store::{Catalog, Kind, Record, Status};
use imbl::{HashMap, OrdMap};
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use subtle::ConstantTimeEq;
use uuid::Uuid;
use words::config::policies::Priority;
use words::settings::logs::Payloads;
use words::settings::scopes::Scope;
use words::settings::service_key::sha256;

/// Why a key does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyRefusal {
    /// No such key: never made, mistyped, deleted, or another secret has replaced it at once.
    Unknown,
    /// The secret is right and its time is over.
    Expired(Timestamp),
}

/// The record of a key before and now.
type Change<'a> = (Option<&'a Arc<Record>>, Option<&'a Arc<Record>>);

/// What a workspace sets for the requests made in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkspaceDefaults {
    /// Members that take precedence over those of keys and requests.
    pub metadata: Vec<(String, String)>,
    /// The config of keys of users that name none.
    pub user_api_key_config: Option<String>,
}

/// All stored keys of one moment.
#[derive(Debug, Clone)]
pub struct StoredKeys {
    pepper: Option<KeyHash>,
    /// What it was made from.
    catalog: Catalog,
    /// A tree, because nodes of a map by hashes would be mostly empty: 150 bytes a key.
    by_public_id: OrdMap<PublicId, Arc<KeyEntry>>,
    /// Of keys that were made elsewhere and have no public id in them: by their hash.
    others: OrdMap<[u8; 32], PublicId>,
    /// The workspaces in use, by slug and by id.
    workspaces: HashMap<String, Uuid>,
    /// What workspaces set for the requests made in them; only those that set something.
    defaults: HashMap<Uuid, WorkspaceDefaults>,
    /// Keys that may call, expired and deleted ones as well: they must not open the data port to everyone.
    calling: usize,
}

/// A key as the table has it.
#[derive(Debug)]
struct KeyEntry {
    record: Arc<Record>,
    may_call: bool,
    /// The hashes by which it is found, of keys that were made elsewhere.
    others: Box<[[u8; 32]]>,
    /// Once it was used.
    key: OnceLock<Box<StoredKey>>,
}

/// What requests need of a key.
#[derive(Debug)]
struct StoredKey {
    identity: Arc<ClientIdentity>,
    secrets: Vec<StoredSecret>,
    last_use: Arc<LastUse>,
}

struct StoredSecret {
    hash: [u8; 32],
    other_form: Option<OtherForm>,
    /// The HMAC of a key that was found by its SHA-256, once it was sent.
    own_hash: OnceLock<[u8; 32]>,
    expires_at: Option<Timestamp>,
    /// The text that had this hash, once it was sent.
    verified: OnceLock<[u8; 43]>,
}

impl StoredSecret {
    /// The HMAC; `None`: there is the SHA-256 alone, and the key was not sent yet.
    fn hmac(&self) -> Option<[u8; 32]> {
        match self.other_form {
            Some(OtherForm::Sha256) => self.own_hash.get().copied(),
            Some(OtherForm::Hmac) | None => Some(self.hash),
        }
    }
}

impl std::fmt::Debug for StoredSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// What takes the place of the digest of a key that was made elsewhere, once the key was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnHash {
    pub sha256: [u8; 32],
    pub hmac: [u8; 32],
}

/// When a key was last used, as noted in memory.
#[derive(Debug, Default)]
struct LastUse {
    /// Seconds since 1970; 0 is never.
    second: AtomicI64,
    /// Whether it has changed since it was last taken.
    is_new: AtomicBool,
}

impl LastUse {
    fn note(&self, now: Timestamp) {
        let second = now.as_second();
        // Written once a second, so that the processors do not pass one line of memory around with every request.
        if self.second.load(Ordering::Relaxed) != second {
            self.second.store(second, Ordering::Relaxed);
            self.is_new.store(true, Ordering::Release);
        }
    }

    fn at(&self) -> Option<Timestamp> {
        match self.second.load(Ordering::Relaxed) {
            0 => None,
            second => Timestamp::from_second(second).ok(),
        }
    }
}

impl Default for StoredKeys {
    fn default() -> Self {
        Self::new(None)
    }
}

impl StoredKeys {
    /// No keys yet. Without a pepper, every key is unknown.
    pub fn new(pepper: Option<KeyHash>) -> Self {
        Self {
            pepper,
            catalog: Catalog::default(),
            by_public_id: OrdMap::new(),
            others: OrdMap::new(),
            workspaces: HashMap::new(),
            defaults: HashMap::new(),
            calling: 0,
        }
    }

    /// The keys of `catalog`. A key that has changed keeps its verified secrets and its last use. Keys of archived workspaces are left
    /// out. The ids of records that have changed and cannot be read come second; their keys count as unknown.
    pub fn with(&self, catalog: &Catalog) -> (Self, Vec<Uuid>) {
        let mut next = Self { catalog: catalog.clone(), ..self.clone() };
        let mut keys: BTreeMap<Uuid, Change<'_>> = BTreeMap::new();
        for change in catalog.changed_since(&self.catalog) {
            match change.kind {
                Kind::Workspace => {
                    next.set_workspace(change.before, change.now);
                    // All keys of a workspace that comes into use or goes out of it.
                    if in_use(change.before).is_some() != in_use(change.now).is_some() {
                        let of_it = catalog.all(Kind::ApiKey).filter(|key| key.workspace == Some(change.id));
                        keys.extend(
                            of_it.map(|key| (key.id, (self.catalog.get(Kind::ApiKey, key.id), Some(key)))),
                        );
                    }
                }
                Kind::ApiKey => drop(keys.insert(change.id, (change.before, change.now))),
                _ => {}
            }
        }
        let mut unreadable = Vec::new();
        let before: BTreeMap<Uuid, Arc<KeyEntry>> =
            keys.values().filter_map(|(before, _)| next.remove((*before)?)).collect();
        for (id, (record, now)) in keys {
            let Some(now) = now else { continue };
            let is_same = record.is_some_and(|record| Arc::ptr_eq(record, now));
            if !next.put(now, before.get(&id), is_same) {
                unreadable.push(id);
            }
        }
        (next, unreadable)
    }

    /// Takes a key out, and returns it where it was usable.
    fn remove(&mut self, record: &Arc<Record>) -> Option<(Uuid, Arc<KeyEntry>)> {
        let public_id = public_id(record);
        let found = public_id.and_then(|public_id| self.by_public_id.get(&public_id)).cloned();
        let found = found.filter(|key| key.record.id == record.id);
        let may_call = match &found {
            Some(key) => key.may_call,
            None => may_call(record),
        };
        self.calling -= usize::from(may_call);
        let public_id = public_id?;
        let found = found?;
        self.by_public_id.remove(&public_id);
        for hash in &found.others {
            if self.others.get(hash) == Some(&public_id) {
                self.others.remove(hash);
            }
        }
        Some((record.id, found))
    }

    /// Takes a key in; `before`: what it was until now, `is_same`: its record has not changed. `false` for one that cannot be read.
    fn put(&mut self, record: &Arc<Record>, before: Option<&Arc<KeyEntry>>, is_same: bool) -> bool {
        if record.status == Status::Archived {
            self.calling += usize::from(may_call(record));
            return true;
        }
        let key = match before.filter(|_| is_same) {
            Some(key) => Some(Arc::clone(key)),
            None => KeyEntry::read(record, before).map(Arc::new),
        };
        let (Some(public_id), Some(key)) = (public_id(record), key) else { return false };
        self.calling += usize::from(key.may_call);
        if is_usable_in(&self.catalog, record) {
            self.others.extend(key.others.iter().map(|hash| (*hash, public_id)));
            self.by_public_id.insert(public_id, key);
        }
        true
    }

    fn set_workspace(&mut self, before: Option<&Arc<Record>>, now: Option<&Arc<Record>>) {
        if let Some(record) = in_use(before) {
            for name in names(record) {
                // Another one may have taken the slug in the same write.
                if self.workspaces.get(&name) == Some(&record.id) {
                    self.workspaces.remove(&name);
                }
            }
            self.defaults.remove(&record.id);
        }
        if let Some(record) = in_use(now) {
            self.workspaces.extend(names(record).map(|name| (name, record.id)));
            self.defaults.extend(defaults(record).map(|defaults| (record.id, defaults)));
        }
    }

    /// The id of a workspace in use, by its slug or its id.
    pub fn workspace(&self, name: &str) -> Option<Uuid> {
        self.workspaces.get(name).copied()
    }

    /// What a workspace sets for the requests made in it.
    pub fn workspace_defaults(&self, workspace: Option<Uuid>) -> Option<&WorkspaceDefaults> {
        // Most stores have none.
        if self.defaults.is_empty() { None } else { self.defaults.get(&workspace?) }
    }

    /// Whether no workspace is in use: there is no store.
    pub(crate) fn has_no_workspace(&self) -> bool {
        self.workspaces.is_empty()
    }

    pub(crate) fn has_pepper(&self) -> bool {
        self.pepper.is_some()
    }

    /// Whether any key may call, so that clients must show one.
    pub(crate) fn may_call(&self) -> bool {
        self.calling > 0
    }

    pub fn len(&self) -> usize {
        self.by_public_id.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_public_id.is_empty()
    }

    /// Verifies a key, and notes its use.
    ///
    /// # Errors
    /// [`KeyRefusal`]. Only a right secret gets the answer that it has expired.
    pub fn verify(&self, key: &KeyText<'_>, now: Timestamp) -> Result<&Arc<ClientIdentity>, KeyRefusal> {
        let entry = self.by_public_id.get(&key.public_id).ok_or(KeyRefusal::Unknown)?;
        let stored = entry.key().ok_or(KeyRefusal::Unknown)?;
        let secret = self.find_secret(stored, key).ok_or(KeyRefusal::Unknown)?;
        stored.use_secret(secret, now)
    }

    /// The same for a key that was made elsewhere, whatever its form. It is found by its hash, so the time tells nothing about other keys;
    /// without any such key there is nothing to hash.
    ///
    /// # Errors
    /// As [`Self::verify`].
    pub fn verify_other(&self, key: &[u8], now: Timestamp) -> Result<&Arc<ClientIdentity>, KeyRefusal> {
        let (id, hash) = self.find_other(key).ok_or(KeyRefusal::Unknown)?;
        let stored = self.by_public_id.get(&id).and_then(|entry| entry.key()).ok_or(KeyRefusal::Unknown)?;
        let mut secrets = stored.secrets.iter();
        let is_it = |secret: &&StoredSecret| secret.other_form.is_some() && secret.hash == hash;
        let secret = secrets.find(is_it).ok_or(KeyRefusal::Unknown)?;
        if let (Some(OtherForm::Sha256), Some(pepper)) = (secret.other_form, &self.pepper) {
            secret.own_hash.get_or_init(|| pepper.hash(key));
        }
        stored.use_secret(secret, now)
    }

    /// Whether this is a key that was made elsewhere.
    pub(super) fn has_other(&self, key: &[u8]) -> bool {
        self.find_other(key).is_some()
    }

    /// Whether there is a key with this SHA-256 that was not used yet.
    pub fn has_sha256(&self, digest: &[u8; 32]) -> bool {
        self.others.contains_key(digest)
    }

    fn find_other(&self, key: &[u8]) -> Option<(PublicId, [u8; 32])> {
        if self.others.is_empty() {
            return None;
        }
        let found = |hash: [u8; 32]| self.others.get(&hash).map(|id| (*id, hash));
        self.pepper.as_ref().and_then(|pepper| found(pepper.hash(key))).or_else(|| found(sha256(key)))
    }

    /// What takes the place of digests in the key of this record, which was used.
    pub fn own_hashes(&self, record: Uuid) -> Vec<OwnHash> {
        let key = self.public_id(record).and_then(|id| self.by_public_id.get(&id)?.key.get());
        let secrets = key.into_iter().flat_map(|key| &key.secrets);
        secrets
            .filter_map(|secret| Some(OwnHash { sha256: secret.hash, hmac: *secret.own_hash.get()? }))
            .collect()
    }

    /// The key of this record, while it and one of its secrets are good.
    pub(super) fn living(&self, record: Uuid, now: Timestamp) -> Option<LivingKey> {
        let key = self.good(self.public_id(record)?, now, |secret| Some(secret.hash))?;
        let is_over = key.identity.expires_at.is_some_and(|end| now >= end);
        (!is_over && !key.secrets.is_empty()).then_some(key)
    }

    /// The public id of the key of a record.
    pub(super) fn public_id(&self, record: Uuid) -> Option<PublicId> {
        let id = public_id(self.catalog.get(Kind::ApiKey, record)?)?;
        self.by_public_id.get(&id).is_some_and(|key| key.record.id == record).then_some(id)
    }

    /// A key and what signs for those of its secrets that are good, also where its own time is over: only HMACs, which nobody else has.
    pub(super) fn signer(&self, id: PublicId, now: Timestamp) -> Option<LivingKey> {
        self.good(id, now, StoredSecret::hmac)
    }

    fn good(
        &self,
        id: PublicId,
        now: Timestamp,
        of: impl Fn(&StoredSecret) -> Option<[u8; 32]>,
    ) -> Option<LivingKey> {
        let key = self.by_public_id.get(&id)?.key()?;
        let good = key.secrets.iter().filter(|secret| secret.expires_at.is_none_or(|end| now < end));
        let secrets = good.filter_map(of).map(|hash| hash.to_vec()).collect();
        Some(LivingKey { identity: Arc::clone(&key.identity), secrets })
    }

    fn find_secret<'k>(&self, stored: &'k StoredKey, key: &KeyText<'_>) -> Option<&'k StoredSecret> {
        let is_verified = |secret: &&StoredSecret| {
            secret.verified.get().is_some_and(|text| bool::from(text.as_slice().ct_eq(key.secret)))
        };
        if let Some(secret) = stored.secrets.iter().find(is_verified) {
            return Some(secret);
        }
        if !key.is_intact() {
            return None;
        }
        let hash = key.hash(self.pepper.as_ref()?);
        let secret = stored.secrets.iter().find(|secret| bool::from(secret.hash.as_slice().ct_eq(&hash)))?;
        let _ = secret.verified.set(*key.secret);
        Some(secret)
    }

    /// When the key of this record was last used, as far as this process knows.
    pub fn last_use(&self, public_id: &str) -> Option<Timestamp> {
        self.by_public_id.get(&PublicId::parse(public_id)?)?.key.get()?.last_use.at()
    }

    /// The records whose keys were used since this was last called, and when they were. For a task that writes them down now
    /// and then.
    pub fn take_last_uses(&self) -> Vec<(Uuid, Timestamp)> {
        let used = self.by_public_id.values().filter_map(|entry| Some((entry.record.id, entry.key.get()?)));
        let used = used.filter(|(_, key)| key.last_use.is_new.swap(false, Ordering::Acquire));
        used.filter_map(|(record, key)| Some((record, key.last_use.at()?))).collect()
    }
}

/// What a workspace sets, where it sets something.
fn defaults(record: &Record) -> Option<WorkspaceDefaults> {
    let body: Value = serde_json::from_str(&record.body).ok()?;
    let defaults = body.get("defaults")?;
    let metadata = defaults.get("metadata").and_then(Value::as_object).into_iter().flatten();
    let metadata = metadata.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
    let config = defaults.get("user_api_key_config").and_then(Value::as_str).map(str::to_owned);
    let found = WorkspaceDefaults { metadata: metadata.collect(), user_api_key_config: config };
    (found != WorkspaceDefaults::default()).then_some(found)
}

fn in_use(record: Option<&Arc<Record>>) -> Option<&Arc<Record>> {
    record.filter(|record| record.status == Status::Active)
}

/// What names a workspace: its slug and its id.
fn names(record: &Record) -> impl Iterator<Item = String> {
    record.slug.clone().into_iter().chain([record.id.to_string()])
}

fn public_id(record: &Record) -> Option<PublicId> {
    PublicId::parse(record.slug.as_deref()?)
}

/// Whether a key counts as one that may call: a deleted one does as well.
fn may_call(record: &Record) -> bool {
    match record.status {
        Status::Archived => record.body.contains(Scope::CompletionsWrite.as_str()),
        Status::Active => {
            public_id(record).is_some() && StoredKey::read(record, None).is_some_and(|key| key.may_call())
        }
    }
}

/// Whether the workspace of a key is in use.
fn is_usable_in(catalog: &Catalog, record: &Record) -> bool {
    record.workspace.is_none_or(|workspace| {
        catalog.get(Kind::Workspace, workspace).is_some_and(|found| found.status == Status::Active)
    })
}

impl KeyEntry {
    /// `before`: the same record's entry until now.
    fn read(record: &Arc<Record>, before: Option<&Arc<Self>>) -> Option<Self> {
        let used = before.and_then(|before| before.key.get());
        let key = StoredKey::read(record, used.map(Box::as_ref))?;
        let others = key.secrets.iter().filter(|secret| secret.other_form.is_some());
        let entry = Self {
            record: Arc::clone(record),
            may_call: key.may_call(),
            others: others.map(|secret| secret.hash).collect(),
            key: OnceLock::new(),
        };
        if used.is_some() {
            let _ = entry.key.set(Box::new(key));
        }
        Some(entry)
    }

    /// What requests need of it.
    fn key(&self) -> Option<&StoredKey> {
        if let Some(key) = self.key.get() {
            return Some(key);
        }
        let read = StoredKey::read(&self.record, None)?;
        Some(self.key.get_or_init(|| Box::new(read)))
    }
}

impl StoredKey {
    /// The client with this secret, whose use is noted.
    fn use_secret(&self, secret: &StoredSecret, now: Timestamp) -> Result<&Arc<ClientIdentity>, KeyRefusal> {
        let ends = [secret.expires_at, self.identity.expires_at];
        if let Some(end) = ends.into_iter().flatten().filter(|end| now >= *end).min() {
            return Err(KeyRefusal::Expired(end));
        }
        self.last_use.note(now);
        Ok(&self.identity)
    }

    fn may_call(&self) -> bool {
        self.identity.scopes.contains(Scope::CompletionsWrite)
    }

    /// `before`: the same record's key until now.
    fn read(record: &Record, before: Option<&Self>) -> Option<Self> {
        let body = KeyBody::parse(&record.body).ok()?;
        let secrets = body.secrets.iter().take(MAX_SECRETS).map(|secret| {
            let verified = OnceLock::new();
            let own_hash = OnceLock::new();
            let hash = secret.hash_bytes()?;
            let same = before.and_then(|key| key.secrets.iter().find(|old| old.hash == hash));
            if let Some(text) = same.and_then(|old| old.verified.get()) {
                let _ = verified.set(*text);
            }
            if let Some(hmac) = same.and_then(|old| old.own_hash.get()) {
                let _ = own_hash.set(*hmac);
            }
            Some(StoredSecret {
                hash,
                other_form: secret.other_form,
                own_hash,
                expires_at: secret.expires_at,
                verified,
            })
        });
        let identity = ClientIdentity {
            kind: IdentityKind::Stored(body.kind),
            name: Some(body.name.as_str().into()),
            id: Some(record.id.to_string().into()),
            key_id: Some(record.id),
            workspace: record.workspace,
            is_bound: body.kind.is_in_workspace(),
            scopes: body.scope_set(),
            user: body.user_id.as_deref().map(Arc::from),
            role: None,
            defaults: KeyDefaults {
                allowed_models: body.allowed_models(),
                ..KeyDefaults::from(&body.defaults)
            },
            expires_at: body.expires_at,
            shown: None,
        };
        Some(Self {
            identity: Arc::new(identity),
            secrets: secrets.collect::<Option<_>>()?,
            last_use: before.map(|key| Arc::clone(&key.last_use)).unwrap_or_default(),
        })
    }
}

impl From<&BodyDefaults> for KeyDefaults {
    fn from(body: &BodyDefaults) -> Self {
        let text = |text: &String| Arc::from(text.as_str());
        Self {
            config_id: body.config_id.as_ref().map(text),
            metadata: body.metadata.iter().map(|(name, value)| (text(name), text(value))).collect(),
            allow_config_override: body.allow_config_override,
            log_payloads: body.log_payloads.as_deref().and_then(Payloads::parse),
            priority: body.priority.as_deref().and_then(Priority::parse),
            allowed_models: None,
        }
    }
}

#[cfg(test)]
mod tests;
