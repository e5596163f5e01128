//! Splits a response in one of OpenAI's shapes into JSON texts, which [`ResponseEvents`] turns into events: of chat completions in
//! `event_emitter`, of the Responses API in `openai_responses`.

use super::event_emitter::EventEmitter;
use super::provider_error;
use crate::provider::bounded_body::BoundedBody;
use words::api::chat::{Decoder, Event, EventSink, ProviderError};
use words::api::sse::{self, SseParser};
use words::json::Json;

/// The most that is kept of a stream before its first event, in bytes: it may be an HTML page.
const MAX_PREFIX: usize = 64 << 10;

/// Turns the JSON texts of one response into events, and holds its state.
pub(in crate::provider) trait ResponseEvents:
    std::fmt::Debug + Default + Send + Sync
{
    /// Takes one JSON object. Returns whether it was a response or a part of one.
    ///
    /// # Errors
    /// The error that the object contains, or that it cannot be read.
    fn take(&mut self, text: &str, streamed: bool, sink: EventSink<'_>) -> Result<bool, ProviderError>;

    /// Ends a response that the provider marked as ended.
    fn end(&mut self, sink: EventSink<'_>);

    /// Emits what was held back, when no more input follows. `false`: that was an error, which is the last event.
    fn flush(&mut self, sink: EventSink<'_>) -> bool;
}

impl ResponseEvents for EventEmitter {
    fn take(&mut self, text: &str, streamed: bool, sink: EventSink<'_>) -> Result<bool, ProviderError> {
        self.take(text, streamed, sink)
    }

    fn end(&mut self, sink: EventSink<'_>) {
        self.end(sink);
    }

    fn flush(&mut self, sink: EventSink<'_>) -> bool {
        self.flush(sink)
    }
}

/// Decodes one whole response.
#[derive(Debug, Default)]
pub(in crate::provider) struct Whole<E> {
    body: BoundedBody,
    emitter: E,
    done: bool,
}

impl<E: ResponseEvents> Decoder for Whole<E> {
    fn push(&mut self, bytes: &[u8], sink: EventSink<'_>) {
        if !self.done
            && let Err(error) = self.body.push(bytes)
        {
            self.done = true;
            sink(Event::Error(&error));
        }
    }

    fn finish(&mut self, sink: EventSink<'_>) {
        if std::mem::replace(&mut self.done, true) {
            return;
        }
        if let Some(body) = self.body.take() {
            emit_whole(&body, &mut self.emitter, sink);
        }
    }
}

/// Emits the events of a whole response, or an error.
fn emit_whole<E: ResponseEvents>(body: &[u8], emitter: &mut E, sink: EventSink<'_>) {
    let text = match std::str::from_utf8(body) {
        Ok(text) => text.trim_start_matches('\u{feff}').trim(),
        Err(_) => return sink(Event::Error(&ProviderError::unreadable("it is not UTF-8"))),
    };
    let result =
        if text.starts_with('{') { emitter.take(text, false, sink) } else { Err(not_a_response(text)) };
    match result {
        Ok(true) => emitter.end(sink),
        Ok(false) => sink(Event::Error(&not_a_response(text))),
        Err(error) => sink(Event::Error(&error)),
    }
}

/// The error for a body that is no response: an error of unknown shape, a page, nothing.
fn not_a_response(text: &str) -> ProviderError {
    match Json::parse(text) {
        Some(json) => match json.text() {
            Some(text) => ProviderError::unreadable(&format!("it is only the text \"{text}\"")),
            None => provider_error::read_error(text, None),
        },
        None if text.is_empty() => ProviderError::unreadable("it is empty"),
        None => {
            let message = ProviderError::read(502, text.as_bytes()).message;
            let message: String = message.chars().take(300).collect();
            ProviderError::unreadable(&format!("it is not JSON: {message}"))
        }
    }
}

/// Decodes one stream.
#[derive(Debug, Default)]
pub(in crate::provider) struct Stream<E> {
    parser: SseParser,
    emitter: E,
    /// The first bytes, until the first event.
    prefix: Vec<u8>,
    /// Whether an event has arrived.
    started: bool,
    closed: bool,
}

impl<E: ResponseEvents> Decoder for Stream<E> {
    fn push(&mut self, bytes: &[u8], sink: EventSink<'_>) {
        if self.closed {
            return;
        }
        if !self.started {
            let room = MAX_PREFIX.saturating_sub(self.prefix.len());
            self.prefix.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        }
        let run = self.parser.push(bytes);
        run.events().for_each(|event| self.take(&event, false, sink));
        if run.is_oversized() && !self.closed {
            self.closed = true;
            sink(Event::Error(&ProviderError::unreadable("an event of its stream is over 16 MiB")));
        }
    }

    fn finish(&mut self, sink: EventSink<'_>) {
        if self.closed {
            return;
        }
        let run = self.parser.finish();
        run.events().for_each(|event| self.take(&event, true, sink));
        if self.closed {
            return;
        }
        self.closed = true;
        if self.started {
            self.emitter.flush(sink);
            return;
        }
        // No event at all: the body is a response in another shape, unless it only had comments.
        let prefix = std::mem::take(&mut self.prefix);
        let prefix = String::from_utf8_lossy(&prefix);
        let is_comment = |line: &str| line.is_empty() || line.starts_with([':']) || line.starts_with("data:");
        if !prefix.lines().map(str::trim).all(is_comment) {
            emit_whole(prefix.as_bytes(), &mut self.emitter, sink);
        }
    }
}

impl<E: ResponseEvents> Stream<E> {
    /// Takes one event. `last`: it is not followed by a blank line, so it may be incomplete.
    fn take(&mut self, event: &sse::SseEvent<'_>, last: bool, sink: EventSink<'_>) {
        let data = event.data.as_deref().unwrap_or_default().trim_ascii();
        // Some servers send empty events to keep the connection alive.
        if self.closed || data.is_empty() {
            return;
        }
        self.started = true;
        self.prefix = Vec::new();
        if data == b"[DONE]" {
            self.closed = true;
            return self.emitter.end(sink);
        }
        let text = std::str::from_utf8(data).unwrap_or_default();
        if last && Json::parse(text).is_none() {
            return;
        }
        let result = match event.name {
            Some("error") => Err(provider_error::read_error(text, None)),
            _ => match self.emitter.take(text, true, sink) {
                Ok(false) => provider_error::untyped_error(text).map_or(Ok(false), Err),
                result => result,
            },
        };
        if let Err(error) = result {
            self.closed = true;
            sink(Event::Error(&error));
        }
    }
}
