//! A write that waits for the one task or thread that writes to a database.
//!
//! Writes that wait are joined into one transaction, because the database syncs its disk once a transaction: many small writes at a
//! time cost little more than one. Each has a savepoint, so that one that is refused takes no other with it.

use super::audit::AuditEntry;
use super::{Change, StoreError};
use tokio::sync::oneshot;

/// Writes that may wait; more are held back.
pub(super) const QUEUE: usize = 1024;
/// Writes in one transaction.
pub(super) const MAX_BATCH: usize = 256;

pub(super) struct QueuedWrite {
    pub changes: Vec<Change>,
    pub audit: Vec<AuditEntry>,
    pub reply: oneshot::Sender<Result<u64, StoreError>>,
}

/// Whether a failure is that of one write alone, so that the transaction goes on without it. A full disk and the like end it.
pub(super) const fn is_of_one_write(error: &StoreError) -> bool {
    matches!(error, StoreError::Taken(_) | StoreError::Changed | StoreError::Misconfigured(_))
}
