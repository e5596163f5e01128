//! The shared database: PostgreSQL, for several gateways.
//!
//! All connections live on a runtime of its own, so that a call may come from any of the process's runtimes and the
//! connections outlive it. Every call has a time limit.

mod connections;
mod copy;
mod failure;
mod foreign;
mod listener;
mod migrations;
mod opening;
pub(crate) mod run;
mod tls;
mod transactions;
mod url;
mod writer;

use super::audit::{AuditEntry, AuditPage, AuditQuery};
use super::backend::{Backend, Changes, Loaded};
use super::queued_write::QueuedWrite;
use super::sql::{Dialect, Statement};
use super::{Change, Kind, NodeList, Record, StoreError, statements};
use async_trait::async_trait;
pub use connections::{Connections, connections, pool};
use deadpool_postgres::{Object, Pool};
pub use failure::failure;
pub(crate) use failure::message;
pub(crate) use failure::no_connection;
pub use foreign::{ForeignTables, read_tables};
use jiff::Timestamp;
pub use migrations::{Tables, run as bring_up_to_date};
pub(super) use opening::{connect, schema};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::timeout;
use uuid::Uuid;

/// Of one read or write. A client of the control plane waits for it.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// Of reading all records, and of making the tables.
const LOAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Of reading everything there is, for `verify` and `backup`.
const COPY_TIMEOUT: Duration = Duration::from_secs(3600);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Connections of one gateway, besides the one that listens.
const MAX_CONNECTIONS: usize = 4;

/// Whether the URL can be read.
///
/// # Errors
/// What is wrong with it, without repeating it.
pub(crate) fn check_url(text: &str) -> Result<(), String> {
    url::parse(text).map(|_| ())
}

/// The URL without its password and parameters.
pub(super) fn describe(text: &str) -> String {
    url::describe(text)
}

/// A pool of connections to one database.
pub(super) struct Postgres {
    /// `None` while it is dropped.
    runtime: Option<Runtime>,
    pool: Pool,
    announced: Arc<Notify>,
    writes: mpsc::Sender<QueuedWrite>,
    /// Nothing is deleted either.
    reads_only: bool,
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // It may be dropped on another runtime, where waiting is not allowed.
            runtime.shutdown_background();
        }
    }
}

impl Postgres {
    /// Runs `call` with a connection of the pool, on the runtime of the connections.
    async fn run<T: Send + 'static, F: Future<Output = Result<T, StoreError>> + Send + 'static>(
        &self,
        at_most: Duration,
        call: impl FnOnce(Object) -> F + Send + 'static,
    ) -> Result<T, StoreError> {
        let gone = || StoreError::Unavailable("it is being closed".to_owned());
        let runtime = self.runtime.as_ref().ok_or_else(gone)?;
        let pool = self.pool.clone();
        let done = runtime.spawn(async move {
            let call = async { call(pool.get().await.map_err(no_connection)?).await };
            let late = |_| StoreError::Unavailable(format!("no response within {} s", at_most.as_secs()));
            timeout(at_most, call).await.map_err(late)?
        });
        done.await.unwrap_or_else(|why| Err(StoreError::Damaged(why.to_string())))
    }
}

#[async_trait]
impl Backend for Postgres {
    async fn load(&self) -> Result<Loaded, StoreError> {
        let forgets = !self.reads_only;
        self.run(
            LOAD_TIMEOUT,
            move |mut client| async move { transactions::load(&mut client, forgets).await },
        )
        .await
    }

    async fn changes(&self, position: u64) -> Result<Changes, StoreError> {
        let read =
            move |mut client: Object| async move { transactions::changes(&mut client, position).await };
        self.run(CALL_TIMEOUT, read).await
    }

    async fn write(&self, changes: Vec<Change>, audit: Vec<AuditEntry>) -> Result<u64, StoreError> {
        let gone = |()| StoreError::Unavailable("it is being closed".to_owned());
        let (reply, done) = oneshot::channel();
        self.writes.send(QueuedWrite { changes, audit, reply }).await.map_err(|_| gone(()))?;
        done.await.map_err(|_| gone(()))?
    }

    async fn children(&self, kind: Kind, parent: Uuid) -> Result<Vec<Arc<Record>>, StoreError> {
        let statement = statements::children(Dialect::Postgres, kind, parent);
        let read = move |client: Object| async move { transactions::records(&client, &statement).await };
        self.run(CALL_TIMEOUT, read).await
    }

    async fn sealed_under_others(&self, key_id: &str, limit: u32) -> Result<Vec<Arc<Record>>, StoreError> {
        let key_id = key_id.to_owned();
        let read = move |client: Object| async move {
            transactions::records(&client, &statements::sealed_under_others(&key_id, limit)).await
        };
        self.run(CALL_TIMEOUT, read).await
    }

    async fn audit(&self, query: AuditQuery) -> Result<AuditPage, StoreError> {
        let read = |mut client: Object| async move { transactions::audit(&mut client, &query).await };
        self.run(CALL_TIMEOUT, read).await
    }

    async fn expire_audit(&self, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
        let statement = statements::expire_audit(before, limit);
        let delete = move |client: Object| async move { Ok(run::execute(&client, &statement).await?) };
        self.run(CALL_TIMEOUT, delete).await
    }

    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    async fn change_nodes(&self, statements: Vec<Statement<'static>>) -> Result<(), StoreError> {
        let change =
            move |client: Object| async move { transactions::change_nodes(&client, &statements).await };
        self.run(CALL_TIMEOUT, change).await
    }

    async fn nodes(&self) -> Result<NodeList, StoreError> {
        self.run(CALL_TIMEOUT, |client| async move { transactions::nodes(&client).await }).await
    }

    async fn changed(&self, _position: u64, at_most: Duration) {
        // An announcement that came while nobody waited is kept.
        let _ = timeout(at_most, self.announced.notified()).await;
    }

    async fn backup(&self, file: &Path) -> Result<(), StoreError> {
        let file = file.to_owned();
        self.run(COPY_TIMEOUT, |mut client| async move { copy::to_file(&mut client, file).await }).await
    }

    async fn verify(&self) -> Result<u64, StoreError> {
        self.run(COPY_TIMEOUT, |mut client| async move { copy::verify(&mut client).await }).await
    }
}

/// Starts a transaction that reads the state of one moment.
async fn one_moment(client: &mut Object) -> Result<deadpool_postgres::Transaction<'_>, StoreError> {
    let level = tokio_postgres::IsolationLevel::RepeatableRead;
    client.build_transaction().isolation_level(level).read_only(true).start().await.map_err(failure)
}
