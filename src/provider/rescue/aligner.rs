//! Lays a second answer against what the caller has been told of the first: what repeats it is left out, what
//! follows it is passed on, what contradicts it stops the answer. Pure; asked once for each event.
//!
//! Nothing is told that might still turn out to be wrong: as long as it is open whether the second answer begins
//! anew or goes on, its text waits. What waits is a prefix of what was told, so only its length is kept.

use super::told::{Told, ToldCall};
use crate::api::chat::Event;

/// From as many equal characters on, a text is taken for a repetition: fewer are equal by chance ("The ").
const SURE: usize = 16;

/// How the second answer was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// With the told text as a prefill: it may go on from there, or repeat it first.
    ToGoOn,
    /// As the first one was: only an answer that repeats what was told fits.
    ToBeginAnew,
}

/// What becomes of an event of the second answer.
#[derive(Debug)]
pub(in crate::provider) enum Verdict<'e> {
    Pass,
    Skip,
    /// This one goes in its place.
    Instead(Event<'e>),
    /// This text goes in its place.
    Text(String),
    /// This text goes first, then the event.
    Before(String),
    /// The answers do not fit.
    Misfit,
}

/// What waited and must be told first; nothing, most of the time.
type Settled = Result<Option<String>, Misfit>;

/// See [`Verdict::Misfit`].
struct Misfit;

/// One second answer on its way.
#[derive(Debug)]
pub(in crate::provider) struct Aligner {
    asked: Asked,
    stage: Stage,
    /// Bytes of text that were told before this answer.
    mark: usize,
    calls: Vec<Known>,
    /// Its thinking is of interest to nobody: the caller had some, or is past it.
    mute: bool,
    /// The text just told was passed on as it came.
    whole: bool,
    /// Positions in its text count from elsewhere.
    shifted: bool,
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
    Going,
}

/// A call the caller knows of.
#[derive(Debug)]
struct Known {
    index: u32,
    /// Bytes of arguments told before this answer.
    mark: usize,
    /// Bytes of them repeated.
    at: usize,
    seen: bool,
}

impl Aligner {
    pub fn new(told: &Told, asked: Asked) -> Self {
        let mark = told.text().len();
        let known =
            |call: &ToldCall| Known { index: call.index, mark: call.arguments.len(), at: 0, seen: false };
        Self {
            // A call under way cannot be gone on with: no prefill can hold half of one.
            asked: if told.calls().is_empty() { asked } else { Asked::ToBeginAnew },
            stage: if mark == 0 { Stage::Going } else { Stage::Comparing { at: 0 } },
            mark,
            calls: told.calls().iter().map(known).collect(),
            mute: mark > 0 || told.reasoned() || !told.calls().is_empty(),
            whole: mark == 0,
            shifted: false,
            finished: false,
        }
    }

    pub fn judge<'e>(&mut self, event: &Event<'e>, told: &Told) -> Verdict<'e> {
        match *event {
            Event::Start(_) => Verdict::Skip,
            Event::Text { choice: 0, text } => self.text(text, told),
            Event::Reasoning { choice: 0, .. }
            | Event::Signature { choice: 0, .. }
            | Event::Redacted { choice: 0, .. }
                if self.mute =>
            {
                Verdict::Skip
            }
            Event::ToolCall { choice: 0, index, name, .. } => self.call(index, name, told),
            Event::Arguments { choice: 0, index, fragment } => self.arguments(index, fragment, told),
            // What a provider's own tool did before it spoke; the caller does without it since the first answer.
            Event::Block { choice: 0, .. } if matches!(self.stage, Stage::Comparing { .. }) => Verdict::Skip,
            Event::Annotation { choice: 0, .. } if self.shifted || !self.whole => Verdict::Skip,
            Event::Logprobs { choice: 0, .. } if !self.whole => Verdict::Skip,
            Event::Finish { choice: 0, .. } => {
                self.finished = true;
                match self.calls_are_repeated(told) {
                    true => self.before(told),
                    false => Verdict::Misfit,
                }
            }
            Event::End if !self.finished => self.before(told),
            Event::Refusal { choice: 0, .. } | Event::Media { choice: 0, .. } => self.before(told),
            Event::Reasoning { choice: 0, .. }
            | Event::Signature { choice: 0, .. }
            | Event::Redacted { choice: 0, .. }
            | Event::Block { choice: 0, .. }
            | Event::Annotation { choice: 0, .. }
            | Event::Logprobs { choice: 0, .. }
            | Event::Usage(_)
            | Event::Member { .. }
            | Event::Error(_)
            | Event::End => Verdict::Pass,
            // Another choice: the first answer had none.
            _ => Verdict::Skip,
        }
    }

    fn text<'e>(&mut self, text: &'e str, told: &Told) -> Verdict<'e> {
        self.whole = false;
        match self.stage {
            // The first answer made its call here and said no more.
            Stage::Going if !self.calls_are_repeated(told) => Verdict::Misfit,
            Stage::Going => {
                self.whole = true;
                Verdict::Pass
            }
            Stage::Seam { at } => said(self.over_the_seam(at, text, told)),
            Stage::Comparing { at } => {
                let same = equal(self.told_from(at, told), text);
                let (at, rest) = (at + same, text.get(same..).unwrap_or_default());
                self.stage = Stage::Comparing { at };
                match () {
                    () if at == self.mark => self.repeated(rest, told),
                    () if rest.is_empty() => Verdict::Skip,
                    () => self.differs(at, rest, told),
                }
            }
        }
    }

    /// All that was told has come again.
    fn repeated<'e>(&mut self, rest: &'e str, told: &Told) -> Verdict<'e> {
        self.stage = Stage::Going;
        match rest {
            "" => Verdict::Skip,
            _ if !self.calls_are_repeated(told) => Verdict::Misfit,
            text => Verdict::Instead(Event::Text { choice: 0, text }),
        }
    }

    /// After `at` equal bytes comes something else.
    fn differs<'e>(&mut self, at: usize, rest: &str, told: &Told) -> Verdict<'e> {
        if self.asked == Asked::ToBeginAnew {
            return Verdict::Misfit;
        }
        if at >= told_until_space(self.mark, told) {
            // It repeated its prefill, which had no white space at its end.
            self.stage = Stage::Seam { at };
            return said(self.over_the_seam(at, rest, told));
        }
        if is_sure(at, told) {
            return Verdict::Misfit;
        }
        let text = format!("{}{rest}", self.told_until(at, told));
        said(self.go_on(&text, told))
    }

    /// It is a continuation, and `text` is how it begins.
    fn go_on(&mut self, text: &str, told: &Told) -> String {
        self.shifted = true;
        let seam = told_until_space(self.mark, told);
        self.stage = Stage::Seam { at: seam };
        self.over_the_seam(seam, text, told)
    }

    fn over_the_seam(&mut self, at: usize, text: &str, told: &Told) -> String {
        let same = equal(self.told_from(at, told), text);
        let rest = text.get(same..).unwrap_or_default();
        self.stage = match rest.is_empty() && at + same < self.mark {
            true => Stage::Seam { at: at + same },
            false => Stage::Going,
        };
        rest.to_owned()
    }

    /// Something other than text comes, or the end: is the text told so far at one with what was told?
    fn settle(&mut self, told: &Told) -> Settled {
        let Stage::Comparing { at } = self.stage else { return Ok(None) };
        if at >= told_until_space(self.mark, told) {
            self.stage = Stage::Going;
            return Ok(None);
        }
        if self.asked == Asked::ToBeginAnew || is_sure(at, told) {
            return Err(Misfit);
        }
        let text = self.told_until(at, told).to_owned();
        Ok(Some(self.go_on(&text, told)).filter(|text| !text.is_empty()))
    }

    fn before<'e>(&mut self, told: &Told) -> Verdict<'e> {
        match self.settle(told) {
            Ok(None) => Verdict::Pass,
            Ok(Some(text)) => Verdict::Before(text),
            Err(Misfit) => Verdict::Misfit,
        }
    }

    fn call<'e>(&mut self, index: u32, name: &str, told: &Told) -> Verdict<'e> {
        let Some(known) = self.calls.iter_mut().find(|call| call.index == index) else {
            return self.before(told);
        };
        known.seen = true;
        match told_call(index, told).is_some_and(|call| call.name == name) {
            true => Verdict::Skip,
            false => Verdict::Misfit,
        }
    }

    fn arguments<'e>(&mut self, index: u32, fragment: &'e str, told: &Told) -> Verdict<'e> {
        let Some(known) = self.calls.iter_mut().find(|call| call.index == index) else {
            return Verdict::Pass;
        };
        let wanted = told_call(index, told).and_then(|call| call.arguments.get(known.at..known.mark));
        let same = equal(wanted.unwrap_or_default(), fragment);
        known.at += same;
        match fragment.get(same..).unwrap_or_default() {
            "" => Verdict::Skip,
            _ if known.at < known.mark => Verdict::Misfit,
            fragment => Verdict::Instead(Event::Arguments { choice: 0, index, fragment }),
        }
    }

    /// Whether every call that was told has come again, as far as it was told.
    fn calls_are_repeated(&self, told: &Told) -> bool {
        self.calls.iter().all(|known| {
            // A call without arguments: one provider says `{}`, another nothing.
            let is_bare = || told_call(known.index, told).is_some_and(|call| call.arguments == "{}");
            known.seen && (known.at == known.mark || (known.at == 0 && is_bare()))
        })
    }

    /// What was told before this answer, from a byte on.
    fn told_from<'t>(&self, at: usize, told: &'t Told) -> &'t str {
        told.text().get(at..self.mark).unwrap_or_default()
    }

    fn told_until<'t>(&self, at: usize, told: &'t Told) -> &'t str {
        told.text().get(..at).unwrap_or_default()
    }
}

fn said<'e>(text: String) -> Verdict<'e> {
    if text.is_empty() { Verdict::Skip } else { Verdict::Text(text) }
}

fn told_call(index: u32, told: &Told) -> Option<&ToldCall> {
    told.calls().iter().find(|call| call.index == index)
}

/// Bytes of what was told, without the white space at its end: what goes out as a prefill.
fn told_until_space(mark: usize, told: &Told) -> usize {
    told.text().get(..mark).unwrap_or_default().trim_end().len()
}

fn is_sure(at: usize, told: &Told) -> bool {
    told.text().get(..at).unwrap_or_default().chars().nth(SURE - 1).is_some()
}

/// How many bytes two texts have in common at their beginning: whole characters.
fn equal(one: &str, other: &str) -> usize {
    let same = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    // Two characters may begin with the same bytes.
    (0..=same).rev().find(|&at| one.is_char_boundary(at)).unwrap_or_default()
}
