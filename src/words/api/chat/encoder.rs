//! Encoders: chat events in, bytes in the client's dialect out.

use super::event::Event;
use super::provider_error::ProviderError;
use crate::api::body::Body;
use std::fmt::Debug;

/// What an encoder needs besides the events.
#[derive(Debug, Clone)]
pub struct EncodeContext {
    /// Unique, without a prefix: used for ids the provider does not send.
    pub id: String,
    /// Unix seconds, for providers that send no creation time.
    pub created: u64,
    /// The requested model, for providers that do not name theirs.
    pub model: String,
    /// Provider id without prefix.
    pub provider: &'static str,
    /// `strict_std_compliance`: only write members the standard has.
    pub strict: bool,
    /// The response is in the client's dialect already, and encoded again only to be continued or filtered: what
    /// providers of this dialect add to it (reasoning, images) stays, even if `strict`.
    pub is_own_dialect: bool,
    /// The client requested a separate usage chunk.
    pub include_usage: bool,
    /// The client's request, for dialects whose responses repeat parts of it.
    pub request: Option<Body>,
}

impl EncodeContext {
    /// Whether reasoning and images, which the standard lacks but many providers have, are left out.
    pub fn is_bare(&self) -> bool {
        self.strict && !self.is_own_dialect
    }
}

/// Encodes one response.
pub trait Encoder: Send + Sync + Debug {
    /// Writes the next event. `Error` is never passed here (see [`Encoder::fail`]), and nothing is passed
    /// after [`Encoder::close`] or `fail`.
    fn write(&mut self, event: &Event<'_>, out: &mut Vec<u8>);

    /// The response is complete: writes the last chunk, usage and `[DONE]`, or the entire body of a whole
    /// response.
    fn close(&mut self, out: &mut Vec<u8>);

    /// The response failed. For a stream, writes a final error event in the client's dialect, with no end
    /// marker after it; for a whole response, the error body.
    fn fail(&mut self, error: &ProviderError, out: &mut Vec<u8>);

    /// Whether it writes a refusal in a place of its own. Others write it as text.
    fn has_refusals(&self) -> bool {
        false
    }

    /// The finished items of the response that the client may refer to later: id and JSON. Only responses of the Responses
    /// API have any.
    fn items(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}
