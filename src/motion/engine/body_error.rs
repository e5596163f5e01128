//! What makes a successful response of a provider unusable. What follows from it is decided by the attempt and the plan.

use bytes::Bytes;
use words::api::chat::ProviderError;
use words::error::Error;

/// What is wrong with a response.
#[derive(Debug, Clone)]
pub(super) enum BodyError {
    /// It contains an error of the provider; with the event that holds it, if that is in the client's dialect.
    Provider(ProviderError, Option<Bytes>),
    /// It cannot be a response to the request; the text is the cause for the log.
    Malformed(&'static str),
    /// It ended before it was complete.
    Truncated,
    /// It was to resume a stream, and does not continue what the client got.
    Mismatch,
    /// A filter denied its text.
    Denied(Box<Error>),
}

/// The error for the log, if a provider failed after the response header was sent.
pub(super) fn late_error(error: &ProviderError) -> Error {
    let message = format!("The provider answered {}: {}", error.status, error.message);
    Error::invalid_response(message, "after the answer was begun")
}
