//! The websocket mode of the Responses API, as text: what a client's event asks for, the events it gets, and what a connection
//! remembers of its last response.
//!
//! Source: OpenAI's guide, <https://developers.openai.com/api/docs/guides/websocket-mode>. A `response.create` has the members of the
//! body of `POST /v1/responses` except `stream` and `background`; the events of the response come back one in each message; with
//! `store: false` only the connection knows the last response. Not the websocket itself, and not how a response is made.

mod conversation;
mod events;

pub use conversation::{Conversation, TurnReader};
pub use events::{connection_limit, error_event, warmed_up};

use crate::api::body::{Body, Edit};
use crate::error::Error;
use crate::json::Json;
use crate::json::walk;
use bytes::Bytes;
use std::borrow::Cow;

/// Members of the event that the body of a POST has not, or that the connection decides.
const OF_THE_EVENT: [&str; 5] = ["type", "generate", "background", "stream_id", "previous_response_id"];

/// A request for one response.
#[derive(Debug)]
pub struct CreateEvent {
    body: Body,
    /// The response that it goes on from.
    pub previous: Option<String>,
    /// Whether a response is made. Without, the connection only remembers the input.
    pub generates: bool,
}

/// Whether the client only says that it has read a response, as Codex does since 0.130: there is nothing to do.
pub fn is_acknowledgement(event: &[u8]) -> bool {
    text_is(event.trim_ascii_start(), b"type", b"\"response.processed\"")
}

impl CreateEvent {
    /// # Errors
    /// 400: it is no JSON object, another event, or for a stream beside others.
    pub fn read(event: Bytes) -> Result<Self, Error> {
        let body = Body::parse(event)
            .map_err(|why| Error::bad_request(format!("Each message must be a JSON object: {why}.")))?;
        if body.text("type").as_deref() != Some("response.create") {
            let message = "Only events of the type response.create are taken on this websocket.";
            return Err(Error::invalid_request("type", message));
        }
        if body.value("stream_id").is_some_and(|id| id != b"null") {
            let message = "This gateway makes one response at a time on a websocket. Leave stream_id out, and open a websocket for \
                           each conversation.";
            return Err(Error::invalid_request("stream_id", message));
        }
        let previous = body.text("previous_response_id").map(Cow::into_owned);
        let generates = body.value("generate") != Some(b"false");
        Ok(Self { body, previous, generates })
    }

    /// The body of the POST that asks for the same response. `earlier`: the conversation that it goes on from, which is then sent with it;
    /// without, the provider is named the response it goes on from.
    pub fn request(&self, earlier: Option<&Conversation>) -> Bytes {
        let is_kept = |name: &&str| *name == "previous_response_id" && earlier.is_none();
        let unwanted = OF_THE_EVENT.iter().filter(|name| !is_kept(name));
        let mut edits: Vec<Edit<'_>> = unwanted.map(|name| Edit::Remove(name)).collect();
        edits.push(Edit::Set("stream", Cow::Borrowed("true")));
        if let Some(earlier) = earlier {
            let input = [b"[", &*earlier.followed_by(&self.items()), b"]"].concat();
            edits.push(Edit::Set("input", Cow::Owned(String::from_utf8(input).unwrap_or_default())));
        }
        self.body.edit(&edits)
    }

    /// The bytes it has.
    pub fn size(&self) -> usize {
        self.body.bytes().len()
    }

    /// The items of its input, as they stand in a list.
    pub fn items(&self) -> Vec<u8> {
        let Some(input) = self.body.value("input") else { return Vec::new() };
        match input.first() {
            Some(b'[') => inside(input).to_vec(),
            Some(b'"') => {
                let text = self.body.raw("input").unwrap_or_default();
                format!("{{\"type\":\"message\",\"role\":\"user\",\"content\":{text}}}").into_bytes()
            }
            _ => Vec::new(),
        }
    }

    /// The model that it names, as JSON.
    pub fn model(&self) -> Json<'_> {
        self.body.raw("model").and_then(Json::parse).unwrap_or_else(Json::null)
    }
}

/// What stands between the brackets of a list.
fn inside(list: &[u8]) -> &[u8] {
    let list = list.trim_ascii();
    list.get(1..list.len().saturating_sub(1)).unwrap_or_default().trim_ascii()
}

/// A member of an object that is proven JSON; the last one if a name occurs twice.
fn member<'a>(object: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    walk::members(object.trim_ascii_start())?
        .filter(|(found, _)| *found == name)
        .map(|(_, value)| value)
        .last()
}

fn text_is(object: &[u8], name: &[u8], text: &[u8]) -> bool {
    member(object, name) == Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn event(event: &Value) -> CreateEvent {
        CreateEvent::read(event.to_string().into()).unwrap()
    }

    fn sent(event: &CreateEvent, earlier: Option<&Conversation>) -> Value {
        serde_json::from_slice(&event.request(earlier)).unwrap()
    }

    #[test]
    fn an_event_is_the_body_of_a_streamed_post() {
        let create = event(
            &json!({"type": "response.create", "model": "m", "input": "hi", "store": false, "background": true,
            "stream": false, "generate": true, "previous_response_id": "resp_1", "client_metadata": {"a": "b"}}),
        );
        assert_eq!((create.previous.as_deref(), create.generates), (Some("resp_1"), true));
        let wanted = json!({"model": "m", "input": "hi", "store": false, "stream": true, "previous_response_id": "resp_1",
            "client_metadata": {"a": "b"}});
        assert_eq!(sent(&create, None), wanted);
        let warm_up =
            event(&json!({"type": "response.create", "generate": false, "previous_response_id": null}));
        assert_eq!((warm_up.previous.as_deref(), warm_up.generates), (None, false));
    }

    #[test]
    fn other_events_are_refused() {
        for (event, param) in [
            (json!({"model": "m"}), Some("type")),
            (json!({"type": "session.update"}), Some("type")),
            (json!({"type": "response.create", "stream_id": "a"}), Some("stream_id")),
            (json!([{"type": "response.create"}]), None),
        ] {
            let error = CreateEvent::read(event.to_string().into()).unwrap_err();
            assert_eq!((error.status(), error.param.as_deref()), (400, param), "{event}");
        }
        assert!(is_acknowledgement(br#" {"type":"response.processed","response_id":"r"}"#));
        assert!(!is_acknowledgement(br#"{"type":"response.create"}"#));
    }

    #[test]
    fn the_whole_conversation_is_sent_where_the_provider_has_none() {
        let first = event(&json!({"type": "response.create", "model": "m", "input": "hi \"you\""}));
        let mut reader = TurnReader::new(1000);
        for frame in [
            json!({"type": "response.created", "response": {"id": "resp_1"}}),
            json!({"type": "response.output_item.done", "item": {"type": "reasoning", "id": "rs", "summary": []}}),
            json!({"type": "response.output_item.done", "item": {"type": "message", "id": "msg"}}),
            json!({"type": "response.completed", "response": {"id": "resp_1", "store": false, "output": []}}),
        ] {
            reader.read(frame.to_string().as_bytes());
        }
        assert!(reader.is_ended());
        let earlier = reader.conversation(first.items(), false).unwrap();
        assert_eq!((earlier.id(), earlier.is_stored()), ("resp_1", false));
        let next = json!([{"type": "function_call_output", "call_id": "c", "output": "1"}]);
        let next = event(
            &json!({"type": "response.create", "model": "m", "input": next, "previous_response_id": "resp_1"}),
        );
        let body = sent(&next, Some(&earlier));
        assert_eq!(body.get("previous_response_id"), None);
        // Reasoning that only the provider has is unknown to it in another request.
        assert_eq!(
            body["input"],
            json!([
                {"type": "message", "role": "user", "content": "hi \"you\""},
                {"type": "message", "id": "msg"},
                {"type": "function_call_output", "call_id": "c", "output": "1"},
            ])
        );
    }
}
