//! What the ledger reads from SQLite: day by day, the last one first, so that a page of the newest rows looks at one table.

use super::failure;
use super::tables::Tables;
use super::values::Columns;
use crate::ledger::column::COLUMNS;
use crate::ledger::days::{day, suffix};
use crate::ledger::filter::{Dialect, Filter};
use crate::ledger::id::{created_ms, day_key};
use crate::ledger::log_store::{LogError, ReadControl};
use crate::ledger::{Feedback, Row};
use rusqlite::{Connection, OptionalExtension as _, params, params_from_iter};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use uuid::Uuid;

/// The most attempts that are shown of one request.
const MAX_ATTEMPTS: i64 = 1000;

fn columns() -> String {
    COLUMNS.map(|(name, _)| name).join(", ")
}

/// The days that the filter's time is about, the last one first.
pub(super) fn days(connection: &Connection, filter: &Filter) -> Result<Vec<i64>, LogError> {
    let mut days = Tables::read(connection).map_err(failure)?.rows;
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
        let (condition, mut values) = filter.condition(Dialect::Sqlite).into_parts();
        let to_skip = offset - skipped;
        if to_skip > 0 {
            let sql = format!("SELECT count(*) FROM (SELECT 1 {from} {condition} LIMIT {to_skip})");
            let passed: u64 = connection
                .query_row(&sql, params_from_iter(&values), |row| row.get::<_, i64>(0))
                .map_err(failure)?
                .cast_unsigned();
            if passed < to_skip {
                skipped += passed;
                continue;
            }
        }
        skipped = offset;
        let sql = format!(
            "SELECT {} {from} {condition} ORDER BY key DESC LIMIT -1 OFFSET ?{}",
            columns(),
            values.len() + 1
        );
        values.push(crate::ledger::filter::Argument::Int(to_skip.cast_signed()));
        let mut statement = connection.prepare(&sql).map_err(failure)?;
        let mut rows = statement.query(params_from_iter(&values)).map_err(failure)?;
        while let Some(row) = rows.next().map_err(failure)? {
            control.check()?;
            let row = Row::read(&mut Columns::new(row)).map_err(failure)?;
            if each(row).is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

pub(super) fn count(connection: &Connection, filter: &Filter, control: &ReadControl) -> Result<(), LogError> {
    for at in days(connection, filter)? {
        control.check()?;
        let (from, filter) = from_day(filter, at);
        let (condition, values) = filter.condition(Dialect::Sqlite).into_parts();
        let sql = format!("SELECT count(*) {from} {condition}");
        let mut statement = connection.prepare(&sql).map_err(failure)?;
        let found: i64 = statement.query_row(params_from_iter(&values), |row| row.get(0)).map_err(failure)?;
        control.found.fetch_add(found.cast_unsigned(), Ordering::Relaxed);
    }
    Ok(())
}

/// Whether the day of this id has a table.
fn has_table(connection: &Connection, table: &str) -> rusqlite::Result<bool> {
    let sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?";
    Ok(connection.prepare(sql)?.query_row([table], |row| row.get::<_, i64>(0))? > 0)
}

pub(super) fn row(connection: &Connection, id: Uuid) -> rusqlite::Result<Option<Row>> {
    let table = format!("rows_{}", suffix(day(created_ms(id))));
    if !has_table(connection, &table)? {
        return Ok(None);
    }
    let sql = format!("SELECT {} FROM {table} WHERE key = ? AND id = ?", columns());
    let mut statement = connection.prepare(&sql)?;
    let found =
        statement.query_row(params![day_key(id), id.as_bytes()], |row| Row::read(&mut Columns::new(row)));
    found.optional()
}

pub(super) fn attempts(connection: &Connection, request: &Row) -> rusqlite::Result<Vec<Row>> {
    let mut found = Vec::new();
    // An attempt may begin on the next day.
    for at in [day(request.created_ms), day(request.created_ms) + 1] {
        let table = format!("rows_{}", suffix(at));
        if !has_table(connection, &table)? {
            continue;
        }
        let sql = format!(
            "SELECT {} FROM {table} WHERE trace_id = ? AND kind = 1 AND request = ? ORDER BY attempt LIMIT {MAX_ATTEMPTS}",
            columns()
        );
        let mut statement = connection.prepare(&sql)?;
        let rows = statement.query_map(params![&*request.trace_id, request.id.as_bytes()], |row| {
            Row::read(&mut Columns::new(row))
        })?;
        for row in rows {
            found.push(row?);
        }
    }
    Ok(found)
}

pub(super) fn payload(connection: &Connection, id: Uuid) -> rusqlite::Result<Option<Vec<u8>>> {
    let table = format!("payloads_{}", suffix(day(created_ms(id))));
    if !has_table(connection, &table)? {
        return Ok(None);
    }
    let sql = format!("SELECT body FROM {table} WHERE key = ?");
    connection.prepare(&sql)?.query_row([day_key(id)], |row| row.get(0)).optional()
}

pub(super) fn feedback(connection: &Connection, id: Uuid) -> rusqlite::Result<Option<Feedback>> {
    let sql = "SELECT created_ms, trace_id, workspace, value, weight, metadata FROM feedback WHERE id = ?";
    let mut statement = connection.prepare(sql)?;
    let found = statement.query_row([id.as_bytes()], |row| {
        let workspace: Option<[u8; 16]> = row.get(2)?;
        Ok(Feedback {
            id,
            created_ms: row.get(0)?,
            trace_id: row.get(1)?,
            workspace: workspace.map(Uuid::from_bytes),
            value: row.get(3)?,
            weight: row.get(4)?,
            metadata: row.get(5)?,
        })
    });
    found.optional()
}
