//! Makes the table of a pattern: the subset construction from regex-automata's NFA, with every step counted.
//!
//! A state is a set of NFA states that are reached before assertions (`^`, `\b`) are resolved, and the kind of the byte
//! before it; assertions are resolved when the byte after is known. So a match is noticed one byte behind its end, or at
//! the end of the text.
//!
//! `regex_automata::dfa::dense` makes such tables, too, and was tried (docs/decisions/040-own-pattern-tables.md). Its size limits
//! bound memory, not time: with limits of 1 MiB one of the tests' hostile patterns takes 0.55 s and the ordinary
//! `[\p{L}\p{N}]+`, read backwards, about a second, where this construction takes at most 14 ms to take or refuse any of them.
//! Limits that bound the time as well (64 KiB) refuse three of the tests' 30 ordinary patterns.
//!
//! Not here: the syntax, and how a table is read (`table`).

use super::kind::{Kind, holds};
use super::table::{IS_POSITION, NO_ROW, Table};
use super::{Fuel, Refusal};
use regex_automata::nfa::thompson::{NFA, State, Transition};
use regex_automata::util::look::LookSet;
use regex_automata::util::primitives::StateID;
use std::collections::HashMap;
use std::sync::Arc;

/// What a table is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Whether there is a match: nothing is read behind the first one.
    Exists,
    /// Where matches begin. From an NFA that reads backwards.
    Starts,
    /// Where the match ends that begins at the first byte: of several the one that a backtracking engine finds.
    Ends,
}

/// The subset construction.
struct Builder<'a> {
    nfa: &'a NFA,
    purpose: Purpose,
    looks: LookSet,
    classes: [u8; 256],
    /// The kind of the bytes of each class.
    kinds: Vec<Kind>,
    /// The rows of states by their kernel: the kind of the byte before, then the NFA states in order.
    rows: HashMap<Arc<[u32]>, u32>,
    kernels: Vec<Arc<[u32]>>,
    entries: Vec<u32>,
    at_end: Vec<bool>,
    /// For each class, the NFA states that follow; reused.
    next: Vec<Vec<u32>>,
    stack: Vec<StateID>,
    /// By NFA state: the number of the closure in which it was visited last.
    visited: Vec<u32>,
    closures: u32,
}

/// Makes a table.
pub(super) fn build(nfa: &NFA, purpose: Purpose, fuel: &mut Fuel) -> Result<Table, Refusal> {
    let looks = nfa.look_set_any();
    let (classes, kinds) = classes(nfa, looks);
    let builder = Builder {
        nfa,
        purpose,
        looks,
        classes,
        next: vec![Vec::new(); kinds.len()],
        kinds,
        rows: HashMap::new(),
        kernels: Vec::new(),
        entries: Vec::new(),
        at_end: Vec::new(),
        stack: Vec::new(),
        visited: vec![0; nfa.states().len()],
        closures: 0,
    };
    builder.build(fuel)
}

impl Builder<'_> {
    fn build(mut self, fuel: &mut Fuel) -> Result<Table, Refusal> {
        let begin = self.nfa.start_anchored().as_u32();
        let mut starts = [NO_ROW; 5];
        for (start, kind) in starts.iter_mut().zip(Kind::ALL) {
            if kind == Kind::Edge || !self.nfa.is_always_start_anchored() {
                *start = self.row(self.before(kind), &[begin], fuel)?;
            }
        }
        let mut at = 0;
        while let Some(kernel) = self.kernels.get(at).cloned() {
            self.add_row(&kernel, fuel)?;
            at += 1;
        }
        Ok(Table {
            classes: self.classes,
            class_count: self.kinds.len(),
            entries: self.entries.into(),
            at_end: self.at_end.into(),
            starts,
        })
    }

    /// Computes the row of a state.
    fn add_row(&mut self, kernel: &[u32], fuel: &mut Fuel) -> Result<(), Refusal> {
        let (before, kernel) =
            kernel.split_first().map_or((Kind::Other, kernel), |(kind, rest)| (Kind::of_number(*kind), rest));
        let begin = self.entries.len();
        fuel.burn(self.kinds.len())?;
        self.entries.resize(begin + self.kinds.len(), NO_ROW);
        if self.looks.is_empty() {
            let matches = self.close(kernel, before, Kind::Other, Some(Kind::Other), fuel)?;
            self.at_end.push(matches);
            return self.fill(begin, Kind::Other, matches, fuel);
        }
        let at_end = self.close(kernel, before, Kind::Edge, None, fuel)?;
        self.at_end.push(at_end);
        for after in [Kind::Word, Kind::LineFeed, Kind::CarriageReturn, Kind::Other] {
            if self.kinds.contains(&after) {
                let matches = self.close(kernel, before, after, Some(after), fuel)?;
                self.fill(begin, after, matches, fuel)?;
            }
        }
        Ok(())
    }

    /// Enters the next states for all bytes of one kind into a row.
    fn fill(&mut self, begin: usize, kind: Kind, matches: bool, fuel: &mut Fuel) -> Result<(), Refusal> {
        let begins_anywhere = self.purpose != Purpose::Ends && !self.nfa.is_always_start_anchored();
        let start = begins_anywhere.then(|| self.nfa.start_anchored().as_u32());
        // The class before, whose next state is often the same.
        let mut last = Vec::new();
        let mut last_row = None;
        for class in 0..self.kinds.len() {
            if self.kinds.get(class) != Some(&kind) {
                continue;
            }
            let mut next = self.next.get_mut(class).map(std::mem::take).unwrap_or_default();
            next.extend(start);
            fuel.burn(next.len())?;
            let row = match last_row {
                _ if matches && self.purpose == Purpose::Exists => NO_ROW,
                Some(row) if last == next => row,
                _ => {
                    last.clone_from(&next);
                    match self.purpose {
                        Purpose::Ends => self.drop_repeated(&mut next),
                        Purpose::Exists | Purpose::Starts => {
                            next.sort_unstable();
                            next.dedup();
                        }
                    }
                    self.row(self.before(kind), &next, fuel)?
                }
            };
            last_row = Some(row);
            if let Some(entry) = self.entries.get_mut(begin + class) {
                *entry = if matches { row | IS_POSITION } else { row };
            }
            next.clear();
            if let Some(slot) = self.next.get_mut(class) {
                *slot = next;
            }
        }
        Ok(())
    }

    /// Drops all but the first of equal states: their order is that of preference.
    fn drop_repeated(&mut self, states: &mut Vec<u32>) {
        self.closures += 1;
        let closure = self.closures;
        states.retain(|state| {
            let visited = usize::try_from(*state).ok().and_then(|state| self.visited.get_mut(state));
            visited.is_none_or(|visited| std::mem::replace(visited, closure) != closure)
        });
    }

    /// The kind of the byte before, as states keep it: without assertions it makes no difference.
    fn before(&self, kind: Kind) -> Kind {
        if self.looks.is_empty() { Kind::Edge } else { kind }
    }

    /// The row of a kernel's state, which is new or not.
    fn row(&mut self, before: Kind, kernel: &[u32], fuel: &mut Fuel) -> Result<u32, Refusal> {
        if kernel.is_empty() {
            return Ok(NO_ROW);
        }
        fuel.burn(kernel.len())?;
        let mut key = Vec::with_capacity(kernel.len() + 1);
        key.push(before as u32);
        key.extend_from_slice(kernel);
        if let Some(row) = self.rows.get(key.as_slice()) {
            return Ok(*row);
        }
        let row = u32::try_from(self.kernels.len() * self.kinds.len()).ok();
        let row = row.filter(|row| *row < NO_ROW).ok_or(Refusal::TooLarge)?;
        let key: Arc<[u32]> = key.into();
        self.kernels.push(Arc::clone(&key));
        self.rows.insert(key, row);
        Ok(row)
    }

    /// Follows everything that needs no byte, and returns whether there is a match. With `step`, also collects
    /// in `next` what follows the bytes of this kind.
    fn close(
        &mut self,
        kernel: &[u32],
        before: Kind,
        after: Kind,
        step: Option<Kind>,
        fuel: &mut Fuel,
    ) -> Result<bool, Refusal> {
        let nfa = self.nfa;
        self.closures += 1;
        self.stack.clear();
        self.stack.extend(kernel.iter().rev().filter_map(|id| StateID::new(usize::try_from(*id).ok()?).ok()));
        let mut matches = false;
        while let Some(id) = self.stack.pop() {
            fuel.burn(1)?;
            match self.visited.get_mut(id.as_usize()) {
                Some(visited) if *visited != self.closures => *visited = self.closures,
                _ => continue,
            }
            match nfa.state(id) {
                State::Match { .. } => {
                    matches = true;
                    if self.purpose == Purpose::Ends {
                        // Whatever is less preferred cannot be the match any more.
                        break;
                    }
                }
                State::Fail => {}
                State::Capture { next, .. } => self.stack.push(*next),
                State::BinaryUnion { alt1, alt2 } => self.stack.extend([*alt2, *alt1]),
                State::Union { alternates } => {
                    fuel.burn(alternates.len())?;
                    self.stack.extend(alternates.iter().rev().copied());
                }
                State::Look { look, next } => {
                    if holds(*look, before, after, nfa.is_reverse()) {
                        self.stack.push(*next);
                    }
                }
                State::ByteRange { trans } => self.step(trans, step, fuel)?,
                State::Sparse(sparse) => {
                    for transition in &*sparse.transitions {
                        self.step(transition, step, fuel)?;
                    }
                }
                State::Dense(dense) => {
                    for (start, next) in (0..=255).filter_map(|byte| Some((byte, dense.matches_byte(byte)?)))
                    {
                        self.step(&Transition { start, end: start, next }, step, fuel)?;
                    }
                }
            }
        }
        Ok(matches)
    }

    fn step(&mut self, transition: &Transition, kind: Option<Kind>, fuel: &mut Fuel) -> Result<(), Refusal> {
        let Some(kind) = kind else { return Ok(()) };
        let class = |byte: u8| self.classes.get(usize::from(byte)).map_or(0, |class| usize::from(*class));
        let first = class(transition.start);
        let last = class(transition.end);
        fuel.burn(1 + last - first)?;
        for class in first..=last {
            if self.kinds.get(class) == Some(&kind)
                && let Some(next) = self.next.get_mut(class)
            {
                next.push(transition.next.as_u32());
            }
        }
        Ok(())
    }
}

/// The classes of bytes that no transition and no assertion tells apart, in the order of bytes, and their kinds.
fn classes(nfa: &NFA, looks: LookSet) -> ([u8; 256], Vec<Kind>) {
    let mut begins = [false; 256];
    for state in nfa.states() {
        let transitions = match state {
            State::ByteRange { trans } => std::slice::from_ref(trans),
            State::Sparse(sparse) => &*sparse.transitions,
            State::Dense(_) => {
                begins = [true; 256];
                continue;
            }
            _ => continue,
        };
        for transition in transitions {
            for at in [usize::from(transition.start), usize::from(transition.end) + 1] {
                if let Some(begins) = begins.get_mut(at) {
                    *begins = true;
                }
            }
        }
    }
    let mut classes = [0; 256];
    let mut kinds: Vec<Kind> = Vec::new();
    for ((byte, begins), class) in (0u8..=255).zip(begins).zip(&mut classes) {
        let kind = if looks.is_empty() { Kind::Other } else { Kind::of_byte(byte) };
        if begins || kinds.last() != Some(&kind) {
            kinds.push(kind);
        }
        // At most 256 classes.
        *class = u8::try_from(kinds.len() - 1).unwrap_or(u8::MAX);
    }
    (classes, kinds)
}
