//! Rollups in PostgreSQL. Each function is a part of a transaction of the caller's.

use super::cells::Encoded;
use super::failure::Failure;
use super::hour_cells::{HourCells, Piece};
use super::level::Level;
use super::merging::{self, Change, Open, Step, Stored};
use super::statements::{self, COLUMNS, LARGE, STORED, select, tables};
use super::table::RollupColumns;
use crate::ledger::analytics::tally::Tally;
use futures_util::TryStreamExt as _;
use std::pin::pin;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, GenericClient, Row, Transaction};
use uuid::Uuid;

/// One gateway merges at a time: a lock of the transaction with this number.
const MERGING_LOCK: i64 = 0x7475_726e_726f_6c6c;

/// The statements that make the table where it is not there.
pub fn create() -> String {
    tables("bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "uuid", "bytea", "bigint")
}

/// Adds the cells of a batch, in the transaction that adds its rows.
///
/// # Errors
/// The database's.
pub async fn insert<C: GenericClient>(client: &C, cells: HourCells) -> Result<(), Error> {
    for piece in cells.into_pieces() {
        insert_piece(client, &piece).await?;
    }
    Ok(())
}

async fn insert_piece<C: GenericClient>(client: &C, piece: &Piece) -> Result<(), Error> {
    let sql = format!("INSERT INTO rollups ({COLUMNS}) VALUES ($1, 0, $2, $3, $4, $5, $6, $7, $8, $9, $10)");
    let Encoded { total, margins, combinations, size } = &piece.encoded;
    let sums = |columns: &Option<RollupColumns>| columns.as_ref().map(|of| of.sums.clone());
    let latencies = |columns: &Option<RollupColumns>| columns.as_ref().map(|of| of.latencies.clone());
    let values: [&(dyn ToSql + Sync); 10] = [
        &piece.level.number(),
        size,
        &piece.workspace,
        &piece.start,
        &total.sums,
        &total.latencies,
        &sums(margins),
        &latencies(margins),
        &sums(combinations),
        &latencies(combinations),
    ];
    client.execute(&sql, &values).await.map(|_| ())
}

/// Makes one step of merging, in a transaction of its own. Returns whether there was one: not while another gateway merges.
///
/// # Errors
/// The database's; `Damaged`.
pub async fn merge_next(transaction: &Transaction<'_>, now: i64) -> Result<bool, Failure> {
    let lock = "SELECT pg_try_advisory_xact_lock($1)";
    let is_ours: bool = transaction.query_one(lock, &[&MERGING_LOCK]).await?.try_get(0)?;
    if !is_ours {
        return Ok(false);
    }
    let Some(step) = merging::next(&open(transaction).await?, now) else { return Ok(false) };
    let change = merged(transaction, step).await?;
    apply(transaction, &change).await?;
    Ok(true)
}

async fn open(transaction: &Transaction<'_>) -> Result<Vec<Open>, Error> {
    let rows = transaction.query(&statements::open(), &[]).await?;
    let open = rows.iter().map(|row| {
        let level: i64 = row.try_get(0)?;
        let level = Level::ALL.into_iter().find(|of| of.number() == level).unwrap_or(Level::Block);
        Ok(Open { level, workspace: row.try_get(1)?, start: row.try_get(2)?, small: row.try_get(3)? })
    });
    open.collect()
}

async fn merged(transaction: &Transaction<'_>, step: Step) -> Result<Change, Failure> {
    let sql = format!(
        "SELECT {STORED} FROM rollups WHERE level = $1 AND workspace = $2 AND start >= $3 AND start < $4 \
         AND merged = 0 AND size < $5 ORDER BY id"
    );
    let largest = if step.is_for_small() { LARGE } else { i64::MAX };
    let values: [&(dyn ToSql + Sync); 5] =
        [&step.level.number(), &step.workspace, &step.range.start, &step.range.end, &largest];
    let mut rows = pin!(transaction.query_raw(&sql, values).await?);
    let mut merger = step.merger();
    while let Some(row) = rows.try_next().await? {
        let piece = Stored { id: row.try_get(0)?, start: row.try_get(1)?, encoded: encoded(&row)? };
        if !merger.add(&piece)? {
            break;
        }
    }
    Ok(merger.finish())
}

fn encoded(row: &Row) -> Result<Encoded, Error> {
    let columns = |at: usize| {
        let sums: Option<Vec<u8>> = row.try_get(at)?;
        let latencies: Option<Vec<u8>> = row.try_get(at + 1)?;
        Ok::<_, Error>(sums.zip(latencies).map(|(sums, latencies)| RollupColumns { sums, latencies }))
    };
    let total = columns(3)?.unwrap_or_default();
    Ok(Encoded { total, margins: columns(5)?, combinations: columns(7)?, size: row.try_get(2)? })
}

async fn apply(transaction: &Transaction<'_>, change: &Change) -> Result<(), Error> {
    transaction.execute("DELETE FROM rollups WHERE id = ANY($1)", &[&change.delete]).await?;
    let mark = "UPDATE rollups SET merged = $1 WHERE id = ANY($2)";
    transaction.execute(mark, &[&change.bits, &change.mark]).await?;
    match &change.insert {
        Some(piece) => insert_piece(transaction, piece).await,
        None => Ok(()),
    }
}

/// Deletes what ended before a moment, milliseconds since 1970.
///
/// # Errors
/// The database's.
pub async fn expire<C: GenericClient>(client: &C, before: i64) -> Result<u64, Error> {
    let mut deleted = 0;
    for level in Level::ALL {
        let sql = "DELETE FROM rollups WHERE level = $1 AND start <= $2";
        deleted += client.execute(sql, &[&level.number(), &(before - level.length())]).await?;
    }
    Ok(deleted)
}

/// Adds the pieces that a query needs to its tally.
///
/// # Errors
/// The database's; what the tally returns.
pub async fn read<C: GenericClient>(client: &C, tally: &mut Tally) -> Result<(), Failure> {
    let workspaces: Vec<Uuid> = tally.query().filter.workspaces.clone().unwrap_or_default();
    let (part, has_latencies) = tally.part();
    let cover = &tally.plan().cover;
    let Some(sql) = select(cover, part, has_latencies, "SELECT unnest($1::uuid[])") else { return Ok(()) };
    let values: [&(dyn ToSql + Sync); 1] = [&workspaces];
    let mut rows = pin!(client.query_raw(&sql, values).await?);
    while let Some(row) = rows.try_next().await? {
        let latencies = if has_latencies { Some(row.try_get(3)?) } else { None };
        tally.add_piece(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, latencies)?;
    }
    Ok(())
}
