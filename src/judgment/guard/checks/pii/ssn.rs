//! Social security numbers of the United States: `AAA-GG-SSSS`, in ranges that are given out
//! (<https://www.ssa.gov/employer/randomization.html>).
//!
//! Nine digits without separators are one only where the text before them names it: any nine digits would do.

use super::digits::{Digits, Gap};
use std::ops::Range;

/// `is_announced`: the text before the number says that it is one.
pub(crate) fn ssn(digits: &Digits<'_>, is_announced: bool) -> Option<Range<usize>> {
    let sizes = digits.sizes(4);
    let count = match sizes {
        [3, 2, 4, ..] if is_separated(digits) => 3,
        [9, ..] if is_announced => 1,
        _ => return None,
    };
    let number = digits.leading(9);
    let area = number / 1_000_000;
    let group = number / 10_000 % 100;
    let serial = number % 10_000;
    let is_given_out = !matches!(area, 0 | 666 | 900..) && group != 0 && serial != 0;
    // Numbers from advertisements, which are nobody's.
    let is_sample = matches!(number, 78_051_120 | 219_099_999 | 123_456_789);
    let fits = is_given_out && !is_sample && digits.ends_after(count) && !digits.has_plus;
    fits.then(|| digits.range(count))
}

fn is_separated(digits: &Digits<'_>) -> bool {
    let mut gaps = digits.gaps(3);
    let gap = gaps.next().unwrap_or_default();
    matches!(gap, Gap::Hyphen | Gap::Space) && gaps.all(|other| other == gap)
}

#[cfg(test)]
mod tests {
    use super::super::bytes::Bytes;
    use super::*;

    fn found(text: &str) -> Option<&str> {
        let first = text.find(|c: char| c.is_ascii_digit()).unwrap();
        ssn(&Digits::read(Bytes(text.as_bytes()), first)?, text.starts_with("Social"))
            .and_then(|range| text.get(range))
    }

    #[test]
    fn numbers_in_the_ranges_that_are_given_out() {
        assert_eq!(found("my SSN is 536-90-4399."), Some("536-90-4399"));
        assert_eq!(found("536 90 4399"), Some("536 90 4399"));
        assert_eq!(found("Social Security number: 536904399"), Some("536904399"));
    }

    #[test]
    fn other_numbers() {
        for text in [
            "000-12-3456",
            "666-12-3456",
            "912-12-3456",
            "536-00-4399",
            "536-90-0000",
            "536-90 4399",
            "536-90-4399-1",
            "1-536-90-4399",
            "order 536904399",
            "078-05-1120",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }
}
