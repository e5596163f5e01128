//! Telephone numbers, by how they are written.
//!
//! With a `+` or `00` (ITU-T E.123), in the North American way (3-3-4), with an area code in parentheses or a trunk `0` and
//! separators. Other numbers of 7 to 12 digits are telephone numbers only where the text before them says so ("call me at"):
//! most numbers are not.

use super::digits::{Digits, Gap};
use std::ops::Range;

/// ITU-T E.164: the longest number.
const MAX_DIGITS: usize = 15;

/// `is_announced`: the text before the number says that it is one.
pub fn phone(digits: &Digits<'_>, is_announced: bool) -> Option<Range<usize>> {
    let count = international(digits)
        .or_else(|| north_american(digits))
        .or_else(|| with_area_code(digits))
        .or_else(|| with_trunk_prefix(digits))
        .or_else(|| if is_announced { announced(digits) } else { None })?;
    let end = digits.end_of(count);
    Some(start_of(digits)..end + extension(digits, end))
}

/// A parenthesis in front belongs to the number only where it closes inside of it.
fn start_of(digits: &Digits<'_>) -> usize {
    let closes = digits.gaps(3).any(|gap| gap == Gap::Parenthesis);
    digits.start + usize::from(digits.has_parenthesis && !closes && !digits.has_plus)
}

/// The most groups that make no more than `max` digits and end where the number may end.
fn groups_up_to(digits: &Digits<'_>, max: usize) -> Option<usize> {
    let mut counts = (1..=digits.groups().len()).rev();
    counts.find(|count| digits.digit_count(*count) <= max && digits.ends_after(*count))
}

fn international(digits: &Digits<'_>) -> Option<usize> {
    let is_dialled = digits.leading(2) == 0 && digits.groups().len() > 1 && digits.leading(3) > 0;
    let (min, max) = match (digits.has_plus, is_dialled) {
        (true, _) => (8, MAX_DIGITS),
        (_, true) => (11, MAX_DIGITS + 2),
        _ => return None,
    };
    let count = groups_up_to(digits, max)?;
    (digits.digit_count(count) >= min && !has_slash(digits, count)).then_some(count)
}

/// `NNN-NNN-NNNN`, also with the country's 1 in front of it.
fn north_american(digits: &Digits<'_>) -> Option<usize> {
    let (first, count) = match digits.sizes(4) {
        [3, 3, 4, ..] => (0, 3),
        [1, 3, 3, 4, ..] if digits.leading(1) == 1 => (1, 4),
        _ => return None,
    };
    let groups = digits.groups().get(first..count)?;
    let [area, exchange, line] = groups else { return None };
    let is_area = (b'2'..=b'9').contains(&digits.bytes.at(area.start));
    let is_written_so = match (exchange.gap, line.gap) {
        (Gap::Parenthesis, Gap::Hyphen | Gap::Space | Gap::Dot) => true,
        (Gap::Hyphen, Gap::Hyphen) | (Gap::Dot, Gap::Dot) | (Gap::Slash, Gap::Hyphen) => true,
        (Gap::Space, Gap::Space | Gap::Hyphen) => is_area,
        _ => false,
    };
    (is_written_so && digits.ends_after(count)).then_some(count)
}

/// `(NN) NNNN-NNNN` and the like.
fn with_area_code(digits: &Digits<'_>) -> Option<usize> {
    let [area, next, ..] = digits.groups() else { return None };
    let is_area = digits.has_parenthesis && (2..=5).contains(&area.len()) && next.gap == Gap::Parenthesis;
    let count = groups_up_to(digits, 12)?;
    (is_area && next.len() >= 3 && digits.digit_count(count) >= 9 && !has_slash(digits, count))
        .then_some(count)
}

/// `0NN NNNN NNNN`: a trunk prefix and separators.
fn with_trunk_prefix(digits: &Digits<'_>) -> Option<usize> {
    let begins = digits.leading(1) == 0 && digits.leading(2) > 0;
    let count = groups_up_to(digits, 11)?;
    let sizes = digits.sizes(count);
    // Postal codes, dates and decimal fractions begin with 0 too.
    let is_other = matches!(sizes, [5, 4, 0, ..] | [2, 2, 4, ..] | [1, ..] | [2, 2, 2, 0, ..]);
    let fits = begins && count > 1 && (9..=11).contains(&digits.digit_count(count));
    (fits && !is_other && !has_slash(digits, count)).then_some(count)
}

/// Any number of 7 to 12 digits after words that announce it.
fn announced(digits: &Digits<'_>) -> Option<usize> {
    let count = groups_up_to(digits, 12)?;
    let sizes = digits.sizes(count);
    let is_date = matches!(sizes, [4, 2, 2, ..] | [2, 2, 4, ..]) && digits.gaps(3).all(Gap::joins);
    let fits = digits.digit_count(count) >= 7 && !is_date && !has_slash(digits, count);
    fits.then_some(count)
}

fn has_slash(digits: &Digits<'_>, count: usize) -> bool {
    digits.gaps(count).any(|gap| matches!(gap, Gap::Slash))
}

/// How many bytes an extension takes behind the number: `x123`, ` ext. 123`.
fn extension(digits: &Digits<'_>, end: usize) -> usize {
    let mark = ["x", " x", " ext. ", " ext ", " ext.", " extension "]
        .into_iter()
        .find(|mark| digits.bytes.starts_with(end, mark.as_bytes()));
    let Some(mark) = mark else { return 0 };
    let digits_end = digits.bytes.run(end + mark.len(), 6, |byte| byte.is_ascii_digit());
    match digits_end - end - mark.len() {
        0 => 0,
        length => mark.len() + length,
    }
}

#[cfg(test)]
mod tests {
    use super::super::bytes::Bytes;
    use super::*;

    fn found(text: &str) -> Option<&str> {
        let first = text.find(|c: char| c.is_ascii_digit()).unwrap();
        let is_announced = text.starts_with("call");
        phone(&Digits::read(Bytes(text.as_bytes()), first)?, is_announced).and_then(|range| text.get(range))
    }

    #[test]
    fn numbers_as_they_are_written() {
        for number in [
            "+1 415 555 2671",
            "+41 (0)51 295 89 65",
            "+442071838750",
            "001-878-458-8424",
            "(555) 123-4567",
            "(711)471-0497",
            "555-123-4567",
            "555.123.4567",
            "415 555 2671",
            "1-800-555-0199",
            "(031)951-0392x4517",
            "555-123-4567 ext. 12",
            "020 7946 0958",
            "0496 46 46 70",
            "03.91.12.17.13",
            "046-8275895",
            "(07700) 154728",
            "(51) 9668-9224",
        ] {
            assert_eq!(found(&format!("at {number}, or")), Some(number), "{number}");
        }
    }

    #[test]
    fn other_numbers_only_where_the_text_announces_them() {
        assert_eq!(found("call me at 9380 6377"), Some("9380 6377"));
        assert_eq!(found("call 07289025797."), Some("07289025797"));
        assert_eq!(found("invoice 5551234567"), None);
    }

    #[test]
    fn what_is_no_telephone_number() {
        for text in [
            "2024-01-15",
            "01.02.2020 12",
            "01-02-2020",
            "0.123456789",
            "02134-1234",
            "call on 2024-01-15 10:00",
            "1234567890",
            "1,234,567,890",
            "3.14159265358979",
            "10 20 30 40",
            "call 12",
            "555-123-4567-8",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }
}
