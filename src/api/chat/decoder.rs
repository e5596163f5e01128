//! The answer side of a provider: bytes in, events out.
//!
//! Made per answer, holds the stream's state, knows no session. Whatever the chunks it comes in, an answer
//! tells the same events: that is tested byte by byte and fuzzed.

use super::event::Event;
use std::fmt::Debug;

/// Where a reader tells its events.
pub type EventSink<'t> = &'t mut dyn FnMut(Event<'_>);

/// Reads one answer whose status is a success. What a provider says with a failing status is read by
/// [`super::Fault::read`].
pub trait Decoder: Send + Sync + Debug {
    /// Takes the next bytes. What cannot be read is told as an [`Event::Error`], never passed over.
    fn push(&mut self, bytes: &[u8], sink: EventSink<'_>);

    /// The bytes are over (not: the answer is complete). A whole answer is told here; a stream only tells
    /// what was held back. Never makes up a [`Event::Finish`] that the provider did not send.
    fn finish(&mut self, sink: EventSink<'_>);

    /// Whether the provider has said why it stopped, though that is told with the end only: some never say
    /// that it is the end.
    fn has_finish_reason(&self) -> bool {
        false
    }
}
