//! What keeps the connection of a silent stream alive. Not when it is sent (`forward`, `orchestrator`).

use crate::api::Dialect;
use crate::api::operation::Operation;
use bytes::Bytes;

/// A comment, which parsers of events ignore.
const COMMENT: Bytes = Bytes::from_static(b": keep-alive\n\n");
/// An empty line for Google's SDKs: older versions take every other line that is no data for JSON.
const EMPTY_LINE: Bytes = Bytes::from_static(b"\n");

/// The bytes to send to a client of `operation`.
pub(super) fn bytes(operation: Operation) -> Bytes {
    match operation.dialect() {
        Dialect::Google => EMPTY_LINE,
        Dialect::OpenAi | Dialect::Anthropic | Dialect::Responses => COMMENT,
    }
}
