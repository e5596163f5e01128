//! Streamed calls whose provider responds with a document, and calls for a document whose provider streams: converted where
//! the response is complete, whoever translates it.
//!
//! Not responses that are no model's output at all (`wrong_answers`).

use crate::memory_engine::MemoryEngine;
use crate::own_dialects::{COMPLETION_EVENTS, WHOLE_COMPLETION, response_events, response_object};
use crate::stages::{
    COMPLETIONS, MESSAGE_EVENTS, RESPONSES, UPPER_CASE, WHOLE_CHAT, WHOLE_MESSAGE, body, chat_events,
    provider, target, text_of,
};
use crate::support::upstream::Upstream;
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";

/// The path, the provider, its document and its events.
fn calls() -> Vec<(&'static str, &'static str, String, String)> {
    let chat = || (WHOLE_CHAT.to_owned(), chat_events(&["hello", " world"]));
    let message = || (WHOLE_MESSAGE.to_owned(), MESSAGE_EVENTS.to_owned());
    let response = (response_object().to_string(), response_events());
    let completion = (WHOLE_COMPLETION.to_owned(), COMPLETION_EVENTS.to_owned());
    let rows = [
        (CHAT, "openai", chat()),
        (CHAT, "groq", chat()),
        (CHAT, "anthropic", message()),
        (MESSAGES, "anthropic", message()),
        (MESSAGES, "openai", chat()),
        (RESPONSES, "anthropic", message()),
        (RESPONSES, "openai", response),
        (COMPLETIONS, "anthropic", message()),
        (COMPLETIONS, "openai", completion),
    ];
    rows.into_iter().map(|(path, id, (whole, events))| (path, id, whole, events)).collect()
}

/// The text of a response of any dialect.
fn text(path: &str, id: &str, body: &str) -> String {
    match (path, id) {
        (RESPONSES, "anthropic") if body.starts_with('{') => {
            let response: Value = serde_json::from_str(body).unwrap();
            response["output"][0]["content"][0]["text"].as_str().unwrap().to_owned()
        }
        _ => text_of(body),
    }
}

fn request(path: &str, stream: bool) -> Value {
    let mut body = body(stream);
    if path == RESPONSES {
        // It would be a reference to a stored prompt.
        body.as_object_mut().unwrap().remove("prompt");
    }
    body
}

fn end_marker(path: &str) -> &'static str {
    match path {
        MESSAGES => "message_stop",
        RESPONSES => "event: response.completed",
        _ => "data: [DONE]\n\n",
    }
}

#[tokio::test]
async fn each_kind_becomes_the_one_that_was_requested() {
    for (path, id, whole, events) in calls() {
        for (stream, sent) in [(true, &whole), (false, &events)] {
            let provider = provider(sent).await;
            let retried = json!({"strategy": {"mode": "fallback"}, "targets": [target(id, provider.port), target(id, 1)]});
            for config in [target(id, provider.port), retried] {
                for (layers, expected) in
                    [(&[] as &[_], "hello world"), (const { &[UPPER_CASE] }, "HELLO WORLD")]
                {
                    let what = format!("{path} {id} {stream} {expected}");
                    let observed =
                        MemoryEngine::new(layers).send(path, &config, &request(path, stream), "kind").await;
                    assert_eq!(observed.status, 200, "{what}: {observed:?}");
                    assert_eq!(text(path, id, &observed.body), expected, "{what}: {}", observed.body);
                    let media = &observed.headers["content-type"];
                    assert_eq!(media.starts_with("text/event-stream"), stream, "{what}: {media}");
                    assert_eq!(observed.body.contains(end_marker(path)), stream, "{what}: {}", observed.body);
                    let line = &observed.line;
                    assert_eq!(line["stream"], stream, "{what}: {line}");
                    // Reported, or counted: the text has two words.
                    assert_eq!(line["tokens"]["output"], 2, "{what}: {line}");
                    assert_eq!(line["error_code"], Value::Null, "{what}: {line}");
                }
            }
        }
    }
}

/// A response keeps its ids, items and members whatever its kind becomes.
#[tokio::test]
async fn a_converted_response_of_the_responses_api_loses_nothing() {
    let engine = MemoryEngine::new(&[]);
    let streaming = provider(&response_events()).await;
    let whole = engine.send(RESPONSES, &target("openai", streaming.port), &body(false), "kind-whole").await;
    assert_eq!(serde_json::from_str::<Value>(&whole.body).unwrap(), response_object());
    let sending = provider(&response_object().to_string()).await;
    let events = engine.send(RESPONSES, &target("openai", sending.port), &body(true), "kind-events").await;
    let data = events.body.lines().filter_map(|line| line.strip_prefix("data: "));
    let events: Vec<Value> = data.map(|data| serde_json::from_str(data).unwrap()).collect();
    assert!((0..).zip(&events).all(|(number, event)| event["sequence_number"] == number), "{events:?}");
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let item = ["response.output_item.added", "response.output_item.done"];
    let text = ["content_part.added", "output_text.delta", "output_text.done", "content_part.done"];
    let text = text.map(|name| format!("response.{name}"));
    let mut expected = vec!["response.created", "response.in_progress"];
    expected.extend([item, item].concat());
    expected.push(item[0]);
    expected.extend(text.iter().map(String::as_str));
    expected.extend([item[1], "response.completed"]);
    assert_eq!(kinds, expected);
    let last = events.last().unwrap();
    assert_eq!(last["response"], response_object());
    let done = events.iter().filter(|event| event["type"] == item[1]).map(|event| event["item"].clone());
    assert_eq!(json!(done.collect::<Vec<_>>()), response_object()["output"]);
    assert_eq!(events[0]["response"]["id"], "resp_1");
    assert_eq!(
        (&events[0]["response"]["status"], &events[0]["response"]["output"]),
        (&"in_progress".into(), &json!([]))
    );
}

/// What is not complete is a failure, in either kind.
#[tokio::test]
async fn an_incomplete_response_is_not_converted() {
    let engine = MemoryEngine::new(&[]);
    for (path, id, whole, events) in calls() {
        let cut_events = events.split_inclusive("\n\n").take(2).collect::<String>();
        let half = whole.get(..whole.len() / 2).unwrap().to_owned();
        for (stream, sent) in [(false, cut_events), (true, half), (true, "{\"fine\": true}".to_owned())] {
            let what = format!("{path} {id} {sent}");
            let provider = provider(&sent).await;
            let observed = engine.send(path, &target(id, provider.port), &request(path, stream), "cut").await;
            assert_eq!(observed.status, 502, "{what}: {observed:?}");
            assert_eq!(observed.headers["content-type"], "application/json", "{what}");
        }
    }
    let queued = json!({"id": "r", "object": "response", "status": "queued", "output": []});
    let provider = provider(&queued.to_string()).await;
    let observed = engine.send(RESPONSES, &target("openai", provider.port), &body(true), "queued").await;
    assert_eq!(observed.status, 502, "{observed:?}");
}

#[tokio::test]
async fn an_error_of_the_other_kind_has_its_status() {
    let engine = MemoryEngine::new(&[]);
    let error = json!({"type": "rate_limit_error", "message": "Slow down."});
    for (path, id, stream, sent) in [
        (CHAT, "openai", true, json!({"error": error}).to_string()),
        (CHAT, "openai", false, format!("data: {}\n\n", json!({"error": error}))),
        (MESSAGES, "anthropic", true, json!({"type": "error", "error": error}).to_string()),
        (
            MESSAGES,
            "anthropic",
            false,
            format!("event: error\ndata: {}\n\n", json!({"type": "error", "error": error})),
        ),
        (COMPLETIONS, "openai", true, json!({"error": error}).to_string()),
        (COMPLETIONS, "openai", false, format!("data: {}\n\n", json!({"error": error}))),
        (RESPONSES, "openai", true, json!({"status": "failed", "output": [], "error": error}).to_string()),
        (
            RESPONSES,
            "openai",
            false,
            format!(
                "event: response.failed\ndata: {}\n\n",
                json!({"type": "response.failed", "response": {"status": "failed", "error": error}}),
            ),
        ),
    ] {
        let provider = provider(&sent).await;
        let observed =
            engine.send(path, &target(id, provider.port), &request(path, stream), "other-error").await;
        assert_eq!(observed.status, 429, "{path} {stream}: {observed:?}");
        assert!(observed.body.contains("Slow down."), "{path} {stream}: {observed:?}");
    }
}

/// What the config makes of `stream` is what was requested; and `/v1/proxy` converts nothing.
#[tokio::test]
async fn a_kind_that_the_config_requests_and_the_generic_endpoint_are_left_alone() {
    let engine = MemoryEngine::new(&[]);
    let events = chat_events(&["hello"]);
    let streaming = provider(&events).await;
    let mut config = target("openai", streaming.port);
    let proxied = engine.send("/v1/proxy/chat/completions", &config, &body(false), "kind-proxied").await;
    assert_eq!((proxied.status, &proxied.body), (200, &events));
    config["override_params"] = json!({"stream": true});
    let overridden = engine.send(CHAT, &config, &body(false), "kind-overridden").await;
    assert_eq!((overridden.status, &overridden.body), (200, &events));
}

/// A response that is converted reaches the client when it is complete, so `request_timeout` bounds all of it.
#[tokio::test]
async fn a_converted_response_is_bounded_by_the_request_timeout() {
    for (stream, media, part) in [
        (
            false,
            "text/event-stream",
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hel\"}}]}\n\n",
        ),
        (
            true,
            "application/json",
            "{\"object\":\"chat.completion\",\"choices\":[{\"index\":0,\"message\":{\"content\":\"hel",
        ),
    ] {
        let upstream = Upstream::start(move |mut line| async move {
            line.request().await;
            line.write(&format!(
                "HTTP/1.1 200 OK\r\ncontent-type: {media}\r\ntransfer-encoding: chunked\r\n\r\n"
            ))
            .await;
            line.write(&format!("{:x}\r\n{part}\r\n", part.len())).await;
            // It never goes on; the gateway closes the connection.
            line.request().await;
        })
        .await;
        let mut config = target("openai", upstream.port);
        config["request_timeout"] = 200.into();
        let observed = MemoryEngine::new(&[]).send(CHAT, &config, &request(CHAT, stream), media).await;
        assert_eq!(observed.status, 408, "{stream}: {observed:?}");
    }
}
