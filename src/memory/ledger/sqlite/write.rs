//! What the ledger writes to SQLite: rows and payloads into the tables of their day, feedback, and the deletion of days.

use super::BUSY_TIMEOUT;
use super::marks::{self, Marks};
use super::read::has_table;
use super::tables::Tables;
use crate::ledger::column::{add_missing, names, types};
use crate::ledger::days::{day, suffix};
use crate::ledger::id::day_key;
use crate::ledger::log_store::{Expiry, LogError};
use crate::ledger::rollup::{HourCells, absorb, statements, storage};
use crate::ledger::row::COLUMNS;
use crate::ledger::{Entry, Feedback, Row, feedback};
use crate::store::OpenFiles;
use crate::store::sql::{Dialect, Value};
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior, params};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// The layout of the file. A file of a later one is not used. 2: a version that knows no marks would write rows without them.
const LAYOUT: i64 = 2;
/// The connection that writes.
pub(super) struct WriteConnection {
    pub(super) connection: Connection,
    files: OpenFiles,
    /// The days that have tables, and whether with marks.
    days: HashMap<i64, bool>,
    marks: Marks,
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
    let days = days(&connection)?;
    for day in days.keys() {
        add_missing(&connection, &format!("rows_{}", suffix(*day)))?;
    }
    Ok(WriteConnection { connection, files: OpenFiles::of(file), days, marks: Marks::default() })
}

/// The days that have tables, and whether with marks.
fn days(connection: &Connection) -> Result<HashMap<i64, bool>, LogError> {
    let days = Tables::read(connection)?.rows.into_iter();
    days.map(|day| Ok((day, has_table(connection, &marks::table(day))?))).collect()
}

/// Writes the entries that are not there, in one transaction. Returns how many.
pub(super) fn rows(open: &mut WriteConnection, entries: &[Entry]) -> Result<usize, LogError> {
    let mut by_day: BTreeMap<i64, Vec<&Entry>> = BTreeMap::new();
    for entry in entries {
        by_day.entry(day(entry.row.created_ms)).or_default().push(entry);
    }
    // Those of a transaction that fails are forgotten.
    let mut marks = std::mem::take(&mut open.marks);
    let transaction = open.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut new = 0;
    let mut cells = HourCells::default();
    let mut days = Vec::with_capacity(by_day.len());
    for (day, entries) in &by_day {
        let has_marks = match open.days.get(day) {
            Some(has_marks) => *has_marks,
            None => make_tables(&transaction, *day)?,
        };
        days.push((*day, has_marks));
        let found = insert(&transaction, *day, entries)?;
        new += found.len();
        found.iter().for_each(|row| absorb(&mut cells, row));
        if has_marks {
            let mut insert = transaction.prepare_cached(&marks::insert(*day))?;
            found.iter().try_for_each(|row| marks.add(&mut insert, *day, row))?;
        }
    }
    storage::insert(&*transaction, cells)?;
    transaction.commit()?;
    open.days.extend(days);
    open.marks = marks;
    Ok(new)
}

/// Writes the entries of a day that are not there. Returns their rows.
fn insert<'a>(
    transaction: &Transaction<'_>,
    day: i64,
    entries: &[&'a Entry],
) -> rusqlite::Result<Vec<&'a Row>> {
    let suffix = suffix(day);
    let places = vec!["?"; COLUMNS.len()].join(", ");
    let names = names();
    let mut row = transaction.prepare_cached(&format!(
        "INSERT OR IGNORE INTO rows_{suffix} (key, {names}) VALUES (?, {places})"
    ))?;
    let payload = format!("INSERT OR IGNORE INTO payloads_{suffix} (key, body) VALUES (?, ?)");
    let mut payload = transaction.prepare_cached(&payload)?;
    let mut new = Vec::with_capacity(entries.len());
    for entry in entries {
        let key = day_key(entry.row.id);
        // What is not bound is NULL.
        row.clear_bindings();
        row.raw_bind_parameter(1, key)?;
        for (index, value) in entry.row.values().enumerate().filter(|(_, value)| *value != Value::Null) {
            row.raw_bind_parameter(index + 2, value)?;
        }
        if row.raw_execute()? == 0 {
            continue;
        }
        new.push(&entry.row);
        if let Some(body) = &entry.payload {
            payload.execute(params![key, &**body])?;
        }
    }
    Ok(new)
}

/// Makes the tables of a day that are missing. Whether it has marks: not where its rows have a table already, which an older process made
/// that still runs, and whose rows have none.
fn make_tables(transaction: &Transaction<'_>, day: i64) -> Result<bool, LogError> {
    let suffix = suffix(day);
    let has_marks = !has_table(transaction, &format!("rows_{suffix}"))?;
    let columns = types().map(|(name, of)| format!("{name} {}", of.sql(Dialect::Sqlite)));
    let sql = format!(
        "CREATE TABLE IF NOT EXISTS rows_{suffix} (key INTEGER PRIMARY KEY, {});
         CREATE TABLE IF NOT EXISTS payloads_{suffix} (key INTEGER PRIMARY KEY, body BLOB NOT NULL);
         CREATE INDEX IF NOT EXISTS rows_{suffix}_trace ON rows_{suffix} (trace_id);
         {}",
        columns.join(", "),
        if has_marks { marks::make(day) } else { String::new() }
    );
    transaction.execute_batch(&sql)?;
    Ok(has_marks)
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
    // First the marks: a day without any is read whole, and one without rows is not looked for again.
    for at in days.rows.iter().filter(|at| is_over(expiry.rows, **at)) {
        open.connection.execute_batch(&format!("DROP TABLE IF EXISTS {}", marks::table(*at)))?;
    }
    for name in &names {
        open.connection.execute_batch(&format!("DROP TABLE {name}"))?;
    }
    open.days = self::days(&open.connection)?;
    open.marks = Marks::default();
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
