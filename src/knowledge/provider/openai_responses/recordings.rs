//! Decodes recorded responses of the Responses API (whole, byte by byte, at odd cuts) and compares the result with the recordings.
//!
//! The expected values are read from the JSON without the decoder's own types. The recordings are not part of the repository; without
//! them next to the checkout the test reports that it was skipped.

use super::OpenAiResponses;
use crate::provider::adapter::ChatAdapter;
use serde_json::{Value, json};
use std::path::Path;
use words::api::chat::response::{ChatResponse, ContentPart};
use words::api::chat::{Event, Finish};

/// The content of a response, by either reading.
#[derive(Debug, Default, PartialEq)]
struct Observed {
    text: String,
    reasoning: String,
    /// What the next turn sends back of the thinking.
    tokens: Vec<String>,
    /// Id, name, arguments.
    calls: Vec<(String, String, Value)>,
    citations: Vec<Value>,
    finish: Option<Finish>,
    /// Input, output, total, cached, reasoning.
    usage: Option<[u64; 5]>,
    searches: u64,
    model: Option<String>,
    id: Option<String>,
    error: Option<String>,
}

fn decoded(bytes: &[u8], streamed: bool, size: usize) -> Observed {
    let mut decoder = OpenAiResponses.decoder(streamed);
    let mut response = ChatResponse::default();
    let mut observed = Observed::default();
    let mut take = |event: Event<'_>| {
        assert!(observed.error.is_none(), "an event after the error: {event:?}");
        match event {
            Event::Error(error) => observed.error = Some(error.message.clone()),
            Event::Signature { signature: token, .. } | Event::Redacted { data: token, .. } => {
                observed.tokens.push(token.to_owned());
            }
            _ => {}
        }
        response.apply(&event);
    };
    for chunk in bytes.chunks(size) {
        decoder.push(chunk, &mut take);
    }
    decoder.finish(&mut take);
    observed.model = response.model;
    observed.id = response.id;
    observed.searches = response.usage.map_or(0, |usage| usage.web_searches);
    observed.usage =
        response.usage.map(|usage| [usage.input, usage.output, usage.total, usage.cached, usage.reasoning]);
    let Some(choice) = response.choices.first() else { return observed };
    observed.text = choice.text().unwrap_or_default();
    observed.reasoning = choice.reasoning().unwrap_or_default();
    observed.finish = choice.finish.as_ref().map(|(reason, _)| *reason);
    observed.citations = choice.annotations.iter().map(|json| serde_json::from_str(json).unwrap()).collect();
    for part in &choice.parts {
        if let ContentPart::ToolCall { id, name, arguments, .. } = part {
            let arguments = serde_json::from_str(arguments).unwrap();
            observed.calls.push((id.clone(), name.clone(), arguments));
        }
    }
    observed
}

fn recorded(response: &Value) -> Observed {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let mut observed = Observed {
        model: text(&response["model"]),
        id: text(&response["id"]),
        finish: Some(Finish::Stop),
        ..Observed::default()
    };
    if response["usage"].is_object() {
        let count = |pointer: &str| response["usage"].pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
        observed.usage = Some([
            count("/input_tokens"),
            count("/output_tokens"),
            count("/total_tokens"),
            count("/input_tokens_details/cached_tokens"),
            count("/output_tokens_details/reasoning_tokens"),
        ]);
    }
    for item in response["output"].as_array().unwrap() {
        let list = |name: &str| item[name].as_array().cloned().unwrap_or_default();
        match item["type"].as_str().unwrap() {
            "message" => {
                for part in list("content") {
                    observed.text.push_str(part["text"].as_str().unwrap());
                    let annotations = part["annotations"].as_array().cloned().unwrap_or_default();
                    for annotation in annotations.iter().filter(|each| each["type"] == "url_citation") {
                        let mut citation = annotation.clone();
                        citation.as_object_mut().unwrap().remove("type");
                        observed.citations.push(json!({"type": "url_citation", "url_citation": citation}));
                    }
                }
            }
            "reasoning" => {
                let summary = list("summary");
                let parts = if summary.is_empty() { list("content") } else { summary };
                let texts: Vec<String> =
                    parts.iter().map(|part| part["text"].as_str().unwrap().to_owned()).collect();
                observed.reasoning.push_str(&texts.join("\n\n"));
                observed.tokens.extend(text(&item["encrypted_content"]));
            }
            "function_call" => observed.calls.push((
                text(&item["call_id"]).unwrap(),
                text(&item["name"]).unwrap(),
                serde_json::from_str(item["arguments"].as_str().unwrap()).unwrap(),
            )),
            "web_search_call" => {
                let action = item["action"]["type"].as_str();
                observed.searches += u64::from(action.is_none_or(|action| action == "search"));
            }
            _ => {}
        }
    }
    observed
}

/// A stream without its last event has not finished; the last event alone has everything.
fn check_last_event(text: &str, response: &Value, id: &str) {
    let (before, _) = text.rsplit_once("\"response.completed\"").unwrap();
    let (cut, _) = before.rsplit_once("data: ").unwrap();
    assert_eq!(decoded(cut.as_bytes(), true, 100).finish, None, "{id}: cut short");
    let last = json!({"type": "response.completed", "response": response});
    let of_last = decoded(format!("data: {last}\n\n").as_bytes(), true, 50);
    assert_eq!(of_last, recorded(response), "{id}: the last event");
}

#[test]
fn recorded_responses_are_decoded_faithfully() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traffic/recorded.jsonl");
    let Ok(text) = std::fs::read_to_string(&path) else {
        return eprintln!("SKIPPED: responses recordings: no recorded traffic beside this checkout");
    };
    let [mut whole, mut streamed, mut unfinished] = [0; 3];
    for line in text.lines() {
        let recording: Value = serde_json::from_str(line).unwrap();
        let uri = recording["uri"].as_str().unwrap();
        if !uri.split('?').next().unwrap().ends_with("/responses") || recording["status"] != 200 {
            continue;
        }
        let id = recording["id"].as_str().unwrap();
        let mut streamed_tokens = Vec::new();
        let (bytes, response, is_stream) = match recording["sse"].as_str() {
            Some(sse) => {
                let data = sse.lines().filter_map(|line| line.strip_prefix("data: "));
                let events: Vec<Value> = data.filter_map(|data| serde_json::from_str(data).ok()).collect();
                let last = events.iter().rfind(|event| event["type"] == "response.completed");
                streamed_tokens = events
                    .iter()
                    .filter(|event| event["type"] == "response.output_item.done")
                    .filter_map(|event| event["item"]["encrypted_content"].as_str().map(str::to_owned))
                    .collect();
                (sse.as_bytes().to_vec(), last.map(|event| event["response"].clone()), true)
            }
            None => {
                let response = &recording["response"];
                let is_done = response["status"] != "queued";
                (response.to_string().into_bytes(), is_done.then(|| response.clone()), false)
            }
        };
        let Some(response) = response else {
            // A background response that was only begun, or a stream that was left.
            assert_eq!(decoded(&bytes, is_stream, bytes.len()).finish, None, "{id}");
            unfinished += 1;
            continue;
        };
        let mut wanted = recorded(&response);
        if is_stream {
            // OpenAI encrypts thinking anew for its last event.
            wanted.tokens = streamed_tokens;
        }
        for size in [bytes.len(), 1, 7, 61, 4096] {
            assert_eq!(decoded(&bytes, is_stream, size), wanted, "{id}: chunks of {size}");
        }
        if is_stream {
            check_last_event(std::str::from_utf8(&bytes).unwrap(), &response, id);
            streamed += 1;
        } else {
            whole += 1;
        }
    }
    eprintln!("responses recordings: {whole} whole, {streamed} streamed, {unfinished} unfinished");
    assert!(whole > 140 && streamed >= 10, "{whole} {streamed} {unfinished}");
}
