//! Requests (`reading`), and responses (`writing`): streamed and unstreamed ones have the same content in
//! Anthropic's grammar for any events.

mod grammar;
mod reading;
mod writing;

use crate::api::sse::SseParser;
