//! Tests with every recorded chat response, decoded and patched; the submodules add cases without a
//! recording.
//!
//! Without the recordings next to the checkout these tests are skipped. The expected values are read from the
//! recordings as plain JSON, independently of the decoder.

use super::{CHAT_PATCH, OPENAI_CHAT, OpenAiChat};
use crate::provider::adapter::{ChatAdapter, ResponsePatch};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use words::api::chat::response::{ChatResponse, ContentPart};
use words::api::chat::{Event, ProviderError};
use words::api::usage::Usage;

mod odd_responses;
mod requests;

/// One recorded chat completion.
struct Recording {
    id: String,
    host: String,
    body: String,
    streamed: bool,
}

fn recordings() -> Vec<Recording> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traffic/recorded.jsonl");
    let Ok(text) = std::fs::read_to_string(file) else {
        eprintln!("SKIPPED: no ../shared/traffic/recorded.jsonl next to this checkout");
        return Vec::new();
    };
    let read = |line: &str| {
        let entry: Value = serde_json::from_str(line).unwrap();
        let uri = entry["uri"].as_str().unwrap();
        if !uri.contains("chat/completions") || entry["status"] != 200 {
            return None;
        }
        let sse = entry["sse"].as_str().map(str::to_owned);
        let streamed = sse.is_some();
        let body = sse.unwrap_or_else(|| entry["response"].to_string());
        let text_of = |name: &str| entry[name].as_str().unwrap().to_owned();
        Some(Recording { id: text_of("id"), host: text_of("host"), body, streamed })
    };
    text.lines().filter_map(read).collect()
}

/// What was decoded from a response.
#[derive(Debug, Default, PartialEq)]
struct Decoded {
    response: ChatResponse,
    error: Option<ProviderError>,
    ended: bool,
}

fn read(chat: &OpenAiChat, body: &[u8], streamed: bool, size: &mut dyn FnMut() -> usize) -> Decoded {
    let mut decoded = Decoded::default();
    let mut decoder = chat.decoder(streamed);
    let mut sink = |event: Event<'_>| {
        assert!(decoded.error.is_none() && !decoded.ended, "event after the end: {event:?}");
        match &event {
            Event::Error(error) => decoded.error = Some((*error).clone()),
            Event::End => decoded.ended = true,
            _ => decoded.response.apply(&event),
        }
    };
    let mut rest = body;
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(size().clamp(1, rest.len()));
        decoder.push(chunk, &mut sink);
        rest = after;
    }
    decoder.finish(&mut sink);
    decoded
}

/// Decodes whole, byte by byte and at pseudo-random cuts, and requires the same result each time.
fn read_at_all_cuts(body: &[u8], streamed: bool) -> Decoded {
    let whole = read(&OPENAI_CHAT, body, streamed, &mut || body.len());
    assert_eq!(whole, read(&OPENAI_CHAT, body, streamed, &mut || 1), "byte by byte");
    for mut seed in 1..=8_u64 {
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % 200 + 1
        };
        assert_eq!(whole, read(&OPENAI_CHAT, body, streamed, &mut next), "random cuts");
    }
    whole
}

/// The contents of a recording, found without the decoder.
#[derive(Debug, Default, PartialEq)]
struct Wanted {
    text: String,
    reasoning: String,
    /// Name and arguments.
    calls: Vec<(String, Value)>,
    finish: Option<String>,
    usage: Option<Usage>,
    error: Option<String>,
    annotations: usize,
}

impl Wanted {
    fn from_recording(recording: &Recording) -> Self {
        let mut wanted = Wanted::default();
        let mut calls: BTreeMap<u64, (String, String)> = BTreeMap::new();
        let chunks: Vec<Value> = if recording.streamed {
            let lines = recording.body.lines().filter_map(|line| line.strip_prefix("data: "));
            lines.filter_map(|data| serde_json::from_str(data).ok()).collect()
        } else {
            vec![serde_json::from_str(&recording.body).unwrap()]
        };
        for chunk in &chunks {
            wanted.take(chunk, &mut calls);
        }
        let arguments = |text: &str| serde_json::from_str(if text.is_empty() { "{}" } else { text }).unwrap();
        wanted.calls = calls.into_values().map(|(name, text)| (name, arguments(&text))).collect();
        wanted
    }

    fn take(&mut self, chunk: &Value, calls: &mut BTreeMap<u64, (String, String)>) {
        if let Some(message) = chunk["error"]["message"].as_str() {
            self.error = Some(message.to_owned());
        }
        if chunk["usage"].is_object() {
            self.usage = Usage::read(chunk["usage"].to_string().as_bytes());
        }
        let Some(choice) = chunk["choices"].get(0) else { return };
        let message = choice.get("delta").unwrap_or(&choice["message"]);
        match &message["content"] {
            Value::String(text) => self.text.push_str(text),
            Value::Array(parts) => parts.iter().for_each(|part| {
                self.text.push_str(part["text"].as_str().unwrap_or_default());
                for thought in part["thinking"].as_array().into_iter().flatten() {
                    self.reasoning.push_str(thought["text"].as_str().unwrap());
                }
            }),
            _ => {}
        }
        let spelled = message["reasoning"].as_str().or(message["reasoning_content"].as_str());
        self.reasoning.push_str(spelled.unwrap_or_default());
        for (position, call) in message["tool_calls"].as_array().into_iter().flatten().enumerate() {
            let index = call["index"].as_u64().filter(|_| choice.get("delta").is_some());
            let entry = calls.entry(index.unwrap_or(position as u64)).or_default();
            entry.0.push_str(call["function"]["name"].as_str().unwrap_or_default());
            entry.1.push_str(call["function"]["arguments"].as_str().unwrap_or_default());
        }
        self.annotations += message["annotations"].as_array().map_or(0, Vec::len);
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.finish = Some(reason.to_owned());
        }
    }

    /// The same from the decoder's result.
    fn read(decoded: &Decoded) -> Self {
        let mut wanted = Wanted { usage: decoded.response.usage, ..Wanted::default() };
        wanted.error = decoded.error.as_ref().map(|error| error.message.clone());
        let Some(choice) = decoded.response.choices.first() else { return wanted };
        wanted.text = choice.text().unwrap_or_default();
        wanted.reasoning = choice.reasoning().unwrap_or_default();
        for part in &choice.parts {
            if let ContentPart::ToolCall { name, arguments, .. } = part {
                let arguments = if arguments.is_empty() { "{}" } else { arguments };
                wanted.calls.push((name.clone(), serde_json::from_str(arguments).unwrap()));
            }
        }
        wanted.finish = choice.finish.as_ref().map(|(_, native)| native.clone());
        wanted.annotations = choice.annotations.len();
        wanted
    }
}

#[test]
fn every_recorded_response_is_decoded_exactly() {
    let mut counts: BTreeMap<(String, bool), usize> = BTreeMap::new();
    for recording in recordings() {
        let decoded = read_at_all_cuts(recording.body.as_bytes(), recording.streamed);
        let mut wanted = Wanted::from_recording(&recording);
        if wanted.error.is_some() {
            // A finish before an error does not count.
            wanted.finish = None;
        }
        assert_eq!(Wanted::read(&decoded), wanted, "{}", recording.id);
        assert_eq!(decoded.ended, wanted.error.is_none(), "{}", recording.id);
        let start = (
            decoded.response.id.is_some(),
            decoded.response.model.is_some(),
            decoded.response.created.is_some(),
        );
        assert_eq!(start, (true, true, true), "{}", recording.id);
        *counts.entry((recording.host, recording.streamed)).or_default() += 1;
    }
    println!("{counts:?}");
}

#[test]
fn patched_responses_keep_their_content() {
    let mut changed: BTreeMap<String, usize> = BTreeMap::new();
    for recording in recordings() {
        if !recording.streamed {
            let Some(patched) = CHAT_PATCH.patch(recording.body.as_bytes(), false) else { continue };
            let before = read(&OPENAI_CHAT, recording.body.as_bytes(), false, &mut || 1 << 20);
            let after = read(&OPENAI_CHAT, &patched, false, &mut || 1 << 20);
            assert_eq!(Wanted::read(&before), Wanted::read(&after), "{}", recording.id);
            assert!(CHAT_PATCH.patch(&patched, false).is_none(), "{}: once is enough", recording.id);
            *changed.entry(recording.host).or_default() += 1;
            continue;
        }
        for data in recording.body.lines().filter_map(|line| line.strip_prefix("data: ")) {
            let Some(patched) = CHAT_PATCH.patch(data.as_bytes(), true) else { continue };
            serde_json::from_slice::<Value>(&patched).unwrap();
            assert!(CHAT_PATCH.patch(&patched, true).is_none(), "{}: once is enough", recording.id);
            *changed.entry(format!("{} (stream events)", recording.host)).or_default() += 1;
        }
    }
    println!("{changed:?}");
}

#[test]
fn openai_responses_need_no_patch() {
    for recording in recordings().iter().filter(|recording| recording.host == "api.openai.com") {
        if recording.streamed {
            for data in recording.body.lines().filter_map(|line| line.strip_prefix("data: ")) {
                assert!(CHAT_PATCH.patch(data.as_bytes(), true).is_none(), "{}", recording.id);
            }
        } else {
            assert!(CHAT_PATCH.patch(recording.body.as_bytes(), false).is_none(), "{}", recording.id);
        }
    }
}
