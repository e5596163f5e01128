//! The texts of requests: of chats, completions, embeddings and Gemini's contents by their shape, of other bodies all there are.

use super::super::judged::Part;
use super::others::is_sealed_summary;
use super::turns::{first_new, part_of};
use super::{Reader, item_texts, items, object};
use std::collections::BTreeSet;
use words::api::responses::own_summary;
use words::json::Json;
use words::json::splice::Object;

/// How deep contents within contents are read. Nothing that a model reads is nested that deep.
const MAX_DEPTH: usize = 64;

/// The members of a body of unknown shape that are read as a chat alone, where they are one: its earlier messages are not judged. In any other
/// member a text that has a shape may stand next to one that has none.
const CHATS: [&str; 2] = ["messages", "contents"];

/// The members of a part that have its text, or contents of their own.
pub(super) const OF_PART: [&str; 9] =
    ["text", "value", "title", "context", "content", "output", "stdout", "stderr", "refusal"];

/// The members of a request that declare tools or the form of a response, or tell the model how to use them: skills of a container, and how
/// a context is compacted (<https://docs.claude.com/en/api/messages>).
pub(super) const DECLARATIONS: [&str; 16] = [
    "tools",
    "deferred_tools",
    "functions",
    "response_format",
    "text",
    "output_format",
    "output_config",
    "outputConfig",
    "generationConfig",
    "generation_config",
    "responseSchema",
    "response_schema",
    "responseJsonSchema",
    "response_json_schema",
    "container",
    "context_management",
];

/// The members of a schema that have values.
const VALUES: [&str; 5] = ["const", "default", "enum", "example", "examples"];

/// The members that name a file.
const FILE_NAMES: [&str; 4] = ["filename", "file_name", "displayName", "display_name"];

/// The types of parts that hold a file, whatever else they have.
const FILES: [&str; 2] = ["file", "input_file"];

/// The types of parts and items that are documented as not read, and those that may be empty.
const NOT_READ: [&str; 27] = [
    "image",
    "image_url",
    "input_image",
    "computer_screenshot",
    "audio",
    "audio_url",
    "input_audio",
    "message",
    "text",
    "tool_result",
    "search_result",
    "tool_reference",
    "tool_use",
    "server_tool_use",
    "mcp_tool_use",
    "thinking",
    "redacted_thinking",
    "reasoning",
    "refusal",
    "computer_call_output",
    "mcp_approval_response",
    "mcp_list_tools",
    "additional_tools",
    "tool_search_output",
    "compaction",
    "compaction_summary",
    "compaction_trigger",
];

impl<'t> Reader<'t> {
    pub(super) fn request(&mut self, body: &Object<'t>) {
        let first = self.found.texts.len();
        self.in_part(Part::System, |reader| {
            ["system", "instructions"].iter().for_each(|name| reader.content(body, name, false));
            for name in ["systemInstruction", "system_instruction"] {
                body.every(name).for_each(|content| reader.google_content(content, false));
            }
        });
        let system = first..self.found.texts.len();
        self.in_part(Part::Assistant, |reader| reader.content(body, "prediction", true));
        let mut has_turn = false;
        body.every("messages").for_each(|messages| has_turn |= self.messages(messages));
        body.every("contents").for_each(|contents| has_turn |= self.google_contents(contents));
        body.every("prompt").for_each(|prompt| self.prompt(prompt));
        body.every("suffix").for_each(|suffix| self.text(suffix, true));
        for input in body.every("input") {
            self.text(input, true);
            has_turn |= self.messages(input);
        }
        if !has_turn && let Some(texts) = self.found.texts.get_mut(system) {
            // The model has not had it yet.
            texts.iter_mut().for_each(|text| text.is_new = true);
        }
        // Google's embeddings, one and several, and its count of tokens.
        body.every("content").for_each(|content| self.google_content(content, true));
        for request in body.every("requests").flat_map(items).filter_map(|request| object(&request)) {
            request.every("content").for_each(|content| self.google_content(content, true));
            self.member(&request, "title", true);
        }
        self.declarations(body, &DECLARATIONS);
        for inner in body.every("generateContentRequest").filter_map(object) {
            if self.depth < MAX_DEPTH {
                self.depth += 1;
                self.request(&inner);
                self.others(&inner);
                self.depth -= 1;
            }
        }
    }

    /// The documents of a chat, which the model reads each time, with the names and numbers in them (<https://docs.cohere.com/reference/chat>).
    pub(super) fn documents(&mut self, body: &Object<'t>) {
        for documents in body.every("documents") {
            self.text(documents, true);
            items(documents).iter().for_each(|document| self.arguments(document, true));
        }
    }

    /// What the client declares of its tools and of the form of the response, where that is wanted.
    fn declarations(&mut self, object: &Object<'t>, names: &[&str]) {
        if self.wanted.tools {
            self.in_part(Part::Tools, |reader| {
                names.iter().for_each(|name| object.every(name).for_each(|value| reader.described(value)));
            });
        }
    }

    /// Every text in a declaration, the names of properties and all there is in examples, except the types in it.
    fn described(&mut self, value: &Json<'t>) {
        self.text(value, true);
        if !self.enter(true) {
            return;
        }
        match object(value) {
            Some(object) => {
                for (name, value) in object.members() {
                    match name {
                        "type" if value.text().is_some() => {}
                        _ if VALUES.contains(&name) => self.arguments(value, true),
                        "properties" | "patternProperties" => {
                            self.names(value, true);
                            self.described(value);
                        }
                        _ => self.described(value),
                    }
                }
            }
            None => items(value).iter().for_each(|item| self.described(item)),
        }
        self.depth -= 1;
    }

    /// The names of a file, where they are wanted.
    pub(super) fn file_names(&mut self, file: &Object<'t>, is_new: bool) {
        if self.wanted.files {
            self.in_part(Part::File, |reader| {
                FILE_NAMES.iter().for_each(|name| reader.member(file, name, is_new));
            });
        }
    }

    /// A body of which nothing is known: by its shape, and every text that is elsewhere.
    pub(super) fn any_request(&mut self, body: &Object<'t>) {
        self.request(body);
        let by_shape: BTreeSet<usize> = self.found.texts.iter().map(|text| text.start()).collect();
        let first = self.found.texts.len();
        for (name, value) in body.members() {
            let place = self.place(value.source().unwrap_or_default());
            let is_chat = CHATS.contains(&name) && by_shape.range(place).next().is_some();
            match name {
                "model" => {}
                "input" => self.texts_of_input(value),
                _ if is_chat => {}
                _ => self.all_texts(value, true),
            }
        }
        let elsewhere = self.found.texts.split_off(first);
        let new = elsewhere.into_iter().filter(|text| !by_shape.contains(&text.start()));
        self.found.texts.extend(new);
    }

    /// Every text of an `input`, except those of earlier messages. An earlier message is an item that has a role and is not new.
    fn texts_of_input(&mut self, input: &Json<'t>) {
        self.text(input, true);
        let list = items(input);
        let messages: Vec<Option<Object<'t>>> = list.iter().map(object).collect();
        let first = first_new(&messages);
        for (index, (item, message)) in list.iter().zip(&messages).enumerate() {
            let is_earlier = index < first && message.as_ref().is_some_and(|message| message.has("role"));
            if !is_earlier {
                self.all_texts(item, true);
            }
        }
    }

    /// Every text in a value, at any depth, and every number within an object or a list.
    pub(super) fn all_texts(&mut self, value: &Json<'t>, is_judged: bool) {
        self.texts_but(value, &[], is_judged);
    }

    /// The same, without what stands in members of these names.
    pub(super) fn texts_but(&mut self, value: &Json<'t>, without: &[&str], is_judged: bool) {
        self.text(value, is_judged);
        if !self.enter(is_judged) {
            return;
        }
        match object(value) {
            Some(object) => {
                for (_, value) in object.members().filter(|(name, _)| !without.contains(name)) {
                    self.number(value, is_judged);
                    self.texts_but(value, without, is_judged);
                }
            }
            None => items(value).iter().for_each(|item| {
                self.number(item, is_judged);
                self.texts_but(item, without, is_judged);
            }),
        }
        self.depth -= 1;
    }

    /// Goes one level deeper, unless that is too deep.
    pub(super) fn enter(&mut self, is_judged: bool) -> bool {
        let may_enter = self.depth < MAX_DEPTH;
        if may_enter {
            self.depth += 1;
        } else {
            self.leave_unread(is_judged, "deeply nested content");
        }
        may_enter
    }

    pub(super) fn leave_unread(&mut self, is_new: bool, what: &str) {
        let unread = if is_new { &mut self.found.unread } else { &mut self.found.unread_earlier };
        unread.get_or_insert_with(|| what.to_owned());
    }

    /// A prompt: texts, or a stored prompt of the Responses API with its variables.
    fn prompt(&mut self, prompt: &Json<'t>) {
        self.text(prompt, true);
        match object(prompt) {
            // No stored one.
            Some(object) if !object.has("id") && !object.has("variables") => self.all_texts(prompt, true),
            Some(stored) => {
                for variables in stored.every("variables").filter_map(object) {
                    variables.members().for_each(|(_, value)| self.value(value, true));
                }
                self.others_of_prompt(&stored);
            }
            None => items(prompt).iter().for_each(|item| self.text_or_tokens(item, true)),
        }
    }

    /// A text, or a list of some; what else may stand there are numbers of tokens, which are not read.
    fn text_or_tokens(&mut self, item: &Json<'t>, is_judged: bool) {
        let before = self.found.texts.len();
        self.text(item, is_judged);
        items(item).iter().for_each(|text| self.text(text, is_judged));
        if before == self.found.texts.len() {
            self.leave_unread(is_judged, "numbers of tokens");
        }
    }

    /// Messages of a chat or items of the Responses API, of which those are judged that are new; inputs of embeddings are judged all.
    /// Whether the model has a turn in them.
    fn messages(&mut self, list: &Json<'t>) -> bool {
        let list = item_texts(list);
        let messages: Vec<Option<Object<'t>>> = list.iter().map(|item| Object::read(item)).collect();
        let first = first_new(&messages);
        for (index, (item, message)) in list.iter().zip(&messages).enumerate() {
            match message {
                Some(message) => {
                    let is_input = message.has("text") && !message.has("role");
                    self.in_part(part_of(message), |reader| {
                        reader.message(message, index >= first || is_input);
                    });
                }
                None => {
                    if let Some(item) = Json::parse(item) {
                        self.text_or_tokens(&item, true);
                    }
                }
            }
        }
        first > 0
    }

    fn message(&mut self, message: &Object<'t>, is_new: bool) {
        let has_role = message.has("role");
        if has_role || message.string("type").as_deref() == Some("message") {
            self.in_part(Part::Name, |reader| reader.member(message, "name", is_new));
        }
        let before = self.found.texts.len();
        let is_fixed = !has_role && self.is_proved_thought(message);
        let reads = self.fixed(is_fixed, |reader| {
            ["content", "output", "text"].map(|name| {
                for value in message.every(name) {
                    // A result that is no part: JSON, which the model reads as a text.
                    let is_json = name == "output" && object(value).is_some_and(|value| !value.has("type"));
                    if is_json { reader.arguments(value, is_new) } else { reader.value(value, is_new) }
                }
                message.has(name)
            })
        });
        self.calls_of_message(message, is_new);
        self.summary(message, is_new);
        if !has_role {
            self.call_item(message, is_new);
            self.found_by_call(message, is_new);
        }
        self.declarations(message, &["tools"]);
        if before == self.found.texts.len() && !reads.contains(&true) && !has_role {
            self.check_type(message, is_new);
        }
        self.others_of_message(message, is_new);
    }

    /// The summary of a conversation that this gateway compacted: the model reads it as a text of the user.
    fn summary(&mut self, item: &Object<'t>, is_judged: bool) {
        let is_own = |text: &Json<'t>| text.text().is_some_and(|text| own_summary(&text).is_some());
        item.every("encrypted_content")
            .filter(|text| is_own(text))
            .for_each(|text| self.text(text, is_judged));
    }

    /// The contents in the members of this name.
    pub(super) fn content(&mut self, object: &Object<'t>, name: &str, is_judged: bool) {
        object.every(name).for_each(|content| self.value(content, is_judged));
    }

    /// A content in a place of its own.
    pub(super) fn content_of(&mut self, content: &Json<'t>, is_judged: bool) {
        self.value(content, is_judged);
    }

    /// A content: a text, a part, or a list of them.
    fn value(&mut self, content: &Json<'t>, is_judged: bool) {
        self.text(content, is_judged);
        for item in items(content) {
            self.text(&item, is_judged);
            match object(&item) {
                Some(part) => self.part(&part, is_judged),
                // Nobody has lists there. What reads one, reads all of it.
                None if item.text().is_none() => self.arguments(&item, is_judged),
                None => {}
            }
        }
    }

    /// A part of a content: it may be a text, a call, the result of a tool, a document or a result of a search, with contents of their own.
    fn part(&mut self, part: &Object<'t>, is_judged: bool) {
        if !self.enter(is_judged) {
            return;
        }
        let is_result = part.string("type").is_some_and(|kind| kind.ends_with("tool_result"));
        let whose = if is_result { Part::Tool } else { self.part };
        let is_fixed = self.is_fixed || is_sealed_summary(part);
        self.in_part(whose, |reader| reader.fixed(is_fixed, |reader| reader.texts_of_part(part, is_judged)));
        self.depth -= 1;
    }

    fn texts_of_part(&mut self, part: &Object<'t>, is_judged: bool) {
        let before = self.found.texts.len();
        // In an answer it is a text by itself.
        let is_answer = self.part == Part::Answer;
        for name in OF_PART.iter().filter(|name| !(is_answer && **name == "refusal")) {
            self.content(part, name, is_judged);
        }
        let is_file = part.string("type").is_some_and(|kind| FILES.contains(&&*kind)) || part.has("file");
        let holds_file = is_file || is_disguised(part);
        let has_own = ["text", "content", "output"].iter().any(|name| part.has(name)) && !holds_file;
        let mut is_read = has_own || (before < self.found.texts.len() && !holds_file);
        for source in part.every("source") {
            self.text(source, is_judged);
            let (Some(source), before) = (object(source), self.found.texts.len()) else { continue };
            self.content(&source, "content", is_judged);
            if source.every("type").any(|kind| kind.text().as_deref() == Some("text")) {
                self.member(&source, "data", is_judged);
            }
            is_read = before < self.found.texts.len();
        }
        if !is_read {
            self.check_type(part, is_judged);
        }
        self.call_of_block(part, is_judged);
        if !is_answer {
            self.thought_of_block(part, &["thinking", "reasoning", "summary"], is_judged);
        }
        self.file_names(part, is_judged);
        part.inner("file").iter().for_each(|file| self.file_names(file, is_judged));
        if !is_answer {
            self.summary(part, is_judged);
            self.others_of_part(part, is_judged);
        }
    }

    /// Notes that nothing was read of a part or an item, unless its type is one that is never read.
    fn check_type(&mut self, part: &Object<'t>, is_judged: bool) {
        if is_disguised(part) {
            // What it holds may become a text on the way.
            return self.leave_unread(is_judged, "a part of a picture or a voice that is none");
        }
        let kinds: Vec<_> = part.every("type").filter_map(Json::text).collect();
        let is_fine = |kind: &str| NOT_READ.contains(&kind) || kind.ends_with("_call");
        match kinds.iter().find(|kind| !is_fine(kind)) {
            Some(kind) if is_name(kind) => {
                self.leave_unread(is_judged, &format!("a part of the type {kind:?}"));
            }
            Some(_) => self.leave_unread(is_judged, "a part of a type that is no name"),
            None if kinds.is_empty() && !part.has("image_url") => {
                self.leave_unread(is_judged, "a part without a type");
            }
            None => {}
        }
    }
}

/// Whether a part of a picture or of a voice says that its data is something else.
fn is_disguised(part: &Object<'_>) -> bool {
    let is_media = |kind: &str| ["image/", "audio/", "video/"].iter().any(|media| kind.starts_with(media));
    let of_url =
        |url: &str| url.trim_start().get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"));
    let kind_of = |url: &str| url.trim_start().get(5..).unwrap_or_default().trim_start().to_ascii_lowercase();
    let inner = ["image_url", "input_image", "source", "input_audio", "audio_url", "video_url"];
    let objects: Vec<Object<'_>> =
        inner.iter().flat_map(|name| part.every(name)).filter_map(object).collect();
    let direct = inner.iter().flat_map(|name| part.every(name)).filter_map(Json::text);
    let urls = direct.chain(objects.iter().flat_map(|object| object.every("url")).filter_map(Json::text));
    if urls.filter(|url| of_url(url)).any(|url| !is_media(&kind_of(&url))) {
        return true;
    }
    let names = ["media_type", "mime_type", "mimeType", "format"];
    let holders = objects.iter().chain([part]);
    let kinds = holders.flat_map(|object| names.iter().flat_map(|name| object.every(name)));
    kinds.filter_map(Json::text).any(|kind| kind.contains('/') && !is_media(&kind.to_ascii_lowercase()))
}

/// Whether a type or member may be shown in an error: a text that should not be repeated may stand in its place.
pub(super) fn is_name(text: &str) -> bool {
    text.len() <= 40
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.".contains(&byte))
}
