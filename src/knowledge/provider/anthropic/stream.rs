//! Decodes a streamed response in Anthropic's format into events.
//!
//! Known blocks are emitted as they arrive. Others (`server_tool_use`, `compaction`, future kinds) are
//! collected and emitted when they stop, because half of one is useless to a client. For example:
//!
//! ```text
//! content_block_start {"type":"server_tool_use","id":"s","input":{}}    held
//! content_block_delta {"type":"input_json_delta","partial_json":"{..}"}  added to `input`
//! content_block_stop                                                    Event::Block, with the whole input
//! ```

use super::event_emitter::{Ending, EventEmitter, MAX_HELD, citations, ending, provider_error};
use serde::Deserialize;
use std::borrow::Cow;
use words::api::chat::{Decoder, Event, EventSink, ProviderError};
use words::api::messages::wire::{AnthropicBlock, AnthropicDelta, AnthropicEvent, AnthropicMessage};
use words::api::sse::{MAX_EVENT_BYTES, SseParser};
use words::json::{Json, JsonStr};

/// More than are ever open at once: blocks come one after the other.
const MAX_OPEN_BLOCKS: usize = 256;

/// Decodes server-sent events.
#[derive(Debug, Default)]
pub(super) struct Stream {
    parser: SseParser,
    events: Events,
}

impl Decoder for Stream {
    fn push(&mut self, bytes: &[u8], sink: EventSink<'_>) {
        let run = self.parser.push(bytes);
        run.data().for_each(|data| self.events.take(&data, sink));
        if run.is_oversized() {
            let too_long = format!("a stream event is over {MAX_EVENT_BYTES} bytes");
            self.events.fail(&ProviderError::unreadable(&too_long), sink);
        }
    }

    fn finish(&mut self, sink: EventSink<'_>) {
        for data in self.parser.finish().data() {
            // After a cut connection this may be half an event. It is ignored: the response is incomplete
            // anyway.
            if serde_json::from_slice::<serde::de::IgnoredAny>(&data).is_ok() {
                self.events.take(&data, sink);
            }
        }
    }
}

/// Decodes events without the SSE framing, for Bedrock, whose frames carry one event each.
#[derive(Debug, Default)]
pub struct Events {
    emitter: EventEmitter,
    open: Vec<(u64, Open)>,
    /// Bytes held in `open`.
    held: usize,
    /// The message of `message_start`, if it has its stop reason already: after a programmatic tool call the whole
    /// message comes in that one event, and no `message_delta` follows.
    complete: Option<Json<'static>>,
    done: bool,
}

/// A block that has started.
#[derive(Debug)]
enum Open {
    Text {
        /// The position in the text where it started, in characters.
        start: u64,
        /// Emitted when the block stops: only then is the end of the cited text known.
        citations: Vec<Json<'static>>,
    },
    Call {
        index: u32,
        /// The input from the start of the block, until a fragment shows that it is streamed.
        input: Option<Json<'static>>,
    },
    /// `json` is the block as it started; `added` is what deltas add to its members.
    Other { json: Json<'static>, added: Vec<(String, String)> },
}

/// The members of an event of unknown shape.
#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<JsonStr<'a>>,
    delta: Option<Json<'a>>,
    error: Option<Json<'a>>,
}

impl Events {
    /// Takes the JSON of one event. Events after an error or the end are ignored.
    pub fn take(&mut self, data: &[u8], sink: EventSink<'_>) {
        if self.done {
            return;
        }
        let Ok(text) = std::str::from_utf8(data) else {
            return self.fail(&ProviderError::unreadable("an event is not text"), sink);
        };
        match serde_json::from_str::<AnthropicEvent<'_>>(text) {
            Ok(line) => self.line(&line, text, sink),
            Err(_) => self.unexpected(text, sink),
        }
        if self.held > MAX_HELD || self.open.len() > MAX_OPEN_BLOCKS {
            self.fail(&ProviderError::unreadable("its content blocks do not stop"), sink);
        }
    }

    /// Ends the response with an error.
    pub fn fail(&mut self, error: &ProviderError, sink: EventSink<'_>) {
        if !std::mem::replace(&mut self.done, true) {
            self.open = Vec::new();
            sink(Event::Error(error));
        }
    }

    fn line(&mut self, line: &AnthropicEvent<'_>, text: &str, sink: EventSink<'_>) {
        let index = line.index.unwrap_or_default();
        match &*line.kind {
            "content_block_delta" => {
                if let Some(delta) = &line.delta {
                    self.delta(index, delta, text, sink);
                }
            }
            "content_block_start" => {
                if let Some(block) = &line.content_block {
                    self.begin(index, block, sink);
                }
            }
            "content_block_stop" => self.stop(index, sink),
            "message_start" => {
                match line
                    .message
                    .as_ref()
                    .and_then(|json| Some((json, json.read::<AnthropicMessage<'_>>()?)))
                {
                    Some((json, message)) => self.start(json, &message, sink),
                    None => self.fail(&ProviderError::unreadable("message_start has no message"), sink),
                }
            }
            "message_delta" => self.end(line, sink),
            "message_stop" => {
                self.stop_all(sink);
                if let Some(message) =
                    self.complete.as_ref().and_then(|json| json.read::<AnthropicMessage<'_>>())
                {
                    self.emitter.end(&Ending { usage: None, ..ending(&message) }, sink);
                }
                self.done = true;
                sink(Event::End);
            }
            "ping" => {}
            _ => self.unexpected(text, sink),
        }
    }

    /// Handles an event of an unknown type or an unexpected shape.
    fn unexpected(&mut self, text: &str, sink: EventSink<'_>) {
        const EVENT_TYPES: [&str; 6] = [
            "message_start",
            "message_delta",
            "message_stop",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
        ];
        let text = text.trim();
        match serde_json::from_str::<Kind<'_>>(text) {
            // An error from a proxy may have no type.
            Ok(event) if event.error.is_some() => self.fail(&provider_error(text), sink),
            Ok(event) => {
                let kind = event.kind.as_deref().unwrap_or_default();
                if kind == "error" {
                    self.fail(&provider_error(text), sink);
                } else if EVENT_TYPES.contains(&kind) {
                    self.fail(&ProviderError::unreadable(&format!("a {kind} is not as it should be")), sink);
                }
            }
            // Some servers end every stream as OpenAI does.
            Err(_) if text.is_empty() || text == "[DONE]" => {}
            Err(_) => {
                let message = ProviderError::read(502, text.as_bytes()).message;
                self.fail(
                    &ProviderError::unreadable(&format!("an event is no JSON object, but: {message}")),
                    sink,
                );
            }
        }
    }

    fn start(&mut self, json: &Json<'_>, message: &AnthropicMessage<'_>, sink: EventSink<'_>) {
        self.emitter.start(message, sink);
        for block in message.content.iter().flatten() {
            self.emitter.block(block, sink);
        }
        let ending = ending(message);
        self.emitter.end(&Ending { usage: ending.usage, ..Ending::default() }, sink);
        if ending.stop_reason.is_some_and(|reason| !reason.is_empty()) {
            self.complete = Some(owned(json));
        }
    }

    fn begin(&mut self, index: u64, json: &Json<'_>, sink: EventSink<'_>) {
        self.stop(index, sink);
        let block = json.read::<AnthropicBlock<'_>>();
        let open = match block.as_ref().and_then(|block| Some((block.kind.as_deref()?, block))) {
            Some(("text", block)) => {
                let start = self.emitter.characters();
                self.emitter.text(block.text.as_deref().unwrap_or_default(), sink);
                let citations = citations(block).iter().map(owned).collect();
                Open::Text { start, citations }
            }
            Some(("thinking", block)) => {
                self.emitter.thinking(block.thinking.as_deref().unwrap_or_default(), sink);
                return self.emitter.signature(block.signature.as_deref().unwrap_or_default(), sink);
            }
            Some(("redacted_thinking", _)) => return self.emitter.block(json, sink),
            Some(("tool_use", block)) => {
                let index = self.emitter.call(block, sink);
                Open::Call { index, input: block.input.as_ref().filter(|input| !is_empty(input)).map(owned) }
            }
            _ => Open::Other { json: owned(json), added: Vec::new() },
        };
        self.held += open.size();
        self.open.push((index, open));
    }

    fn delta(&mut self, index: u64, delta: &AnthropicDelta<'_>, text: &str, sink: EventSink<'_>) {
        let open = self.open.iter_mut().find(|(open_index, _)| *open_index == index).map(|(_, open)| open);
        let emitter = &mut self.emitter;
        match (delta.kind.as_deref().unwrap_or_default(), open) {
            (_, Some(Open::Other { added, .. })) => self.held += add(added, delta, text),
            ("text_delta", _) => emitter.text(delta.text.as_deref().unwrap_or_default(), sink),
            ("thinking_delta", _) => emitter.thinking(delta.thinking.as_deref().unwrap_or_default(), sink),
            ("signature_delta", _) => emitter.signature(delta.signature.as_deref().unwrap_or_default(), sink),
            ("input_json_delta", Some(Open::Call { index, input })) => {
                let fragment = delta.partial_json.as_deref().unwrap_or_default();
                if !fragment.is_empty() {
                    *input = None;
                    sink(Event::Arguments { choice: 0, index: *index, fragment });
                }
            }
            ("citations_delta", Some(Open::Text { citations, .. })) => {
                if let Some(citation) = &delta.citation {
                    self.held += citation.get().len();
                    citations.push(owned(citation));
                }
            }
            _ => {}
        }
    }

    fn stop(&mut self, index: u64, sink: EventSink<'_>) {
        let Some(at) = self.open.iter().position(|(open_index, _)| *open_index == index) else { return };
        let (_, open) = self.open.remove(at);
        self.held = self.held.saturating_sub(open.size());
        match open {
            Open::Text { start, citations } => {
                for citation in citations {
                    self.emitter.citation(&citation, start, sink);
                }
            }
            Open::Call { index, input } => {
                if let Some(input) = input {
                    sink(Event::Arguments { choice: 0, index, fragment: input.get() });
                }
            }
            Open::Other { json, added } => {
                sink(Event::Block { choice: 0, json: &merge_deltas(&json, &added) });
            }
        }
    }

    fn stop_all(&mut self, sink: EventSink<'_>) {
        while let Some(&(index, _)) = self.open.first() {
            self.stop(index, sink);
        }
    }

    fn end(&mut self, line: &AnthropicEvent<'_>, sink: EventSink<'_>) {
        self.stop_all(sink);
        self.complete = None;
        let mut ending = Ending {
            usage: line.usage.as_ref(),
            context_management: line.context_management.as_ref(),
            ..Ending::default()
        };
        if let Some(delta) = &line.delta {
            ending.stop_reason = delta.stop_reason.as_deref();
            ending.stop_sequence = delta.stop_sequence.as_ref();
            ending.stop_details = delta.stop_details.as_ref();
            ending.container = delta.container.as_ref();
            ending.context_management = ending.context_management.or(delta.context_management.as_ref());
        }
        self.emitter.end(&ending, sink);
    }
}

impl Open {
    fn size(&self) -> usize {
        match self {
            Self::Text { citations, .. } => citations.iter().map(|citation| citation.get().len()).sum(),
            Self::Call { input, .. } => input.as_ref().map_or(0, |input| input.get().len()),
            Self::Other { json, added } => {
                json.get().len() + added.iter().map(|(name, text)| name.len() + text.len()).sum::<usize>()
            }
        }
    }
}

fn owned(json: &Json<'_>) -> Json<'static> {
    Json::owned(json.get().to_owned()).unwrap_or_else(Json::null)
}

fn is_empty(input: &Json<'_>) -> bool {
    Json::members(input.get()).is_some_and(|members| members.is_empty())
}

/// Adds a delta to a collected block: to `input`, or to the members that the delta names. Returns the number
/// of bytes added.
fn add(added: &mut Vec<(String, String)>, delta: &AnthropicDelta<'_>, text: &str) -> usize {
    let mut append = |name: &str, more: &str| match added.iter_mut().find(|(member, _)| member == name) {
        Some((_, text)) => {
            text.push_str(more);
            more.len()
        }
        None => {
            added.push((name.to_owned(), more.to_owned()));
            name.len() + more.len()
        }
    };
    if let Some(fragment) = &delta.partial_json {
        return append("input", fragment);
    }
    let event = serde_json::from_str::<Kind<'_>>(text).ok();
    let members = event.as_ref().and_then(|event| Json::members(event.delta.as_ref()?.get()));
    let texts = members.iter().flatten().filter(|(name, _)| name != "type");
    texts.filter_map(|(name, value)| Some(append(name, &value.text()?))).sum()
}

/// The block with its deltas merged in.
fn merge_deltas(json: &Json<'_>, added: &[(String, String)]) -> String {
    let members = Json::members(json.get()).filter(|_| !added.is_empty());
    let Some(mut members) = members else { return json.get().to_owned() };
    for (name, text) in added {
        let existing = members.iter_mut().find(|(member, _)| member == name);
        let before =
            existing.as_ref().and_then(|(_, value)| Some(value.text()?.into_owned())).unwrap_or_default();
        let value = match name.as_str() {
            // A tool's input is JSON; an incomplete one is passed on as a string.
            "input" if text.trim().is_empty() => continue,
            "input" => Json::owned(text.clone()).unwrap_or_else(|| Json::from_value(text)),
            _ => Json::from_value(&[before.as_str(), text].concat()),
        };
        match existing {
            Some((_, old)) => *old = value,
            None => members.push((Cow::Borrowed(name), value)),
        }
    }
    Json::object(&members).get().to_owned()
}
