//! The state of the ledger for operators: whether the log store works, and how many rows were written, spooled or lost.
//!
//! Plain data with its log lines: each change is logged once.

use jiff::Timestamp;
use std::time::Duration;

/// The ledger at one moment. Counts are since the start of the process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LedgerHealth {
    /// Why the last batch could not be written. `None`: it was.
    pub why: Option<String>,
    /// When `error` changed last.
    pub since: Option<Timestamp>,
    /// Rows in the log store.
    pub written: u64,
    /// Rows that went to the spool.
    pub spooled: u64,
    pub dropped: Dropped,
    /// In memory, on the way to the log store.
    pub queue_bytes: u64,
    pub spool_bytes: u64,
    /// How long the last batch took.
    pub last_batch: Duration,
    /// Why the spool could not be written.
    pub spool_failure: Option<String>,
}

/// Rows that are lost, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dropped {
    /// No room in memory: neither the log store nor the spool kept up.
    pub queue_full: u64,
    pub spool_full: u64,
    /// The disk of the spool refused them.
    pub spool_failed: u64,
    /// The log store refused them for good.
    pub refused: u64,
}

impl Dropped {
    pub fn by_reason(&self) -> [(&'static str, u64); 4] {
        [
            ("queue_full", self.queue_full),
            ("spool_full", self.spool_full),
            ("spool_failed", self.spool_failed),
            ("refused", self.refused),
        ]
    }
}

impl LedgerHealth {
    /// Notes how a batch ended.
    pub(super) fn note(&mut self, failure: Option<String>, now: Timestamp) {
        if self.why.is_some() != failure.is_some() || self.since.is_none() {
            self.since = Some(now);
        }
        match (&failure, &self.why) {
            (Some(why), before) if before.as_ref() != Some(why) => {
                log::error!(target: "turnpike::ledger", "{why}; rows are spooled until it is");
            }
            (None, Some(_)) => log::info!(target: "turnpike::ledger", "the log store is available"),
            _ => {}
        }
        self.why = failure;
    }

    /// Notes that a thread of the ledger has ended: nothing is written any more until the process is started again.
    pub(super) fn note_end(&mut self, why: String, now: Timestamp) {
        log::error!(target: "turnpike::ledger", "{why}; rows are lost until the gateway is started again");
        self.since = Some(now);
        self.why = Some(why);
    }

    /// Notes whether the spool could be written.
    pub(super) fn note_spool_failure(&mut self, failure: Option<String>) {
        if let Some(why) = failure.as_ref().filter(|why| self.spool_failure.as_ref() != Some(why)) {
            log::error!(target: "turnpike::ledger", "rows are lost, the spool cannot be written: {why}");
        }
        self.spool_failure = failure;
    }
}
