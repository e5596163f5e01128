//! OpenAI's chat completions, the dialect most clients use: parsed into [`super::chat`] and encoded from it.
//!
//! Written in addition to the standard if `strict_std_compliance` is `false`: `provider`, `reasoning_content`, `images`,
//! `content_blocks` (reasoning with its signature, in order), `native_finish_reason`, the signatures of tool calls,
//! and the provider's own members. Otherwise a text says that an image was left out.

mod functions;
mod parts;
mod request;
mod stream;
mod usage;
mod whole;

pub use request::read;
pub(super) use usage::UsageOut;

use super::chat::{EncodeContext, Encoder};

/// The encoder for one response.
pub fn encoder(streamed: bool, context: EncodeContext) -> Box<dyn Encoder> {
    if streamed { Box::new(stream::Stream::new(context)) } else { Box::new(whole::Whole::new(context)) }
}

/// The text in place of an image that the standard has no member for. `base64`: the length of its data.
fn omission_note(media_type: &str, base64: usize) -> String {
    format!(
        "[{media_type}, {} bytes: left out, a chat completion has no member for it. \
         Set strict_std_compliance to false to get it.]",
        base64 / 4 * 3
    )
}

/// Whether a further member of a response belongs to the standard.
fn is_standard(name: &str, json: &str) -> bool {
    match name {
        "system_fingerprint" => true,
        "service_tier" => {
            matches!(json, r#""auto""# | r#""default""# | r#""flex""# | r#""scale""# | r#""priority""#)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
