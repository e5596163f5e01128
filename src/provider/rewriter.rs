//! One answer on its way from a provider's words to the caller's: bytes in, bytes out.
//!
//! Made per answer, holds its state, knows no session. What holds for every provider is done here and not
//! in the readers: a turn with tool calls finishes with `tool_calls`, a call without arguments gets `{}`, a
//! call without an id gets one, and an answer that only stops coming is not complete.

mod refusal;
mod state;

pub use refusal::Refusal;

use super::mending::Mending;
use super::rescue::{ResumeMode, Transcript};
use super::way::{Exchange, Mend};
use crate::api::body::Body;
use crate::api::chat::{Decoder, Encoder, ProviderError};
use crate::api::tap::ResponseSummary;
use refusal::{MOST_REFUSAL, is_in};
use state::State;

/// The largest whole answer held, bytes: some carry pictures.
const MOST_HELD: usize = 64 << 20;

/// One answer's translation.
#[derive(Debug)]
pub struct Rewriter {
    work: Work,
    state: State,
}

#[derive(Debug)]
enum Work {
    Chat {
        reader: Box<dyn Decoder>,
        writer: Box<dyn Encoder>,
    },
    Exchange {
        exchange: &'static dyn Exchange,
        held: Vec<u8>,
        request: Option<Body>,
        model: String,
        /// Unix seconds.
        now: u64,
    },
    Mend(Mending),
    Refused {
        refusal: Refusal,
        held: Vec<u8>,
    },
}

impl Rewriter {
    /// `id`: unique, for call ids of providers that have none.
    pub fn chat(reader: Box<dyn Decoder>, writer: Box<dyn Encoder>, id: &str) -> Self {
        Self { work: Work::Chat { reader, writer }, state: State::new(id) }
    }

    pub fn mend(mend: &'static dyn Mend, streamed: bool) -> Self {
        Self { work: Work::Mend(Mending::new(mend, streamed)), state: State::default() }
    }

    pub fn refused(refusal: Refusal) -> Self {
        Self { work: Work::Refused { refusal, held: Vec::new() }, state: State::default() }
    }

    /// `now`: Unix seconds, for answers that must tell when they were made.
    pub fn exchange(exchange: &'static dyn Exchange, request: Option<Body>, model: String, now: u64) -> Self {
        let work = Work::Exchange { exchange, held: Vec::new(), request, model, now };
        Self { work, state: State::default() }
    }

    /// Takes the next bytes of the provider's answer; what the caller gets for them goes to `out`.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let state = &mut self.state;
        match &mut self.work {
            _ if state.is_over() => {}
            Work::Chat { reader, writer } => {
                reader.push(bytes, &mut |event| state.take(event, writer.as_mut(), out));
            }
            Work::Exchange { held, .. } if held.len() + bytes.len() > MOST_HELD => {
                let fault = ProviderError::unreadable("it is over 64 MiB");
                state.learned.error.clone_from(&fault.code);
                state.fault = Some(fault);
                state.closed = true;
            }
            Work::Exchange { held, .. } => held.extend_from_slice(bytes),
            Work::Mend(mending) => mending.push(bytes, out),
            Work::Refused { held, .. } => {
                let room = MOST_REFUSAL.saturating_sub(held.len()).min(bytes.len());
                held.extend_from_slice(bytes.get(..room).unwrap_or_default());
            }
        }
    }

    /// The bytes are over: what was held back goes to `out`. An answer that was not complete gets no end
    /// here: see [`Rewriter::is_complete`] and [`Rewriter::fail`].
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let state = &mut self.state;
        match &mut self.work {
            _ if state.is_over() => {}
            Work::Chat { reader, writer } => {
                reader.finish(&mut |event| state.take(event, writer.as_mut(), out));
                // One that only stops coming, or says it is over without a reason, was cut.
                if !state.is_over() && state.learned.finish.is_some() {
                    writer.close(out);
                    state.closed = true;
                }
            }
            Work::Exchange { exchange, held, request, model, now } => {
                state.closed = true;
                match exchange.read_at(held, request.as_ref(), model, *now) {
                    Ok(body) => {
                        state.learned.ended = true;
                        state.learned.content = true;
                        out.extend_from_slice(&body);
                    }
                    Err(fault) => state.note_fault(&fault),
                }
            }
            Work::Mend(mending) => {
                mending.finish(out);
                state.closed = true;
            }
            Work::Refused { refusal, held } => {
                let fault = ProviderError::read(refusal.status, held);
                match is_in(refusal.dialect, held) {
                    true => out.append(held),
                    false => {
                        let body =
                            fault.body(refusal.dialect, Some(refusal.provider), Some(&refusal.trace_id));
                        out.extend_from_slice(&body);
                    }
                }
                state.note_fault(&fault);
                state.closed = true;
            }
        }
    }

    /// Ends a broken answer in the caller's words: a stream's error event, or a whole answer's error body.
    pub fn fail(&mut self, fault: &ProviderError, out: &mut Vec<u8>) {
        if self.state.closed {
            return;
        }
        self.state.closed = true;
        if let Work::Chat { writer, .. } = &mut self.work {
            writer.fail(fault, out);
        }
    }

    /// Whether the answer came to its end, or told why not.
    pub fn is_complete(&self) -> bool {
        self.state.closed
    }

    /// What the provider said went wrong inside its answer. In a stream it has been told to the caller, unless
    /// errors are [held](Rewriter::hold_errors).
    pub fn error(&self) -> Option<&ProviderError> {
        self.state.fault.as_ref()
    }

    /// From now on it is known what the caller has been told ([`Rewriter::told`]). To be called before the first
    /// byte. Of answers that are not read as a chat nothing is kept.
    pub fn remember(&mut self) {
        if matches!(self.work, Work::Chat { .. }) {
            self.state.remember();
        }
    }

    /// What the caller has been told so far, where that is remembered.
    pub fn told(&self) -> Option<&Transcript> {
        self.state.told()
    }

    /// From now on an error the provider tells inside its answer is noted ([`Rewriter::fault`]) and not written,
    /// and the answer stays incomplete: another attempt may go on from it. [`Rewriter::fail`] writes it at last.
    pub fn hold_errors(&mut self) {
        self.state.holds = true;
    }

    /// Goes on with another answer, read by `reader`, in the stream that was begun: what repeats the text told
    /// already is left out, see `rescue`. Errors are held from then on. May be called again when that answer
    /// breaks, too. Nothing to be done once the answer is complete.
    pub fn resume(&mut self, reader: Box<dyn Decoder>, asked: ResumeMode) {
        if let Work::Chat { reader: first, .. } = &mut self.work
            && !self.state.closed
        {
            *first = reader;
            self.state.resume(asked);
        }
    }

    /// Whether the answer that was to go on in this stream does not fit what the caller has been told. Nothing of
    /// it is written any more.
    pub fn misfit(&self) -> bool {
        self.state.misfit
    }

    /// Whether the provider has said why it stopped: an answer that breaks off now is whole all the same.
    pub fn knows_finish(&self) -> bool {
        match &self.work {
            Work::Chat { reader, .. } => self.state.learned.finish.is_some() || reader.has_finish_reason(),
            _ => false,
        }
    }

    /// Gives the answer another writer, for one that has been written by somebody else so far.
    pub(super) fn write_with(&mut self, other: Box<dyn Encoder>) {
        if let Work::Chat { writer, .. } = &mut self.work {
            *writer = other;
        }
    }

    /// What the answer told, where the rewriter reads it: not of bodies that are only mended or exchanged
    /// (watch what comes out of those).
    pub fn learned(&self) -> Option<&ResponseSummary> {
        match self.work {
            Work::Chat { .. } | Work::Refused { .. } => Some(&self.state.learned),
            Work::Exchange { .. } | Work::Mend(_) => None,
        }
    }
}
