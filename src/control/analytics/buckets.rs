//! The spans of a graph: minutes, hours, days or weeks of a time zone. Pure.

use jiff::civil::Weekday;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _, Unit, Zoned, ZonedRound};
use std::ops::Range;

/// Data points of a graph, at most.
pub(super) const MAX_BUCKETS: usize = 2000;

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;

/// How long a data point is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Granularity {
    Minute,
    Hour,
    Day,
    Week,
}

impl Granularity {
    pub const NAMES: &[&str] = &["minute", "hour", "day", "week"];

    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "minute" => Some(Self::Minute),
            "hour" => Some(Self::Hour),
            "day" => Some(Self::Day),
            "week" => Some(Self::Week),
            _ => None,
        }
    }

    /// The one for a range in milliseconds where the request names none.
    pub(crate) fn for_range(range: &Range<i64>) -> Self {
        match range.end - range.start {
            ..=10_800_000 => Self::Minute,
            length if length <= 3 * DAY => Self::Hour,
            length if length <= 92 * DAY => Self::Day,
            _ => Self::Week,
        }
    }

    /// The beginning of the span that contains a moment.
    fn floor(self, at: &Zoned) -> Result<Zoned, jiff::Error> {
        let round = |unit| at.round(ZonedRound::new().smallest(unit).mode(jiff::RoundMode::Trunc));
        match self {
            Self::Minute => round(Unit::Minute),
            Self::Hour => round(Unit::Hour),
            Self::Day => at.start_of_day(),
            Self::Week => {
                let days = i64::from(at.weekday().since(Weekday::Monday));
                at.checked_sub(days.days())?.start_of_day()
            }
        }
    }

    fn next(self, start: &Zoned) -> Result<Zoned, jiff::Error> {
        match self {
            Self::Minute => start.checked_add(SignedDuration::from_mins(1)),
            Self::Hour => start.checked_add(SignedDuration::from_hours(1)),
            // Days of a zone have 23 to 25 hours.
            Self::Day => start.checked_add(1.day())?.start_of_day(),
            Self::Week => start.checked_add(7.days())?.start_of_day(),
        }
    }
}

/// The beginnings of the spans that a range touches, milliseconds since 1970. The first is at or before the beginning of the range. `None`: more
/// than `MAX_BUCKETS`, or times that no calendar has.
pub(super) fn starts(range: &Range<i64>, granularity: Granularity, zone: &TimeZone) -> Option<Vec<i64>> {
    let first = Timestamp::from_millisecond(range.start).ok()?.to_zoned(zone.clone());
    let mut next = granularity.floor(&first).ok()?;
    let mut starts = Vec::new();
    while next.timestamp().as_millisecond() < range.end {
        if starts.len() == MAX_BUCKETS {
            return None;
        }
        starts.push(next.timestamp().as_millisecond());
        next = granularity.next(&next).ok()?;
    }
    Some(starts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(min: &str, max: &str, granularity: Granularity, zone: &str) -> Vec<String> {
        let at = |text: &str| text.parse::<Timestamp>().unwrap().as_millisecond();
        let zone = TimeZone::get(zone).unwrap();
        let starts = starts(&(at(min)..at(max)), granularity, &zone).unwrap();
        starts.into_iter().map(|start| Timestamp::from_millisecond(start).unwrap().to_string()).collect()
    }

    #[test]
    fn days_and_weeks_begin_where_the_zone_has_them() {
        let days = shown("2026-03-28T12:00:00Z", "2026-03-30T12:00:00Z", Granularity::Day, "Europe/Berlin");
        // Summer time begins on the 29th: that day has 23 hours.
        assert_eq!(days, ["2026-03-27T23:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"]);
        let weeks = shown("2026-05-03T17:08:55Z", "2026-05-11T00:00:00Z", Granularity::Week, "UTC");
        assert_eq!(weeks, ["2026-04-27T00:00:00Z", "2026-05-04T00:00:00Z"]);
        let hours = shown("2026-05-03T17:08:55Z", "2026-05-03T19:00:00Z", Granularity::Hour, "Asia/Kolkata");
        assert_eq!(hours, ["2026-05-03T16:30:00Z", "2026-05-03T17:30:00Z", "2026-05-03T18:30:00Z"]);
        // The hour that comes twice is two hours.
        let hours = shown("2026-10-25T00:00:00Z", "2026-10-25T03:00:00Z", Granularity::Hour, "Europe/Berlin");
        assert_eq!(hours, ["2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"]);
    }

    #[test]
    fn the_range_decides_where_nothing_else_does() {
        let granularity = |length| Granularity::for_range(&(0..length));
        assert_eq!(granularity(3 * HOUR), Granularity::Minute);
        assert_eq!(granularity(3 * HOUR + 1), Granularity::Hour);
        assert_eq!(granularity(3 * DAY), Granularity::Hour);
        assert_eq!(granularity(92 * DAY), Granularity::Day);
        assert_eq!(granularity(92 * DAY + 1), Granularity::Week);
    }

    #[test]
    fn the_number_of_data_points_is_bounded() {
        assert_eq!(starts(&(0..2001 * HOUR), Granularity::Hour, &TimeZone::UTC), None);
        assert_eq!(starts(&(0..2000 * HOUR), Granularity::Hour, &TimeZone::UTC).unwrap().len(), 2000);
        assert_eq!(starts(&(i64::MIN..0), Granularity::Week, &TimeZone::UTC), None);
    }
}
