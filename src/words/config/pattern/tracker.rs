//! Tables that follow a text to positions: where matches begin, and where the match at a position ends.
//!
//! Made by the construction of `automaton`; an entry leads straight to a row, and says besides whether the position
//! before the byte is one. Not here: how matches are found with two of them (`search`).

use super::automaton::{Builder, DEAD, FIRST, Kind, MATCHED, Purpose, kind_of_byte};
use super::{Fuel, Refusal};
use regex_automata::nfa::thompson::NFA;
use std::ops::{ControlFlow, Range};

/// Set in an entry: the position before the byte is one.
const IS_POSITION: u32 = 1 << 31;
/// The row that is none.
const NO_ROW: u32 = IS_POSITION - 1;

#[derive(Debug)]
pub(super) struct Tracker {
    classes: Box<[u8; 256]>,
    class_count: u32,
    /// For each state a row, with the place of the next row for each class of bytes.
    table: Box<[u32]>,
    /// For each state, whether the end of the text is a position.
    at_end: Box<[bool]>,
    /// The row before the first byte, by the kind of the byte before that.
    starts: [u32; 5],
}

impl Tracker {
    pub(super) fn build(nfa: &NFA, purpose: Purpose, fuel: &mut Fuel) -> Result<Self, Refusal> {
        let mut builder = Builder::new(nfa, purpose);
        let starts = builder.rows(fuel)?;
        let class_count = u32::try_from(builder.kinds.len()).map_err(|_| Refusal::TooLarge)?;
        let row = |entry: u16| match (entry & !MATCHED).checked_sub(FIRST) {
            // At most 2^15 rows of at most 256 classes.
            Some(state) => u32::from(state) * class_count,
            None => {
                debug_assert_eq!(entry & !MATCHED, DEAD);
                NO_ROW
            }
        };
        let entry = |entry: &u16| row(*entry) | if entry & MATCHED == 0 { 0 } else { IS_POSITION };
        Ok(Self {
            classes: Box::new(builder.classes),
            class_count,
            table: builder.table.iter().map(entry).collect(),
            at_end: builder.matches_at_end.as_slice().into(),
            starts: starts.map(row),
        })
    }

    /// Reads a range of a text from its end, and calls `found` with each position where a match begins, from right to left.
    pub(super) fn starts(
        &self,
        text: &[u8],
        range: Range<usize>,
        mut found: impl FnMut(usize) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut row = self.start(text.get(range.end));
        for (at, byte) in text.get(range.clone()).unwrap_or_default().iter().enumerate().rev() {
            let Some(entry) = self.entry(row, *byte) else { return ControlFlow::Continue(()) };
            if entry & IS_POSITION != 0 {
                found(range.start + at + 1)?;
            }
            row = entry & !IS_POSITION;
        }
        match self.is_position(row, range.start.checked_sub(1).and_then(|before| text.get(before))) {
            true => found(range.start),
            false => ControlFlow::Continue(()),
        }
    }

    /// The end of the match that begins at the beginning of the range. Takes a step from `fuel` for each byte that was read;
    /// `Err` where they did not suffice.
    pub(super) fn end(
        &self,
        text: &[u8],
        range: Range<usize>,
        fuel: &mut usize,
    ) -> Result<Option<usize>, ()> {
        let mut row = self.start(range.start.checked_sub(1).and_then(|before| text.get(before)));
        let mut end = None;
        let bytes = text.get(range.clone()).unwrap_or_default();
        let most = bytes.len().min(*fuel);
        for (at, byte) in bytes.iter().enumerate().take(most) {
            let Some(entry) = self.entry(row, *byte) else {
                *fuel -= at;
                return Ok(end);
            };
            if entry & IS_POSITION != 0 {
                end = Some(range.start + at);
            }
            row = entry & !IS_POSITION;
        }
        *fuel -= most;
        if most < bytes.len() && row != NO_ROW {
            return Err(());
        }
        match self.is_position(row, text.get(range.end)) {
            true => Ok(Some(range.end)),
            false => Ok(end),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        256 + size_of_val(&*self.table) + size_of_val(&*self.at_end)
    }

    fn start(&self, adjacent: Option<&u8>) -> u32 {
        let kind = adjacent.map_or(Kind::Edge, |byte| kind_of_byte(*byte));
        self.starts.get(kind as usize).copied().unwrap_or(NO_ROW)
    }

    fn entry(&self, row: u32, byte: u8) -> Option<u32> {
        let class = self.classes.get(usize::from(byte)).copied().unwrap_or_default();
        // No row is as large as NO_ROW.
        self.table.get(usize::try_from(row).ok()? + usize::from(class)).copied()
    }

    /// Whether the position is one that was reached when the last byte of a range was read.
    fn is_position(&self, row: u32, following: Option<&u8>) -> bool {
        match following {
            Some(byte) => self.entry(row, *byte).is_some_and(|entry| entry & IS_POSITION != 0),
            None => row
                .checked_div(self.class_count)
                .and_then(|state| self.at_end.get(usize::try_from(state).ok()?))
                .copied()
                .unwrap_or(false),
        }
    }
}
