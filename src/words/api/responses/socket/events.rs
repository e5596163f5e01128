//! The events that the gateway itself sends on a websocket of the Responses API.
//!
//! Not the events of a response, which are those of its stream.

use super::{CreateEvent, member};
use crate::api::Dialect;
use crate::api::error_body::ErrorView;
use crate::api::sse::write_event;
use crate::error::Error;
use crate::json::Json;
use crate::json::write::{ObjectWriter, key};

/// The event for a response that is an error: its status, what its body says, and its headers, of which clients read `retry-after`.
pub fn error_event<'h>(
    status: u16,
    body: &[u8],
    headers: impl Iterator<Item = (&'h str, &'h str)>,
) -> Vec<u8> {
    let text = String::from_utf8_lossy(body);
    let is_json = Json::parse(&text).is_some();
    let error = member(body, b"error").filter(|error| is_json && error.starts_with(b"{"));
    let mut out = Vec::with_capacity(body.len() + 256);
    let mut event = ObjectWriter::open(&mut out);
    event.text(key!("type"), "error");
    event.number(key!("status"), status.into());
    match error {
        Some(error) => event.raw(key!("error"), &String::from_utf8_lossy(error)),
        None => event.object(key!("error"), |error| error.text(key!("message"), &text)),
    }
    event.object(key!("headers"), |list| headers.for_each(|(name, value)| list.text(name, value)));
    event.close();
    out
}

/// The event before a connection is closed that has reached its age.
pub fn connection_limit(minutes: u64) -> Vec<u8> {
    let message = format!(
        "Responses websocket connection limit reached ({minutes} minutes). Create a new websocket connection to continue."
    );
    let error = Error::bad_request(message);
    let view = ErrorView { code: Some("websocket_connection_limit_reached"), ..ErrorView::from(&error) };
    error_event(error.status(), &view.body(Dialect::OpenAi), std::iter::empty())
}

/// The stream of the response to an event that asks for none.
pub fn warmed_up(event: &CreateEvent, id: &str, created_at: i64) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, (kind, status)) in
        [("response.created", "in_progress"), ("response.completed", "completed")].into_iter().enumerate()
    {
        let response = serde_json::json!({
            "id": id, "object": "response", "created_at": created_at, "status": status, "error": null,
            "incomplete_details": null, "model": event.model(), "output": [], "store": false, "usage": null,
        });
        let event = serde_json::json!({"type": kind, "sequence_number": number, "response": response});
        write_event(&mut out, Some(kind), event.to_string().as_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::responses::socket::TurnReader;
    use crate::api::sse::SseParser;
    use serde_json::{Value, json};

    fn event(body: &str) -> Value {
        let headers = [("retry-after", "3")];
        serde_json::from_slice(&error_event(429, body.as_bytes(), headers.into_iter())).unwrap()
    }

    #[test]
    fn an_error_has_the_status_and_the_text_of_the_response() {
        let headers = json!({"retry-after": "3"});
        let error = json!({"message": "slow down", "code": "rate_limit"});
        assert_eq!(
            event(&json!({"error": error, "provider": "openai"}).to_string()),
            json!({"type": "error", "status": 429, "error": error, "headers": headers})
        );
        for body in ["<html>", "", "{\"error\":", "{\"error\":\"text\"}", "[{\"error\":{}}]"] {
            let wanted =
                json!({"type": "error", "status": 429, "error": {"message": body}, "headers": headers});
            assert_eq!(event(body), wanted);
        }
        let limit: Value = serde_json::from_slice(&connection_limit(60)).unwrap();
        assert_eq!(
            (&limit["status"], &limit["error"]["code"]),
            (&json!(400), &json!("websocket_connection_limit_reached"))
        );
    }

    #[test]
    fn a_warm_up_has_a_response_to_go_on_from() {
        let create = json!({"type": "response.create", "model": "m", "input": [1], "generate": false});
        let create = CreateEvent::read(create.to_string().into()).unwrap();
        let mut reader = TurnReader::new(100);
        let stream = warmed_up(&create, "resp_1", 5);
        SseParser::default().push(&stream).data().for_each(|event| reader.read(&event));
        let conversation = reader.conversation(create.items(), false).unwrap();
        assert_eq!((conversation.id(), &*conversation.followed_by(b"")), ("resp_1", &b"1"[..]));
    }
}
