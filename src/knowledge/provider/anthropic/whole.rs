//! Decodes a whole response in Anthropic's format into events.

use super::event_emitter::{EventEmitter, ending, is_message, provider_error};
use crate::provider::bounded_body::BoundedBody;
use serde::Deserialize;
use serde::de::IgnoredAny;
use words::api::chat::{Decoder, Event, EventSink, Finish, ProviderError};
use words::api::messages::wire::AnthropicMessage;

/// Collects the bytes; all events are emitted at the end.
#[derive(Debug, Default)]
pub struct Whole {
    body: BoundedBody,
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

#[derive(Deserialize)]
struct Failed {
    #[serde(rename = "error")]
    _error: IgnoredAny,
}

fn read(bytes: &[u8], sink: EventSink<'_>) -> Result<(), ProviderError> {
    let text = std::str::from_utf8(bytes).map_err(|_| ProviderError::unreadable("it is not text"))?;
    if text.trim().is_empty() {
        return Err(ProviderError::unreadable("it is empty"));
    }
    let message = serde_json::from_str::<AnthropicMessage<'_>>(text).ok().filter(is_message);
    let Some(message) = message else {
        // A list would be read member by member.
        if text.trim_start().starts_with('{') && serde_json::from_str::<Failed>(text).is_ok() {
            return Err(provider_error(text));
        }
        // Usually a proxy's page, whose text helps more than a message of ours.
        let detail = ProviderError::read(502, bytes).message;
        return Err(ProviderError::unreadable(&format!("it is no message of Anthropic's, but: {detail}")));
    };
    let mut emitter = EventEmitter::default();
    emitter.start(&message, sink);
    for block in message.content.iter().flatten() {
        emitter.block(block, sink);
    }
    let ending = ending(&message);
    emitter.end(&ending, sink);
    if ending.stop_reason.is_none() && message.content.is_some() {
        sink(Event::Finish { choice: 0, reason: Finish::Stop, native: "" });
    }
    sink(Event::End);
    Ok(())
}
