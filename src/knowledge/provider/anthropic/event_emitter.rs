//! What whole and streamed responses in Anthropic's format have in common: text and citations, finish
//! reasons, usage, errors.
//!
//! Sources: <https://platform.claude.com/docs/en/api/messages>, `.../build-with-claude/streaming`,
//! `.../build-with-claude/handling-stop-reasons`, and recorded responses.

use serde::Deserialize;
use words::api::chat::{Event, EventSink, Finish, ProviderError, Start, UrlCitation};
use words::api::messages::wire::{AnthropicBlock, AnthropicMessage};
use words::api::usage::UsageParts;
use words::json::{Json, JsonStr};

/// The maximum held per response, in bytes: a whole response, or the blocks of a stream that can only be
/// emitted whole.
pub(super) const MAX_HELD: usize = 64 << 20;

/// Turns the contents of one response into events.
#[derive(Debug, Default)]
pub(super) struct EventEmitter {
    usage_parts: UsageParts,
    /// The number of calls of the client's tools so far.
    calls: u32,
    /// The number of characters of text so far; annotations count in characters.
    characters: u64,
    /// Citations of documents, for which OpenAI has no annotation: JSON texts separated by commas.
    documents: String,
    tier_emitted: bool,
    finished: bool,
}

/// How a response ended: members of a whole response, or of a `message_delta`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ending<'s> {
    pub stop_reason: Option<&'s str>,
    pub stop_sequence: Option<&'s Json<'s>>,
    pub stop_details: Option<&'s Json<'s>>,
    pub container: Option<&'s Json<'s>>,
    pub context_management: Option<&'s Json<'s>>,
    pub usage: Option<&'s Json<'s>>,
}

/// Whether this is a message at all.
pub(super) fn is_message(message: &AnthropicMessage<'_>) -> bool {
    message.kind.as_deref().is_none_or(|kind| kind == "message") && message.content.is_some()
}

pub(super) fn ending<'s>(message: &'s AnthropicMessage<'s>) -> Ending<'s> {
    Ending {
        stop_reason: message.stop_reason.as_deref(),
        stop_sequence: message.stop_sequence.as_ref(),
        stop_details: message.stop_details.as_ref(),
        container: message.container.as_ref(),
        context_management: message.context_management.as_ref(),
        usage: message.usage.as_ref(),
    }
}

/// The citations of a text.
pub(super) fn citations<'b>(block: &'b AnthropicBlock<'_>) -> Vec<Json<'b>> {
    block.citations.as_ref().and_then(Json::read).unwrap_or_default()
}

impl EventEmitter {
    pub fn start(&mut self, message: &AnthropicMessage<'_>, sink: EventSink<'_>) {
        sink(Event::Start(Start {
            id: message.id.as_deref(),
            model: message.model.as_deref(),
            created: None,
        }));
    }

    pub fn text(&mut self, text: &str, sink: EventSink<'_>) {
        if !text.is_empty() {
            self.characters += text.chars().count() as u64;
            sink(Event::Text { choice: 0, text });
        }
    }

    pub fn characters(&self) -> u64 {
        self.characters
    }

    pub fn thinking(&self, text: &str, sink: EventSink<'_>) {
        if !text.is_empty() {
            sink(Event::Reasoning { choice: 0, text });
        }
    }

    pub fn signature(&self, signature: &str, sink: EventSink<'_>) {
        if !signature.is_empty() {
            sink(Event::Signature { choice: 0, signature });
        }
    }

    /// Emits the start of a tool call and returns its index.
    pub fn call(&mut self, block: &AnthropicBlock<'_>, sink: EventSink<'_>) -> u32 {
        let index = self.calls;
        self.calls += 1;
        sink(Event::ToolCall {
            choice: 0,
            index,
            id: block.id.as_deref().unwrap_or_default(),
            name: block.name.as_deref().unwrap_or_default(),
            signature: None,
        });
        index
    }

    /// Emits one whole block.
    pub fn block(&mut self, json: &Json<'_>, sink: EventSink<'_>) {
        let Some(block) = json.read::<AnthropicBlock<'_>>() else {
            // A future kind of block that uses one of these members for something else.
            return sink(Event::Block { choice: 0, json: json.get() });
        };
        match block.kind.as_deref().unwrap_or_default() {
            "text" => {
                let start = self.characters;
                self.text(block.text.as_deref().unwrap_or_default(), sink);
                for citation in citations(&block) {
                    self.citation(&citation, start, sink);
                }
            }
            "thinking" => {
                self.thinking(block.thinking.as_deref().unwrap_or_default(), sink);
                self.signature(block.signature.as_deref().unwrap_or_default(), sink);
            }
            "redacted_thinking" => {
                sink(Event::Redacted { choice: 0, data: block.data.as_deref().unwrap_or_default() });
            }
            "tool_use" => {
                let index = self.call(&block, sink);
                if let Some(input) = &block.input {
                    sink(Event::Arguments { choice: 0, index, fragment: input.get() });
                }
            }
            _ => sink(Event::Block { choice: 0, json: json.get() }),
        }
    }

    /// Emits a citation of the text that began at `start` and has already been emitted.
    pub fn citation(&mut self, json: &Json<'_>, start: u64, sink: EventSink<'_>) {
        let Some(source) = json.read::<Citation<'_>>() else { return };
        // A search result sent by the client has its address in `source`, if it has one at all.
        let is_url = |text: &&JsonStr<'_>| text.starts_with("https://") || text.starts_with("http://");
        let Some(url) = source.url.as_ref().or(source.source.as_ref().filter(is_url)) else {
            if self.documents.len() + json.get().len() < MAX_HELD {
                self.documents.push_str(if self.documents.is_empty() { "" } else { "," });
                self.documents.push_str(json.get());
            }
            return;
        };
        let title = source.title.as_ref().unwrap_or(url);
        let citation = UrlCitation { start_index: start, end_index: self.characters, url, title };
        sink(Event::Annotation { choice: 0, json: &citation.annotation() });
    }

    /// Emits the usage so far, and once the service tier.
    pub fn usage(&mut self, json: &Json<'_>, sink: EventSink<'_>) {
        #[derive(Deserialize)]
        struct Tier<'a> {
            #[serde(borrow)]
            service_tier: Option<JsonStr<'a>>,
        }
        if let Some(Tier { service_tier: Some(tier) }) =
            json.read::<Tier<'_>>().filter(|_| !self.tier_emitted)
        {
            // OpenAI's names of the two tiers; it has none for `batch`.
            let standard = match &*tier {
                "standard" => Some(r#""default""#),
                "priority" => Some(r#""priority""#),
                _ => None,
            };
            self.tier_emitted = true;
            if let Some(json) = standard {
                sink(Event::Member { name: "service_tier", json });
            }
        }
        if let Some(parts) = UsageParts::read(json.get().as_bytes()) {
            self.usage_parts.update(&parts);
        }
        if let Some(usage) = self.usage_parts.usage() {
            sink(Event::Usage(usage));
        }
    }

    pub fn end(&mut self, ending: &Ending<'_>, sink: EventSink<'_>) {
        let members = [
            ("stop_sequence", ending.stop_sequence),
            ("stop_details", ending.stop_details),
            ("container", ending.container),
            ("context_management", ending.context_management),
        ];
        for (name, json) in members {
            if let Some(json) = json {
                sink(Event::Member { name, json: json.get() });
            }
        }
        if !self.documents.is_empty() {
            let json = format!("[{}]", std::mem::take(&mut self.documents));
            sink(Event::Member { name: "citations", json: &json });
        }
        if let Some(native) = ending.stop_reason.filter(|_| !self.finished) {
            self.finished = true;
            // Calls of Anthropic's own tools are not calls for the client.
            let reason = match reason(native) {
                Finish::ToolCalls if self.calls == 0 => Finish::Stop,
                reason => reason,
            };
            sink(Event::Finish { choice: 0, reason, native });
        }
        if let Some(usage) = ending.usage {
            self.usage(usage, sink);
        }
    }
}

/// Translates Anthropic's stop reasons into OpenAI's, with newer ones.
fn reason(native: &str) -> Finish {
    match native {
        "max_tokens" | "model_context_window_exceeded" => Finish::Length,
        "tool_use" => Finish::ToolCalls,
        "refusal" => Finish::ContentFilter,
        // `end_turn`, `stop_sequence`, `pause_turn`, `compaction`, and unknown reasons.
        _ => Finish::Stop,
    }
}

/// An error that came with status 200: `{"type":"error","error":{"type":...,"message":...}}`.
pub(in crate::provider) fn provider_error(json: &str) -> ProviderError {
    let mut error = ProviderError::read(500, json.as_bytes());
    // <https://platform.claude.com/docs/en/api/errors>
    error.status = match error.kind.as_deref() {
        Some("invalid_request_error") => 400,
        Some("authentication_error") => 401,
        Some("billing_error") => 402,
        Some("permission_error") => 403,
        Some("not_found_error") => 404,
        Some("request_too_large") => 413,
        Some("rate_limit_error") => 429,
        Some("timeout_error") => 504,
        Some("overloaded_error") => 529,
        _ => 500,
    };
    error
}

#[derive(Deserialize)]
struct Citation<'a> {
    #[serde(borrow)]
    url: Option<JsonStr<'a>>,
    source: Option<JsonStr<'a>>,
    title: Option<JsonStr<'a>>,
}
