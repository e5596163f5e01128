//! Decoders: a provider's response bytes in, chat events out.
//!
//! A decoder is made per response, holds the stream's state and knows no session. The events do not depend
//! on how the bytes are cut into chunks; this is tested byte by byte and fuzzed.

use super::event::Event;
use std::fmt::Debug;

/// Receives the events of a decoder.
pub type EventSink<'t> = &'t mut dyn FnMut(Event<'_>);

/// Decodes one response with a success status. Bodies with an error status are read by
/// [`super::ProviderError::read`].
pub trait Decoder: Send + Sync + Debug {
    /// Takes the next bytes. Bytes that cannot be decoded yield an [`Event::Error`]; they are never skipped.
    fn push(&mut self, bytes: &[u8], sink: EventSink<'_>);

    /// The upstream body has ended, which does not mean that the response is complete. A whole (not
    /// streamed) response yields all its events here; a stream yields only what was held back. Never invents
    /// an [`Event::Finish`] that the provider did not send, except one without a native reason where the provider gave none and
    /// yet marked the end: a whole response, or a stream with `[DONE]`.
    fn finish(&mut self, sink: EventSink<'_>);

    /// Whether the provider has given its finish reason already, although the event for it is only emitted
    /// at the end. Some providers never mark the end of a stream, so this tells a complete one from a broken
    /// one.
    fn has_finish_reason(&self) -> bool {
        false
    }
}
