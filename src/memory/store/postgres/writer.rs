//! The one task that writes to a PostgreSQL database, on the runtime of the connections.
//!
//! Joins writes that wait (see [`QueuedWrite`]). Other gateways write at the same time: the row of the position is locked from the first
//! write of a transaction to its end.

use super::super::StoreError;
use super::super::queued_write::{MAX_BATCH, QueuedWrite, is_of_one_write};
use super::CALL_TIMEOUT;
use super::failure::{failure, no_connection};
use super::transactions;
use deadpool_postgres::{Object, Pool};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// What each change of a transaction adds to its time: a write may have many thousands.
const CHANGE_TIMEOUT: Duration = Duration::from_millis(2);

/// Why a transaction failed as a whole.
enum Failed {
    /// Nothing of it is written.
    Before(StoreError),
    /// It may or may not be written: the connection broke during the commit.
    InCommit(StoreError),
}

/// Serves the queue until its last sender is gone.
pub(super) async fn serve(pool: Pool, mut queue: mpsc::Receiver<QueuedWrite>) {
    while let Some(first) = queue.recv().await {
        let mut batch = vec![first];
        while batch.len() < MAX_BATCH
            && let Ok(next) = queue.try_recv()
        {
            batch.push(next);
        }
        let results = write_all(&pool, &batch).await;
        for (write, result) in batch.into_iter().zip(results) {
            // A caller that stopped waiting reads the write with the next changes.
            let _ = write.reply.send(result);
        }
    }
}

/// Writes a batch in one transaction; where that fails as a whole, each of it in one of its own.
async fn write_all(pool: &Pool, batch: &[QueuedWrite]) -> Vec<Result<u64, StoreError>> {
    let for_all = |error: &StoreError| batch.iter().map(|_| Err(error.clone())).collect();
    let mut client = match pool.get().await {
        Ok(client) => client,
        Err(error) => return for_all(&no_connection(error)),
    };
    match in_time(&mut client, batch).await {
        Ok(results) => results,
        Err(Failed::Before(_)) if batch.len() > 1 && !client.is_closed() => {
            let mut results = Vec::with_capacity(batch.len());
            for write in batch {
                let alone = in_time(&mut client, std::slice::from_ref(write)).await;
                let result = match alone {
                    Ok(mut results) => results.pop().unwrap_or_else(|| Err(no_response())),
                    Err(Failed::Before(error) | Failed::InCommit(error)) => Err(error),
                };
                results.push(result);
            }
            results
        }
        Err(Failed::Before(error) | Failed::InCommit(error)) => for_all(&error),
    }
}

fn no_response() -> StoreError {
    StoreError::Unavailable(format!("no response within {} s", CALL_TIMEOUT.as_secs()))
}

async fn in_time(client: &mut Object, batch: &[QueuedWrite]) -> Result<Vec<Result<u64, StoreError>>, Failed> {
    let changes: usize = batch.iter().map(|write| write.changes.len() + write.audit.len()).sum();
    let more = CHANGE_TIMEOUT.saturating_mul(u32::try_from(changes).unwrap_or(u32::MAX));
    match timeout(CALL_TIMEOUT.saturating_add(more), together(client, batch)).await {
        Ok(done) => done,
        // The commit may be what got no response.
        Err(_) => Err(Failed::InCommit(no_response())),
    }
}

/// The outcome of each write, all of them durable.
async fn together(
    client: &mut Object,
    batch: &[QueuedWrite],
) -> Result<Vec<Result<u64, StoreError>>, Failed> {
    let before = |error| Failed::Before(failure(error));
    let transaction = client.transaction().await.map_err(before)?;
    let mut results: Vec<Result<u64, StoreError>> = Vec::with_capacity(batch.len());
    for write in batch {
        let savepoint =
            if results.is_empty() { "SAVEPOINT one" } else { "RELEASE SAVEPOINT one; SAVEPOINT one" };
        let result = transactions::write(&transaction, savepoint, &write.changes, &write.audit).await;
        match &result {
            Ok(_) => {}
            Err(error) if is_of_one_write(error) => {
                transaction.batch_execute("ROLLBACK TO SAVEPOINT one").await.map_err(before)?;
            }
            Err(error) => return Err(Failed::Before(error.clone())),
        }
        results.push(result);
    }
    if results.iter().zip(batch).any(|(result, write)| result.is_ok() && !write.changes.is_empty()) {
        transactions::announce(&transaction).await.map_err(Failed::Before)?;
    }
    transaction.commit().await.map_err(|error| Failed::InCommit(failure(error)))?;
    Ok(results)
}
