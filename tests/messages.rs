//! Recorded Messages requests are read without loss, and recorded answers come back as they were told, by way of the common
//! chat: whole and streamed.
//!
//! Not through the running gateway, which passes Anthropic's own words on unread; and not in this repository: the recordings
//! stand beside the checkout or the tests are skipped.

use crate::support::announce;
use crate::support::recording::{self, Recording};
use serde_json::Value;
use std::collections::BTreeMap;
use turnpike::api::body::Body;
use turnpike::api::chat::{ChatRequest, Part, Role, Source, Tool};
use turnpike::api::messages;

/// Recorded calls of Anthropic's messages, the answer's status regardless.
fn recordings() -> Option<Vec<Recording>> {
    let text = std::fs::read_to_string(recording::file()?).unwrap();
    let ours = |one: &Recording| one.host == "api.anthropic.com" && one.path.starts_with("/v1/messages");
    Some(recording::all(&text).into_iter().filter(ours).collect())
}

/// How often something was said: what it is, and its text.
type Said = BTreeMap<(String, String), usize>;

fn say(said: &mut Said, kind: &str, text: impl Into<String>) {
    let text = text.into();
    if !text.is_empty() {
        *said.entry((kind.to_owned(), text)).or_default() += 1;
    }
}

/// Every text, id, name and byte in blocks as they were sent.
fn sent(value: &Value, said: &mut Said) {
    match value {
        Value::Array(list) => list.iter().for_each(|item| sent(item, said)),
        Value::Object(members) => {
            for (name, value) in members {
                match (name.as_str(), value) {
                    ("input", value) => say(said, name, value.to_string()),
                    (
                        "text" | "thinking" | "signature" | "data" | "url" | "file_id" | "id" | "name"
                        | "tool_use_id",
                        Value::String(text),
                    ) => say(said, name, text.as_str()),
                    ("content" | "system", Value::String(text)) => say(said, "text", text.as_str()),
                    _ => sent(value, said),
                }
            }
        }
        _ => {}
    }
}

/// The same, of what was read.
fn understood(request: &ChatRequest<'_>) -> Said {
    let mut said = Said::new();
    for message in &request.messages {
        if let Some(id) = &message.tool_call_id {
            assert_eq!(message.role, Role::Tool);
            say(&mut said, "tool_use_id", id.as_ref());
        }
        for part in &message.content {
            match part {
                Part::Text { text, .. } => say(&mut said, "text", text.as_ref()),
                Part::Reasoning { text, signature } => {
                    say(&mut said, "thinking", text.as_ref());
                    say(&mut said, "signature", signature.as_deref().unwrap_or_default());
                }
                Part::Redacted { data } => say(&mut said, "data", data.as_ref()),
                Part::Image(image) => source(&image.source, &mut said),
                Part::File(file) => source(&file.source, &mut said),
                Part::ToolCall(call) => {
                    say(&mut said, "id", call.id.as_ref());
                    say(&mut said, "name", call.name.as_ref());
                    let input: Value = serde_json::from_str(&call.arguments).unwrap();
                    say(&mut said, "input", input.to_string());
                }
                Part::Other { json, .. } => sent(&serde_json::from_str(json.get()).unwrap(), &mut said),
                part => panic!("no such part in this dialect: {part:?}"),
            }
        }
    }
    said
}

fn source(source: &Source<'_>, said: &mut Said) {
    match source {
        Source::Url { url, .. } => say(said, "url", url.as_ref()),
        Source::Data { data, .. } | Source::Text(data) => say(said, "data", data.as_ref()),
        Source::Id(id) => say(said, "file_id", id.as_ref()),
    }
}

#[test]
fn recorded_requests_are_read_without_loss() {
    let Some(recordings) = recordings() else {
        return announce("SKIPPED: messages: no ../shared/traffic/recorded.jsonl beside this checkout");
    };
    let (mut count, mut tools) = (0, 0);
    for recording in &recordings {
        let Some(text) = recording.request.clone().filter(|text| text.starts_with('{')) else { continue };
        let body = Body::parse(text.clone().into()).unwrap();
        let request = messages::read(&body).unwrap_or_else(|error| panic!("{}: {error}", recording.id));
        let told: Value = serde_json::from_str(&text).unwrap();
        let mut wanted = Said::new();
        sent(&told["messages"], &mut wanted);
        let system = serde_json::json!({"system": told["system"]});
        sent(&system, &mut wanted);
        assert_eq!(understood(&request), wanted, "{}", recording.id);
        let offered = told["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
        assert_eq!(request.tools.len(), offered.len(), "{}", recording.id);
        for (tool, wanted) in request.tools.iter().zip(offered) {
            match tool {
                Tool::Function { name, parameters, .. } => {
                    assert_eq!(name.as_ref(), wanted["name"].as_str().unwrap());
                    let schema: Value = serde_json::from_str(parameters.as_ref().unwrap().get()).unwrap();
                    assert_eq!(schema, wanted["input_schema"]);
                }
                Tool::Other { kind, .. } => assert_eq!(kind.as_ref(), wanted["type"].as_str().unwrap()),
            }
            tools += 1;
        }
        count += 1;
    }
    assert!(count > 150, "only {count} requests");
    announce(&format!("messages: {count} recorded requests with {tools} tools read without loss"));
}
