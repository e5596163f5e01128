//! The `process_*` metric families: CPU, memory, files, threads and the start time.
//!
//! Prometheus's own collector with a correct start time: it computes that from /proc/stat, which is missing under
//! the unit's `ProcSubset=pid`, and then reports 0.

use prometheus::core::{Collector, Desc};
use prometheus::process_collector::ProcessCollector;
use prometheus::proto::{Gauge, MetricFamily};

const START: &str = "process_start_time_seconds";

/// The collector of this process.
pub(super) struct Process {
    collector: ProcessCollector,
    /// Unix seconds.
    started: f64,
}

impl Process {
    /// Call this when the process starts: the present time becomes its start time.
    pub(super) fn new() -> Self {
        let started = jiff::Timestamp::now().as_millisecond() as f64 / 1000.0;
        Self { collector: ProcessCollector::for_self(), started }
    }
}

impl Collector for Process {
    fn desc(&self) -> Vec<&Desc> {
        self.collector.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut families = self.collector.collect();
        for family in families.iter_mut().filter(|family| family.name() == START) {
            for metric in family.mut_metric() {
                let mut gauge = Gauge::default();
                gauge.set_value(self.started);
                metric.set_gauge(gauge);
            }
        }
        families
    }
}
