//! One answer on its way from a provider's words to the caller's: bytes in, bytes out.
//!
//! Made per answer, holds its state, knows no session. What holds for every provider is done here and not
//! in the readers: a turn with tool calls finishes with `tool_calls`, a call without arguments gets `{}`, a
//! call without an id gets one, and an answer that only stops coming is not complete.

mod error_response;
mod response_state;

pub use error_response::ErrorResponseTranslation;

use super::adapter::{JsonAdapter, ResponsePatch};
use super::patching::Patcher;
use super::rescue::{ResumeMode, Transcript};
use crate::api::body::Body;
use crate::api::chat::{Decoder, Encoder, ProviderError};
use crate::api::tap::ResponseSummary;
use error_response::{MAX_ERROR_BODY, is_in_dialect};
use response_state::State;

/// The largest whole answer held, bytes: some carry pictures.
const MAX_HELD: usize = 64 << 20;

/// One answer's translation.
#[derive(Debug)]
pub struct Rewriter {
    work: Work,
    state: State,
}

#[derive(Debug)]
enum Work {
    Chat {
        decoder: Box<dyn Decoder>,
        encoder: Box<dyn Encoder>,
    },
    Json {
        adapter: &'static dyn JsonAdapter,
        held: Vec<u8>,
        request: Option<Body>,
        model: String,
        /// Unix seconds.
        now: u64,
    },
    Patch(Patcher),
    ErrorResponse {
        translation: ErrorResponseTranslation,
        held: Vec<u8>,
    },
}

impl Rewriter {
    /// `id`: unique, for call ids of providers that have none.
    pub fn chat(decoder: Box<dyn Decoder>, encoder: Box<dyn Encoder>, id: &str) -> Self {
        Self { work: Work::Chat { decoder, encoder }, state: State::new(id) }
    }

    pub fn patch(patch: &'static dyn ResponsePatch, streamed: bool) -> Self {
        Self { work: Work::Patch(Patcher::new(patch, streamed)), state: State::default() }
    }

    pub fn error_response(translation: ErrorResponseTranslation) -> Self {
        Self { work: Work::ErrorResponse { translation, held: Vec::new() }, state: State::default() }
    }

    /// `now`: Unix seconds, for answers that must tell when they were made.
    pub fn json(adapter: &'static dyn JsonAdapter, request: Option<Body>, model: String, now: u64) -> Self {
        let work = Work::Json { adapter, held: Vec::new(), request, model, now };
        Self { work, state: State::default() }
    }

    /// Takes the next bytes of the provider's answer; what the caller gets for them goes to `out`.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let state = &mut self.state;
        match &mut self.work {
            _ if state.is_done() => {}
            Work::Chat { decoder, encoder } => {
                decoder.push(bytes, &mut |event| state.take(event, encoder.as_mut(), out));
            }
            Work::Json { held, .. } if held.len() + bytes.len() > MAX_HELD => {
                let error = ProviderError::unreadable("it is over 64 MiB");
                state.summary.error.clone_from(&error.code);
                state.error = Some(error);
                state.closed = true;
            }
            Work::Json { held, .. } => held.extend_from_slice(bytes),
            Work::Patch(patcher) => patcher.push(bytes, out),
            Work::ErrorResponse { held, .. } => {
                let room = MAX_ERROR_BODY.saturating_sub(held.len()).min(bytes.len());
                held.extend_from_slice(bytes.get(..room).unwrap_or_default());
            }
        }
    }

    /// The bytes are over: what was held back goes to `out`. An answer that was not complete gets no end
    /// here: see [`Rewriter::is_complete`] and [`Rewriter::fail`].
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let state = &mut self.state;
        match &mut self.work {
            _ if state.is_done() => {}
            Work::Chat { decoder, encoder } => {
                decoder.finish(&mut |event| state.take(event, encoder.as_mut(), out));
                // One that only stops coming, or says it is over without a reason, was cut.
                if !state.is_done() && state.summary.finish.is_some() {
                    encoder.close(out);
                    state.closed = true;
                }
            }
            Work::Json { adapter, held, request, model, now } => {
                state.closed = true;
                match adapter.read_at(held, request.as_ref(), model, *now) {
                    Ok(body) => {
                        state.summary.ended = true;
                        state.summary.content = true;
                        out.extend_from_slice(&body);
                    }
                    Err(error) => state.note_error(&error),
                }
            }
            Work::Patch(patcher) => {
                patcher.finish(out);
                state.closed = true;
            }
            Work::ErrorResponse { translation, held } => {
                let error = ProviderError::read(translation.status, held);
                match is_in_dialect(translation.dialect, held) {
                    true => out.append(held),
                    false => {
                        let body = error.body(
                            translation.dialect,
                            Some(translation.provider),
                            Some(&translation.trace_id),
                        );
                        out.extend_from_slice(&body);
                    }
                }
                state.note_error(&error);
                state.closed = true;
            }
        }
    }

    /// Ends a broken answer in the caller's words: a stream's error event, or a whole answer's error body.
    pub fn fail(&mut self, error: &ProviderError, out: &mut Vec<u8>) {
        if self.state.closed {
            return;
        }
        self.state.closed = true;
        if let Work::Chat { encoder, .. } = &mut self.work {
            encoder.fail(error, out);
        }
    }

    /// Whether the answer came to its end, or told why not.
    pub fn is_complete(&self) -> bool {
        self.state.closed
    }

    /// What the provider said went wrong inside its answer. In a stream it has been told to the caller, unless
    /// errors are [held](Rewriter::hold_errors).
    pub fn error(&self) -> Option<&ProviderError> {
        self.state.error.as_ref()
    }

    /// From now on it is known what the caller has been told ([`Rewriter::told`]). To be called before the first
    /// byte. Of answers that are not read as a chat nothing is kept.
    pub fn keep_transcript(&mut self) {
        if matches!(self.work, Work::Chat { .. }) {
            self.state.keep_transcript();
        }
    }

    /// What the caller has been told so far, where that is remembered.
    pub fn transcript(&self) -> Option<&Transcript> {
        self.state.transcript()
    }

    /// From now on an error the provider tells inside its answer is noted ([`Rewriter::fault`]) and not written,
    /// and the answer stays incomplete: another attempt may go on from it. [`Rewriter::fail`] writes it at last.
    pub fn hold_errors(&mut self) {
        self.state.holds_errors = true;
    }

    /// Goes on with another answer, read by `reader`, in the stream that was begun: what repeats the text told
    /// already is left out, see `rescue`. Errors are held from then on. May be called again when that answer
    /// breaks, too. Nothing to be done once the answer is complete.
    pub fn resume(&mut self, decoder: Box<dyn Decoder>, mode: ResumeMode) {
        if let Work::Chat { decoder: current, .. } = &mut self.work
            && !self.state.closed
        {
            *current = decoder;
            self.state.resume(mode);
        }
    }

    /// Whether the answer that was to go on in this stream does not fit what the caller has been told. Nothing of
    /// it is written any more.
    pub fn is_mismatch(&self) -> bool {
        self.state.mismatch
    }

    /// Whether the provider has said why it stopped: an answer that breaks off now is whole all the same.
    pub fn has_finish_reason(&self) -> bool {
        match &self.work {
            Work::Chat { decoder, .. } => self.state.summary.finish.is_some() || decoder.has_finish_reason(),
            _ => false,
        }
    }

    /// Gives the answer another writer, for one that has been written by somebody else so far.
    pub(super) fn set_encoder(&mut self, other: Box<dyn Encoder>) {
        if let Work::Chat { encoder, .. } = &mut self.work {
            *encoder = other;
        }
    }

    /// What the answer told, where the rewriter reads it: not of bodies that are only mended or exchanged
    /// (watch what comes out of those).
    pub fn summary(&self) -> Option<&ResponseSummary> {
        match self.work {
            Work::Chat { .. } | Work::ErrorResponse { .. } => Some(&self.state.summary),
            Work::Json { .. } | Work::Patch(_) => None,
        }
    }
}
