//! A whole answer of `POST /v2/chat`, read into events.

use super::told::{self, Call, Piece, UsageIn};
use crate::api::chat::{Decoder, Event, EventSink, Json, ProviderError, Start, Text};
use serde::Deserialize;

/// The largest whole answer held, bytes.
const MOST_HELD: usize = 64 << 20;

/// Reads one answer.
#[derive(Debug, Default)]
pub(super) struct Whole {
    held: Vec<u8>,
    too_long: bool,
}

#[derive(Deserialize)]
struct Told<'a> {
    #[serde(borrow)]
    id: Option<Text<'a>>,
    message: Option<Json<'a>>,
    finish_reason: Option<Text<'a>>,
    error: Option<Text<'a>>,
    usage: Option<UsageIn>,
    logprobs: Option<Vec<Json<'a>>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: Option<Json<'a>>,
    tool_plan: Option<Text<'a>>,
    tool_calls: Option<Vec<Call<'a>>>,
    citations: Option<Json<'a>>,
}

impl Decoder for Whole {
    fn push(&mut self, bytes: &[u8], _tell: EventSink<'_>) {
        self.too_long |= self.held.len() + bytes.len() > MOST_HELD;
        if !self.too_long {
            self.held.extend_from_slice(bytes);
        }
    }

    fn finish(&mut self, tell: EventSink<'_>) {
        let held = std::mem::take(&mut self.held);
        let outcome = match self.too_long {
            true => Err(ProviderError::unreadable("it is over 64 MiB")),
            false => read(&held, tell),
        };
        if let Err(fault) = outcome {
            tell(Event::Error(&fault));
        }
    }
}

fn read(bytes: &[u8], tell: EventSink<'_>) -> Result<(), ProviderError> {
    let text = std::str::from_utf8(bytes).map_err(|_| ProviderError::unreadable("it is not UTF-8"))?;
    let told: Told<'_> =
        serde_json::from_str(text).map_err(|_| ProviderError::unreadable("it is not a chat of Cohere's"))?;
    let Some(json) = told.message.as_ref().filter(|json| json.is_object()) else {
        // An error that came with a success: `{"message":"..."}`.
        return Err(match &told.message {
            Some(message) if !message.is_null() => ProviderError::read(502, bytes),
            _ => ProviderError::unreadable("it has no message"),
        });
    };
    let message: Message<'_> =
        json.read().ok_or_else(|| ProviderError::unreadable("its message is not one of Cohere's"))?;
    let reason = told.finish_reason.as_deref();
    let finish = reason.map(|word| told::finish(word, told.error.as_deref())).transpose()?;

    tell(Event::Start(Start { id: told.id.as_deref(), ..Start::default() }));
    tell_content(&message, tell)?;
    if let Some(items) = &told.logprobs {
        told::tell_logprobs(items, tell);
    }
    if let Some(reason) = finish {
        tell(Event::Finish { choice: 0, reason, native: told.finish_reason.as_deref().unwrap_or_default() });
    }
    if let Some(usage) = told.usage.as_ref().and_then(UsageIn::usage) {
        tell(Event::Usage(usage));
    }
    tell(Event::End);
    Ok(())
}

fn tell_content(message: &Message<'_>, tell: EventSink<'_>) -> Result<(), ProviderError> {
    if let Some(content) = message.content.as_ref().filter(|content| !content.is_null()) {
        if let Some(text) = content.text() {
            tell(Event::Text { choice: 0, text: &text });
        } else {
            let pieces: Vec<Piece<'_>> = content
                .read()
                .ok_or_else(|| ProviderError::unreadable("its content is not one of Cohere's"))?;
            pieces.iter().for_each(|piece| piece.tell(tell));
        }
    }
    if let Some(text) = message.tool_plan.as_deref().filter(|plan| !plan.is_empty()) {
        tell(Event::Reasoning { choice: 0, text });
    }
    for (index, call) in message.tool_calls.iter().flatten().enumerate() {
        call.tell(u32::try_from(index).unwrap_or(u32::MAX), tell);
    }
    let Some(json) = message.citations.as_ref().filter(|json| !json.is_null()) else { return Ok(()) };
    let citations: Vec<Json<'_>> = json.read().unwrap_or_default();
    citations.iter().for_each(|citation| told::annotate(citation, tell));
    if !citations.is_empty() {
        tell(Event::Member { name: "citations", json: json.get() });
    }
    Ok(())
}
