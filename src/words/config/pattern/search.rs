//! Matches of a pattern in a text of any length: where they are, not only whether there is one.
//!
//! Two tables: one reads the text from its end and marks every position where a match begins, the other reads on from such a
//! position and finds where the match ends that a backtracking engine would find. So one match costs two looks for each byte.
//! Where the first table would be too large, a pattern's ordinary table says whether there is a match, and each position is
//! tried. A text that lacks what every match has (`required`) is read by none of them.
//!
//! What could take more than linear time is to find *all* matches of a pattern such as `a.*b|a`, where the second table reads
//! far behind each match. The steps are counted: see [`Searcher::all`].
//!
//! Measured with the worst patterns and texts of the tests, on one core: at most 0.6 ms for all matches in 16 KiB, 0.1 ms for the
//! first one (a release build); 20 ms for making the tables of a pattern, and 4 bytes a step.

use super::builder::{self, Purpose};
use super::required::Required;
use super::table::Table;
use super::{Fuel, PatternBudget, Refusal, nfa, reversed_nfa, syntax};
use regex_automata::nfa::thompson::WhichCaptures;
use regex_automata::nfa::thompson::pikevm::PikeVM;
use regex_automata::util::primitives::{NonMaxUsize, PatternID};
use regex_automata::{Anchored, Input};
use regex_syntax::hir::Hir;
use std::fmt;
use std::ops::{ControlFlow, Range};

/// Up to so many steps the table that marks is made, even where the other one takes fewer.
const CHEAP_STEPS: usize = 200_000;
/// How many bytes are read for each byte of a text in which all matches are looked for.
const STEPS_A_BYTE: usize = 16;
/// The same for short texts, of a whole one.
const MIN_STEPS: usize = 16 << 10;
/// How many states of its automaton a pattern may be in at all bytes of a match together, for its groups to be found. Each
/// takes up to 10 ns.
const MAX_GROUP_STEPS: usize = 100_000;

/// A pattern that finds places.
pub struct Searcher {
    /// A text without these has no match.
    required: Option<Required>,
    begins: Begins,
    ends: Table,
    /// Finds the groups of a match; `None` where the pattern has none.
    groups: Option<PikeVM>,
    hir: Hir,
}

/// A group of a match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group<'s> {
    pub name: Option<&'s str>,
    /// `None`: it is no part of the match.
    pub range: Option<Range<usize>>,
}

/// How places are found where a match may begin.
enum Begins {
    Marked(Table),
    /// At any place, if this table finds that there is a match.
    Tried(Table),
}

impl Searcher {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// As [`super::Pattern::compile`].
    pub fn compile(text: &str, budget: &PatternBudget) -> Result<Self, String> {
        budget.spend(text, |fuel| Self::build(text, fuel))
    }

    fn build(text: &str, fuel: &mut Fuel) -> Result<Self, Refusal> {
        let hir = syntax::parse(text, fuel)?;
        let forwards = nfa(&hir, WhichCaptures::None, fuel)?;
        let groups = groups(&hir, fuel)?;
        let ends = builder::build(&forwards, Purpose::Ends, fuel)?;
        let marked = |most: usize, fuel: &mut Fuel| {
            fuel.lend(most, |fuel| builder::build(&reversed_nfa(&hir, fuel)?, Purpose::Starts, fuel))
                .map(Begins::Marked)
        };
        let begins = match marked(CHEAP_STEPS, fuel) {
            Err(Refusal::TooLarge) => {
                let half = fuel.0 / 2;
                let exists = fuel.lend(half, |fuel| builder::build(&forwards, Purpose::Exists, fuel));
                exists.map(Begins::Tried).or_else(|_| marked(usize::MAX, fuel))?
            }
            begins => begins?,
        };
        Ok(Self { required: Required::of(&hir), begins, ends, groups, hir })
    }

    /// The first match that begins and ends within a range. What is around it is context for `^`, `$` and `\b`. `Err`: there
    /// is one, but its place was not found in time.
    #[expect(clippy::result_unit_err, reason = "there is nothing more to it")]
    pub fn first(&self, text: &str, range: Range<usize>) -> Result<Option<Range<usize>>, ()> {
        let bytes = text.as_bytes();
        if !self.may_match(bytes, &range) {
            return Ok(None);
        }
        match &self.begins {
            Begins::Marked(table) => {
                let mut first = None;
                let _ = table.positions(bytes, range.clone(), |at| {
                    if text.is_char_boundary(at) {
                        first = Some(at);
                    }
                    ControlFlow::Continue(())
                });
                let Some(start) = first else { return Ok(None) };
                let mut unlimited = usize::MAX;
                let end = self.ends.last_position(bytes, start..range.end, &mut unlimited)?;
                Ok(end.map(|end| start..end))
            }
            Begins::Tried(_) => {
                let mut first = None;
                let whole = self.all(text, range, |found| {
                    first = Some(found);
                    ControlFlow::Break(())
                });
                if whole || first.is_some() { Ok(first) } else { Err(()) }
            }
        }
    }

    /// Whether there is a match within a range.
    pub fn is_match(&self, text: &str, range: Range<usize>) -> bool {
        if !self.may_match(text.as_bytes(), &range) {
            return false;
        }
        match &self.begins {
            Begins::Marked(table) => {
                let found = |at| {
                    if text.is_char_boundary(at) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                };
                table.positions(text.as_bytes(), range, found).is_break()
            }
            Begins::Tried(table) => table.has_position_in(text.as_bytes(), range),
        }
    }

    /// All matches within a range, from left to right and without overlaps, as JavaScript finds them. False: `found` stopped
    /// it, or it would take too long, and what follows the last match was not searched.
    pub fn all(
        &self,
        text: &str,
        range: Range<usize>,
        mut found: impl FnMut(Range<usize>) -> ControlFlow<()>,
    ) -> bool {
        let bytes = text.as_bytes();
        let mut fuel = range.len().saturating_mul(STEPS_A_BYTE).max(MIN_STEPS);
        let Some(marks) = self.marks(text, &range) else { return true };
        let mut at = range.start;
        while let Some(start) = marks.next(at) {
            let end = if text.is_char_boundary(start) {
                self.ends.last_position(bytes, start..range.end, &mut fuel)
            } else {
                Ok(None)
            };
            // Places that are tried in vain take a step each.
            fuel = fuel.saturating_sub(1);
            let Ok(end) = end else { return false };
            at = end.map_or(start + 1, |end| end.max(start + usize::from(end == start)));
            if let Some(end) = end
                && found(start..end).is_break()
            {
                return false;
            }
            if fuel == 0 {
                return false;
            }
        }
        true
    }

    /// Whether a range has what every match needs.
    fn may_match(&self, text: &[u8], range: &Range<usize>) -> bool {
        let part = || text.get(range.clone()).unwrap_or_default();
        self.required.as_ref().is_none_or(|required| required.is_in(part()))
    }

    /// Where matches may begin; `None`: nowhere.
    fn marks(&self, text: &str, range: &Range<usize>) -> Option<Marks> {
        if !self.may_match(text.as_bytes(), range) {
            return None;
        }
        match &self.begins {
            Begins::Marked(table) => {
                let mut marks = Marks::new(range.clone());
                let _ = table.positions(text.as_bytes(), range.clone(), |at| {
                    marks.set(at);
                    ControlFlow::Continue(())
                });
                marks.is_any.then_some(marks)
            }
            Begins::Tried(table) => table.has_position_in(text.as_bytes(), range.clone()).then(|| Marks {
                bits: Vec::new(),
                range: range.clone(),
                is_any: true,
            }),
        }
    }

    /// The groups of a match, in their order. `None`: the match is too long to find them in time.
    pub fn groups(&self, text: &str, place: &Range<usize>) -> Option<Vec<Group<'_>>> {
        let Some(machine) = &self.groups else { return Some(Vec::new()) };
        let nfa = machine.get_nfa();
        if (place.len() + 1).saturating_mul(nfa.states().len()) > MAX_GROUP_STEPS {
            return None;
        }
        let mut slots = vec![None; nfa.group_info().slot_len()];
        let input = Input::new(text).range(place.clone()).anchored(Anchored::Yes);
        machine.search_slots(&mut machine.create_cache(), &input, &mut slots);
        let range = |slots: &[Option<NonMaxUsize>]| match slots {
            [Some(start), Some(end)] => Some(start.get()..end.get()),
            _ => None,
        };
        let names = nfa.group_info().pattern_names(PatternID::ZERO);
        let groups = names.zip(slots.chunks(2)).map(|(name, slots)| Group { name, range: range(slots) });
        Some(groups.skip(1).collect())
    }

    /// The longest match in bytes; `None` where there is no bound.
    pub fn longest(&self) -> Option<usize> {
        self.hir.properties().maximum_len()
    }

    #[cfg(test)]
    pub(super) fn hir(&self) -> &Hir {
        &self.hir
    }

    /// What it takes in memory, without the fixed part.
    pub fn bytes(&self) -> usize {
        let begins = match &self.begins {
            Begins::Marked(table) => table.bytes(),
            Begins::Tried(table) => table.bytes(),
        };
        begins + self.ends.bytes()
    }
}

fn groups(hir: &Hir, fuel: &mut Fuel) -> Result<Option<PikeVM>, Refusal> {
    if hir.properties().explicit_captures_len() == 0 {
        return Ok(None);
    }
    let nfa = nfa(hir, WhichCaptures::All, fuel)?;
    PikeVM::new_from_nfa(nfa).map(Some).map_err(|_| Refusal::TooLarge)
}

/// Positions of a range, its end included. Without bits: all of them.
struct Marks {
    bits: Vec<u64>,
    range: Range<usize>,
    is_any: bool,
}

impl Marks {
    fn new(range: Range<usize>) -> Self {
        Self { bits: vec![0; range.len() / 64 + 1], range, is_any: false }
    }

    fn set(&mut self, at: usize) {
        let index = at - self.range.start;
        if let Some(bits) = self.bits.get_mut(index / 64) {
            *bits |= 1 << (index % 64);
            self.is_any = true;
        }
    }

    /// The first one at a position or behind it.
    fn next(&self, at: usize) -> Option<usize> {
        if at > self.range.end {
            return None;
        }
        if self.bits.is_empty() {
            return Some(at);
        }
        let index = at - self.range.start;
        let mut place = index / 64;
        let mut bits = self.bits.get(place)? & (u64::MAX << (index % 64));
        while bits == 0 {
            place += 1;
            bits = *self.bits.get(place)?;
        }
        Some(self.range.start + place * 64 + usize::try_from(bits.trailing_zeros()).ok()?)
    }
}

/// Does not show the pattern, which may hold a secret.
impl fmt::Debug for Searcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
