//! How a response is validated, decided when its attempt begins.
//!
//! Does not validate it (`response_body`).

use crate::api::operation::Operation;
use crate::route::request_mode::RequestMode;

/// How a response is validated.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResponsePolicy {
    pub operation: Operation,
    /// Responses of the generic endpoint are not validated.
    pub mode: RequestMode,
    /// Another attempt may be made, so an invalid part is held back instead of forwarded.
    pub validates: bool,
    /// The client requested a stream.
    pub streamed: bool,
    /// `n`: the number of requested choices.
    pub n: u64,
    /// The stream may be resumed if it breaks, so what was sent is retained.
    pub retains_sent: bool,
}
