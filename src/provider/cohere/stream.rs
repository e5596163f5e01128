//! A streamed answer of `POST /v2/chat`, read into events as they come.
//!
//! Unknown kinds of event are passed over: Cohere adds some now and then.

use super::told::{self, Call, Piece, UsageIn};
use crate::api::chat::{Decoder, Event, EventSink, Json, ProviderError, Start, Text};
use crate::api::sse::Splitter;
use serde::Deserialize;

/// How much of the citations is kept for the member `citations`, bytes; each is told as it comes anyway.
const MOST_CITATIONS: usize = 1 << 20;

/// Reads one stream.
#[derive(Debug, Default)]
pub(super) struct Stream {
    splitter: Splitter,
    state: State,
}

#[derive(Debug, Default)]
struct State {
    /// How many calls have begun, and by which index Cohere knows the last one.
    calls: u32,
    /// The items of a JSON list, with commas between them.
    citations: String,
    /// The message ended, or broke.
    over: bool,
}

#[derive(Deserialize)]
struct Told<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Text<'a>>,
    id: Option<Text<'a>>,
    delta: Option<Json<'a>>,
    logprobs: Option<Json<'a>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    message: Option<Message<'a>>,
    finish_reason: Option<Text<'a>>,
    error: Option<Text<'a>>,
    usage: Option<UsageIn>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: Option<Json<'a>>,
    tool_plan: Option<Text<'a>>,
    tool_calls: Option<Json<'a>>,
    citations: Option<Json<'a>>,
}

impl Decoder for Stream {
    fn push(&mut self, bytes: &[u8], tell: EventSink<'_>) {
        let state = &mut self.state;
        let outcome = self.splitter.push(bytes, &mut |event| state.take(event.data, false, tell));
        if outcome.is_err() && !self.state.over {
            self.state.over = true;
            tell(Event::Error(&ProviderError::unreadable("an event of its stream is over 16 MiB")));
        }
    }

    fn finish(&mut self, tell: EventSink<'_>) {
        let state = &mut self.state;
        self.splitter.finish(&mut |event| state.take(event.data, true, tell));
    }
}

impl State {
    /// `last`: the stream broke off behind it, so that it may be half an event.
    fn take(&mut self, data: &[u8], last: bool, tell: EventSink<'_>) {
        if self.over || data.is_empty() || data == b"[DONE]" {
            return;
        }
        if let Err(fault) = self.read(data, tell) {
            self.over = true;
            if !(last && fault.is_none()) {
                let fault =
                    fault.unwrap_or_else(|| ProviderError::unreadable("an event of its stream is not JSON"));
                tell(Event::Error(&fault));
            }
        }
    }

    /// Fails with what Cohere told of, or with nothing where it cannot be read.
    fn read(&mut self, data: &[u8], tell: EventSink<'_>) -> Result<(), Option<ProviderError>> {
        let text = std::str::from_utf8(data).map_err(|_| None)?;
        let told: Told<'_> = serde_json::from_str(text).map_err(|_| None)?;
        let Some(kind) = &told.kind else { return Err(Some(ProviderError::read(502, data))) };
        let delta = match kind.as_ref() {
            "error" | "stream-error" => return Err(Some(ProviderError::read(502, data))),
            "message-start" => {
                tell(Event::Start(Start { id: told.id.as_deref(), ..Start::default() }));
                return Ok(());
            }
            "content-start" | "content-delta" | "tool-plan-delta" | "tool-call-start" | "tool-call-delta"
            | "citation-start" | "message-end" => told.delta.as_ref(),
            _ => return Ok(()),
        };
        let Some(delta) = delta.filter(|delta| !delta.is_null()) else { return Ok(()) };
        let delta: Delta<'_> = delta.read().ok_or(None)?;
        match kind.as_ref() {
            "message-end" => self.end(&delta, tell).map_err(Some)?,
            kind => {
                if let Some(message) = &delta.message {
                    self.message(kind, message, tell);
                }
            }
        }
        if let Some(json) = told.logprobs.as_ref().filter(|json| json.is_object()) {
            told::tell_logprobs(std::slice::from_ref(json), tell);
        }
        Ok(())
    }

    fn message(&mut self, kind: &str, message: &Message<'_>, tell: EventSink<'_>) {
        match kind {
            "content-start" | "content-delta" => {
                if let Some(piece) = message.content.as_ref().and_then(Json::read::<Piece<'_>>) {
                    piece.tell(tell);
                }
            }
            "tool-plan-delta" => {
                if let Some(text) = message.tool_plan.as_deref().filter(|plan| !plan.is_empty()) {
                    tell(Event::Reasoning { choice: 0, text });
                }
            }
            "citation-start" => {
                if let Some(citation) = message.citations.as_ref().and_then(told::first) {
                    told::annotate(&citation, tell);
                    self.keep(&citation);
                }
            }
            _ => {
                let Some(json) = message.tool_calls.as_ref().and_then(told::first) else { return };
                let Some(call) = json.read::<Call<'_>>() else { return };
                // Calls come one after the other: a fragment belongs to the last that began.
                if kind == "tool-call-start" {
                    call.tell(self.calls, tell);
                    self.calls = self.calls.saturating_add(1);
                } else if let Some(index) = self.calls.checked_sub(1) {
                    call.tell_arguments(index, tell);
                }
            }
        }
    }

    fn keep(&mut self, citation: &Json<'_>) {
        if self.citations.len() + citation.get().len() < MOST_CITATIONS {
            if !self.citations.is_empty() {
                self.citations.push(',');
            }
            self.citations.push_str(citation.get());
        }
    }

    fn end(&mut self, delta: &Delta<'_>, tell: EventSink<'_>) -> Result<(), ProviderError> {
        let usage = delta.usage.as_ref().and_then(UsageIn::usage);
        let native = delta.finish_reason.as_deref();
        if let Some(usage) = usage {
            tell(Event::Usage(usage));
        }
        let reason = match (native, delta.error.as_deref().filter(|why| !why.is_empty())) {
            (Some(word), why) => Some(told::finish(word, why)?),
            (None, Some(why)) => return Err(ProviderError::new(502, why).with_kind("ERROR")),
            (None, None) => None,
        };
        if !self.citations.is_empty() {
            let json = format!("[{}]", std::mem::take(&mut self.citations));
            tell(Event::Member { name: "citations", json: &json });
        }
        if let Some(reason) = reason {
            tell(Event::Finish { choice: 0, reason, native: native.unwrap_or_default() });
        }
        tell(Event::End);
        self.over = true;
        Ok(())
    }
}
