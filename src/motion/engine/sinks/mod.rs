//! The sinks: each gets the record of every finished request. One file each, and a line in the list.
//!
//! They are called on the request's own path, after its response, so none may wait for anything.

mod access_line;
mod ledger;
mod metrics;
mod span_messages;
mod span_request;
mod spans;

use super::record::RequestRecord;
use memory::state::Shared;
use std::sync::Arc;

/// Receives the records of finished requests.
pub(crate) trait RecordSink: Send + Sync {
    fn record(&self, record: &RequestRecord);
}

/// All sinks.
pub(super) struct Sinks {
    /// In the order in which they are called.
    readers: Vec<Box<dyn RecordSink>>,
    /// Called last: it keeps the record.
    ledger: ledger::LedgerSink,
}

impl Sinks {
    pub fn new(shared: &Arc<Shared>) -> Self {
        Self {
            readers: vec![
                Box::new(metrics::MetricsSink(Arc::clone(shared))),
                Box::new(access_line::AccessLineSink(Arc::clone(shared))),
                Box::new(spans::SpanSink(Arc::clone(shared))),
            ],
            ledger: ledger::LedgerSink(Arc::clone(shared)),
        }
    }

    pub fn record(&self, record: Box<RequestRecord>) {
        for sink in &self.readers {
            sink.record(&record);
        }
        self.ledger.take(record);
    }
}
