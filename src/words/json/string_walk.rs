//! Walks over the strings of a JSON text, one after the other, whatever they are nested in.
//!
//! One pass, without a tree: for reading all texts of a long value at the cost of the search for their quotes. The text must be
//! proven valid, as for `walk`; on invalid text the iteration ends early.

use super::walk::{string_end, value_end};

/// One string, as the text between its quotes, escapes not resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonString<'a> {
    /// The name of a member.
    Name(&'a [u8]),
    Value(&'a [u8]),
}

/// The strings of a JSON text in their order.
#[derive(Debug, Clone)]
pub struct StringWalk<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> StringWalk<'a> {
    pub fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// Behind a name: passes over the member's value, which is returned as JSON text.
    pub fn skip_value(&mut self) -> Option<&'a [u8]> {
        let start = self.next_token()?;
        let end = value_end(self.text, start)?;
        self.at = end;
        self.text.get(start..end)
    }

    /// Where the next name or value begins.
    fn next_token(&self) -> Option<usize> {
        let between = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b':');
        self.text.get(self.at..)?.iter().position(|byte| !between(byte)).map(|skipped| self.at + skipped)
    }
}

impl<'a> Iterator for StringWalk<'a> {
    type Item = JsonString<'a>;

    fn next(&mut self) -> Option<JsonString<'a>> {
        let quote = self.at + memchr::memchr(b'"', self.text.get(self.at..)?)?;
        let end = string_end(self.text, quote)?;
        self.at = end;
        let raw = self.text.get(quote + 1..end - 1)?;
        let white = |byte: &&u8| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        let follows = self.text.get(end..)?.iter().find(white);
        Some(if follows == Some(&b':') { JsonString::Name(raw) } else { JsonString::Value(raw) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names as `name:`, values as they are.
    fn walked(text: &str, skipped: &str) -> Vec<String> {
        let mut walk = StringWalk::new(text.as_bytes());
        let mut all = Vec::new();
        while let Some(string) = walk.next() {
            let text = |raw: &[u8]| String::from_utf8(raw.to_vec()).unwrap();
            match string {
                JsonString::Name(raw) if raw == skipped.as_bytes() => {
                    all.push(format!("-{}", text(walk.skip_value().unwrap())));
                }
                JsonString::Name(raw) => all.push(format!("{}:", text(raw))),
                JsonString::Value(raw) => all.push(text(raw)),
            }
        }
        all
    }

    #[test]
    fn names_and_values_differ() {
        let text = r#"[{"a" : "x:\"y\\", "b":[1,"",null,{"c":true}]}, "d"]"#;
        assert_eq!(walked(text, "?"), ["a:", r#"x:\"y\\"#, "b:", "", "c:", "d"]);
        assert_eq!(walked(text, "b"), ["a:", r#"x:\"y\\"#, r#"-[1,"",null,{"c":true}]"#, "d"]);
        assert_eq!(walked(text, "a"), [r#"-"x:\"y\\""#, "b:", "", "c:", "d"]);
        assert_eq!(walked("12", "?"), Vec::<String>::new());
    }

    #[test]
    fn a_broken_text_ends_the_walk() {
        for text in ["\"", "{\"a\":", "[\"a\",\"b", "{\"a\"", ""] {
            assert!(walked(text, "?").len() < 3, "{text}");
            let mut walk = StringWalk::new(text.as_bytes());
            while walk.next().is_some() {
                let _ = walk.skip_value();
            }
        }
    }
}
