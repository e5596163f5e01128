//! Rollups in SQLite. Each function is a part of a transaction of the caller's, and blocks.

use super::bytes::Damaged;
use super::cells::Encoded;
use super::failure::Failure;
use super::hour_cells::{HourCells, Piece};
use super::level::Level;
use super::merging::{self, Change, Open, Step, Stored};
use super::statements::{self, COLUMNS, LARGE, STORED, select, tables};
use super::table::RollupColumns;
use crate::ledger::analytics::tally::Tally;
use rusqlite::{Connection, Error, Row, params, params_from_iter};
use uuid::Uuid;

/// Makes the table where it is not there.
///
/// # Errors
/// The database's.
pub fn create(connection: &Connection) -> Result<(), Error> {
    connection.execute_batch(&tables("INTEGER PRIMARY KEY", "BLOB", "BLOB", "INTEGER"))
}

/// Adds the cells of a batch, in the transaction that adds its rows.
///
/// # Errors
/// The database's.
pub fn insert(connection: &Connection, cells: HourCells) -> Result<(), Error> {
    cells.into_pieces().try_for_each(|piece| insert_piece(connection, &piece))
}

fn insert_piece(connection: &Connection, piece: &Piece) -> Result<(), Error> {
    let sql = format!("INSERT INTO rollups ({COLUMNS}) VALUES (?1, 0, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)");
    let Encoded { total, margins, combinations, size } = &piece.encoded;
    connection.prepare(&sql)?.execute(params![
        piece.level.number(),
        size,
        piece.workspace.as_bytes(),
        piece.start,
        total.sums,
        total.latencies,
        margins.as_ref().map(|of| &of.sums),
        margins.as_ref().map(|of| &of.latencies),
        combinations.as_ref().map(|of| &of.sums),
        combinations.as_ref().map(|of| &of.latencies),
    ])?;
    Ok(())
}

/// Makes one step of merging, in a transaction of its own that has begun to write. Returns whether there was one.
///
/// # Errors
/// The database's; `Damaged`.
pub fn merge_next(connection: &Connection, now: i64) -> Result<bool, Failure> {
    let Some(step) = merging::next(&open(connection)?, now) else { return Ok(false) };
    let change = merged(connection, step)?;
    apply(connection, &change)?;
    Ok(true)
}

fn open(connection: &Connection) -> Result<Vec<Open>, Error> {
    let mut statement = connection.prepare(&statements::open())?;
    let rows = statement.query_map([], |row| {
        let level: i64 = row.get(0)?;
        let workspace: [u8; 16] = row.get(1)?;
        let level = Level::ALL.into_iter().find(|of| of.number() == level).unwrap_or(Level::Block);
        Ok(Open { level, workspace: Uuid::from_bytes(workspace), start: row.get(2)?, small: row.get(3)? })
    })?;
    rows.collect()
}

fn merged(connection: &Connection, step: Step) -> Result<Change, Failure> {
    let sql = format!(
        "SELECT {STORED} FROM rollups WHERE level = ?1 AND workspace = ?2 AND start >= ?3 AND start < ?4 \
         AND merged = 0 AND size < ?5 ORDER BY id"
    );
    let largest = if step.is_for_small() { LARGE } else { i64::MAX };
    let mut statement = connection.prepare(&sql)?;
    let workspace = *step.workspace.as_bytes();
    let values = params![step.level.number(), workspace, step.range.start, step.range.end, largest];
    let mut rows = statement.query(values)?;
    let mut merger = step.merger();
    while let Some(row) = rows.next()? {
        let piece = Stored { id: row.get(0)?, start: row.get(1)?, encoded: encoded(row)? };
        if !merger.add(&piece)? {
            break;
        }
    }
    Ok(merger.finish())
}

fn encoded(row: &Row<'_>) -> Result<Encoded, Error> {
    let columns = |at: usize| {
        let sums: Option<Vec<u8>> = row.get(at)?;
        let latencies: Option<Vec<u8>> = row.get(at + 1)?;
        Ok::<_, Error>(sums.zip(latencies).map(|(sums, latencies)| RollupColumns { sums, latencies }))
    };
    let total = columns(3)?.unwrap_or_default();
    Ok(Encoded { total, margins: columns(5)?, combinations: columns(7)?, size: row.get(2)? })
}

fn apply(connection: &Connection, change: &Change) -> Result<(), Error> {
    let mut delete = connection.prepare("DELETE FROM rollups WHERE id = ?1")?;
    for id in &change.delete {
        delete.execute([id])?;
    }
    let mut mark = connection.prepare("UPDATE rollups SET merged = ?1 WHERE id = ?2")?;
    for id in &change.mark {
        mark.execute([change.bits, *id])?;
    }
    change.insert.iter().try_for_each(|piece| insert_piece(connection, piece))
}

/// Deletes what ended before a moment, milliseconds since 1970.
///
/// # Errors
/// The database's.
pub fn expire(connection: &Connection, before: i64) -> Result<usize, Error> {
    let mut deleted = 0;
    for level in Level::ALL {
        let sql = "DELETE FROM rollups WHERE level = ?1 AND start <= ?2";
        deleted += connection.execute(sql, params![level.number(), before - level.length()])?;
    }
    Ok(deleted)
}

/// Adds the pieces that a query needs to its tally.
///
/// # Errors
/// The database's; what the tally returns.
pub fn read(connection: &Connection, tally: &mut Tally) -> Result<(), Failure> {
    let workspaces = tally.query().filter.workspaces.clone().unwrap_or_default();
    let places: Vec<String> = (1..=workspaces.len()).map(|number| format!("?{number}")).collect();
    let (part, has_latencies) = tally.part();
    let cover = &tally.plan().cover;
    let Some(sql) = select(cover, part, has_latencies, &places.join(", ")) else { return Ok(()) };
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query(params_from_iter(workspaces.iter().map(Uuid::as_bytes)))?;
    while let Some(row) = rows.next()? {
        let workspace = Uuid::from_bytes(row.get(0)?);
        let sums = row.get_ref(2)?.as_blob().map_err(|_| Damaged)?;
        let latencies =
            if has_latencies { Some(row.get_ref(3)?.as_blob().map_err(|_| Damaged)?) } else { None };
        tally.add_piece(workspace, row.get(1)?, sums, latencies)?;
    }
    Ok(())
}
