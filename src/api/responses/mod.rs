//! OpenAI's Responses API as its callers speak it, for providers that only have chats.
//!
//! A request is read into [`super::chat`], an answer written from its events, whole or as the numbered, typed
//! events of a stream. Nothing is kept: what refers to an earlier response is refused, and all that a next
//! turn needs (signatures too, in `encrypted_content`) is in the items handed out. Not here: providers with a
//! Responses API of their own get the caller's bytes.
//!
//! What an answer has no item for: sound, and Anthropic's content blocks other than web searches.

use crate::api::chat::{EncodeContext, Encoder};

mod builder;
mod from_chat;
mod input;
mod item;
mod output;
mod reasoning_token;
mod request;
mod response;
mod stream;
mod whole;

pub use request::read;

/// A writer for one answer.
pub fn encoder(streamed: bool, context: EncodeContext) -> Box<dyn Encoder> {
    if streamed { Box::new(stream::Stream::new(&context)) } else { Box::new(whole::Whole::new(&context)) }
}

#[cfg(test)]
mod tests;
