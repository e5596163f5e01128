//! Escapes of lone surrogates (`\ud800` without its other half): grammar of JSON, but no character.
//!
//! Readers differ: serde refuses them, others take them as U+FFFD or drop them. Who must read a text that another program will read as well
//! reads it as U+FFFD. Not for texts that are passed on: these keep their bytes.

use std::borrow::Cow;

/// The same JSON with `\ufffd` in place of every lone surrogate. It has the same length, so places in one are places in the other.
pub fn replaced(text: &str) -> Cow<'_, str> {
    let mut out: Option<Vec<u8>> = None;
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr::memchr(b'\\', rest)) {
        let escape = at + found;
        at = escape + 2;
        let Some(unit) = unit(bytes, escape) else { continue };
        at = escape + 6;
        match unit {
            0xd800..=0xdbff if matches!(self::unit(bytes, at), Some(0xdc00..=0xdfff)) => at += 6,
            0xd800..=0xdfff => {
                let out = out.get_or_insert_with(|| bytes.to_vec());
                if let Some(place) = out.get_mut(escape..at) {
                    place.copy_from_slice(b"\\ufffd");
                }
            }
            _ => {}
        }
    }
    // ASCII was replaced by ASCII, so it is still UTF-8.
    out.and_then(|out| String::from_utf8(out).ok()).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// The number of the escape `\uXXXX` that begins at `at`.
fn unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |unit: u16, digit| Some(unit << 4 | char::from(*digit).to_digit(16)? as u16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lone_halves_become_replacement_characters_of_the_same_length() {
        for (text, wanted) in [
            (r#"{"a\ud800":"\uDC00 my \ud83d"}"#, r#"{"a\ufffd":"\ufffd my \ufffd"}"#),
            (r#""\ud800\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\ud83d\\ude00""#, r#""\ufffd\\ude00""#),
            (r#""\udc00\ud800""#, r#""\ufffd\ufffd""#),
            (r#""\ud83d\n""#, r#""\ufffd\n""#),
        ] {
            assert_eq!(replaced(text), wanted);
            assert!(serde_json::from_str::<serde_json::Value>(&replaced(text)).is_ok(), "{text}");
        }
    }

    #[test]
    fn other_texts_are_not_copied() {
        for text in ["", "\\", r"\u", r"\ud8", r#""\ud83d\ude00 \\ud800 \" é 😀 \u00e9""#] {
            assert!(matches!(replaced(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }
}
