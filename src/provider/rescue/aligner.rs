//! Lays a second answer against what the caller has been told of the first: what repeats it is left out, what
//! follows it is passed on, what contradicts it stops the answer. Pure; asked once for each event.
//!
//! Nothing is told that might still turn out to be wrong: as long as it is open whether the second answer begins
//! anew or goes on, its text waits. What waits is a prefix of what was told, so only its length is kept.

use super::transcript::{Transcript, TranscriptCall};
use crate::api::chat::Event;

/// From as many equal characters on, a text is taken for a repetition: fewer are equal by chance ("The ").
const MIN_REPETITION: usize = 16;

/// How the second answer was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResumeMode {
    /// With the told text as a prefill: it may go on from there, or repeat it first.
    Continue,
    /// As the first one was: only an answer that repeats what was told fits.
    Restart,
}

/// What becomes of an event of the second answer.
#[derive(Debug)]
pub(in crate::provider) enum Alignment<'e> {
    Pass,
    Skip,
    /// This one goes in its place.
    Replace(Event<'e>),
    /// This text goes in its place.
    Text(String),
    /// This text goes first, then the event.
    Before(String),
    /// The answers do not fit.
    Mismatch,
}

/// What waited and must be told first; nothing, most of the time.
type Settled = Result<Option<String>, Mismatch>;

/// See [`Verdict::Misfit`].
struct Mismatch;

/// One second answer on its way.
#[derive(Debug)]
pub(in crate::provider) struct Aligner {
    mode: ResumeMode,
    stage: Stage,
    /// Bytes of text that were told before this answer.
    sent_len: usize,
    sent_calls: Vec<SentCall>,
    /// Its thinking is of interest to nobody: the caller had some, or is past it.
    drops_reasoning: bool,
    /// The text just told was passed on as it came.
    passed_verbatim: bool,
    /// Positions in its text count from elsewhere.
    positions_shifted: bool,
    finished: bool,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    /// The first `at` bytes of what was told have been repeated.
    Comparing { at: usize },
    /// It goes on; the white space at the end of what was told, from `at` on, may come once more: a prefill goes
    /// out without it.
    Seam { at: usize },
    /// What comes is new.
    Continuing,
}

/// A call the caller knows of.
#[derive(Debug)]
struct SentCall {
    index: u32,
    /// Bytes of arguments told before this answer.
    sent_len: usize,
    /// Bytes of them repeated.
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
            // A call under way cannot be gone on with: no prefill can hold half of one.
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
            // What a provider's own tool did before it spoke; the caller does without it since the first answer.
            Event::Block { choice: 0, .. } if matches!(self.stage, Stage::Comparing { .. }) => {
                Alignment::Skip
            }
            Event::Annotation { choice: 0, .. } if self.positions_shifted || !self.passed_verbatim => {
                Alignment::Skip
            }
            Event::Logprobs { choice: 0, .. } if !self.passed_verbatim => Alignment::Skip,
            Event::Finish { choice: 0, .. } => {
                self.finished = true;
                match self.calls_are_repeated(transcript) {
                    true => self.before(transcript),
                    false => Alignment::Mismatch,
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
            // Another choice: the first answer had none.
            _ => Alignment::Skip,
        }
    }

    fn text<'e>(&mut self, text: &'e str, transcript: &Transcript) -> Alignment<'e> {
        self.passed_verbatim = false;
        match self.stage {
            // The first answer made its call here and said no more.
            Stage::Continuing if !self.calls_are_repeated(transcript) => Alignment::Mismatch,
            Stage::Continuing => {
                self.passed_verbatim = true;
                Alignment::Pass
            }
            Stage::Seam { at } => text_or_skip(self.skip_repeated_space(at, text, transcript)),
            Stage::Comparing { at } => {
                let same = equal(self.sent_from(at, transcript), text);
                let (at, rest) = (at + same, text.get(same..).unwrap_or_default());
                self.stage = Stage::Comparing { at };
                match () {
                    () if at == self.sent_len => self.repeated(rest, transcript),
                    () if rest.is_empty() => Alignment::Skip,
                    () => self.diverges(at, rest, transcript),
                }
            }
        }
    }

    /// All that was told has come again.
    fn repeated<'e>(&mut self, rest: &'e str, transcript: &Transcript) -> Alignment<'e> {
        self.stage = Stage::Continuing;
        match rest {
            "" => Alignment::Skip,
            _ if !self.calls_are_repeated(transcript) => Alignment::Mismatch,
            text => Alignment::Replace(Event::Text { choice: 0, text }),
        }
    }

    /// After `at` equal bytes comes something else.
    fn diverges<'e>(&mut self, at: usize, rest: &str, transcript: &Transcript) -> Alignment<'e> {
        if self.mode == ResumeMode::Restart {
            return Alignment::Mismatch;
        }
        if at >= len_without_trailing_space(self.sent_len, transcript) {
            // It repeated its prefill, which had no white space at its end.
            self.stage = Stage::Seam { at };
            return text_or_skip(self.skip_repeated_space(at, rest, transcript));
        }
        if is_repetition(at, transcript) {
            return Alignment::Mismatch;
        }
        let text = format!("{}{rest}", self.sent_until(at, transcript));
        text_or_skip(self.begin_continuation(&text, transcript))
    }

    /// It is a continuation, and `text` is how it begins.
    fn begin_continuation(&mut self, text: &str, transcript: &Transcript) -> String {
        self.positions_shifted = true;
        let seam = len_without_trailing_space(self.sent_len, transcript);
        self.stage = Stage::Seam { at: seam };
        self.skip_repeated_space(seam, text, transcript)
    }

    fn skip_repeated_space(&mut self, at: usize, text: &str, transcript: &Transcript) -> String {
        let same = equal(self.sent_from(at, transcript), text);
        let rest = text.get(same..).unwrap_or_default();
        self.stage = match rest.is_empty() && at + same < self.sent_len {
            true => Stage::Seam { at: at + same },
            false => Stage::Continuing,
        };
        rest.to_owned()
    }

    /// Something other than text comes, or the end: is the text told so far at one with what was told?
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
        match transcript_call(index, transcript).is_some_and(|call| call.name == name) {
            true => Alignment::Skip,
            false => Alignment::Mismatch,
        }
    }

    fn arguments<'e>(&mut self, index: u32, fragment: &'e str, transcript: &Transcript) -> Alignment<'e> {
        let Some(sent) = self.sent_calls.iter_mut().find(|call| call.index == index) else {
            return Alignment::Pass;
        };
        let expected = transcript_call(index, transcript)
            .and_then(|call| call.arguments.get(sent.matched..sent.sent_len));
        let same = equal(expected.unwrap_or_default(), fragment);
        sent.matched += same;
        match fragment.get(same..).unwrap_or_default() {
            "" => Alignment::Skip,
            _ if sent.matched < sent.sent_len => Alignment::Mismatch,
            fragment => Alignment::Replace(Event::Arguments { choice: 0, index, fragment }),
        }
    }

    /// Whether every call that was told has come again, as far as it was told.
    fn calls_are_repeated(&self, transcript: &Transcript) -> bool {
        self.sent_calls.iter().all(|sent| {
            // A call without arguments: one provider says `{}`, another nothing.
            let is_bare =
                || transcript_call(sent.index, transcript).is_some_and(|call| call.arguments == "{}");
            sent.appeared && (sent.matched == sent.sent_len || (sent.matched == 0 && is_bare()))
        })
    }

    /// What was told before this answer, from a byte on.
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

/// Bytes of what was told, without the white space at its end: what goes out as a prefill.
fn len_without_trailing_space(sent_len: usize, transcript: &Transcript) -> usize {
    transcript.text().get(..sent_len).unwrap_or_default().trim_end().len()
}

fn is_repetition(at: usize, transcript: &Transcript) -> bool {
    transcript.text().get(..at).unwrap_or_default().chars().nth(MIN_REPETITION - 1).is_some()
}

/// How many bytes two texts have in common at their beginning: whole characters.
fn equal(one: &str, other: &str) -> usize {
    let same = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    // Two characters may begin with the same bytes.
    (0..=same).rev().find(|&at| one.is_char_boundary(at)).unwrap_or_default()
}
