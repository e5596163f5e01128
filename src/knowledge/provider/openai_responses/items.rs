//! The items of a response's output: what was emitted of each, and what is still missing.

use std::borrow::Cow;
use words::api::chat::{Event, EventSink, ProviderError, UrlCitation};
use words::json::Json;
use words::json::splice::Object;

/// More items than any response has.
const MAX_ITEMS: usize = 4096;

/// The items so far.
#[derive(Debug, Default)]
pub(super) struct Items {
    list: Vec<Item>,
    /// How many of them are calls of the client's tools.
    calls: u32,
    /// Searches of the web, which are billed by the piece.
    pub searches: u64,
}

#[derive(Debug, Default)]
struct Item {
    /// Its place in the output.
    place: u64,
    /// The number of its call, once that was emitted.
    call: Option<u32>,
    /// Some of its text was emitted.
    has_content: bool,
    /// The part of the summary whose text comes.
    summary: Option<u64>,
    is_done: bool,
}

impl Items {
    /// Takes an event that is about an item or a part of one. Others are ignored.
    pub fn event(
        &mut self,
        kind: &str,
        event: &Object<'_>,
        sink: EventSink<'_>,
    ) -> Result<(), ProviderError> {
        let Some(place) = event.get("output_index").and_then(Json::read::<u64>) else { return Ok(()) };
        let text = |name: &str| event.string(name).filter(|text| !text.is_empty());
        match kind {
            "response.output_item.added" => {
                if let Some(item) = event.inner("item") {
                    self.added(place, &item, sink)?;
                }
            }
            "response.output_item.done" => {
                if let Some(item) = event.inner("item") {
                    self.whole(place, &item, sink)?;
                }
            }
            "response.output_text.delta" => {
                if let Some(text) = text("delta") {
                    self.item(place)?.has_content = true;
                    sink(Event::Text { choice: 0, text: &text });
                }
                emit_logprobs(event, sink);
            }
            "response.refusal.delta" => {
                if let Some(text) = text("delta") {
                    self.item(place)?.has_content = true;
                    sink(Event::Refusal { choice: 0, text: &text });
                }
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                if let Some(text) = text("delta") {
                    let part = ["summary_index", "content_index"].iter().find_map(|name| event.get(name));
                    self.item(place)?.think(part.and_then(Json::read), &text, sink);
                }
            }
            "response.function_call_arguments.delta" => {
                let item = self.item(place)?;
                if let (Some(index), Some(fragment)) = (item.call, text("delta")) {
                    item.has_content = true;
                    sink(Event::Arguments { choice: 0, index, fragment: &fragment });
                }
            }
            "response.output_text.annotation.added" => {
                if let Some(annotation) = event.inner("annotation") {
                    emit_annotation(&annotation, sink);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The item at a place of the output.
    fn item(&mut self, place: u64) -> Result<&mut Item, ProviderError> {
        let at = match self.list.iter().rposition(|item| item.place == place) {
            Some(at) => at,
            None if self.list.len() >= MAX_ITEMS => {
                return Err(ProviderError::unreadable("its output has too many items"));
            }
            None => {
                self.list.push(Item { place, ..Item::default() });
                self.list.len() - 1
            }
        };
        self.list.get_mut(at).ok_or_else(|| ProviderError::unreadable("an item has no place"))
    }

    /// An item begins. A call has its name from the start.
    fn added(&mut self, place: u64, item: &Object<'_>, sink: EventSink<'_>) -> Result<(), ProviderError> {
        self.item(place)?;
        if item.string("type").as_deref() == Some("function_call") {
            self.call(place, item, sink)
        } else {
            Ok(())
        }
    }

    /// Emits that there is a call, once.
    fn call(&mut self, place: u64, item: &Object<'_>, sink: EventSink<'_>) -> Result<(), ProviderError> {
        let index = self.calls;
        let state = self.item(place)?;
        if state.call.is_some() {
            return Ok(());
        }
        let Some(name) = item.string("name").filter(|name| !name.is_empty()) else { return Ok(()) };
        state.call = Some(index);
        self.calls += 1;
        let id = item.string("call_id").unwrap_or_default();
        sink(Event::ToolCall { choice: 0, index, id: &id, name: &name, signature: None });
        Ok(())
    }

    /// An item is done: what is missing of it is emitted.
    pub fn whole(&mut self, place: u64, item: &Object<'_>, sink: EventSink<'_>) -> Result<(), ProviderError> {
        if self.item(place)?.is_done {
            return Ok(());
        }
        let kind = item.string("type");
        match kind.as_deref() {
            Some("function_call" | "custom_tool_call") => self.finish_call(place, item, sink)?,
            Some("reasoning") => self.item(place)?.finish_reasoning(item, sink),
            // Some servers leave out the type of the only item there is.
            Some("message") | None => self.item(place)?.finish_message(item, sink),
            Some("image_generation_call") => {
                if let Some(data) = item.string("result").filter(|data| !data.is_empty()) {
                    let media_type = media_type(item.string("output_format").as_deref());
                    sink(Event::Media { choice: 0, media_type, data: &data });
                }
            }
            Some("web_search_call") => {
                let action = item.inner("action");
                let action = action.as_ref().and_then(|action| action.string("type"));
                // Opened pages are not billed.
                self.searches += u64::from(action.is_none_or(|action| action == "search"));
            }
            // Calls of other tools that the provider runs: the message after them has the result.
            _ => {}
        }
        self.item(place)?.is_done = true;
        Ok(())
    }

    fn finish_call(
        &mut self,
        place: u64,
        item: &Object<'_>,
        sink: EventSink<'_>,
    ) -> Result<(), ProviderError> {
        self.call(place, item, sink)?;
        let state = self.item(place)?;
        let Some(index) = state.call else {
            return Err(ProviderError::unreadable("a tool call has no name"));
        };
        if state.has_content {
            return Ok(());
        }
        let arguments = match item.string("input") {
            Some(input) => Some(Cow::Owned(Json::object_with("input", &*input).get().to_owned())),
            None => item.string("arguments").filter(|arguments| !arguments.is_empty()),
        };
        if let Some(arguments) = arguments {
            sink(Event::Arguments { choice: 0, index, fragment: &arguments });
        }
        Ok(())
    }
}

impl Item {
    /// Emits a piece of its thinking; a new part of the summary is a paragraph of its own.
    fn think(&mut self, part: Option<u64>, text: &str, sink: EventSink<'_>) {
        if self.has_content && self.summary != part {
            sink(Event::Reasoning { choice: 0, text: "\n\n" });
        }
        self.has_content = true;
        self.summary = part;
        sink(Event::Reasoning { choice: 0, text });
    }

    /// The thinking that came in no delta, and what the next turn must send back.
    fn finish_reasoning(&mut self, item: &Object<'_>, sink: EventSink<'_>) {
        if !self.has_content {
            // Servers of open models have the thinking itself where OpenAI has a summary of it.
            let name = if list(item, "summary").is_empty() { "content" } else { "summary" };
            for (number, part) in (0..).zip(item.list(name)) {
                if let Some(text) = part.string("text").filter(|text| !text.is_empty()) {
                    self.think(Some(number), &text, sink);
                }
            }
        }
        let Some(token) = item.string("encrypted_content").filter(|token| !token.is_empty()) else { return };
        sink(if self.has_content {
            Event::Signature { choice: 0, signature: &token }
        } else {
            Event::Redacted { choice: 0, data: &token }
        });
    }

    /// The content of a message that came in no delta.
    fn finish_message(&mut self, item: &Object<'_>, sink: EventSink<'_>) {
        if self.has_content {
            return;
        }
        if let Some(text) = item.string("content") {
            return sink(Event::Text { choice: 0, text: &text });
        }
        for part in item.list("content") {
            if let Some(refusal) = part.string("refusal").filter(|refusal| !refusal.is_empty()) {
                sink(Event::Refusal { choice: 0, text: &refusal });
            }
            if let Some(text) = part.string("text").filter(|text| !text.is_empty()) {
                sink(Event::Text { choice: 0, text: &text });
            }
            emit_logprobs(&part, sink);
            part.list("annotations").iter().for_each(|annotation| emit_annotation(annotation, sink));
        }
    }
}

/// The values of a member that is a list; none for anything else.
pub(super) fn list<'t>(object: &Object<'t>, name: &str) -> Vec<Json<'t>> {
    object.json_of(name).and_then(|list| serde_json::from_str(list).ok()).unwrap_or_default()
}

/// Emits the log probabilities of a text, in the object that a chat has them in.
fn emit_logprobs(part: &Object<'_>, sink: EventSink<'_>) {
    if let Some(tokens) = part.json_of("logprobs").filter(|tokens| tokens.starts_with('[') && *tokens != "[]")
    {
        sink(Event::Logprobs { choice: 0, json: &format!("{{\"content\":{tokens},\"refusal\":null}}") });
    }
}

/// Emits a citation in the nested form of a chat. Files have none there.
fn emit_annotation(annotation: &Object<'_>, sink: EventSink<'_>) {
    let Some(url) = annotation.string("url").filter(|url| !url.is_empty()) else { return };
    let number = |name: &str| annotation.get(name).and_then(Json::read::<u64>).unwrap_or_default();
    let title = annotation.string("title").filter(|title| !title.is_empty());
    let citation = UrlCitation {
        start_index: number("start_index"),
        end_index: number("end_index"),
        url: &url,
        title: title.as_deref().unwrap_or(&url),
    };
    sink(Event::Annotation { choice: 0, json: &citation.annotation() });
}

fn media_type(format: Option<&str>) -> &'static str {
    match format {
        Some("jpeg" | "jpg") => "image/jpeg",
        Some("webp") => "image/webp",
        _ => "image/png",
    }
}
