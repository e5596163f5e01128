//! OpenAI's Responses API for providers that only have chat.
//!
//! A request is parsed into [`super::chat`]; the response is encoded from its events, whole or as a stream
//! of numbered, typed events. The gateway stores nothing: references to an earlier response are refused, and
//! everything the next request needs (also signatures, in `encrypted_content`) is in the returned items. Not
//! used for providers that have a Responses API themselves: they get the client's bytes.
//!
//! Content without an item in this API is dropped: audio, and Anthropic's content blocks other than web
//! searches.

use crate::api::chat::{EncodeContext, Encoder};

mod builder;
mod client_tools;
mod compaction;
mod conversion;
mod freeform;
mod from_chat;
mod input;
mod item;
mod output;
mod reasoning_token;
mod references;
mod request;
mod response;
pub mod socket;
mod stream;
mod tools;
mod whole;

pub use compaction::{
    added_bytes, compaction_encoder, compacts, input_with_messages, own_summary, read_compaction,
};
pub use conversion::{Ending, ending, write_events};
pub use reasoning_token::is_openais_thinking;
pub use references::with_kept_items;
pub use request::read;

/// The response body of a count of input tokens.
pub fn count_response(tokens: u64) -> Vec<u8> {
    format!("{{\"object\":\"response.input_tokens\",\"input_tokens\":{tokens}}}").into_bytes()
}

/// The member with the text of the answer in a part of this type of a message; `None`: reasoning is no part of it. A part without a type has
/// a text.
pub fn text_of_part(kind: &str) -> Option<&'static str> {
    match kind {
        "reasoning_text" | "summary_text" => None,
        "refusal" => Some("refusal"),
        _ => Some("text"),
    }
}

/// The encoder for one response.
pub fn encoder(streamed: bool, context: EncodeContext) -> Box<dyn Encoder> {
    if streamed { Box::new(stream::Stream::new(&context)) } else { Box::new(whole::Whole::new(&context)) }
}

#[cfg(test)]
mod tests;
