//! The spans of time for which cells are kept: hours, days, and blocks of eight days, all of UTC; and how a range of time is covered by them.
//!
//! Larger spans repeat the content of smaller ones, so that a year is read in some sixty pieces. A piece whose content is in the next level
//! too is marked in the database (column `merged`) and left out where the larger span is read.

use std::ops::Range;

/// Milliseconds.
pub const HOUR: i64 = 3_600_000;
pub const DAY: i64 = 24 * HOUR;
pub const BLOCK: i64 = 8 * DAY;

/// How long a span is. The number is that in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    Hour = 0,
    Day = 1,
    Block = 2,
}

impl Level {
    pub const ALL: [Self; 3] = [Self::Hour, Self::Day, Self::Block];

    /// Milliseconds.
    pub const fn length(self) -> i64 {
        match self {
            Self::Hour => HOUR,
            Self::Day => DAY,
            Self::Block => BLOCK,
        }
    }

    pub const fn number(self) -> i64 {
        self as i64
    }

    /// The level above, into which this one is merged.
    pub const fn above(self) -> Option<Self> {
        match self {
            Self::Hour => Some(Self::Day),
            Self::Day => Some(Self::Block),
            Self::Block => None,
        }
    }

    /// The beginning of the span that contains a moment.
    pub const fn start(self, at: i64) -> i64 {
        at - at.rem_euclid(self.length())
    }
}

/// How a range is read: the parts of it that whole spans cover, and its ends, which are read from rows. Milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cover {
    /// Whole hours; `days` is a part of it, and `blocks` of `days`. Empty ranges cover nothing.
    pub hours: Range<i64>,
    pub days: Range<i64>,
    pub blocks: Range<i64>,
    /// The ends of the range that are no whole hours.
    pub rows: Vec<Range<i64>>,
}

impl Cover {
    /// Covers a range. `largest`: spans longer than this would not fit the buckets of the result.
    pub fn of(range: &Range<i64>, largest: Level) -> Self {
        let hours = inside(range, Level::Hour);
        if hours.is_empty() {
            return Self { rows: non_empty([range.clone()]), ..Self::default() };
        }
        let at_most =
            |level: Level, within: &Range<i64>| if level <= largest { inside(within, level) } else { 0..0 };
        let days = at_most(Level::Day, &hours);
        let blocks = at_most(Level::Block, &days);
        let rows = non_empty([range.start..hours.start, hours.end..range.end]);
        Self { hours, days, blocks, rows }
    }
}

/// The whole spans inside a range.
fn inside(range: &Range<i64>, level: Level) -> Range<i64> {
    let start = level.start(range.start.saturating_add(level.length() - 1));
    let end = level.start(range.end);
    if start < end { start..end } else { 0..0 }
}

fn non_empty<const N: usize>(ranges: [Range<i64>; N]) -> Vec<Range<i64>> {
    ranges.into_iter().filter(|range| !range.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_read_from_rows_and_the_middle_from_the_longest_spans() {
        let cover = Cover::of(&(HOUR / 2..3 * BLOCK + DAY + HOUR + 7), Level::Block);
        assert_eq!(cover.hours, HOUR..3 * BLOCK + DAY + HOUR);
        assert_eq!(cover.days, DAY..3 * BLOCK + DAY);
        assert_eq!(cover.blocks, BLOCK..3 * BLOCK);
        assert_eq!(cover.rows, [HOUR / 2..HOUR, 3 * BLOCK + DAY + HOUR..3 * BLOCK + DAY + HOUR + 7]);
        let hours = Cover::of(&(0..3 * BLOCK), Level::Hour);
        assert_eq!((hours.hours, hours.days, hours.rows), (0..3 * BLOCK, 0..0, vec![]));
    }

    #[test]
    fn a_range_without_a_whole_hour_is_rows_alone() {
        let range = HOUR - 5..HOUR + 5;
        assert_eq!(Cover::of(&range, Level::Block).rows, [range]);
        assert_eq!(Cover::of(&(5..5), Level::Block), Cover::default());
        assert_eq!(Cover::of(&(-HOUR..0), Level::Block).hours, -HOUR..0);
    }
}
