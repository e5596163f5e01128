//! Everything that is in a PostgreSQL database, in one pass: checked, or copied into a file.
//!
//! The file is a SQLite database with the same content, which `store.url` can name: nothing else is needed to read it.

use super::super::audit::AuditEntry;
use super::super::rows::{audit_entry, check};
use super::super::sqlite::Copy;
use super::super::statements;
use super::transactions::{position, records};
use super::{StoreError, one_moment};
use deadpool_postgres::{Object, Transaction};
use std::path::PathBuf;
use tokio::sync::mpsc;
use tokio_postgres::Row;

/// Rows that are in memory at a time.
const BATCH: i64 = 1000;
/// Batches that may wait for the disk.
const QUEUE: usize = 4;

pub(super) async fn to_file(client: &mut Object, file: PathBuf) -> Result<(), StoreError> {
    let transaction = one_moment(client).await?;
    let position = position(&transaction).await?;
    let all = records(&transaction, &statements::all()).await?;
    let (sender, mut batches) = mpsc::channel(QUEUE);
    let writing = tokio::task::spawn_blocking(move || {
        let mut copy = Copy::create(&file)?;
        copy.add(&all, position)?;
        // Ends when the sender is dropped. An error from the sender ends it without a copy.
        while let Some(batch) = batches.blocking_recv() {
            let batch: Vec<AuditEntry> = batch?;
            copy.add_audit_entries(&batch)?;
        }
        copy.finish()
    });
    if let Err(error) = send_audit_entries(&transaction, &sender).await {
        let _ = sender.send(Err(error)).await;
    }
    drop(sender);
    writing.await.unwrap_or_else(|why| Err(StoreError::Unavailable(why.to_string())))
}

async fn send_audit_entries(
    transaction: &Transaction<'_>,
    sender: &mpsc::Sender<Result<Vec<AuditEntry>, StoreError>>,
) -> Result<(), StoreError> {
    let portal = transaction.bind(&*statements::all_audit_entries().sql, &[]).await?;
    loop {
        let rows = transaction.query_portal(&portal, i32::try_from(BATCH).unwrap_or(1000)).await?;
        if rows.is_empty() {
            return Ok(());
        }
        let entries = rows.iter().map(|row: &Row| audit_entry(row)).collect::<Result<Vec<_>, _>>()?;
        // The file failed: its error is what is returned.
        if sender.send(Ok(entries)).await.is_err() {
            return Ok(());
        }
    }
}

/// Checks every row. Returns the number of records.
pub(super) async fn verify(client: &mut Object) -> Result<u64, StoreError> {
    let transaction = one_moment(client).await?;
    let all = records(&transaction, &statements::all()).await?;
    for record in &all {
        check(record)?;
    }
    let (sender, mut batches) = mpsc::channel(QUEUE);
    let send = async {
        let sent = send_audit_entries(&transaction, &sender).await;
        drop(sender);
        sent
    };
    let receive = async { while batches.recv().await.is_some() {} };
    tokio::join!(send, receive).0?;
    Ok(u64::try_from(all.len()).unwrap_or(u64::MAX))
}
