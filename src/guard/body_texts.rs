//! The texts of a request or a response, with their places in its JSON, so that they can be replaced and all else keeps its bytes.
//!
//! Read by the shape of the body and not by the operation, so that a body on the generic endpoint is read as well: what has
//! `messages`, `prompt`, `input` or `contents` is a request, what has `choices`, `content`, `output` or `candidates` is a response. Texts of
//! reasoning, refusals and tool calls are left alone. A member that is there twice is read twice: nobody knows which one the provider takes.
//! A lone surrogate in a text is read as U+FFFD.

mod request;

use super::subject::Text;
use crate::json::Json;
use crate::json::splice::Object;
use crate::json::surrogates;
use std::ops::Range;

/// How a body is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// A request of an operation, by its shape.
    Request,
    /// A request of which nothing is known: all texts in it, but those of earlier messages are told from the last one's where it is a chat.
    AnyRequest,
    Response,
}

/// What was read of one body.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BodyTexts {
    pub texts: Vec<Text>,
    /// What describes texts by repeating them (probabilities, citations), and what stands there when a text has changed.
    pub descriptions: Vec<(Range<usize>, &'static str)>,
    /// What stands in the judged part of a request and could not be read: the type of a part, for people.
    pub unread: Option<String>,
}

/// Collects texts of one body.
struct Reader<'t> {
    source: &'t str,
    found: BodyTexts,
    /// How many lists and objects are open around what is read.
    depth: usize,
}

impl BodyTexts {
    /// Reads a JSON body; nothing is found in what is no object.
    pub fn read(source: &str, reading: Reading) -> Self {
        let source = surrogates::replaced(source);
        let mut reader = Reader { source: &source, found: Self::default(), depth: 0 };
        if let Some(body) = Object::read(source.trim()) {
            match reading {
                Reading::Request => reader.request(&body),
                Reading::AnyRequest => reader.any_request(&body),
                Reading::Response => reader.response(&body),
            }
        }
        reader.found
    }

    /// The body with other texts; `None` where none changes. `new` is in the order of the texts, and may be shorter.
    pub fn replace(&self, source: &str, new: &[Option<String>]) -> Option<String> {
        let pairs = self.texts.iter().zip(new).filter_map(|(text, new)| Some((text, new.as_ref()?)));
        let mut changes: Vec<(Range<usize>, String)> = pairs
            .filter(|(text, new)| text.text != **new)
            .map(|(text, new)| (text.place.clone(), Json::from_value(new).get().to_owned()))
            .collect();
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

/// The values of a JSON list; of an object, itself: some readers take one for a list of one.
fn items<'t>(list: &Json<'t>) -> Vec<Json<'t>> {
    match list.source() {
        Some(source) if source.starts_with('[') => serde_json::from_str(source).unwrap_or_default(),
        Some(source) if source.starts_with('{') => vec![list.clone()],
        _ => Vec::new(),
    }
}

/// The object that a value is.
fn object<'t>(value: &Json<'t>) -> Option<Object<'t>> {
    Object::read(value.source()?)
}

impl<'t> Reader<'t> {
    fn place(&self, part: &str) -> Range<usize> {
        let start = (part.as_ptr() as usize).saturating_sub(self.source.as_ptr() as usize);
        start..start + part.len()
    }

    /// Takes a value that is a string.
    fn text(&mut self, value: &Json<'t>, is_judged: bool) {
        if let (Some(source), Some(text)) = (value.source(), value.text()) {
            let place = self.place(source);
            self.found.texts.push(Text { text: text.into_owned(), is_judged, place });
        }
    }

    /// Takes the members of this name that are strings.
    fn member(&mut self, object: &Object<'t>, name: &str, is_judged: bool) {
        object.every(name).for_each(|value| self.text(value, is_judged));
    }

    fn response(&mut self, body: &Object<'t>) {
        for (index, choice) in body.list("choices").iter().enumerate() {
            self.member(choice, "text", index == 0);
            self.describes(choice, "logprobs", "null");
            if let Some(message) = choice.inner("message") {
                self.content(&message, "content", index == 0);
                self.describes(&message, "annotations", "[]");
            }
        }
        for block in body.list("content") {
            if block.string("type").as_deref() == Some("text") {
                self.member(&block, "text", true);
                self.describes(&block, "citations", "null");
            }
        }
        for item in body.list("output") {
            for part in item.list("content") {
                if part.string("type").as_deref() == Some("output_text") {
                    self.member(&part, "text", true);
                    self.describes(&part, "annotations", "[]");
                    self.describes(&part, "logprobs", "[]");
                }
            }
        }
        // The same texts once more.
        self.member(body, "output_text", false);
        for (index, candidate) in body.list("candidates").iter().enumerate() {
            for part in candidate.inner("content").iter().flat_map(|content| content.list("parts")) {
                if part.get("thought").is_none_or(|thought| !thought.is_true()) {
                    self.member(&part, "text", index == 0);
                }
            }
        }
        self.stored(body);
    }

    /// A list of what is stored: chats, or messages and items with contents.
    fn stored(&mut self, body: &Object<'t>) {
        let items = body.list("data");
        for item in &items {
            if item.has("choices") || item.has("output") {
                self.response(item);
            } else {
                self.content(item, "content", true);
            }
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
mod tests;
