//! A JSON string that borrows from its source if it contains no escapes.
//!
//! The newtype is needed because serde borrows a bare `Cow` only; in an `Option` or a list it would copy.

use serde::de::{Deserialize, Deserializer, Error, Visitor};
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
