//! What the ledger writes to PostgreSQL: a batch of rows in one statement, a column each as an array.

use super::failure;
use super::values::Array;
use crate::ledger::column::{COLUMNS, ColumnType};
use crate::ledger::log_store::LogError;
use crate::ledger::rollup::{self, HourCells, absorb};
use crate::ledger::{Entry, Feedback};
use deadpool_postgres::Object;
use std::collections::HashSet;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// Writes the entries that are not there, in one transaction. Returns how many.
pub(super) async fn rows(client: &mut Object, entries: &[Entry]) -> Result<usize, LogError> {
    let transaction = client.transaction().await.map_err(failure)?;
    let mut columns = Array::for_columns(entries.len());
    for entry in entries {
        for (column, value) in columns.iter_mut().zip(entry.row.values()) {
            column.push(value);
        }
    }
    let names = COLUMNS.map(|(name, _)| name).join(", ");
    let arrays: Vec<String> = COLUMNS
        .iter()
        .enumerate()
        .map(|(index, (_, of))| match of {
            ColumnType::Int => format!("${}::bigint[]", index + 1),
            ColumnType::Text => format!("${}::text[]", index + 1),
            ColumnType::Uuid => format!("${}::uuid[]", index + 1),
        })
        .collect();
    let sql = format!(
        "INSERT INTO log_rows ({names}) SELECT * FROM unnest({}) ON CONFLICT DO NOTHING RETURNING id",
        arrays.join(", ")
    );
    let statement = transaction.prepare_cached(&sql).await.map_err(failure)?;
    let parameters: Vec<&(dyn ToSql + Sync)> = columns.iter().map(Array::as_parameter).collect();
    let inserted = transaction.query(&statement, &parameters).await.map_err(failure)?;
    let inserted: HashSet<Uuid> =
        inserted.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>().map_err(failure)?;
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
        transaction.execute(sql, &[&times, &ids, &bodies]).await.map_err(failure)?;
    }
    rollup::postgres::insert(&*transaction, cells).await.map_err(failure)?;
    transaction.commit().await.map_err(failure)?;
    Ok(inserted.len())
}

pub(super) async fn feedback(client: &mut Object, feedback: &[Feedback]) -> Result<(), LogError> {
    let transaction = client.transaction().await.map_err(failure)?;
    let sql = "INSERT INTO feedback (id, created_ms, trace_id, workspace, value, weight, metadata)
               VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO UPDATE SET
               value = excluded.value, weight = excluded.weight, metadata = excluded.metadata";
    for one in feedback {
        let Feedback { id, created_ms, trace_id, workspace, value, weight, metadata } = one;
        let values: [&(dyn ToSql + Sync); 7] = [id, created_ms, trace_id, workspace, value, weight, metadata];
        transaction.execute(sql, &values).await.map_err(failure)?;
    }
    transaction.commit().await.map_err(failure)
}
