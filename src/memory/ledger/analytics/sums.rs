//! Adds to a tally what a database has for its query: pieces of rollups, single requests, feedback.

use super::super::database::Database;
use super::super::filter::Filter;
use super::super::log_store::{LogError, ReadControl};
use super::super::rollup::storage;
use super::statements::{self, SampleRow};
use super::{FeedbackTally, Tally};
use std::ops::ControlFlow;

/// Adds the sums of the requests that the query selects.
///
/// # Errors
/// The database's; what the tally returns; `TooLong`.
pub(in crate::ledger) fn sums(
    database: &dyn Database,
    tally: &mut Tally,
    control: &ReadControl,
) -> Result<(), LogError> {
    storage::read(database, tally)?;
    for range in tally.plan().cover.rows.clone() {
        let times = Filter { since: Some(range.start), until: Some(range.end), ..Filter::default() };
        for table in database.row_tables(&times)? {
            let statement = statements::samples(tally.query(), &range, &table, database.dialect());
            database.query(&statement, &mut |row| {
                control.check()?;
                let SampleRow { sample, value, feedback } = SampleRow::read(row)?;
                tally.add_sample(&sample, value, &feedback)?;
                Ok(ControlFlow::Continue(()))
            })?;
        }
    }
    Ok(())
}

/// Adds the feedback that the query selects.
///
/// # Errors
/// As [`sums`].
pub(in crate::ledger) fn feedback(
    database: &dyn Database,
    tally: &mut FeedbackTally,
    control: &ReadControl,
) -> Result<(), LogError> {
    let filter = tally.query.filter.clone();
    let tables = if tally.query.needs_requests() {
        database.row_tables(&filter)?.into_iter().map(Some).collect()
    } else {
        vec![None]
    };
    for table in tables {
        let statement = statements::feedback(&filter, table.as_deref(), database.dialect());
        database.query(&statement, &mut |row| {
            control.check()?;
            let id = row.uuid(0)?.unwrap_or_default();
            let created_ms = row.int(1)?.unwrap_or_default();
            let value = row.int(2)?.unwrap_or_default();
            tally.add(id, created_ms, value, row.real(3)?.unwrap_or_default(), row.text(4)?)?;
            Ok(ControlFlow::Continue(()))
        })?;
    }
    Ok(())
}
