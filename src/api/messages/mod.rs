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
mod stream;
mod tools;
mod whole;
mod words;

#[cfg(test)]
mod tests;

pub use count::{count_answer, estimate};
pub use request::read;

use super::chat::{Setting, Writer};

/// A writer for one answer: events as callers of the stream expect them, or one `Message` object.
pub fn writer(streamed: bool, setting: Setting) -> Box<dyn Writer> {
    match streamed {
        true => Box::new(stream::Stream::new(setting)),
        false => Box::new(whole::Whole::new(setting)),
    }
}
