//! Observes a response that passes unchanged, for the record: usage, model, finish reason, errors, whether it is
//! complete, and when its first token arrived.
//!
//! It never changes, delays or refuses a byte, and ignores what it cannot read. Translated responses do not need it:
//! their rewriter has the same facts. Compressed bodies cannot be read.

mod event_text;
mod filter_reason;
mod openai_event;
mod socket;
mod stream;
mod vendor_event;
mod web_searches;
mod whole_fast_path;

pub use filter_reason::has_refusal;

use super::operation::{Completion, Operation, SummaryShape};
use super::output_text::OutputText;
use super::service_tier::ServiceTier;
use super::sse::SseEvent;
use super::usage::{Usage, UsageParts};
use crate::json::scan::{JsonScanner, Path};
use socket::Socket;
use stream::Stream;
use web_searches::WebSearches;

/// What was observed of a response so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResponseSummary {
    /// Tokens as OpenAI counts them.
    pub usage: Option<Usage>,
    /// Searches of the web that the usage does not report.
    pub web_searches: WebSearches,
    /// The provider's id of the response.
    pub id: Option<String>,
    /// The model that responded, as the provider names it.
    pub model: Option<String>,
    /// The service tier that the provider served and bills.
    pub service_tier: Option<ServiceTier>,
    /// The provider's finish reason: `stop`, `tool_use`, `completed`, `max_output_tokens`.
    pub finish: Option<String>,
    /// Whether a filter of the provider has withheld the answer, or a choice of it.
    pub is_filtered: bool,
    /// The code (or else the type) of an error in the body or in an event: `overloaded_error`.
    pub error: Option<String>,
    /// The text that was read, as far as it can be counted.
    pub text: OutputText,
    /// Number of events of a stream, with `[DONE]`, without comments.
    pub events: u64,
    /// Whether something arrived that a user would see: text, reasoning, a tool call. For a response that is no stream:
    /// whether its first byte arrived.
    pub content: bool,
    /// Whether the end marker of the stream arrived (`[DONE]`, `message_stop`, `response.completed` and the like), or
    /// the JSON text was closed. For other bodies only HTTP's framing shows the end.
    pub ended: bool,
    /// Whether it is compressed: what it used is then unknown, because its content cannot be read.
    pub is_compressed: bool,
    /// Whether nothing in it is read: audio, a file, text that is no JSON, something compressed.
    pub is_unread: bool,
    /// Whether the provider ended a chat without a finish reason.
    pub lacks_reason: bool,
}

/// The warning for a chat whose provider gave no reason for its end.
pub const NO_REASON: &str = "finish_reason: the provider gave none, and marked the end";

impl ResponseSummary {
    /// Whether the response is complete: some providers send no end marker but do send a finish reason.
    pub fn is_complete(&self) -> bool {
        self.ended || self.finish.is_some()
    }

    /// Whether the response is complete by the operation's rule.
    pub fn is_complete_for(&self, operation: Operation) -> bool {
        match operation.completion() {
            Completion::FinishReason => self.finish.is_some(),
            Completion::ReasonOrMarker => self.finish.is_some() || self.is_marked(),
            Completion::Either => self.is_complete(),
        }
    }

    /// Whether content arrived, and behind it the end marker.
    fn is_marked(&self) -> bool {
        self.ended && self.content
    }
}

/// The observer of one response. It holds at most one event, and of a JSON body only the members that are read.
#[derive(Debug)]
pub struct Tap {
    watch: Watch,
    summary: ResponseSummary,
    /// Whether such a response ends with a finish reason.
    needs_reason: bool,
}

#[derive(Debug)]
enum Watch {
    /// Audio or a file: nothing can be read.
    Opaque,
    Json(Box<Whole>),
    Stream(Box<Stream>),
    Socket(Box<Socket>),
}

/// The state of one JSON response.
#[derive(Debug)]
struct Whole {
    scan: JsonScanner<Field>,
    usage_parts: UsageParts,
    /// The length of the response; set only while nothing has arrived and the fast path may be enough.
    length: Option<usize>,
    /// Whether its `status` may be that of a response object.
    is_response_object: bool,
}

/// What a member of a JSON response is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Usage,
    Id,
    Model,
    Finish,
    Tier,
    /// A text of the output, or a list of parts with texts.
    Text,
    /// The output of a response object: texts, and calls of the provider's own tools.
    Output,
    ToolUsage,
    Error,
    Status,
    IncompleteDetails,
}

/// The members of a JSON response that are read.
const PATHS: &[(Path, Field)] = &[
    (&["usage"], Field::Usage),
    (&["id"], Field::Id),
    (&["model"], Field::Model),
    (&["choices", "*", "finish_reason"], Field::Finish),
    (&["stop_reason"], Field::Finish),
    (&["service_tier"], Field::Tier),
    (&["choices", "*", "message"], Field::Text),
    (&["choices", "*", "text"], Field::Text),
    (&["content"], Field::Text),
    (&["output"], Field::Output),
    (&["tool_usage"], Field::ToolUsage),
    (&["message", "content"], Field::Text),
    (&["candidates", "*", "content", "parts"], Field::Text),
    (&["error"], Field::Error),
    (&["status"], Field::Status),
    (&["incomplete_details"], Field::IncompleteDetails),
    // Bedrock.
    (&["stopReason"], Field::Finish),
    // Cohere: the finish reason of a chat, and the usage of everything else.
    (&["finish_reason"], Field::Finish),
    (&["meta"], Field::Usage),
    // Gemini. Its stream without `alt=sse` is a list of the same objects.
    (&["usageMetadata"], Field::Usage),
    (&["responseId"], Field::Id),
    (&["modelVersion"], Field::Model),
    (&["candidates", "*", "finishReason"], Field::Finish),
    (&["promptFeedback", "blockReason"], Field::Finish),
    (&["*", "usageMetadata"], Field::Usage),
    (&["*", "responseId"], Field::Id),
    (&["*", "modelVersion"], Field::Model),
    (&["*", "candidates", "*", "finishReason"], Field::Finish),
    (&["*", "promptFeedback", "blockReason"], Field::Finish),
    (&["*", "error"], Field::Error),
];

/// The members whose strings are output of a model, in every API.
const TEXT_MEMBERS: &[&str] = &[
    "content",
    "text",
    "reasoning_content",
    "reasoning",
    "arguments",
    "refusal",
    "thinking",
    "partial_json",
];

impl Tap {
    /// `streamed`: the response is `text/event-stream`; `json`: it is JSON. By its content type, not by what was
    /// requested: the error response to a streamed request is JSON. `length`: its Content-Length, if any.
    pub fn new(operation: Operation, streamed: bool, json: bool, length: Option<usize>) -> Self {
        let watch = if streamed {
            Watch::Stream(Box::default())
        } else if json {
            let shape = operation.summary_shape();
            Watch::Json(Box::new(Whole {
                scan: JsonScanner::new(PATHS),
                usage_parts: UsageParts::default(),
                length: length.filter(|_| shape == SummaryShape::Common),
                is_response_object: shape == SummaryShape::ResponseObject,
            }))
        } else {
            Watch::Opaque
        };
        let needs_reason = operation.completion() != Completion::Either;
        let summary = ResponseSummary { is_unread: !streamed && !json, ..ResponseSummary::default() };
        Self { watch, summary, needs_reason }
    }

    /// Of a websocket of the realtime API.
    pub fn of_socket() -> Self {
        let watch = Watch::Socket(Box::default());
        Self { watch, summary: ResponseSummary::default(), needs_reason: false }
    }

    /// Of a response that is compressed.
    pub fn of_compressed() -> Self {
        let summary = ResponseSummary { is_compressed: true, is_unread: true, ..Default::default() };
        Self { watch: Watch::Opaque, summary, needs_reason: false }
    }

    /// Takes the next bytes of the response. True exactly once: on the push that has the first content.
    pub fn push(&mut self, chunk: &[u8]) -> bool {
        let before = self.summary.content;
        let summary = &mut self.summary;
        match &mut self.watch {
            Watch::Opaque => summary.content |= !chunk.is_empty(),
            Watch::Json(whole) => {
                let Whole { scan, usage_parts, length, is_response_object } = &mut **whole;
                summary.content |= !chunk.is_empty();
                if length.take() != Some(chunk.len()) || !summary.read_common_fields(usage_parts, chunk) {
                    scan.push(chunk, &mut |field, value| {
                        summary.record_member(usage_parts, *is_response_object, field, value);
                    });
                    summary.ended = scan.is_closed();
                }
            }
            Watch::Stream(stream) => stream.push(chunk, summary),
            Watch::Socket(socket) => socket.push(chunk, summary),
        }
        self.note_end();
        self.summary.content && !before
    }

    fn note_end(&mut self) {
        let summary = &mut self.summary;
        summary.lacks_reason =
            self.needs_reason && summary.is_marked() && summary.finish.is_none() && summary.error.is_none();
    }

    /// Takes an event of a stream that was parsed elsewhere. A stream is observed by its events or by its bytes
    /// ([`Tap::push`]), not by both.
    pub fn event(&mut self, event: &SseEvent<'_>) {
        if let Watch::Stream(stream) = &mut self.watch {
            stream.event(event, &mut self.summary);
        }
        self.note_end();
    }

    /// The response has ended: reads a last event that no blank line follows.
    pub fn finish(&mut self) {
        if let Watch::Stream(stream) = &mut self.watch {
            stream.finish(&mut self.summary);
        }
        self.note_end();
    }

    pub fn summary(&self) -> &ResponseSummary {
        &self.summary
    }

    /// What was observed, after the response has ended.
    pub fn into_summary(self) -> ResponseSummary {
        self.summary
    }
}

impl ResponseSummary {
    /// Reads a whole response by the fast path. False, with nothing recorded, if that is not enough.
    fn read_common_fields(&mut self, usage_parts: &mut UsageParts, response: &[u8]) -> bool {
        let Some(fields) = whole_fast_path::find(response) else { return false };
        if let Some(usage) = fields.usage {
            let Some(read) = UsageParts::read(usage) else { return false };
            usage_parts.update(&read);
            self.usage = usage_parts.usage();
            self.service_tier = read.service_tier();
        } else {
            self.note_text(response);
        }
        self.note_tier(fields.tier);
        self.note_id(|| fields.id.and_then(openai_event::text));
        self.note_model(fields.model.and_then(openai_event::text));
        self.note_finish(fields.finish.and_then(openai_event::text));
        self.ended = true;
        true
    }

    /// Records one member of a whole response.
    fn record_member(
        &mut self,
        usage_parts: &mut UsageParts,
        is_response_object: bool,
        field: Field,
        value: &[u8],
    ) {
        match field {
            Field::Usage => {
                self.record_usage(usage_parts, value);
                if self.usage.is_some() {
                    self.text = OutputText::default();
                }
            }
            Field::Id => self.note_id(|| openai_event::text(value)),
            Field::Model => self.note_model(openai_event::text(value)),
            Field::Finish => self.note_finish(openai_event::text(value)),
            Field::Text => self.note_text(value),
            Field::Output => {
                self.note_text(value);
                self.web_searches.take_output(value);
            }
            Field::ToolUsage => self.web_searches.take_tool_usage(value),
            Field::Tier => self.note_tier(Some(value)),
            Field::Error => self.note_error(value),
            // Batches and files have a status too; only that of a response is a finish reason.
            Field::Status if is_response_object && self.finish.is_none() => {
                let status = openai_event::text(value);
                self.note_finish(status.filter(|status| openai_event::is_final(status)));
            }
            Field::IncompleteDetails if is_response_object => self.note_finish(openai_event::reason(value)),
            Field::Status | Field::IncompleteDetails => {}
        }
    }

    fn record_usage(&mut self, sum: &mut UsageParts, value: &[u8]) {
        if let Some(parts) = UsageParts::read(value) {
            sum.update(&parts);
            self.usage = sum.usage();
            self.service_tier = sum.service_tier().or(self.service_tier);
        }
    }

    /// Takes the texts of a part of a whole response. Only while no usage was reported: with it nothing is counted.
    fn note_text(&mut self, value: &[u8]) {
        if self.usage.is_some() {
            return;
        }
        match value.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")) {
            Some(text) => self.text.push_json(text),
            None => self.text.push_members(value, TEXT_MEMBERS),
        }
    }

    fn note_tier(&mut self, tier: Option<&[u8]>) {
        self.service_tier = tier.and_then(ServiceTier::read).or(self.service_tier);
    }

    /// Records the first id that is not empty. Every event of a stream has it: it is read once.
    fn note_id(&mut self, read: impl FnOnce() -> Option<String>) {
        if self.id.is_none() {
            self.id = read().filter(|id| !id.is_empty());
        }
    }

    /// Records the first model name that is not empty: Azure's first chunk has an empty one.
    fn note_model(&mut self, model: Option<String>) {
        if self.model.is_none() {
            self.model = model.filter(|model| !model.is_empty());
        }
    }

    fn note_finish(&mut self, finish: Option<String>) {
        match finish {
            // OpenRouter, Mistral: it has failed, whatever was sent before. OpenRouter says why in the choice.
            Some(finish) if finish == "error" => self.note_error(b"\"error\""),
            Some(finish) if !finish.is_empty() => {
                self.note_filter(&finish);
                self.finish = Some(finish);
            }
            _ => {}
        }
    }

    /// Takes the finish reason of any choice.
    fn note_filter(&mut self, finish: &str) {
        self.is_filtered |= filter_reason::is_filter(finish);
    }

    fn note_error(&mut self, error: &[u8]) {
        let is_error = !matches!(error, b"null" | b"false" | b"\"\"" | b"{}");
        if is_error && self.error.is_none() {
            self.error = Some(openai_event::error_code(error));
        }
    }
}

#[cfg(test)]
mod tests;
