//! The windows of limits: from when until when usage is counted together.
//!
//! Seconds, minutes and hours are those of UTC; days, weeks and months begin at midnight where the calendar is. A window is computed
//! from the time alone: nothing has to happen at its end.

use super::limit::{LimitKind, RateUnit, Reset};
use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use words::settings::Counting;

/// From `start` until before `end`, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Window {
    pub start: i64,
    /// [`NEVER`] of a window that does not end.
    pub end: i64,
}

/// How far another clock, by which a bucket is judged as well, may be behind.
const CLOCKS_APART: i64 = 60_000;
/// The end of a window that does not end.
pub const NEVER: i64 = i64::MAX;

impl Window {
    const ALL_TIME: Self = Self { start: 0, end: NEVER };

    /// Whether it is the window of this moment.
    pub fn contains(&self, now: i64) -> bool {
        (self.start..self.end).contains(&now)
    }

    /// When it ends; `None`: never.
    pub fn reset_at(&self) -> Option<Timestamp> {
        if self.end == NEVER { None } else { Timestamp::from_millisecond(self.end).ok() }
    }
}

/// Where days begin, and weeks (`limits.timezone`, `limits.week_start`).
#[derive(Debug, Clone, PartialEq)]
pub struct Calendar {
    pub zone: TimeZone,
    pub week_start: Weekday,
}

/// What time it is, and where days and weeks begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock<'a> {
    pub calendar: &'a Calendar,
    /// Milliseconds since 1970.
    pub now: i64,
}

impl Default for Calendar {
    fn default() -> Self {
        Self { zone: TimeZone::UTC, week_start: Weekday::Monday }
    }
}

impl Calendar {
    /// As the settings have it.
    pub fn of(counting: &Counting) -> Self {
        Self { zone: counting.timezone.clone(), week_start: counting.week_start }
    }

    /// The window of `kind` at this time.
    pub fn window(&self, kind: &LimitKind, now: i64) -> Window {
        match *kind {
            LimitKind::Rate { unit: RateUnit::Second, .. } => multiple(1_000, now),
            LimitKind::Rate { unit: RateUnit::Minute, .. } => multiple(60_000, now),
            LimitKind::Rate { unit: RateUnit::Hour, .. } => multiple(3_600_000, now),
            LimitKind::Rate { unit: RateUnit::Day, .. } => self.days(now, |today| (today, 1)),
            LimitKind::Rate { unit: RateUnit::Week, .. } | LimitKind::Usage { reset: Reset::Weekly, .. } => {
                self.days(now, |today| {
                    let past = today.weekday().since(self.week_start);
                    (today.saturating_sub(i64::from(past).days()), 7)
                })
            }
            LimitKind::Usage { reset: Reset::Monthly, .. } => {
                self.days(now, |today| (today.first_of_month(), i64::from(today.days_in_month())))
            }
            LimitKind::Usage { reset: Reset::Days { days, from }, .. } => {
                let days = i64::from(days.max(1));
                self.days(now, |today| {
                    let since = from.until(today).map_or(0, |span| i64::from(span.get_days()));
                    (today.saturating_sub(since.rem_euclid(days).days()), days)
                })
            }
            LimitKind::Usage { reset: Reset::Never, .. } => Window::ALL_TIME,
            // Of a bucket that is used now. It ends later with each further use.
            LimitKind::Usage { reset: Reset::Idle { minutes }, .. } => Window {
                start: now.saturating_sub(CLOCKS_APART),
                end: now.saturating_add(i64::from(minutes) * 60_000),
            },
        }
    }

    /// The window that begins on the day, and has as many days, as `first` says of the day of `now`.
    fn days(&self, now: i64, first: impl FnOnce(Date) -> (Date, i64)) -> Window {
        let Ok(now) = Timestamp::from_millisecond(now) else { return Window::ALL_TIME };
        let (begin, days) = first(self.zone.to_datetime(now).date());
        let end = begin.saturating_add(days.days());
        let midnight = |date: Date| {
            let start = date.to_zoned(self.zone.clone());
            start.map_or(NEVER, |zoned| zoned.timestamp().as_millisecond())
        };
        Window { start: midnight(begin), end: midnight(end) }
    }
}

fn multiple(length: i64, now: i64) -> Window {
    let start = now.div_euclid(length).saturating_mul(length);
    Window { start, end: start.saturating_add(length) }
}
