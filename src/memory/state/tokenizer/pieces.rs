//! A text in pieces, as OpenAI's tokenizer cuts it before it looks for tokens: words with the space before them, numbers of up to
//! three digits, signs, white space.
//!
//! Not the tokens of a piece (`merger`).

use regex_automata::meta::{BuildError, Regex};
use regex_automata::{Anchored, Input};

/// The pattern of `o200k_base` (tiktoken, `tiktoken_ext/openai_public.py`), in three. Its `\s+(?!\S)` looks ahead, which this
/// engine does not do: the second pattern takes one character of white space too many, which [`Pieces::next`] gives back.
const PATTERNS: [&str; 3] = [
    concat!(
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
        r"\p{N}{1,3}|",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*|",
        r"\s*[\r\n]+|",
        r"\s+$",
    ),
    r"\s+\s",
    r"\s+",
];
/// The longest piece, bytes. OpenAI's have any length; a cut costs a token or two, and the memory that a text takes stays small.
const MAX_PIECE: usize = 64 << 10;
/// The one that takes a character too many.
const LOOKS_AHEAD: usize = 1;

#[derive(Debug)]
pub(super) struct Cutter(Regex);

impl Cutter {
    /// # Errors
    /// None, as a test proves.
    pub fn o200k_base() -> Result<Self, Box<BuildError>> {
        Regex::new_many(&PATTERNS).map(Self).map_err(Box::new)
    }

    pub fn pieces<'a>(&'a self, text: &'a str) -> Pieces<'a> {
        Pieces { pattern: &self.0, rest: text }
    }
}

pub(super) struct Pieces<'a> {
    pattern: &'a Regex,
    rest: &'a str,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() {
            return None;
        }
        let found = self.pattern.find(Input::new(self.rest).anchored(Anchored::Yes));
        // The patterns take every text; if one did not, the rest would be one piece.
        let mut end = found.as_ref().map_or(self.rest.len(), |found| found.end());
        if found.is_some_and(|found| found.pattern().as_usize() == LOOKS_AHEAD) {
            let last = self.rest.get(..end).and_then(|piece| piece.chars().next_back());
            end -= last.map_or(0, char::len_utf8);
        }
        if end > MAX_PIECE {
            end = self.rest.floor_char_boundary(MAX_PIECE);
        }
        let (piece, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_as_openai_does() {
        let cutter = Cutter::o200k_base().unwrap();
        for (text, wanted) in [
            ("Hello world's 12345", vec!["Hello", " world's", " ", "123", "45"]),
            ("a   b\n\n  c  ", vec!["a", "  ", " b", "\n\n", " ", " c", "  "]),
            ("fooBAR://x\r\ny", vec!["foo", "BAR", "://", "x", "\r\n", "y"]),
            ("Straße \u{301}é 日本", vec!["Straße", " \u{301}é", " 日本"]),
            ("", vec![]),
        ] {
            assert_eq!(cutter.pieces(text).collect::<Vec<_>>(), wanted, "{text:?}");
        }
        let long = "é".repeat(MAX_PIECE);
        assert_eq!(cutter.pieces(&long).map(str::len).collect::<Vec<_>>(), [MAX_PIECE; 2]);
    }
}
