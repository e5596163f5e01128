//! The texts of a request or a response, with their places in its JSON, so that they can be replaced and all else keeps its bytes.
//!
//! Read by the shape of the body and not by the operation, so that a body on the generic endpoint is read as well: what has
//! `messages`, `prompt`, `input` or `contents` is a request, what has `choices`, `content`, `output` or `candidates` is a response. The
//! reasoning in a response is left alone. What a model has written for one choice is one text, with nothing between its parts: a
//! provider may cut it anywhere. Each text in the arguments of a call is one (`arguments`). A member that is there twice is read twice:
//! nobody knows which one the provider takes. A lone surrogate in a text is read as U+FFFD.

mod calls;
mod google;
mod json_rpc;
mod others;
mod request;
mod turns;

use super::arguments;
use super::judged::{Part, Selection};
use super::pieces::{Piece, divided};
use super::subject::Text;
use others::is_sealed_summary;
use std::collections::BTreeMap;
use std::ops::Range;
use words::api::messages::is_listed_block;
use words::api::responses::{self, is_listed_item, is_listed_part};
use words::json::Json;
use words::json::splice::Object;
use words::json::surrogates;
use words::json::walk;

/// How a body is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// A request of an operation, by its shape.
    Request,
    /// A request of unknown shape: all of its texts. Where it is a chat, texts of earlier messages are kept apart from
    /// the last one's.
    AnyRequest,
    Response,
    /// A message of the Model Context Protocol, which the gateway has written.
    JsonRpc,
}

/// What was read of one body.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct BodyTexts {
    pub texts: Vec<Text>,
    /// Places that repeat a text (probabilities, citations), and what replaces them when the text is changed.
    pub descriptions: Vec<(Range<usize>, &'static str)>,
    /// What could not be read in the judged part of a request: the type of a part, for messages.
    pub unread: Option<String>,
    /// The same of the rest of a request.
    pub unread_earlier: Option<String>,
    /// Whether the body is a JSON object: no other body is read.
    pub is_object: bool,
}

/// Collects texts of one body.
struct Reader<'t> {
    source: &'t str,
    found: BodyTexts,
    /// `None`: each place is a text of its own. `Some(None)`: the next place begins a text, `Some(Some(n))`: it
    /// continues text n.
    one_text: Option<Option<usize>>,
    /// How many lists and objects are open around what is read.
    depth: usize,
    /// What the texts are part of that are read next, and of which choice of a response.
    part: Part,
    choice: u32,
    /// What is read of a request besides its messages.
    wanted: Selection,
    /// What is read stays as it is: its provider takes it in no other form.
    is_fixed: bool,
}

impl BodyTexts {
    /// Reads a JSON body; nothing is found in what is no object.
    pub fn read(source: &str, reading: Reading, wanted: Selection) -> Self {
        let source = surrogates::replaced(source);
        let part = if reading == Reading::Response { Part::Answer } else { Part::Input };
        let found = Self::default();
        let mut reader = Reader {
            source: &source,
            found,
            one_text: None,
            depth: 0,
            part,
            choice: 0,
            wanted,
            is_fixed: false,
        };
        if let Some(body) = Object::read(source.trim()) {
            reader.found.is_object = true;
            match reading {
                Reading::Request => {
                    reader.request(&body);
                    reader.documents(&body);
                    reader.others(&body);
                }
                Reading::AnyRequest => reader.any_request(&body),
                Reading::Response => reader.response(&body),
                Reading::JsonRpc => reader.json_rpc(&body),
            }
        }
        reader.found
    }

    /// The body with other texts; `None` where none changes. `new` is in the order of the texts, and may be shorter.
    pub fn replace(&self, source: &str, new: &[Option<String>]) -> Option<String> {
        let pairs = self.texts.iter().zip(new).filter_map(|(text, new)| Some((text, new.as_ref()?)));
        let mut changes: Vec<(Range<usize>, String)> = Vec::new();
        let mut in_arguments: BTreeMap<usize, Vec<(&Piece, &str)>> = BTreeMap::new();
        for (text, new) in pairs.filter(|(text, new)| text.text != **new) {
            let before = divided(&text.text, &text.pieces, &text.text);
            let after = divided(&text.text, &text.pieces, new);
            let parts = text.pieces.iter().zip(before.into_iter().zip(after));
            for (piece, (_, new)) in parts.filter(|(_, (before, after))| before != after) {
                if piece.is_fixed {
                    continue;
                }
                if piece.inner.is_some() {
                    in_arguments.entry(piece.place.start).or_default().push((piece, new));
                } else if !piece.place.is_empty() {
                    changes.push((piece.place.clone(), Json::from_value(new).get().to_owned()));
                }
            }
        }
        changes.extend(in_arguments.values().filter_map(|changed| changed_arguments(source, changed)));
        if changes.is_empty() {
            return None;
        }
        changes.extend(self.descriptions.iter().map(|(place, json)| (place.clone(), (*json).to_owned())));
        changes.sort_by_key(|(place, _)| place.start);
        let mut out = String::with_capacity(source.len() + 64);
        let mut at = 0;
        for (place, json) in changes {
            let Some(kept) = source.get(at..place.start) else { continue };
            out.push_str(kept);
            out.push_str(&json);
            at = place.end;
        }
        out.push_str(source.get(at..).unwrap_or_default());
        Some(out)
    }
}

/// Texts joined with newlines. `None`: there are none.
pub(super) fn joined<'t>(texts: impl Iterator<Item = &'t Text>) -> Option<String> {
    let parts: Vec<&str> = texts.map(|text| text.text.as_str()).collect();
    (!parts.is_empty()).then(|| parts.join("\n"))
}

/// The JSON string of arguments some of whose texts have changed, with its place in the source.
fn changed_arguments(source: &str, changed: &[(&Piece, &str)]) -> Option<(Range<usize>, String)> {
    let place = &changed.first()?.0.place;
    let string = surrogates::replaced(source.get(place.clone())?);
    let string = Json::parse(&string)?;
    let changes: Vec<(Range<usize>, &str)> =
        changed.iter().filter_map(|(piece, new)| Some((piece.inner.clone()?, *new))).collect();
    let new = arguments::replaced(&string.text()?, &changes);
    Some((place.clone(), Json::from_value(&new).get().to_owned()))
}

/// The values of a JSON list. An object is returned as the only value, because some readers accept an object as a list of one.
pub(super) fn items<'t>(list: &Json<'t>) -> Vec<Json<'t>> {
    match list.source() {
        Some(source) if source.starts_with('[') => serde_json::from_str(source).unwrap_or_default(),
        Some(source) if source.starts_with('{') => vec![list.clone()],
        _ => Vec::new(),
    }
}

/// The texts of what [`items`] returns, for those who read each as an object: it is parsed once then.
fn item_texts<'t>(list: &Json<'t>) -> Vec<&'t str> {
    match list.source() {
        Some(source) if source.starts_with('[') => {
            let items = walk::items(source.as_bytes()).into_iter().flatten();
            items.filter_map(|item| std::str::from_utf8(item).ok()).collect()
        }
        Some(source) if source.starts_with('{') => vec![source],
        _ => Vec::new(),
    }
}

/// The object that a value is.
fn object<'t>(value: &Json<'t>) -> Option<Object<'t>> {
    Object::read(value.source()?)
}

/// The objects of a list, or the one that stands in its place.
fn objects<'t>(body: &Object<'t>, name: &str) -> Vec<Object<'t>> {
    body.inner(name).map_or_else(|| body.list(name), |one| vec![one])
}

/// Whether the type is in a list; what has none is.
fn is_listed(object: &Object<'_>, is_in: fn(&str) -> bool) -> bool {
    object.string("type").is_none_or(|kind| is_in(&kind))
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
            let piece = Piece { is_fixed: self.is_fixed, ..Piece::whole(self.place(source), text.len()) };
            let texts = &mut self.found.texts;
            if let Some(begun) = self.one_text.flatten().and_then(|at| texts.get_mut(at)) {
                begun.text.push_str(&text);
                begun.pieces.push(piece);
                return;
            }
            self.one_text = self.one_text.map(|_| Some(texts.len()));
            self.push(text.into_owned(), is_judged, piece);
        }
    }

    /// Adds a text of its own.
    fn push(&mut self, text: String, is_new: bool, piece: Piece) {
        let text = Text { text, part: self.part, choice: self.choice, is_new, pieces: vec![piece] };
        self.found.texts.push(text);
    }

    /// What `read` takes is this part.
    fn in_part(&mut self, part: Part, read: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.part, part);
        read(self);
        self.part = before;
    }

    /// Takes the members of this name that are strings.
    fn member(&mut self, object: &Object<'t>, name: &str, is_judged: bool) {
        object.every(name).for_each(|value| self.text(value, is_judged));
    }

    /// All texts that `read` takes are one.
    fn one_text(&mut self, read: impl FnOnce(&mut Self)) {
        self.one_text = Some(None);
        read(self);
        self.one_text = None;
    }

    fn response(&mut self, body: &Object<'t>) {
        self.one_response(body);
        self.stored(body);
    }

    /// Without what is stored in it.
    fn one_response(&mut self, body: &Object<'t>) {
        for (index, choice) in objects(body, "choices").iter().enumerate() {
            self.describes(choice, "logprobs", "null");
            let message = choice.inner("message");
            self.choice = u32::try_from(index).unwrap_or(u32::MAX);
            self.one_text(|reader| {
                reader.member(choice, "text", true);
                if let Some(message) = &message {
                    reader.content(message, "content", true);
                    reader.transcript(message, true);
                    reader.describes(message, "annotations", "[]");
                }
            });
            for message in message.iter() {
                self.transcript(message, false);
                self.member(message, "refusal", true);
                self.one_text(|reader| reader.refusals(&message.list("content")));
                self.calls_of_message(message, true);
                self.blocks(&message.list("content_blocks"));
                self.others_of_answer(message);
                message.list("content").iter().for_each(|part| self.others_of_text(part));
            }
            choice.inner("delta").iter().for_each(|delta| self.message_of_delta(delta));
        }
        self.choice = 0;
        let blocks = body.list("content");
        self.one_text(|reader| {
            for block in blocks.iter().filter(|block| is_of_type(block, "text")) {
                reader.member(block, "text", true);
                reader.describes(block, "citations", "null");
            }
        });
        self.blocks(&blocks);
        // Why the model stopped, in its provider's words.
        body.inner("stop_details").iter().for_each(|details| self.member(details, "explanation", true));
        self.output(body);
        for (index, candidate) in body.list("candidates").iter().enumerate() {
            let parts = candidate.inner("content").map(|content| content.list("parts")).unwrap_or_default();
            self.choice = u32::try_from(index).unwrap_or(u32::MAX);
            self.one_text(|reader| {
                let is_text =
                    |part: &&Object<'t>| part.get("thought").is_none_or(|thought| !thought.is_true());
                parts.iter().filter(is_text).for_each(|part| reader.member(part, "text", true));
            });
            parts.iter().for_each(|part| self.call_of_google(part, true));
        }
        self.choice = 0;
    }

    /// What Anthropic's blocks have besides the text.
    fn blocks(&mut self, blocks: &[Object<'t>]) {
        for block in blocks {
            self.call_of_block(block, true);
            if is_of_type(block, "compaction") {
                self.fixed(is_sealed_summary(block), |reader| reader.member(block, "content", true));
            }
            if !is_listed(block, is_listed_block) {
                self.others_of_output(block, true);
            } else if is_of_type(block, "text") {
                self.others_of_text(block);
            }
        }
    }

    /// What a stream has in its pieces, where a response is whole: no client needs it, and some read it.
    fn message_of_delta(&mut self, delta: &Object<'t>) {
        self.member(delta, "content", true);
        self.member(delta, "refusal", true);
        self.calls_of_message(delta, true);
        self.others_of_answer(delta);
    }

    /// What was spoken: the text, where there is no content, and else one by itself. Not where the content repeats it.
    fn transcript(&mut self, message: &Object<'t>, is_text: bool) {
        let Some(audio) = message.inner("audio") else { return };
        let content = message.string("content").filter(|content| !content.is_empty());
        let is_repeated = content.is_some() && content == audio.string("transcript");
        if is_text == content.is_none() && !is_repeated {
            self.member(&audio, "transcript", true);
        }
    }

    /// The output of the Responses API, read as its streams are (`provider::rewriter`): servers differ in how they write it.
    fn output(&mut self, body: &Object<'t>) {
        let first = self.found.texts.len();
        let items = body.list("output");
        self.one_text(|reader| items.iter().for_each(|item| reader.output_item(item)));
        let is_alone = self.found.texts.get(first).is_none_or(|text| text.text.is_empty());
        if is_alone && body.string("output_text").is_some() {
            self.found.texts.truncate(first);
        }
        self.one_text(|reader| items.iter().for_each(|item| reader.refusals(&item.list("content"))));
        items.iter().for_each(|item| self.member(item, "refusal", true));
        // The same texts once more, which some servers send as SDKs do; or the only ones.
        let choice = self.choice;
        self.choice = if is_alone { choice } else { u32::MAX };
        self.member(body, "output_text", true);
        self.choice = choice;
        items.iter().for_each(|item| self.call_item(item, true));
        for item in items.iter().filter(|item| !is_listed(item, is_listed_item)) {
            self.others_of_output(item, true);
        }
        let parts = items.iter().flat_map(|item| item.list("content"));
        for part in parts.filter(|part| !is_listed(part, is_listed_part)) {
            self.others_of_output(&part, false);
        }
    }

    fn output_item(&mut self, item: &Object<'t>) {
        // Of a conversation that was compacted: the user's own messages, and the summary that the model wrote.
        if item.string("role").as_deref() == Some("user") {
            return;
        }
        if item.string("encrypted_content").is_some_and(|text| responses::own_summary(&text).is_some()) {
            self.member(item, "encrypted_content", true);
        }
        let is_message = item.string("type").is_none_or(|kind| kind == "message");
        if is_message {
            self.member(item, "content", true);
            self.describes(item, "annotations", "[]");
            self.describes(item, "logprobs", "[]");
        }
        for part in &item.list("content") {
            let is_text = match part.string("type").unwrap_or_default() {
                kind if is_message => responses::text_of_part(&kind) == Some("text"),
                kind => kind == "output_text",
            };
            if !is_text {
                continue;
            }
            self.member(part, "text", true);
            self.describes(part, "annotations", "[]");
            self.describes(part, "logprobs", "[]");
        }
    }

    /// What a model refuses in these parts: texts by themselves, as clients have them.
    fn refusals(&mut self, parts: &[Object<'t>]) {
        let is_refusal = |part: &&Object<'t>| is_of_type(part, "refusal") || !part.has("type");
        for part in parts.iter().filter(is_refusal) {
            self.member(part, "refusal", true);
        }
    }

    /// A list of stored objects: chats, or messages and items with contents. It is read one level deep. Stored objects have no lists of
    /// their own, and a provider could nest lists until the stack overflows.
    fn stored(&mut self, body: &Object<'t>) {
        let items = body.list("data");
        for item in &items {
            if item.has("choices") || item.has("output") {
                self.one_response(item);
            } else {
                self.one_text(|reader| reader.content(item, "content", true));
                self.member(item, "refusal", true);
                self.one_text(|reader| reader.refusals(&item.list("content")));
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
mod places;
#[cfg(test)]
mod tests;
