//! `turnpike_guardrail_*`: what hooks and their checks found.
//!
//! Only definitions: what is counted is `engine::guarding`'s.

use super::families::{add, begun, counters};
use prometheus::{HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Registry};

/// The families of guardrails.
pub(super) struct Guardrails {
    pub hooks: IntCounterVec,
    pub checks: IntCounterVec,
    pub seconds: HistogramVec,
    pub left_out: IntCounter,
}

impl Guardrails {
    pub fn new(r: &Registry) -> prometheus::Result<Self> {
        let hooks = "Hooks that ran, by what they came to: passed, failed, denied.";
        let checks = "Checks that ran, by what they found: passed, failed, error.";
        let left_out = "Hooks and feedback in the background that were left out or lost.";
        let seconds =
            HistogramOpts::new("turnpike_guardrail_check_duration_seconds", "How long checks took.");
        let seconds = seconds.buckets(vec![0.0001, 0.001, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0]);
        Ok(Self {
            hooks: begun(
                r,
                "turnpike_guardrail_hooks_total",
                hooks,
                "outcome",
                &["passed", "failed", "denied"],
            )?,
            checks: counters(r, "turnpike_guardrail_checks_total", checks, &["check", "verdict"])?,
            seconds: add(r, HistogramVec::new(seconds, &["check"])?)?,
            left_out: add(r, IntCounter::new("turnpike_guardrail_left_out_total", left_out)?)?,
        })
    }
}
