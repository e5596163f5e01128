//! What is known of one chat's answer, and what of it is written: the rules that hold for every provider.
//!
//! Not how a second answer is laid against the first: that is `rescue::aligner`'s.

use super::super::rescue::{Aligner, Alignment, ResumeMode, Transcript};
use crate::api::chat::{Encoder, Event, Finish, ProviderError};
use crate::api::tap::ResponseSummary;

/// What is known of the answer so far.
#[derive(Debug, Default)]
pub(super) struct State {
    pub learned: ResponseSummary,
    choices: Vec<Turn>,
    pub fault: Option<ProviderError>,
    /// Nothing more is written.
    pub closed: bool,
    /// An error of the provider is not written.
    pub holds: bool,
    /// Nothing more of this answer is written; another one may go on.
    broken: bool,
    pub misfit: bool,
    /// For call ids of providers that have none.
    id: String,
    /// Boxed: nearly all answers are not remembered, and this is moved about.
    told: Option<Box<Transcript>>,
    aligner: Option<Box<Aligner>>,
}

/// One choice's tool calls.
#[derive(Debug, Default)]
struct Turn {
    /// Indexes of calls that have no arguments yet.
    bare: Vec<u32>,
    called: bool,
}

impl State {
    pub fn new(id: &str) -> Self {
        Self { id: id.to_owned(), ..Self::default() }
    }

    pub fn remember(&mut self) {
        self.told.get_or_insert_default();
    }

    pub fn told(&self) -> Option<&Transcript> {
        self.told.as_deref()
    }

    /// Nothing more of the answer at hand is written.
    pub fn is_over(&self) -> bool {
        self.closed || self.broken
    }

    /// Another answer goes on. Who answered, figures and finish are its own; that something was told stays true.
    pub fn resume(&mut self, asked: ResumeMode) {
        let ResponseSummary { events, content, .. } = self.learned;
        self.learned = ResponseSummary { events, content, ..ResponseSummary::default() };
        self.fault = None;
        self.holds = true;
        // What was told is not known, or more than can be compared: no answer can be said to fit.
        self.misfit = !self.told().is_some_and(Transcript::can_resume);
        self.broken = self.misfit;
        self.aligner = self.told().map(|told| Box::new(Aligner::new(told, asked)));
    }

    pub fn take(&mut self, event: Event<'_>, writer: &mut dyn Encoder, out: &mut Vec<u8>) {
        if self.is_over() {
            return;
        }
        self.learned.events += 1;
        match &event {
            Event::Error(fault) => {
                self.note_fault(fault);
                match self.holds {
                    true => self.broken = true,
                    false => {
                        self.closed = true;
                        writer.fail(fault, out);
                    }
                }
                return;
            }
            Event::Start(start) if self.learned.model.is_none() => {
                self.learned.model = start.model.map(str::to_owned);
            }
            _ => {}
        }
        let verdict = match (&mut self.aligner, &self.told) {
            (Some(aligner), Some(told)) => aligner.check(&event, told),
            _ => Alignment::Pass,
        };
        match verdict {
            Alignment::Pass => self.pass(event, writer, out),
            Alignment::Skip => {}
            Alignment::Replace(event) => self.pass(event, writer, out),
            Alignment::Text(text) => self.pass(Event::Text { choice: 0, text: &text }, writer, out),
            Alignment::Before(text) => {
                self.pass(Event::Text { choice: 0, text: &text }, writer, out);
                self.pass(event, writer, out);
            }
            Alignment::Mismatch => {
                self.misfit = true;
                self.broken = true;
            }
        }
    }

    /// Takes an event that the caller is to know of.
    fn pass(&mut self, event: Event<'_>, writer: &mut dyn Encoder, out: &mut Vec<u8>) {
        match &event {
            Event::End => {
                self.learned.ended = true;
                if self.learned.finish.is_some() {
                    writer.close(out);
                    self.closed = true;
                }
                return;
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
        self.write(&event, writer, out);
    }

    fn write(&mut self, event: &Event<'_>, writer: &mut dyn Encoder, out: &mut Vec<u8>) {
        if let Some(told) = &mut self.told {
            told.take(event);
        }
        writer.write(event, out);
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

    fn call(&mut self, event: Event<'_>, writer: &mut dyn Encoder, out: &mut Vec<u8>) {
        let Event::ToolCall { choice, index, id, name, signature } = event else { return };
        self.learned.content = true;
        let turn = self.turn(choice);
        turn.called = true;
        turn.bare.push(index);
        if !id.is_empty() {
            return self.write(&event, writer, out);
        }
        let id = format!("call_{}_{choice}_{index}", self.id);
        self.write(&Event::ToolCall { choice, index, id: &id, name, signature }, writer, out);
    }

    fn end_turn(
        &mut self,
        (choice, reason, native): (u32, Finish, &str),
        writer: &mut dyn Encoder,
        out: &mut Vec<u8>,
    ) {
        let turn = self.turn(choice);
        let called = turn.called;
        for index in std::mem::take(&mut turn.bare) {
            self.write(&Event::Arguments { choice, index, fragment: "{}" }, writer, out);
        }
        let reason = if called && reason == Finish::Stop { Finish::ToolCalls } else { reason };
        self.learned.finish = Some(native.to_owned()).filter(|native| !native.is_empty());
        if self.learned.finish.is_none() {
            self.learned.finish = Some(reason.as_str().to_owned());
        }
        self.write(&Event::Finish { choice, reason, native }, writer, out);
    }

    pub fn note_fault(&mut self, fault: &ProviderError) {
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
