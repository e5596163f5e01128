//! Rollups in a database. Each function is a part of a transaction of the caller's, and blocks.

use super::bytes::Damaged;
use super::cells::Encoded;
use super::hour_cells::{HourCells, Piece};
use super::level::Level;
use super::merging::{self, Merged, OpenSpan, Step, StoredPiece};
use super::statements::{self, COLUMNS, LARGE, STORED, select};
use super::table::RollupColumns;
use crate::ledger::analytics::{Tally, Unanswered};
use crate::ledger::database::{Database, all};
use crate::ledger::log_store::LogError;
use crate::store::sql::{ResultRow, Statement, Value, WrongType};
use std::ops::ControlFlow;

impl From<Damaged> for LogError {
    fn from(damaged: Damaged) -> Self {
        Unanswered::from(damaged).into()
    }
}

/// Adds the cells of a batch, in the transaction that adds its rows.
///
/// # Errors
/// The database's.
pub(in crate::ledger) fn insert(database: &dyn Database, cells: HourCells) -> Result<(), LogError> {
    cells.into_pieces().try_for_each(|piece| insert_piece(database, &piece))
}

fn insert_piece(database: &dyn Database, piece: &Piece) -> Result<(), LogError> {
    let sql = format!("INSERT INTO rollups ({COLUMNS}) VALUES ($1, 0, $2, $3, $4, $5, $6, $7, $8, $9, $10)");
    let Encoded { total, margins, combinations, size } = &piece.encoded;
    let mut values = vec![
        piece.level.number().into(),
        (*size).into(),
        piece.workspace.into(),
        piece.start.into(),
        total.sums.as_slice().into(),
        total.latencies.as_slice().into(),
    ];
    for part in [margins, combinations] {
        values.push(part.as_ref().map(|of| of.sums.as_slice()).into());
        values.push(part.as_ref().map(|of| of.latencies.as_slice()).into());
    }
    database.execute(&Statement::new(sql, values))?;
    Ok(())
}

/// Makes one step of merging, in a transaction of its own that has begun to write. Returns whether there was one.
///
/// # Errors
/// The database's; `Unavailable` for pieces that cannot be read.
pub(in crate::ledger) fn merge_next(database: &dyn Database, now: i64) -> Result<bool, LogError> {
    let Some(step) = merging::next(&open_spans(database)?, now) else { return Ok(false) };
    apply(database, &merged(database, step)?)?;
    Ok(true)
}

fn open_spans(database: &dyn Database) -> Result<Vec<OpenSpan>, LogError> {
    all(database, &Statement::plain(statements::open_spans()), |row| {
        let level = row.int(0)?;
        let level = Level::ALL.into_iter().find(|of| Some(of.number()) == level).unwrap_or(Level::Block);
        let workspace = row.uuid(1)?.unwrap_or_default();
        let small = row.int(3)?.unwrap_or_default();
        Ok(OpenSpan { level, workspace, start: row.int(2)?.unwrap_or_default(), small })
    })
}

fn merged(database: &dyn Database, step: Step) -> Result<Merged, LogError> {
    let sql = format!(
        "SELECT {STORED} FROM rollups WHERE level = $1 AND workspace = $2 AND start >= $3 AND start < $4 \
         AND merged = 0 AND size < $5 ORDER BY id"
    );
    let largest = if step.is_for_small() { LARGE } else { i64::MAX };
    let values = vec![
        step.level.number().into(),
        step.workspace.into(),
        step.range.start.into(),
        step.range.end.into(),
        largest.into(),
    ];
    let mut merger = step.merger();
    database.query(&Statement::new(sql, values), &mut |row| {
        let id = row.int(0)?.unwrap_or_default();
        let piece = StoredPiece { id, start: row.int(1)?.unwrap_or_default(), encoded: encoded(row)? };
        Ok(if merger.add(&piece)? { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    Ok(merger.finish())
}

fn encoded(row: &dyn ResultRow) -> Result<Encoded, WrongType> {
    let columns = |at: usize| {
        let both = row.bytes(at)?.zip(row.bytes(at + 1)?);
        let owned = both.map(|(sums, latencies)| (sums.to_owned(), latencies.to_owned()));
        Ok::<_, WrongType>(owned.map(|(sums, latencies)| RollupColumns { sums, latencies }))
    };
    let total = columns(3)?.unwrap_or_default();
    let size = row.int(2)?.unwrap_or_default();
    Ok(Encoded { total, margins: columns(5)?, combinations: columns(7)?, size })
}

fn apply(database: &dyn Database, merged: &Merged) -> Result<(), LogError> {
    let list = |ids: &[i64]| ids.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
    if !merged.delete.is_empty() {
        let sql = format!("DELETE FROM rollups WHERE id IN ({})", list(&merged.delete));
        database.execute(&Statement::plain(sql))?;
    }
    if !merged.mark.is_empty() {
        let sql = format!("UPDATE rollups SET merged = $1 WHERE id IN ({})", list(&merged.mark));
        database.execute(&Statement::new(sql, vec![merged.bits.into()]))?;
    }
    merged.insert.iter().try_for_each(|piece| insert_piece(database, piece))
}

/// Deletes what ended before a moment, milliseconds since 1970.
///
/// # Errors
/// The database's.
pub(in crate::ledger) fn expire(database: &dyn Database, before: i64) -> Result<(), LogError> {
    for level in Level::ALL {
        let values = vec![level.number().into(), (before - level.length()).into()];
        let sql = "DELETE FROM rollups WHERE level = $1 AND start <= $2";
        database.execute(&Statement::new(sql, values))?;
    }
    Ok(())
}

/// Adds the pieces that a query needs to its tally.
///
/// # Errors
/// The database's; what the tally returns.
pub(in crate::ledger) fn read(database: &dyn Database, tally: &mut Tally) -> Result<(), LogError> {
    let workspaces = tally.query().filter.workspaces.clone().unwrap_or_default();
    let (part, has_latencies) = tally.part();
    let Some(sql) = select(&tally.plan().cover, part, has_latencies, workspaces.len()) else { return Ok(()) };
    let values = workspaces.into_iter().map(Value::Uuid).collect();
    database.query(&Statement::new(sql, values), &mut |row| {
        let start = row.int(1)?.unwrap_or_default();
        let sums = row.bytes(2)?.ok_or(Damaged)?;
        let latencies = if has_latencies { Some(row.bytes(3)?.ok_or(Damaged)?) } else { None };
        tally.add_piece(row.uuid(0)?.unwrap_or_default(), start, sums, latencies)?;
        Ok(ControlFlow::Continue(()))
    })
}
