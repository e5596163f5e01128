//! Recorded Messages requests are decoded without loss, and recorded responses survive a round trip through
//! the neutral chat format, whole and streamed.
//!
//! Not through the running gateway, which passes Anthropic's own format through; and the recordings are not
//! in this repository: without them beside the checkout the tests are skipped.

use crate::support::expected::{ChatContent, Shape};
use crate::support::recording::{self, Recording};
use crate::support::report;
use crate::support::sse::events;
use crate::translations::HOSTS;
use knowledge::provider::Call;
use knowledge::provider::adapter::{Adapter, ChatAdapter};
use knowledge::provider::rewriter::Rewriter;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use words::api::body::Body;
use words::api::chat::{ChatRequest, Decoder, EncodeContext, Part, ProviderError, Role, Source, Tool};
use words::api::messages;
use words::api::operation::Operation;
use words::api::token_estimate::{self, CountText};
use words::config::account::Account;

/// Recorded calls of Anthropic's messages endpoint, whatever the response's status.
fn recordings() -> Option<Vec<Recording>> {
    let text = std::fs::read_to_string(recording::file()?).unwrap();
    let ours = |one: &Recording| one.host == "api.anthropic.com" && one.path.starts_with("/v1/messages");
    Some(recording::all(&text).into_iter().filter(ours).collect())
}

/// How often each text occurs, by its kind.
type TextCounts = BTreeMap<(String, String), usize>;

fn count_text(counts: &mut TextCounts, kind: &str, text: impl Into<String>) {
    let text = text.into();
    if !text.is_empty() {
        *counts.entry((kind.to_owned(), text)).or_default() += 1;
    }
}

/// Counts every text, id, name and byte string in the blocks of a raw request.
fn sent(value: &Value, counts: &mut TextCounts) {
    match value {
        Value::Array(list) => list.iter().for_each(|item| sent(item, counts)),
        Value::Object(members) => {
            for (name, value) in members {
                match (name.as_str(), value) {
                    ("input", value) => count_text(counts, name, value.to_string()),
                    (
                        "text" | "thinking" | "signature" | "data" | "url" | "file_id" | "id" | "name"
                        | "tool_use_id",
                        Value::String(text),
                    ) => count_text(counts, name, text.as_str()),
                    ("content" | "system", Value::String(text)) => count_text(counts, "text", text.as_str()),
                    _ => sent(value, counts),
                }
            }
        }
        _ => {}
    }
}

/// Counts the same in a decoded request.
fn understood(request: &ChatRequest<'_>) -> TextCounts {
    let mut counts = TextCounts::new();
    for message in &request.messages {
        if let Some(id) = &message.tool_call_id {
            assert_eq!(message.role, Role::Tool);
            count_text(&mut counts, "tool_use_id", id.as_ref());
        }
        for part in &message.content {
            match part {
                Part::Text { text, .. } => count_text(&mut counts, "text", text.as_ref()),
                Part::Reasoning { text, signature } => {
                    count_text(&mut counts, "thinking", text.as_ref());
                    count_text(&mut counts, "signature", signature.as_deref().unwrap_or_default());
                }
                Part::Redacted { data } => count_text(&mut counts, "data", data.as_ref()),
                Part::Image(image) => source(&image.source, &mut counts),
                Part::File(file) => source(&file.source, &mut counts),
                Part::ToolCall(call) => {
                    count_text(&mut counts, "id", call.id.as_ref());
                    count_text(&mut counts, "name", call.name.as_ref());
                    let input: Value = serde_json::from_str(&call.arguments).unwrap();
                    count_text(&mut counts, "input", input.to_string());
                }
                Part::Other { json, .. } => sent(&serde_json::from_str(json.get()).unwrap(), &mut counts),
                part => panic!("no such part in this dialect: {part:?}"),
            }
        }
    }
    counts
}

fn source(source: &Source<'_>, counts: &mut TextCounts) {
    match source {
        Source::Url { url, .. } => count_text(counts, "url", url.as_ref()),
        Source::Data { data, .. } | Source::Text(data) => count_text(counts, "data", data.as_ref()),
        Source::Id(id) => count_text(counts, "file_id", id.as_ref()),
    }
}

#[test]
fn recorded_requests_are_read_without_loss() {
    let Some(recordings) = recordings() else {
        return report("SKIPPED: messages: no ../shared/traffic/recorded.jsonl beside this checkout");
    };
    let mut count = 0;
    let mut tools = 0;
    for recording in &recordings {
        let Some(text) = recording.request.clone().filter(|text| text.starts_with('{')) else { continue };
        let body = Body::parse(text.clone().into()).unwrap();
        let request = messages::read(&body).unwrap_or_else(|error| panic!("{}: {error}", recording.id));
        let request_body: Value = serde_json::from_str(&text).unwrap();
        let mut wanted = TextCounts::new();
        sent(&request_body["messages"], &mut wanted);
        let system = serde_json::json!({"system": request_body["system"]});
        sent(&system, &mut wanted);
        assert_eq!(understood(&request), wanted, "{}", recording.id);
        let offered = request_body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
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
    report(&format!("messages: {count} recorded requests with {tools} tools read without loss"));
}

/// Builds the message from a stream's events, as a client would.
fn gathered(stream: &[u8]) -> Value {
    let mut message = Value::Null;
    let mut inputs: BTreeMap<usize, String> = BTreeMap::new();
    for event in events(std::str::from_utf8(stream).unwrap()) {
        let event: Value = serde_json::from_str(&event.data).unwrap();
        let index = event["index"].as_u64().unwrap_or_default() as usize;
        let delta = &event["delta"];
        match event["type"].as_str().unwrap() {
            "message_start" => message = event["message"].clone(),
            "content_block_start" => {
                message["content"].as_array_mut().unwrap().push(event["content_block"].clone());
            }
            "content_block_delta" => {
                let block = &mut message["content"][index];
                let name = match delta["type"].as_str().unwrap() {
                    "text_delta" => "text",
                    "thinking_delta" => "thinking",
                    "signature_delta" => "signature",
                    "input_json_delta" => {
                        let text = delta["partial_json"].as_str().unwrap();
                        inputs.entry(index).or_default().push_str(text);
                        continue;
                    }
                    "citations_delta" if block["citations"].is_array() => {
                        block["citations"].as_array_mut().unwrap().push(delta["citation"].clone());
                        continue;
                    }
                    "citations_delta" => {
                        block["citations"] = json!([delta["citation"]]);
                        continue;
                    }
                    other => panic!("{other}"),
                };
                let whole =
                    [block[name].as_str().unwrap_or_default(), delta[name].as_str().unwrap()].concat();
                block[name] = json!(whole);
            }
            "message_delta" => {
                for member in ["delta", "usage"] {
                    for (name, value) in event[member].as_object().unwrap() {
                        let into = if member == "usage" { &mut message["usage"] } else { &mut message };
                        into[name] = value.clone();
                    }
                }
                for (name, value) in event.as_object().unwrap() {
                    if !matches!(name.as_str(), "type" | "delta" | "usage") {
                        message[name] = value.clone();
                    }
                }
            }
            _ => {}
        }
    }
    for (index, text) in inputs.into_iter().filter(|(_, text)| !text.is_empty()) {
        message["content"][index]["input"] = serde_json::from_str(&text).unwrap();
    }
    message
}

/// What a message must keep in the neutral chat format. Not kept, and why:
/// - where one text block ends and the next begins, and so which block a citation belongs to: texts are
///   joined, and citations are listed by address and title (Anthropic's proof of a search result has no
///   counterpart);
/// - citations of documents: in the neutral format they belong to the response, not to a text;
/// - `caller` of a call, `display_content` and the like: members of blocks that only Anthropic has;
/// - of usage, anything but the tokens (including thinking tokens) and the service tier.
fn essence(message: &Value) -> Value {
    let mut blocks: Vec<Value> = Vec::new();
    let mut cited = Vec::new();
    for block in message["content"].as_array().unwrap() {
        for citation in block["citations"].as_array().into_iter().flatten() {
            if citation["url"].is_string() {
                cited.push(json!([citation["url"], citation["title"]]));
            }
        }
        let kind = block["type"].as_str().unwrap();
        match (kind, blocks.last_mut()) {
            ("text", _) if block["text"] == "" => {}
            ("text", Some(last)) if last["type"] == "text" => {
                let whole = [last["text"].as_str().unwrap(), block["text"].as_str().unwrap()].concat();
                last["text"] = json!(whole);
            }
            ("text", _) => blocks.push(json!({"type": "text", "text": block["text"]})),
            ("tool_use", _) => {
                let id = &block["id"];
                let name = &block["name"];
                let input = &block["input"];
                blocks.push(json!({"type": "tool_use", "id": id, "name": name, "input": input}));
            }
            _ => blocks.push(block.clone()),
        }
    }
    let usage = &message["usage"];
    let tokens = |name: &str| usage[name].as_u64().unwrap_or_default();
    json!({
        "id": message["id"], "model": message["model"], "role": message["role"], "type": message["type"],
        "content": blocks, "cited": cited,
        "stop_reason": message["stop_reason"], "stop_sequence": message["stop_sequence"],
        "stop_details": message["stop_details"], "container": message["container"],
        "context_management": message["context_management"],
        "usage": [tokens("input_tokens"), tokens("output_tokens"), tokens("cache_read_input_tokens"),
            tokens("cache_creation_input_tokens"),
            usage["output_tokens_details"]["thinking_tokens"].as_u64().unwrap_or_default()],
        "service_tier": usage["service_tier"],
    })
}

/// Decodes a response of Anthropic's into events and encodes it again.
fn round_trip(response: &[u8], from_stream: bool, to_stream: bool) -> Vec<u8> {
    translated(chat("anthropic", "").unwrap().decoder(from_stream), response, to_stream)
}

fn translated(decoder: Box<dyn Decoder>, response: &[u8], to_stream: bool) -> Vec<u8> {
    let context = EncodeContext {
        id: "0".to_owned(),
        created: 0,
        model: "asked".to_owned(),
        provider: "anthropic",
        strict: false,
        is_own_dialect: false,
        include_usage: true,
        request: None,
    };
    let mut rewriter = Rewriter::chat(decoder, messages::encoder(to_stream, context), "0");
    let mut out = Vec::new();
    rewriter.push(response, &mut out);
    rewriter.finish(&mut out);
    if !rewriter.is_complete() {
        rewriter.fail(&ProviderError::unreadable("it is not complete"), &mut out);
    }
    out
}

#[test]
fn recorded_responses_survive_a_round_trip() {
    let Some(recordings) = recordings() else {
        return report("SKIPPED: messages: no ../shared/traffic/recorded.jsonl beside this checkout");
    };
    let mut whole = 0;
    let mut streamed = 0;
    for recording in recordings.iter().filter(|one| one.status == 200 && !one.path.contains("count_tokens")) {
        let original = if recording.streamed {
            gathered(&recording.body)
        } else {
            serde_json::from_slice(&recording.body).unwrap()
        };
        let wanted = essence(&original);
        for to_stream in [false, true] {
            let out = round_trip(&recording.body, recording.streamed, to_stream);
            let translated_message =
                if to_stream { gathered(&out) } else { serde_json::from_slice(&out).unwrap() };
            assert_eq!(essence(&translated_message), wanted, "{} (to a stream: {to_stream})", recording.id);
        }
        *(if recording.streamed { &mut streamed } else { &mut whole }) += 1;
    }
    assert!(whole > 140 && streamed > 10, "only {whole} whole and {streamed} streamed responses");
    report(&format!(
        "messages: {whole} whole and {streamed} streamed recorded responses survived a round trip"
    ));
}

#[test]
fn counts_are_estimated_about_right() {
    let Some(recordings) = recordings() else {
        return report("SKIPPED: messages: no ../shared/traffic/recorded.jsonl beside this checkout");
    };
    let mut errors = Vec::new();
    for recording in &recordings {
        let Some(text) = recording.request.clone().filter(|text| text.starts_with('{')) else { continue };
        let original = if recording.streamed {
            gathered(&recording.body)
        } else {
            serde_json::from_slice(&recording.body).unwrap()
        };
        // The provider counts what it searched, ran or thought about, which is not in the request.
        let excluded = ["_20", "mcp_servers", "file_id", "\"url\"", "output_config", "\"thinking\""];
        if excluded.iter().any(|text_part| text.contains(text_part)) {
            continue;
        }
        let usage = if original["usage"].is_object() { &original["usage"] } else { &original };
        let tokens = |name: &str| usage[name].as_u64().unwrap_or_default();
        let counted = tokens("input_tokens")
            + tokens("cache_read_input_tokens")
            + tokens("cache_creation_input_tokens");
        if counted < 40 {
            continue;
        }
        let estimate = token_estimate::input(
            Operation::Messages,
            &Body::parse(text.into()).unwrap(),
            &CountText::ByRule,
        );
        errors.push((estimate as f64 / counted as f64 - 1.0, recording.id.as_str()));
    }
    errors.sort_by(|one, other| one.0.total_cmp(&other.0));
    let at = |share: f64| errors[(share * (errors.len() - 1) as f64) as usize].0 * 100.0;
    let deviations: Vec<String> =
        [0.0, 0.1, 0.5, 0.9, 1.0].map(|share| format!("{:+.0} %", at(share))).to_vec();
    report(&format!("messages: estimates of {} requests are off by {}", errors.len(), deviations.join(", ")));
    assert!(errors.len() > 60, "only {} requests", errors.len());
    assert!(errors.iter().all(|(error, _)| error.abs() < 0.6), "{errors:?}");
}

/// A provider's chat adapter, where the gateway translates; clients of Anthropic's own messages need none.
fn chat(provider: &str, path: &str) -> Option<&'static dyn ChatAdapter> {
    let found = knowledge::provider::find(provider)?;
    // For providers that have the model in the path, only the recorded path has its name.
    let model = if path.contains("laude") { "anthropic.claude-x" } else { "asked" };
    [Operation::Messages, Operation::ChatCompletions].into_iter().find_map(|operation| {
        let method = &http::Method::POST;
        let streamed = false;
        let call = Call { operation, method, path: "messages", query: None, model: Some(model), streamed };
        match found.adapter(&call, &Account::default()) {
            Ok(Adapter::Chat(chat)) => Some(chat),
            _ => None,
        }
    })
}

#[test]
fn every_provider_translates_to_anthropics_format() {
    let Some(file) = recording::file() else {
        return report("SKIPPED: messages: no ../shared/traffic/recorded.jsonl beside this checkout");
    };
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut problems = Vec::new();
    for recording in recording::all(&std::fs::read_to_string(file).unwrap()) {
        let is_host =
            |row: &&(&str, &str, _, _, _)| recording.host.ends_with(row.0) && recording.path.contains(row.1);
        let Some(&(_, _, provider, shape, _)) = HOSTS.iter().find(is_host) else { continue };
        let Some(chat) = chat(provider, &recording.path) else { continue };
        if recording.status != 200 || recording.path.contains("count_tokens") {
            continue;
        }
        let wanted = ChatContent::from_recording(&recording, shape);
        for to_stream in [false, true] {
            let decoder = chat.decoder(recording.streamed);
            let out = Recording {
                body: translated(decoder, &recording.body, to_stream).into(),
                streamed: to_stream,
                id: recording.id.clone(),
                host: recording.host.clone(),
                method: recording.method.clone(),
                path: recording.path.clone(),
                request: None,
                content_type: String::new(),
                status: 200,
            };
            let mut got = ChatContent::from_recording(&out, Shape::Anthropic);
            // This dialect always reports tokens, and puts the message of a refusal (a blocked prompt) into
            // its text.
            got.tokens = got.tokens.filter(|_| wanted.tokens.is_some());
            if wanted.finish == "content_filter" && wanted.text.is_empty() {
                got.text.clear();
            }
            // A broken whole response is an error and nothing else.
            let broke = !to_stream && wanted.error.is_some() && got.error == wanted.error;
            if got != wanted && !broke {
                problems.push(format!("{provider} {} ({to_stream}):\n  {got:?}\n  not {wanted:?}", out.id));
            }
        }
        *counts.entry(provider).or_default() += 1;
    }
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
    let sum: usize = counts.values().sum();
    assert!(sum > 600, "only {sum} responses");
    report(&format!(
        "messages: recorded responses translated to Anthropic's format, whole and streamed: {counts:?}"
    ));
}
