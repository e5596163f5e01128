//! The content of a recorded response, parsed directly from the vendor's format.
//!
//! Deliberately not parsed with the gateway's code: a test using that would not notice its bugs. It has no
//! formatting, only what a user would miss: text, reasoning, tool calls, finish reason, tokens.

use super::recording::Recording;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The content that a translation must preserve.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ChatContent {
    pub(crate) text: String,
    pub(crate) reasoning: String,
    /// Name and parsed arguments.
    pub(crate) tools: Vec<(String, Value)>,
    /// OpenAI's finish reason; empty if there was none.
    pub(crate) finish: String,
    /// Input and output tokens, counted as OpenAI does.
    pub(crate) tokens: Option<(u64, u64)>,
    /// The message of an error.
    pub(crate) error: Option<String>,
}

/// The format of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    OpenAi,
    Anthropic,
    Gemini,
    Converse,
    Cohere,
}

impl ChatContent {
    /// Parses a recording in its vendor's format.
    pub(crate) fn from_recording(recording: &Recording, shape: Shape) -> Self {
        let mut content = Self::default();
        if recording.status >= 400 {
            let json: Value = serde_json::from_slice(&recording.body).unwrap_or_default();
            content.error = Some(message(&json));
            return content;
        }
        let mut calls = BTreeMap::new();
        let events = match recording.streamed {
            true if shape == Shape::Converse => frames(&recording.body),
            true => data(&recording.body),
            false => vec![serde_json::from_slice(&recording.body).unwrap()],
        };
        for event in &events {
            match shape {
                Shape::OpenAi => content.openai(event, &mut calls),
                Shape::Anthropic => content.anthropic(event, &mut calls),
                Shape::Gemini => content.gemini(event),
                Shape::Converse => content.converse(event, &mut calls),
                Shape::Cohere => content.cohere(event, &mut calls),
            }
        }
        content.tools.extend(
            calls.into_values().map(|(name, arguments): (String, String)| (name, parsed(&arguments))),
        );
        if !content.tools.is_empty() && content.finish == "stop" {
            content.finish = "tool_calls".to_owned();
        }
        content
    }

    /// Parses OpenAI's format, as a client of the gateway does.
    pub(crate) fn openai(&mut self, event: &Value, calls: &mut BTreeMap<u64, (String, String)>) {
        if let Some(error) = event.get("error").filter(|error| !error.is_null()) {
            self.error = Some(message(&json!({ "error": error })));
        }
        for choice in event["choices"].as_array().into_iter().flatten() {
            let delta = if choice["message"].is_object() { &choice["message"] } else { &choice["delta"] };
            match &delta["content"] {
                Value::Array(parts) => parts.iter().for_each(|part| {
                    self.text += text(&part["text"]);
                    let thoughts = part["thinking"].as_array().into_iter().flatten();
                    self.reasoning.extend(thoughts.map(|thought| text(&thought["text"])));
                }),
                content => self.text += text(content),
            }
            let reasoning = text(&delta["reasoning_content"]);
            self.reasoning += if reasoning.is_empty() { text(&delta["reasoning"]) } else { reasoning };
            for (at, call) in delta["tool_calls"].as_array().into_iter().flatten().enumerate() {
                let index = call["index"].as_u64().unwrap_or(at as u64);
                let entry = calls.entry(index).or_default();
                entry.0 += text(&call["function"]["name"]);
                entry.1 += text(&call["function"]["arguments"]);
            }
            self.set_finish(&choice["finish_reason"]);
        }
        let usage = if event["usage"].is_object() { &event["usage"] } else { &event["x_groq"]["usage"] };
        if let Some(input) = usage["prompt_tokens"].as_u64() {
            self.tokens = Some((input, usage["completion_tokens"].as_u64().unwrap_or_default()));
        }
    }

    fn anthropic(&mut self, event: &Value, calls: &mut BTreeMap<u64, (String, String)>) {
        for block in event["content"].as_array().into_iter().flatten() {
            self.block(block);
        }
        match text(&event["type"]) {
            "content_block_start" if event["content_block"]["type"] == "tool_use" => {
                let name = text(&event["content_block"]["name"]).to_owned();
                calls.insert(event["index"].as_u64().unwrap(), (name, String::new()));
            }
            "content_block_start" => self.block(&event["content_block"]),
            "content_block_delta" => {
                self.text += text(&event["delta"]["text"]);
                self.reasoning += text(&event["delta"]["thinking"]);
                if let Some((_, arguments)) = calls.get_mut(&event["index"].as_u64().unwrap()) {
                    *arguments += text(&event["delta"]["partial_json"]);
                }
            }
            "error" => self.error = Some(message(event)),
            _ => {}
        }
        for source in [event, &event["delta"]] {
            self.set_finish(&source["stop_reason"]);
        }
        for usage in [&event["usage"], &event["message"]["usage"]] {
            let count = |name: &str| usage[name].as_u64();
            let Some(output) = count("output_tokens") else { continue };
            let cache_counters = ["cache_read_input_tokens", "cache_creation_input_tokens"];
            let cached: u64 = cache_counters.iter().filter_map(|name| count(name)).sum();
            let input = count("input_tokens").map(|input| input + cached);
            self.tokens = Some((input.or(self.tokens.map(|(input, _)| input)).unwrap_or_default(), output));
        }
    }

    fn block(&mut self, block: &Value) {
        match text(&block["type"]) {
            "text" => self.text += text(&block["text"]),
            "thinking" => self.reasoning += text(&block["thinking"]),
            "tool_use" => self.tools.push((text(&block["name"]).to_owned(), block["input"].clone())),
            _ => {}
        }
    }

    fn gemini(&mut self, event: &Value) {
        if event["error"].is_object() {
            self.error = Some(message(event));
        }
        let candidate = &event["candidates"][0];
        for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
            match part["thought"] == true {
                true => self.reasoning += text(&part["text"]),
                false => self.text += text(&part["text"]),
            }
            if let Some(call) = part.get("functionCall") {
                let arguments = call.get("args").cloned().unwrap_or_else(|| json!({}));
                self.tools.push((text(&call["name"]).to_owned(), arguments));
            }
        }
        self.set_finish(&candidate["finishReason"]);
        if event["promptFeedback"]["blockReason"].is_string() {
            self.finish = "content_filter".to_owned();
        }
        let usage = &event["usageMetadata"];
        let count = |name: &str| usage[name].as_u64().unwrap_or_default();
        if usage["promptTokenCount"].is_u64() {
            let input = count("promptTokenCount") + count("toolUsePromptTokenCount");
            self.tokens = Some((input, count("candidatesTokenCount") + count("thoughtsTokenCount")));
        }
    }

    fn converse(&mut self, event: &Value, calls: &mut BTreeMap<u64, (String, String)>) {
        for block in event["output"]["message"]["content"].as_array().into_iter().flatten() {
            self.text += text(&block["text"]);
            self.reasoning += text(&block["reasoningContent"]["reasoningText"]["text"]);
            if let Some(call) = block.get("toolUse").filter(|call| call["type"] != "server_tool_use") {
                self.tools.push((text(&call["name"]).to_owned(), call["input"].clone()));
            }
        }
        let index = event["contentBlockIndex"].as_u64().unwrap_or_default();
        if let Some(call) = event["start"].get("toolUse").filter(|call| call["type"] != "server_tool_use") {
            calls.insert(index, (text(&call["name"]).to_owned(), String::new()));
        }
        self.text += text(&event["delta"]["text"]);
        self.reasoning += text(&event["delta"]["reasoningContent"]["text"]);
        if let Some((_, arguments)) = calls.get_mut(&index) {
            *arguments += text(&event["delta"]["toolUse"]["input"]);
        }
        self.set_finish(&event["stopReason"]);
        let usage = &event["usage"];
        let count = |name: &str| usage[name].as_u64().unwrap_or_default();
        if usage["inputTokens"].is_u64() {
            let cached = count("cacheReadInputTokens") + count("cacheWriteInputTokens");
            self.tokens = Some((count("inputTokens") + cached, count("outputTokens")));
        }
    }

    fn cohere(&mut self, event: &Value, calls: &mut BTreeMap<u64, (String, String)>) {
        let whole = &event["message"];
        for part in whole["content"].as_array().into_iter().flatten() {
            self.text += text(&part["text"]);
            self.reasoning += text(&part["thinking"]);
        }
        self.reasoning += text(&whole["tool_plan"]);
        for call in whole["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            self.tools.push((text(&function["name"]).to_owned(), parsed(text(&function["arguments"]))));
        }
        let delta = &event["delta"]["message"];
        self.text += text(&delta["content"]["text"]);
        self.reasoning += text(&delta["content"]["thinking"]);
        self.reasoning += text(&delta["tool_plan"]);
        if let Some(function) = delta["tool_calls"].get("function") {
            let entry = calls.entry(event["index"].as_u64().unwrap_or_default()).or_default();
            entry.0 += text(&function["name"]);
            entry.1 += text(&function["arguments"]);
        }
        for source in [event, &event["delta"]] {
            self.set_finish(&source["finish_reason"]);
            let tokens = &source["usage"]["tokens"];
            if let Some(input) = tokens["input_tokens"].as_u64() {
                self.tokens = Some((input, tokens["output_tokens"].as_u64().unwrap_or_default()));
            }
        }
    }

    /// Maps a vendor's finish reason to OpenAI's.
    fn set_finish(&mut self, reason: &Value) {
        let Some(reason) = reason.as_str().filter(|reason| !reason.is_empty()) else { return };
        self.finish = match reason {
            "tool_use" | "tool_calls" | "TOOL_CALL" | "function_call" => "tool_calls",
            "max_tokens" | "length" | "MAX_TOKENS" | "model_length" | "model_context_window_exceeded" => {
                "length"
            }
            "content_filter"
            | "guardrail_intervened"
            | "content_filtered"
            | "refusal"
            | "SAFETY"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "LANGUAGE"
            | "IMAGE_SAFETY" => "content_filter",
            _ => "stop",
        }
        .to_owned();
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Arguments as JSON; invalid JSON becomes a string.
pub(crate) fn parsed(arguments: &str) -> Value {
    match arguments.trim() {
        "" => json!({}),
        text => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
    }
}

/// The message of an error, in any vendor's format.
pub(crate) fn message(json: &Value) -> String {
    let json = json.get(0).unwrap_or(json);
    let error = &json["error"];
    let raw = error["metadata"]["raw"].as_str();
    let text = [&error["message"], error, &json["message"], &json["Message"], &json["detail"]];
    let text = text.into_iter().find_map(Value::as_str).unwrap_or_default();
    match raw {
        Some(raw) => format!("{text}: {}", raw.trim()),
        None => text.to_owned(),
    }
}

/// The JSON of each event of an SSE stream.
pub(crate) fn data(body: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(body);
    let lines = text.lines().filter_map(|line| line.strip_prefix("data:"));
    lines.filter_map(|line| serde_json::from_str(line.trim()).ok()).collect()
}

/// The JSON of each frame of an AWS event stream: total length, length of the headers, their checksum, the
/// headers, the payload, a checksum.
fn frames(mut body: &[u8]) -> Vec<Value> {
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap()) as usize;
    let mut frames = Vec::new();
    while body.len() >= 16 {
        let (total, headers) = (number(&body[..4]), number(&body[4..8]));
        frames.push(serde_json::from_slice(&body[12 + headers..total - 4]).unwrap());
        body = &body[total..];
    }
    frames
}
