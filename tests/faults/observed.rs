//! What a caller sees of an answer: status, headers, text, why it ended, tokens, errors, and whether it ended as it
//! should.
//!
//! Read straight from the caller's dialect, not with the gateway's own readers, which would share its mistakes.

use crate::support::sse;
use reqwest::Response;
use reqwest::header::HeaderMap;
use serde_json::Value;
use std::time::{Duration, Instant};

/// One answer, to its end.
#[derive(Debug, Default)]
pub(crate) struct ObservedResponse {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// Until the last byte.
    pub(crate) elapsed: Duration,
    pub(crate) text: String,
    pub(crate) finish: Option<String>,
    /// Tokens in and out.
    pub(crate) tokens: Option<(u64, u64)>,
    /// The model named first.
    pub(crate) model: String,
    /// It said that it was over: `[DONE]`, `message_stop`; a whole body that came whole.
    pub(crate) done: bool,
    pub(crate) error: Option<Value>,
    /// The connection or the framing broke, or no client could make sense of the events: the first such thing.
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

    /// A header's text; empty where there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Who was tried, as `x-gateway-attempts` tells it: target, what came of it.
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

    /// Notes what breaks the dialect's grammar.
    fn must(&mut self, holds: bool, what: &str) {
        if !holds && self.broken.is_none() {
            self.broken = Some(what.to_owned());
        }
    }

    /// Chat chunks.
    fn chunks(&mut self) {
        let events = sse::events(&self.body);
        self.events = events.len();
        for event in &events {
            self.must(!self.done, "an event behind [DONE]");
            if event.data == "[DONE]" {
                self.done = true;
                continue;
            }
            let chunk: Value = serde_json::from_str(&event.data).unwrap_or_default();
            self.must(chunk.is_object(), "an event that is no JSON");
            self.must(self.error.is_none(), "an event behind an error");
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
            self.must(text_delta.is_empty() || self.finish.is_none(), "words behind the end");
            self.text += &text_delta;
            if let Some(finish) = choice["finish_reason"].as_str() {
                self.must(self.finish.is_none(), "two ends");
                self.finish = Some(finish.to_owned());
            }
        }
    }

    /// Events of the Messages dialect, in the order it demands.
    fn message_events(&mut self) {
        let events = sse::events(&self.body);
        self.events = events.len();
        let mut open = None;
        for event in &events {
            self.must(!self.done, "an event behind message_stop");
            self.must(self.error.is_none(), "an event behind an error");
            let payload: Value = serde_json::from_str(&event.data).unwrap_or_default();
            self.must(payload["type"] == event.name.as_str(), "an event that is not what its name says");
            match event.name.as_str() {
                "message_start" => {
                    self.must(self.model.is_empty(), "two starts");
                    self.model = text(&payload["message"]["model"]);
                    self.usage(&payload["message"]["usage"], "input_tokens", "output_tokens");
                }
                "content_block_start" => {
                    self.must(open.replace(payload["index"].clone()).is_none(), "a block within a block");
                }
                "content_block_delta" => {
                    self.must(open.as_ref() == Some(&payload["index"]), "a delta of no open block");
                    self.text += &text(&payload["delta"]["text"]);
                }
                "content_block_stop" => self.must(open.take().is_some(), "the end of no open block"),
                "message_delta" => {
                    self.must(open.is_none(), "the end within a block");
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
