//! What the store does with a PostgreSQL database. Each function is one transaction or a part of one.
//!
//! The statements are those of `store/statements.rs`. Time limits are `postgres`'s.

use super::super::audit::{AuditEntry, AuditPage, AuditQuery};
use super::super::backend::{Changes, Loaded};
use super::super::rows::{self, number_taken, slug_taken};
use super::super::sql::{Dialect, Statement};
use super::super::statements::{self, POSITION, Step};
use super::super::{Change, NodeList, Record, StoreError, nodes as node_rows};
use super::failure::violated_index;
use super::listener::CHANNEL;
use super::one_moment;
use super::run::{execute, parameters, rows};
use deadpool_postgres::{GenericClient, Object, Transaction};
use futures_util::future::join_all;
use std::sync::Arc;
use tokio_postgres::Row;

/// All records of kinds that are kept in memory.
///
/// `forgets`: also deletes the notes of old deletions.
pub(super) async fn load(client: &mut Object, forgets: bool) -> Result<Loaded, StoreError> {
    if forgets {
        execute(&*client, &statements::forget_old_deletions()).await?;
    }
    let transaction = one_moment(client).await?;
    let position = position(&transaction).await?;
    Ok(Loaded { records: records(&transaction, &statements::all_in_memory()).await?, position })
}

pub(super) async fn changes(client: &mut Object, after: u64) -> Result<Changes, StoreError> {
    // Mostly nothing has changed: one statement, no transaction.
    let position_now = position(&*client).await?;
    if position_now == after {
        return Ok(Changes { changes: Vec::new(), position: position_now });
    }
    let transaction = one_moment(client).await?;
    let position = position(&transaction).await?;
    let mut changes = Vec::new();
    // Deletions first: a slug that was freed may have been taken by another record since.
    for row in rows(&transaction, &statements::deleted_after(after)?).await? {
        changes.extend(rows::deletion(&row)?);
    }
    let put = records(&transaction, &statements::put_after(after)?).await?;
    changes.extend(put.into_iter().map(Change::Put));
    Ok(Changes { changes, position })
}

/// Statements that are sent without waiting for the one before.
const PIPELINE: usize = 24;

/// One write as a part of a transaction, behind the statement that sets its savepoint. Returns the position after it.
///
/// All statements are sent at once: after an error the server refuses those behind it, and the first error counts.
///
/// # Errors
/// See [`StoreError`]. The caller rolls back to the savepoint.
pub(super) async fn write(
    transaction: &Transaction<'_>,
    savepoint: &str,
    changes: &[Change],
    audit: &[AuditEntry],
) -> Result<u64, StoreError> {
    let mut steps = Vec::new();
    for step in statements::write(Dialect::Postgres, changes, audit)? {
        steps.push((transaction.prepare_cached(&step.statement.sql).await?, step));
    }
    let position = transaction.prepare_cached(POSITION).await?;
    if steps.is_empty() {
        transaction.batch_execute(savepoint).await?;
    }
    let mut first = Some(savepoint);
    for steps in steps.chunks(PIPELINE) {
        let begin = async {
            match first.take() {
                Some(savepoint) => transaction.batch_execute(savepoint).await,
                None => Ok(()),
            }
        };
        let sent = join_all(steps.iter().map(|(prepared, step)| async move {
            transaction.execute(prepared, &parameters(&step.statement.values)).await
        }));
        let (begun, done) = tokio::join!(begin, sent);
        begun?;
        for ((_, step), result) in steps.iter().zip(done) {
            check(step, result)?;
        }
    }
    rows::count(&transaction.query_one(&position, &[]).await?)
}

/// Interprets the number of changed rows, or the error, of a step.
fn check(step: &Step<'_>, result: Result<u64, tokio_postgres::Error>) -> Result<(), StoreError> {
    match (step.change, result) {
        (Some(_), Ok(0)) => Err(StoreError::Changed),
        (_, Ok(_)) => Ok(()),
        (Some(Change::Put(record)), Err(error)) => Err(match violated_index(&error) {
            Some("records_slug") => slug_taken(record),
            Some("records_number") => number_taken(record),
            _ => error.into(),
        }),
        (_, Err(error)) => Err(error.into()),
    }
}

/// Tells all gateways that something has changed, once the transaction is committed.
pub(super) async fn announce(transaction: &Transaction<'_>) -> Result<(), StoreError> {
    execute(transaction, &Statement::new("SELECT pg_notify($1, '')", vec![CHANNEL.into()])).await?;
    Ok(())
}

pub(super) async fn audit(client: &mut Object, query: &AuditQuery) -> Result<AuditPage, StoreError> {
    let [count, page] = statements::audit(Dialect::Postgres, query);
    let transaction = one_moment(client).await?;
    let total = rows::count(&transaction.query_one(&*count.sql, &parameters(&count.values)).await?)?;
    let found = transaction.query(&*page.sql, &parameters(&page.values)).await?;
    let entry = |row: &Row| rows::audit_entry(row);
    Ok(AuditPage { entries: found.iter().map(entry).collect::<Result<_, _>>()?, total })
}

/// Runs statements that are none of a write.
pub(super) async fn change_nodes(
    client: &Object,
    statements: &[Statement<'static>],
) -> Result<(), StoreError> {
    for statement in statements {
        execute(client, statement).await?;
    }
    Ok(())
}

pub(super) async fn nodes(client: &Object) -> Result<NodeList, StoreError> {
    let position = position(client).await?;
    let found = rows(client, &node_rows::all(Dialect::Postgres)).await?;
    let found = found.iter().map(|row| node_rows::row(row)).collect::<Result<_, _>>()?;
    Ok(node_rows::list(found, position))
}

/// The number of the last write.
pub(super) async fn position(client: &impl GenericClient) -> Result<u64, StoreError> {
    let prepared = client.prepare_cached(POSITION).await?;
    rows::count(&client.query_one(&prepared, &[]).await?)
}

pub(super) async fn records(
    client: &impl GenericClient,
    statement: &Statement<'_>,
) -> Result<Vec<Arc<Record>>, StoreError> {
    let mut found = Vec::new();
    for row in &rows(client, statement).await? {
        found.extend(rows::record(row)?.map(Arc::new));
    }
    Ok(found)
}
