//! Responses with a good status that are not what was requested: no model's output at all, or an error.
//!
//! Not responses that break off (`broken_responses`).

use crate::memory_engine::MemoryEngine;
use crate::support::provider::Provider;
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";
const RESPONSES: &str = "/v1/responses";
const COMPLETIONS: &str = "/v1/completions";
const EMBEDDINGS: &str = "/v1/embeddings";

/// Every operation whose response is a model's output, in the provider's own dialect, and the chats once more translated.
const CALLS: [(&str, &str); 7] = [
    (CHAT, "openai"),
    (CHAT, "anthropic"),
    (MESSAGES, "anthropic"),
    (MESSAGES, "openai"),
    (RESPONSES, "openai"),
    (COMPLETIONS, "openai"),
    (EMBEDDINGS, "openai"),
];

/// A response with a body, if it has a media type.
fn response(status: &str, media: &str, body: &str) -> Vec<u8> {
    let media = if media.is_empty() { String::new() } else { format!("content-type: {media}\r\n") };
    let length =
        if status.starts_with("204") { String::new() } else { format!("content-length: {}\r\n", body.len()) };
    format!("HTTP/1.1 {status}\r\n{media}{length}\r\n{body}").into_bytes()
}

async fn provider(response: Vec<u8>) -> Provider {
    Provider::start(move |_| response.clone()).await
}

fn target(provider_id: &str, port: u16) -> Value {
    json!({"provider": provider_id, "api_key": "k", "custom_host": format!("http://127.0.0.1:{port}/v1")})
}

fn request(path: &str, stream: bool) -> Value {
    let mut body = match path {
        CHAT | MESSAGES => json!({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9}),
        COMPLETIONS => json!({"prompt": "hi"}),
        _ => json!({"input": "hi"}),
    };
    body["model"] = "m".into();
    if stream {
        body["stream"] = true.into();
    }
    body
}

/// The error in a body, which must be in the dialect of the path.
fn error_in<'b>(path: &str, body: &'b Value) -> &'b Value {
    if path == MESSAGES {
        assert_eq!(body["type"], "error", "{body}");
    }
    &body["error"]
}

#[tokio::test]
async fn what_is_no_models_output_is_a_failure_the_plan_sees() {
    let wrong = [
        ("an empty list", response("200 OK", "application/json", "[]")),
        ("a list", response("200 OK", "application/json", "[{\"choices\": []}]")),
        ("null", response("200 OK", "application/json", "null")),
        ("a text", response("200 OK", "application/json; charset=utf-8", "\"hello\"")),
        ("an empty document", response("200 OK", "application/json", "")),
        ("white space", response("200 OK", "application/json", " \n")),
        ("nothing", response("200 OK", "", "")),
        ("no content", response("204 No Content", "", "")),
        ("no events", response("200 OK", "text/event-stream", "")),
        ("a page", response("200 OK", "text/html", "<!doctype html><title>Welcome</title>")),
        ("a page called JSON", response("200 OK", "application/json", "\n<html></html>")),
        ("plain text", response("200 OK", "text/plain", "OK")),
        ("unlabelled text", response("200 OK", "", "It works!")),
        ("half an object", response("200 OK", "application/json", "{\"id\":\"x\",\"choices\":[{\"index\":0")),
    ];
    let engine = MemoryEngine::new(&[]);
    for (name, bytes) in wrong {
        let bad = provider(bytes).await;
        for (path, id) in CALLS {
            for stream in [false, true] {
                if stream && path == EMBEDDINGS {
                    continue;
                }
                let what = format!("{name} {path} {id} {stream};");
                let single = engine.send(path, &target(id, bad.port), &request(path, stream), &what).await;
                assert_eq!(single.status, 502, "{what}: {single:?}");
                assert_eq!(single.headers["content-type"], "application/json", "{what}");
                let body: Value = serde_json::from_str(&single.body).expect(&what);
                let message = error_in(path, &body)["message"].as_str().unwrap_or_default();
                assert!(message.starts_with("The provider"), "{what}: {body}");
                assert_eq!(single.line["status"], 502, "{what}: {}", single.line);
                let before = bad.received().len();
                let config = json!({"strategy": {"mode": "fallback"}, "targets": [target(id, bad.port), target(id, bad.port)]});
                let all = engine.send(path, &config, &request(path, stream), &format!("{what} all")).await;
                assert_eq!((all.status, bad.received().len()), (502, before + 2), "{what}: {all:?}");
            }
        }
    }
}

/// Vendors send errors with the status 200, in shapes of their own: they get the status that they mean, also where no other target
/// could respond.
#[tokio::test]
async fn an_error_with_a_good_status_gets_its_own() {
    let of_choice = |error: &str| {
        format!(r#"{{"choices":[{{"message":{{"content":""}},"finish_reason":"error"{error}}}]}}"#)
    };
    let engine = MemoryEngine::new(&[]);
    for (answer, status, message) in [
        (of_choice(r#","error":{"code":503,"message":"upstream is down"}"#), 503, "upstream is down"),
        (of_choice(""), 502, "stopped with an error"),
        (r#"{"object":"error","message":"too long","code":400}"#.to_owned(), 400, "too long"),
        (r#"{"code":500,"msg":"broken"}"#.to_owned(), 500, "broken"),
    ] {
        let bad = provider(response("200 OK", "application/json", &answer)).await;
        for id in ["openai", "openrouter"] {
            let trace = format!("{id}-{status}");
            let observed = engine.send(CHAT, &target(id, bad.port), &request(CHAT, false), &trace).await;
            assert_eq!(observed.status, status, "{answer} {id}: {observed:?}");
            assert!(observed.body.contains(message), "{answer} {id}: {}", observed.body);
        }
    }
}

/// A whole document where a stream was requested, that is not called JSON: it is not passed on as if it were the stream.
#[tokio::test]
async fn an_unlabelled_document_is_no_stream() {
    let document =
        r#"{"object":"chat.completion","choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#;
    let engine = MemoryEngine::new(&[]);
    for media in ["", "application/octet-stream", "application/x-ndjson", "text/event-stream"] {
        let bad = provider(response("200 OK", media, document)).await;
        let observed = engine.send(CHAT, &target("openai", bad.port), &request(CHAT, true), media).await;
        assert_eq!(observed.status, 502, "{media}: {observed:?}");
        let config = json!({"strategy": {"mode": "fallback"}, "targets": [target("openai", bad.port), target("openai", bad.port)]});
        engine.send(CHAT, &config, &request(CHAT, true), media).await;
        assert_eq!(bad.received().len(), 3, "{media}");
    }
}

/// Only chats are converted; events in place of any other model's output are a failure.
#[tokio::test]
async fn events_in_place_of_other_outputs_are_a_failure() {
    let bad =
        provider(response("200 OK", "text/event-stream", "data: {\"object\":\"list\"}\n\ndata: [DONE]\n\n"))
            .await;
    let engine = MemoryEngine::new(&[]);
    for path in [EMBEDDINGS, "/v1/moderations"] {
        let observed = engine.send(path, &target("openai", bad.port), &request(path, false), path).await;
        assert_eq!(observed.status, 502, "{path}: {observed:?}");
        assert_eq!(observed.headers["content-type"], "application/json", "{path}");
    }
}

/// Some engines end a response without saying why. It is judged the same whether it passes or is translated.
#[tokio::test]
async fn a_response_without_a_finish_reason_is_complete_where_its_end_is_marked() {
    let chat = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hello"}}]});
    let message = json!({"id": "m", "type": "message", "role": "assistant", "model": "m",
        "content": [{"type": "text", "text": "hello"}], "usage": {"input_tokens": 1, "output_tokens": 1}});
    let chunk = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": {"content": "hello"}, "finish_reason": null}]});
    let engine = MemoryEngine::new(&[]);
    for (path, provider_id, is_streamed, body) in [
        (CHAT, "openai", false, chat.to_string()),
        (MESSAGES, "openai", false, chat.to_string()),
        (RESPONSES, "mistral-ai", false, chat.to_string()),
        (CHAT, "anthropic", false, message.to_string()),
        (MESSAGES, "anthropic", false, message.to_string()),
        (CHAT, "openai", true, format!("data: {chunk}\n\ndata: [DONE]\n\n")),
        (MESSAGES, "openai", true, format!("data: {chunk}\n\ndata: [DONE]\n\n")),
        (RESPONSES, "mistral-ai", true, format!("data: {chunk}\n\ndata: [DONE]\n\n")),
    ] {
        let media = if is_streamed { "text/event-stream" } else { "application/json" };
        let upstream = provider(response("200 OK", media, &body)).await;
        let about = format!("{path} at {provider_id}, streamed {is_streamed}");
        let call = request(path, is_streamed);
        let observed = engine.send(path, &target(provider_id, upstream.port), &call, &about).await;
        assert_eq!(observed.status, 200, "{about}: {observed:?}");
        assert!(observed.body.contains("hello") && !observed.body.contains("\"error\":{"), "{observed:?}");
        let warnings = observed.line["warnings"].as_str().unwrap_or_default();
        assert!(warnings.contains("finish_reason: "), "{about}: {}", observed.line);
        if !is_streamed {
            let header = &observed.headers["x-gateway-warnings"];
            assert!(header.contains("finish_reason: "), "{about}: {observed:?}");
        }
    }
}

#[tokio::test]
async fn a_good_response_of_the_next_target_replaces_it() {
    let whole = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}]});
    let good = provider(response("200 OK", "application/json", &whole.to_string())).await;
    let bad = provider(response("200 OK", "application/json", "[]")).await;
    let targets = [target("openai", bad.port), target("openai", good.port)];
    let config = json!({"strategy": {"mode": "fallback"}, "targets": targets});
    let observed = MemoryEngine::new(&[]).send(CHAT, &config, &request(CHAT, false), "wrong-next").await;
    assert_eq!((observed.status, observed.body), (200, whole.to_string()));
    assert_eq!(observed.line["attempts"][0]["error"], "upstream_invalid_answer", "{}", observed.line);
}

/// A turn of Gemini's that failed has a good status and no content: it is a failure of the provider, with Google's words.
#[tokio::test]
async fn a_failed_turn_of_gemini_is_a_failure_the_plan_sees() {
    let failed = json!({"candidates": [{"content": {"role": "model"}, "finishReason": "MALFORMED_FUNCTION_CALL",
        "finishMessage": "Malformed call: f("}], "usageMetadata": {"promptTokenCount": 3, "totalTokenCount": 3}});
    let whole = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}]});
    let good = provider(response("200 OK", "application/json", &whole.to_string())).await;
    let engine = MemoryEngine::new(&[]);
    for (media, text) in
        [("application/json", failed.to_string()), ("text/event-stream", format!("data: {failed}\r\n\r\n"))]
    {
        let bad = provider(response("200 OK", media, &text)).await;
        for path in [CHAT, MESSAGES] {
            let what = format!("{media} {path}");
            let body = request(path, media != "application/json");
            let single = engine.send(path, &target("google", bad.port), &body, &format!("{what} 1")).await;
            assert_eq!(single.status, 502, "{what}: {single:?}");
            let answer: Value = serde_json::from_str(&single.body).expect(&what);
            let error = error_in(path, &answer);
            assert_eq!(error["message"], "Malformed call: f(", "{what}: {answer}");
            assert_eq!(error["provider_code"], "MALFORMED_FUNCTION_CALL", "{what}: {answer}");
            let targets = [target("google", bad.port), target("openai", good.port)];
            let config = json!({"strategy": {"mode": "fallback"}, "targets": targets});
            let next = engine.send(path, &config, &body, &format!("{what} 2")).await;
            assert_eq!(next.status, 200, "{what}: {next:?}");
            assert!(next.body.contains("hello"), "{what}: {next:?}");
        }
    }
}

/// At the last target the client gets what the provider has to say.
#[tokio::test]
async fn a_message_in_place_of_a_result_is_a_failure_while_another_target_is_left() {
    let engine = MemoryEngine::new(&[]);
    for (path, id) in [
        (CHAT, "openai"),
        (MESSAGES, "anthropic"),
        (RESPONSES, "openai"),
        (COMPLETIONS, "openai"),
        (EMBEDDINGS, "openai"),
    ] {
        for message in ["{}", r#"{"detail":"the model is loading"}"#, r#"{"choices":[]}"#, r#"{"data":[]}"#] {
            let bad = provider(response("200 OK", "application/json", message)).await;
            let other = provider(response("200 OK", "application/json", r#"{"detail":"loading too"}"#)).await;
            let targets = [target(id, bad.port), target(id, other.port)];
            let config = json!({"strategy": {"mode": "fallback"}, "targets": targets});
            let what = format!("message {path} {};", message.len());
            let observed = engine.send(path, &config, &request(path, false), &what).await;
            assert_eq!((bad.received().len(), other.received().len()), (1, 1), "{what}: {observed:?}");
            assert_eq!(observed.body, r#"{"detail":"loading too"}"#, "{what}");
            assert_eq!(observed.line["attempts"][0]["error"], "upstream_invalid_answer", "{}", observed.line);
        }
    }
}

#[tokio::test]
async fn an_error_inside_a_good_status_gets_the_status_it_means() {
    let engine = MemoryEngine::new(&[]);
    for (path, id) in [
        (CHAT, "openai"),
        (CHAT, "groq"),
        (COMPLETIONS, "openai"),
        (EMBEDDINGS, "openai"),
        (MESSAGES, "anthropic"),
    ] {
        for (error, status) in [
            (json!({"message": "Slow down.", "type": "rate_limit_error", "code": 429}), 429),
            (json!({"message": "Slow down.", "type": "unknown"}), if path == MESSAGES { 500 } else { 502 }),
        ] {
            let body = json!({"error": error}).to_string();
            let provider = provider(response("200 OK", "application/json", &body)).await;
            let what = format!("{path} {id} {status}");
            let observed = engine.send(path, &target(id, provider.port), &request(path, false), &what).await;
            assert_eq!(observed.status, status, "{what}: {observed:?}");
            let body: Value = serde_json::from_str(&observed.body).unwrap();
            assert!(
                error_in(path, &body)["message"].as_str().unwrap().contains("Slow down."),
                "{what}: {body}"
            );
        }
    }
}

/// Also where no other attempt can be made: nothing was sent to the client yet.
#[tokio::test]
async fn an_error_that_begins_a_stream_gets_the_status_it_means() {
    let engine = MemoryEngine::new(&[]);
    let openai = r#"{"error":{"message":"Slow down.","type":"rate_limit_error","code":429}}"#;
    let anthropic = r#"{"type":"error","error":{"type":"rate_limit_error","message":"Slow down."}}"#;
    for (path, id, event) in [
        (CHAT, "openai", format!("data: {openai}\n\n")),
        (COMPLETIONS, "openai", format!("data: {openai}\n\ndata: [DONE]\n\n")),
        (MESSAGES, "anthropic", format!("event: error\ndata: {anthropic}\n\n")),
    ] {
        let provider = provider(response("200 OK", "text/event-stream", &event)).await;
        let what = format!("begins {path};");
        let observed = engine.send(path, &target(id, provider.port), &request(path, true), &what).await;
        assert_eq!(observed.status, 429, "{what}: {observed:?}");
        assert_eq!(observed.headers["content-type"], "application/json", "{what}");
        let body: Value = serde_json::from_str(&observed.body).unwrap();
        assert!(error_in(path, &body)["message"].as_str().unwrap().contains("Slow down."), "{what}: {body}");
    }
}

/// What is no model's output is its provider's own matter.
#[tokio::test]
async fn other_operations_and_the_generic_endpoint_pass_whatever_comes() {
    let engine = MemoryEngine::new(&[]);
    for (path, body) in [
        ("/v1/proxy/chat/completions", request(CHAT, false)),
        ("/v1/images/generations", json!({"model": "m", "prompt": "x"})),
        ("/v1/audio/speech", json!({"model": "m", "input": "x", "voice": "alloy"})),
        ("/v1/batches", json!({"input_file_id": "f", "endpoint": CHAT, "completion_window": "24h"})),
        ("/v1/weather", json!({"model": "m"})),
    ] {
        for (media, text) in [
            ("application/json", "[]"),
            ("text/html", "<p>"),
            ("application/json", "{\"error\":{\"message\":\"x\"}}"),
        ] {
            let provider = provider(response("200 OK", media, text)).await;
            let observed = engine
                .send(
                    path,
                    &target("openai", provider.port),
                    &body,
                    &format!("other {path} {media} {};", text.len()),
                )
                .await;
            assert_eq!((observed.status, observed.body.as_str()), (200, text), "{path}");
        }
        let provider = provider(response("204 No Content", "", "")).await;
        let observed =
            engine.send(path, &target("openai", provider.port), &body, &format!("other {path} none;")).await;
        assert_eq!(observed.status, 204, "{path}");
    }
}
