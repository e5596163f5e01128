//! What the ledger writes to PostgreSQL: a batch of rows in one statement, a column each as an array.

use super::array::Array;
use super::call::Call;
use crate::ledger::Entry;
use crate::ledger::column::{names, types};
use crate::ledger::database::all;
use crate::ledger::log_store::LogError;
use crate::ledger::rollup::{HourCells, absorb, storage};
use crate::store::sql::{Dialect, Statement};
use std::collections::HashSet;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// One gateway merges rollups at a time: a lock of the transaction with this number.
const MERGING_LOCK: i64 = 0x7475_726e_726f_6c6c;

/// Writes the entries that are not there. Returns how many.
pub(super) fn rows(call: &Call<'_>, entries: &[Entry]) -> Result<usize, LogError> {
    let inserted = call.wait.until(insert(call, entries))?;
    let mut cells = HourCells::default();
    let mut times = Vec::new();
    let mut ids = Vec::new();
    let mut bodies = Vec::new();
    for entry in entries.iter().filter(|entry| inserted.contains(&entry.row.id)) {
        absorb(&mut cells, &entry.row);
        if let Some(body) = &entry.payload {
            times.push(entry.row.created_ms);
            ids.push(entry.row.id);
            bodies.push(&**body);
        }
    }
    if !ids.is_empty() {
        let sql = "INSERT INTO log_payloads SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::bytea[]) ON CONFLICT DO NOTHING";
        call.wait.until(call.transaction.execute(sql, &[&times, &ids, &bodies]))?;
    }
    storage::insert(call, cells)?;
    Ok(inserted.len())
}

/// Adds the rows that are not there. Returns their ids.
async fn insert(call: &Call<'_>, entries: &[Entry]) -> Result<HashSet<Uuid>, tokio_postgres::Error> {
    let mut columns = Array::for_columns(entries.len());
    for entry in entries {
        for (column, value) in columns.iter_mut().zip(entry.row.values()) {
            column.push(value);
        }
    }
    let arrays = types().into_iter().zip(1..);
    let arrays = arrays.map(|((_, of), number)| format!("${number}::{}[]", of.sql(Dialect::Postgres)));
    let sql = format!(
        "INSERT INTO log_rows ({}) SELECT * FROM unnest({}) ON CONFLICT DO NOTHING RETURNING id",
        names(),
        arrays.collect::<Vec<_>>().join(", ")
    );
    let statement = call.transaction.prepare_cached(&sql).await?;
    let parameters: Vec<&(dyn ToSql + Sync)> = columns.iter().map(Array::as_parameter).collect();
    let inserted = call.transaction.query(&statement, &parameters).await?;
    inserted.iter().map(|row| row.try_get(0)).collect()
}

/// Merges some pieces of rollups. Returns whether there may be more: not while another gateway merges.
pub(super) fn merge_rollups(call: &Call<'_>, now: i64) -> Result<bool, LogError> {
    let lock = "SELECT 1::bigint WHERE pg_try_advisory_xact_lock($1)";
    let locked = all(call, &Statement::new(lock, vec![MERGING_LOCK.into()]), |_| Ok(()))?;
    if locked.is_empty() {
        return Ok(false);
    }
    storage::merge_next(call, now)
}
