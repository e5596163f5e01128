//! What the ledger writes to SQLite: rows and payloads into the tables of their day, feedback, and the deletion of days.

use super::BUSY_TIMEOUT;
use super::marks::{self, Marks};
use super::pairs::{self, Pairs};
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

/// The layout of the file. A file of a later one is not used. 2: a version that has no marks would write rows without them. 3: the same of
/// pairs.
const LAYOUT: i64 = 3;
/// The part of the file that may be free, for the rows of other days: a fifth. What is more is given back to the system.
const FREE_SHARE: i64 = 5;
/// Pages that are given back at a time.
const PAGES: i64 = 500;

/// The connection that writes.
pub(super) struct WriteConnection {
    pub(super) connection: Connection,
    files: OpenFiles,
    /// The days that have tables.
    days: HashMap<i64, Finding>,
    marks: Marks,
    pairs: Pairs,
}

/// Which tables for finding rows a day has.
#[derive(Debug, Clone, Copy)]
struct Finding {
    marks: bool,
    pairs: bool,
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
    let files = OpenFiles::of(file);
    Ok(WriteConnection { connection, files, days, marks: Marks::default(), pairs: Pairs::default() })
}

/// The days that have tables.
fn days(connection: &Connection) -> Result<HashMap<i64, Finding>, LogError> {
    let days = Tables::read(connection)?.rows.into_iter();
    let finding = |day: i64| -> Result<Finding, LogError> {
        let marks = has_table(connection, &marks::table(day))?;
        Ok(Finding { marks, pairs: has_table(connection, &pairs::table(day))? })
    };
    days.map(|day| Ok((day, finding(day)?))).collect()
}

/// Writes the entries that are not there, in one transaction. Returns how many.
pub(super) fn rows(open: &mut WriteConnection, entries: &[Entry]) -> Result<usize, LogError> {
    let mut by_day: BTreeMap<i64, Vec<&Entry>> = BTreeMap::new();
    for entry in entries {
        by_day.entry(day(entry.row.created_ms)).or_default().push(entry);
    }
    // Those of a transaction that fails are forgotten.
    let mut marks = std::mem::take(&mut open.marks);
    let mut pairs = std::mem::take(&mut open.pairs);
    let transaction = open.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut new = 0;
    let mut cells = HourCells::default();
    let mut days = Vec::with_capacity(by_day.len());
    for (day, entries) in &by_day {
        let finding = match open.days.get(day) {
            Some(finding) => *finding,
            None => make_tables(&transaction, *day)?,
        };
        days.push((*day, finding));
        let found = insert(&transaction, *day, entries)?;
        new += found.len();
        found.iter().for_each(|row| absorb(&mut cells, row));
        if finding.pairs {
            found.iter().for_each(|row| pairs.add(*day, row));
        }
        if finding.marks {
            let mut insert = transaction.prepare_cached(&marks::insert(*day))?;
            found.iter().try_for_each(|row| marks.add(&mut insert, *day, row))?;
        }
    }
    pairs.save(&transaction)?;
    storage::insert(&*transaction, cells)?;
    transaction.commit()?;
    open.days.extend(days);
    open.marks = marks;
    open.pairs = pairs;
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

/// Makes the tables of a day that are missing. None for finding rows where these have a table already, which an older process made that
/// still runs, and whose rows would not be found by them.
fn make_tables(transaction: &Transaction<'_>, day: i64) -> Result<Finding, LogError> {
    let suffix = suffix(day);
    let is_new = !has_table(transaction, &format!("rows_{suffix}"))?;
    let columns = types().map(|(name, of)| format!("{name} {}", of.sql(Dialect::Sqlite)));
    let sql = format!(
        "CREATE TABLE IF NOT EXISTS rows_{suffix} (key INTEGER PRIMARY KEY, {});
         CREATE TABLE IF NOT EXISTS payloads_{suffix} (key INTEGER PRIMARY KEY, body BLOB NOT NULL);
         CREATE INDEX IF NOT EXISTS rows_{suffix}_trace ON rows_{suffix} (trace_id);
         {}",
        columns.join(", "),
        if is_new { marks::make(day) + &pairs::make(day) } else { String::new() }
    );
    transaction.execute_batch(&sql)?;
    Ok(Finding { marks: is_new, pairs: is_new })
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

/// The tables of days that are over, those for finding rows first: a day without any is read whole, and one without rows is not looked for
/// again.
pub(super) fn expired(open: &WriteConnection, expiry: &Expiry) -> Result<Vec<String>, LogError> {
    let days = Tables::read(&open.connection)?;
    let is_over = |before: Option<i64>, at: i64| before.is_some_and(|before| at < day(before));
    let rows: Vec<i64> = days.rows.into_iter().filter(|at| is_over(expiry.rows, *at)).collect();
    let payloads = days.payloads.into_iter();
    let payloads = payloads.filter(|at| is_over(expiry.payloads, *at) || is_over(expiry.rows, *at));
    let finding = rows.iter().flat_map(|at| [marks::table(*at), pairs::table(*at)]);
    let payloads = payloads.map(|at| format!("payloads_{}", suffix(at)));
    Ok(finding.chain(payloads).chain(rows.iter().map(|at| format!("rows_{}", suffix(*at)))).collect())
}

/// Whether a table of a day is there for finding its rows alone.
pub(super) fn is_for_finding(table: &str) -> bool {
    !table.starts_with("rows_") && !table.starts_with("payloads_")
}

/// Deletes a table of a day that is over.
pub(super) fn drop_table(open: &mut WriteConnection, table: &str) -> Result<(), LogError> {
    open.connection.execute_batch(&format!("DROP TABLE IF EXISTS {table}"))?;
    open.days = self::days(&open.connection)?;
    open.marks = Marks::default();
    open.pairs = Pairs::default();
    Ok(())
}

/// Deletes feedback and sums that are over.
pub(super) fn expire_sums(open: &WriteConnection, expiry: &Expiry) -> Result<(), LogError> {
    if let Some(before) = expiry.rows {
        feedback::expire(&open.connection, before)?;
    }
    if let Some(before) = expiry.metrics {
        storage::expire(&open.connection, before)?;
    }
    Ok(())
}

/// Gives some pages of the file back to the system, where more are free than the next days need. Returns whether there may be more.
pub(super) fn give_back(open: &WriteConnection) -> Result<bool, LogError> {
    let number = |pragma: &str| open.connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let surplus = number("freelist_count")? - number("page_count")? / FREE_SHARE;
    if surplus <= 0 {
        return Ok(false);
    }
    let sql = format!("PRAGMA incremental_vacuum({})", surplus.min(PAGES));
    // Each step gives back one page.
    let mut vacuum = open.connection.prepare(&sql)?;
    let mut pages = vacuum.query([])?;
    let mut freed = 0;
    while pages.next()?.is_some() {
        freed += 1;
    }
    // A smaller file has a smaller fifth. None in a file that was not made with this in mind.
    Ok(freed > 0)
}
