//! The text of a freeform call, from the arguments of the function that stands for it: `{"input":"text"}`.
//!
//! Arguments arrive in fragments, and what is already certain of the text is passed on at once. Arguments of another form, which a
//! model that is held to no schema may write, are read when they are complete.

use crate::json::Json;

/// The member of the arguments that has the text.
pub(super) const INPUT: &str = "input";

/// The input of one call, while it arrives.
#[derive(Debug, Default)]
pub(super) struct FreeformInput {
    arguments: String,
    /// Bytes of the arguments that were read.
    read: usize,
    stage: Stage,
    text: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Before,
    Text,
    /// The text has ended.
    After,
    /// The arguments have another form.
    Other,
}

impl FreeformInput {
    /// Adds a fragment of the arguments and returns the text that became certain.
    pub fn push(&mut self, fragment: &str) -> &str {
        self.arguments.push_str(fragment);
        if self.stage == Stage::Before {
            match opening(&self.arguments) {
                Opening::Unfinished => {}
                Opening::At(start) => {
                    self.read = start;
                    self.stage = Stage::Text;
                }
                Opening::Other => self.stage = Stage::Other,
            }
        }
        let before = self.text.len();
        while self.stage == Stage::Text {
            let rest = self.arguments.get(self.read..).unwrap_or_default();
            let Some((char, length)) = next_char(rest) else { break };
            self.read += length;
            match char {
                Some(char) => self.text.push(char),
                None => self.stage = Stage::After,
            }
        }
        self.text.get(before..).unwrap_or_default()
    }

    /// The arguments are complete: returns what is left of the text.
    pub fn finish(&mut self) -> &str {
        let before = self.text.len();
        if matches!(self.stage, Stage::Before | Stage::Other) {
            self.text = other_form(&self.arguments);
            self.stage = Stage::After;
        }
        self.text.get(before..).unwrap_or_default()
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether nothing can follow.
    pub fn is_complete(&self) -> bool {
        self.stage == Stage::After && self.arguments.trim_ascii_end().ends_with('}')
    }
}

enum Opening {
    Unfinished,
    /// The text begins at this byte.
    At(usize),
    Other,
}

fn opening(arguments: &str) -> Opening {
    let mut rest = arguments;
    for token in ["{", "\"input\"", ":", "\""] {
        rest = rest.trim_ascii_start();
        match rest.strip_prefix(token) {
            Some(after) => rest = after,
            None if token.starts_with(rest) => return Opening::Unfinished,
            None => return Opening::Other,
        }
    }
    Opening::At(arguments.len() - rest.len())
}

/// The first character of the inside of a JSON string, and its length in bytes. `Some(None)`: the string ends. `None`: more is needed.
/// Line ends that should have been escaped are taken as they are.
fn next_char(rest: &str) -> Option<(Option<char>, usize)> {
    let first = rest.chars().next()?;
    if first == '"' {
        return Some((None, 1));
    }
    if first != '\\' {
        return Some((Some(first), first.len_utf8()));
    }
    let escaped = rest.chars().nth(1)?;
    let char = match escaped {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'u' => return unicode(rest),
        other => other,
    };
    Some((Some(char), 1 + escaped.len_utf8()))
}

/// An escape of the form `\uXXXX`, or two of them for one character. An invalid one is skipped as far as it is invalid.
fn unicode(rest: &str) -> Option<(Option<char>, usize)> {
    // `None`: more is needed. `Some(None)`: these are no digits.
    let unit = |from: usize| {
        let digits = std::str::from_utf8(rest.as_bytes().get(from..from + 4)?).ok();
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        Some(digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()))
    };
    let Some(high) = unit(2)? else { return Some((Some(char::REPLACEMENT_CHARACTER), 2)) };
    if !(0xd800..0xdc00).contains(&high) {
        return Some((Some(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER)), 6));
    }
    let follows = rest.get(6..)?;
    if !follows.starts_with("\\u") && !"\\u".starts_with(follows) {
        return Some((Some(char::REPLACEMENT_CHARACTER), 6));
    }
    let low = unit(8)?.and_then(|low| low.checked_sub(0xdc00)).filter(|low| *low < 0x400);
    let Some(low) = low else { return Some((Some(char::REPLACEMENT_CHARACTER), 6)) };
    Some((char::from_u32(0x10000 + ((high - 0xd800) << 10) + low), 12))
}

/// The text of arguments of another form: of their only text, or they themselves.
fn other_form(arguments: &str) -> String {
    let members = Json::members(arguments).unwrap_or_default();
    let named = members.iter().find(|(name, _)| name == INPUT);
    let only = named.or_else(|| members.first().filter(|_| members.len() == 1));
    match only.and_then(|(_, value)| value.text()) {
        Some(text) => text.into_owned(),
        None => arguments.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The pieces that are passed on for arguments in fragments of `size` bytes, and the whole text.
    fn read(arguments: &str, size: usize) -> (Vec<String>, String) {
        let mut input = FreeformInput::default();
        let mut pieces: Vec<String> = Vec::new();
        let mut rest = arguments;
        while !rest.is_empty() {
            let at = (size..=rest.len()).find(|&at| rest.is_char_boundary(at)).unwrap_or(rest.len());
            let (fragment, after) = rest.split_at(at);
            pieces.push(input.push(fragment).to_owned());
            rest = after;
        }
        assert!(input.is_complete() || !arguments.starts_with("{\"input\""), "{arguments}");
        pieces.push(input.finish().to_owned());
        pieces.retain(|piece| !piece.is_empty());
        (pieces, input.text().to_owned())
    }

    #[test]
    fn the_text_is_the_same_in_fragments_of_every_size() {
        for text in ["", "a", "*** Begin\n+\"hi\"\\ \t ü 😀 \u{1}", "\\u0041"] {
            for arguments in [
                json!({"input": text}).to_string(),
                format!(" {{ \"input\" : {} }} ", json!(text)),
                json!({"input": text}).to_string().replace('😀', "\\ud83d\\ude00").replace('ü', "\\u00fc"),
            ] {
                for size in 1..=arguments.len() {
                    let (pieces, whole) = read(&arguments, size);
                    assert_eq!(
                        (pieces.concat().as_str(), whole.as_str()),
                        (text, text),
                        "{arguments} by {size}"
                    );
                }
            }
        }
        let (pieces, _) = read(r#"{"input":"abc"}"#, 11);
        assert_eq!(pieces, ["a", "bc"], "not held back");
    }

    #[test]
    fn other_forms_are_read_at_their_end() {
        for (arguments, text) in [
            (r#"{"patch":"x"}"#, "x"),
            (r#"{"a":"x","input":"y"}"#, "y"),
            (r#"{"a":"x","b":"y"}"#, r#"{"a":"x","b":"y"}"#),
            ("plain text", "plain text"),
            ("", ""),
        ] {
            for size in [1, 3, 100] {
                assert_eq!(read(arguments, size).1, text, "{arguments}");
            }
        }
        let lone = read(r#"{"input":"\ud83d\n\ude00"}"#, 1).1;
        assert_eq!(lone, "\u{fffd}\n\u{fffd}");
        for (arguments, text) in [
            (r#"{"input":"a\u123é b"}"#, "a\u{fffd}123é b"),
            (r#"{"input":"\user"}"#, "\u{fffd}ser"),
            (r#"{"input":"\ud83d\u0041"}"#, "\u{fffd}A"),
        ] {
            assert_eq!(read(arguments, 1).1, text, "{arguments}");
        }
    }
}
