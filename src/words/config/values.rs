//! Numbers and lists that several keys of a config have in common: status codes, timeouts, lower bounds.
//!
//! Not here: the keys themselves.

use super::read::Cursor;

/// Ten years in milliseconds. Longer than any real timeout, and short enough that adding it to a clock does
/// not overflow. Larger values are reduced to it.
pub(crate) const MAX_MS: u64 = 10 * 366 * 24 * 3_600 * 1_000;

/// An array of HTTP status codes; it may be empty.
pub fn status_codes(at: &Cursor<'_>) -> Option<Vec<u16>> {
    let items = at.list()?;
    let code = |item: &Cursor<'_>| item.integer_within(100, 599)?.try_into().ok();
    Some(items.iter().filter_map(code).collect())
}

/// A number not less than `min`.
pub fn at_least(at: &Cursor<'_>, min: f64) -> Option<f64> {
    let number = at.number()?;
    if number < min {
        at.problem(format!("must be at least {min}"));
        return None;
    }
    Some(number)
}
