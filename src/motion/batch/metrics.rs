//! `turnpike_batch_*`: what batches of the gateway do.
//!
//! Requests, tokens and costs of lines are counted with those of all requests.

use super::state::Batch;
use prometheus::{IntCounter, IntCounterVec, IntGauge, Opts, Registry};

/// The families of batches.
#[derive(Debug, Clone)]
pub struct BatchMetrics {
    lines: IntCounterVec,
    in_flight: IntGauge,
    open: IntGauge,
    finished: IntCounterVec,
    sent_again: IntCounter,
    uploaded: IntCounter,
}

/// Counts a line as in flight until it is dropped.
#[derive(Debug)]
pub(crate) struct LineInFlight(IntGauge);

impl Drop for LineInFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl BatchMetrics {
    /// # Errors
    /// A family is registered already.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let lines = "Lines of batches, by result: completed, failed; repeated for one that is sent again after a response.";
        let metrics = Self {
            lines: IntCounterVec::new(Opts::new("turnpike_batch_lines_total", lines), &["result"])?,
            in_flight: IntGauge::new("turnpike_batch_lines_in_flight", "Lines of batches in flight.")?,
            open: IntGauge::new("turnpike_batches_open", "Batches that are not finished.")?,
            finished: IntCounterVec::new(
                Opts::new(
                    "turnpike_batches_finished_total",
                    "Batches that this process has finished, by status.",
                ),
                &["status"],
            )?,
            sent_again: IntCounter::new(
                "turnpike_batch_lines_sent_again_total",
                "Lines of finished batches that may have been sent twice, since a process had ended.",
            )?,
            uploaded: IntCounter::new("turnpike_file_upload_bytes_total", "Bytes of uploaded files.")?,
        };
        registry.register(Box::new(metrics.lines.clone()))?;
        registry.register(Box::new(metrics.in_flight.clone()))?;
        registry.register(Box::new(metrics.open.clone()))?;
        registry.register(Box::new(metrics.finished.clone()))?;
        registry.register(Box::new(metrics.sent_again.clone()))?;
        registry.register(Box::new(metrics.uploaded.clone()))?;
        for result in ["completed", "failed", "repeated"] {
            metrics.lines.with_label_values(&[result]);
        }
        Ok(metrics)
    }

    pub(super) fn send_line(&self) -> LineInFlight {
        self.in_flight.inc();
        LineInFlight(self.in_flight.clone())
    }

    pub(super) fn end_line(&self, is_error: bool) {
        self.lines.with_label_values(&[if is_error { "failed" } else { "completed" }]).inc();
    }

    pub(super) fn repeat_line(&self) {
        self.lines.with_label_values(&["repeated"]).inc();
    }

    pub(super) fn set_open(&self, batches: usize) {
        self.open.set(batches as i64);
    }

    pub(super) fn finish(&self, batch: &Batch) {
        self.finished.with_label_values(&[batch.status.as_str()]).inc();
        self.sent_again.inc_by(u64::from(batch.lines.sent_again));
    }

    pub(super) fn upload(&self, bytes: u64) {
        self.uploaded.inc_by(bytes);
    }
}
