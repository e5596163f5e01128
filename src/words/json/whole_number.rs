//! A whole number as the least strict reader takes it: `20`, `20.0`, `2e1`, `"20"`.
//!
//! For what must not be less than a provider takes it for. Not for checking requests (`api::rules`).

/// As many digits as always fit.
const MAX_PLAIN: usize = 18;

/// The number, a fraction rounded up. `None` for what no reader takes for a number that is not negative.
pub(crate) fn whole_number(json: &[u8]) -> Option<u64> {
    if !json.is_empty() && json.len() <= MAX_PLAIN && json.iter().all(u8::is_ascii_digit) {
        return Some(json.iter().fold(0, |number, digit| 10 * number + u64::from(digit & 0xf)));
    }
    let text = std::str::from_utf8(json).ok()?;
    let text = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text).trim();
    if let Ok(number) = text.parse::<u64>() {
        return Some(number);
    }
    let number: f64 = text.parse().ok()?;
    // A cast saturates.
    (number >= 0.0 && number.is_finite()).then(|| number.ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_number_is_read() {
        for (json, number) in [
            ("20", Some(20)),
            ("20.0", Some(20)),
            ("19.1", Some(20)),
            ("2e1", Some(20)),
            ("\"20\"", Some(20)),
            ("\" 20.0 \"", Some(20)),
            ("0", Some(0)),
            ("", None),
            ("999999999999999999", Some(999_999_999_999_999_999)),
            ("9999999999999999999", Some(9_999_999_999_999_999_999)),
            ("-0.0", Some(0)),
            ("1e30", Some(u64::MAX)),
            ("18446744073709551616", Some(u64::MAX)),
            ("-1", None),
            ("\"many\"", None),
            ("\"inf\"", None),
            ("null", None),
            ("true", None),
            ("[20]", None),
            ("\"", None),
        ] {
            assert_eq!(whole_number(json.as_bytes()), number, "{json}");
        }
    }
}
