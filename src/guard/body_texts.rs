//! The texts of a request or a response, with their places in its JSON, so that they can be replaced and all else keeps its bytes.
//!
//! Read by the shape of the body and not by the operation, so that a body on the generic endpoint is read as well: what has
//! `messages`, `prompt`, `input` or `contents` is a request, what has `choices`, `content`, `output` or `candidates` is a response. Texts of
//! reasoning, refusals and tool calls are left alone. What a model has written for one choice is one text, with nothing between its parts: a
//! provider may cut it anywhere. A member that is there twice is read twice: nobody knows which one the provider takes.

use super::pieces::{Piece, divided};
use super::subject::Text;
use crate::config::hooks::HookPhase;
use crate::json::Json;
use crate::json::splice::Object;
use std::ops::Range;

/// What was read of one body.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BodyTexts {
    pub texts: Vec<Text>,
    /// What describes texts by repeating them (probabilities, citations), and what stands there when a text has changed.
    pub descriptions: Vec<(Range<usize>, &'static str)>,
}

/// Collects texts of one body.
struct Reader<'t> {
    source: &'t str,
    found: BodyTexts,
    /// What is read is part of one text, which may have begun.
    one_text: Option<Option<usize>>,
}

impl BodyTexts {
    /// Reads a JSON body; nothing is found in what is no object.
    pub fn read(source: &str, phase: HookPhase) -> Self {
        let mut reader = Reader { source, found: Self::default() };
        if let Some(body) = Object::read(source.trim()) {
            match phase {
                HookPhase::Before => reader.request(&body),
                HookPhase::After => reader.response(&body),
            }
        }
        reader.found
    }

    /// The body with other texts; `None` where none changes. `new` is in the order of the texts, and may be shorter.
    pub fn replace(&self, source: &str, new: &[Option<String>]) -> Option<String> {
        let pairs = self.texts.iter().zip(new).filter_map(|(text, new)| Some((text, new.as_ref()?)));
        let mut changes: Vec<(Range<usize>, String)> = Vec::new();
        for (text, new) in pairs.filter(|(text, new)| text.text != **new) {
            let (before, after) =
                (divided(&text.text, &text.pieces, &text.text), divided(&text.text, &text.pieces, new));
            let parts = text.pieces.iter().zip(before.into_iter().zip(after));
            let changed = parts.filter(|(_, (before, after))| before != after);
            changes.extend(
                changed
                    .map(|(piece, (_, new))| (piece.place.clone(), Json::from_value(new).get().to_owned())),
            );
        }
        if changes.is_empty() {
            return None;
        }
        changes.extend(self.descriptions.iter().map(|(place, json)| (place.clone(), (*json).to_owned())));
        changes.sort_by_key(|(place, _)| place.start);
        let mut out = String::with_capacity(source.len() + 64);
        let mut at = 0;
        for (place, json) in changes.into_iter().filter(|(place, _)| !place.is_empty()) {
            let Some(kept) = source.get(at..place.start) else { continue };
            out.push_str(kept);
            out.push_str(&json);
            at = place.end;
        }
        out.push_str(source.get(at..).unwrap_or_default());
        Some(out)
    }
}

/// The judged ones of `texts`, with newlines between them; `None`: there are none.
pub fn judged(texts: &[Text]) -> Option<String> {
    let parts: Vec<&str> =
        texts.iter().filter(|text| text.is_judged).map(|text| text.text.as_str()).collect();
    (!parts.is_empty()).then(|| parts.join("\n"))
}

/// The values of a JSON list; none where it is no list.
fn items<'t>(list: &Json<'t>) -> Vec<Json<'t>> {
    let source = list.source().filter(|source| source.starts_with('['));
    source.and_then(|source| serde_json::from_str(source).ok()).unwrap_or_default()
}

/// The objects in a JSON list.
fn objects<'t>(list: &Json<'t>) -> Vec<Object<'t>> {
    items(list).iter().filter_map(|item| Object::read(item.source()?)).collect()
}

fn is_of_type(object: &Object<'_>, wanted: &str) -> bool {
    object.string("type").as_deref() == Some(wanted)
}

impl<'t> Reader<'t> {
    fn place(&self, part: &str) -> Range<usize> {
        let start = (part.as_ptr() as usize).saturating_sub(self.source.as_ptr() as usize);
        start..start + part.len()
    }

    /// Takes a value that is a string.
    fn text(&mut self, value: &Json<'t>, is_judged: bool) {
        if let (Some(source), Some(text)) = (value.source(), value.text()) {
            let piece = Piece { place: self.place(source), len: text.len() };
            let texts = &mut self.found.texts;
            if let Some(begun) = self.one_text.flatten().and_then(|at| texts.get_mut(at)) {
                begun.text.push_str(&text);
                begun.pieces.push(piece);
                return;
            }
            self.one_text = self.one_text.map(|_| Some(texts.len()));
            texts.push(Text { text: text.into_owned(), is_judged, pieces: vec![piece] });
        }
    }

    /// Takes the members of this name that are strings.
    fn member(&mut self, object: &Object<'t>, name: &str, is_judged: bool) {
        object.every(name).for_each(|value| self.text(value, is_judged));
    }

    fn request(&mut self, body: &Object<'t>) {
        for name in ["system", "instructions"] {
            self.content(body, name, false);
        }
        for name in ["systemInstruction", "system_instruction"] {
            for inner in body.every(name).filter_map(|inner| Object::read(inner.source()?)) {
                self.parts(&inner, false);
            }
        }
        body.every("messages").for_each(|messages| self.messages(messages));
        for contents in body.every("contents").map(objects) {
            let last = contents.len().saturating_sub(1);
            contents.iter().enumerate().for_each(|(index, content)| self.parts(content, index == last));
        }
        body.every("prompt").for_each(|prompt| self.strings(prompt));
        for input in body.every("input") {
            match items(input).first().is_some_and(Json::is_object) {
                true => self.messages(input),
                false => self.strings(input),
            }
        }
        // Google's embeddings.
        for content in body.every("content").filter_map(|content| Object::read(content.source()?)) {
            self.parts(&content, true);
        }
    }

    /// A text, or a list of texts, all judged.
    fn strings(&mut self, value: &Json<'t>) {
        self.text(value, true);
        items(value).iter().for_each(|item| self.text(item, true));
    }

    /// Messages of a chat or items of the Responses API: the last one is judged.
    fn messages(&mut self, list: &Json<'t>) {
        let messages = objects(list);
        let last = messages.len().saturating_sub(1);
        for (index, message) in messages.iter().enumerate() {
            self.content(message, "content", index == last);
            // The result of a call in the Responses API.
            self.content(message, "output", index == last);
        }
    }

    /// A content: a text, or a list of parts that may be texts, or results of tools with contents of their own.
    fn content(&mut self, object: &Object<'t>, name: &str, is_judged: bool) {
        for content in object.every(name) {
            self.text(content, is_judged);
            for part in objects(content) {
                self.member(&part, "text", is_judged);
                if part.string("type").as_deref() == Some("tool_result") {
                    self.content(&part, "content", is_judged);
                }
            }
        }
    }

    /// The parts of one of Google's contents, without thoughts.
    fn parts(&mut self, content: &Object<'t>, is_judged: bool) {
        for part in content.every("parts").flat_map(objects) {
            if part.get("thought").is_none_or(|thought| !thought.is_true()) {
                self.member(&part, "text", is_judged);
            }
        }
    }

    /// All texts that `read` takes are one.
    fn one_text(&mut self, read: impl FnOnce(&mut Self)) {
        self.one_text = Some(None);
        read(self);
        self.one_text = None;
    }

    fn response(&mut self, body: &Object<'t>) {
        for (index, choice) in body.list("choices").iter().enumerate() {
            self.describes(choice, "logprobs", "null");
            let message = choice.inner("message");
            self.one_text(|reader| {
                reader.member(choice, "text", index == 0);
                if let Some(message) = &message {
                    reader.content(message, "content", index == 0);
                    reader.describes(message, "annotations", "[]");
                }
            });
        }
        self.one_text(|reader| {
            for block in body.list("content").iter().filter(|block| is_of_type(block, "text")) {
                reader.member(block, "text", true);
                reader.describes(block, "citations", "null");
            }
        });
        self.one_text(|reader| {
            let parts = body.list("output").into_iter().flat_map(|item| item.list("content"));
            for part in parts.filter(|part| is_of_type(part, "output_text")) {
                reader.member(&part, "text", true);
                reader.describes(&part, "annotations", "[]");
                reader.describes(&part, "logprobs", "[]");
            }
        });
        // The same texts once more.
        self.member(body, "output_text", false);
        for (index, candidate) in body.list("candidates").iter().enumerate() {
            let parts = candidate.inner("content").map(|content| content.list("parts")).unwrap_or_default();
            self.one_text(|reader| {
                let is_text =
                    |part: &&Object<'t>| part.get("thought").is_none_or(|thought| !thought.is_true());
                parts.iter().filter(is_text).for_each(|part| reader.member(part, "text", index == 0));
            });
        }
    }

    fn describes(&mut self, object: &Object<'t>, name: &str, replacement: &'static str) {
        if let Some(json) = object.json_of(name).filter(|json| *json != "null" && *json != "[]") {
            let place = self.place(json);
            self.found.descriptions.push((place, replacement));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str, phase: HookPhase) -> Vec<(String, bool)> {
        let found = BodyTexts::read(source, phase);
        found.texts.into_iter().map(|text| (text.text, text.is_judged)).collect()
    }

    fn owned(texts: &[(&str, bool)]) -> Vec<(String, bool)> {
        texts.iter().map(|(text, is_judged)| ((*text).to_owned(), *is_judged)).collect()
    }

    #[test]
    fn requests_of_every_shape_are_read() {
        for (source, wanted) in [
            (
                r#"{"messages":[{"role":"user","content":"a"},{"role":"user","content":"b\n\"c"}]}"#,
                &[("a", false), ("b\n\"c", true)][..],
            ),
            (
                r#"{"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","source":{}},{"type":"tool_result","content":[{"type":"text","text":"r"}]}]}]}"#,
                &[("s", false), ("a", true), ("r", true)],
            ),
            (r#"{"prompt":["a","b"]}"#, &[("a", true), ("b", true)]),
            (r#"{"prompt":"a"}"#, &[("a", true)]),
            (r#"{"input":"a","instructions":"i"}"#, &[("i", false), ("a", true)]),
            (
                r#"{"input":[{"role":"user","content":[{"type":"input_text","text":"a"}]},{"type":"function_call_output","call_id":"c","output":"o"}]}"#,
                &[("a", false), ("o", true)],
            ),
            (
                r#"{"contents":[{"parts":[{"text":"a"}]},{"parts":[{"text":"t","thought":true},{"text":"b"}]}],"systemInstruction":{"parts":[{"text":"s"}]}}"#,
                &[("s", false), ("a", false), ("b", true)],
            ),
            (r#"{"messages":[{"role":"assistant","content":null,"tool_calls":[]}]}"#, &[]),
            (
                r#"{"messages":[{"content":"first","content":"b"}],"messages":[{"content":"c"}],"system":"s","system":"t"}"#,
                &[("s", false), ("t", false), ("first", true), ("b", true), ("c", true)],
            ),
            (r#"[1,2]"#, &[]),
            ("no json", &[]),
        ] {
            assert_eq!(texts(source, HookPhase::Before), owned(wanted), "{source}");
        }
    }

    #[test]
    fn responses_of_every_shape_are_read_and_changed_in_their_place() {
        let upper = |source: &str| {
            let found = BodyTexts::read(source, HookPhase::After);
            let new: Vec<_> = found.texts.iter().map(|text| Some(text.text.to_uppercase())).collect();
            found.replace(source, &new).unwrap_or_default()
        };
        for (source, judged, wanted) in [
            (
                r#"{"id":1.0, "choices":[{"index":0,"message":{"content":"a","annotations":[{"text":"a"}]},"logprobs":{"content":[]}},{"message":{"content":"b"},"logprobs":null}]}"#,
                "a",
                r#"{"id":1.0, "choices":[{"index":0,"message":{"content":"A","annotations":[]},"logprobs":null},{"message":{"content":"B"},"logprobs":null}]}"#,
            ),
            (r#"{"choices":[{"text":"a"}]}"#, "a", r#"{"choices":[{"text":"A"}]}"#),
            (
                r#"{"content":[{"type":"thinking","thinking":"t"},{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#,
                "ab",
                r#"{"content":[{"type":"thinking","thinking":"t"},{"type":"text","text":"A"},{"type":"text","text":"B"}]}"#,
            ),
            (
                r#"{"output":[{"type":"reasoning","content":[{"type":"reasoning_text","text":"t"}]},{"type":"message","content":[{"type":"output_text","text":"a","annotations":[]}]}],"output_text":"a"}"#,
                "a",
                r#"{"output":[{"type":"reasoning","content":[{"type":"reasoning_text","text":"t"}]},{"type":"message","content":[{"type":"output_text","text":"A","annotations":[]}]}],"output_text":"A"}"#,
            ),
            (
                r#"{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}"#,
                "a",
                r#"{"candidates":[{"content":{"parts":[{"text":"A"}]}}]}"#,
            ),
        ] {
            assert_eq!(
                super::judged(&BodyTexts::read(source, HookPhase::After).texts).as_deref(),
                Some(judged),
                "{source}"
            );
            assert_eq!(upper(source), wanted);
        }
        let unchanged = BodyTexts::read(r#"{"choices":[{"text":"A"}]}"#, HookPhase::After);
        assert_eq!(unchanged.replace(r#"{"choices":[{"text":"A"}]}"#, &[Some("A".to_owned())]), None);
    }
}
