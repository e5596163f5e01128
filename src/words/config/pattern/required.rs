//! Bytes of which every match of a pattern has one: a text without them has no match, and need not be read byte by byte.
//!
//! Only a quick no, found with `memchr`; whether there is a match is not decided here (`search`).

use regex_syntax::hir::{Class, Hir, HirKind};

/// The most bytes that are looked for at once.
const MAX_BYTES: usize = 3;

/// One to three bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RequiredBytes(Vec<u8>);

impl RequiredBytes {
    /// The rarest ones; `None` where a match may do without any few bytes.
    pub fn of(hir: &Hir) -> Option<Self> {
        let bytes = match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => None,
            HirKind::Literal(literal) => {
                literal.0.iter().min_by_key(|byte| frequency(**byte)).map(|byte| vec![*byte])
            }
            HirKind::Class(class) => few(class),
            HirKind::Repetition(repetition) if repetition.min > 0 => return Self::of(&repetition.sub),
            HirKind::Repetition(_) => None,
            HirKind::Capture(capture) => return Self::of(&capture.sub),
            HirKind::Concat(parts) => {
                let parts = parts.iter().filter_map(Self::of);
                return parts.min_by_key(Self::frequency);
            }
            HirKind::Alternation(choices) => {
                let choices: Option<Vec<Self>> = choices.iter().map(Self::of).collect();
                let mut bytes: Vec<u8> = choices?.into_iter().flat_map(|choice| choice.0).collect();
                bytes.sort_unstable();
                bytes.dedup();
                Some(bytes)
            }
        };
        bytes.filter(|bytes| (1..=MAX_BYTES).contains(&bytes.len())).map(Self)
    }

    /// Whether the text has one of them.
    pub fn is_in(&self, text: &[u8]) -> bool {
        match *self.0.as_slice() {
            [one] => memchr::memchr(one, text).is_some(),
            [one, two] => memchr::memchr2(one, two, text).is_some(),
            [one, two, three] => memchr::memchr3(one, two, three, text).is_some(),
            _ => true,
        }
    }

    fn frequency(&self) -> u32 {
        self.0.iter().map(|byte| frequency(*byte)).sum()
    }
}

/// The bytes of a class of a few characters of ASCII.
fn few(class: &Class) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut add = |start: u32, end: u32| {
        let fits = end < 128 && (end - start) as usize + bytes.len() < MAX_BYTES;
        // Less than 128.
        bytes.extend((start..=end).take(MAX_BYTES).map(|byte| byte as u8));
        fits
    };
    let fits = match class {
        Class::Unicode(class) => class.iter().all(|range| add(range.start().into(), range.end().into())),
        Class::Bytes(class) => class.iter().all(|range| add(range.start().into(), range.end().into())),
    };
    fits.then_some(bytes)
}

/// How often a byte stands in texts, roughly.
const fn frequency(byte: u8) -> u32 {
    match byte {
        b'e' | b't' | b'a' | b'o' | b'i' | b'n' | b's' | b'r' | b' ' => 16,
        b'a'..=b'z' => 8,
        b'A'..=b'Z' | b'0'..=b'9' | b'.' | b',' | b'\n' => 4,
        128..=255 => 3,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pattern: &str) -> Option<String> {
        let hir =
            regex_syntax::ParserBuilder::new().unicode(false).utf8(false).build().parse(pattern).unwrap();
        RequiredBytes::of(&hir).map(|bytes| String::from_utf8(bytes.0).unwrap())
    }

    #[test]
    fn the_rarest_bytes_of_every_match_are_found() {
        for (pattern, wanted) in [
            ("abc", Some("b")),
            (r"\b\d{3}-\d{2}\b", Some("-")),
            (r"[\w.]+@[\w-]+\.[a-z]+", Some("@")),
            ("https?://x", Some(":")),
            ("(?i)ab", Some("Bb")),
            ("(a#)+|b?!", Some("!#")),
            ("a*", None),
            ("(x?)*", None),
            ("[a-z]+", None),
            ("a|b|c|d", None),
            ("a|", None),
            ("^$", None),
            ("", None),
        ] {
            assert_eq!(of(pattern).as_deref(), wanted, "{pattern}");
        }
        let bytes = RequiredBytes(b"-!".to_vec());
        assert!(bytes.is_in(b"a-b") && !bytes.is_in(b"a b") && !bytes.is_in(b""));
    }
}
