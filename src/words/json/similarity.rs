//! Proves JSON text valid by comparing it with the last text that was parsed: if only plain characters in one string
//! differ, it is valid too.
//!
//! Most events of a stream differ only in such a string, and parsing each of them would cost more than everything else
//! that is done with it. Text that is not similar is parsed; it is not invalid for that.
//!
//! ```text
//! {"delta":{"content":"Hel"}}    parsed
//! {"delta":{"content":"lo wo"}}  parsed; it differs from the last one in one string: the variable part
//! {"delta":{"content":"rld"}}    the same around the variable part: valid without parsing
//! {"delta":{"content":"a\"b"}}   a backslash in the variable part: parsed
//! ```

use serde::de::IgnoredAny;

/// After this many texts that were not similar, no more are learned.
const MAX_MISSES: u8 = 16;

/// A text that was proven valid, with a variable part inside one of its strings.
#[derive(Debug, Default)]
pub struct SimilarJson {
    text: Vec<u8>,
    /// Where the variable part begins and ends; `None` before two texts were learned.
    variable: Option<(usize, usize)>,
    misses: u8,
}

impl SimilarJson {
    /// Whether `text` is JSON: by comparison where that proves it, otherwise by parsing.
    pub fn is_valid(&mut self, text: &[u8]) -> bool {
        if self.is_similar(text) {
            return true;
        }
        let valid = serde_json::from_slice::<IgnoredAny>(text).is_ok();
        if valid && self.misses < MAX_MISSES {
            self.learn(text);
        }
        valid
    }

    /// Whether `text` equals the proven one around the variable part, and has only plain characters in it.
    fn is_similar(&self, text: &[u8]) -> bool {
        let Some((from, to)) = self.variable else { return false };
        let (Some(before), Some(after)) = (self.text.get(..from), self.text.get(to..)) else { return false };
        let middle = text.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
        middle.is_some_and(is_plain)
    }

    /// Remembers a text that was proven valid by parsing.
    fn learn(&mut self, text: &[u8]) {
        self.misses += 1;
        self.variable = variable_span(&self.text, text);
        self.text.clear();
        self.text.extend_from_slice(text);
    }
}

/// The string of `text` in which `other` begins to differ, without its quotes; `None` unless it is plain.
fn variable_span(other: &[u8], text: &[u8]) -> Option<(usize, usize)> {
    let same = text.iter().zip(other).take_while(|(one, two)| one == two).count();
    let from = open_string(text.get(..same)?)?;
    let to = from + memchr::memchr(b'"', text.get(from..)?)?;
    is_plain(text.get(from..to)?).then_some((from, to))
}

/// In the beginning of a valid JSON text: where the string that is still open at its end begins, behind the quote.
fn open_string(part: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let start = at + memchr::memchr(b'"', part.get(at..)?)? + 1;
        let mut end = start;
        loop {
            let Some(found) = memchr::memchr2(b'"', b'\\', part.get(end..)?) else { return Some(start) };
            end += found;
            match part.get(end)? {
                b'"' => break,
                _ => end += 2,
            }
        }
        at = end + 1;
    }
}

/// Whether all characters stand for themselves in a JSON string.
fn is_plain(text: &[u8]) -> bool {
    let plain = |byte: &u8| *byte >= 0x20 && *byte != b'"' && *byte != b'\\';
    text.iter().all(plain) && std::str::from_utf8(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde::de::IgnoredAny;

    fn trained(texts: &[&str]) -> SimilarJson {
        let mut checker = SimilarJson::default();
        for text in texts {
            assert!(checker.is_valid(text.as_bytes()), "{text}");
        }
        checker
    }

    #[test]
    fn the_events_of_a_stream_are_similar() {
        let mut checker = trained(&[
            r#"{"id":"c-1","choices":[{"delta":{"role":"assistant","content":""}}]}"#,
            r#"{"id":"c-1","choices":[{"delta":{"content":" Hello"}}]}"#,
            r#"{"id":"c-1","choices":[{"delta":{"content":" there"}}]}"#,
        ]);
        for (text, similar, valid) in [
            (r#"{"id":"c-1","choices":[{"delta":{"content":"wörld, long and plain"}}]}"#, true, true),
            (r#"{"id":"c-1","choices":[{"delta":{"content":""}}]}"#, true, true),
            (r#"{"id":"c-1","choices":[{"delta":{"content":" a\"b"}}]}"#, false, true),
            (r#"{"id":"c-1","choices":[{"delta":{"content":" a"b"}}]}"#, false, false),
            (r#"{"id":"c-1","choices":[{"delta":{"content":" a\n"}}]}"#, false, true),
            ("{\"id\":\"c-1\",\"choices\":[{\"delta\":{\"content\":\" a\nb\"}}]}", false, false),
            (r#"{"id":"c-1","choices":[{"delta":{"content":" Hel"#, false, false),
            ("", false, false),
        ] {
            assert_eq!(checker.is_similar(text.as_bytes()), similar, "{text}");
            checker.misses = MAX_MISSES;
            assert_eq!(checker.is_valid(text.as_bytes()), valid, "{text}");
        }
        assert!(!checker.is_similar(b"{\"id\":\"c-1\",\"choices\":[{\"delta\":{\"content\":\" \xff\"}}]}"));
    }

    #[test]
    fn differences_outside_one_string_leave_no_variable_part() {
        for texts in [
            [r#"{"a":1}"#, r#"{"a":2}"#],
            [r#"{"a":"x\n"}"#, r#"{"a":"x\t"}"#],
            [r#"{"a":"\u0041"}"#, r#"{"a":"\u0042"}"#],
            [r#"{"a":"x"}"#, r#"["b"]"#],
        ] {
            assert_eq!(trained(&texts).variable, None, "{texts:?}");
        }
        let mut checker = SimilarJson::default();
        for number in 0..100 {
            assert!(checker.is_valid(format!("[{number}]").as_bytes()));
        }
        assert_eq!(checker.misses, MAX_MISSES);
    }

    proptest! {
        #[test]
        fn similar_texts_are_valid(
            samples in prop::collection::vec("[a-z\"\\\\\u{e9}\u{20ac}\n ]{0,6}", 3),
            around in "[a-z\"\\\\\u{e9}]{0,4}",
            cut in 0usize..60,
            put in "[a-z\"\\\\\n\u{e9},}]{0,3}",
        ) {
            let text = |sample: &str| serde_json::json!({"k": [around, {"content": sample, "z": 1}]}).to_string();
            let mut checker = SimilarJson::default();
            prop_assert!(checker.is_valid(text(&samples[0]).as_bytes()) && checker.is_valid(text(&samples[1]).as_bytes()));
            let third = text(&samples[2]);
            let mut broken = third.clone().into_bytes();
            broken.truncate(cut.min(broken.len()));
            broken.extend_from_slice(put.as_bytes());
            broken.extend_from_slice(third.as_bytes().get(cut..).unwrap_or_default());
            for text in [third.as_bytes(), &broken] {
                if checker.is_similar(text) {
                    prop_assert!(serde_json::from_slice::<IgnoredAny>(text).is_ok());
                }
            }
        }
    }
}
