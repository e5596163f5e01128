//! The gateways that use the database, each with a row that it renews every few seconds.
//!
//! Nothing depends on these rows: they are for operators. They are no records: writing one is no change of the store, and what
//! becomes of it does not count for the store's health. Times of hearing are by the database's clock.

use super::rows::{parse_time, required};
use super::sql::{Dialect, ResultRow, Statement};
use super::statements::{id, nanoseconds};
use super::{Store, StoreError};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use uuid::Uuid;

/// A gateway that was not heard from for so long is silent, and its row gives way to that of its successor.
const fn silent_after(dialect: Dialect) -> Duration {
    match dialect {
        Dialect::Sqlite => Duration::from_secs(180),
        Dialect::Postgres => Duration::from_secs(15),
    }
}

/// Between two reports of a gateway where nothing changes. With SQLite each of them is synced to the disk, and most often there is one
/// gateway.
const fn interval(dialect: Dialect) -> Duration {
    match dialect {
        Dialect::Sqlite => Duration::from_secs(60),
        Dialect::Postgres => Duration::from_secs(5),
    }
}

/// How long it is shown which gateway has fallen silent.
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// Rows that are read at most, those heard from last.
const MAX_NODES: u32 = 1000;

/// What a gateway says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeReport {
    /// Of this process.
    pub id: Uuid,
    pub name: String,
    /// Of its control port.
    pub address: String,
    /// By its own clock.
    pub clock: Timestamp,
    pub state: NodeState,
}

/// What a gateway says of itself beyond its name, as a JSON object. A version may add members and leave out none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeState {
    /// `primary` or `edge`.
    pub role: String,
    /// `starting`, `serving`, `draining`.
    pub status: String,
    pub version: String,
    pub settings_hash: String,
    /// The position of the catalog in force, and since when it is.
    pub revision: u64,
    pub revision_since: String,
    pub started_at: String,
}

/// A gateway as it has last reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedNode {
    pub report: NodeReport,
    /// By the clock of the database.
    pub reported_at: Timestamp,
}

impl ListedNode {
    /// How long it was not heard from. `now`: by the clock of the database. One that reports does so by the same clock: where its row is from
    /// the future, the clock was set back, and it has not reported since.
    pub fn silence(&self, now: Timestamp) -> Duration {
        now.duration_since(self.reported_at).unsigned_abs()
    }

    /// By how many nanoseconds its clock is ahead of that of the database; a message takes a moment as well.
    pub fn clock_ahead(&self) -> i128 {
        self.report.clock.as_nanosecond() - self.reported_at.as_nanosecond()
    }
}

/// The gateways of a database at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeList {
    /// The one heard from last comes first.
    pub nodes: Vec<ListedNode>,
    /// The position of the database.
    pub position: u64,
    /// By the clock of the database.
    pub now: Timestamp,
}

impl Store {
    /// Writes what this gateway says of itself, and deletes rows of those that are gone.
    ///
    /// # Errors
    /// See [`StoreError`]; they do not count for the store's health.
    pub async fn report_node(&self, report: NodeReport) -> Result<(), StoreError> {
        let backend = self.backend()?;
        let dialect = backend.dialect();
        backend.change_nodes(vec![self::report(dialect, &report)?, clear(dialect, &report)]).await
    }

    /// Deletes the row of a gateway that stops.
    ///
    /// # Errors
    /// As [`Store::report_node`].
    pub async fn remove_node(&self, id: Uuid) -> Result<(), StoreError> {
        let backend = self.backend()?;
        backend.change_nodes(vec![remove(backend.dialect(), id)]).await
    }

    /// The gateways that use the database.
    ///
    /// # Errors
    /// As [`Store::report_node`].
    pub async fn nodes(&self) -> Result<NodeList, StoreError> {
        self.backend()?.nodes().await
    }

    /// Between two reports of a gateway where nothing changes.
    pub fn node_interval(&self) -> Duration {
        interval(self.dialect())
    }

    /// After how long without a report a gateway counts as silent.
    pub fn silent_after(&self) -> Duration {
        silent_after(self.dialect())
    }

    fn dialect(&self) -> Dialect {
        self.backend().map_or(Dialect::Postgres, |backend| backend.dialect())
    }
}

/// Whether there is the table, as one column.
pub(super) const HAS_TABLE: &str = "SELECT to_regclass('nodes') IS NOT NULL";

/// Makes the table, where it is not there. It is no step of the migrations: nothing depends on it, and a database that has it is good for
/// older binaries. Ids are UUIDs, times nanoseconds since 1970 (UTC); `clock` is by the clock of the gateway, `reported_at` by that of the
/// database; `body` is a JSON object.
pub(super) const fn table(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Sqlite => {
            "CREATE TABLE IF NOT EXISTS nodes (id TEXT NOT NULL PRIMARY KEY, name TEXT NOT NULL, address TEXT NOT NULL, \
             clock INTEGER NOT NULL, reported_at INTEGER NOT NULL, body TEXT NOT NULL) STRICT"
        }
        Dialect::Postgres => {
            "CREATE TABLE IF NOT EXISTS nodes (id uuid NOT NULL PRIMARY KEY, name text NOT NULL, address text NOT NULL, \
             clock bigint NOT NULL, reported_at bigint NOT NULL, body text NOT NULL)"
        }
    }
}

/// The time by the clock of the database: with SQLite that of this machine.
fn now(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Sqlite => "CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000000",
        Dialect::Postgres => "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint) * 1000000",
    }
}

fn span(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// Writes the row of a gateway.
fn report(dialect: Dialect, report: &NodeReport) -> Result<Statement<'static>, StoreError> {
    let body = serde_json::to_string(&report.state).map_err(|why| StoreError::Damaged(why.to_string()))?;
    let sql = format!(
        "INSERT INTO nodes (id, name, address, clock, reported_at, body) VALUES ($1, $2, $3, $4, {}, $5) ON CONFLICT (id) DO UPDATE \
         SET clock = excluded.clock, reported_at = excluded.reported_at, body = excluded.body",
        now(dialect)
    );
    let values = vec![
        id(dialect, report.id),
        report.name.clone().into(),
        report.address.clone().into(),
        nanoseconds(report.clock).into(),
        body.into(),
    ];
    Ok(Statement::new(sql, values))
}

/// Deletes rows of processes that this one has replaced, and those of gateways that were not heard from for a day.
fn clear(dialect: Dialect, report: &NodeReport) -> Statement<'static> {
    let now = now(dialect);
    let sql = format!(
        "DELETE FROM nodes WHERE reported_at < {now} - $1 OR reported_at > {now} + $1 OR (name = $2 AND address = $3 AND id <> $4 AND reported_at < {now} - $5)"
    );
    let values = vec![
        span(KEPT).into(),
        report.name.clone().into(),
        report.address.clone().into(),
        id(dialect, report.id),
        span(silent_after(dialect)).into(),
    ];
    Statement::new(sql, values)
}

fn remove(dialect: Dialect, node: Uuid) -> Statement<'static> {
    Statement::new("DELETE FROM nodes WHERE id = $1", vec![id(dialect, node)])
}

/// Reads all rows; each with the time by the clock of the database. No more of a text than any version writes: other gateways write it.
pub(super) fn all(dialect: Dialect) -> Statement<'static> {
    let sql = format!(
        "SELECT id, substr(name, 1, 128), substr(address, 1, 64), clock, reported_at, substr(body, 1, 4096), {} FROM nodes ORDER BY reported_at DESC, id LIMIT {MAX_NODES}",
        now(dialect)
    );
    Statement::plain(sql)
}

/// The gateway of a row, and the time at which it was read.
pub(super) fn row(row: &dyn ResultRow) -> Result<(ListedNode, Timestamp), StoreError> {
    let text = |column| Ok::<_, StoreError>(required(row.text(column)?)?.to_owned());
    let time = |column| parse_time(required(row.int(column)?)?);
    let report = NodeReport {
        id: required(row.uuid(0)?)?,
        name: text(1)?,
        address: text(2)?,
        clock: time(3)?,
        // One that cannot be read is of a version that is not known here: the gateway is there all the same.
        state: serde_json::from_str(&text(5)?).unwrap_or_default(),
    };
    Ok((ListedNode { report, reported_at: time(4)? }, time(6)?))
}

/// The list of what [`row`] has returned.
pub(super) fn list(rows: Vec<(ListedNode, Timestamp)>, position: u64) -> NodeList {
    let now = rows.first().map_or_else(Timestamp::now, |(_, now)| *now);
    NodeList { nodes: rows.into_iter().map(|(node, _)| node).collect(), position, now }
}
