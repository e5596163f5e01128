//! What sums are made of: pieces of rollups, single requests, feedback.

use super::failure;
use super::read::days;
use crate::ledger::analytics::statements::{self, SampleRow};
use crate::ledger::analytics::{FeedbackTally, Tally};
use crate::ledger::days::suffix;
use crate::ledger::filter::{Dialect, Filter};
use crate::ledger::log_store::{LogError, ReadControl};
use crate::ledger::rollup::{Failure, sqlite as rollups};
use rusqlite::{Connection, params_from_iter};
use uuid::Uuid;

/// What a failure of rollups means for the ledger.
pub(super) fn given_up(why: Failure) -> LogError {
    match why {
        Failure::Sqlite(error) => failure(error),
        Failure::Postgres(error) => LogError::Unavailable(error.to_string()),
        Failure::Unanswered(why) => why.into(),
    }
}

/// Adds the sums of the requests that the query selects.
pub(super) fn sums(
    connection: &mut Connection,
    tally: &mut Tally,
    control: &ReadControl,
) -> Result<(), LogError> {
    rollups::read(connection, tally).map_err(given_up)?;
    for range in tally.plan().cover.rows.clone() {
        let times = Filter { since: Some(range.start), until: Some(range.end), ..Filter::default() };
        for at in days(connection, &times)? {
            control.check()?;
            let table = format!("rows_{}", suffix(at));
            let (sql, values) = statements::samples(tally.query(), &range, &table, Dialect::Sqlite);
            let mut statement = connection.prepare(&sql).map_err(failure)?;
            let mut rows = statement.query(params_from_iter(values)).map_err(failure)?;
            while let Some(row) = rows.next().map_err(failure)? {
                let SampleRow { sample, value, feedback } = SampleRow::read(row).map_err(failure)?;
                tally.add_sample(&sample, value, &feedback)?;
            }
        }
    }
    Ok(())
}

/// Adds the feedback that the tally's query is about.
pub(super) fn feedback(
    connection: &Connection,
    tally: &mut FeedbackTally,
    control: &ReadControl,
) -> Result<(), LogError> {
    let filter = tally.query.filter.clone();
    let tables: Vec<Option<String>> = if tally.query.needs_requests() {
        days(connection, &filter)?.into_iter().map(|at| Some(format!("rows_{}", suffix(at)))).collect()
    } else {
        vec![None]
    };
    for table in tables {
        control.check()?;
        let (sql, values) = statements::feedback(&filter, table.as_deref(), Dialect::Sqlite);
        let mut statement = connection.prepare(&sql).map_err(failure)?;
        let mut rows = statement.query(params_from_iter(values)).map_err(failure)?;
        while let Some(row) = rows.next().map_err(failure)? {
            let read = || {
                let id: [u8; 16] = row.get(0)?;
                let model = row.get_ref(4)?.as_str_or_null()?;
                Ok((Uuid::from_bytes(id), row.get(1)?, row.get(2)?, row.get(3)?, model))
            };
            let (id, created_ms, value, weight, model) = read().map_err(failure)?;
            tally.add(id, created_ms, value, weight, model)?;
        }
    }
    Ok(())
}
