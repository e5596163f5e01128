//! The store as other rooms use it: all current records in memory, every change written through.
//!
//! Reads never wait for the database. Does not know what a body means. Following what other processes write is `follow`'s.

use super::audit::{AuditEntry, AuditPage, AuditQuery};
use super::disk_snapshot::DiskSnapshot;
use super::health::{Health, StoreHealth};
use super::master_key::{self, KeySource};
use super::options::{Location, StoreOptions};
use super::pepper::{self, Pepper};
use super::sealing::Keyring;
use super::sqlite::Sqlite;
use super::{Backend, Catalog, Change, Kind, Record, Sealed, StoreError};
use arc_swap::{ArcSwap, ArcSwapOption};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;
use uuid::Uuid;

/// How long a write waits for the write of this process that precedes it, before it reads the changes from the database.
const OWN_WRITES: Duration = Duration::from_millis(20);
/// The most tries of a write that is computed from the newest records, when other writes change them first.
const WRITES: usize = 20;
/// Entries of the audit log that are deleted at a time.
const AUDIT_BATCH: u32 = 1000;

/// The one store of a process.
pub struct Store {
    location: Location,
    key_source: Mutex<KeySource>,
    keys: ArcSwap<Keyring>,
    /// Empty until the database could be opened and read.
    backend: OnceLock<Arc<dyn Backend>>,
    catalog: ArcSwap<Catalog>,
    pepper: ArcSwapOption<Pepper>,
    /// Writes of this process that wait for the one before them. Locked while a catalog is replaced, never across an await.
    waiting: Mutex<BTreeMap<u64, Vec<Change>>>,
    updated: watch::Sender<u64>,
    pub(super) health: Health,
    pub(super) snapshot: Option<DiskSnapshot>,
    reads_only: bool,
}

impl Store {
    /// Opens the store and reads all of it. Where the database is not available, the last snapshot on disk is used, or
    /// nothing, and [`follow`](Self::follow) tries again; [`health`](Self::health) says so.
    ///
    /// Needs a tokio runtime only while it runs: connections belong to the store.
    ///
    /// # Errors
    /// Only what [`is_fatal`](StoreError::is_fatal): a URL or a master key that does not fit, a newer database.
    pub async fn open(options: StoreOptions) -> Result<Self, StoreError> {
        let location = options.location()?;
        let key_source = options.key_source(&location)?;
        let snapshot = (location != Location::Memory).then(|| DiskSnapshot {
            file: options.state_dir.join("snapshot.sealed"),
            database: location.describe(),
        });
        let store = Self {
            health: Health::new(location.backend_name()),
            location,
            key_source: Mutex::new(key_source),
            // Replaced by `connect`.
            keys: ArcSwap::from_pointee(KeySource::Random.read()?),
            backend: OnceLock::new(),
            catalog: ArcSwap::default(),
            pepper: ArcSwapOption::empty(),
            waiting: Mutex::default(),
            updated: watch::Sender::new(0),
            snapshot,
            reads_only: options.reads_only,
        };
        match store.connect().await {
            Err(error) if error.is_fatal() => Err(error),
            Err(error) => {
                log::error!(target: "turnpike", "{}: {error}", store.location.describe());
                store.start_from_disk();
                Ok(store)
            }
            Ok(()) => Ok(store),
        }
    }

    /// Opens the database, brings it up to date and reads it.
    pub(super) async fn connect(&self) -> Result<(), StoreError> {
        let connected = self.try_connect().await;
        self.health.note(&connected);
        connected
    }

    async fn try_connect(&self) -> Result<(), StoreError> {
        self.prepare_keys()?;
        let backend: Arc<dyn Backend> = match &self.location {
            Location::File(file) => {
                let file = file.clone();
                let opened = tokio::task::spawn_blocking(move || Sqlite::open(Some(&file))).await;
                Arc::new(opened.unwrap_or_else(|why| Err(StoreError::Damaged(why.to_string())))?)
            }
            Location::Memory => Arc::new(Sqlite::open(None)?),
            Location::Postgres(url) => {
                Arc::new(super::postgres::connect(url.expose(), self.reads_only).await?)
            }
        };
        let mut loaded = backend.load().await?;
        if !loaded.records.iter().any(|record| record.kind == Kind::Pepper) {
            if self.reads_only {
                let why = "it has no secret of service keys yet: a primary makes it at its first start";
                return Err(StoreError::Unavailable(why.to_owned()));
            }
            match backend.write(vec![pepper::make(&self.keys.load())?], Vec::new()).await {
                // Another process was faster.
                Ok(_) | Err(StoreError::Changed | StoreError::Taken(_)) => loaded = backend.load().await?,
                Err(error) => return Err(error),
            }
        }
        let catalog = Catalog::new(loaded.records, loaded.position);
        self.check_keys(&catalog)?;
        self.update(|_| Some(catalog));
        let _ = self.backend.set(backend);
        self.health.set_from_disk(false);
        Ok(())
    }

    /// Reads the master key, or makes one for a database that is not there yet.
    fn prepare_keys(&self) -> Result<(), StoreError> {
        let source = self.key_source();
        if let (KeySource::File(key), Location::File(database)) = (&source, &self.location) {
            let has_content = std::fs::metadata(database).is_ok_and(|metadata| metadata.len() > 0);
            if has_content && !key.exists() {
                return Err(StoreError::Misconfigured(format!(
                    "the master key {} is missing, and {} is sealed under it: put it back, or set store.encryption_key",
                    key.display(),
                    database.display()
                )));
            }
            if master_key::make_file(key)? {
                let file = key.display();
                log::warn!(target: "turnpike", "made the master key of the store, {file}: without it a backup of the database is of no use");
            }
        }
        self.read_keys()
    }

    /// Checks that the master key is the one that the database is sealed under.
    fn check_keys(&self, catalog: &Catalog) -> Result<(), StoreError> {
        let Some(record) = catalog.get(Kind::Pepper, pepper::ID) else { return Ok(()) };
        self.learn_keys(std::iter::once(record));
        let keys = self.keys.load();
        pepper::read(record, &keys).map(|_| ()).map_err(|why| {
            let current = keys.current_id();
            StoreError::Misconfigured(format!(
                "the master key {current} is not the one of this database ({why}): set store.encryption_key to the right one, or                  add it to store.previous_encryption_keys"
            ))
        })
    }

    /// Reads the key file again where a record is sealed under a key that is not here: `rekey` changes it.
    fn learn_keys<'a>(&self, records: impl IntoIterator<Item = &'a Arc<Record>>) {
        let keys = self.keys.load();
        let is_missing =
            |record: &&Arc<Record>| record.sealed.as_ref().is_some_and(|sealed| !keys.has(&sealed.key_id));
        if records.into_iter().find(is_missing).is_none() {
            return;
        }
        if let (KeySource::File(_), Err(error)) = (self.key_source(), self.read_keys()) {
            log::error!(target: "turnpike", "{error}");
        }
    }

    /// Uses the keys of newly loaded settings. Other changes of the options need a restart.
    ///
    /// # Errors
    /// `Misconfigured`; the keys before stay in use.
    pub fn reload_keys(&self, options: &StoreOptions) -> Result<(), StoreError> {
        let source = options.key_source(&self.location)?;
        // A database that could not be opened yet may not have its key file yet.
        let is_there = match &source {
            KeySource::Settings { .. } => true,
            KeySource::File(file) => file.exists(),
            KeySource::Random => false,
        };
        if is_there {
            let keys = source.read()?;
            *self.key_source.lock() = source;
            self.keys.store(Arc::new(keys));
        }
        Ok(())
    }

    fn start_from_disk(&self) {
        let Some(snapshot) = &self.snapshot else { return };
        match snapshot.read(&self.keys.load()) {
            Ok(Some(catalog)) => {
                self.update(|_| Some(catalog));
                self.health.set_from_disk(true);
                let file = snapshot.file.display();
                log::warn!(target: "turnpike", "started with the last snapshot of the store on disk, {file}");
            }
            Ok(None) => {
                log::warn!(target: "turnpike", "started without the store: there is no snapshot of it on disk");
            }
            Err(error) => log::error!(target: "turnpike", "started without the store: {error}"),
        }
    }

    /// Whether this gateway only reads it.
    pub const fn reads_only(&self) -> bool {
        self.reads_only
    }

    fn check_writes(&self) -> Result<(), StoreError> {
        if self.reads_only { Err(StoreError::ReadsOnly) } else { Ok(()) }
    }

    /// The records of this moment.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// Changes whenever the catalog was replaced; its value is the position.
    pub fn updated(&self) -> watch::Receiver<u64> {
        self.updated.subscribe()
    }

    /// The records with what other processes have written until now: asks the database, for what cannot wait until that is
    /// announced.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn newest_catalog(&self) -> Result<Arc<Catalog>, StoreError> {
        self.catch_up(self.backend()?).await
    }

    /// Writes all changes or none, and returns a catalog that has them.
    ///
    /// # Errors
    /// See [`StoreError`]; nothing was written, or with `Unavailable` nothing is known to be.
    pub async fn commit(
        &self,
        changes: Vec<Change>,
        audit: Vec<AuditEntry>,
    ) -> Result<Arc<Catalog>, StoreError> {
        self.check_writes()?;
        let backend = self.backend()?;
        let written = backend.write(changes.clone(), audit).await;
        self.health.note(&written);
        let position = written?;
        if changes.is_empty() {
            // Its position is that of the write before, which may not be applied yet.
            return Ok(self.catalog());
        }
        let catalog = self.apply_own(position, changes.clone());
        if catalog.position >= position {
            return Ok(catalog);
        }
        // Most likely the preceding write is one of this process, and is being acknowledged.
        let mut updated = self.updated();
        if timeout(OWN_WRITES, updated.wait_for(|at| *at >= position)).await.is_ok() {
            return Ok(self.catalog());
        }
        match self.catch_up(backend).await {
            Ok(catalog) => Ok(catalog),
            // It is written, but the preceding writes of others cannot be read now. The position stays, so that they are read later.
            Err(_) => Ok(self.update(|current| {
                (current.position < position).then(|| current.with(&changes, current.position))
            })),
        }
    }

    /// Writes the changes that `make` computes of the newest records, and again of those after another write that has changed one of them
    /// in between. Returns the value beside the changes of the write that succeeded; `None`: `make` has nothing to write.
    ///
    /// # Errors
    /// See [`StoreError`]; `Changed` where other writes came first each of 20 times.
    pub async fn commit_latest<T>(
        &self,
        audit: Vec<AuditEntry>,
        mut make: impl FnMut(&Catalog) -> Option<(Vec<Change>, T)>,
    ) -> Result<Option<T>, StoreError> {
        for _ in 0..WRITES {
            let Some((changes, value)) = make(&self.catalog()) else { return Ok(None) };
            match self.commit(changes, audit.clone()).await {
                Ok(_) => return Ok(Some(value)),
                Err(StoreError::Changed) => drop(self.newest_catalog().await?),
                Err(error) => return Err(error),
            }
        }
        Err(StoreError::Changed)
    }

    /// Reads what was written since the catalog's position.
    pub(super) async fn catch_up(&self, backend: &dyn Backend) -> Result<Arc<Catalog>, StoreError> {
        let since = self.catalog.load().position;
        let found = backend.changes(since).await;
        self.health.note(&found);
        let found = found?;
        if found.position < since {
            // The database was restored from a backup.
            return self.load(backend).await;
        }
        if found.position == since {
            return Ok(self.catalog());
        }
        self.learn_keys(found.changes.iter().filter_map(|change| match change {
            Change::Put(record) => Some(record),
            Change::Delete { .. } => None,
        }));
        let is_newer = |current: &Catalog| current.position < found.position;
        Ok(self.update(|current| is_newer(current).then(|| current.with(&found.changes, found.position))))
    }

    /// Reads everything again.
    pub(super) async fn load(&self, backend: &dyn Backend) -> Result<Arc<Catalog>, StoreError> {
        let loaded = backend.load().await;
        self.health.note(&loaded);
        let loaded = loaded?;
        self.learn_keys(&loaded.records);
        Ok(self.update(|_| Some(Catalog::new(loaded.records, loaded.position))))
    }

    /// Applies a write of our own where the catalog has all before it, with those that waited for it. Else it waits.
    fn apply_own(&self, position: u64, changes: Vec<Change>) -> Arc<Catalog> {
        self.waiting.lock().insert(position, changes);
        self.update(|_| None)
    }

    /// Replaces the catalog by what `next` makes of it and what waited for that, and returns the one that is in force then.
    fn update(&self, next: impl FnOnce(&Catalog) -> Option<Catalog>) -> Arc<Catalog> {
        let mut waiting = self.waiting.lock();
        let current = self.catalog.load_full();
        let mut next = next(&current);
        let position = |next: &Option<Catalog>| next.as_ref().map_or(current.position, |next| next.position);
        while let Some((at, changes)) = waiting.pop_first() {
            if at == position(&next) + 1 {
                next = Some(next.as_ref().unwrap_or(&current).with(&changes, at));
            } else if at > position(&next) {
                waiting.insert(at, changes);
                break;
            }
        }
        let Some(next) = next.map(Arc::new) else { return current };
        let pepper = next.get(Kind::Pepper, pepper::ID);
        if pepper != current.get(Kind::Pepper, pepper::ID) {
            match pepper.map(|record| pepper::read(record, &self.keys.load())).transpose() {
                Ok(pepper) => self.pepper.store(pepper.map(Arc::new)),
                Err(error) => log::error!(target: "turnpike", "the secret of service keys: {error}"),
            }
        }
        self.catalog.store(Arc::clone(&next));
        self.updated.send_replace(next.position);
        next
    }

    /// The database.
    ///
    /// # Errors
    /// `Unavailable` as long as it could not be opened.
    pub(super) fn backend(&self) -> Result<&dyn Backend, StoreError> {
        let why = || StoreError::Unavailable(self.health().why.unwrap_or_default());
        self.backend.get().map(|backend| &**backend).ok_or_else(why)
    }

    /// The records of a kind that belong to `parent`, the highest number first, from the database.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn children(&self, kind: Kind, parent: Uuid) -> Result<Vec<Arc<Record>>, StoreError> {
        let found = self.backend()?.children(kind, parent).await;
        self.health.note(&found);
        found
    }

    /// A page of the audit log.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn audit(&self, query: AuditQuery) -> Result<AuditPage, StoreError> {
        let found = self.backend()?.audit(query).await;
        self.health.note(&found);
        found
    }

    /// Deletes the entries of the audit log from before this time. Returns how many.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn expire_audit(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.check_writes()?;
        let mut all = 0;
        loop {
            // Some at a time: changes wait for each of them.
            let deleted = self.backend()?.expire_audit(before, AUDIT_BATCH).await;
            self.health.note(&deleted);
            let deleted = deleted?;
            all += deleted;
            if deleted < u64::from(AUDIT_BATCH) {
                return Ok(all);
            }
        }
    }

    /// Seals the secrets of a record, which are bound to its kind and id.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn seal(&self, kind: Kind, id: Uuid, secrets: &Map<String, Value>) -> Result<Sealed, StoreError> {
        let plain = serde_json::to_vec(secrets).map_err(|why| StoreError::Damaged(why.to_string()))?;
        self.seal_bytes(kind, id, &plain)
    }

    /// The secrets of a record; none where nothing is sealed.
    ///
    /// # Errors
    /// `Damaged`: sealed under a key that is not here, or changed.
    pub fn unseal(&self, record: &Record) -> Result<Map<String, Value>, StoreError> {
        let Some(plain) = self.unseal_bytes(record)? else { return Ok(Map::new()) };
        let no_object =
            || StoreError::Damaged(format!("{} {}: its secrets", record.kind.as_str(), record.id));
        serde_json::from_slice(&plain).map_err(|_| no_object())
    }

    pub(super) fn seal_bytes(&self, kind: Kind, id: Uuid, plain: &[u8]) -> Result<Sealed, StoreError> {
        self.keys.load().seal(kind, id, plain)
    }

    pub(super) fn unseal_bytes(&self, record: &Record) -> Result<Option<Vec<u8>>, StoreError> {
        let keys = self.keys.load();
        record.sealed.as_ref().map(|sealed| keys.unseal(record.kind, record.id, sealed)).transpose()
    }

    pub(super) fn key_source(&self) -> KeySource {
        self.key_source.lock().clone()
    }

    pub(super) fn read_keys(&self) -> Result<(), StoreError> {
        self.keys.store(Arc::new(self.key_source().read()?));
        Ok(())
    }

    pub(super) fn current_key_id(&self) -> String {
        self.keys.load().current_id().to_owned()
    }

    /// The secret under which service keys are hashed; `None` until the store could be read once.
    pub fn pepper(&self) -> Option<Arc<Pepper>> {
        self.pepper.load_full()
    }

    /// Whether the database is available, and since when.
    pub fn health(&self) -> StoreHealth {
        self.health.read(self.catalog.load().position)
    }

    /// Writes the catalog to the snapshot on disk. Blocks.
    ///
    /// # Errors
    /// What the system refuses.
    pub(super) fn save_snapshot(&self) -> Result<(), StoreError> {
        match &self.snapshot {
            Some(snapshot) => snapshot.save(&self.catalog.load(), &self.keys.load()),
            None => Ok(()),
        }
    }

    /// Writes a consistent copy of the database to a new file.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn backup(&self, file: &Path) -> Result<(), StoreError> {
        self.backend()?.backup(file).await
    }
}
