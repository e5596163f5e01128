//! The tables of the ledger in PostgreSQL: made where they are missing, days added and deleted.
//!
//! One gateway at a time changes them, by a lock of the transaction.

use super::failure;
use crate::ledger::column::{COLUMNS, ColumnType};
use crate::ledger::days::{day, day_of, suffix};
use crate::ledger::log_store::{Expiry, LogError};
use crate::ledger::rollup;
use crate::ledger::row::MS_A_DAY;
use deadpool_postgres::Object;
use std::collections::HashSet;
use tokio_postgres::Transaction;

/// The layout of the tables. Those of a later one are not used.
const LAYOUT: i64 = 1;
/// Who changes the tables holds this lock.
const SCHEMA_LOCK: i64 = 0x7475_726e_6c6f_6773;

/// What lists filter by.
const INDEXES: [(&str, &str, &str); 7] = [
    ("trace", "trace_id", "true"),
    ("workspace", "workspace, created_ms, id", "kind = 0"),
    ("api_key", "api_key, created_ms, id", "kind = 0"),
    ("model", "model, created_ms, id", "kind = 0"),
    ("provider", "provider, created_ms, id", "kind = 0"),
    ("status", "status, created_ms, id", "kind = 0"),
    ("user_name", "user_name, created_ms, id", "kind = 0 AND user_name IS NOT NULL"),
];

fn tables() -> String {
    let columns = COLUMNS.map(|(name, of)| match (name, of) {
        ("id" | "created_ms" | "kind", ColumnType::Int) => format!("{name} bigint NOT NULL"),
        ("id", _) => "id uuid NOT NULL".to_owned(),
        (_, ColumnType::Int) => format!("{name} bigint"),
        (_, ColumnType::Text) => format!("{name} text"),
        (_, ColumnType::Uuid) => format!("{name} uuid"),
    });
    let mut sql = format!(
        "CREATE TABLE IF NOT EXISTS log_layout (layout bigint NOT NULL);
         CREATE TABLE IF NOT EXISTS log_rows ({}, PRIMARY KEY (created_ms, id)) PARTITION BY RANGE (created_ms);
         CREATE TABLE IF NOT EXISTS log_payloads (created_ms bigint NOT NULL, id uuid NOT NULL, body bytea NOT NULL,
             PRIMARY KEY (created_ms, id)) PARTITION BY RANGE (created_ms);
         CREATE TABLE IF NOT EXISTS feedback (id uuid PRIMARY KEY, created_ms bigint NOT NULL, trace_id text NOT NULL,
             workspace uuid, value bigint NOT NULL, weight double precision NOT NULL, metadata text);
         CREATE INDEX IF NOT EXISTS feedback_by_trace ON feedback (trace_id);
         CREATE INDEX IF NOT EXISTS feedback_by_time ON feedback (created_ms);",
        columns.join(", ")
    );
    for (name, columns, condition) in INDEXES {
        sql.push_str(&format!(
            "CREATE INDEX IF NOT EXISTS log_rows_{name} ON log_rows ({columns}) WHERE {condition};"
        ));
    }
    sql + &rollup::postgres::create()
}

/// Makes what is missing; returns the days that have partitions.
pub(super) async fn prepare(client: &mut Object, needed: &HashSet<i64>) -> Result<HashSet<i64>, LogError> {
    let transaction = client.transaction().await.map_err(failure)?;
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&SCHEMA_LOCK]).await.map_err(failure)?;
    let is_there = "SELECT to_regclass('log_layout') IS NOT NULL";
    let is_there: bool =
        transaction.query_one(is_there, &[]).await.and_then(|row| row.try_get(0)).map_err(failure)?;
    if !is_there {
        transaction.batch_execute(&tables()).await.map_err(failure)?;
        transaction.execute("INSERT INTO log_layout VALUES ($1)", &[&LAYOUT]).await.map_err(failure)?;
    }
    let layout = "SELECT coalesce(max(layout), 0) FROM log_layout";
    let layout: i64 =
        transaction.query_one(layout, &[]).await.and_then(|row| row.try_get(0)).map_err(failure)?;
    if layout > LAYOUT {
        let why =
            format!("its tables were made by a newer Turnpike (layout {layout}, this one has {LAYOUT})");
        return Err(LogError::Unavailable(why));
    }
    let mut days: HashSet<i64> = partitions(&transaction, "log_rows").await?.into_iter().collect();
    for at in needed {
        if days.insert(*at) {
            let suffix = suffix(*at);
            let from = at.saturating_mul(MS_A_DAY);
            let to = from.saturating_add(MS_A_DAY);
            let sql = format!(
                "CREATE TABLE IF NOT EXISTS log_rows_{suffix} PARTITION OF log_rows FOR VALUES FROM ({from}) TO ({to});
                 CREATE TABLE IF NOT EXISTS log_payloads_{suffix} PARTITION OF log_payloads FOR VALUES FROM ({from}) TO ({to});"
            );
            transaction.batch_execute(&sql).await.map_err(failure)?;
        }
    }
    transaction.commit().await.map_err(failure)?;
    Ok(days)
}

/// The days of which a table has partitions.
async fn partitions(transaction: &Transaction<'_>, table: &str) -> Result<Vec<i64>, LogError> {
    let sql = "SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
               WHERE i.inhparent = to_regclass($1) ORDER BY 1";
    let rows = transaction.query(sql, &[&table]).await.map_err(failure)?;
    let day_of_row = |row: &tokio_postgres::Row| {
        let name: String = row.try_get(0).ok()?;
        day_of(name.strip_prefix(table)?.strip_prefix('_')?)
    };
    Ok(rows.iter().filter_map(day_of_row).collect())
}

/// Deletes the partitions of days that are over.
pub(super) async fn expire(client: &mut Object, expiry: &Expiry) -> Result<Vec<String>, LogError> {
    let transaction = client.transaction().await.map_err(failure)?;
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&SCHEMA_LOCK]).await.map_err(failure)?;
    let mut deleted = Vec::new();
    let payloads = expiry.payloads.max(expiry.rows);
    for (table, before) in [("log_payloads", payloads), ("log_rows", expiry.rows)] {
        let Some(before) = before else { continue };
        for at in partitions(&transaction, table).await?.into_iter().filter(|at| *at < day(before)) {
            let name = format!("{table}_{}", suffix(at));
            transaction.batch_execute(&format!("DROP TABLE {name}")).await.map_err(failure)?;
            deleted.push(name);
        }
    }
    if let Some(before) = expiry.rows {
        transaction
            .execute("DELETE FROM feedback WHERE created_ms < $1", &[&before])
            .await
            .map_err(failure)?;
    }
    if let Some(before) = expiry.metrics {
        rollup::postgres::expire(&*transaction, before).await.map_err(failure)?;
    }
    transaction.commit().await.map_err(failure)?;
    Ok(deleted)
}
