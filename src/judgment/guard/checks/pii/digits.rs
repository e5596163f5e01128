//! Groups of digits as people write long numbers: `4111 1111 1111 1111`, `(555) 123-4567`, `192.0.2.1`.
//!
//! What such a number is, is decided in `card`, `ssn`, `phone` and `ip`.

use super::bytes::{Bytes, is_word};
use std::ops::Range;

/// A number has at most so many groups, and a group so many digits. What is longer is no number of a kind that is looked for.
pub const MAX_GROUPS: usize = 8;
const MAX_DIGITS: usize = 20;
/// The longest number with its separators and an extension.
pub const MAX: usize = 48;

/// One group of digits, and what stands between it and the one before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Group {
    pub start: usize,
    pub end: usize,
    pub gap: Gap,
}

/// What separates two groups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Gap {
    /// Nothing, at the first group.
    #[default]
    None,
    Space,
    Hyphen,
    Dot,
    Slash,
    /// A parenthesis, with or without a space or a hyphen.
    Parenthesis,
    /// Two or three separators.
    Mixed,
}

impl Gap {
    /// Whether the two groups are parts of one number: a space may also separate two numbers.
    pub fn joins(self) -> bool {
        matches!(self, Self::Hyphen | Self::Dot | Self::Slash)
    }
}

impl Group {
    pub fn len(self) -> usize {
        self.end - self.start
    }
}

/// The groups from the first digit of a number on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Digits<'a> {
    pub bytes: Bytes<'a>,
    groups: [Group; MAX_GROUPS],
    count: usize,
    /// Where the number begins: at a `+` or `(` in front of the first digit, where there is one.
    pub start: usize,
    pub has_plus: bool,
    pub has_parenthesis: bool,
}

impl<'a> Digits<'a> {
    /// Reads the groups from a digit on that no word character precedes. `None`: it is a part of a longer thing.
    pub fn read(bytes: Bytes<'a>, first: usize) -> Option<Self> {
        let mut start = first;
        let has_parenthesis = bytes.before(start) == b'(';
        start -= usize::from(has_parenthesis);
        let has_plus = bytes.before(start) == b'+';
        start -= usize::from(has_plus);
        let glue = bytes.before(start);
        let joins =
            matches!(glue, b'-' | b'.' | b'/' | b'+') && is_word(bytes.before(start.saturating_sub(1)));
        let is_glued = bytes.is_word_before(start) || joins;
        if is_glued {
            return None;
        }
        let mut digits = Self {
            bytes,
            groups: [Group::default(); MAX_GROUPS],
            count: 0,
            start,
            has_plus,
            has_parenthesis,
        };
        let mut at = first;
        let mut gap = Gap::None;
        for group in &mut digits.groups {
            let end = bytes.run(at, MAX_DIGITS, |byte| byte.is_ascii_digit());
            // An `x` begins an extension.
            if is_word(bytes.at(end)) && bytes.at(end) != b'x' || end == at {
                break;
            }
            *group = Group { start: at, end, gap };
            digits.count += 1;
            let next = bytes.run(end, 3, is_separator);
            if !bytes.at(next).is_ascii_digit() {
                break;
            }
            gap = gap_of(bytes.slice(end..next));
            at = next;
        }
        (digits.count > 0).then_some(digits)
    }

    pub fn groups(&self) -> &[Group] {
        self.groups.get(..self.count).unwrap_or_default()
    }

    /// The lengths of the first groups; 0 for what is no group.
    pub fn sizes(&self, count: usize) -> [usize; MAX_GROUPS] {
        let mut sizes = [0; MAX_GROUPS];
        for (size, group) in sizes.iter_mut().zip(self.groups().iter().take(count)) {
            *size = group.len();
        }
        sizes
    }

    /// Whether the number may end behind so many groups.
    pub(crate) fn ends_after(&self, count: usize) -> bool {
        self.groups().get(count).is_none_or(|next| !next.gap.joins())
    }

    pub fn end_of(&self, count: usize) -> usize {
        count.checked_sub(1).and_then(|last| self.groups().get(last)).map_or(self.start, |group| group.end)
    }

    /// The digits of the first groups.
    pub fn digits(&self, count: usize) -> impl DoubleEndedIterator<Item = u8> {
        let groups = self.groups().iter().take(count);
        groups.flat_map(|group| self.bytes.slice(group.start..group.end).iter().map(|byte| byte - b'0'))
    }

    pub(crate) fn digit_count(&self, count: usize) -> usize {
        self.groups().iter().take(count).map(|group| group.len()).sum()
    }

    /// The value of the first digits of the number.
    pub fn leading(&self, length: usize) -> u32 {
        self.digits(MAX_GROUPS).take(length).fold(0, |value, digit| value * 10 + u32::from(digit))
    }

    pub(crate) fn gaps(&self, count: usize) -> impl Iterator<Item = Gap> {
        self.groups().iter().take(count).skip(1).map(|group| group.gap)
    }

    /// The digits of the first groups with what separates them, without what precedes them.
    pub fn range(&self, count: usize) -> Range<usize> {
        self.groups().first().map_or(self.start, |group| group.start)..self.end_of(count)
    }
}

/// Whether more digits of a number may follow behind a group.
pub fn goes_on(bytes: Bytes<'_>, end: usize) -> bool {
    let next = bytes.at(end + 1);
    is_separator(bytes.at(end)) && (next.is_ascii_digit() || is_separator(next))
}

fn is_separator(byte: u8) -> bool {
    matches!(byte, b' ' | b'-' | b'.' | b'/' | b'(' | b')')
}

fn gap_of(separators: &[u8]) -> Gap {
    match separators {
        b" " => Gap::Space,
        b"-" => Gap::Hyphen,
        b"." => Gap::Dot,
        b"/" => Gap::Slash,
        b")" | b") " | b")-" | b" (" | b"(" => Gap::Parenthesis,
        _ => Gap::Mixed,
    }
}
