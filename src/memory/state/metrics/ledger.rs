//! `turnpike_ledger_*`: what became of the ledger's rows.
//!
//! The ledger counts. Here its counts are copied into the registry when they are read.

use super::families::{add, counters};
use crate::ledger::LedgerHealth;
use crate::ledger::questions::QuestionCounts;
use crate::ledger::tail::Tail;
use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

/// The families of the ledger.
pub(super) struct LedgerFamilies {
    /// Without a sample where there is no ledger: 0 would say that it is broken.
    available: IntGaugeVec,
    written: IntCounter,
    spooled: IntCounter,
    dropped: IntCounterVec,
    queue_bytes: IntGauge,
    spool_bytes: IntGauge,
    questions: IntGaugeVec,
    questions_refused: IntCounterVec,
    tail_readers: IntGauge,
    tail_dropped: IntCounter,
}

impl LedgerFamilies {
    pub(super) fn new(r: &Registry) -> prometheus::Result<Self> {
        let gauge = |name: &str, help: &str| add(r, IntGauge::new(name, help)?);
        let counter = |name: &str, help: &str| add(r, IntCounter::new(name, help)?);
        let questions = "Questions to the log store that run or wait for a place.";
        let available = "1 while the log store takes the ledger's rows, else 0.";
        Ok(Self {
            available: add(r, IntGaugeVec::new(Opts::new("turnpike_ledger_available", available), &[])?)?,
            written: counter("turnpike_ledger_rows_written_total", "Rows in the log store.")?,
            spooled: counter("turnpike_ledger_rows_spooled_total", "Rows that went to the spool on disk.")?,
            dropped: counters(r, "turnpike_ledger_rows_dropped_total", "Rows that are lost.", &["reason"])?,
            queue_bytes: gauge("turnpike_ledger_queue_bytes", "Bytes of rows that wait in memory.")?,
            spool_bytes: gauge("turnpike_ledger_spool_bytes", "Bytes of rows that wait on disk.")?,
            questions: add(
                r,
                IntGaugeVec::new(Opts::new("turnpike_ledger_questions", questions), &["kind", "state"])?,
            )?,
            questions_refused: counters(
                r,
                "turnpike_ledger_questions_refused_total",
                "Questions to the log store that found no place.",
                &["kind"],
            )?,
            tail_readers: gauge("turnpike_ledger_tail_readers", "Clients that follow the log.")?,
            tail_dropped: counter(
                "turnpike_ledger_tail_dropped_total",
                "Rows that clients who follow the log were too slow for.",
            )?,
        })
    }

    pub(super) fn set_questions(&self, kinds: &[QuestionCounts]) {
        for QuestionCounts { kind, running, waiting, refused } in kinds {
            let states = [("running", *running), ("waiting", *waiting)];
            for (state, count) in states {
                let count = i64::try_from(count).unwrap_or(i64::MAX);
                self.questions.with_label_values(&[*kind, state]).set(count);
            }
            raise(&self.questions_refused.with_label_values(&[kind]), *refused as u64);
        }
    }

    pub(super) fn set_tail(&self, tail: &Tail) {
        self.tail_readers.set(i64::try_from(tail.readers()).unwrap_or(i64::MAX));
        raise(&self.tail_dropped, tail.dropped());
    }

    pub(super) fn set(&self, health: &LedgerHealth) {
        let whole = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        self.available.with_label_values::<&str>(&[]).set(i64::from(health.why.is_none()));
        raise(&self.written, health.written);
        raise(&self.spooled, health.spooled);
        for (reason, count) in health.dropped.by_reason() {
            raise(&self.dropped.with_label_values(&[reason]), count);
        }
        self.queue_bytes.set(whole(health.queue_bytes));
        self.spool_bytes.set(whole(health.spool_bytes));
    }
}

/// Brings a counter to a count that only grows.
fn raise(counter: &IntCounter, count: u64) {
    counter.inc_by(count.saturating_sub(counter.get()));
}
