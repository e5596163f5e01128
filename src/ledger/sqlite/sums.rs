//! What sums are made of: pieces of rollups, single requests, feedback.

use super::failure;
use super::read::days;
use crate::ledger::analytics::{FeedbackSum, FeedbackTally, Tally, statements};
use crate::ledger::days::suffix;
use crate::ledger::filter::{Dialect, Filter};
use crate::ledger::log_store::{LogError, ReadControl};
use crate::ledger::rollup::sample::{Hit, Sample};
use crate::ledger::rollup::{Failure, sqlite as rollups};
use rusqlite::{Connection, Row, params_from_iter};
use uuid::Uuid;

/// What a failure of rollups means for the ledger.
pub(super) fn given_up(why: Failure) -> LogError {
    match why {
        Failure::Sqlite(error) => failure(error),
        Failure::Postgres(error) => LogError::Unavailable(error.to_string()),
        Failure::Unanswered(why) => why.into(),
    }
}

/// Adds what the tally's query is about.
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
                add(tally, row)?;
            }
        }
    }
    Ok(())
}

fn add(tally: &mut Tally, row: &Row<'_>) -> Result<(), LogError> {
    let (sample, value, feedback) = read(row).map_err(failure)?;
    Ok(tally.add_sample(&sample, value, &feedback)?)
}

type Read<'a> = (Sample<'a>, Option<&'a str>, FeedbackSum);

/// In the order of `statements::samples`.
fn read<'a>(row: &'a Row<'_>) -> rusqlite::Result<Read<'a>> {
    let text = |at: usize| Ok::<_, rusqlite::Error>(row.get_ref(at)?.as_str_or_null()?);
    let number = |at: usize| Ok::<_, rusqlite::Error>(row.get_ref(at)?.as_i64_or_null()?);
    let amount = |at: usize| number(at).map(|of| of.and_then(|of| u64::try_from(of).ok()));
    let workspace: Option<[u8; 16]> = row.get(0)?;
    let sample = Sample {
        workspace: workspace.map(Uuid::from_bytes).unwrap_or_default(),
        at: row.get(1)?,
        values: [text(2)?, text(3)?, None, text(5)?, text(6)?, text(7)?, text(8)?, text(9)?],
        status: row.get(4)?,
        is_success: row.get(10)?,
        latency_us: amount(11)?.unwrap_or(0),
        input_tokens: amount(12)?.unwrap_or(0),
        output_tokens: amount(13)?.unwrap_or(0),
        total_tokens: amount(14)?.unwrap_or(0),
        cost: amount(15)?,
        is_unpriced: text(16)? == Some("unknown"),
        hit: Hit::of(text(9)?),
        saved: amount(17)?.unwrap_or(0),
        retries: amount(18)?.unwrap_or(0),
        is_fallback: row.get(19)?,
    };
    let count = amount(21)?.unwrap_or(0);
    let feedback = FeedbackSum { requests: u64::from(count > 0), count, weighted: row.get(22)? };
    Ok((sample, text(20)?, feedback))
}

/// Adds the feedback that the tally's query is about.
pub(super) fn feedback(
    connection: &Connection,
    tally: &mut FeedbackTally,
    control: &ReadControl,
) -> Result<(), LogError> {
    let filter = tally.query.filter.clone();
    let tables: Vec<Option<String>> = match tally.query.needs_requests() {
        true => {
            days(connection, &filter)?.into_iter().map(|at| Some(format!("rows_{}", suffix(at)))).collect()
        }
        false => vec![None],
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
