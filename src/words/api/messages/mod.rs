//! Anthropic's Messages dialect as clients speak it (`POST /v1/messages`), for any provider: requests read into
//! [`super::chat`], responses written from it.
//!
//! Not here: Anthropic as a provider (`provider::anthropic`), whose responses pass unchanged to clients of this
//! dialect.

mod block_types;
mod blocks;
mod citation;
mod content;
mod envelope;
mod foreign_id;
mod request;
mod resume_state;
mod search_blocks;
mod stream;
mod tools;
mod vocabulary;
mod whole;
pub mod wire;

#[cfg(test)]
mod tests;

pub use block_types::is_listed_block;
pub use request::read;
pub use search_blocks::is_foreign_search;

use super::chat::{EncodeContext, Encoder};
use bytes::Bytes;

/// The response body of a count of input tokens.
pub fn count_response(tokens: u64) -> Vec<u8> {
    format!("{{\"input_tokens\":{tokens}}}").into_bytes()
}

/// An encoder for one response: an event stream, or one `Message` object.
pub fn encoder(streamed: bool, context: EncodeContext) -> Box<dyn Encoder> {
    if streamed { Box::new(stream::Stream::new(context)) } else { Box::new(whole::Whole::new(context)) }
}

/// An encoder that continues a stream of which the client already got `sent`, which must be whole events of
/// Anthropic's: the next block has the next index, an open block continues, nothing is started twice.
///
/// `None` when it cannot be continued: the sent stream is complete, has an error, is not in the dialect, or has an
/// open block of unknown type.
pub fn resumed_encoder(context: EncodeContext, sent: &[Bytes]) -> Option<Box<dyn Encoder>> {
    let state = resume_state::ResumeState::from_sent(sent)?;
    Some(Box::new(stream::Stream::resumed(context, state)))
}
