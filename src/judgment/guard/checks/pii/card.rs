//! Payment cards: a number range of a card scheme (ISO/IEC 7812), its length, and the check digit by Luhn's formula.
//!
//! One number in ten of these ranges and lengths has a right check digit by chance.

use super::digits::{Digits, Gap, MAX_GROUPS};
use std::ops::Range;

pub fn card(digits: &Digits<'_>) -> Option<Range<usize>> {
    let counts = (1..=digits.groups().len()).rev();
    let mut fitting = counts.filter(|count| is_card(digits, *count));
    fitting.next().map(|count| digits.range(count))
}

fn is_card(digits: &Digits<'_>, count: usize) -> bool {
    let length = digits.digit_count(count);
    if !(12..=19).contains(&length) || !digits.ends_after(count) || digits.has_plus {
        return false;
    }
    let mut gaps = digits.gaps(count);
    let gap = gaps.next().unwrap_or_default();
    let sizes = digits.sizes(count);
    let is_written_so = matches!(gap, Gap::None | Gap::Space | Gap::Hyphen)
        && gaps.all(|other| other == gap)
        && (count == 1 || sizes.iter().take(count).all(|size| (2..=6).contains(size)) && count <= 6);
    is_written_so && is_issued(digits.leading(4), length) && has_check_digit(digits, count)
}

/// Whether a scheme gives out numbers that begin so and have that length.
fn is_issued(leading: u32, length: usize) -> bool {
    match leading {
        4000..=4999 => matches!(length, 13 | 16 | 19),
        2221..=2720 | 5100..=5599 => length == 16,
        3400..=3499 | 3700..=3799 => length == 15,
        3000..=3059 | 3600..=3699 | 3800..=3999 | 3095 => (14..=19).contains(&length),
        3500..=3599 => (16..=19).contains(&length),
        1800 | 2131 => length == 15,
        6011 | 6440..=6599 | 6200..=6299 | 8100..=8171 | 2200..=2204 => (16..=19).contains(&length),
        5000..=5099 | 5600..=5899 | 6000..=6999 => (12..=19).contains(&length),
        _ => false,
    }
}

/// Luhn's formula (ISO/IEC 7812-1, annex B). A number of one digit repeated is none.
fn has_check_digit(digits: &Digits<'_>, count: usize) -> bool {
    let sum: u32 = digits
        .digits(count.min(MAX_GROUPS))
        .rev()
        .enumerate()
        .map(|(index, digit)| match (index % 2, u32::from(digit)) {
            (0, digit) => digit,
            (_, digit) if digit > 4 => digit * 2 - 9,
            (_, digit) => digit * 2,
        })
        .sum();
    let mut all = digits.digits(count);
    let first = all.next();
    sum.is_multiple_of(10) && !all.all(|digit| Some(digit) == first)
}

#[cfg(test)]
mod tests {
    use super::super::bytes::Bytes;
    use super::*;

    fn found(text: &str) -> Option<&str> {
        let first = text.find(|c: char| c.is_ascii_digit()).unwrap();
        card(&Digits::read(Bytes(text.as_bytes()), first)?).and_then(|range| text.get(range))
    }

    #[test]
    fn the_test_numbers_of_the_schemes_are_cards() {
        for number in [
            "4111111111111111",
            "4012-8888-8888-1881",
            "5555 5555 5555 4444",
            "2223003122003222",
            "378282246310005",
            "3782 822463 10005",
            "6011111111111117",
            "30569309025904",
            "3530111333300000",
            "6200000000000005",
            "4222222222222",
        ] {
            assert_eq!(found(&format!("card {number}, and")), Some(number), "{number}");
        }
        assert_eq!(found("4111 1111 1111 1111 12/27"), Some("4111 1111 1111 1111"));
    }

    #[test]
    fn a_wrong_check_digit_a_foreign_range_or_a_longer_number_is_none() {
        for text in [
            "4111111111111112",
            "4111-1111-1111-1112",
            "1234567890123452",
            "0000000000000000",
            "41111111111111111111111",
            "4111-1111-1111-1111-2",
            "a4111111111111111",
            "1-4111111111111111",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }
}
