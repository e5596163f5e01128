//! One answer on its way from a provider's words to the caller's: bytes in, bytes out.
//!
//! Made per answer, holds its state, knows no session. What holds for every provider is done here and not
//! in the readers: a turn with tool calls finishes with `tool_calls`, a call without arguments gets `{}`, a
//! call without an id gets one, and an answer that only stops coming is not complete.

use super::mending::Mending;
use super::way::{Exchange, Mend};
use crate::api::Dialect;
use crate::api::body::Body;
use crate::api::chat::{Event, Fault, Finish, Reader, Text, Writer};
use crate::api::tap::Learned;
use serde::Deserialize;

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
        reader: Box<dyn Reader>,
        writer: Box<dyn Writer>,
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

/// An answer with a failing status: its words are kept, its shape becomes the caller's where it is not.
#[derive(Debug, Clone)]
pub struct Refusal {
    pub status: u16,
    pub dialect: Dialect,
    pub provider: &'static str,
    pub trace_id: String,
}

/// The largest error body read, bytes.
const MOST_REFUSAL: usize = 1 << 20;

/// What is known of the answer so far.
#[derive(Debug, Default)]
struct State {
    learned: Learned,
    choices: Vec<Turn>,
    fault: Option<Fault>,
    /// Nothing more is written.
    closed: bool,
    /// For call ids of providers that have none.
    id: String,
}

/// One choice's tool calls.
#[derive(Debug, Default)]
struct Turn {
    /// Indexes of calls that have no arguments yet.
    bare: Vec<u32>,
    called: bool,
}

impl Rewriter {
    /// `id`: unique, for call ids of providers that have none.
    pub fn chat(reader: Box<dyn Reader>, writer: Box<dyn Writer>, id: &str) -> Self {
        let state = State { id: id.to_owned(), ..State::default() };
        Self { work: Work::Chat { reader, writer }, state }
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
            _ if state.closed => {}
            Work::Chat { reader, writer } => {
                reader.push(bytes, &mut |event| state.take(event, writer.as_mut(), out));
            }
            Work::Exchange { held, .. } if held.len() + bytes.len() > MOST_HELD => {
                let fault = Fault::unreadable("it is over 64 MiB");
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
            _ if state.closed => {}
            Work::Chat { reader, writer } => {
                reader.finish(&mut |event| state.take(event, writer.as_mut(), out));
                if !state.closed && state.learned.is_complete() {
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
                let fault = Fault::read(refusal.status, held);
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
    pub fn fail(&mut self, fault: &Fault, out: &mut Vec<u8>) {
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

    /// What the provider said went wrong inside its answer. In a stream it has been told to the caller.
    pub fn fault(&self) -> Option<&Fault> {
        self.state.fault.as_ref()
    }

    /// What the answer told, where the rewriter reads it: not of bodies that are only mended or exchanged
    /// (watch what comes out of those).
    pub fn learned(&self) -> Option<&Learned> {
        match self.work {
            Work::Chat { .. } | Work::Refused { .. } => Some(&self.state.learned),
            Work::Exchange { .. } | Work::Mend(_) => None,
        }
    }
}

/// Whether an error body is in the caller's dialect already.
fn is_in(dialect: Dialect, body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Outer<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<Text<'a>>,
        error: Option<Inner<'a>>,
    }
    #[derive(Deserialize)]
    struct Inner<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<Text<'a>>,
        message: Option<Text<'a>>,
        /// Google's, which has a message as OpenAI's has, and else nothing of it.
        status: Option<Text<'a>>,
    }
    let Ok(outer) = serde_json::from_slice::<Outer<'_>>(body) else { return false };
    let Some(error) = outer.error else { return false };
    match dialect {
        Dialect::OpenAi | Dialect::Responses => {
            error.message.is_some() && outer.kind.is_none() && error.status.is_none()
        }
        Dialect::Anthropic => {
            outer.kind.as_deref() == Some("error") && error.message.is_some() && error.kind.is_some()
        }
    }
}

impl State {
    fn take(&mut self, event: Event<'_>, writer: &mut dyn Writer, out: &mut Vec<u8>) {
        if self.closed {
            return;
        }
        self.learned.events += 1;
        match &event {
            Event::Error(fault) => {
                self.note_fault(fault);
                self.closed = true;
                return writer.fail(fault, out);
            }
            Event::End => {
                self.learned.ended = true;
                if self.learned.finish.is_some() {
                    writer.close(out);
                    self.closed = true;
                }
                return;
            }
            Event::Start(start) if self.learned.model.is_none() => {
                self.learned.model = start.model.map(str::to_owned);
            }
            Event::Usage(usage) => self.learned.usage = Some(*usage),
            Event::ToolCall { .. } => return self.call(event, writer, out),
            Event::Arguments { choice, index, fragment } if !fragment.is_empty() => {
                self.turn(*choice).bare.retain(|bare| bare != index);
            }
            Event::Finish { choice, reason, native } => {
                return self.end_turn((*choice, *reason, native), writer, out);
            }
            _ => {}
        }
        self.learned.content |= is_content(&event);
        writer.write(&event, out);
    }

    fn turn(&mut self, choice: u32) -> &mut Turn {
        // Beyond this many choices all share one: nobody has them.
        let at = (choice as usize).min(127);
        if self.choices.len() <= at {
            self.choices.resize_with(at + 1, Turn::default);
        }
        #[expect(clippy::indexing_slicing, reason = "made just above")]
        &mut self.choices[at]
    }

    fn call(&mut self, event: Event<'_>, writer: &mut dyn Writer, out: &mut Vec<u8>) {
        let Event::ToolCall { choice, index, id, name, signature } = event else { return };
        self.learned.content = true;
        let turn = self.turn(choice);
        turn.called = true;
        turn.bare.push(index);
        if !id.is_empty() {
            return writer.write(&event, out);
        }
        let id = format!("call_{}_{choice}_{index}", self.id);
        writer.write(&Event::ToolCall { choice, index, id: &id, name, signature }, out);
    }

    fn end_turn(
        &mut self,
        (choice, reason, native): (u32, Finish, &str),
        writer: &mut dyn Writer,
        out: &mut Vec<u8>,
    ) {
        let turn = self.turn(choice);
        let called = turn.called;
        for index in std::mem::take(&mut turn.bare) {
            writer.write(&Event::Arguments { choice, index, fragment: "{}" }, out);
        }
        let reason = if called && reason == Finish::Stop { Finish::ToolCalls } else { reason };
        self.learned.finish = Some(native.to_owned()).filter(|native| !native.is_empty());
        if self.learned.finish.is_none() {
            self.learned.finish = Some(reason.word().to_owned());
        }
        writer.write(&Event::Finish { choice, reason, native }, out);
    }

    fn note_fault(&mut self, fault: &Fault) {
        let word = fault.code.as_deref().unwrap_or_else(|| fault.openai_kind());
        self.learned.error = Some(word.to_owned());
        self.fault = Some(fault.clone());
    }
}

fn is_content(event: &Event<'_>) -> bool {
    match event {
        Event::Text { text, .. } | Event::Refusal { text, .. } | Event::Reasoning { text, .. } => {
            !text.is_empty()
        }
        Event::Arguments { .. } | Event::Media { .. } | Event::Block { .. } | Event::Redacted { .. } => true,
        _ => false,
    }
}
