//! What the ledger reads from PostgreSQL. Rows are fetched some hundreds at a time, so that a long list needs no memory.

use super::ROWS;
use super::call::Call;
use crate::ledger::Row;
use crate::ledger::column::names;
use crate::ledger::database::all;
use crate::ledger::filter::Filter;
use crate::ledger::id::{created_ms, requests_of};
use crate::ledger::log_store::{LogError, ReadControl};
use crate::ledger::row::MS_A_DAY;
use crate::store::postgres::run::parameters;
use crate::store::sql::{Dialect, Statement};
use std::collections::HashSet;
use std::ops::{ControlFlow, RangeInclusive};
use std::sync::atomic::Ordering;
use tokio_postgres::Transaction;
use uuid::Uuid;

/// Rows fetched at a time.
const FETCH: i32 = 200;
/// The most attempts that are shown of one request.
const MAX_ATTEMPTS: i64 = 1000;

pub(super) fn scan(
    call: &Call<'_>,
    filter: &Filter,
    offset: u64,
    control: &ReadControl,
    each: &mut dyn FnMut(Row) -> ControlFlow<()>,
) -> Result<(), LogError> {
    let mut condition = filter.condition(Dialect::Postgres);
    let offset = condition.argument(offset.cast_signed());
    let sql = format!(
        "SELECT {} FROM {ROWS} WHERE kind = 0 AND {} ORDER BY created_ms DESC, id DESC OFFSET {offset}",
        names(),
        condition.sql()
    );
    let transaction: &Transaction<'_> = &call.transaction;
    let portal = call.wait.until(transaction.bind(&sql, &parameters(condition.values())))?;
    loop {
        control.check()?;
        let rows = call.wait.until(transaction.query_portal(&portal, FETCH))?;
        for row in &rows {
            if each(Row::read(row)?).is_break() {
                return Ok(());
            }
        }
        if rows.is_empty() {
            return Ok(());
        }
    }
}

/// Counts day by day, the last one first.
pub(super) fn count(
    call: &Call<'_>,
    filter: &Filter,
    days: HashSet<i64>,
    control: &ReadControl,
) -> Result<(), LogError> {
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
        let condition = of_day.condition(Dialect::Postgres);
        let sql = format!("SELECT count(*) FROM {ROWS} WHERE kind = 0 AND {}", condition.sql());
        let found = all(call, &condition.into_statement(sql), |row| Ok(row.int(0)?.unwrap_or_default()))?;
        control.found.fetch_add(found.iter().sum::<i64>().cast_unsigned(), Ordering::Relaxed);
    }
    Ok(())
}

pub(super) fn row(call: &Call<'_>, id: Uuid) -> Result<Option<Row>, LogError> {
    if let Some(row) = row_between(call, &(id..=id))? {
        return Ok(Some(row));
    }
    let request = row_between(call, &requests_of(id))?;
    Ok(request.and_then(|request| request.attempt_row(id)))
}

/// The row with one of these ids, which have one time.
fn row_between(call: &Call<'_>, ids: &RangeInclusive<Uuid>) -> Result<Option<Row>, LogError> {
    let sql = format!("SELECT {} FROM {ROWS} WHERE created_ms = $1 AND id >= $2 AND id <= $3", names());
    let values = vec![created_ms(*ids.start()).into(), (*ids.start()).into(), (*ids.end()).into()];
    Ok(all(call, &Statement::new(sql, values), |row| Ok(Row::read(row)?))?.into_iter().next())
}

pub(super) fn attempts(call: &Call<'_>, request: &Row) -> Result<Vec<Row>, LogError> {
    let found = request.attempt_rows();
    if !found.is_empty() {
        return Ok(found);
    }
    // An older version's have rows of their own.
    let sql = format!(
        "SELECT {} FROM {ROWS} WHERE trace_id = $1 AND kind = 1 AND request = $2 AND created_ms >= $3 ORDER BY attempt \
         LIMIT {MAX_ATTEMPTS}",
        names()
    );
    let since = request.created_ms - MS_A_DAY;
    let values = vec![(&*request.trace_id).into(), request.id.into(), since.into()];
    all(call, &Statement::new(sql, values), |row| Ok(Row::read(row)?))
}

pub(super) fn payload(call: &Call<'_>, id: Uuid) -> Result<Option<Vec<u8>>, LogError> {
    let sql = "SELECT body FROM log_payloads WHERE created_ms = $1 AND id = $2";
    let statement = Statement::new(sql, vec![created_ms(id).into(), id.into()]);
    let found = all(call, &statement, |row| Ok(row.bytes(0)?.unwrap_or_default().to_owned()))?;
    Ok(found.into_iter().next())
}
