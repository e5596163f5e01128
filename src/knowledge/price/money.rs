//! The one place where units of money are converted.
//!
//! Inside, money is whole nanodollars (`i64`, up to 9.2 billion dollars) and prices are whole millionths of a dollar per
//! million tokens (`u64`). Outside there are dollars (limits, headers), cents (analytics and logs), dollars per million
//! tokens (overlay, catalogue) and cents per token (`pricing_config` and the pricing endpoint).

use std::fmt;

/// One dollar.
pub const NANODOLLARS: i64 = 1_000_000_000;

const NANODOLLARS_PER_CENT: f64 = 10_000_000.0;

/// One dollar in the unit of prices.
const MICRODOLLARS: f64 = 1_000_000.0;

/// The most dollars that a price may be, for a million of whatever it is for: beyond any real price, and small enough for
/// exact sums.
const MAX_PRICE: f64 = 1_000_000_000.0;

/// Dollars, to be shown: the nearest number that JSON can hold. Divided once, so that it prints with at most 9 decimals.
pub fn dollars(nanodollars: i64) -> f64 {
    nanodollars as f64 / NANODOLLARS as f64
}

/// Cents, to be shown.
pub fn cents(nanodollars: i64) -> f64 {
    nanodollars as f64 / NANODOLLARS_PER_CENT
}

/// Nanodollars of an amount in cents, rounded half-even. `None` for what is no amount: infinite, not a number, or beyond 9.2 billion
/// dollars.
pub fn from_cents(cents: f64) -> Option<i64> {
    whole(cents * NANODOLLARS_PER_CENT)
}

/// A price in dollars per million tokens (or per whatever a unit is counted in) as millionths of a dollar, rounded: catalogues
/// have numbers such as 0.08333333333333334. `None` for what is no price: negative, not a number, beyond a billion.
pub(crate) fn price_from_dollars(dollars: f64) -> Option<u64> {
    // NaN is in no range.
    (0.0..=MAX_PRICE).contains(&dollars).then(|| (dollars * MICRODOLLARS).round_ties_even() as u64)
}

/// The reverse of [`price_from_dollars`].
pub fn price_in_dollars(price: u64) -> f64 {
    price as f64 / MICRODOLLARS
}

/// A price in cents for one as millionths of a dollar for `per` of them: a million tokens, a thousand calls.
pub(crate) fn price_from_cents(cents: f64, per: u64) -> Option<u64> {
    price_from_dollars(cents * (per as f64 / 100.0))
}

/// Cents for one, of a price for `per` of them.
pub fn cents_per_unit(price: u64, per: u64) -> f64 {
    price as f64 / (MICRODOLLARS / 100.0 * per as f64)
}

/// Dollars as exact decimal text, for headers and log lines: `0.000123`, `12.5`, `0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dollars(pub i64);

impl fmt::Display for Dollars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let amount = self.0.unsigned_abs();
        let scale = NANODOLLARS.unsigned_abs();
        let whole = amount / scale;
        let mut rest = amount % scale;
        if rest == 0 {
            return write!(f, "{sign}{whole}");
        }
        let mut digits = 9;
        while rest.is_multiple_of(10) {
            rest /= 10;
            digits -= 1;
        }
        write!(f, "{sign}{whole}.{rest:0digits$}")
    }
}

/// Rounded half-even; `None` if it is beyond an `i64`.
fn whole(amount: f64) -> Option<i64> {
    // 2^63 as a float is exact, and itself too large.
    let is_within = amount.is_finite() && amount.abs() < 9_223_372_036_854_775_808.0;
    is_within.then(|| amount.round_ties_even() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_shown_without_noise() {
        assert_eq!(dollars(123_456), 0.000123456);
        assert_eq!(serde_json::to_string(&dollars(30_000_007)).unwrap(), "0.030000007");
        assert_eq!(cents(12_345_678), 1.2345678);
        for (nanodollars, text) in [
            (0, "0"),
            (1, "0.000000001"),
            (1_500_000_000, "1.5"),
            (-20_000_000, "-0.02"),
            (12 * NANODOLLARS, "12"),
            (i64::MIN, "-9223372036.854775808"),
        ] {
            assert_eq!(Dollars(nanodollars).to_string(), text);
        }
    }

    #[test]
    fn amounts_are_read_to_the_nanodollar() {
        assert_eq!(from_cents(0.5), Some(5_000_000));
        for not_money in [f64::NAN, f64::INFINITY, -f64::INFINITY, 1e12, -1e12] {
            assert_eq!(from_cents(not_money), None, "{not_money}");
        }
        for nanodollars in [0, 1, 999, 123_456_789_012, -5] {
            assert_eq!(from_cents(cents(nanodollars)), Some(nanodollars));
        }
    }

    #[test]
    fn prices_per_token_and_per_million_are_the_same() {
        // 2.50 dollars per million are 0.00025 cents a token.
        assert_eq!(price_from_cents(0.00025, 1_000_000), Some(2_500_000));
        assert_eq!(cents_per_unit(2_500_000, 1_000_000), 0.00025);
        // A cent a search are 10 dollars a thousand.
        assert_eq!(price_from_cents(1.0, 1_000), Some(10_000_000));
        assert_eq!(cents_per_unit(10_000_000, 1_000), 1.0);
        assert_eq!(price_from_dollars(0.08333333333333334), Some(83_333));
        assert_eq!(price_in_dollars(83_333), 0.083333);
        for not_a_price in [-0.1, f64::NAN, f64::INFINITY, 2e9] {
            assert_eq!(price_from_dollars(not_a_price), None, "{not_a_price}");
        }
    }
}
