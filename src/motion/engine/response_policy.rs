//! What is expected of a response, decided when its attempt begins.
//!
//! Does not validate it (`response_body`).

use judgment::route::request_mode::RequestMode;
use knowledge::provider::success_error;
use words::api::chat::ProviderError;
use words::api::operation::{Operation, ResponseKind};

/// How a response is validated.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResponsePolicy {
    pub wanted: WantedResponse,
    /// Another attempt may be made, so an invalid part is held back instead of forwarded.
    pub validates: bool,
    /// Another attempt follows where this one fails.
    pub replaceable: bool,
    /// The stream may be resumed if it breaks, so what was sent is retained.
    pub retains_sent: bool,
}

/// What the client requested.
#[derive(Debug, Clone, Copy)]
pub(super) struct WantedResponse {
    pub operation: Operation,
    /// Responses of the generic endpoint are not validated.
    pub mode: RequestMode,
    /// A stream.
    pub streamed: bool,
    /// The number of outputs.
    pub n: u64,
}

impl WantedResponse {
    /// Whether the response is a model's output, so that an `error` in it is a failure of the request. In other documents it
    /// may be a property of what was requested, for example of a failed job.
    pub(crate) fn expects_model(&self) -> bool {
        self.mode == RequestMode::Api && self.operation.response_kind() == ResponseKind::Model
    }

    /// Reads the error in a response with a success status.
    pub fn error_in(&self, body: &[u8]) -> ProviderError {
        success_error::read(self.operation.dialect(), body)
    }

    /// The error that a response is which is no result of its operation, if it can be read.
    pub(crate) fn error_instead(&self, body: &[u8]) -> Option<ProviderError> {
        success_error::instead_of_result(self.operation.dialect(), body)
    }

    /// Whether a response that is a stream (or is none) is not of the kind that was requested, and may be converted.
    pub fn is_other_kind(&self, is_stream: bool) -> bool {
        is_stream != self.streamed && self.mode == RequestMode::Api && self.operation.is_chat()
    }
}
