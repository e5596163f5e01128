//! Who is given the record of each finished request: one file each, and a line in the list.
//!
//! Called on the request's own path, after its response: none may wait for anything.

mod access_line;
mod metrics;

use super::record::RequestRecord;
use crate::state::Shared;
use std::sync::Arc;

/// Takes records of finished requests.
pub trait RecordSink: Send + Sync {
    fn record(&self, record: &RequestRecord);
}

/// All sinks, in the order they are given a record.
pub(super) fn all(shared: &Arc<Shared>) -> Vec<Box<dyn RecordSink>> {
    vec![
        Box::new(metrics::MetricsSink(Arc::clone(shared))),
        Box::new(access_line::AccessLineSink(Arc::clone(shared))),
    ]
}
