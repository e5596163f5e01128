//! The table of a pattern: for each state and each class of bytes, the next state, and whether the position before the byte is
//! one that is looked for.
//!
//! What such a position is depends on what the table was made for (`builder::Purpose`): that a match was found, where one begins,
//! where it ends. Not here: how a table is made (`builder`), how matches are found with two of them (`search`).

use super::kind::Kind;
use std::ops::{ControlFlow, Range};

/// Set in an entry: the position before the byte is one.
pub(super) const IS_POSITION: u32 = 1 << 31;
/// The row that is none: nothing that is looked for can follow.
pub(super) const NO_ROW: u32 = IS_POSITION - 1;

pub(super) struct Table {
    /// The class of each byte: bytes of one class never make a difference.
    pub classes: [u8; 256],
    pub class_count: usize,
    /// For each state a row, with the place of the next row for each class of bytes.
    pub entries: Box<[u32]>,
    /// For each state, whether the end of the text is a position.
    pub at_end: Box<[bool]>,
    /// The row before the first byte, by the kind of the byte before that, in the order of [`Kind::ALL`].
    pub starts: [u32; 5],
}

impl Table {
    /// Whether bytes have a position among them or at their end. `before` and `after` are the bytes beside them, all in the order in
    /// which the table reads.
    pub fn has_position<'b>(
        &self,
        before: Option<u8>,
        bytes: impl Iterator<Item = &'b u8>,
        after: Option<u8>,
    ) -> bool {
        let mut row = self.start(before);
        for byte in bytes {
            let Some(entry) = self.entry(row, *byte) else { return false };
            if entry & IS_POSITION != 0 {
                return true;
            }
            row = entry;
        }
        self.is_position(row, after)
    }

    /// Whether a range of a text has a position. For tables that read forwards.
    pub fn has_position_in(&self, text: &[u8], range: Range<usize>) -> bool {
        let bytes = text.get(range.clone()).unwrap_or_default();
        self.has_position(byte_before(text, range.start), bytes.iter(), text.get(range.end).copied())
    }

    /// Reads a range of a text from its end, and calls `found` with each position, from right to left.
    pub fn positions(
        &self,
        text: &[u8],
        range: Range<usize>,
        mut found: impl FnMut(usize) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut row = self.start(text.get(range.end).copied());
        for (at, byte) in text.get(range.clone()).unwrap_or_default().iter().enumerate().rev() {
            let Some(entry) = self.entry(row, *byte) else { return ControlFlow::Continue(()) };
            if entry & IS_POSITION != 0 {
                found(range.start + at + 1)?;
            }
            row = entry & !IS_POSITION;
        }
        if self.is_position(row, byte_before(text, range.start)) {
            return found(range.start);
        }
        ControlFlow::Continue(())
    }

    /// The last position of a range: the end of the match that begins where the range does. Takes a step from `fuel` for each byte
    /// that was read; `Err` where they did not suffice.
    pub fn last_position(
        &self,
        text: &[u8],
        range: Range<usize>,
        fuel: &mut usize,
    ) -> Result<Option<usize>, ()> {
        let mut row = self.start(byte_before(text, range.start));
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
        if self.is_position(row, text.get(range.end).copied()) {
            end = Some(range.end);
        }
        Ok(end)
    }

    /// What it takes in memory.
    pub fn bytes(&self) -> usize {
        size_of_val(self) + size_of_val(&*self.entries) + size_of_val(&*self.at_end)
    }

    fn start(&self, before: Option<u8>) -> u32 {
        let kind = before.map_or(Kind::Edge, Kind::of_byte);
        self.starts.get(kind as usize).copied().unwrap_or(NO_ROW)
    }

    fn entry(&self, row: u32, byte: u8) -> Option<u32> {
        let class = self.classes.get(usize::from(byte)).copied().unwrap_or_default();
        // No row is as large as NO_ROW.
        self.entries.get(usize::try_from(row).ok()? + usize::from(class)).copied()
    }

    /// Whether the position is one that was reached when the last byte was read.
    fn is_position(&self, row: u32, after: Option<u8>) -> bool {
        match after {
            Some(byte) => self.entry(row, byte).is_some_and(|entry| entry & IS_POSITION != 0),
            None => usize::try_from(row)
                .ok()
                .and_then(|row| self.at_end.get(row.checked_div(self.class_count)?))
                .copied()
                .unwrap_or(false),
        }
    }
}

fn byte_before(text: &[u8], at: usize) -> Option<u8> {
    at.checked_sub(1).and_then(|before| text.get(before)).copied()
}
