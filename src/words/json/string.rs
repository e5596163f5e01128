//! A JSON string that borrows from its source if it contains no escapes.
//!
//! The newtype is needed because serde borrows a bare `Cow` only; in an `Option` or a list it would copy.

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

/// A JSON string, borrowed where possible.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JsonStr<'a>(pub Cow<'a, str>);

impl Deref for JsonStr<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'a> From<&'a str> for JsonStr<'a> {
    fn from(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

impl Serialize for JsonStr<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for JsonStr<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Borrow;
        impl<'de> Visitor<'de> for Borrow {
            type Value = JsonStr<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<JsonStr<'de>, E> {
                Ok(JsonStr(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<JsonStr<'de>, E> {
                Ok(JsonStr(Cow::Owned(text.to_owned())))
            }

            fn visit_string<E: Error>(self, text: String) -> Result<JsonStr<'de>, E> {
                Ok(JsonStr(Cow::Owned(text)))
            }
        }
        deserializer.deserialize_str(Borrow)
    }
}

/// The text of a JSON string; `None` if the value is something else.
pub fn unquote(raw: &[u8]) -> Option<Cow<'_, str>> {
    let inside = raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if memchr::memchr(b'\\', inside).is_none() {
        return std::str::from_utf8(inside).ok().map(Cow::Borrowed);
    }
    serde_json::from_slice(raw).ok().map(|JsonStr(text)| text)
}

/// The beginning of the text of a JSON string, at most `max` bytes, and whether that is all of it. `raw` begins with the
/// string's quote and may go on behind its end. Reads no more than it returns; a text that is no valid string has an
/// empty beginning.
pub fn beginning(raw: &[u8], max: usize) -> (Cow<'_, str>, bool) {
    let rest = raw.get(1..).unwrap_or_default();
    let Some((end, whole)) = cut(rest, max) else { return ("".into(), false) };
    let inside = rest.get(..end).unwrap_or_default();
    if memchr::memchr(b'\\', inside).is_none() {
        return std::str::from_utf8(inside).map_or(("".into(), false), |text| (text.into(), whole));
    }
    let quoted = [b"\"", inside, b"\""].concat();
    let Ok(mut text) = serde_json::from_slice::<String>(&quoted) else { return ("".into(), false) };
    let end = text.floor_char_boundary(max);
    let whole = whole && end == text.len();
    text.truncate(end);
    (text.into(), whole)
}

/// Where to cut a string of which at most `max` bytes are wanted, and whether that is its end. Each escape is counted as
/// one byte, so the cut is late rather than early.
fn cut(rest: &[u8], max: usize) -> Option<(usize, bool)> {
    let mut at = 0;
    let mut len = 0;
    loop {
        // One byte more, since the quote may follow.
        let behind = rest.len().min(at + (max - len) + 1);
        let Some(found) = memchr::memchr2(b'"', b'\\', rest.get(at..behind)?) else {
            let end = at + (max - len);
            // Not between the bytes of a character.
            let inner =
                rest.get(..=end)?.iter().rev().take_while(|byte| (0x80..0xc0).contains(*byte)).count();
            return Some((end - inner, false));
        };
        (at, len) = (at + found, len + found);
        if rest.get(at) == Some(&b'"') {
            return Some((at, true));
        }
        if len >= max {
            return Some((at, false));
        }
        // The first of two escapes that form one character together.
        let is_high = matches!(
            rest.get(at + 1..at + 4),
            Some([b'u', b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B'])
        );
        at += match rest.get(at + 1)? {
            b'u' if is_high => 12,
            b'u' => 6,
            _ => 2,
        };
        len += 1;
    }
}
