//! Usage of limits that are no more: of records that were archived, of keys that have left the settings. A window without an end would
//! keep it for ever.
//!
//! A limit that is changed, or taken away and set again, keeps its usage as long as its record is there, and a week longer: a gateway
//! may run without its store for a while, or with other settings.

use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use std::collections::HashSet;
use uuid::Uuid;

/// How long usage is kept after its record is gone: a week.
pub(super) const KEEP_GONE: i64 = 7 * 24 * 3_600_000;
/// The most rows that one transaction drops, so that holds never wait for long.
const MAX_DROPPED: usize = 10_000;

/// Notes which limits with usage are none of the present ones, and from when on.
pub(super) fn note(connection: &mut Connection, present: &HashSet<Uuid>, now: i64) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for id in with_usage(&transaction)? {
        let sql = if present.contains(&id) {
            "DELETE FROM gone WHERE limit_id = ?1 AND ?2 IS NOT NULL"
        } else {
            "INSERT INTO gone (limit_id, since) VALUES (?1, ?2) ON CONFLICT DO NOTHING"
        };
        transaction.prepare_cached(sql)?.execute(params![id.into_bytes(), now])?;
    }
    transaction.commit()
}

/// The limits that have rows. Leaps from one to the next in the index: each may have a million.
fn with_usage(transaction: &Transaction<'_>) -> rusqlite::Result<Vec<Uuid>> {
    let sql = "WITH RECURSIVE found(id) AS (SELECT min(limit_id) FROM usage UNION ALL
            SELECT (SELECT min(limit_id) FROM usage WHERE limit_id > id) FROM found WHERE id IS NOT NULL)
        SELECT id FROM found WHERE id IS NOT NULL";
    let mut statement = transaction.prepare_cached(sql)?;
    let ids = statement.query_map([], |row| Ok(Uuid::from_bytes(row.get(0)?)))?;
    ids.collect()
}

/// Removes the rows of limits that were deleted long enough ago. Returns these limits.
pub(super) fn drop_old(connection: &mut Connection, now: i64) -> rusqlite::Result<HashSet<Uuid>> {
    let before = now.saturating_sub(KEEP_GONE);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let ids: HashSet<Uuid> = {
        let mut statement = transaction.prepare_cached("SELECT limit_id FROM gone WHERE since <= ?1")?;
        let ids = statement.query_map([before], |row| Ok(Uuid::from_bytes(row.get(0)?)))?;
        ids.collect::<Result<_, _>>()?
    };
    let mut room = MAX_DROPPED;
    for id in &ids {
        let sql = "DELETE FROM usage WHERE (entity, window_start, generation) IN
            (SELECT entity, window_start, generation FROM usage WHERE limit_id = ?1 LIMIT ?2)";
        let room_now = i64::try_from(room).unwrap_or(i64::MAX);
        room -= transaction.prepare_cached(sql)?.execute(params![id.into_bytes(), room_now])?.min(room);
        if room == 0 {
            break;
        }
        transaction.prepare_cached("DELETE FROM gone WHERE limit_id = ?1")?.execute([id.into_bytes()])?;
    }
    transaction.commit()?;
    Ok(ids)
}
