//! OpenAI's chat completions, the dialect most clients use: parsed into [`super::chat`] and encoded from it.
//!
//! Always written in addition to the standard: `provider`, and `reasoning_content` and `images` (the
//! standard has no member for either, and omitting them would lose content). If `strict_std_compliance` is
//! `false` also `content_blocks` (reasoning with its signature, in order), `native_finish_reason`, the
//! signatures of tool calls and the provider's own members.

mod request;
mod stream;
mod usage;
mod whole;

pub use request::read;
pub(super) use usage::UsageOut;

use super::chat::{EncodeContext, Encoder};

/// The encoder for one response.
pub fn encoder(streamed: bool, context: EncodeContext) -> Box<dyn Encoder> {
    match streamed {
        true => Box::new(stream::Stream::new(context)),
        false => Box::new(whole::Whole::new(context)),
    }
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
