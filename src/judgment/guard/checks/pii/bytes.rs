//! The bytes of a text by position: what lies outside reads as 0, which is no part of anything that is looked for.

use std::ops::Range;

#[derive(Debug, Clone, Copy)]
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub fn at(self, position: usize) -> u8 {
        self.0.get(position).copied().unwrap_or_default()
    }

    /// The byte in front of a position.
    pub fn before(self, position: usize) -> u8 {
        position.checked_sub(1).map_or(0, |position| self.at(position))
    }

    /// Whether the two bytes from a position on are a line break or a tab as JSON and code write it: `\\n`.
    pub fn is_escape(self, position: usize) -> bool {
        self.at(position) == b'\\' && matches!(self.at(position + 1), b'n' | b'r' | b't')
    }

    /// Whether no boundary lies in front of a position: a word goes on there.
    pub(crate) fn is_word_before(self, position: usize) -> bool {
        is_word(self.before(position))
            && !position.checked_sub(2).is_some_and(|escape| self.is_escape(escape))
    }

    pub fn slice(self, range: Range<usize>) -> &'a [u8] {
        self.0.get(range).unwrap_or_default()
    }

    pub fn starts_with(self, position: usize, prefix: &[u8]) -> bool {
        self.0.get(position..).is_some_and(|rest| rest.starts_with(prefix))
    }

    /// The end of the run of such bytes from a position on, after `max` bytes at the latest.
    pub fn run(self, from: usize, max: usize, is: impl Fn(u8) -> bool) -> usize {
        let rest = self.0.get(from..).unwrap_or_default();
        from + rest.iter().take(max).take_while(|byte| is(**byte)).count()
    }

    /// Whether one of some lower-case phrases stands in the last bytes before a position, whatever its case.
    pub(crate) fn has_before(self, position: usize, distance: usize, phrases: &[&str]) -> bool {
        let near = self.slice(position.saturating_sub(distance)..position);
        phrases
            .iter()
            .any(|phrase| near.windows(phrase.len()).any(|part| part.eq_ignore_ascii_case(phrase.as_bytes())))
    }
}

/// Bytes of names and numbers: no boundary lies between two of them.
pub const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
