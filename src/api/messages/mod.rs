//! Anthropic's Messages dialect as callers speak it (`POST /v1/messages`), whoever answers: read into
//! [`super::chat`] and written from it.
//!
//! Not here: Anthropic as a provider (`provider::anthropic`), whose own words pass unchanged to callers who
//! speak them.

mod blocks;
mod citation;
mod content;
mod count;
mod envelope;
mod request;
mod resume_state;
mod stream;
mod tools;
mod vocabulary;
mod whole;

#[cfg(test)]
pub(crate) mod tests;

pub use count::{count_response, estimate};
pub use request::read;

use super::chat::{EncodeContext, Encoder};
use bytes::Bytes;

/// A writer for one answer: events as callers of the stream expect them, or one `Message` object.
pub fn encoder(streamed: bool, setting: EncodeContext) -> Box<dyn Encoder> {
    match streamed {
        true => Box::new(stream::Stream::new(setting)),
        false => Box::new(whole::Whole::new(setting)),
    }
}

/// A writer that goes on with a stream of which the caller has `sent` already, whole events as Anthropic sends
/// them: the next block has the next index, a block under way goes on, nothing is begun twice.
///
/// `None` where it cannot be gone on with: what was sent is over, tells an error, is not in the dialect, or has a
/// block under way that we have no word for.
pub fn resumed_encoder(setting: EncodeContext, sent: &[Bytes]) -> Option<Box<dyn Encoder>> {
    let state = resume_state::ResumeState::from_sent(sent)?;
    Some(Box::new(stream::Stream::resumed(setting, state)))
}
