//! The tables of the ledger in PostgreSQL: made where they are missing, days added and deleted.
//!
//! One gateway at a time changes them, by a lock of the transaction.

use super::ROWS;
use super::call::Call;
use crate::ledger::column::{add_missing, types};
use crate::ledger::database::{Database, all};
use crate::ledger::days::{day, day_of, suffix};
use crate::ledger::feedback;
use crate::ledger::log_store::{Expiry, LogError};
use crate::ledger::rollup::{statements, storage};
use crate::ledger::row::MS_A_DAY;
use crate::store::sql::{Dialect, Statement};
use std::collections::HashSet;

/// The layout of the tables. Those of a later one are not used.
const LAYOUT: i64 = 1;
/// The columns that lists filter by: each has an index of the requests with it, in order of time. There is also one of all rows by trace.
const INDEXES: [&str; 5] = ["workspace", "api_key", "model", "provider", "status"];
/// Who changes the tables holds this lock.
const SCHEMA_LOCK: i64 = 0x7475_726e_6c6f_6773;

fn tables() -> String {
    let columns = types().map(|(name, of)| {
        let not_null = if matches!(name, "id" | "created_ms" | "kind") { " NOT NULL" } else { "" };
        format!("{name} {}{not_null}", of.sql(Dialect::Postgres))
    });
    let mut sql = format!(
        "CREATE TABLE IF NOT EXISTS log_layout (layout bigint NOT NULL);
         CREATE TABLE IF NOT EXISTS log_rows ({}, PRIMARY KEY (created_ms, id)) PARTITION BY RANGE (created_ms);
         CREATE TABLE IF NOT EXISTS log_payloads (created_ms bigint NOT NULL, id uuid NOT NULL, body bytea NOT NULL,
             PRIMARY KEY (created_ms, id)) PARTITION BY RANGE (created_ms);
         CREATE INDEX IF NOT EXISTS log_rows_trace ON log_rows (trace_id);",
        columns.join(", ")
    );
    for column in INDEXES {
        sql.push_str(&format!(
            "CREATE INDEX IF NOT EXISTS log_rows_{column} ON log_rows ({column}, created_ms, id) WHERE kind = 0;"
        ));
    }
    sql + &feedback::tables(Dialect::Postgres) + &statements::tables(Dialect::Postgres)
}

/// Makes what is missing; returns the days that have partitions.
pub(super) fn prepare(call: &Call<'_>, needed: &HashSet<i64>) -> Result<HashSet<i64>, LogError> {
    lock(call)?;
    let is_there = "SELECT 1::bigint WHERE to_regclass('log_layout') IS NOT NULL";
    if numbers(call, is_there)?.is_empty() {
        call.wait.until(call.transaction.batch_execute(&tables()))?;
        call.execute(&Statement::new("INSERT INTO log_layout VALUES ($1)", vec![LAYOUT.into()]))?;
    }
    let layout = numbers(call, "SELECT layout FROM log_layout")?.into_iter().max().unwrap_or_default();
    if layout > LAYOUT {
        let why =
            format!("its tables were made by a newer Turnpike (layout {layout}, this one has {LAYOUT})");
        return Err(LogError::Unavailable(why));
    }
    add_missing(call, ROWS)?;
    let mut days: HashSet<i64> = partitions(call, ROWS)?.into_iter().collect();
    for at in needed {
        if days.insert(*at) {
            let suffix = suffix(*at);
            let from = at.saturating_mul(MS_A_DAY);
            let to = from.saturating_add(MS_A_DAY);
            let sql = format!(
                "CREATE TABLE IF NOT EXISTS log_rows_{suffix} PARTITION OF log_rows FOR VALUES FROM ({from}) TO ({to});
                 CREATE TABLE IF NOT EXISTS log_payloads_{suffix} PARTITION OF log_payloads FOR VALUES FROM ({from}) TO ({to});"
            );
            call.wait.until(call.transaction.batch_execute(&sql))?;
        }
    }
    Ok(days)
}

/// Waits until no other gateway changes the tables.
fn lock(call: &Call<'_>) -> Result<(), LogError> {
    call.execute(&Statement::new("SELECT pg_advisory_xact_lock($1)", vec![SCHEMA_LOCK.into()])).map(|_| ())
}

fn numbers(call: &Call<'_>, sql: &str) -> Result<Vec<i64>, LogError> {
    all(call, &Statement::plain(sql), |row| Ok(row.int(0)?.unwrap_or_default()))
}

/// The days of which a table has partitions.
fn partitions(call: &Call<'_>, table: &str) -> Result<Vec<i64>, LogError> {
    let sql = "SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
               WHERE i.inhparent = to_regclass($1) ORDER BY 1";
    let days = all(call, &Statement::new(sql, vec![table.into()]), |row| {
        let suffix = row.text(0)?.and_then(|name| name.strip_prefix(table)?.strip_prefix('_'));
        Ok(suffix.and_then(day_of))
    })?;
    Ok(days.into_iter().flatten().collect())
}

/// Deletes the partitions of days that are over.
pub(super) fn expire(call: &Call<'_>, expiry: &Expiry) -> Result<Vec<String>, LogError> {
    lock(call)?;
    let mut deleted = Vec::new();
    let payloads = expiry.payloads.max(expiry.rows);
    for (table, before) in [("log_payloads", payloads), (ROWS, expiry.rows)] {
        let Some(before) = before else { continue };
        for at in partitions(call, table)?.into_iter().filter(|at| *at < day(before)) {
            let name = format!("{table}_{}", suffix(at));
            call.execute(&Statement::plain(format!("DROP TABLE {name}")))?;
            deleted.push(name);
        }
    }
    if let Some(before) = expiry.rows {
        feedback::expire(call, before)?;
    }
    if let Some(before) = expiry.metrics {
        storage::expire(call, before)?;
    }
    Ok(deleted)
}
