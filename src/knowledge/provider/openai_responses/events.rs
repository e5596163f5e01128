//! The events of a response of the Responses API, whole or streamed, as events of a chat.
//!
//! A stream has each text several times: in deltas, and whole in the events that end its part, its item and the response. It is passed on
//! when it comes first; what came in no delta is taken from the item that is done, or else from the last event. `items` has the state
//! of one item.
//!
//! ```text
//! response.output_item.added reasoning
//! response.reasoning_summary_text.delta    Reasoning
//! response.output_item.done reasoning      Signature (encrypted_content)
//! response.output_item.added function_call ToolCall 0
//! response.function_call_arguments.delta   Arguments 0
//! response.completed                       Usage, Finish, End
//! ```

use super::items::{Items, list};
use crate::provider::openai_chat::decoder::ResponseEvents;
use crate::provider::openai_chat::error_in_success;
use words::api::chat::{Event, EventSink, Finish, ProviderError, Start};
use words::api::usage::Usage;
use words::json::Json;
use words::json::splice::Object;

/// The state of one response.
#[derive(Debug, Default)]
pub(super) struct ResponsesEvents {
    has_started: bool,
    /// Everything was emitted.
    is_over: bool,
    items: Items,
}

impl ResponseEvents for ResponsesEvents {
    fn take(&mut self, text: &str, streamed: bool, sink: EventSink<'_>) -> Result<bool, ProviderError> {
        if self.is_over {
            return Ok(true);
        }
        let object = Object::read(text).ok_or_else(|| ProviderError::unreadable("it is not JSON"))?;
        if !streamed || object.get("output").is_some() {
            return self.whole(text, &object, sink);
        }
        let Some(kind) = object.string("type") else { return Ok(false) };
        self.event(&kind, text, &object, sink)?;
        Ok(true)
    }

    fn end(&mut self, _sink: EventSink<'_>) {
        // A stream that ends otherwise than with the event of its last response is not complete.
    }

    fn flush(&mut self, _sink: EventSink<'_>) -> bool {
        true
    }
}

impl ResponsesEvents {
    /// A response in one piece. Returns whether it is one.
    fn whole(
        &mut self,
        text: &str,
        response: &Object<'_>,
        sink: EventSink<'_>,
    ) -> Result<bool, ProviderError> {
        match response.string("status").as_deref() {
            _ if response.get("output").is_none() => return Ok(false),
            Some("failed" | "cancelled") => return Err(failure(text, response)),
            Some("queued" | "in_progress") => {
                return Err(ProviderError::unreadable("the response is not finished"));
            }
            _ => {}
        }
        self.start(response, sink);
        self.finish(response, sink)?;
        Ok(true)
    }

    fn event(
        &mut self,
        kind: &str,
        text: &str,
        event: &Object<'_>,
        sink: EventSink<'_>,
    ) -> Result<(), ProviderError> {
        let response = event.inner("response");
        match (kind, &response) {
            ("error", _) => return Err(error_in_success(text)),
            ("response.failed" | "response.cancelled", Some(response)) => {
                return Err(failure(text, response));
            }
            ("response.completed" | "response.incomplete", Some(response)) => {
                self.start(response, sink);
                return self.finish(response, sink);
            }
            (_, Some(response)) => self.start(response, sink),
            _ => self.items.event(kind, event, sink)?,
        }
        Ok(())
    }

    fn start(&mut self, response: &Object<'_>, sink: EventSink<'_>) {
        if std::mem::replace(&mut self.has_started, true) {
            return;
        }
        // Some servers send a number with a fraction; `as` saturates.
        let created = response.get("created_at").and_then(Json::read::<f64>);
        let created = created.filter(|seconds| *seconds >= 1.0).map(|seconds| seconds as u64);
        let id = response.string("id");
        let model = response.string("model");
        sink(Event::Start(Start { id: id.as_deref(), model: model.as_deref(), created }));
    }

    /// The last event: what was not emitted of the output, usage, and why it ended.
    fn finish(&mut self, response: &Object<'_>, sink: EventSink<'_>) -> Result<(), ProviderError> {
        for (index, item) in (0..).zip(list(response, "output")) {
            if let Some(item) = item.source().and_then(Object::read) {
                self.items.whole(index, &item, sink)?;
            }
        }
        self.is_over = true;
        if let Some(tier) = response.get("service_tier").filter(|tier| !tier.is_null()) {
            sink(Event::Member { name: "service_tier", json: tier.get() });
        }
        let usage = response.json_of("usage").and_then(|usage| Usage::read(usage.as_bytes()));
        if let Some(usage) = usage {
            sink(Event::Usage(Usage { web_searches: self.items.searches, ..usage }));
        }
        let (reason, native) = ending(response);
        sink(Event::Finish { choice: 0, reason, native: &native });
        sink(Event::End);
        Ok(())
    }
}

/// Why a response ended: its own reason, and what it means.
fn ending(response: &Object<'_>) -> (Finish, String) {
    let status = response.string("status").unwrap_or_default().into_owned();
    if status != "incomplete" {
        return (Finish::Stop, if status.is_empty() { "completed".to_owned() } else { status });
    }
    let details = response.inner("incomplete_details");
    let reason = details.as_ref().and_then(|details| details.string("reason"));
    match reason.as_deref() {
        Some("content_filter") => (Finish::ContentFilter, "content_filter".to_owned()),
        // Whatever else cut it off: a client must not take it for all there is.
        Some(reason) => (Finish::Length, reason.to_owned()),
        None => (Finish::Length, status),
    }
}

/// The error of a response that failed.
fn failure(text: &str, response: &Object<'_>) -> ProviderError {
    match response.get("error").filter(|error| error.is_object()) {
        Some(error) => error_in_success(error.get()),
        None => error_in_success(text),
    }
}
