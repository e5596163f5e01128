//! One question: which requests, in which spans of time, grouped by what; and from which rollups and rows it is answered.

use super::super::filter::Filter;
use super::super::rollup::level::{BLOCK, Cover, DAY, HOUR, Level};
use super::super::rollup::sample::Dimension;
use super::super::rollup::statements::Part;
use std::ops::Range;

/// What the requests are grouped by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum By {
    Nothing,
    Workspace,
    Dimension(Dimension),
    /// `_user` of the metadata.
    User,
    /// The model as the client named it.
    RequestedModel,
    /// A member of the metadata.
    Metadata(String),
}

/// One question.
#[derive(Debug, Clone)]
pub struct Query {
    /// Its times are those of `range`.
    pub filter: Filter,
    /// Milliseconds since 1970, half-open.
    pub range: Range<i64>,
    /// The moments inside the range at which a bucket ends and the next begins, in order. None: all of the range is one.
    pub boundaries: Vec<i64>,
    pub by: By,
    /// Whether percentiles of the latency are wanted.
    pub has_percentiles: bool,
}

/// From which rollups and rows a question is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub cover: Cover,
    /// The hours in which a bucket ends before the hour does: read from rows, although rollups have them. In order.
    pub split_hours: Vec<i64>,
}

impl Query {
    /// The bucket of a moment inside the range.
    pub fn bucket(&self, at: i64) -> u32 {
        u32::try_from(self.boundaries.partition_point(|boundary| *boundary <= at)).unwrap_or(u32::MAX)
    }

    /// The one dimension that the query is about, by group or filter. `None` for none, and for several.
    pub fn dimension(&self) -> Option<Dimension> {
        let mut one = match self.by {
            By::Dimension(dimension) => Some(dimension),
            _ => None,
        };
        for (dimension, _) in self.filter.dimensions() {
            match one {
                Some(other) if other != dimension => return None,
                _ => one = Some(dimension),
            }
        }
        one.filter(|_| self.filter.vendor_models.is_empty())
    }

    /// The smallest part of a piece from which the question can be answered.
    pub fn part(&self) -> Part {
        let is_open = self.filter.dimensions().next().is_none() && self.filter.vendor_models.is_empty();
        match (self.dimension(), &self.by) {
            (None, By::Nothing | By::Workspace) if is_open => Part::Total,
            (Some(_), _) => Part::Margins,
            _ => Part::Combinations,
        }
    }

    pub fn plan(&self) -> Plan {
        let is_in_cells = matches!(self.by, By::Nothing | By::Workspace | By::Dimension(_));
        if !is_in_cells || !self.filter.is_by_dimensions() {
            return self.rows_alone();
        }
        let all_at = |length: i64| self.boundaries.iter().all(|boundary| boundary.rem_euclid(length) == 0);
        let largest = match () {
            () if all_at(BLOCK) => Level::Block,
            () if all_at(DAY) => Level::Day,
            () => Level::Hour,
        };
        let mut cover = Cover::of(&self.range, largest);
        let split = self.boundaries.iter().filter(|boundary| boundary.rem_euclid(HOUR) != 0);
        let mut split_hours: Vec<i64> = split.map(|boundary| Level::Hour.start(*boundary)).collect();
        split_hours.dedup();
        split_hours.retain(|hour| cover.hours.contains(hour));
        // Buckets of minutes: every hour would be split.
        if split_hours.len() as i64 * HOUR >= cover.hours.end - cover.hours.start {
            return self.rows_alone();
        }
        for hour in &split_hours {
            match cover.rows.last_mut() {
                Some(last) if last.end == *hour => last.end = hour + HOUR,
                _ => cover.rows.push(*hour..hour + HOUR),
            }
        }
        Plan { cover, split_hours }
    }

    fn rows_alone(&self) -> Plan {
        let rows = Some(self.range.clone()).filter(|range| !range.is_empty());
        Plan {
            cover: Cover { rows: rows.into_iter().collect(), ..Cover::default() },
            split_hours: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(range: Range<i64>, boundaries: Vec<i64>) -> Query {
        let filter = Filter::default();
        Query { filter, range, boundaries, by: By::Nothing, has_percentiles: false }
    }

    #[test]
    fn buckets_decide_how_long_the_spans_may_be() {
        let days = query(0..30 * DAY, (1..30).map(|n| n * DAY).collect());
        assert_eq!(days.plan().cover.days, 0..30 * DAY);
        assert!(days.plan().cover.blocks.is_empty());
        assert!(!query(0..30 * DAY, Vec::new()).plan().cover.blocks.is_empty());
        assert_eq!(days.bucket(DAY - 1), 0);
        assert_eq!(days.bucket(DAY), 1);
        assert_eq!(days.bucket(30 * DAY - 1), 29);
    }

    #[test]
    fn hours_in_which_a_day_of_india_begins_are_read_from_rows() {
        let half = HOUR / 2;
        let range = half..3 * DAY + half;
        let plan = query(range, vec![DAY + half, 2 * DAY + half]).plan();
        assert_eq!(plan.split_hours, [DAY, 2 * DAY]);
        let rows = [half..HOUR, 3 * DAY..3 * DAY + half, DAY..DAY + HOUR, 2 * DAY..2 * DAY + HOUR];
        assert_eq!(plan.cover.rows, rows);
        assert_eq!(plan.cover.hours, HOUR..3 * DAY);
    }

    #[test]
    fn minutes_and_what_cells_do_not_have_are_read_from_rows() {
        let minutes = query(0..2 * HOUR, (1..120).map(|n| n * 60_000).collect());
        let users = Query { by: By::User, ..query(0..2 * HOUR, Vec::new()) };
        for query in [minutes, users] {
            let cover = query.plan().cover;
            assert_eq!((cover.hours, cover.rows.as_slice()), (0..0, [query.range].as_slice()));
        }
    }
}
