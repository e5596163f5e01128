//! `cargo bench --bench translate`: the cost of parsing, changing and translating a body, without a socket: a
//! request, a whole response and one stream event, for each provider with its own format and each client
//! dialect.
//!
//! Not here: which target a request goes to (`route`), a gateway under load (`load`).

mod timer;

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use bytes::Bytes;
use http::Method;
use knowledge::provider::translation::{PrepareOptions, PreparedRequest, prepare};
use knowledge::provider::translation_notes::TranslationNotes;
use knowledge::provider::{self, Call};
use std::borrow::Cow;
use std::hint::black_box;
use timer::Timer;
use words::api::body::{Body, Edit};
use words::api::operation::Operation;
use words::config::account::Account;

fn main() {
    let timer = Timer::start();
    let sizes = [("1 KB", 900), ("100 KB", 100_000), ("1 MB", 1_000_000)];
    for (size, length) in sizes {
        let bytes = chat(length);
        timer.row(&format!("chat body {size}: parse"), || Body::parse(black_box(&bytes).clone()));
        let Ok(body) = Body::parse(bytes) else { continue };
        timer.row(&format!("chat body {size}: model, stream"), || {
            let body = black_box(&body);
            (body.text("model").map(|model| model.len()), body.is_true("stream"))
        });
        let edits = [
            Edit::Set("model", Cow::Borrowed("\"gpt-5-mini\"")),
            Edit::Set("seed", Cow::Borrowed("7")),
            Edit::Remove("user"),
        ];
        timer.row(&format!("chat body {size}: three edits"), || black_box(&body).edit(black_box(&edits)));
    }
    for path in ["chat/completions", "messages", "responses"] {
        for vendor in VENDORS {
            translations(&timer, path, vendor);
        }
    }
}

/// A provider, one of its whole responses, and one text event of its streams.
struct Vendor {
    id: &'static str,
    response: &'static str,
    start: &'static str,
    event: &'static str,
}

const VENDORS: &[Vendor] = &[
    Vendor {
        id: "anthropic",
        response: r#"{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[{"type":"text","text":"All work and no play makes a dull answer."},{"type":"tool_use","id":"toolu_1","name":"look","input":{"city":"Paris"}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":30,"output_tokens":12}}"#,
        start: "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude-x\",\"content\":[],\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
        event: "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\" and no play\"}}\n\n",
    },
    Vendor {
        id: "google",
        response: r#"{"candidates":[{"content":{"parts":[{"text":"All work and no play makes a dull answer."},{"functionCall":{"name":"look","args":{"city":"Paris"}}}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":30,"candidatesTokenCount":12,"totalTokenCount":42},"modelVersion":"gemini-x","responseId":"r1"}"#,
        start: "",
        event: "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\" and no play\"}],\"role\":\"model\"},\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":30,\"candidatesTokenCount\":12,\"totalTokenCount\":42},\"modelVersion\":\"gemini-x\",\"responseId\":\"r1\"}\r\n\r\n",
    },
    Vendor {
        id: "bedrock",
        response: r#"{"metrics":{"latencyMs":9},"output":{"message":{"content":[{"text":"All work and no play makes a dull answer."},{"toolUse":{"input":{"city":"Paris"},"name":"look","toolUseId":"t1"}}],"role":"assistant"}},"stopReason":"tool_use","usage":{"inputTokens":30,"outputTokens":12,"totalTokens":42}}"#,
        start: "",
        event: r#"{"contentBlockIndex":0,"delta":{"text":" and no play"},"p":"abcdefgh"}"#,
    },
    Vendor {
        id: "cohere",
        response: r#"{"id":"c1","message":{"role":"assistant","content":[{"type":"text","text":"All work and no play makes a dull answer."}]},"finish_reason":"COMPLETE","usage":{"tokens":{"input_tokens":30,"output_tokens":12}}}"#,
        start: "",
        event: "event: content-delta\ndata: {\"type\":\"content-delta\",\"index\":0,\"delta\":{\"message\":{\"content\":{\"text\":\" and no play\"}}}}\n\n",
    },
    Vendor {
        id: "mistral-ai",
        response: r#"{"id":"m1","object":"chat.completion","created":1,"model":"mistral-x","choices":[{"index":0,"message":{"role":"assistant","tool_calls":null,"content":"All work and no play makes a dull answer."},"finish_reason":"stop"}],"usage":{"prompt_tokens":30,"completion_tokens":12,"total_tokens":42}}"#,
        start: "",
        event: "data: {\"id\":\"m1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"mistral-x\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" and no play\"},\"finish_reason\":null}]}\n\n",
    },
];

fn translations(timer: &Timer, path: &str, vendor: &Vendor) {
    let Some(provider) = provider::find(vendor.id) else { return };
    let account = Account::default();
    let body = match path {
        "responses" => {
            r#"{"model":"m","input":"How is the weather in Paris?","stream":STREAM,"tools":[{"type":"function","name":"look","description":"Looks.","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}]}"#
        }
        "messages" => {
            r#"{"model":"m","max_tokens":99,"messages":[{"role":"user","content":"How is the weather in Paris?"}],"stream":STREAM,"tools":[{"name":"look","description":"Looks.","input_schema":{"type":"object","properties":{"city":{"type":"string"}}}}]}"#
        }
        _ => {
            r#"{"model":"m","messages":[{"role":"system","content":"Be plain."},{"role":"user","content":"How is the weather in Paris?"}],"temperature":0.7,"max_tokens":256,"stream":STREAM,"tools":[{"type":"function","function":{"name":"look","description":"Looks.","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}]}"#
        }
    };
    let ready = |streamed: bool| -> Option<PreparedRequest> {
        let body = body.replace("STREAM", if streamed { "true" } else { "false" });
        let body = Body::parse(Bytes::from(body)).ok()?;
        let operation = Operation::find(&Method::POST, path);
        let call = Call { operation, method: &Method::POST, path, query: None, model: Some("m"), streamed };
        prepare(
            provider,
            &call,
            &account,
            Some(&body),
            PrepareOptions {
                strict: true,
                stream_usage: false,
                client_betas: None,
                learned: None,
                prompt_cache: None,
            },
            &mut TranslationNotes::default(),
        )
        .ok()
    };
    let (Some(whole), Some(stream)) = (ready(false), ready(true)) else { return };
    let (Some(whole), Some(stream)) = (whole.translation, stream.translation) else { return };
    let name = format!("{path} at {}", vendor.id);
    timer.row(&format!("{name}: request, read and written"), || ready(true).and_then(|ready| ready.body));
    timer.row(&format!("{name}: whole answer"), || {
        let mut out = Vec::with_capacity(1024);
        let mut rewriter = whole.rewriter(false, "trace", 1);
        rewriter.push(black_box(vendor.response).as_bytes(), &mut out);
        rewriter.finish(&mut out);
        out
    });
    let event = match vendor.id {
        "bedrock" => frame(vendor.event),
        _ => vendor.event.as_bytes().to_vec(),
    };
    let mut rewriter = stream.rewriter(true, "trace", 1);
    let mut out = Vec::with_capacity(4096);
    rewriter.push(vendor.start.as_bytes(), &mut out);
    timer.row(&format!("{name}: one stream event"), || {
        out.clear();
        rewriter.push(black_box(&event), &mut out);
        out.len()
    });
}

/// A frame of an AWS event stream.
fn frame(payload: &'static str) -> Vec<u8> {
    let header =
        |name: &'static str, value: &'static str| Header::new(name, HeaderValue::String(value.into()));
    let message = Message::new(Bytes::from_static(payload.as_bytes()))
        .add_header(header(":event-type", "contentBlockDelta"))
        .add_header(header(":content-type", "application/json"))
        .add_header(header(":message-type", "event"));
    let mut bytes = Vec::new();
    // Messages built here are always valid.
    let _ = write_message_to(&message, &mut bytes);
    bytes
}

/// A chat request whose last message is about `length` bytes long.
fn chat(length: usize) -> Bytes {
    let text = "All work and no play. ".repeat(length / 22);
    Bytes::from(format!(
        r#"{{"model":"@up/gpt-5","messages":[{{"role":"system","content":"Be plain."}},{{"role":"user","content":"{text}"}}],"temperature":0.7,"max_tokens":256,"stream":true,"user":"u-1"}}"#
    ))
}
