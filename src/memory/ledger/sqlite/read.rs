//! What the ledger reads from SQLite: day by day, the last one first, so that a page of the newest rows looks at one table.

use super::key_ranges::{self, KeyRange};
use super::tables::Tables;
use super::{marks, pairs};
use crate::ledger::Row;
use crate::ledger::column::names;
use crate::ledger::database::all;
use crate::ledger::days::{day, suffix};
use crate::ledger::filter::Filter;
use crate::ledger::id::{created_ms, day_key, requests_of};
use crate::ledger::log_store::{LogError, ReadControl};
use crate::store::sql::{Dialect, SqlCondition, Statement};
use crate::store::sqlite::run;
use rusqlite::{Connection, OptionalExtension as _};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use uuid::Uuid;

/// The most attempts that are shown of one request.
const MAX_ATTEMPTS: i64 = 1000;
/// So many ranges of keys are read without looking for marks.
const FEW_RANGES: usize = if cfg!(test) { 1 } else { 16 };

/// The days that the filter's time is about, the last one first.
pub(super) fn days(connection: &Connection, filter: &Filter) -> Result<Vec<i64>, LogError> {
    let mut days = Tables::read(connection)?.rows;
    days.retain(|at| {
        filter.since.is_none_or(|since| *at >= day(since))
            && filter.until.is_none_or(|until| *at <= day(until))
            && filter.before.is_none_or(|id| *at <= day(created_ms(id)))
    });
    days.reverse();
    Ok(days)
}

/// The statement for a day without what it selects, and whether the filter's time cuts the day.
fn from_day(filter: &Filter, at: i64) -> (String, Filter) {
    let mut filter = filter.clone();
    // A day that lies inside the times as a whole needs no comparison, which would hinder the use of indexes.
    filter.since = filter.since.filter(|since| day(*since) == at);
    filter.until = filter.until.filter(|until| day(*until) == at);
    filter.before = filter.before.filter(|id| day(created_ms(*id)) == at);
    (format!("FROM rows_{} WHERE kind = 0 AND ", suffix(at)), filter)
}

pub(super) fn scan(
    connection: &Connection,
    filter: &Filter,
    offset: u64,
    control: &ReadControl,
    each: &mut dyn FnMut(Row) -> ControlFlow<()>,
) -> Result<(), LogError> {
    let mut skipped = 0;
    for at in days(connection, filter)? {
        control.check()?;
        let (from, filter) = from_day(filter, at);
        let to_skip = offset - skipped;
        if let Some(ranges) = ranges(connection, &filter, at)? {
            let mut is_over = false;
            let mut left = to_skip;
            scan_ranges(connection, &filter, &from, &ranges, &mut |row| {
                control.check()?;
                if left > 0 {
                    left -= 1;
                    return Ok(ControlFlow::Continue(()));
                }
                let flow = each(Row::read(row)?);
                is_over = flow.is_break();
                Ok(flow)
            })?;
            if is_over {
                return Ok(());
            }
            skipped = offset - left;
            continue;
        }
        let mut condition = filter.condition(Dialect::Sqlite);
        if to_skip > 0 {
            let sql = format!("SELECT count(*) FROM (SELECT 1 {from} {} LIMIT {to_skip})", condition.sql());
            let passed = number(connection, &Statement::new(sql, condition.values().to_vec()))?;
            if passed < to_skip {
                skipped += passed;
                continue;
            }
        }
        skipped = offset;
        let offset = condition.argument(to_skip.cast_signed());
        let columns = names();
        let sql =
            format!("SELECT {columns} {from} {} ORDER BY key DESC LIMIT -1 OFFSET {offset}", condition.sql());
        let mut is_over = false;
        run::query(connection, &condition.into_statement(sql), |row| {
            control.check()?;
            let flow = each(Row::read(row)?);
            is_over = flow.is_break();
            Ok::<_, LogError>(flow)
        })?;
        if is_over {
            return Ok(());
        }
    }
    Ok(())
}

/// The keys among which the rows of a day are that the filter is about, the last ones first. `None`: among all of the day.
fn ranges(connection: &Connection, filter: &Filter, at: i64) -> Result<Option<Vec<KeyRange>>, LogError> {
    // The index of traces is shorter.
    if !filter.traces.is_empty() {
        return Ok(None);
    }
    let with_pairs = pairs::ranges(connection, filter, at)?;
    // To look for a few of them among the marks of a day takes longer than to read them.
    if with_pairs.as_ref().is_some_and(|ranges| ranges.len() <= FEW_RANGES) {
        return Ok(with_pairs);
    }
    Ok(match (marks::ranges(connection, filter, at)?, with_pairs) {
        (Some(marked), Some(with_pairs)) => Some(key_ranges::common(&marked, &with_pairs)),
        (marked, with_pairs) => marked.or(with_pairs),
    })
}

/// The rows of a day that match, among those with these keys.
fn scan_ranges(
    connection: &Connection,
    filter: &Filter,
    from: &str,
    ranges: &[KeyRange],
    each: &mut dyn FnMut(&rusqlite::Row<'_>) -> Result<ControlFlow<()>, LogError>,
) -> Result<(), LogError> {
    let condition = filter.condition(Dialect::Sqlite);
    let sql =
        format!("SELECT {} {from} {} {} ORDER BY key DESC", names(), condition.sql(), between(&condition));
    marks::query(connection, &condition.into_statement(sql), ranges, each)
}

/// For the keys that are the next two arguments.
fn between(condition: &SqlCondition<'_>) -> String {
    let next = condition.values().len() + 1;
    format!("AND key >= ${next} AND key <= ${}", next + 1)
}

pub(super) fn count(connection: &Connection, filter: &Filter, control: &ReadControl) -> Result<(), LogError> {
    for at in days(connection, filter)? {
        control.check()?;
        let (from, filter) = from_day(filter, at);
        let condition = filter.condition(Dialect::Sqlite);
        if let Some(ranges) = ranges(connection, &filter, at)? {
            let sql = format!("SELECT count(*) {from} {} {}", condition.sql(), between(&condition));
            marks::query(connection, &condition.into_statement(sql), &ranges, |row| {
                control.check()?;
                control.found.fetch_add(row.get::<_, i64>(0)?.cast_unsigned(), Ordering::Relaxed);
                Ok(ControlFlow::Continue(()))
            })?;
            continue;
        }
        let sql = format!("SELECT count(*) {from} {}", condition.sql());
        let found = number(connection, &condition.into_statement(sql))?;
        control.found.fetch_add(found, Ordering::Relaxed);
    }
    Ok(())
}

/// The number in the one row of a result.
fn number(connection: &Connection, statement: &Statement<'_>) -> Result<u64, LogError> {
    let found = all(connection, statement, |row| Ok(row.int(0)?.unwrap_or_default().cast_unsigned()))?;
    Ok(found.first().copied().unwrap_or_default())
}

/// Whether the day of an id has this table.
pub(super) fn has_table(connection: &Connection, table: &str) -> Result<bool, LogError> {
    let sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = $1";
    Ok(number(connection, &Statement::new(sql, vec![table.into()]))? > 0)
}

pub(super) fn row(connection: &Connection, id: Uuid) -> Result<Option<Row>, LogError> {
    if let Some(row) = row_with_key(connection, id)?.filter(|row| row.id == id) {
        return Ok(Some(row));
    }
    let request = row_with_key(connection, *requests_of(id).start())?;
    Ok(request.and_then(|request| request.attempt_row(id)))
}

/// The row with the key of this id.
fn row_with_key(connection: &Connection, id: Uuid) -> Result<Option<Row>, LogError> {
    let table = format!("rows_{}", suffix(day(created_ms(id))));
    if !has_table(connection, &table)? {
        return Ok(None);
    }
    let sql = format!("SELECT {} FROM {table} WHERE key = $1", names());
    let statement = Statement::new(sql, vec![day_key(id).into()]);
    Ok(all(connection, &statement, |row| Ok(Row::read(row)?))?.into_iter().next())
}

pub(super) fn attempts(connection: &Connection, request: &Row) -> Result<Vec<Row>, LogError> {
    let mut found = request.attempt_rows();
    if !found.is_empty() {
        return Ok(found);
    }
    // An older version's have rows of their own. An attempt may begin on the next day.
    for at in [day(request.created_ms), day(request.created_ms) + 1] {
        let table = format!("rows_{}", suffix(at));
        if !has_table(connection, &table)? {
            continue;
        }
        let sql = format!(
            "SELECT {} FROM {table} WHERE trace_id = $1 AND kind = 1 AND request = $2 ORDER BY attempt LIMIT {MAX_ATTEMPTS}",
            names()
        );
        let statement = Statement::new(sql, vec![(&*request.trace_id).into(), request.id.into()]);
        found.extend(all(connection, &statement, |row| Ok(Row::read(row)?))?);
    }
    Ok(found)
}

pub(super) fn payload(connection: &Connection, id: Uuid) -> Result<Option<Vec<u8>>, LogError> {
    let table = format!("payloads_{}", suffix(day(created_ms(id))));
    if !has_table(connection, &table)? {
        return Ok(None);
    }
    let sql = format!("SELECT body FROM {table} WHERE key = ?");
    Ok(connection.prepare(&sql)?.query_row([day_key(id)], |row| row.get(0)).optional()?)
}
