//! Which pieces of rollups are merged next, and into what: several of one hour into one, the hours of a day into the day, days into a block.
//!
//! A step is one transaction. What the database has afterwards counts the same requests for every range of time.

use super::bytes::Damaged;
use super::cells::{Cells, Encoded};
use super::hour_cells::Piece;
use super::level::{DAY, HOUR, Level};
use super::statements::{LARGE, Part};
use std::ops::Range;
use uuid::Uuid;

/// Small pieces of one span that are read one by one as long as more requests are expected there.
const MAX_PIECES: i64 = 64;
/// How long after its end a span is taken to be complete, milliseconds. What comes later is merged later.
const LATE: i64 = HOUR / 6;
/// Entries of one part of a piece, at most: bounds what merging holds in memory. A longer span with more does without the part.
const MAX_ENTRIES: usize = if cfg!(test) { 40 } else { 50_000 };

/// The pieces of one workspace and span of which nothing is in a longer span yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenSpan {
    pub level: Level,
    pub workspace: Uuid,
    pub start: i64,
    /// Those with few combinations.
    pub small: i64,
}

/// What is to be merged: the open pieces of this level, workspace and range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub level: Level,
    pub workspace: Uuid,
    pub range: Range<i64>,
    /// Whether they are merged into the level above. Otherwise the small pieces of one span become one piece.
    is_raise: bool,
}

/// A piece in the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredPiece {
    pub id: i64,
    pub start: i64,
    pub encoded: Encoded,
}

/// The result of a step: what is to be changed in the database.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Merged {
    pub delete: Vec<i64>,
    /// Pieces whose content is now in the level above too: the parts in `bits`.
    pub mark: Vec<i64>,
    pub bits: i64,
    pub insert: Option<Piece>,
}

/// The next step. `now`: milliseconds since 1970.
pub fn next(open: &[OpenSpan], now: i64) -> Option<Step> {
    // Joined before they are raised: fewer pieces stay.
    let join = |open: &OpenSpan| {
        let range = open.start..open.start + open.level.length();
        let is_over = range.end + LATE < now;
        let is_worth_it = open.small > MAX_PIECES || (is_over && open.small > 1);
        is_worth_it.then_some(Step { level: open.level, workspace: open.workspace, range, is_raise: false })
    };
    let raise = |open: &OpenSpan| {
        let above = open.level.above()?;
        let start = above.start(open.start);
        let range = start..start + above.length();
        let delay = if above == Level::Block { DAY } else { HOUR };
        let is_over = range.end + delay < now;
        is_over.then_some(Step { level: open.level, workspace: open.workspace, range, is_raise: true })
    };
    open.iter().find_map(join).or_else(|| open.iter().find_map(raise))
}

impl Step {
    /// Whether it only merges pieces with few combinations.
    pub(crate) fn is_for_small(&self) -> bool {
        !self.is_raise
    }

    /// Begins to merge.
    pub(crate) fn merger(self) -> Merger {
        Merger { step: self, cells: Cells::empty(), merged: Merged::default(), size: 0 }
    }
}

/// The merging of a step's pieces, one after the other, so that they are never in memory together.
pub(crate) struct Merger {
    step: Step,
    cells: Cells,
    merged: Merged,
    size: i64,
}

impl Merger {
    /// Adds a piece. Returns whether the step takes more.
    ///
    /// # Errors
    /// `Damaged` for a piece that cannot be read.
    pub fn add(&mut self, piece: &StoredPiece) -> Result<bool, Damaged> {
        self.size += piece.encoded.size;
        if self.step.is_raise {
            self.cells.merge(piece.start, &piece.encoded, MAX_ENTRIES)?;
            self.merged.mark.push(piece.id);
            return Ok(true);
        }
        // Nothing may be left out of the shortest spans.
        self.cells.merge(piece.start, &piece.encoded, usize::MAX)?;
        self.merged.delete.push(piece.id);
        Ok(self.size < LARGE)
    }

    /// The changes to make.
    pub fn finish(self) -> Merged {
        let Self { step, cells, mut merged, .. } = self;
        let level = if step.is_raise { step.level.above() } else { Some(step.level) };
        let is_empty = merged.mark.is_empty() && merged.delete.is_empty();
        let Some(level) = level.filter(|_| !is_empty) else { return merged };
        let start = step.range.start;
        let encoded = cells.encode(start);
        let parts = [
            (Part::Total, true),
            (Part::Margins, encoded.margins.is_some()),
            (Part::Combinations, encoded.combinations.is_some()),
        ];
        merged.bits = parts.iter().filter(|(_, is_there)| *is_there).map(|(part, _)| part.bit()).sum();
        merged.insert = Some(Piece { level, workspace: step.workspace, start, encoded });
        merged
    }
}
