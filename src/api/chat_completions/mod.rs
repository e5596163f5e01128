//! OpenAI's chat completions: the dialect most callers speak, read into [`super::chat`] and written from it.
//!
//! Beyond the standard, always: `reasoning_content` and `images` (there is no standard word for either, and
//! leaving them out would lose a part of the answer) and `provider`. With `strict_std_compliance: false`
//! also `content_blocks` (thinking with its signature, in order), `native_finish_reason`, the signatures of
//! tool calls and the provider's own members.

mod request;
mod stream;
mod usage;
mod whole;

pub use request::read;
pub(super) use usage::UsageOut;

use super::chat::{EncodeContext, Encoder};

/// A writer for one answer.
pub fn encoder(streamed: bool, context: EncodeContext) -> Box<dyn Encoder> {
    match streamed {
        true => Box::new(stream::Stream::new(context)),
        false => Box::new(whole::Whole::new(context)),
    }
}

/// Whether a further member of an answer is the standard's own.
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
