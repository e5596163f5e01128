//! Watches an answer that passes unchanged and learns what the record wants to know: usage, model, finish,
//! errors, whether it came to its end, and when the first token came.
//!
//! It never changes, delays or refuses a byte, and what it cannot read it leaves unlearned. Answers that
//! are rewritten have their rewriter, which knows all this anyway. Compressed bodies tell it nothing.

mod openai_event;
mod stream;
mod vendor_event;
mod whole_fast_path;

use super::operation::{Completion, Operation, SummaryShape};
use super::sse::Event;
use super::usage::{Usage, UsageParts};
use crate::json::scan::{JsonScanner, Path};
use stream::Stream;

/// What has been learned so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResponseSummary {
    /// Tokens, in OpenAI's sense.
    pub usage: Option<Usage>,
    /// The model that answered, in the provider's words.
    pub model: Option<String>,
    /// Why it stopped, in the provider's words: `stop`, `tool_use`, `completed`, `max_output_tokens`.
    pub finish: Option<String>,
    /// The code (or else the type) of an error the answer told, in a body or an event: `overloaded_error`.
    pub error: Option<String>,
    /// Events of a stream, `[DONE]` among them.
    pub events: u64,
    /// Something came that a user would see: text, reasoning, a tool call. For answers that are no
    /// stream: the first byte.
    pub content: bool,
    /// The stream said that it is over (`[DONE]`, `message_stop`, `response.completed` and its like),
    /// or the JSON text was closed. Of bytes that are neither, only HTTP's own framing can tell.
    pub ended: bool,
}

impl ResponseSummary {
    /// Whether the answer came to its end: some providers send no end marker but do send a finish reason.
    pub fn is_complete(&self) -> bool {
        self.ended || self.finish.is_some()
    }

    /// The same by the rule of an operation: a chat needs a finish reason, an end marker alone is not enough.
    pub fn is_complete_for(&self, operation: Operation) -> bool {
        match operation.completion() {
            Completion::FinishReason => self.finish.is_some(),
            Completion::Either => self.is_complete(),
        }
    }
}

/// One answer's watcher. Holds no more than one event, and of a JSON body nothing but what is wanted.
#[derive(Debug)]
pub struct Tap {
    watch: Watch,
    summary: ResponseSummary,
}

#[derive(Debug)]
enum Watch {
    /// Audio, files: there is nothing to read.
    Opaque,
    Json(Box<Whole>),
    Stream(Box<Stream>),
}

/// The state of one JSON answer.
#[derive(Debug)]
struct Whole {
    scan: JsonScanner,
    usage_parts: UsageParts,
    /// How long the answer is, while nothing of it has come and a glance may do.
    length: Option<usize>,
    /// Its `status` may be that of a response.
    is_response_object: bool,
}

/// What a whole JSON answer tells; [`Learned::member`] counts in this order.
const PATHS: &[Path] = &[
    &["usage"],
    &["model"],
    &["choices", "*", "finish_reason"],
    &["stop_reason"],
    &["error"],
    &["status"],
    &["incomplete_details"],
    // Bedrock.
    &["stopReason"],
    // Cohere: a chat's finish, and the usage of everything else.
    &["finish_reason"],
    &["meta"],
    // Gemini; its stream without `alt=sse` is a list of the same.
    &["usageMetadata"],
    &["modelVersion"],
    &["candidates", "*", "finishReason"],
    &["promptFeedback", "blockReason"],
    &["*", "usageMetadata"],
    &["*", "modelVersion"],
    &["*", "candidates", "*", "finishReason"],
    &["*", "promptFeedback", "blockReason"],
    &["*", "error"],
];

impl Tap {
    /// `streamed`: the answer is `text/event-stream`; `json`: it is JSON. By the answer's content type,
    /// not by what was asked for: an error to a streamed request is JSON.
    /// `length`: the answer's bytes, where they were told.
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
        Self { watch, summary: ResponseSummary::default() }
    }

    /// Takes the next bytes of the answer. True once: on the push with the first content.
    pub fn push(&mut self, chunk: &[u8]) -> bool {
        let before = self.summary.content;
        let summary = &mut self.summary;
        match &mut self.watch {
            Watch::Opaque => summary.content |= !chunk.is_empty(),
            Watch::Json(whole) => {
                let Whole { scan, usage_parts, length, is_response_object } = &mut **whole;
                summary.content |= !chunk.is_empty();
                if length.take() == Some(chunk.len()) && summary.read_common_fields(usage_parts, chunk) {
                    return !before;
                }
                scan.push(chunk, &mut |index, value| {
                    summary.record_member(usage_parts, *is_response_object, index, value);
                });
                summary.ended = scan.is_closed();
            }
            Watch::Stream(stream) => stream.push(chunk, summary),
        }
        self.summary.content && !before
    }

    /// Takes an event of the stream from whoever has cut it. A stream is watched by its events or by its bytes
    /// ([`Tap::push`]), not by both.
    pub fn event(&mut self, event: &Event<'_>) {
        if let Watch::Stream(stream) = &mut self.watch {
            stream.event(event, &mut self.summary);
        }
    }

    /// The answer is over: reads a last event that has no blank line behind it.
    pub fn finish(&mut self) {
        if let Watch::Stream(stream) = &mut self.watch {
            stream.finish(&mut self.summary);
        }
    }

    pub fn summary(&self) -> &ResponseSummary {
        &self.summary
    }

    /// What was observed, at the end.
    pub fn into_summary(self) -> ResponseSummary {
        self.summary
    }
}

impl ResponseSummary {
    /// Takes in a whole answer by a few looks; false, and nothing learned, where that is not enough.
    fn read_common_fields(&mut self, usage_parts: &mut UsageParts, response: &[u8]) -> bool {
        let Some(fields) = whole_fast_path::find(response) else { return false };
        if let Some(usage) = fields.usage {
            let Some(read) = UsageParts::read(usage) else { return false };
            usage_parts.update(&read);
            self.usage = usage_parts.usage();
        }
        self.note_model(fields.model.and_then(openai_event::text));
        self.note_finish(fields.finish.and_then(openai_event::text));
        self.ended = true;
        true
    }

    /// Takes in one member of a whole answer; `index` counts in [`PATHS`].
    fn record_member(
        &mut self,
        usage_parts: &mut UsageParts,
        is_response_object: bool,
        index: usize,
        value: &[u8],
    ) {
        match index {
            0 | 9 | 10 | 14 => self.record_usage(usage_parts, value),
            1 | 11 | 15 => self.note_model(openai_event::text(value)),
            2 | 3 | 7 | 8 | 12 | 13 | 16 | 17 => self.note_finish(openai_event::text(value)),
            4 | 18 => self.note_error(value),
            // Batches and files have a status too; only a response's is a reason to stop.
            5 if is_response_object && self.finish.is_none() => {
                let status = openai_event::text(value);
                self.note_finish(status.filter(|status| openai_event::is_final(status)));
            }
            6 if is_response_object => self.note_finish(openai_event::reason(value)),
            _ => {}
        }
    }

    fn record_usage(&mut self, sum: &mut UsageParts, value: &[u8]) {
        if let Some(parts) = UsageParts::read(value) {
            sum.update(&parts);
            self.usage = sum.usage();
        }
    }

    /// The first name that is one counts: Azure's first chunk has an empty one.
    fn note_model(&mut self, model: Option<String>) {
        if self.model.is_none() {
            self.model = model.filter(|model| !model.is_empty());
        }
    }

    fn note_finish(&mut self, finish: Option<String>) {
        if let Some(finish) = finish.filter(|finish| !finish.is_empty()) {
            self.finish = Some(finish);
        }
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
