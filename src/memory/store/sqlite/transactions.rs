//! What the store does with a SQLite database. Each function is one transaction or a part of one, and blocks.
//!
//! The statements are those of `store/statements.rs`. When they run is decided in `sqlite` and `writer`.

use super::super::audit::{AuditEntry, AuditPage, AuditQuery};
use super::super::backend::{Changes, Loaded};
use super::super::rows::{self, check, number_taken, slug_taken};
use super::super::sql::{Dialect, Statement};
use super::super::statements::{self, POSITION, Step};
use super::super::{Change, NodeList, Record, StoreError, nodes as node_rows};
use super::run::{all, execute, query};
use rusqlite::{Connection, ErrorCode, Savepoint};
use std::ops::ControlFlow;
use std::sync::Arc;

/// All records of kinds that are kept in memory.
pub(super) fn load(connection: &mut Connection) -> Result<Loaded, StoreError> {
    let transaction = connection.transaction()?;
    let position = position(&transaction)?;
    Ok(Loaded { records: records(&transaction, &statements::all_in_memory())?, position })
}

pub(super) fn changes(connection: &mut Connection, after: u64) -> Result<Changes, StoreError> {
    let transaction = connection.transaction()?;
    let position = position(&transaction)?;
    if position == after {
        return Ok(Changes { changes: Vec::new(), position });
    }
    // Deletions first: a slug that was freed may have been taken by another record since.
    let deleted = all(&transaction, &statements::deleted_after(after)?, |row| rows::deletion(row))?;
    let put = records(&transaction, &statements::put_after(after)?)?;
    let changes = deleted.into_iter().flatten().chain(put.into_iter().map(Change::Put));
    Ok(Changes { changes: changes.collect(), position })
}

/// Writes a part of a transaction.
pub(super) fn write(
    savepoint: &Savepoint<'_>,
    changes: &[Change],
    audit: &[AuditEntry],
) -> Result<u64, StoreError> {
    for Step { statement, change } in statements::write(Dialect::Sqlite, changes, audit)? {
        match (execute(savepoint, &statement), change) {
            (Ok(0), Some(_)) => return Err(StoreError::Changed),
            (Ok(_), _) => {}
            (Err(error), Some(Change::Put(record))) => return Err(conflict(&error, record)),
            (Err(error), _) => return Err(error.into()),
        }
    }
    position(savepoint)
}

/// Why a record was refused, by the unique index that refused it.
fn conflict(error: &rusqlite::Error, record: &Record) -> StoreError {
    if error.sqlite_error_code() != Some(ErrorCode::ConstraintViolation) {
        return error.into();
    }
    let text = error.to_string();
    if text.contains("records_slug") {
        return slug_taken(record);
    }
    if text.contains("records.number") {
        return number_taken(record);
    }
    StoreError::Changed
}

pub(super) fn audit(connection: &mut Connection, of: &AuditQuery) -> Result<AuditPage, StoreError> {
    let [count, page] = statements::audit(Dialect::Sqlite, of);
    let transaction = connection.transaction()?;
    let total = number(&transaction, &count)?;
    Ok(AuditPage { entries: all(&transaction, &page, |row| rows::audit_entry(row))?, total })
}

/// Checks the file and every row. Returns the number of records.
pub(super) fn verify(connection: &mut Connection) -> Result<u64, StoreError> {
    let transaction = connection.transaction()?;
    let lines: Vec<String> =
        all(&transaction, &Statement::plain("PRAGMA integrity_check"), |row| row.get(0))?;
    if let Some(line) = lines.into_iter().find(|line| line != "ok") {
        return Err(StoreError::Damaged(line));
    }
    let records = records(&transaction, &statements::all())?;
    records.iter().try_for_each(|record| check(record))?;
    query(&transaction, &statements::all_audit_entries(), |row| {
        rows::audit_entry(row).map(|_| ControlFlow::Continue(()))
    })?;
    Ok(u64::try_from(records.len()).unwrap_or(u64::MAX))
}

/// Runs statements that are none of a write, in a transaction of their own.
pub(super) fn change_nodes(
    connection: &mut Connection,
    statements: &[Statement<'static>],
) -> Result<(), StoreError> {
    let transaction = connection.transaction()?;
    for statement in statements {
        execute(&transaction, statement)?;
    }
    Ok(transaction.commit()?)
}

pub(super) fn nodes(connection: &mut Connection) -> Result<NodeList, StoreError> {
    let transaction = connection.transaction()?;
    let position = position(&transaction)?;
    let found = all(&transaction, &node_rows::all(Dialect::Sqlite), |row| node_rows::row(row))?;
    Ok(node_rows::list(found, position))
}

/// The number of the last write.
pub(super) fn position(connection: &Connection) -> Result<u64, StoreError> {
    number(connection, &Statement::plain(POSITION))
}

pub(super) fn records(
    connection: &Connection,
    statement: &Statement<'_>,
) -> Result<Vec<Arc<Record>>, StoreError> {
    let found = all(connection, statement, |row| rows::record(row))?;
    Ok(found.into_iter().flatten().map(Arc::new).collect())
}

/// The number in the one row of a result.
fn number(connection: &Connection, statement: &Statement<'_>) -> Result<u64, StoreError> {
    let found: Vec<u64> = all(connection, statement, |row| rows::count(row))?;
    found.first().copied().ok_or_else(|| StoreError::Damaged("a row is missing".to_owned()))
}
