//! The statements of the journal.

use super::rows::{BucketName, HoldRow, Loaded, Settled, UsageRow};
use crate::store::make_private;
use refinery::{Migration, Runner};
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};
use std::path::Path;
use std::time::Duration;
use uuid::Uuid;

const STEPS: [(&str, &str); 3] = [
    ("V1__usage", include_str!("V1__usage.sql")),
    ("V2__gone", include_str!("V2__gone.sql")),
    ("V3__short_keys", include_str!("V3__short_keys.sql")),
];
/// How long a write waits for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// Opens or makes the file, and brings its tables up to date.
pub(super) fn open(file: &Path) -> Result<Connection, String> {
    make_private(file).map_err(|why| why.to_string())?;
    let mut connection = Connection::open(file).map_err(|why| why.to_string())?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(|why| why.to_string())?;
    let settings =
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 4194304;";
    connection.execute_batch(settings).map_err(|why| why.to_string())?;
    let steps = STEPS.iter().map(|(name, sql)| Migration::unapplied(name, sql));
    let steps: Vec<Migration> = steps.collect::<Result<_, _>>().map_err(|why| why.to_string())?;
    Runner::new(&steps).run(&mut connection).map_err(|why| why.to_string())?;
    Ok(connection)
}

/// The secret that is there, or else the new one.
pub(super) fn secret(connection: &Connection, new: &[u8]) -> rusqlite::Result<Vec<u8>> {
    let insert = "INSERT INTO secrets (name, value) VALUES ('bucket_hash', ?1) ON CONFLICT DO NOTHING";
    connection.execute(insert, [new])?;
    connection.query_row("SELECT value FROM secrets WHERE name = 'bucket_hash'", [], |row| row.get(0))
}

/// The rows of windows that are not over; of each bucket, the one in force last.
pub(super) fn load(connection: &Connection, now: i64) -> rusqlite::Result<Vec<Loaded>> {
    let sql = "SELECT entity, window_start, generation, window_end, limit_id, limit_index, value_key, spent,
        unreconciled, threshold_sent, exhausted_sent FROM usage
        WHERE window_end > ?1 AND window_start <= ?1 ORDER BY entity, generation, window_start";
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([now], |row| {
        Ok(Loaded {
            name: name(row)?,
            window_end: row.get(3)?,
            limit: (Uuid::from_bytes(row.get(4)?), row.get(5)?),
            value_key: row.get(6)?,
            spent: row.get(7)?,
            unreconciled: row.get(8)?,
            sent: (row.get(9)?, row.get(10)?),
        })
    })?;
    rows.collect()
}

/// Reads the first three columns.
fn name(row: &Row<'_>) -> rusqlite::Result<BucketName> {
    let generation: i64 = row.get(2)?;
    Ok(BucketName {
        entity: u128::from_be_bytes(row.get(0)?),
        window_start: row.get(1)?,
        generation: generation.cast_unsigned(),
    })
}

/// Adds to the row of a bucket. Returns what it has come to.
pub(super) fn add_usage(transaction: &Transaction<'_>, row: &UsageRow) -> rusqlite::Result<i64> {
    let sql =
        "INSERT INTO usage (entity, window_start, generation, window_end, limit_id, limit_index, value_key,
            spent, unreconciled, threshold_sent, exhausted_sent)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, coalesce(?10, 0), coalesce(?11, 0))
        ON CONFLICT DO UPDATE SET spent = spent + excluded.spent, window_end = excluded.window_end,
            threshold_sent = coalesce(?10, threshold_sent), exhausted_sent = coalesce(?11, exhausted_sent)
        RETURNING spent";
    let (threshold, exhausted) = row.sent.unzip();
    let values = params![
        row.name.entity.to_be_bytes(),
        row.name.window_start,
        row.name.generation.cast_signed(),
        row.window_end,
        row.limit.0.into_bytes(),
        row.limit.1,
        row.value_key.as_ref(),
        row.added,
        row.unreconciled,
        threshold,
        exhausted,
    ];
    transaction.prepare_cached(sql)?.query_row(values, |row| row.get(0))
}

/// `spent` and `unreconciled` of a bucket's row.
pub(super) fn usage(
    transaction: &Transaction<'_>,
    name: &BucketName,
) -> rusqlite::Result<Option<(i64, i64)>> {
    let sql =
        "SELECT spent, unreconciled FROM usage WHERE entity = ?1 AND window_start = ?2 AND generation = ?3";
    let values = params![name.entity.to_be_bytes(), name.window_start, name.generation.cast_signed()];
    transaction.prepare_cached(sql)?.query_row(values, |row| Ok((row.get(0)?, row.get(1)?))).optional()
}

/// Adds a hold, and the row of its bucket where there is none, so that what becomes of it has a place.
pub(super) fn insert_hold(
    transaction: &Transaction<'_>,
    hold: &HoldRow,
    owner: Uuid,
    now: i64,
) -> rusqlite::Result<()> {
    let row = UsageRow {
        name: hold.name,
        window_end: hold.window_end,
        limit: hold.limit,
        value_key: hold.value_key.clone(),
        added: 0,
        unreconciled: 0,
        sent: None,
    };
    add_usage(transaction, &row)?;
    let sql = "INSERT INTO holds (id, entity, window_start, generation, amount, owner, made_at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING";
    let values = params![
        hold.id.into_bytes(),
        hold.name.entity.to_be_bytes(),
        hold.name.window_start,
        hold.name.generation.cast_signed(),
        hold.amount,
        owner.into_bytes(),
        now,
    ];
    transaction.prepare_cached(sql)?.execute(values).map(|_| ())
}

/// Removes a hold that was settled. If another process has counted it as spent meanwhile, that is taken back, because the
/// settlement adds what was used. A hold that was never written (`is_written` is false) cannot have been counted by others.
pub(super) fn remove_hold(
    transaction: &Transaction<'_>,
    settled: &Settled,
    is_written: bool,
) -> rusqlite::Result<()> {
    let entity = settled.name.entity.to_be_bytes();
    let sql = "DELETE FROM holds WHERE id = ?1 AND entity = ?2";
    let removed = transaction.prepare_cached(sql)?.execute(params![settled.id.into_bytes(), entity])?;
    if removed > 0 || !is_written {
        return Ok(());
    }
    let sql = "UPDATE usage SET spent = spent - ?4, unreconciled = unreconciled - ?4
        WHERE entity = ?1 AND window_start = ?2 AND generation = ?3 AND unreconciled >= ?4";
    let values =
        params![entity, settled.name.window_start, settled.name.generation.cast_signed(), settled.amount,];
    transaction.prepare_cached(sql)?.execute(values).map(|_| ())
}

/// Turns holds of other processes that were made before `oldest` into spent usage.
pub(super) fn spend_old_holds(connection: &Connection, owner: Uuid, oldest: i64) -> rusqlite::Result<()> {
    let sql = "UPDATE usage SET spent = spent + old.amount, unreconciled = unreconciled + old.amount
        FROM (SELECT entity, window_start, generation, sum(amount) AS amount FROM holds
            WHERE owner <> ?1 AND made_at < ?2 GROUP BY entity, window_start, generation) AS old
        WHERE usage.entity = old.entity AND usage.window_start = old.window_start AND usage.generation = old.generation";
    connection.prepare_cached(sql)?.execute(params![owner.into_bytes(), oldest])?;
    let sql = "DELETE FROM holds WHERE owner <> ?1 AND made_at < ?2";
    connection.prepare_cached(sql)?.execute(params![owner.into_bytes(), oldest]).map(|_| ())
}

/// What other processes hold, bucket by bucket.
pub(super) fn foreign_holds(
    transaction: &Transaction<'_>,
    owner: Uuid,
) -> rusqlite::Result<Vec<(BucketName, i64)>> {
    let sql = "SELECT entity, window_start, generation, sum(amount) FROM holds WHERE owner <> ?1
        GROUP BY entity, window_start, generation";
    let mut statement = transaction.prepare_cached(sql)?;
    let rows = statement.query_map([owner.into_bytes()], |row| Ok((name(row)?, row.get(3)?)))?;
    rows.collect()
}

/// Drops the rows of windows that ended before `before`.
pub(super) fn drop_over(connection: &Connection, before: i64) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM usage WHERE window_end < ?1", [before])?;
    let sql = "DELETE FROM holds WHERE NOT EXISTS (SELECT 1 FROM usage WHERE usage.entity = holds.entity
        AND usage.window_start = holds.window_start AND usage.generation = holds.generation)";
    connection.execute(sql, []).map(|_| ())
}
