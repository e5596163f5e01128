//! What the ledger writes to SQLite: rows and payloads into the tables of their day, feedback, and the deletion of days.

use super::BUSY_TIMEOUT;
use super::tables::Tables;
use crate::ledger::column::{INDEXES, add_missing, names, types};
use crate::ledger::days::{day, suffix};
use crate::ledger::id::day_key;
use crate::ledger::log_store::{Expiry, LogError};
use crate::ledger::rollup::{HourCells, absorb, statements, storage};
use crate::ledger::row::COLUMNS;
use crate::ledger::{Entry, Feedback, feedback};
use crate::store::OpenFiles;
use crate::store::sql::Dialect;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior, params};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

/// The layout of the file. A file of a later one is not used.
const LAYOUT: i64 = 1;
/// The connection that writes.
pub(super) struct WriteConnection {
    pub(super) connection: Connection,
    files: OpenFiles,
    /// The days that have tables.
    days: HashSet<i64>,
}

impl WriteConnection {
    /// # Errors
    /// The file is not in its place: what is written to this connection would be lost.
    pub(super) fn check(&self) -> Result<(), LogError> {
        self.files.check().map_err(LogError::Unavailable)
    }
}

/// Opens the file, and makes what it lacks.
pub(super) fn open(file: &Path) -> Result<WriteConnection, LogError> {
    let refused = |why: std::io::Error| LogError::Unavailable(format!("{}: {why}", file.display()));
    crate::store::make_private(file).map_err(refused)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    let layout: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if layout > LAYOUT {
        let why =
            format!("{}: made by a newer Turnpike (layout {layout}, this one has {LAYOUT})", file.display());
        return Err(LogError::Unavailable(why));
    }
    let settings = "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
        PRAGMA cache_size = -16000; PRAGMA journal_size_limit = 67108864; PRAGMA wal_autocheckpoint = 4000;";
    connection.execute_batch(settings)?;
    connection.execute_batch(&feedback::tables(Dialect::Sqlite))?;
    connection.execute_batch(&statements::tables(Dialect::Sqlite))?;
    connection.pragma_update(None, "user_version", LAYOUT)?;
    let days: HashSet<i64> = Tables::read(&connection)?.rows.into_iter().collect();
    for day in &days {
        add_missing(&connection, &format!("rows_{}", suffix(*day)))?;
    }
    Ok(WriteConnection { connection, files: OpenFiles::of(file), days })
}

/// Writes the entries that are not there, in one transaction. Returns how many.
pub(super) fn rows(open: &mut WriteConnection, entries: &[Entry]) -> Result<usize, LogError> {
    let mut by_day: BTreeMap<i64, Vec<&Entry>> = BTreeMap::new();
    for entry in entries {
        by_day.entry(day(entry.row.created_ms)).or_default().push(entry);
    }
    let transaction = open.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut new = 0;
    let mut cells = HourCells::default();
    for (day, entries) in &by_day {
        if !open.days.contains(day) {
            make_tables(&transaction, *day)?;
        }
        new += insert(&transaction, *day, entries, &mut cells)?;
    }
    storage::insert(&*transaction, cells)?;
    transaction.commit()?;
    open.days.extend(by_day.keys());
    Ok(new)
}

fn insert(
    transaction: &Transaction<'_>,
    day: i64,
    entries: &[&Entry],
    cells: &mut HourCells,
) -> rusqlite::Result<usize> {
    let suffix = suffix(day);
    let places = vec!["?"; COLUMNS.len()].join(", ");
    let names = names();
    let mut row = transaction
        .prepare(&format!("INSERT OR IGNORE INTO rows_{suffix} (key, {names}) VALUES (?, {places})"))?;
    let mut payload =
        transaction.prepare(&format!("INSERT OR IGNORE INTO payloads_{suffix} (key, body) VALUES (?, ?)"))?;
    let mut new = 0;
    for entry in entries {
        let key = day_key(entry.row.id);
        row.raw_bind_parameter(1, key)?;
        for (index, value) in entry.row.values().iter().enumerate() {
            row.raw_bind_parameter(index + 2, value)?;
        }
        if row.raw_execute()? == 0 {
            continue;
        }
        new += 1;
        absorb(cells, &entry.row);
        if let Some(body) = &entry.payload {
            payload.execute(params![key, &**body])?;
        }
    }
    Ok(new)
}

fn make_tables(transaction: &Transaction<'_>, day: i64) -> rusqlite::Result<()> {
    let suffix = suffix(day);
    let columns = types().map(|(name, of)| format!("{name} {}", of.sql(Dialect::Sqlite)));
    let mut sql = format!(
        "CREATE TABLE IF NOT EXISTS rows_{suffix} (key INTEGER PRIMARY KEY, {});
         CREATE TABLE IF NOT EXISTS payloads_{suffix} (key INTEGER PRIMARY KEY, body BLOB NOT NULL);
         CREATE INDEX IF NOT EXISTS rows_{suffix}_trace ON rows_{suffix} (trace_id);",
        columns.join(", ")
    );
    // SQLite adds the key, so that each index lists its rows in order of time.
    for (column, condition) in INDEXES {
        sql.push_str(&format!(
            "CREATE INDEX IF NOT EXISTS rows_{suffix}_{column} ON rows_{suffix} ({column}) WHERE {condition};"
        ));
    }
    transaction.execute_batch(&sql)
}

pub(super) fn feedback(connection: &mut Connection, feedback: &[Feedback]) -> Result<(), LogError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    feedback::put(&*transaction, feedback)?;
    Ok(transaction.commit()?)
}

/// Merges some pieces of rollups.
pub(super) fn merge_rollups(connection: &mut Connection, now: i64) -> Result<bool, LogError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let is_more = storage::merge_next(&*transaction, now)?;
    transaction.commit()?;
    Ok(is_more)
}

/// Deletes the tables of days that are over, one transaction each, and gives their space back to the system.
pub(super) fn expire(open: &mut WriteConnection, expiry: &Expiry) -> Result<Vec<String>, LogError> {
    let days = Tables::read(&open.connection)?;
    let is_over = |before: Option<i64>, at: i64| before.is_some_and(|before| at < day(before));
    let payloads = days
        .payloads
        .into_iter()
        .filter(|at| is_over(expiry.payloads, *at) || is_over(expiry.rows, *at))
        .map(|at| format!("payloads_{}", suffix(at)));
    let rows =
        days.rows.iter().filter(|at| is_over(expiry.rows, **at)).map(|at| format!("rows_{}", suffix(*at)));
    let names: Vec<String> = payloads.chain(rows).collect();
    for name in &names {
        open.connection.execute_batch(&format!("DROP TABLE {name}"))?;
    }
    open.days = Tables::read(&open.connection)?.rows.into_iter().collect();
    if let Some(before) = expiry.rows {
        feedback::expire(&open.connection, before)?;
    }
    if let Some(before) = expiry.metrics {
        storage::expire(&open.connection, before)?;
    }
    if !names.is_empty() {
        open.connection.execute_batch("PRAGMA incremental_vacuum;")?;
    }
    Ok(names)
}
