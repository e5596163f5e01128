//! The text of a response as far as it was read: what is counted where a provider does not say how many tokens it was.
//!
//! Only collects. Who counts it is `engine::attempt_usage`. It has no order and no roles: text, reasoning, refusals and the
//! arguments of tool calls follow each other as they arrive.

use crate::json::string::unquote;

/// The most text that is kept, bytes. What is longer is counted by the rate of what is kept.
const MAX_KEPT: usize = 128 << 10;

/// The text of one response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputText {
    kept: String,
    /// Bytes of text that are not kept.
    more: u64,
}

impl OutputText {
    pub fn push(&mut self, text: &str) {
        if self.kept.len() + text.len() <= MAX_KEPT {
            self.kept.push_str(text);
        } else {
            self.more = self.more.saturating_add(text.len() as u64);
        }
    }

    /// Takes the text of a JSON string: what is between its quotes.
    pub(crate) fn push_json(&mut self, raw: &[u8]) {
        let Ok(text) = std::str::from_utf8(raw) else { return };
        if memchr::memchr(b'\\', raw).is_none() {
            return self.push(text);
        }
        if let Some(text) = unquote(format!("\"{text}\"").as_bytes()) {
            self.push(&text);
        }
    }

    /// Takes all strings that are the value of one of these members, wherever they are in the JSON text.
    pub(crate) fn push_members(&mut self, json: &[u8], names: &[&str]) {
        for name in names {
            let name = format!("\"{name}\"");
            for at in memchr::memmem::find_iter(json, name.as_bytes()) {
                if let Some(raw) = json.get(at + name.len()..).and_then(string_value) {
                    self.push_json(raw);
                }
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.more == 0
    }

    /// How many bytes of it are kept.
    pub fn kept_bytes(&self) -> usize {
        self.kept.len()
    }

    /// Its tokens, counted with `count`.
    pub fn tokens(&self, count: impl FnOnce(&str) -> u64) -> u64 {
        let tokens = count(&self.kept);
        match self.kept.len() as u64 {
            0 => self.more / 4,
            bytes => tokens.saturating_add(self.more.saturating_mul(tokens) / bytes),
        }
    }
}

/// What is between the quotes of the string that follows a member's name, with the colon before it.
pub(super) fn string_value(after_name: &[u8]) -> Option<&[u8]> {
    let value = after_name.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start().strip_prefix(b"\"")?;
    value.get(..string_end(value)?)
}

/// Where the string ends whose first quote is before `text`.
fn string_end(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let found = at + memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        match text.get(found)? {
            b'"' => return Some(found),
            _ => at = found + 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_found_wherever_they_are() {
        let cases = [
            (r#" : "a b","x":1"#, Some("a b")),
            (r#":"a\"b\\","x":1"#, Some(r#"a\"b\\"#)),
            (r#":"""#, Some("")),
            (":null", None),
            (r#","text":"x""#, None),
            (r#":"never ends"#, None),
            (r#":"ends in \"#, None),
        ];
        for (text, wanted) in cases {
            assert_eq!(string_value(text.as_bytes()), wanted.map(str::as_bytes), "{text}");
        }
        let mut text = OutputText::default();
        text.push_members(br#"{"a":{"text":"one "},"b":[{"text":"\"two\""},{"text":null}]}"#, &["text"]);
        assert_eq!(text.kept, "one \"two\"");
    }

    #[test]
    fn what_is_not_kept_counts_by_the_rate_of_what_is() {
        let mut text = OutputText::default();
        assert_eq!((text.is_empty(), text.tokens(|_| 0)), (true, 0));
        text.push(&"x".repeat(MAX_KEPT));
        text.push("yy");
        text.push(&"y".repeat(MAX_KEPT - 2));
        assert_eq!(text.kept_bytes(), MAX_KEPT);
        assert_eq!(text.tokens(|text| text.len() as u64 / 8), 2 * MAX_KEPT as u64 / 8);
    }
}
