//! The table of a pattern: one look per byte tells the next state.
//!
//! Made by the subset construction from regex-automata's NFA, of which only whether a match exists is kept: no
//! priorities, no positions. A state is a set of NFA states that are reached before assertions (`^`, `\b`) are
//! resolved, and the kind of the byte before it; assertions are resolved when the byte after is known. So a match is
//! noticed one byte behind its end, or at the end of the text. The tables that follow positions (`tracker`) are made here
//! too, by the same construction. Not here: the syntax.

use super::{Excerpt, Fuel, Refusal};
use regex_automata::nfa::thompson::{NFA, State, Transition};
use regex_automata::util::look::{Look, LookSet};
use regex_automata::util::primitives::StateID;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// No match is possible any more.
pub(super) const DEAD: u16 = 0;
/// There is a match.
const MATCH: u16 = 1;
/// The first state that has a row.
pub(super) const FIRST: u16 = 2;

/// Added to a next state, except in tables made for [`Purpose::Exists`]: the position before the byte that is read is one.
pub(super) const MATCHED: u16 = 1 << 15;

/// Maximum number of states.
const MAX_STATES: usize = MATCHED as usize;

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

#[derive(Debug, Clone)]
pub(super) struct Automaton {
    /// Reads a text from its end to its beginning.
    backwards: bool,
    /// The class of each byte: bytes of one class never make a difference.
    classes: Arc<[u8; 256]>,
    class_count: usize,
    /// A row for each state from [`FIRST`] on, with the next state for each class.
    table: Arc<[u16]>,
    /// Whether the text matches if it ends here, for each state from [`FIRST`] on.
    matches_at_end: Arc<[bool]>,
    /// The state before the first byte, by the kind of the byte before that. At the end of an excerpt that is read backwards
    /// this is [`Kind::Other`].
    starts: [u16; 5],
}

/// What assertions see of a byte beside a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// There is none: the text begins or ends here.
    Edge,
    Word,
    LineFeed,
    CarriageReturn,
    Other,
}

impl Kind {
    pub(super) const ALL: [Self; 5] =
        [Self::Edge, Self::Word, Self::LineFeed, Self::CarriageReturn, Self::Other];
}

impl Automaton {
    pub(super) fn build(nfa: &NFA, fuel: &mut Fuel) -> Result<Self, Refusal> {
        Builder::new(nfa, Purpose::Exists).build(fuel)
    }

    pub(super) fn is_match(&self, text: &Excerpt<'_>) -> bool {
        let bytes = text.text().as_bytes();
        if self.backwards {
            let start = self.start(if text.is_whole() { Kind::Edge } else { Kind::Other });
            return self.ends_in_match(self.run(start, bytes.iter().rev()));
        }
        let state = self.run(self.start(Kind::Edge), bytes.iter());
        match text.is_whole() {
            true => self.ends_in_match(state),
            // The byte that follows counts as neither a letter nor a line end.
            false => self.next(state, b' ') == MATCH,
        }
    }

    /// Whether there is a match within a range. Only for tables that read forwards.
    pub(super) fn is_match_in(&self, text: &[u8], range: Range<usize>) -> bool {
        let before = range.start.checked_sub(1).and_then(|before| text.get(before));
        let start = before.map_or(Kind::Edge, |byte| kind_of_byte(*byte));
        let state = self.run(self.start(start), text.get(range.clone()).unwrap_or_default().iter());
        match text.get(range.end) {
            None => self.ends_in_match(state),
            Some(byte) => self.next(state, *byte) == MATCH,
        }
    }

    fn run<'b>(&self, start: u16, bytes: impl Iterator<Item = &'b u8>) -> u16 {
        let mut state = start;
        for byte in bytes {
            state = self.next(state, *byte);
            if state < FIRST {
                break;
            }
        }
        state
    }

    fn start(&self, before: Kind) -> u16 {
        self.starts.get(before as usize).copied().unwrap_or(DEAD)
    }

    fn next(&self, state: u16, byte: u8) -> u16 {
        let Some(row) = state.checked_sub(FIRST) else { return state };
        let class = self.classes.get(usize::from(byte)).copied().unwrap_or_default();
        self.table.get(usize::from(row) * self.class_count + usize::from(class)).copied().unwrap_or(DEAD)
    }

    fn ends_in_match(&self, state: u16) -> bool {
        match state.checked_sub(FIRST) {
            Some(row) => self.matches_at_end.get(usize::from(row)).copied().unwrap_or(false),
            None => state == MATCH,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.classes) + size_of_val(&*self.table) + size_of_val(&*self.matches_at_end)
    }

    #[cfg(test)]
    pub(super) fn states(&self) -> usize {
        self.matches_at_end.len()
    }

    #[cfg(test)]
    pub(super) fn is_backwards(&self) -> bool {
        self.backwards
    }
}

/// The subset construction.
pub(super) struct Builder<'a> {
    nfa: &'a NFA,
    purpose: Purpose,
    looks: LookSet,
    pub(super) classes: [u8; 256],
    /// The kind of the bytes of each class.
    pub(super) kinds: Vec<Kind>,
    /// States by their kernel: the kind of the byte before, then the NFA states in order.
    ids: HashMap<Arc<[u32]>, u16>,
    kernels: Vec<Arc<[u32]>>,
    pub(super) table: Vec<u16>,
    pub(super) matches_at_end: Vec<bool>,
    /// For each class, the NFA states that follow; reused.
    next: Vec<Vec<u32>>,
    stack: Vec<StateID>,
    /// By NFA state: the number of the closure in which it was visited last.
    visited: Vec<u32>,
    closures: u32,
}

impl<'a> Builder<'a> {
    pub(super) fn new(nfa: &'a NFA, purpose: Purpose) -> Self {
        let looks = nfa.look_set_any();
        let (classes, kinds) = classes(nfa, looks);
        Self {
            nfa,
            purpose,
            looks,
            classes,
            next: vec![Vec::new(); kinds.len()],
            kinds,
            ids: HashMap::new(),
            kernels: Vec::new(),
            table: Vec::new(),
            matches_at_end: Vec::new(),
            stack: Vec::new(),
            visited: vec![0; nfa.states().len()],
            closures: 0,
        }
    }

    fn build(mut self, fuel: &mut Fuel) -> Result<Automaton, Refusal> {
        let starts = self.rows(fuel)?;
        Ok(Automaton {
            backwards: self.nfa.is_reverse(),
            classes: Arc::new(self.classes),
            class_count: self.kinds.len(),
            table: self.table.into(),
            matches_at_end: self.matches_at_end.into(),
            starts,
        })
    }

    /// Makes the whole table, and returns the states before the first byte for each kind of the byte before that, in the order
    /// of [`Kind::ALL`].
    pub(super) fn rows(&mut self, fuel: &mut Fuel) -> Result<[u16; 5], Refusal> {
        let begin = self.nfa.start_anchored().as_u32();
        let mut starts = [DEAD; 5];
        for (start, kind) in starts.iter_mut().zip(Kind::ALL) {
            if kind == Kind::Edge || !self.nfa.is_always_start_anchored() {
                *start = self.id(self.before(kind), &[begin], fuel)?;
            }
        }
        let mut at = 0;
        while let Some(kernel) = self.kernels.get(at).cloned() {
            self.row(&kernel, fuel)?;
            at += 1;
        }
        Ok(starts)
    }

    /// Computes the row of a state.
    fn row(&mut self, kernel: &[u32], fuel: &mut Fuel) -> Result<(), Refusal> {
        let (before, kernel) =
            kernel.split_first().map_or((Kind::Other, kernel), |(kind, rest)| (kind_of(*kind), rest));
        let begin = self.table.len();
        fuel.burn(self.kinds.len())?;
        self.table.resize(begin + self.kinds.len(), DEAD);
        if self.looks.is_empty() {
            let matches = self.close(kernel, before, Kind::Other, Some(Kind::Other), fuel)?;
            self.matches_at_end.push(matches);
            return self.fill(begin, Kind::Other, matches, fuel);
        }
        let at_end = self.close(kernel, before, Kind::Edge, None, fuel)?;
        self.matches_at_end.push(at_end);
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
        let (mut last, mut last_id) = (Vec::new(), None);
        for class in 0..self.kinds.len() {
            if self.kinds.get(class) != Some(&kind) {
                continue;
            }
            let mut next = self.next.get_mut(class).map(std::mem::take).unwrap_or_default();
            next.extend(start);
            fuel.burn(next.len())?;
            let id = match last_id {
                _ if matches && self.purpose == Purpose::Exists => MATCH,
                Some(id) if last == next => id,
                _ => {
                    last.clone_from(&next);
                    match self.purpose {
                        Purpose::Ends => self.drop_repeated(&mut next),
                        Purpose::Exists | Purpose::Starts => {
                            next.sort_unstable();
                            next.dedup();
                        }
                    }
                    self.id(self.before(kind), &next, fuel)?
                }
            };
            last_id = Some(id);
            let is_marked = matches && self.purpose != Purpose::Exists;
            if let Some(entry) = self.table.get_mut(begin + class) {
                *entry = if is_marked { id | MATCHED } else { id };
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

    /// The state of a kernel, which is new or not.
    fn id(&mut self, before: Kind, kernel: &[u32], fuel: &mut Fuel) -> Result<u16, Refusal> {
        if kernel.is_empty() {
            return Ok(DEAD);
        }
        fuel.burn(kernel.len())?;
        let mut key = Vec::with_capacity(kernel.len() + 1);
        key.push(before as u32);
        key.extend_from_slice(kernel);
        if let Some(id) = self.ids.get(key.as_slice()) {
            return Ok(*id);
        }
        let number = self.kernels.len() + usize::from(FIRST);
        let id = u16::try_from(number).ok().filter(|_| number < MAX_STATES).ok_or(Refusal::TooLarge)?;
        let key: Arc<[u32]> = key.into();
        self.kernels.push(Arc::clone(&key));
        self.ids.insert(key, id);
        Ok(id)
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
        let (first, last) = (class(transition.start), class(transition.end));
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
        let kind = if looks.is_empty() { Kind::Other } else { kind_of_byte(byte) };
        if begins || kinds.last() != Some(&kind) {
            kinds.push(kind);
        }
        // At most 256 classes.
        *class = u8::try_from(kinds.len() - 1).unwrap_or(u8::MAX);
    }
    (classes, kinds)
}

pub(super) fn kind_of_byte(byte: u8) -> Kind {
    match byte {
        b'\n' => Kind::LineFeed,
        b'\r' => Kind::CarriageReturn,
        b'_' => Kind::Word,
        _ if byte.is_ascii_alphanumeric() => Kind::Word,
        _ => Kind::Other,
    }
}

fn kind_of(number: u32) -> Kind {
    Kind::ALL.into_iter().find(|kind| *kind as u32 == number).unwrap_or(Kind::Other)
}

/// Whether an assertion holds between two bytes, in the order in which they are read. An NFA that reads backwards has
/// its assertions turned round.
fn holds(look: Look, before: Kind, after: Kind, backwards: bool) -> bool {
    if backwards {
        return holds(look.reversed(), after, before, false);
    }
    let (word_before, word_after) = (before == Kind::Word, after == Kind::Word);
    match look {
        Look::Start => before == Kind::Edge,
        Look::End => after == Kind::Edge,
        Look::StartLF => matches!(before, Kind::Edge | Kind::LineFeed),
        Look::EndLF => matches!(after, Kind::Edge | Kind::LineFeed),
        Look::StartCRLF => {
            matches!(before, Kind::Edge | Kind::LineFeed)
                || (before == Kind::CarriageReturn && after != Kind::LineFeed)
        }
        Look::EndCRLF => {
            matches!(after, Kind::Edge | Kind::CarriageReturn)
                || (after == Kind::LineFeed && before != Kind::CarriageReturn)
        }
        Look::WordAscii | Look::WordUnicode => word_before != word_after,
        Look::WordAsciiNegate | Look::WordUnicodeNegate => word_before == word_after,
        Look::WordStartAscii | Look::WordStartUnicode => !word_before && word_after,
        Look::WordEndAscii | Look::WordEndUnicode => word_before && !word_after,
        Look::WordStartHalfAscii | Look::WordStartHalfUnicode => !word_before,
        Look::WordEndHalfAscii | Look::WordEndHalfUnicode => !word_after,
    }
}
