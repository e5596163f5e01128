//! Finds the text in the delta events of a stream without parsing them.
//!
//! The events of a stream are alike: the text of one is nearly always the value of the same member, at the same place, as
//! in the event before. So most events cost a comparison and the copy of their text. Made for counting: where an
//! event has text in several members, only the first one found is taken.

use crate::api::output_text::{OutputText, string_value};
use memchr::memmem::Finder;

/// The members that carry text in deltas: those of chat and completions, of Anthropic's messages, and of the Responses API.
const NAMES: [&str; 8] = [
    "\"content\"",
    "\"text\"",
    "\"reasoning_content\"",
    "\"reasoning\"",
    "\"arguments\"",
    "\"delta\"",
    "\"thinking\"",
    "\"partial_json\"",
];

/// Where the text was in the last event.
#[derive(Debug)]
pub(super) struct EventText {
    finders: [Finder<'static>; NAMES.len()],
    name: &'static str,
    at: usize,
}

impl Default for EventText {
    fn default() -> Self {
        let [first, ..] = NAMES;
        Self { finders: NAMES.map(Finder::new), name: first, at: 0 }
    }
}

impl EventText {
    /// Adds the text of one event to `text`.
    pub fn take(&mut self, data: &[u8], text: &mut OutputText) {
        if let Some(raw) = self.at_same_place(data).or_else(|| self.search(data)) {
            text.push_json(raw);
        }
    }

    fn at_same_place<'d>(&self, data: &'d [u8]) -> Option<&'d [u8]> {
        let after_name = data.get(self.at..)?.strip_prefix(self.name.as_bytes())?;
        string_value(after_name).filter(|raw| !raw.is_empty())
    }

    fn search<'d>(&mut self, data: &'d [u8]) -> Option<&'d [u8]> {
        for (name, finder) in NAMES.iter().zip(&self.finders) {
            for at in finder.find_iter(data) {
                let raw = data.get(at + name.len()..).and_then(string_value);
                if let Some(raw) = raw.filter(|raw| !raw.is_empty()) {
                    (self.name, self.at) = (name, at);
                    return Some(raw);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_every_kind_of_delta_is_found() {
        let events = [
            r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"content":"a"}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"content":"\"b"}}]}"#,
            r#"{"choices": [{"index": 0, "delta": {"content": "c"}}]}"#,
            r#"{"choices":[{"delta":{"content":"","reasoning_content":"d"}}]}"#,
            r#"{"choices":[{"delta":{"content":null,"tool_calls":[{"function":{"arguments":"{\"x\""}}]}}]}"#,
            r#"{"choices":[{"text":"e","index":0}]}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"f"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"g"}}"#,
            r#"{"type":"response.output_text.delta","content_index":0,"delta":"h","logprobs":[]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
            "[DONE]",
        ];
        let mut finder = EventText::default();
        let mut text = OutputText::default();
        for event in events {
            finder.take(event.as_bytes(), &mut text);
        }
        let mut wanted = OutputText::default();
        wanted.push("a\"bcd{\"x\"efgh");
        assert_eq!(text, wanted);
    }
}
