//! Decodes a streamed response of `POST /v2/chat` into events as they arrive.
//!
//! Unknown event types are skipped, because Cohere adds new ones from time to time.

use super::response_parts::{self, CallIn, ContentIn};
use serde::Deserialize;
use words::api::chat::{Decoder, Event, EventSink, ProviderError, Start};
use words::api::sse::SseParser;
use words::api::usage::VendorUsage;
use words::json::{Json, JsonStr};

/// The limit of the citations collected for the member `citations`, in bytes. Annotations are emitted in any case.
const MAX_CITATIONS: usize = 1 << 20;

/// Decodes one stream.
#[derive(Debug, Default)]
pub(super) struct Stream {
    parser: SseParser,
    state: State,
}

#[derive(Debug, Default)]
struct State {
    /// The number of calls started so far; the current one has the index before it.
    calls: u32,
    /// The items of the JSON list, separated by commas, without the brackets.
    citations: String,
    /// The message is complete or failed; later events are ignored.
    ended: bool,
}

#[derive(Deserialize)]
struct EventIn<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<JsonStr<'a>>,
    id: Option<JsonStr<'a>>,
    delta: Option<Json<'a>>,
    logprobs: Option<Json<'a>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    message: Option<Message<'a>>,
    finish_reason: Option<JsonStr<'a>>,
    error: Option<JsonStr<'a>>,
    usage: Option<VendorUsage<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: Option<Json<'a>>,
    tool_plan: Option<JsonStr<'a>>,
    tool_calls: Option<Json<'a>>,
    citations: Option<Json<'a>>,
}

impl Decoder for Stream {
    fn push(&mut self, bytes: &[u8], sink: EventSink<'_>) {
        let run = self.parser.push(bytes);
        run.data().for_each(|data| self.state.take(&data, false, sink));
        if run.is_oversized() && !self.state.ended {
            self.state.ended = true;
            sink(Event::Error(&ProviderError::unreadable("an event of its stream is over 16 MiB")));
        }
    }

    fn finish(&mut self, sink: EventSink<'_>) {
        let run = self.parser.finish();
        run.data().for_each(|data| self.state.take(&data, true, sink));
    }
}

impl State {
    /// Takes one event. `last`: the stream ended without closing this event, so it may be incomplete, and invalid
    /// JSON in it is no error of its own.
    fn take(&mut self, data: &[u8], last: bool, sink: EventSink<'_>) {
        if self.ended || data.is_empty() || data == b"[DONE]" {
            return;
        }
        if let Err(error) = self.read(data, sink) {
            self.ended = true;
            if !(last && error.is_none()) {
                let error =
                    error.unwrap_or_else(|| ProviderError::unreadable("an event of its stream is not JSON"));
                sink(Event::Error(&error));
            }
        }
    }

    /// Fails with the error that Cohere reported, or with `None` when the event cannot be parsed.
    fn read(&mut self, data: &[u8], sink: EventSink<'_>) -> Result<(), Option<ProviderError>> {
        let text = std::str::from_utf8(data).map_err(|_| None)?;
        let event: EventIn<'_> = serde_json::from_str(text).map_err(|_| None)?;
        let Some(kind) = &event.kind else { return Err(Some(ProviderError::read(502, data))) };
        let delta = match kind.as_ref() {
            "error" | "stream-error" => return Err(Some(ProviderError::read(502, data))),
            "message-start" => {
                sink(Event::Start(Start { id: event.id.as_deref(), ..Start::default() }));
                return Ok(());
            }
            "content-start" | "content-delta" | "tool-plan-delta" | "tool-call-start" | "tool-call-delta"
            | "citation-start" | "message-end" => event.delta.as_ref(),
            _ => return Ok(()),
        };
        let Some(delta) = delta.filter(|delta| !delta.is_null()) else { return Ok(()) };
        let delta: Delta<'_> = delta.read().ok_or(None)?;
        match kind.as_ref() {
            "message-end" => self.end(&delta, sink).map_err(Some)?,
            kind => {
                if let Some(message) = &delta.message {
                    self.message(kind, message, sink);
                }
            }
        }
        if let Some(json) = event.logprobs.as_ref().filter(|json| json.is_object()) {
            response_parts::emit_logprobs(std::slice::from_ref(json), sink);
        }
        Ok(())
    }

    fn message(&mut self, kind: &str, message: &Message<'_>, sink: EventSink<'_>) {
        match kind {
            "content-start" | "content-delta" => {
                if let Some(content) = message.content.as_ref().and_then(Json::read::<ContentIn<'_>>) {
                    content.emit(sink);
                }
            }
            "tool-plan-delta" => {
                if let Some(text) = message.tool_plan.as_deref().filter(|plan| !plan.is_empty()) {
                    sink(Event::Reasoning { choice: 0, text });
                }
            }
            "citation-start" => {
                if let Some(citation) = message.citations.as_ref().and_then(response_parts::first) {
                    response_parts::emit_annotations(&citation, sink);
                    self.keep_citation(&citation);
                }
            }
            _ => {
                let Some(json) = message.tool_calls.as_ref().and_then(response_parts::first) else { return };
                let Some(call) = json.read::<CallIn<'_>>() else { return };
                // Calls arrive one after the other, so a fragment belongs to the latest one.
                if kind == "tool-call-start" {
                    call.emit(self.calls, sink);
                    self.calls = self.calls.saturating_add(1);
                } else if let Some(index) = self.calls.checked_sub(1) {
                    call.emit_arguments(index, sink);
                }
            }
        }
    }

    fn keep_citation(&mut self, citation: &Json<'_>) {
        if self.citations.len() + citation.get().len() < MAX_CITATIONS {
            if !self.citations.is_empty() {
                self.citations.push(',');
            }
            self.citations.push_str(citation.get());
        }
    }

    fn end(&mut self, delta: &Delta<'_>, sink: EventSink<'_>) -> Result<(), ProviderError> {
        let usage = delta.usage.as_ref().and_then(VendorUsage::usage);
        let native = delta.finish_reason.as_deref();
        if let Some(usage) = usage {
            sink(Event::Usage(usage));
        }
        let reason = match (native, delta.error.as_deref().filter(|why| !why.is_empty())) {
            (Some(native_reason), why) => Some(response_parts::finish(native_reason, why)?),
            (None, Some(why)) => return Err(ProviderError::new(502, why).with_kind("ERROR")),
            (None, None) => None,
        };
        if !self.citations.is_empty() {
            let json = format!("[{}]", std::mem::take(&mut self.citations));
            sink(Event::Member { name: "citations", json: &json });
        }
        if let Some(reason) = reason {
            sink(Event::Finish { choice: 0, reason, native: native.unwrap_or_default() });
        }
        sink(Event::End);
        self.ended = true;
        Ok(())
    }
}
