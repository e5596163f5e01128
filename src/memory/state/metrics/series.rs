//! The series that a target's usual requests are counted in, looked up once: the search by labels costs more than the
//! counting.
//!
//! Only handles. A series that was never counted is not created here either.

use super::exemplars::SeriesExemplars;
use super::{FinishedRequest, Metrics};
use prometheus::{Counter, Histogram, IntCounter};
use std::sync::OnceLock;

/// The series of one target.
#[derive(Debug, Default)]
pub struct TargetSeries {
    /// Of the first operation and model: a target is nearly always used for one.
    requests: OnceLock<RequestSeries>,
    /// Attempts with a successful response.
    pub(super) answered: OnceLock<IntCounter>,
    pub(super) input: OnceLock<IntCounter>,
    pub(super) output: OnceLock<IntCounter>,
    pub(super) cost: OnceLock<Counter>,
}

/// The series of requests with one operation and model.
#[derive(Debug)]
pub(super) struct RequestSeries {
    operation: Box<str>,
    model: Box<str>,
    /// The model as a label value.
    pub model_label: Box<str>,
    /// Requests with status 200.
    pub succeeded: OnceLock<IntCounter>,
    pub exemplars: OnceLock<SeriesExemplars>,
    pub overhead: Histogram,
    pub duration: Histogram,
    pub first_chunk: OnceLock<Histogram>,
    pub input_tokens: OnceLock<Histogram>,
    pub output_tokens: OnceLock<Histogram>,
    pub cost: OnceLock<Histogram>,
}

impl TargetSeries {
    /// The series for a request; `None` if it has another operation or model than the first one that succeeded.
    pub(super) fn of(&self, metrics: &Metrics, request: &FinishedRequest<'_>) -> Option<&RequestSeries> {
        // Kept only where the model has its own label, or never will: a name counts once a provider took it.
        if !request.is_accepted() && self.requests.get().is_none() {
            return None;
        }
        let series = self.requests.get_or_init(|| RequestSeries::new(metrics, request));
        (*series.operation == *request.operation && *series.model == *request.model).then_some(series)
    }
}

impl RequestSeries {
    pub fn new(metrics: &Metrics, request: &FinishedRequest<'_>) -> Self {
        let model = metrics.model_label(request);
        let labels = [request.operation, request.provider, model];
        Self {
            operation: request.operation.into(),
            model: request.model.into(),
            model_label: model.into(),
            succeeded: OnceLock::new(),
            exemplars: OnceLock::new(),
            overhead: metrics.traffic.overhead.with_label_values(&[request.operation]),
            duration: metrics.calls.duration.with_label_values(&labels),
            first_chunk: OnceLock::new(),
            input_tokens: OnceLock::new(),
            output_tokens: OnceLock::new(),
            cost: OnceLock::new(),
        }
    }
}
