//! What a client observes of a response: status, headers, text, finish reason, tokens, errors, and whether it
//! ended properly.
//!
//! Deliberately not parsed with the gateway's own decoders, which would share its bugs.

use crate::support::sse;
use reqwest::Response;
use reqwest::header::HeaderMap;
use serde_json::Value;
use std::time::{Duration, Instant};

/// One response, read to its end.
#[derive(Debug, Default)]
pub(crate) struct ObservedResponse {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// Until the last byte.
    pub(crate) elapsed: Duration,
    pub(crate) text: String,
    pub(crate) finish: Option<String>,
    /// Input and output tokens.
    pub(crate) tokens: Option<(u64, u64)>,
    /// The first model named in it.
    pub(crate) model: String,
    /// It has its end marker (`[DONE]`, `message_stop`), or is a complete whole body.
    pub(crate) done: bool,
    pub(crate) error: Option<Value>,
    /// The first break of the connection or the framing, or the first violation of the dialect's grammar.
    pub(crate) broken: Option<String>,
    pub(crate) body: String,
    /// Events, without comments.
    pub(crate) events: usize,
}

impl ObservedResponse {
    pub(crate) async fn read(mut response: Response, started: Instant, messages: bool) -> Self {
        let mut observed = Self {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            ..Self::default()
        };
        let mut bytes = Vec::new();
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(error) => {
                    observed.broken = Some(format!("{error:?}"));
                    break;
                }
            }
        }
        observed.elapsed = started.elapsed();
        observed.body = String::from_utf8(bytes).unwrap();
        let streamed = observed.header("content-type").starts_with("text/event-stream");
        match (streamed, messages) {
            (true, false) => observed.chunks(),
            (true, true) => observed.message_events(),
            (false, _) => observed.whole(messages),
        }
        observed
    }

    /// A header's text; empty if it is absent.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The attempts listed in `x-gateway-attempts`: target and outcome.
    pub(crate) fn attempts(&self) -> Vec<(String, String)> {
        let attempts = self.header("x-gateway-attempts").split(", ").filter(|attempts| !attempts.is_empty());
        let one = |attempt: &str| {
            let parts: Vec<&str> = attempt.split(':').collect();
            assert!(parts.len() == 3 && parts[2].parse::<u64>().is_ok(), "x-gateway-attempts: {attempt}");
            (parts[0].to_owned(), parts[1].to_owned())
        };
        attempts.map(one).collect()
    }

    fn whole(&mut self, messages: bool) {
        let Ok(body) = serde_json::from_str::<Value>(&self.body) else { return };
        self.done = self.broken.is_none();
        self.error = body.get("error").filter(|error| !error.is_null()).cloned();
        self.model = text(&body["model"]);
        if messages {
            let blocks = body["content"].as_array().into_iter().flatten();
            self.text = blocks.map(|block| text(&block["text"])).collect();
            self.finish = body["stop_reason"].as_str().map(str::to_owned);
            self.usage(&body["usage"], "input_tokens", "output_tokens");
        } else {
            self.text = text(&body["choices"][0]["message"]["content"]);
            self.finish = body["choices"][0]["finish_reason"].as_str().map(str::to_owned);
            self.usage(&body["usage"], "prompt_tokens", "completion_tokens");
        }
    }

    /// Records a violation of the dialect's grammar.
    fn must(&mut self, holds: bool, what: &str) {
        if !holds && self.broken.is_none() {
            self.broken = Some(what.to_owned());
        }
    }

    /// Parses chat chunks.
    fn chunks(&mut self) {
        let events = sse::events(&self.body);
        self.events = events.len();
        for event in &events {
            self.must(!self.done, "an event after [DONE]");
            if event.data == "[DONE]" {
                self.done = true;
                continue;
            }
            let chunk: Value = serde_json::from_str(&event.data).unwrap_or_default();
            self.must(chunk.is_object(), "an event that is not JSON");
            self.must(self.error.is_none(), "an event after an error");
            if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
                self.error = Some(error.clone());
                continue;
            }
            if self.model.is_empty() {
                self.model = text(&chunk["model"]);
            }
            self.usage(&chunk["usage"], "prompt_tokens", "completion_tokens");
            let choice = &chunk["choices"][0];
            let text_delta = text(&choice["delta"]["content"]);
            self.must(text_delta.is_empty() || self.finish.is_none(), "text after the finish reason");
            self.text += &text_delta;
            if let Some(finish) = choice["finish_reason"].as_str() {
                self.must(self.finish.is_none(), "two finish reasons");
                self.finish = Some(finish.to_owned());
            }
        }
    }

    /// Parses events of the Messages dialect and checks their order.
    fn message_events(&mut self) {
        let events = sse::events(&self.body);
        self.events = events.len();
        let mut open = None;
        for event in &events {
            self.must(!self.done, "an event after message_stop");
            self.must(self.error.is_none(), "an event after an error");
            let payload: Value = serde_json::from_str(&event.data).unwrap_or_default();
            self.must(payload["type"] == event.name.as_str(), "an event whose type differs from its name");
            match event.name.as_str() {
                "message_start" => {
                    self.must(self.model.is_empty(), "two message_start events");
                    self.model = text(&payload["message"]["model"]);
                    self.usage(&payload["message"]["usage"], "input_tokens", "output_tokens");
                }
                "content_block_start" => {
                    self.must(open.replace(payload["index"].clone()).is_none(), "a nested content block");
                }
                "content_block_delta" => {
                    self.must(open.as_ref() == Some(&payload["index"]), "a delta outside of a block");
                    self.text += &text(&payload["delta"]["text"]);
                }
                "content_block_stop" => self.must(open.take().is_some(), "a block stop without a start"),
                "message_delta" => {
                    self.must(open.is_none(), "message_delta within a block");
                    self.finish = payload["delta"]["stop_reason"].as_str().map(str::to_owned);
                    self.usage(&payload["usage"], "input_tokens", "output_tokens");
                }
                "message_stop" => self.done = true,
                "error" => self.error = Some(payload["error"].clone()),
                _ => {}
            }
        }
    }

    fn usage(&mut self, usage: &Value, input: &str, output: &str) {
        let count = |name: &str| usage[name].as_u64();
        if let Some(output) = count(output) {
            let before = self.tokens.map_or(0, |(input, _)| input);
            self.tokens = Some((count(input).unwrap_or(before), output));
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
