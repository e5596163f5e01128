//! Whether the lines of a batch may still be sent, by what the store has of it.

use super::run::{Halt, Run};
use super::state::{Batch, Status};
use jiff::Timestamp;
use memory::store::Record;
use std::sync::Arc;

/// Why no more lines are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// Every line has its result.
    Done,
    /// The batch's time is over.
    Expired,
    /// The batch has another status, or the process stops.
    Changed,
}

/// A batch as the store has it; read again where it has changed.
pub(super) struct StoredBatch {
    record: Arc<Record>,
    batch: Batch,
}

impl StoredBatch {
    /// # Errors
    /// It is another process's, or gone.
    pub fn open(run: &Run) -> Result<Self, Halt> {
        let record = run.record().ok_or(Halt::Over)?;
        let batch = run.own(&record).ok_or(Halt::Over)?;
        Ok(Self { record, batch })
    }

    /// Why lines must not be sent any more; `None`: they may.
    ///
    /// # Errors
    /// As [`StoredBatch::open`].
    pub fn stop(&mut self, run: &Run) -> Result<Option<Stop>, Halt> {
        let record = run.record().ok_or(Halt::Over)?;
        if !Arc::ptr_eq(&record, &self.record) {
            self.batch = run.own(&record).ok_or(Halt::Over)?;
            self.record = record;
        }
        Ok(match self.batch.status {
            Status::InProgress if self.batch.is_over(Timestamp::now().as_second()) => Some(Stop::Expired),
            Status::InProgress if !run.is_draining() => None,
            _ => Some(Stop::Changed),
        })
    }
}
