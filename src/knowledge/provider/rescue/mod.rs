//! Rescue of a stream that broke after the client got a part of it: what was sent, what to request next, and how
//! the next response continues the same stream.
//!
//! Pure. Whether and where another attempt is made is decided elsewhere; [`super::rewriter::Rewriter`] translates
//! the bytes.
//!
//! `transcript` is what the client got, `request` and `prefill` what is requested next. `aligner` compares the next response with
//! the first: repeated text is skipped, a continuation appended, anything else is a mismatch. `Rewriter::resume` continues the
//! client's stream; `from_sent_events` makes a rewriter in the state of a stream that passed unchanged.

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
use super::gemini::Gemini;
use super::openai_chat::OPENAI_CHAT;
use super::openai_responses::OpenAiResponses;
use super::rewriter::Rewriter;
use bytes::Bytes;
use words::api::chat::{Decoder, EncodeContext, Encoder, Event, ProviderError};
use words::api::operation::{Operation, StreamShape};
use words::api::{chat_completions, gemini, messages};

/// A decoder for responses in the client's dialect; `None` for dialects that have none.
pub fn decoder(operation: Operation, streamed: bool) -> Option<Box<dyn Decoder>> {
    dialect_adapter(operation).map(|adapter| adapter.decoder(streamed))
}

/// As [`decoder`], also for dialects whose broken streams are not continued.
pub fn client_decoder(operation: Operation, streamed: bool) -> Option<Box<dyn Decoder>> {
    match operation.stream_shape()? {
        StreamShape::Responses => Some(OpenAiResponses.decoder(streamed)),
        _ => decoder(operation, streamed),
    }
}

/// The adapter whose decoder reads responses in the client's dialect; `None` for dialects that have none.
pub(super) fn dialect_adapter(operation: Operation) -> Option<&'static dyn ChatAdapter> {
    match operation.stream_shape()? {
        StreamShape::Chat => Some(&OPENAI_CHAT),
        StreamShape::Messages => Some(&AnthropicChat::OWN),
        StreamShape::Gemini => Some(&Gemini::Studio),
        StreamShape::Completions | StreamShape::Responses => None,
    }
}

/// A rewriter that resumes a stream that was passed through unchanged: ids, model, roles and open blocks continue
/// as they are. `sent`: every byte the client got, which must be whole events (a partial event cannot be taken
/// back, so the relay must hold it) and no error event.
///
/// `None` when the stream cannot be resumed: a dialect without decoder, a partial event, a response that is
/// complete or failed, an open block that only its provider could continue.
pub fn from_sent_events(operation: Operation, context: EncodeContext, sent: &[Bytes]) -> Option<Rewriter> {
    if !ends_whole(sent) {
        return None;
    }
    let id = context.id.clone();
    let (replay_encoder, resumed_encoder): (Box<dyn Encoder>, _) = match operation.stream_shape()? {
        StreamShape::Chat => {
            // The chunks that passed had none of the gateway's extensions, but perhaps reasoning.
            let context = EncodeContext { strict: true, is_own_dialect: true, ..context };
            (chat_completions::encoder(true, context), None)
        }
        StreamShape::Gemini => (gemini::encoder(true, context), None),
        StreamShape::Messages => (Box::new(NullEncoder), Some(messages::resumed_encoder(context, sent)?)),
        StreamShape::Completions | StreamShape::Responses => return None,
    };
    let mut rewriter = Rewriter::chat(decoder(operation, true)?, replay_encoder, &id);
    rewriter.keep_transcript();
    rewriter.hold_errors();
    // The client already got these bytes; only the state of the decoder and the encoder is wanted.
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

/// Whether the bytes end with a blank line, which terminates an event.
fn ends_whole(sent: &[Bytes]) -> bool {
    let mut tail: Vec<u8> = sent.iter().rev().flat_map(|bytes| bytes.iter().rev()).take(4).copied().collect();
    tail.reverse();
    let ends: [&[u8]; 4] = [b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n"];
    tail.is_empty() || ends.iter().any(|end| tail.ends_with(end))
}

/// Writes nothing: the events of a replay were sent before.
#[derive(Debug)]
struct NullEncoder;

impl Encoder for NullEncoder {
    fn write(&mut self, _event: &Event<'_>, _out: &mut Vec<u8>) {}

    fn close(&mut self, _out: &mut Vec<u8>) {}

    fn fail(&mut self, _error: &ProviderError, _out: &mut Vec<u8>) {}
}

#[cfg(test)]
mod tests;
