//! Rescue of a stream that broke when the caller had a part of it: what the caller knows, what is asked next, and
//! how the next answer goes on in the same stream.
//!
//! Pure. Whether and where another attempt is made is decided elsewhere; [`super::rewriter::Rewriter`] is what the
//! bytes go through.

mod aligner;
pub(super) mod prefill;
mod request;
mod transcript;

pub use aligner::ResumeMode;
pub(super) use aligner::{Aligner, Alignment};
pub use prefill::Prefill;
pub use request::request;
pub use transcript::{Transcript, TranscriptCall};

use super::adapter::ChatAdapter;
use super::anthropic::AnthropicChat;
use super::openai_chat::OPENAI_CHAT;
use super::rewriter::Rewriter;
use crate::api::chat::{Decoder, EncodeContext, Encoder, Event, ProviderError};
use crate::api::operation::{Operation, StreamShape};
use crate::api::{chat_completions, messages};
use bytes::Bytes;

/// A reader of answers in the caller's own shape; `None` for shapes that are not read.
pub fn decoder(operation: Operation, streamed: bool) -> Option<Box<dyn Decoder>> {
    Some(match operation.stream_shape()? {
        StreamShape::Chat => OPENAI_CHAT.decoder(streamed),
        StreamShape::Messages => AnthropicChat::OWN.decoder(streamed),
    })
}

/// A rewriter that stands where the caller's stream stands, for one that passed unchanged: ids, model, roles and
/// open blocks go on as they are. `sent`: every byte the caller got, whole events only (half of one cannot be
/// taken back; who relays must hold it), and no error event.
///
/// `None` where nothing can go on from there: a shape that is not read, half an event, an answer that is complete
/// or failed, a block that only its provider could go on with.
pub fn from_sent_events(operation: Operation, setting: EncodeContext, sent: &[Bytes]) -> Option<Rewriter> {
    if !ends_whole(sent) {
        return None;
    }
    let id = setting.id.clone();
    let (replay_encoder, resumed_encoder): (Box<dyn Encoder>, _) = match operation.stream_shape()? {
        StreamShape::Chat => {
            // Chunks that passed had nothing of ours beside the standard.
            (chat_completions::encoder(true, EncodeContext { strict: true, ..setting }), None)
        }
        StreamShape::Messages => (Box::new(NullEncoder), Some(messages::resumed_encoder(setting, sent)?)),
    };
    let mut rewriter = Rewriter::chat(decoder(operation, true)?, replay_encoder, &id);
    rewriter.keep_transcript();
    rewriter.hold_errors();
    // They went out already.
    let mut discarded = Vec::new();
    for bytes in sent {
        rewriter.push(bytes, &mut discarded);
        discarded.clear();
    }
    rewriter.finish(&mut discarded);
    if rewriter.is_complete() || rewriter.error().is_some() || !rewriter.transcript()?.can_resume() {
        return None;
    }
    if let Some(encoder) = resumed_encoder {
        rewriter.set_encoder(encoder);
    }
    Some(rewriter)
}

/// Whether the bytes end behind a blank line, which ends an event.
fn ends_whole(sent: &[Bytes]) -> bool {
    let mut tail: Vec<u8> = sent.iter().rev().flat_map(|bytes| bytes.iter().rev()).take(4).copied().collect();
    tail.reverse();
    let ends: [&[u8]; 4] = [b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n"];
    tail.is_empty() || ends.iter().any(|end| tail.ends_with(end))
}

/// Writes nothing.
#[derive(Debug)]
struct NullEncoder;

impl Encoder for NullEncoder {
    fn write(&mut self, _event: &Event<'_>, _out: &mut Vec<u8>) {}

    fn close(&mut self, _out: &mut Vec<u8>) {}

    fn fail(&mut self, _error: &ProviderError, _out: &mut Vec<u8>) {}
}

#[cfg(test)]
mod tests;
