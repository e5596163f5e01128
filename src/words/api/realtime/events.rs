//! The events of a realtime session that decide what it uses: what a client asks for, and what a provider reports.
//!
//! From OpenAI's reference of client and server events (<https://platform.openai.com/docs/api-reference/realtime>). A message that two
//! readers could read as two events is unreadable. Not here: what follows from an event.

use crate::api::Dialect;
use crate::api::error_body::ErrorView;
use crate::error::Error;
use crate::json::{string, walk};
use serde_json::{Value, json};
use std::borrow::Cow;

/// What a client sends.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientEvent {
    /// `response.create`: a turn.
    Turn(Turn),
    /// `session.update`.
    Update(Update),
    /// `input_audio_buffer.append`: where the provider detects turns, it may begin one.
    Audio,
    /// Any other event: as many bytes of input as it has, at most.
    Other,
    /// No event, or one that can be read in two ways.
    Unreadable,
}

/// What a turn asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Turn {
    /// The client's id of the event.
    pub event_id: Option<String>,
    /// The bound of its output, tokens; `None`: that of the session.
    pub max_output: Option<MaxOutput>,
}

/// A bound of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxOutput {
    Tokens(u64),
    /// As much as the model can.
    OfModel,
}

/// What a client changes of its session, as far as it is read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Update {
    pub event_id: Option<String>,
    pub model: Option<String>,
    /// The session transcribes and makes no responses.
    pub transcribes: bool,
    /// Whether the provider begins turns by itself from now on, where it is said.
    pub begins_turns: Option<bool>,
    pub max_output: Option<MaxOutput>,
}

/// What a provider sends.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerEvent {
    /// `response.created`: the id of the response.
    Begun(String),
    /// `response.done`: the id, and how many tokens it used of input and output together.
    Done {
        id: String,
        tokens: Option<u64>,
    },
    /// What the session is: `session.created`, and `session.updated`, which answers a client's `session.update`.
    Session {
        update: Update,
        answers: bool,
    },
    /// `error`: the id of the client's event that it is about, and its code.
    Failed {
        event_id: Option<String>,
        code: Option<String>,
    },
    Other,
}

/// Reads a client's message.
pub fn of_client(message: &[u8]) -> ClientEvent {
    let Some(kind) = kind(message) else { return ClientEvent::Unreadable };
    match kind.as_str() {
        "input_audio_buffer.append" => ClientEvent::Audio,
        "response.create" | "session.update" | "transcription_session.update" => {
            let Ok(event) = serde_json::from_slice::<Value>(message) else { return ClientEvent::Unreadable };
            let event_id = text(event.get("event_id"));
            match kind.as_str() {
                "response.create" => {
                    let max_output = event.get("response").and_then(max_output);
                    ClientEvent::Turn(Turn { event_id, max_output })
                }
                "session.update" => ClientEvent::Update(update(event_id, event.get("session"))),
                _ => ClientEvent::Update(Update { event_id, transcribes: true, ..Update::default() }),
            }
        }
        _ => ClientEvent::Other,
    }
}

/// Reads a provider's message.
pub fn of_provider(message: &[u8]) -> ServerEvent {
    let Some(kind) = type_of(message) else { return ServerEvent::Other };
    let is_read = matches!(
        kind.as_ref(),
        "response.created" | "response.done" | "session.created" | "session.updated" | "error"
    );
    if !is_read {
        return ServerEvent::Other;
    }
    let Ok(event) = serde_json::from_slice::<Value>(message) else { return ServerEvent::Other };
    let response = event.get("response");
    let id = || text(response.and_then(|response| response.get("id"))).unwrap_or_default();
    match kind.as_ref() {
        "response.created" => ServerEvent::Begun(id()),
        "response.done" => {
            let usage = response.and_then(|response| response.get("usage"));
            let count = |name: &str| usage?.get(name)?.as_u64();
            let tokens = count("input_tokens")
                .map(|input| input.saturating_add(count("output_tokens").unwrap_or_default()));
            ServerEvent::Done { id: id(), tokens }
        }
        "session.created" | "session.updated" => ServerEvent::Session {
            update: update(None, event.get("session")),
            answers: kind == "session.updated",
        },
        "error" => {
            let error = event.get("error");
            let member = |name: &str| text(error.and_then(|error| error.get(name)));
            ServerEvent::Failed { event_id: member("event_id"), code: member("code") }
        }
        _ => ServerEvent::Other,
    }
}

/// The type of a provider's message, wherever it stands among its members. `None`: it has none, or that has not arrived yet.
pub(in crate::api) fn type_of(message: &[u8]) -> Option<Cow<'_, str>> {
    let mut members = walk::members(message.trim_ascii_start())?;
    let is_type = |name: &[u8]| match name {
        b"type" => true,
        name if name.contains(&b'\\') => {
            string::unquote(&[b"\"", name, b"\""].concat()).is_some_and(|name| name == "type")
        }
        _ => false,
    };
    members.find(|(name, _)| is_type(name)).and_then(|(_, value)| string::unquote(value))
}

/// The one `type` of a message that is a JSON object.
fn kind(message: &[u8]) -> Option<String> {
    serde_json::from_slice::<&serde_json::value::RawValue>(message).ok()?;
    let mut found = None;
    for (name, value) in walk::members(message.trim_ascii_start())? {
        // An escaped name is one that a reader of the bytes would not see.
        let is_type = name == b"type";
        if name.contains(&b'\\') || (is_type && found.is_some()) {
            return None;
        }
        if is_type {
            found = Some(serde_json::from_slice::<String>(value).ok()?);
        }
    }
    found
}

fn update(event_id: Option<String>, session: Option<&Value>) -> Update {
    let Some(session) = session else { return Update { event_id, ..Update::default() } };
    let transcribes = session.get("type").and_then(Value::as_str) == Some("transcription");
    // Now below `audio.input`, in the beta at the top.
    let nested = session.pointer("/audio/input/turn_detection");
    let detection = nested.or_else(|| session.get("turn_detection"));
    let begins_turns = detection.map(|detection| {
        !detection.is_null() && detection.get("create_response").and_then(Value::as_bool) != Some(false)
    });
    let model = text(session.get("model"));
    Update { event_id, model, transcribes, begins_turns, max_output: max_output(session) }
}

/// `max_output_tokens`, in the beta `max_response_output_tokens`: a number, or `"inf"`. Where there are both, the higher.
fn max_output(object: &Value) -> Option<MaxOutput> {
    let values = ["max_output_tokens", "max_response_output_tokens"].map(|name| object.get(name));
    let found = values.into_iter().flatten().filter(|value| !value.is_null());
    let found: Vec<Option<u64>> = found.map(Value::as_u64).collect();
    match found.iter().copied().collect::<Option<Vec<u64>>>() {
        Some(tokens) => tokens.into_iter().max().map(MaxOutput::Tokens),
        None => Some(MaxOutput::OfModel),
    }
}

fn text(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_str).map(str::to_owned)
}

/// The `error` event for an error of the gateway. `event_id`: that of the client's event.
pub fn error_event(error: &Error, event_id: Option<&str>, own_id: &str) -> String {
    let body = ErrorView::from(error).body(Dialect::OpenAi);
    let mut body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut inner = body.get_mut("error").map(Value::take).unwrap_or_default();
    if let Value::Object(members) = &mut inner {
        members.insert("event_id".to_owned(), event_id.into());
        members.insert("retry_after".to_owned(), error.retry_after().into());
    }
    json!({"type": "error", "event_id": format!("event_{own_id}"), "error": inner}).to_string()
}

/// The event that ends a response that has begun.
pub fn cancel_event(response: &str) -> String {
    json!({"type": "response.cancel", "response_id": response}).to_string()
}

/// The event that sets what a session was promised when its token was made.
pub fn update_event(session: &Value) -> String {
    json!({"type": "session.update", "session": session}).to_string()
}

/// The event that says which model a session has.
pub fn created_event(model: &str) -> String {
    json!({"type": "session.created", "session": {"model": model}}).to_string()
}

/// A client's `session.update` with this model.
pub fn with_model(message: &[u8], model: &str) -> Option<String> {
    let mut event: Value = serde_json::from_slice(message).ok()?;
    *event.pointer_mut("/session/model")? = model.into();
    Some(event.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_read_in_every_spelling_or_not_at_all() {
        let turn = |max_output| ClientEvent::Turn(Turn { event_id: None, max_output });
        for (message, wanted) in [
            (r#"{"type":"response.create"}"#, turn(None)),
            (
                r#" {"type":"response\u002ecreate","response":{"max_output_tokens":7}}"#,
                turn(Some(MaxOutput::Tokens(7))),
            ),
            (
                r#"{"response":{"max_response_output_tokens":"inf"},"type":"response.create"}"#,
                turn(Some(MaxOutput::OfModel)),
            ),
            (
                r#"{"type":"response.create","response":{"max_output_tokens":5,"max_response_output_tokens":9}}"#,
                turn(Some(MaxOutput::Tokens(9))),
            ),
            (
                r#"{"type":"response.create","response":{"max_output_tokens":-1}}"#,
                turn(Some(MaxOutput::OfModel)),
            ),
            (r#"{"type":"x","type":"response.create"}"#, ClientEvent::Unreadable),
            (r#"{"type":"response.create","type":"x"}"#, ClientEvent::Unreadable),
            (r#"{"\u0074ype":"response.create"}"#, ClientEvent::Unreadable),
            (r#"{"type":"response.create","x":NaN}"#, ClientEvent::Unreadable),
            ("\u{feff}{\"type\":\"response.create\"}", ClientEvent::Unreadable),
            (r#"{"type":"response.create"} x"#, ClientEvent::Unreadable),
            (r#"[{"type":"response.create"}]"#, ClientEvent::Unreadable),
            ("", ClientEvent::Unreadable),
            (r#"{"type":"input_audio_buffer.append","audio":"AA"}"#, ClientEvent::Audio),
            (r#"{"type":"conversation.item.create","item":{"type":"response.create"}}"#, ClientEvent::Other),
        ] {
            assert_eq!(of_client(message.as_bytes()), wanted, "{message}");
        }
    }

    #[test]
    fn who_begins_turns_is_read_in_both_forms() {
        for (session, wanted) in [
            (r#"{}"#, None),
            (r#"{"turn_detection":null}"#, Some(false)),
            (r#"{"turn_detection":{"type":"server_vad"}}"#, Some(true)),
            (
                r#"{"audio":{"input":{"turn_detection":{"type":"semantic_vad","create_response":false}}}}"#,
                Some(false),
            ),
            (r#"{"audio":{"input":{"turn_detection":{"type":"semantic_vad"}}}}"#, Some(true)),
        ] {
            let message = format!(r#"{{"type":"session.update","session":{session}}}"#);
            let ClientEvent::Update(update) = of_client(message.as_bytes()) else { panic!("{message}") };
            assert_eq!(update.begins_turns, wanted, "{session}");
        }
        let message = r#"{"type":"session.update","session":{"type":"transcription","model":"m"}}"#;
        let ClientEvent::Update(update) = of_client(message.as_bytes()) else { panic!("{message}") };
        assert_eq!((update.transcribes, update.model.as_deref()), (true, Some("m")));
    }

    #[test]
    fn reports_of_providers_are_read() {
        let done =
            r#"{"type":"response.done","response":{"id":"r","usage":{"input_tokens":5,"output_tokens":2}}}"#;
        for (message, wanted) in [
            (r#"{"type":"response.created","response":{"id":"r"}}"#, ServerEvent::Begun("r".into())),
            (done, ServerEvent::Done { id: "r".into(), tokens: Some(7) }),
            (
                r#"{"type":"response.done","response":{}}"#,
                ServerEvent::Done { id: String::new(), tokens: None },
            ),
            (
                r#"{"type":"error","error":{"event_id":"e","code":"c"}}"#,
                ServerEvent::Failed { event_id: Some("e".into()), code: Some("c".into()) },
            ),
            (r#"{"type":"x","text":"\"response.done\""}"#, ServerEvent::Other),
            (
                r#"{"type":"session.updated","session":{}}"#,
                ServerEvent::Session { update: Update::default(), answers: true },
            ),
            (
                r#"{"type":"session.created","session":{}}"#,
                ServerEvent::Session { update: Update::default(), answers: false },
            ),
            (
                r#"{"t\u0079pe":"response\u002edone","response":{}}"#,
                ServerEvent::Done { id: String::new(), tokens: None },
            ),
            ("no JSON", ServerEvent::Other),
        ] {
            assert_eq!(of_provider(message.as_bytes()), wanted, "{message}");
        }
    }

    #[test]
    fn a_type_is_found_wherever_it_stands() {
        let texts = "x".repeat(70_000);
        let behind = format!(
            r#" {{"response":{{"id":"r","output":["{texts}"],"usage":{{"input_tokens":5}}}},"type":"response.done"}}"#
        );
        assert_eq!(of_provider(behind.as_bytes()), ServerEvent::Done { id: "r".into(), tokens: Some(5) });
        let error = format!(r#"{{"error":{{"message":"{texts}","code":"c"}},"type":"error"}}"#);
        let failed = ServerEvent::Failed { event_id: None, code: Some("c".into()) };
        assert_eq!(of_provider(error.as_bytes()), failed);
        let turn = format!(r#"{{"response":{{"instructions":"{texts}"}},"type":"response.create"}}"#);
        assert_eq!(of_client(turn.as_bytes()), ClientEvent::Turn(Turn::default()));
        assert_eq!(type_of(&behind.as_bytes()[..600]), None, "it has not arrived");
    }

    #[test]
    fn an_error_is_an_event_with_the_members_of_its_body() {
        let event: Value =
            serde_json::from_str(&error_event(&Error::forbidden("no"), Some("e"), "1")).unwrap();
        assert_eq!((&event["type"], &event["error"]["message"]), (&"error".into(), &"no".into()));
        assert_eq!(
            (&event["error"]["code"], &event["error"]["event_id"]),
            (&"forbidden".into(), &"e".into())
        );
        assert_eq!(
            with_model(br#"{"session":{"model":"a"}}"#, "b").as_deref(),
            Some(r#"{"session":{"model":"b"}}"#)
        );
    }
}
