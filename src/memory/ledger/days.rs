//! The days by which rows and payloads are kept and deleted, and the part of a table's name that tells the day: `rows_20261122`.
//!
//! A day is its number since 1970, UTC.

use super::row::MS_A_DAY;

/// The day of a time in milliseconds since 1970.
pub fn day(ms: i64) -> i64 {
    ms.div_euclid(MS_A_DAY)
}

/// The part of a table's name that tells the day.
pub fn suffix(day: i64) -> String {
    date(day).map_or_else(|| format!("{day}"), |date| date.strftime("%Y%m%d").to_string())
}

fn date(day: i64) -> Option<jiff::civil::Date> {
    let start = jiff::Timestamp::from_millisecond(day.checked_mul(MS_A_DAY)?).ok()?;
    Some(start.to_zoned(jiff::tz::TimeZone::UTC).date())
}

/// The day that the part of a name tells.
pub fn day_of(suffix: &str) -> Option<i64> {
    let date = jiff::civil::Date::strptime("%Y%m%d", suffix).ok()?;
    let start = date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
    Some(day(start.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_gives_back_its_day() {
        for ms in [0, 1, MS_A_DAY - 1, MS_A_DAY, 1_795_391_999_999, 1_795_392_000_000] {
            assert_eq!(day_of(&suffix(day(ms))), Some(day(ms)), "{ms}");
        }
        assert_eq!(suffix(day(1_795_391_999_999)), "20261122");
        assert_eq!(day_of("feedback"), None);
    }
}
