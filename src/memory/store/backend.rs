//! The operations that the store needs of a database, the same for SQLite and PostgreSQL.
//!
//! The behaviour tests (`store/tests`) run on each backend. Caches nothing and decides nothing: [`Store`](super::Store) does.

use super::audit::{AuditEntry, AuditPage, AuditQuery};
use super::sql::{Dialect, Statement};
use super::{Change, Kind, NodeList, Record, StoreError};
use async_trait::async_trait;
use jiff::Timestamp;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// All records of kinds that are kept in memory ([`Kind::is_in_memory`]), and the position up to which they are complete.
#[derive(Debug, Clone, Default)]
pub(crate) struct Loaded {
    pub records: Vec<Arc<Record>>,
    pub position: u64,
}

/// What changed after a position: the last state of each changed record of a kind that is kept in memory.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    pub changes: Vec<Change>,
    pub position: u64,
}

/// A database with the store's tables. Every write is durable when its future is ready.
#[async_trait]
pub(crate) trait Backend: Send + Sync {
    /// All records of [`Kind::is_in_memory`] kinds.
    async fn load(&self) -> Result<Loaded, StoreError>;

    /// The changes after `position`, by this process or another.
    async fn changes(&self, position: u64) -> Result<Changes, StoreError>;

    /// Writes all changes or none, with the entries of the audit log that belong to them. Returns the position after it.
    ///
    /// # Errors
    /// `Taken` for a slug or number in use, `Changed` for a revision that does not follow the stored one.
    async fn write(&self, changes: Vec<Change>, audit: Vec<AuditEntry>) -> Result<u64, StoreError>;

    /// The records of a kind that belong to `parent`, the highest number first.
    async fn children(&self, kind: Kind, parent: Uuid) -> Result<Vec<Arc<Record>>, StoreError>;

    /// Records that are sealed under any other key than this, of all kinds, at most `limit`.
    async fn sealed_under_others(&self, key_id: &str, limit: u32) -> Result<Vec<Arc<Record>>, StoreError>;

    /// A page of the audit log.
    async fn audit(&self, query: AuditQuery) -> Result<AuditPage, StoreError>;

    /// Deletes the oldest entries of the audit log from before this time, at most `limit`. Returns how many.
    async fn expire_audit(&self, before: Timestamp, limit: u32) -> Result<u64, StoreError>;

    fn dialect(&self) -> Dialect;

    /// Changes rows of gateways (`nodes`) by these statements, which are none of a write and raise no position.
    async fn change_nodes(&self, statements: Vec<Statement<'static>>) -> Result<(), StoreError>;

    /// The rows of gateways.
    async fn nodes(&self) -> Result<NodeList, StoreError>;

    /// Returns when the database is no longer at `position`, or at the latest after `at_most`. May return early.
    async fn changed(&self, position: u64, at_most: Duration);

    /// Writes a consistent copy to a new file.
    async fn backup(&self, file: &Path) -> Result<(), StoreError>;

    /// Checks the database and every row. Returns the number of records, or what is wrong.
    async fn verify(&self) -> Result<u64, StoreError>;
}
