//! Sample responses as each vendor streams them, and as each kind of client reads them.

use crate::provider::adapter::ChatAdapter;
use crate::provider::anthropic::AnthropicChat;
use crate::provider::gemini::Gemini;
use crate::provider::openai_chat::OPENAI_CHAT;
use crate::provider::rescue;
use serde_json::{Value, json};
use words::api::chat::response::ContentPart;
use words::api::chat::{ChatResponse, Decoder, EncodeContext, Encoder, Event, Finish};
use words::api::operation::Operation;
use words::api::sse::SseParser;
use words::api::{chat_completions, messages};

#[path = "../../../../words/api/messages/tests/grammar.rs"]
mod grammar;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vendor {
    OpenAi,
    Anthropic,
    Gemini,
}

pub(super) const VENDORS: [Vendor; 3] = [Vendor::OpenAi, Vendor::Anthropic, Vendor::Gemini];

/// The content of a response.
#[derive(Debug, Clone, Default)]
pub(super) struct Sample {
    pub thinking: Vec<String>,
    pub text: Vec<String>,
    /// Name and argument fragments of each tool call.
    pub calls: Vec<(String, Vec<String>)>,
}

impl Sample {
    pub fn new(thinking: &[&str], text: &[&str], calls: &[(&str, &[&str])]) -> Self {
        let own = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
        let calls = calls.iter().map(|(name, fragments)| ((*name).to_owned(), own(fragments))).collect();
        Self { thinking: own(thinking), text: own(text), calls }
    }
}

impl Vendor {
    pub fn decoder(self) -> Box<dyn Decoder> {
        match self {
            Self::OpenAi => OPENAI_CHAT.decoder(true),
            Self::Anthropic => AnthropicChat::OWN.decoder(true),
            Self::Gemini => Gemini::Studio.decoder(true),
        }
    }

    /// The stream, one string per event.
    pub fn stream(self, sample: &Sample) -> Vec<String> {
        match self {
            Self::OpenAi => openai(sample),
            Self::Anthropic => anthropic(sample),
            Self::Gemini => gemini(sample),
        }
    }
}

fn openai(sample: &Sample) -> Vec<String> {
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        let chunk = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 9, "model": "gpt",
                           "system_fingerprint": "fp", "choices": [choice]});
        format!("data: {chunk}\n\n")
    };
    let mut events = vec![chunk(json!({"role": "assistant", "content": ""}), Value::Null)];
    events.extend(sample.thinking.iter().map(|text| chunk(json!({"reasoning_content": text}), Value::Null)));
    events.extend(sample.text.iter().map(|text| chunk(json!({"content": text}), Value::Null)));
    for (index, (name, fragments)) in sample.calls.iter().enumerate() {
        let function = json!({"name": name, "arguments": ""});
        let call =
            json!({"index": index, "id": format!("o{index}"), "type": "function", "function": function});
        events.push(chunk(json!({"tool_calls": [call]}), Value::Null));
        for fragment in fragments {
            let call = json!({"index": index, "function": {"arguments": fragment}});
            events.push(chunk(json!({"tool_calls": [call]}), Value::Null));
        }
    }
    let finish = if sample.calls.is_empty() { "stop" } else { "tool_calls" };
    events.push(chunk(json!({}), json!(finish)));
    let usage = json!({"prompt_tokens": 1, "completion_tokens": 11, "total_tokens": 12});
    events.push(format!("data: {}\n\n", json!({"id": "chatcmpl-1", "choices": [], "usage": usage})));
    events.push("data: [DONE]\n\n".to_owned());
    events
}

fn anthropic(sample: &Sample) -> Vec<String> {
    let mut events = Vec::new();
    let mut put = |kind: &str, mut event: Value| {
        event["type"] = json!(kind);
        events.push(format!("event: {kind}\ndata: {event}\n\n"));
    };
    let usage = json!({"input_tokens": 2, "output_tokens": 1});
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": [],
                         "stop_reason": null, "stop_sequence": null, "usage": usage});
    put("message_start", json!({"message": message}));
    let mut index = 0;
    let mut block = |start: Value, deltas: Vec<Value>| {
        put("content_block_start", json!({"index": index, "content_block": start}));
        for delta in deltas {
            put("content_block_delta", json!({"index": index, "delta": delta}));
        }
        put("content_block_stop", json!({"index": index}));
        index += 1;
    };
    if !sample.thinking.is_empty() {
        let mut deltas: Vec<Value> = Vec::new();
        deltas.extend(sample.thinking.iter().map(|text| json!({"type": "thinking_delta", "thinking": text})));
        deltas.push(json!({"type": "signature_delta", "signature": "seal"}));
        block(json!({"type": "thinking", "thinking": "", "signature": ""}), deltas);
    }
    if !sample.text.is_empty() {
        let deltas = sample.text.iter().map(|text| json!({"type": "text_delta", "text": text})).collect();
        block(json!({"type": "text", "text": ""}), deltas);
    }
    for (at, (name, fragments)) in sample.calls.iter().enumerate() {
        let delta = |fragment: &String| json!({"type": "input_json_delta", "partial_json": fragment});
        let start = json!({"type": "tool_use", "id": format!("a{at}"), "name": name, "input": {}});
        block(start, fragments.iter().map(delta).collect());
    }
    let reason = if sample.calls.is_empty() { "end_turn" } else { "tool_use" };
    let delta = json!({"stop_reason": reason, "stop_sequence": null});
    put("message_delta", json!({"delta": delta, "usage": {"output_tokens": 22}}));
    put("message_stop", json!({}));
    events
}

fn gemini(sample: &Sample) -> Vec<String> {
    let chunk = |parts: Value, more: Value| {
        let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
        if let Some(reason) = more.get("finishReason") {
            candidate["finishReason"] = reason.clone();
        }
        let usage = json!({"promptTokenCount": 3, "candidatesTokenCount": 33, "totalTokenCount": 36});
        let chunk = json!({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini",
                           "responseId": "g1"});
        format!("data: {chunk}\r\n\r\n")
    };
    let mut events = Vec::new();
    let thoughts = sample.thinking.iter().map(|text| json!([{"text": text, "thought": true}]));
    events.extend(thoughts.map(|parts| chunk(parts, json!({}))));
    events.extend(sample.text.iter().map(|text| chunk(json!([{"text": text}]), json!({}))));
    for (name, fragments) in &sample.calls {
        let args: Value = serde_json::from_str(&fragments.concat()).unwrap_or(json!({}));
        events.push(chunk(json!([{"functionCall": {"name": name, "args": args}}]), json!({})));
    }
    events.push(chunk(json!([{"text": ""}]), json!({"finishReason": "STOP"})));
    events
}

/// A client: its dialect, and whether it wants strict compliance.
#[derive(Debug, Clone, Copy)]
pub(super) struct Client {
    pub operation: Operation,
    pub strict: bool,
}

pub(super) const CLIENTS: [Client; 4] = [
    Client { operation: Operation::ChatCompletions, strict: true },
    Client { operation: Operation::ChatCompletions, strict: false },
    Client { operation: Operation::Messages, strict: true },
    Client { operation: Operation::Messages, strict: false },
];

impl Client {
    pub fn context(self) -> EncodeContext {
        EncodeContext {
            id: "7".into(),
            created: 5,
            model: "asked".into(),
            provider: "openai",
            strict: self.strict,
            is_own_dialect: false,
            include_usage: false,
            request: None,
        }
    }

    pub fn encoder(self) -> Box<dyn Encoder> {
        match self.operation {
            Operation::Messages => messages::encoder(true, self.context()),
            _ => chat_completions::encoder(true, self.context()),
        }
    }

    /// Checks that a stream is one complete response in the dialect's grammar with the content of the sample.
    pub fn check(self, stream: &[u8], sample: &Sample, about: &str) {
        let shown = String::from_utf8_lossy(stream);
        let mut response = ChatResponse::default();
        let mut finishes = 0;
        let mut ends = 0;
        let mut decoder = rescue::decoder(self.operation, true).unwrap();
        let mut sink = |event: Event<'_>| {
            finishes += u32::from(matches!(event, Event::Finish { .. }));
            ends += u32::from(matches!(event, Event::End));
            assert!(!matches!(event, Event::Error(_)), "{about}: {event:?}\n{shown}");
            response.apply(&event);
        };
        decoder.push(stream, &mut sink);
        decoder.finish(&mut sink);
        assert_eq!((finishes, ends), (1, 1), "{about}\n{shown}");
        let choice = &response.choices[0];
        assert_eq!(choice.text().unwrap_or_default(), sample.text.concat(), "{about}\n{shown}");
        let actual = choice.parts.iter().filter_map(|part| match part {
            ContentPart::ToolCall { name, arguments, .. } => Some((name.clone(), arguments.clone())),
            _ => None,
        });
        let calls = sample.calls.iter().map(|(name, fragments)| (name.clone(), fragments.concat()));
        assert_eq!(actual.collect::<Vec<_>>(), calls.collect::<Vec<_>>(), "{about}\n{shown}");
        let finish = if sample.calls.is_empty() { Finish::Stop } else { Finish::ToolCalls };
        assert_eq!(choice.finish.as_ref().map(|(finish, _)| *finish), Some(finish), "{about}\n{shown}");
        assert!(
            sample.thinking.concat().starts_with(&choice.reasoning().unwrap_or_default()),
            "{about}\n{shown}"
        );
        match self.operation {
            Operation::Messages => {
                grammar::read(stream).unwrap_or_else(|why| panic!("{about}: {why}\n{shown}"));
            }
            _ => check_chunks(&shown, about),
        }
    }
}

/// Checks that all chunks have the same id, model and time, and that `[DONE]` comes once, at the end.
fn check_chunks(stream: &str, about: &str) {
    assert_eq!(stream.matches("data: [DONE]").count(), 1, "{about}\n{stream}");
    assert!(stream.ends_with("data: [DONE]\n\n"), "{about}\n{stream}");
    let data = stream.split("\n\n").filter_map(|event| event.strip_prefix("data: {"));
    let chunks: Vec<Value> = data.map(|data| serde_json::from_str(&format!("{{{data}")).unwrap()).collect();
    let with_choices: Vec<&Value> = chunks
        .iter()
        .filter(|chunk| chunk["choices"].as_array().is_some_and(|list| !list.is_empty()))
        .collect();
    for name in ["id", "model", "created"] {
        assert!(
            with_choices.iter().all(|chunk| chunk[name] == with_choices[0][name]),
            "{about}: {name}\n{stream}"
        );
    }
}
