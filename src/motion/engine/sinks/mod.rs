//! The sinks: each gets the record of every finished request. One file each, and a line in the list.
//!
//! They are called on the request's own path, after its response, so none may wait for anything.

mod access_line;
mod ledger;
mod metrics;
mod span_messages;
mod span_request;
mod spans;

use super::prompt_misses;
use super::record::RequestRecord;
use memory::state::Shared;
use std::sync::Arc;
use std::time::Instant;

/// Receives the records of finished requests.
pub(crate) trait RecordSink: Send + Sync {
    fn record(&self, record: &RequestRecord);
}

/// All sinks.
pub(super) struct Sinks {
    shared: Arc<Shared>,
    /// In the order in which they are called.
    readers: Vec<Box<dyn RecordSink>>,
    /// Called last: it keeps the record.
    ledger: ledger::LedgerSink,
}

impl Sinks {
    pub fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            readers: vec![
                Box::new(metrics::MetricsSink(Arc::clone(shared))),
                Box::new(access_line::AccessLineSink(Arc::clone(shared))),
                Box::new(spans::SpanSink(Arc::clone(shared))),
            ],
            ledger: ledger::LedgerSink(Arc::clone(shared)),
        }
    }

    pub fn record(&self, mut record: Box<RequestRecord>) {
        record.prompt_miss = prompt_misses::take(&record, &self.shared.sent_prompts, Instant::now());
        for sink in &self.readers {
            sink.record(&record);
        }
        self.ledger.take(record);
    }
}
