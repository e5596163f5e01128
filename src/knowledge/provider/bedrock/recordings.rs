//! Decodes Bedrock's recorded traffic and compares the result with the recordings. Skipped when the
//! recordings are not in the folder beside the checkout.

use super::embeddings;
use super::response::ConverseDecoder as BedrockDecoder;
use crate::provider::Call;
use aws_smithy_eventstream::frame::read_message_from;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde_json::{Value, json};
use words::api::body::Body;
use words::api::chat::response::{ChatResponse, ContentPart};
use words::api::chat::{Decoder, Event, ProviderError};
use words::api::operation::Operation;
use words::api::tap::Tap;
use words::config::account::Account;

fn recordings() -> Option<Vec<Value>> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/traffic/recorded.jsonl");
    let Ok(text) = std::fs::read_to_string(file) else {
        eprintln!("SKIPPED: bedrock recordings: no ../shared/traffic/recorded.jsonl beside this checkout");
        return None;
    };
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    Some(lines.filter(|line| text_of(&line["host"]).starts_with("bedrock-runtime")).collect())
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Decodes `bytes` in chunks of `size`: the collected response, a log of all events, the error.
fn decode(bytes: &[u8], streamed: bool, size: usize) -> (ChatResponse, Vec<String>, Option<ProviderError>) {
    let mut decoder = BedrockDecoder::new(streamed);
    let mut response = ChatResponse::default();
    let mut log = Vec::new();
    let mut error = None;
    let mut sink = |event: Event<'_>| {
        assert!(error.is_none(), "an event after the error: {event:?}");
        response.apply(&event);
        log.push(format!("{event:?}"));
        if let Event::Error(reported) = event {
            error = Some(reported.clone());
        }
    };
    for chunk in bytes.chunks(size.max(1)) {
        decoder.push(chunk, &mut sink);
    }
    decoder.finish(&mut sink);
    (response, log, error)
}

/// A response as JSON that is comparable with [`recorded_summary`].
fn summary(response: &ChatResponse) -> Value {
    let choice = &response.choices[0];
    let calls: Vec<Value> = choice.parts.iter().filter_map(call).collect();
    let signature_of = |part: &ContentPart| match part {
        ContentPart::Reasoning { signature: Some(signature), .. } => Some(json!(signature)),
        ContentPart::Redacted(data) => Some(json!(data)),
        _ => None,
    };
    let blocks = choice.parts.iter().filter(|part| matches!(part, ContentPart::Block(_))).count();
    let usage = response.usage.unwrap();
    json!({
        "text": choice.text().unwrap_or_default(),
        "reasoning": choice.reasoning().unwrap_or_default(),
        "signatures": choice.parts.iter().filter_map(signature_of).collect::<Vec<_>>(),
        "calls": calls,
        "blocks": blocks,
        "native": choice.finish.as_ref().unwrap().1,
        "finish": choice.finish.as_ref().unwrap().0.as_str(),
        "usage": [usage.input, usage.output, usage.total, usage.cached, usage.cache_write],
    })
}

fn call(part: &ContentPart) -> Option<Value> {
    let ContentPart::ToolCall { id, name, arguments, .. } = part else { return None };
    let arguments = if arguments.is_empty() { "{}" } else { arguments };
    Some(json!([id, name, serde_json::from_str::<Value>(arguments).unwrap()]))
}

/// The same summary of a recorded whole response, made without any of our code.
fn recorded_summary(response: &Value) -> Value {
    let blocks = response["output"]["message"]["content"].as_array().unwrap();
    let mut text = String::new();
    let mut reasoning = String::new();
    let mut signatures = Vec::new();
    let mut calls = Vec::new();
    let mut others = 0;
    for block in blocks {
        text += text_of(&block["text"]);
        let thinking = &block["reasoningContent"];
        reasoning += text_of(&thinking["reasoningText"]["text"]);
        signatures.extend(thinking["reasoningText"].get("signature").cloned());
        signatures.extend(thinking.get("redactedContent").cloned());
        if let Some(call) = block.get("toolUse") {
            match call.get("type").map(text_of) {
                Some("server_tool_use") => others += 1,
                _ => calls.push(json!([call["toolUseId"], call["name"], call["input"]])),
            }
        }
        others += usize::from(block.get("toolResult").is_some());
    }
    json!({
        "text": text, "reasoning": reasoning, "signatures": signatures, "calls": calls, "blocks": others,
        "native": response["stopReason"],
        "finish": finish_name(text_of(&response["stopReason"])),
        "usage": usage(&response["usage"]),
    })
}

fn finish_name(native: &str) -> &str {
    match native {
        "max_tokens" | "model_context_window_exceeded" => "length",
        "tool_use" => "tool_calls",
        "guardrail_intervened" | "content_filtered" => "content_filter",
        _ => "stop",
    }
}

fn usage(raw: &Value) -> Value {
    let count = |name: &str| raw[name].as_u64().unwrap_or_default();
    let cached = count("cacheReadInputTokens");
    let write = count("cacheWriteInputTokens");
    json!([count("inputTokens") + cached + write, count("outputTokens"), count("totalTokens"), cached, write])
}

/// A recorded stream converted into the shape of a whole response.
fn whole_of(mut bytes: &[u8]) -> Value {
    let mut blocks = Vec::<Value>::new();
    let mut stop = Value::Null;
    let mut usage = Value::Null;
    while !bytes.is_empty() {
        let message = read_message_from(&mut bytes).unwrap();
        let payload: Value = serde_json::from_slice(message.payload()).unwrap();
        let index = payload["contentBlockIndex"].as_u64().unwrap_or_default() as usize;
        if blocks.len() <= index && payload.get("contentBlockIndex").is_some() {
            blocks.resize(index + 1, json!({}));
        }
        if let Some(start) = payload.get("start") {
            blocks[index] = start.clone();
        }
        let delta = &payload["delta"];
        let mut add = |pointer: &[&str], text: &str| {
            let mut at = &mut blocks[index];
            for name in pointer {
                at = &mut at[*name];
            }
            *at = json!([text_of(at), text].concat());
        };
        if let Some(text) = delta["text"].as_str() {
            add(&["text"], text);
        }
        if let Some(text) = delta["reasoningContent"]["text"].as_str() {
            add(&["reasoningContent", "reasoningText", "text"], text);
        }
        if let Some(text) = delta["reasoningContent"]["signature"].as_str() {
            add(&["reasoningContent", "reasoningText", "signature"], text);
        }
        if let Some(text) = delta["toolUse"]["input"].as_str() {
            add(&["toolUse", "input"], text);
        }
        stop = payload.get("stopReason").cloned().unwrap_or(stop);
        usage = payload.get("usage").cloned().unwrap_or(usage);
    }
    for block in &mut blocks {
        if let Some(input) = block["toolUse"]["input"].as_str() {
            block["toolUse"]["input"] = serde_json::from_str(input).unwrap_or(json!({}));
        }
        let block = block.as_object_mut().unwrap();
        block.retain(|_, value| !value.is_null());
    }
    json!({"output": {"message": {"content": blocks}}, "stopReason": stop, "usage": usage})
}

#[test]
fn every_recorded_converse_response_is_decoded_faithfully() {
    let Some(recordings) = recordings() else { return };
    let mut whole = 0;
    let mut streams = 0;
    let mut errors = 0;
    for recording in recordings.iter().filter(|each| text_of(&each["uri"]).contains("/converse")) {
        let id = text_of(&recording["id"]);
        if recording["status"] != 200 {
            let message = text_of(&recording["response"]["message"]);
            let body = serde_json::to_vec(&recording["response"]).unwrap();
            assert_eq!(ProviderError::read(400, &body).message, message, "{id}");
            errors += 1;
            continue;
        }
        let (bytes, wanted, streamed) = match recording["event_stream_b64"].as_str() {
            Some(text) => {
                let bytes = STANDARD.decode(text).unwrap();
                let wanted = recorded_summary(&whole_of(&bytes));
                (bytes, wanted, true)
            }
            None => {
                let response = &recording["response"];
                (serde_json::to_vec(response).unwrap(), recorded_summary(response), false)
            }
        };
        let (response, log, error) = decode(&bytes, streamed, bytes.len());
        assert_eq!(error, None, "{id}");
        assert_eq!(summary(&response), wanted, "{id}");
        assert_eq!(log.last().map(String::as_str), Some("End"), "{id}");
        if !streamed {
            let mut tap = Tap::new(Operation::Passthrough, false, true, None);
            tap.push(&bytes);
            assert_eq!(tap.summary().usage, response.usage, "{id}: tapped");
            assert_eq!(json!(tap.summary().finish), wanted["native"], "{id}: tapped");
        }
        for size in [1, 3, 17, 64, 1000] {
            assert_eq!(decode(&bytes, streamed, size).1, log, "{id} in chunks of {size}");
        }
        // The bytes decide what the response is, whatever `streamed` claims.
        assert_eq!(decode(&bytes, !streamed, 50).1, log, "{id}: streamed flag inverted");
        *(if streamed { &mut streams } else { &mut whole }) += 1;
    }
    eprintln!("bedrock recordings: {whole} whole, {streams} streamed, {errors} errors");
    assert!(whole >= 100 && streams >= 4 && errors >= 5, "{whole} {streams} {errors}");
}

#[test]
fn every_flipped_byte_of_a_recorded_stream_is_detected() {
    let Some(recordings) = recordings() else { return };
    let streams = recordings.iter().filter_map(|each| each["event_stream_b64"].as_str());
    let mut flipped = 0;
    for text in streams {
        let bytes = STANDARD.decode(text).unwrap();
        for at in 0..bytes.len() {
            let mut broken = bytes.clone();
            broken[at] ^= 0x55;
            assert!(decode(&broken, true, 512).2.is_some(), "byte {at}");
            flipped += 1;
        }
    }
    eprintln!("bedrock recordings: {flipped} flipped bytes, each an error");
}

#[test]
fn every_recorded_embedding_is_read() {
    let Some(recordings) = recordings() else { return };
    let mut read = 0;
    for recording in recordings.iter().filter(|each| text_of(&each["uri"]).ends_with("/invoke")) {
        let id = text_of(&recording["id"]);
        let path = text_of(&recording["uri"]).split("/model/").nth(1).unwrap();
        let model = path.split('/').next().unwrap().replace("%3A", ":");
        if !model.contains("embed") {
            continue;
        }
        let call = Call {
            operation: Operation::Embeddings,
            method: &Method::POST,
            path: "embeddings",
            query: None,
            model: Some(&model),
            streamed: false,
        };
        let adapter = embeddings::adapter(&call, &Account::default()).unwrap();
        let bytes = serde_json::to_vec(&recording["response"]).unwrap();
        let out: Value = serde_json::from_slice(&adapter.read(&bytes, None, &model).unwrap()).unwrap();
        let response = &recording["response"];
        let wanted = match &response["embeddings"] {
            Value::Array(list) if list[0].is_object() => list[0]["embedding"].clone(),
            Value::Array(list) => list[0].clone(),
            Value::Object(by_type) => by_type["float"][0].clone(),
            _ => response["embedding"].clone(),
        };
        assert_eq!(out["data"][0]["embedding"], wanted, "{id}");
        assert_eq!(out["data"].as_array().unwrap().len(), 1.max(texts(recording)), "{id}");
        let tokens = response["inputTextTokenCount"].as_u64().unwrap_or_default();
        assert_eq!(out["usage"], json!({"prompt_tokens": tokens, "total_tokens": tokens}), "{id}");
        let packed = Body::parse(br#"{"encoding_format":"base64"}"#.to_vec().into()).unwrap();
        let out: Value =
            serde_json::from_slice(&adapter.read(&bytes, Some(&packed), &model).unwrap()).unwrap();
        let packed = STANDARD.decode(text_of(&out["data"][0]["embedding"])).unwrap();
        assert_eq!(packed.len(), wanted.as_array().unwrap().len() * 4, "{id}");
        let first = f32::from_le_bytes(packed[..4].try_into().unwrap());
        assert_eq!(first, wanted[0].as_f64().unwrap() as f32, "{id}");
        read += 1;
    }
    eprintln!("bedrock recordings: {read} embeddings");
    assert!(read >= 20, "{read}");
}

fn texts(recording: &Value) -> usize {
    recording["request"]["texts"].as_array().map_or(0, Vec::len)
}
