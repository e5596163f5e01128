//! Every recorded response of Anthropic's, decoded by the gateway and compared with a plain parsing of the
//! recording: text, thinking, calls and their parsed arguments, blocks of Anthropic's own tools, finish
//! reason, tokens, errors. Also, every recorded chat completion request, of any provider, is encoded for
//! Anthropic.
//!
//! Not through the running gateway (`recordings`). Skipped if the recordings are not beside the checkout.

use crate::support::recording::{self, Recording};
use crate::support::report;
use http::Method;
use knowledge::provider::adapter::{Adapter, CallTarget, ChatAdapter};
use knowledge::provider::translation_notes::TranslationNotes;
use knowledge::provider::{Call, find};
use serde_json::Value;
use std::collections::BTreeMap;
use words::api::body::Body;
use words::api::chat::response::{ChatResponse, Choice, ContentPart};
use words::api::chat::{Decoder, Event, Finish};
use words::api::chat_completions;
use words::api::operation::Operation;
use words::config::account::Account;

/// The content of a response, in a form that both parsings share.
#[derive(Debug, Default, PartialEq)]
struct DecodedMessage {
    text: String,
    thinking: String,
    signatures: Vec<String>,
    redacted: Vec<String>,
    /// Id, name, arguments.
    calls: Vec<(String, String, Value)>,
    /// Blocks that have no counterpart in OpenAI's format.
    blocks: Vec<Value>,
    cited: Vec<String>,
    finish: Option<String>,
    /// Input, output, cached, cache-write and reasoning tokens.
    usage: [u64; 5],
    error: Option<String>,
}

#[test]
fn every_recorded_response_is_decoded_correctly() {
    let Some(recordings) = recordings() else { return };
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut differences = Vec::new();
    let is_chat = |recording: &&Recording| {
        let path = recording.path.split('?').next().unwrap_or_default();
        recording.host == "api.anthropic.com" && path == "/v1/messages" && recording.status == 200
    };
    for recording in recordings.iter().filter(is_chat) {
        let chat = chat();
        let decoded = decode(recording, chat.decoder(recording.streamed), usize::MAX);
        for size in [1, 7, 64, 1000] {
            let decoded_in_chunks = self::decode(recording, chat.decoder(recording.streamed), size);
            assert_eq!(decoded.1, decoded_in_chunks.1, "{} in chunks of {size}", recording.id);
        }
        let wanted = if recording.streamed { streamed(recording) } else { whole(recording) };
        if decoded.0 != wanted {
            differences.push(format!("{}\n  decoded {:?}\n  wanted  {wanted:?}", recording.id, decoded.0));
        }
        *counts.entry(if recording.streamed { "streamed" } else { "whole" }).or_default() += 1;
        *counts.entry("calls").or_default() += wanted.calls.len();
        *counts.entry("thoughts").or_default() += wanted.signatures.len();
        *counts.entry("own blocks").or_default() += wanted.blocks.len();
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
    report(&format!("anthropic responses decoded without a difference: {counts:?}"));
    assert!(counts.get("whole") > Some(&0) && counts.get("streamed") > Some(&0));
}

#[test]
fn every_recorded_chat_completion_is_encoded_for_anthropic_or_refused_by_name() {
    let Some(recordings) = recordings() else { return };
    let mut written = 0;
    let mut refused = BTreeMap::<String, usize>::new();
    for recording in recordings.iter().filter(|each| each.path.contains("chat/completions")) {
        let Some(request) = &recording.request else { continue };
        let body = Body::parse(request.clone().into()).unwrap();
        let account = Account::default();
        let call = call(Operation::ChatCompletions);
        let target =
            CallTarget { call: &call, account: &account, model: "claude-sonnet-4-5", client_betas: None };
        let mut outgoing = TranslationNotes::default();
        let outcome =
            chat_completions::read(&body).and_then(|request| chat().write(request, &target, &mut outgoing));
        match outcome {
            Ok(body) => {
                let body: Value = serde_json::from_slice(&body).unwrap();
                assert!(
                    body["messages"].as_array().is_some_and(|turns| !turns.is_empty()),
                    "{}",
                    recording.id
                );
                assert!(body["max_tokens"].is_number(), "{}", recording.id);
                written += 1;
            }
            Err(error) => {
                let param = error.param.unwrap_or_else(|| panic!("{}: {}", recording.id, error.message));
                *refused.entry(format!("{param}: {}", error.message)).or_default() += 1;
            }
        }
    }
    report(&format!("chat completions encoded for anthropic: {written}; refused: {refused:#?}"));
    assert!(written > 0);
}

fn recordings() -> Option<Vec<Recording>> {
    let Some(file) = recording::file() else {
        report("SKIPPED: anthropic responses: no ../shared/traffic/recorded.jsonl beside this checkout");
        return None;
    };
    Some(recording::all(&std::fs::read_to_string(file).unwrap()))
}

fn call(operation: Operation) -> Call<'static> {
    Call {
        operation,
        method: &Method::POST,
        path: "chat/completions",
        query: None,
        model: None,
        streamed: false,
    }
}

fn chat() -> &'static dyn ChatAdapter {
    let provider = find("anthropic").unwrap();
    match provider.adapter(&call(Operation::ChatCompletions), &Account::default()).unwrap() {
        Adapter::Chat(chat) => chat,
        kind => panic!("chat has the adapter {kind:?}"),
    }
}

/// Decodes a response that arrives in chunks of `size` bytes; also returns its events as text.
fn decode(
    recording: &Recording,
    mut decoder: Box<dyn Decoder>,
    size: usize,
) -> (DecodedMessage, Vec<String>) {
    let mut response = ChatResponse::default();
    let mut events = Vec::new();
    let mut error = None;
    let mut take = |event: Event<'_>| {
        events.push(format!("{event:?}"));
        if let Event::Error(provider_error) = event {
            error = Some(provider_error.message.clone());
        }
        response.apply(&event);
    };
    for chunk in recording.body.chunks(size.min(recording.body.len()).max(1)) {
        decoder.push(chunk, &mut take);
    }
    decoder.finish(&mut take);
    let mut message = DecodedMessage { error, ..DecodedMessage::default() };
    if let Some(choice) = response.choices.first() {
        gather(choice, &mut message);
    }
    if let Some(usage) = response.usage {
        message.usage = [usage.input, usage.output, usage.cached, usage.cache_write, usage.reasoning];
    }
    (message, events)
}

fn gather(choice: &Choice, message: &mut DecodedMessage) {
    for part in &choice.parts {
        match part {
            ContentPart::Text(text) => message.text.push_str(text),
            ContentPart::Reasoning { text, signature } => {
                message.thinking.push_str(text);
                message.signatures.extend(signature.clone());
            }
            ContentPart::Redacted(data) => message.redacted.push(data.clone()),
            ContentPart::ToolCall { id, name, arguments, .. } => {
                let arguments = if arguments.is_empty() { "{}" } else { arguments };
                message.calls.push((id.clone(), name.clone(), serde_json::from_str(arguments).unwrap()));
            }
            ContentPart::Block(json) => message.blocks.push(serde_json::from_str(json).unwrap()),
            part => panic!("Anthropic never sends {part:?}"),
        }
    }
    for annotation in &choice.annotations {
        let annotation: Value = serde_json::from_str(annotation).unwrap();
        let citation = &annotation["url_citation"];
        let at = |name: &str| citation[name].as_u64().unwrap() as usize;
        let text: String = message.text.chars().take(at("end_index")).skip(at("start_index")).collect();
        message.cited.push(format!("{} for {text}", citation["url"].as_str().unwrap()));
    }
    message.finish = choice.finish.as_ref().map(|(finish, native)| {
        let wanted = match native.as_str() {
            "tool_use" => Finish::ToolCalls,
            "max_tokens" => Finish::Length,
            "end_turn" | "stop_sequence" | "pause_turn" => Finish::Stop,
            native => panic!("{native}: add it here"),
        };
        assert_eq!(*finish, wanted);
        native.clone()
    });
}

/// Plain parsing of a whole response.
fn whole(recording: &Recording) -> DecodedMessage {
    read_message(&serde_json::from_slice(&recording.body).unwrap())
}

/// Plain parsing of a stream: builds the message from its events, then parses that.
fn streamed(recording: &Recording) -> DecodedMessage {
    let text = std::str::from_utf8(&recording.body).unwrap();
    let mut message = Value::Null;
    let mut inputs: BTreeMap<usize, String> = BTreeMap::new();
    for event in text.lines().filter_map(|line| line.strip_prefix("data:")) {
        let event: Value = serde_json::from_str(event).unwrap();
        let index = event["index"].as_u64().unwrap_or_default() as usize;
        match event["type"].as_str().unwrap() {
            "message_start" => message = event["message"].clone(),
            "content_block_start" => {
                message["content"].as_array_mut().unwrap().push(event["content_block"].clone());
            }
            "content_block_delta" => {
                let block = &mut message["content"][index];
                let delta = &event["delta"];
                let mut append = |name: &str| {
                    let more = delta[name].as_str().unwrap();
                    block[name] = Value::from(block[name].as_str().unwrap_or_default().to_owned() + more);
                };
                match delta["type"].as_str().unwrap() {
                    "text_delta" => append("text"),
                    "thinking_delta" => append("thinking"),
                    "signature_delta" => append("signature"),
                    "input_json_delta" => {
                        inputs.entry(index).or_default().push_str(delta["partial_json"].as_str().unwrap());
                    }
                    "citations_delta" => match block["citations"].as_array_mut() {
                        Some(list) => list.push(delta["citation"].clone()),
                        None => block["citations"] = Value::from(vec![delta["citation"].clone()]),
                    },
                    kind => panic!("{kind}: add it here"),
                }
            }
            "message_delta" => {
                let delta = event["delta"].as_object().unwrap();
                delta.iter().for_each(|(name, value)| message[name] = value.clone());
                let usage = event["usage"].as_object().unwrap();
                usage.iter().for_each(|(name, value)| message["usage"][name] = value.clone());
            }
            _ => {}
        }
    }
    for (index, input) in inputs.into_iter().filter(|(_, input)| !input.is_empty()) {
        message["content"][index]["input"] = serde_json::from_str(&input).unwrap();
    }
    read_message(&message)
}

fn read_message(message: &Value) -> DecodedMessage {
    let mut decoded = DecodedMessage::default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for block in message["content"].as_array().unwrap() {
        match block["type"].as_str().unwrap() {
            "text" => {
                decoded.text.push_str(&text(&block["text"]));
                for citation in block["citations"].as_array().into_iter().flatten() {
                    decoded.cited.push(format!("{} for {}", text(&citation["url"]), text(&block["text"])));
                }
            }
            "thinking" => {
                decoded.thinking.push_str(&text(&block["thinking"]));
                decoded.signatures.push(text(&block["signature"]));
            }
            "redacted_thinking" => decoded.redacted.push(text(&block["data"])),
            "tool_use" => {
                decoded.calls.push((text(&block["id"]), text(&block["name"]), block["input"].clone()));
            }
            _ => decoded.blocks.push(block.clone()),
        }
    }
    decoded.finish = message["stop_reason"].as_str().map(str::to_owned);
    let usage = &message["usage"];
    let count = |name: &str| usage[name].as_u64().unwrap_or_default();
    let cached = count("cache_read_input_tokens");
    let written = count("cache_creation_input_tokens");
    let thought = usage["output_tokens_details"]["thinking_tokens"].as_u64().unwrap_or_default();
    decoded.usage =
        [count("input_tokens") + cached + written, count("output_tokens"), cached, written, thought];
    decoded
}
