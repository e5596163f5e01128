//! What the ledger reads from PostgreSQL. Rows are fetched some hundreds at a time, so that a long list needs no memory.

use super::failure;
use super::values::{Columns, parameters};
use crate::ledger::column::COLUMNS;
use crate::ledger::filter::{Argument, Dialect, Filter};
use crate::ledger::id::created_ms;
use crate::ledger::log_store::{LogError, ReadControl};
use crate::ledger::row::MS_A_DAY;
use crate::ledger::{Feedback, Row};
use deadpool_postgres::Object;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use tokio_postgres::Transaction;
use uuid::Uuid;

/// Rows fetched at a time.
const FETCH: i32 = 200;
/// The server ends a search that nobody waits for any more.
pub(super) const SCAN_TIMEOUT: &str = "SET LOCAL statement_timeout = 30000";
const COUNT_TIMEOUT: &str = "SET LOCAL statement_timeout = 500";
/// The most attempts that are shown of one request.
const MAX_ATTEMPTS: i64 = 1000;

fn columns() -> String {
    COLUMNS.map(|(name, _)| name).join(", ")
}

pub(super) async fn begin<'a>(
    client: &'a mut Object,
    limit: &str,
) -> Result<deadpool_postgres::Transaction<'a>, LogError> {
    let transaction = client.build_transaction().read_only(true).start().await.map_err(failure)?;
    transaction.batch_execute(limit).await.map_err(failure)?;
    Ok(transaction)
}

pub(super) async fn scan(
    client: &mut Object,
    filter: &Filter,
    offset: u64,
    control: &ReadControl,
    each: &mut dyn FnMut(Row) -> ControlFlow<()>,
) -> Result<(), LogError> {
    let transaction = begin(client, SCAN_TIMEOUT).await?;
    let mut condition = filter.condition(Dialect::Postgres);
    let offset = condition.argument(Argument::Int(offset.cast_signed()));
    let (condition, arguments) = condition.into_parts();
    let sql = format!(
        "SELECT {} FROM log_rows WHERE kind = 0 AND {condition} ORDER BY created_ms DESC, id DESC OFFSET {offset}",
        columns()
    );
    let plain: &Transaction<'_> = &transaction;
    let portal = plain.bind(&sql, &parameters(&arguments)).await.map_err(failure)?;
    loop {
        control.check()?;
        let rows = plain.query_portal(&portal, FETCH).await.map_err(failure)?;
        for row in &rows {
            if each(Row::read(&mut Columns::new(row)).map_err(failure)?).is_break() {
                return Ok(());
            }
        }
        if rows.is_empty() {
            return Ok(());
        }
    }
}

/// Counts day by day, the last one first.
pub(super) async fn count(
    client: &mut Object,
    filter: &Filter,
    days: HashSet<i64>,
    control: &ReadControl,
) -> Result<(), LogError> {
    let transaction = begin(client, COUNT_TIMEOUT).await?;
    let mut days: Vec<i64> = days.into_iter().collect();
    days.sort_unstable_by(|a, b| b.cmp(a));
    for day in days {
        control.check()?;
        let from = day * MS_A_DAY;
        let to = (day + 1) * MS_A_DAY;
        let of_day = Filter {
            since: Some(filter.since.unwrap_or(from).max(from)),
            until: Some(filter.until.unwrap_or(to).min(to)),
            ..filter.clone()
        };
        if of_day.since >= of_day.until {
            continue;
        }
        let (condition, arguments) = of_day.condition(Dialect::Postgres).into_parts();
        let sql = format!("SELECT count(*) FROM log_rows WHERE kind = 0 AND {condition}");
        let row = transaction.query_one(&sql, &parameters(&arguments)).await.map_err(failure)?;
        let found: i64 = row.try_get(0).map_err(failure)?;
        control.found.fetch_add(found.cast_unsigned(), Ordering::Relaxed);
    }
    Ok(())
}

pub(super) async fn row(client: &Object, id: Uuid) -> Result<Option<Row>, LogError> {
    let sql = format!("SELECT {} FROM log_rows WHERE created_ms = $1 AND id = $2", columns());
    let found = client.query_opt(&sql, &[&created_ms(id), &id]).await.map_err(failure)?;
    found.map(|row| Row::read(&mut Columns::new(&row)).map_err(failure)).transpose()
}

pub(super) async fn attempts(client: &Object, request: &Row) -> Result<Vec<Row>, LogError> {
    let sql = format!(
        "SELECT {} FROM log_rows WHERE trace_id = $1 AND kind = 1 AND request = $2 AND created_ms >= $3 ORDER BY attempt LIMIT $4",
        columns()
    );
    let trace_id = &*request.trace_id;
    let since = request.created_ms - MS_A_DAY;
    let rows = client.query(&sql, &[&trace_id, &request.id, &since, &MAX_ATTEMPTS]).await.map_err(failure)?;
    rows.iter().map(|row| Row::read(&mut Columns::new(row)).map_err(failure)).collect()
}

pub(super) async fn payload(client: &Object, id: Uuid) -> Result<Option<Vec<u8>>, LogError> {
    let sql = "SELECT body FROM log_payloads WHERE created_ms = $1 AND id = $2";
    let found = client.query_opt(sql, &[&created_ms(id), &id]).await.map_err(failure)?;
    found.map(|row| row.try_get(0).map_err(failure)).transpose()
}

pub(super) async fn feedback(client: &Object, id: Uuid) -> Result<Option<Feedback>, LogError> {
    let sql = "SELECT created_ms, trace_id, workspace, value, weight, metadata FROM feedback WHERE id = $1";
    let Some(row) = client.query_opt(sql, &[&id]).await.map_err(failure)? else { return Ok(None) };
    let read = || {
        Ok(Feedback {
            id,
            created_ms: row.try_get(0)?,
            trace_id: row.try_get(1)?,
            workspace: row.try_get(2)?,
            value: row.try_get(3)?,
            weight: row.try_get(4)?,
            metadata: row.try_get(5)?,
        })
    };
    read().map(Some).map_err(failure)
}
