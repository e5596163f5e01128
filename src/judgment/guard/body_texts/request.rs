//! The texts of requests: of chats, completions, embeddings and Gemini's contents by their shape, of other bodies all there are.

use super::{Reader, items, object};
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
const OF_PART: [&str; 8] = ["text", "value", "title", "context", "content", "output", "stdout", "stderr"];

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

/// The members of Gemini's parts that are documented as not read.
const NOT_READ_OF_GOOGLE: [&str; 6] = [
    "functionCall",
    "function_call",
    "executableCode",
    "executable_code",
    "thoughtSignature",
    "thought_signature",
];

impl<'t> Reader<'t> {
    pub(super) fn request(&mut self, body: &Object<'t>) {
        for name in ["system", "instructions", "prediction"] {
            self.content(body, name, false);
        }
        for name in ["systemInstruction", "system_instruction"] {
            body.every(name).for_each(|content| self.google_content(content, false));
        }
        body.every("messages").for_each(|messages| self.messages(messages));
        for contents in body.every("contents").map(items) {
            let last = contents.len().saturating_sub(1);
            contents
                .iter()
                .enumerate()
                .for_each(|(index, content)| self.google_content(content, index == last));
        }
        body.every("prompt").for_each(|prompt| self.prompt(prompt));
        body.every("suffix").for_each(|suffix| self.text(suffix, true));
        for input in body.every("input") {
            self.text(input, true);
            self.messages(input);
        }
        // Google's embeddings, one and several, and its count of tokens.
        body.every("content").for_each(|content| self.google_content(content, true));
        for request in body.every("requests").flat_map(items).filter_map(|request| object(&request)) {
            request.every("content").for_each(|content| self.google_content(content, true));
        }
        for inner in body.every("generateContentRequest").filter_map(object) {
            if self.depth < MAX_DEPTH {
                self.depth += 1;
                self.request(&inner);
                self.depth -= 1;
            }
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

    /// Every text of an `input`, except those of earlier messages. An earlier message is an item that has a role and is not the last.
    fn texts_of_input(&mut self, input: &Json<'t>) {
        self.text(input, true);
        let list = items(input);
        let last = list.len().saturating_sub(1);
        for (index, item) in list.iter().enumerate() {
            let is_earlier = index < last && object(item).is_some_and(|message| message.has("role"));
            if !is_earlier {
                self.all_texts(item, true);
            }
        }
    }

    /// Every text in a value, at any depth.
    fn all_texts(&mut self, value: &Json<'t>, is_judged: bool) {
        self.text(value, is_judged);
        if !self.enter(is_judged) {
            return;
        }
        match object(value) {
            Some(object) => object.members().for_each(|(_, value)| self.all_texts(value, is_judged)),
            None => items(value).iter().for_each(|item| self.all_texts(item, is_judged)),
        }
        self.depth -= 1;
    }

    /// Goes one level deeper, unless that is too deep.
    fn enter(&mut self, is_judged: bool) -> bool {
        let may_enter = self.depth < MAX_DEPTH;
        if may_enter {
            self.depth += 1;
        } else {
            self.leave_unread(is_judged, "deeply nested content");
        }
        may_enter
    }

    fn leave_unread(&mut self, is_judged: bool, what: &str) {
        if is_judged {
            self.found.unread.get_or_insert_with(|| what.to_owned());
        }
    }

    /// A prompt: texts, or a stored prompt of the Responses API with its variables.
    fn prompt(&mut self, prompt: &Json<'t>) {
        self.text(prompt, true);
        match object(prompt) {
            Some(stored) => {
                for variables in stored.every("variables").filter_map(object) {
                    variables.members().for_each(|(_, value)| self.value(value, true));
                }
            }
            None => items(prompt).iter().for_each(|item| self.text_or_tokens(item, true)),
        }
    }

    /// A text; what else may stand there are numbers of tokens, which are not read.
    fn text_or_tokens(&mut self, item: &Json<'t>, is_judged: bool) {
        let before = self.found.texts.len();
        self.text(item, is_judged);
        if before == self.found.texts.len() {
            self.leave_unread(is_judged, "numbers of tokens");
        }
    }

    /// Messages of a chat or items of the Responses API, of which the last one is judged; inputs of embeddings are judged all.
    fn messages(&mut self, list: &Json<'t>) {
        let messages = items(list);
        let last = messages.len().saturating_sub(1);
        for (index, item) in messages.iter().enumerate() {
            let Some(message) = object(item) else {
                self.text_or_tokens(item, true);
                continue;
            };
            let is_input = message.has("text") && !message.has("role");
            let is_judged = index == last || is_input;
            let before = self.found.texts.len();
            let reads = ["content", "output", "text"].map(|name| {
                self.content(&message, name, is_judged);
                message.has(name)
            });
            self.summary(&message, is_judged);
            if before == self.found.texts.len() && !reads.contains(&true) && !message.has("role") {
                self.check_type(&message, is_judged);
            }
        }
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

    /// A content: a text, a part, or a list of them.
    fn value(&mut self, content: &Json<'t>, is_judged: bool) {
        self.text(content, is_judged);
        for item in items(content) {
            self.text(&item, is_judged);
            if let Some(part) = object(&item) {
                self.part(&part, is_judged);
            }
        }
    }

    /// A part of a content: it may be a text, the result of a tool, a document or a result of a search, with contents of their own.
    fn part(&mut self, part: &Object<'t>, is_judged: bool) {
        if !self.enter(is_judged) {
            return;
        }
        let before = self.found.texts.len();
        for name in OF_PART {
            self.content(part, name, is_judged);
        }
        let has_own = ["text", "content", "output"].iter().any(|name| part.has(name));
        let mut is_read = has_own || before < self.found.texts.len();
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
        self.depth -= 1;
    }

    /// Notes that nothing was read of a part or an item, unless its type is one that is never read.
    fn check_type(&mut self, part: &Object<'t>, is_judged: bool) {
        let kinds: Vec<_> = part.every("type").filter_map(Json::text).collect();
        let is_fine = |kind: &str| NOT_READ.contains(&kind) || kind.ends_with("_call");
        match kinds.iter().find(|kind| !is_fine(kind)) {
            Some(kind) => self.leave_unread(is_judged, &format!("a part of the type {kind:?}")),
            None if kinds.is_empty() && !part.has("image_url") => {
                self.leave_unread(is_judged, "a part without a type");
            }
            None => {}
        }
    }

    /// One of Google's contents. Thoughts of the model are skipped, since they are no text of the input. Parts that a user marks as
    /// thoughts are read.
    fn google_content(&mut self, content: &Json<'t>, is_judged: bool) {
        self.text(content, is_judged);
        let Some(content) = object(content) else { return };
        let is_of_model = content.string("role").as_deref() == Some("model");
        for parts in content.every("parts") {
            self.text(parts, is_judged);
            for item in items(parts) {
                self.text(&item, is_judged);
                let Some(part) = object(&item) else { continue };
                let is_thought = part.get("thought").is_some_and(Json::is_true);
                if is_judged || !(is_thought && is_of_model) {
                    self.google_part(&part, is_judged);
                }
            }
        }
    }

    fn google_part(&mut self, part: &Object<'t>, is_judged: bool) {
        let before = self.found.texts.len();
        self.member(part, "text", is_judged);
        for name in ["functionResponse", "function_response"] {
            for response in part.every(name).filter_map(object) {
                response.every("response").for_each(|value| self.all_texts(value, is_judged));
            }
        }
        for name in ["codeExecutionResult", "code_execution_result"] {
            for result in part.every(name).filter_map(object) {
                self.member(&result, "output", is_judged);
            }
        }
        if before < self.found.texts.len() {
            return;
        }
        for (name, value) in part.members() {
            let is_media = || {
                let object = object(value);
                let kind =
                    object.as_ref().and_then(|data| data.string("mimeType").or(data.string("mime_type")));
                kind.is_some_and(|kind| kind.starts_with("image/") || kind.starts_with("audio/"))
            };
            let is_response = ["functionResponse", "function_response"].contains(&name);
            if !(NOT_READ_OF_GOOGLE.contains(&name) || is_response || value.is_true() || is_media()) {
                self.leave_unread(is_judged, &format!("a part with {name:?}"));
            }
        }
    }
}
