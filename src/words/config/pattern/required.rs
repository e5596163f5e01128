//! What every match of a pattern has: a text, or one of a few bytes. A text without that has no match, and need not be read byte by byte.
//!
//! Only a quick no, found with `memchr`; whether there is a match is not decided here (`search`).

use memchr::memmem::Finder;
use regex_syntax::hir::{Class, Hir, HirKind};

/// The most bytes that are looked for at once.
const MAX_BYTES: usize = 3;
/// So that frequencies can be divided by the length of a text.
const SCALE: u32 = 1 << 10;

/// What every match has.
#[derive(Debug, Clone)]
pub(super) enum Required {
    /// This text.
    Text(Box<Finder<'static>>),
    /// One of one to three bytes.
    Bytes(Vec<u8>),
}

impl Required {
    /// The rarest of what every match has; `None` where a match may do without any few bytes.
    pub fn of(hir: &Hir) -> Option<Self> {
        let bytes = match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => None,
            HirKind::Literal(literal) => return Some(Self::text(&literal.0)),
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
                let mut bytes: Vec<u8> = choices?.into_iter().flat_map(Self::into_bytes).collect();
                bytes.sort_unstable();
                bytes.dedup();
                Some(bytes)
            }
        };
        bytes.filter(|bytes| (1..=MAX_BYTES).contains(&bytes.len())).map(Self::Bytes)
    }

    fn text(text: &[u8]) -> Self {
        Self::Text(Box::new(Finder::new(text).into_owned()))
    }

    /// Whether the text has it.
    pub fn is_in(&self, text: &[u8]) -> bool {
        match self {
            Self::Text(finder) => finder.find(text).is_some(),
            Self::Bytes(bytes) => match *bytes.as_slice() {
                [one] => memchr::memchr(one, text).is_some(),
                [one, two] => memchr::memchr2(one, two, text).is_some(),
                [one, two, three] => memchr::memchr3(one, two, three, text).is_some(),
                _ => true,
            },
        }
    }

    /// Bytes of which every match has one: of a text its rarest.
    fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Text(finder) => {
                finder.needle().iter().copied().min_by_key(|byte| frequency(*byte)).into_iter().collect()
            }
            Self::Bytes(bytes) => bytes,
        }
    }

    /// How often it stands in texts, roughly: of two texts, the longer one is rarer.
    fn frequency(&self) -> u32 {
        match self {
            Self::Text(finder) => {
                let rarest = finder.needle().iter().map(|byte| frequency(*byte)).min().unwrap_or_default();
                let length = u32::try_from(finder.needle().len()).unwrap_or(u32::MAX);
                rarest.saturating_mul(SCALE) / length.max(1)
            }
            Self::Bytes(bytes) => bytes.iter().map(|byte| frequency(*byte) * SCALE).sum(),
        }
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
        Required::of(&hir).map(|required| match required {
            Required::Text(finder) => format!("text {}", String::from_utf8_lossy(finder.needle())),
            Required::Bytes(bytes) => String::from_utf8(bytes).unwrap(),
        })
    }

    #[test]
    fn the_rarest_of_every_match_is_found() {
        for (pattern, wanted) in [
            ("abc", Some("text abc")),
            (r"\b\d{3}-\d{2}\b", Some("text -")),
            (r"[\w.]+@[\w-]+\.[a-z]+", Some("text @")),
            ("https?://x", Some("text ://x")),
            ("account number [0-9]{12}", Some("text account number ")),
            ("ea[0-9]#", Some("text #")),
            ("(?:ab|#c){2}[xy]", Some("#b")),
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
        let bytes = Required::Bytes(b"-!".to_vec());
        assert!(bytes.is_in(b"a-b") && !bytes.is_in(b"a b") && !bytes.is_in(b""));
        let text = Required::text(b"-!");
        assert!(text.is_in(b"a-!") && !text.is_in(b"a-b!") && !text.is_in(b""));
    }
}
