//! Decodes an unstreamed response of `POST /v2/chat` into events.

use super::response_parts::{self, CallIn, ContentIn};
use crate::provider::bounded_body::BoundedBody;
use serde::Deserialize;
use words::api::chat::{Decoder, Event, EventSink, ProviderError, Start};
use words::api::usage::VendorUsage;
use words::json::{Json, JsonStr};

/// Buffers one response and decodes it at the end.
#[derive(Debug, Default)]
pub(super) struct Whole {
    body: BoundedBody,
}

#[derive(Deserialize)]
struct ResponseIn<'a> {
    #[serde(borrow)]
    id: Option<JsonStr<'a>>,
    message: Option<Json<'a>>,
    finish_reason: Option<JsonStr<'a>>,
    error: Option<JsonStr<'a>>,
    usage: Option<VendorUsage<'a>>,
    logprobs: Option<Vec<Json<'a>>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: Option<Json<'a>>,
    tool_plan: Option<JsonStr<'a>>,
    tool_calls: Option<Vec<CallIn<'a>>>,
    citations: Option<Json<'a>>,
}

impl Decoder for Whole {
    fn push(&mut self, bytes: &[u8], sink: EventSink<'_>) {
        if let Err(error) = self.body.push(bytes) {
            sink(Event::Error(&error));
        }
    }

    fn finish(&mut self, sink: EventSink<'_>) {
        if let Some(body) = self.body.take()
            && let Err(error) = read(&body, sink)
        {
            sink(Event::Error(&error));
        }
    }
}

fn read(bytes: &[u8], sink: EventSink<'_>) -> Result<(), ProviderError> {
    let text = std::str::from_utf8(bytes).map_err(|_| ProviderError::unreadable("it is not UTF-8"))?;
    let response: ResponseIn<'_> =
        serde_json::from_str(text).map_err(|_| ProviderError::unreadable("it is not a chat of Cohere's"))?;
    let Some(json) = response.message.as_ref().filter(|json| json.is_object()) else {
        // An error with a success status: `{"message":"..."}`.
        return Err(match &response.message {
            Some(message) if !message.is_null() => ProviderError::read(502, bytes),
            _ => ProviderError::unreadable("it has no message"),
        });
    };
    let message: Message<'_> =
        json.read().ok_or_else(|| ProviderError::unreadable("its message is not one of Cohere's"))?;
    let reason = response.finish_reason.as_deref();
    let finish =
        reason.map(|native| response_parts::finish(native, response.error.as_deref())).transpose()?;

    sink(Event::Start(Start { id: response.id.as_deref(), ..Start::default() }));
    emit_content(&message, sink)?;
    if let Some(items) = &response.logprobs {
        response_parts::emit_logprobs(items, sink);
    }
    if let Some(reason) = finish {
        sink(Event::Finish {
            choice: 0,
            reason,
            native: response.finish_reason.as_deref().unwrap_or_default(),
        });
    }
    if let Some(usage) = response.usage.as_ref().and_then(VendorUsage::usage) {
        sink(Event::Usage(usage));
    }
    sink(Event::End);
    Ok(())
}

fn emit_content(message: &Message<'_>, sink: EventSink<'_>) -> Result<(), ProviderError> {
    if let Some(content) = message.content.as_ref().filter(|content| !content.is_null()) {
        if let Some(text) = content.text() {
            sink(Event::Text { choice: 0, text: &text });
        } else {
            let parts: Vec<ContentIn<'_>> = content
                .read()
                .ok_or_else(|| ProviderError::unreadable("its content is not one of Cohere's"))?;
            parts.iter().for_each(|part| part.emit(sink));
        }
    }
    if let Some(text) = message.tool_plan.as_deref().filter(|plan| !plan.is_empty()) {
        sink(Event::Reasoning { choice: 0, text });
    }
    for (index, call) in message.tool_calls.iter().flatten().enumerate() {
        call.emit(u32::try_from(index).unwrap_or(u32::MAX), sink);
    }
    let Some(json) = message.citations.as_ref().filter(|json| !json.is_null()) else { return Ok(()) };
    let citations: Vec<Json<'_>> = json.read().unwrap_or_default();
    citations.iter().for_each(|citation| response_parts::emit_annotations(citation, sink));
    if !citations.is_empty() {
        sink(Event::Member { name: "citations", json: json.get() });
    }
    Ok(())
}
