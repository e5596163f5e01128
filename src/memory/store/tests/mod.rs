//! The behaviour of the store, the same on each backend.
//!
//! What only one backend has is tested in a file of its own here.

mod behaviour;
mod files;
mod killed;
mod nodes;
pub(crate) mod postgres_server;
mod server_down;
mod server_tls;

use super::audit::AuditEntry;
use super::{Change, Kind, Record, Status, Store, StoreOptions};
use jiff::Timestamp;
use std::sync::Arc;
use uuid::Uuid;
use words::config::secret::Secret;

/// A database of its own for one test, on one backend.
pub(super) struct Database {
    folder: tempfile::TempDir,
    url: Option<String>,
}

pub(super) const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

impl Database {
    pub(super) fn sqlite() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), url: None }
    }

    /// `None` where this machine has no PostgreSQL, which is printed.
    pub(super) fn postgres() -> Option<Self> {
        let url = postgres_server::shared()?.new_database();
        Some(Self { folder: tempfile::tempdir().unwrap(), url: Some(url) })
    }

    pub(super) fn options(&self) -> StoreOptions {
        StoreOptions {
            url: self.url.as_deref().map(Secret::new),
            state_dir: self.folder.path().to_owned(),
            encryption_key: Some(Secret::new(KEY)),
            previous_encryption_keys: Vec::new(),
            reads_only: false,
        }
    }

    pub(super) async fn open(&self) -> Arc<Store> {
        let store = Store::open(self.options()).await.unwrap();
        assert!(store.health().available, "{:?}", store.health());
        Arc::new(store)
    }
}

/// Runs a test on every backend that this machine has.
pub(super) fn on_each<F: Future<Output = ()>>(test: impl Fn(Database) -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(test(Database::sqlite()));
    if let Some(database) = Database::postgres() {
        runtime.block_on(test(database));
    }
}

pub(super) fn record(kind: Kind, slug: Option<&str>) -> Record {
    let now = Timestamp::now();
    Record {
        kind,
        id: Uuid::now_v7(),
        parent: None,
        workspace: None,
        slug: slug.map(str::to_owned),
        number: None,
        status: Status::Active,
        revision: 1,
        created_at: now,
        updated_at: now,
        body: r#"{"name":"a \"quoted\" näme"}"#.into(),
        sealed: None,
    }
}

pub(super) fn put(record: &Record) -> Change {
    Change::Put(Arc::new(record.clone()))
}

pub(super) fn entry(action: &str, second: i64) -> AuditEntry {
    AuditEntry {
        id: Uuid::now_v7(),
        time: Timestamp::from_second(second).unwrap(),
        workspace: None,
        actor: "key-1".to_owned(),
        actor_type: "api_key".to_owned(),
        action: action.to_owned(),
        resource: "configs".to_owned(),
        method: "POST".to_owned(),
        status: 200,
        body: format!(r#"{{"uri":"/v1/configs?n={second}","request_id":"r{second}"}}"#),
    }
}
