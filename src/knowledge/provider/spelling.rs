//! Finds a text where a writer of JSON or of URLs may have escaped some of its characters.
//!
//! `+` may stand as `\u002b` or `%2B`, a solidus as `\/`. Pure: what is done with the place is the caller's business.

use memchr::memmem;
use std::ops::Range;

/// The most bytes that one byte of a text is spelled with: `\u002b`.
pub(super) const LONGEST: usize = 6;

/// Where `wanted` is first found in `text`, spelled in any way. `wanted` is not empty.
pub(super) fn find(text: &[u8], wanted: &[u8]) -> Option<Range<usize>> {
    let plain = memmem::find(text, wanted).map(|at| at..at + wanted.len());
    // Most texts have nothing escaped.
    let Some(escaped) = memchr::memchr2(b'\\', b'%', text) else { return plain };
    // Nothing that begins more than a whole spelling before the first escape contains it.
    let from = escaped.saturating_sub(wanted.len());
    let until = plain.as_ref().map_or(text.len(), |plain| plain.start);
    let spelled = (from..until).find_map(|at| {
        let length = length_of(text.get(at..)?, wanted)?;
        Some(at..at + length)
    });
    spelled.or(plain)
}

/// The length of `wanted` as `text` begins with it.
fn length_of(text: &[u8], wanted: &[u8]) -> Option<usize> {
    let mut rest = text;
    for byte in wanted {
        let (found, length) = first(rest)?;
        if found != *byte {
            return None;
        }
        rest = rest.get(length..)?;
    }
    Some(text.len() - rest.len())
}

/// The byte that a text begins with, and how many bytes spell it.
fn first(text: &[u8]) -> Option<(u8, usize)> {
    match *text {
        [b'\\', b'u', b'0', b'0', high, low, ..] => Some((hex(high, low)?, 6)),
        [b'\\', escaped @ (b'"' | b'\\' | b'/'), ..] => Some((escaped, 2)),
        [b'%', high, low, ..] => Some(hex(high, low).map_or((b'%', 1), |byte| (byte, 3))),
        [byte, ..] => Some((byte, 1)),
        [] => None,
    }
}

fn hex(high: u8, low: u8) -> Option<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok().filter(u8::is_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_however_it_is_spelled() {
        for (text, wanted, found) in [
            ("a key+1.", "key+1", Some(2..7)),
            (r"a key\u002b1.", "key+1", Some(2..12)),
            ("a k%65y%2B1.", "key+1", Some(2..11)),
            (r"\u006B\u0065\u0079+1", "key+1", Some(0..20)),
            (r"\\ key+1", "key+1", Some(3..8)),
            (r#"a\"b\\c\/d"#, r#"a"b\c/d"#, Some(0..10)),
            ("100% key+1", "key+1", Some(5..10)),
            ("key%2", "key+1", None),
            (r"key\u002", "key+1", None),
            ("", "key+1", None),
        ] {
            assert_eq!(find(text.as_bytes(), wanted.as_bytes()), found, "{text}");
        }
    }
}
