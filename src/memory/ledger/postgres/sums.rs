//! What sums are made of: pieces of rollups, single requests, feedback; and the merging of rollups.

use super::failure;
use super::read::{SCAN_TIMEOUT, begin};
use super::values::parameters;
use crate::ledger::analytics::statements::{self, SampleRow};
use crate::ledger::analytics::{FeedbackTally, Tally};
use crate::ledger::filter::{Argument, Dialect};
use crate::ledger::log_store::{LogError, ReadControl};
use crate::ledger::rollup::{Failure, postgres as rollups};
use deadpool_postgres::{Object, Transaction};
use futures_util::TryStreamExt as _;
use std::pin::pin;
use tokio_postgres::Row;

const TABLE: &str = "log_rows";

/// What a failure of rollups means for the ledger.
fn given_up(why: Failure) -> LogError {
    match why {
        Failure::Postgres(error) => failure(error),
        Failure::Sqlite(error) => LogError::Unavailable(error.to_string()),
        Failure::Unanswered(why) => why.into(),
    }
}

/// Adds the sums of the requests that the query selects.
pub(super) async fn sums(
    client: &mut Object,
    tally: &mut Tally,
    control: &ReadControl,
) -> Result<(), LogError> {
    let transaction = begin(client, SCAN_TIMEOUT).await?;
    rollups::read(&*transaction, tally).await.map_err(given_up)?;
    for range in tally.plan().cover.rows.clone() {
        control.check()?;
        let (sql, values) = statements::samples(tally.query(), &range, TABLE, Dialect::Postgres);
        each(&transaction, &sql, &values, control, |row| {
            let SampleRow { sample, value, feedback } = SampleRow::read(row).map_err(failure)?;
            Ok(tally.add_sample(&sample, value, &feedback)?)
        })
        .await?;
    }
    Ok(())
}

/// Calls `add` with each row of a result, without holding all of it.
async fn each(
    transaction: &Transaction<'_>,
    sql: &str,
    values: &[Argument],
    control: &ReadControl,
    mut add: impl FnMut(&Row) -> Result<(), LogError>,
) -> Result<(), LogError> {
    let mut rows = pin!(transaction.query_raw(sql, parameters(values)).await.map_err(failure)?);
    while let Some(row) = rows.try_next().await.map_err(failure)? {
        control.check()?;
        add(&row)?;
    }
    Ok(())
}

/// Adds the feedback that the tally's query is about.
pub(super) async fn feedback(
    client: &mut Object,
    tally: &mut FeedbackTally,
    control: &ReadControl,
) -> Result<(), LogError> {
    let transaction = begin(client, SCAN_TIMEOUT).await?;
    let requests = tally.query.needs_requests().then_some(TABLE);
    let (sql, values) = statements::feedback(&tally.query.filter, requests, Dialect::Postgres);
    each(&transaction, &sql, &values, control, |row| {
        let read =
            || Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?, row.try_get(4)?));
        let (id, created_ms, value, weight, model) = read().map_err(failure)?;
        Ok(tally.add(id, created_ms, value, weight, model)?)
    })
    .await
}

/// Merges some pieces of rollups.
pub(super) async fn merge_rollups(client: &mut Object, now: i64) -> Result<bool, LogError> {
    let transaction = client.transaction().await.map_err(failure)?;
    let is_more = rollups::merge_next(&transaction, now).await.map_err(given_up)?;
    transaction.commit().await.map_err(failure)?;
    Ok(is_more)
}
