//! Aligns a second response with what the client got of the first: text that repeats it is skipped, text that
//! follows it is passed on, text that contradicts it is a mismatch. Pure; called once per event.
//!
//! Text is held back while it may still be either a repetition or a continuation. Held text is always a prefix of
//! what was sent, so only its length is kept.
//!
//! Example: the client has "Hello wor", and the second response was requested with it as a prefill.
//!
//! | second response | sent to the client | because |
//! |---|---|---|
//! | "Hel", "lo world" | "ld" | it repeats the sent text, then goes on |
//! | "ld" | "ld" | it differs at once: a continuation |
//! | "H", "i" | "Hi" | only one character was equal: a continuation, and the held "H" belongs to it |
//!
//! States; of several transitions the first one applies:
//!
//! ```text
//! Comparing --all sent text repeated--------------> Continuing
//! Comparing --differs, mode Restart---------------> Mismatch
//! Comparing --differs in trailing white space-----> Seam --new text--> Continuing
//! Comparing --differs after 16 characters or more-> Mismatch
//! Comparing --differs earlier---------------------> Seam
//! ```

use super::transcript::{Transcript, TranscriptCall};
use words::api::chat::Event;

/// The number of equal characters that make a text a repetition; fewer may be equal by chance ("The ").
const MIN_REPETITION: usize = 16;

/// How the second response was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResumeMode {
    /// With the sent text as a prefill: the response may continue it, or repeat it first.
    Continue,
    /// With the original request: only a response that repeats what was sent fits.
    Restart,
}

/// What to do with an event of the second response.
#[derive(Debug)]
pub(in crate::provider) enum Alignment<'e> {
    Pass,
    Skip,
    /// Send this event instead.
    Replace(Event<'e>),
    /// Send this text instead.
    Text(String),
    /// Send this text, then the event.
    Before(String),
    /// The second response does not fit the first.
    Mismatch,
}

/// Held text that must be sent first, if any.
type Settled = Result<Option<String>, Mismatch>;

/// The error form of [`Alignment::Mismatch`].
struct Mismatch;

/// Aligns one second response.
#[derive(Debug)]
pub(in crate::provider) struct Aligner {
    mode: ResumeMode,
    stage: Stage,
    /// Bytes of text sent before this response.
    sent_len: usize,
    sent_calls: Vec<SentCall>,
    /// Reasoning is skipped, because the client already got reasoning, text or calls.
    drops_reasoning: bool,
    /// The latest text was passed on unchanged.
    passed_verbatim: bool,
    /// The response is a continuation, so positions in its text do not count from the start of the whole text.
    positions_shifted: bool,
    finished: bool,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    /// The first `at` bytes of the sent text have been repeated.
    Comparing { at: usize },
    /// A continuation has started. White space at the end of the sent text, from `at` on, may be repeated, because
    /// the prefill is sent without it.
    Seam { at: usize },
    /// All further text is new.
    Continuing,
}

/// A tool call of which the client already got something.
#[derive(Debug)]
struct SentCall {
    index: u32,
    /// Bytes of arguments sent before this response.
    sent_len: usize,
    /// Bytes of them that have been repeated.
    matched: usize,
    appeared: bool,
}

impl Aligner {
    pub fn new(transcript: &Transcript, mode: ResumeMode) -> Self {
        let sent_len = transcript.text().len();
        let sent_call = |call: &TranscriptCall| SentCall {
            index: call.index,
            sent_len: call.arguments.len(),
            matched: 0,
            appeared: false,
        };
        Self {
            // A tool call cannot be continued: no prefill can hold part of one.
            mode: if transcript.calls().is_empty() { mode } else { ResumeMode::Restart },
            stage: if sent_len == 0 { Stage::Continuing } else { Stage::Comparing { at: 0 } },
            sent_len,
            sent_calls: transcript.calls().iter().map(sent_call).collect(),
            drops_reasoning: sent_len > 0 || transcript.has_reasoning() || !transcript.calls().is_empty(),
            passed_verbatim: sent_len == 0,
            positions_shifted: false,
            finished: false,
        }
    }

    pub fn check<'e>(&mut self, event: &Event<'e>, transcript: &Transcript) -> Alignment<'e> {
        match *event {
            Event::Start(_) => Alignment::Skip,
            Event::Text { choice: 0, text } => self.text(text, transcript),
            Event::Reasoning { choice: 0, .. }
            | Event::Signature { choice: 0, .. }
            | Event::Redacted { choice: 0, .. }
                if self.drops_reasoning =>
            {
                Alignment::Skip
            }
            Event::ToolCall { choice: 0, index, name, .. } => self.tool_call(index, name, transcript),
            Event::Arguments { choice: 0, index, fragment } => self.arguments(index, fragment, transcript),
            // A server-side tool call before the text. The first response had none, so the client gets none.
            Event::Block { choice: 0, .. } if matches!(self.stage, Stage::Comparing { .. }) => {
                Alignment::Skip
            }
            Event::Annotation { choice: 0, .. } if self.positions_shifted || !self.passed_verbatim => {
                Alignment::Skip
            }
            Event::Logprobs { choice: 0, .. } if !self.passed_verbatim => Alignment::Skip,
            Event::Finish { choice: 0, .. } => {
                self.finished = true;
                if self.calls_are_repeated(transcript) {
                    self.before(transcript)
                } else {
                    Alignment::Mismatch
                }
            }
            Event::End if !self.finished => self.before(transcript),
            Event::Refusal { choice: 0, .. } | Event::Media { choice: 0, .. } => self.before(transcript),
            Event::Reasoning { choice: 0, .. }
            | Event::Signature { choice: 0, .. }
            | Event::Redacted { choice: 0, .. }
            | Event::Block { choice: 0, .. }
            | Event::Annotation { choice: 0, .. }
            | Event::Logprobs { choice: 0, .. }
            | Event::Usage(_)
            | Event::Member { .. }
            | Event::Error(_)
            | Event::End => Alignment::Pass,
            // Another choice; the first response had only one.
            _ => Alignment::Skip,
        }
    }

    fn text<'e>(&mut self, text: &'e str, transcript: &Transcript) -> Alignment<'e> {
        self.passed_verbatim = false;
        match self.stage {
            // At this point the first response made its tool call, and it had no more text.
            Stage::Continuing if !self.calls_are_repeated(transcript) => Alignment::Mismatch,
            Stage::Continuing => {
                self.passed_verbatim = true;
                Alignment::Pass
            }
            Stage::Seam { at } => text_or_skip(self.skip_repeated_space(at, text, transcript)),
            Stage::Comparing { at } => {
                let same = common_prefix(self.sent_from(at, transcript), text);
                let at = at + same;
                let rest = text.get(same..).unwrap_or_default();
                self.stage = Stage::Comparing { at };
                match () {
                    () if at == self.sent_len => self.repeated(rest, transcript),
                    () if rest.is_empty() => Alignment::Skip,
                    () => self.diverges(at, rest, transcript),
                }
            }
        }
    }

    /// All of the sent text has been repeated.
    fn repeated<'e>(&mut self, rest: &'e str, transcript: &Transcript) -> Alignment<'e> {
        self.stage = Stage::Continuing;
        match rest {
            "" => Alignment::Skip,
            _ if !self.calls_are_repeated(transcript) => Alignment::Mismatch,
            text => Alignment::Replace(Event::Text { choice: 0, text }),
        }
    }

    /// The response differs from the sent text after `at` equal bytes.
    fn diverges<'e>(&mut self, at: usize, rest: &str, transcript: &Transcript) -> Alignment<'e> {
        if self.mode == ResumeMode::Restart {
            return Alignment::Mismatch;
        }
        if at >= len_without_trailing_space(self.sent_len, transcript) {
            // It repeated the prefill, which has no white space at its end.
            self.stage = Stage::Seam { at };
            return text_or_skip(self.skip_repeated_space(at, rest, transcript));
        }
        if is_repetition(at, transcript) {
            return Alignment::Mismatch;
        }
        let text = format!("{}{rest}", self.sent_until(at, transcript));
        text_or_skip(self.begin_continuation(&text, transcript))
    }

    /// The response is a continuation that starts with `text`; returns what to send of it.
    fn begin_continuation(&mut self, text: &str, transcript: &Transcript) -> String {
        self.positions_shifted = true;
        let seam = len_without_trailing_space(self.sent_len, transcript);
        self.stage = Stage::Seam { at: seam };
        self.skip_repeated_space(seam, text, transcript)
    }

    /// Removes the white space that the sent text already ends with from the start of a continuation.
    fn skip_repeated_space(&mut self, at: usize, text: &str, transcript: &Transcript) -> String {
        let same = common_prefix(self.sent_from(at, transcript), text);
        let rest = text.get(same..).unwrap_or_default();
        self.stage = if rest.is_empty() && at + same < self.sent_len {
            Stage::Seam { at: at + same }
        } else {
            Stage::Continuing
        };
        rest.to_owned()
    }

    /// Called before an event other than text, and at the end: decides whether the text so far fits.
    fn settle(&mut self, transcript: &Transcript) -> Settled {
        let Stage::Comparing { at } = self.stage else { return Ok(None) };
        if at >= len_without_trailing_space(self.sent_len, transcript) {
            self.stage = Stage::Continuing;
            return Ok(None);
        }
        if self.mode == ResumeMode::Restart || is_repetition(at, transcript) {
            return Err(Mismatch);
        }
        let text = self.sent_until(at, transcript).to_owned();
        Ok(Some(self.begin_continuation(&text, transcript)).filter(|text| !text.is_empty()))
    }

    /// Passes an event other than text, after held text.
    fn before<'e>(&mut self, transcript: &Transcript) -> Alignment<'e> {
        match self.settle(transcript) {
            Ok(None) => Alignment::Pass,
            Ok(Some(text)) => Alignment::Before(text),
            Err(Mismatch) => Alignment::Mismatch,
        }
    }

    fn tool_call<'e>(&mut self, index: u32, name: &str, transcript: &Transcript) -> Alignment<'e> {
        let Some(sent) = self.sent_calls.iter_mut().find(|call| call.index == index) else {
            return self.before(transcript);
        };
        sent.appeared = true;
        if transcript_call(index, transcript).is_some_and(|call| call.name == name) {
            Alignment::Skip
        } else {
            Alignment::Mismatch
        }
    }

    fn arguments<'e>(&mut self, index: u32, fragment: &'e str, transcript: &Transcript) -> Alignment<'e> {
        let Some(sent) = self.sent_calls.iter_mut().find(|call| call.index == index) else {
            return Alignment::Pass;
        };
        let expected = transcript_call(index, transcript)
            .and_then(|call| call.arguments.get(sent.matched..sent.sent_len));
        let same = common_prefix(expected.unwrap_or_default(), fragment);
        sent.matched += same;
        match fragment.get(same..).unwrap_or_default() {
            "" => Alignment::Skip,
            _ if sent.matched < sent.sent_len => Alignment::Mismatch,
            fragment => Alignment::Replace(Event::Arguments { choice: 0, index, fragment }),
        }
    }

    /// Whether every call that was sent has been repeated, as far as it was sent.
    fn calls_are_repeated(&self, transcript: &Transcript) -> bool {
        self.sent_calls.iter().all(|sent| {
            // For a call without arguments some providers send `{}`, others nothing.
            let is_bare =
                || transcript_call(sent.index, transcript).is_some_and(|call| call.arguments == "{}");
            sent.appeared && (sent.matched == sent.sent_len || (sent.matched == 0 && is_bare()))
        })
    }

    /// The text sent before this response, from byte `at` on.
    fn sent_from<'t>(&self, at: usize, transcript: &'t Transcript) -> &'t str {
        transcript.text().get(at..self.sent_len).unwrap_or_default()
    }

    fn sent_until<'t>(&self, at: usize, transcript: &'t Transcript) -> &'t str {
        transcript.text().get(..at).unwrap_or_default()
    }
}

fn text_or_skip<'e>(text: String) -> Alignment<'e> {
    if text.is_empty() { Alignment::Skip } else { Alignment::Text(text) }
}

fn transcript_call(index: u32, transcript: &Transcript) -> Option<&TranscriptCall> {
    transcript.calls().iter().find(|call| call.index == index)
}

/// Bytes of the sent text without trailing white space, which is the length of the prefill.
fn len_without_trailing_space(sent_len: usize, transcript: &Transcript) -> usize {
    transcript.text().get(..sent_len).unwrap_or_default().trim_end().len()
}

/// Whether `at` equal bytes are too many to be equal by chance.
fn is_repetition(at: usize, transcript: &Transcript) -> bool {
    transcript.text().get(..at).unwrap_or_default().chars().nth(MIN_REPETITION - 1).is_some()
}

/// The length of the common prefix of two texts in bytes, cut at a character boundary.
fn common_prefix(one: &str, other: &str) -> usize {
    let same = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    // Different characters may start with the same bytes.
    (0..=same).rev().find(|&at| one.is_char_boundary(at)).unwrap_or_default()
}
