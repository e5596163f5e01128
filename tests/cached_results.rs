//! Which successful responses the cache keeps, by what is in them: the result of the operation, of the kind that was requested.
//!
//! Not errors and broken streams (`caching`).

use crate::caching::{CHAT, Call, answering, at, cached, chat, events, json_answer};
use crate::stages::{WHOLE_CHAT, chat_events};
use crate::support::gateway;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

#[tokio::test]
async fn what_is_no_result_of_the_operation_is_never_stored() {
    let gateway = gateway();
    let detail = r#"{"detail":"the model is loading"}"#;
    let page = json_answer("<html></html>").replace("application/json", "text/html");
    let image = json!({"model": "m", "prompt": "p"}).to_string();
    let texts = json!({"model": "m", "input": "x"}).to_string();
    let ranks = json!({"model": "m", "query": "q", "documents": ["d"]}).to_string();
    let vector = r#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.1]}],"model":"m","usage":{"prompt_tokens":1,"total_tokens":1}}"#;
    for (path, body, answer, second) in [
        (CHAT, chat("loading", false), json_answer(detail), "MISS"),
        ("/v1/embeddings", texts.clone(), json_answer(detail), "MISS"),
        ("/v1/rerank", ranks.clone(), json_answer(detail), "MISS"),
        ("/v1/images/generations", image.clone(), json_answer(detail), "MISS"),
        ("/v1/images/generations", image.clone(), json_answer("[]"), "MISS"),
        ("/v1/images/generations", image.clone(), page, "MISS"),
        ("/v1/images/generations", image, json_answer(r#"{"created":1,"data":[{"b64_json":"AA"}]}"#), "HIT"),
        ("/v1/embeddings", texts, json_answer(vector), "HIT"),
        ("/v1/rerank", ranks, json_answer(r#"{"results":[{"index":0,"relevance_score":0.5}]}"#), "HIT"),
    ] {
        let (upstream, _) = answering({
            let answer = answer.clone();
            move |_, _| answer.clone()
        })
        .await;
        let config = cached(at(&upstream, if path == "/v1/rerank" { "jina" } else { "openai" }));
        let call = Call::new(&gateway, &config).path(path);
        let first = call.send(&body).await;
        assert_eq!((first.status, first.cache.as_str()), (200, "MISS"), "{path}: {first:?}");
        assert_eq!(call.send(&body).await.cache, second, "{path} {answer}");
        let line = gateway.access_line(&first.trace).await;
        let reason = if second == "HIT" { Value::Null } else { json!("no_result") };
        assert_eq!(line["cache"]["not_stored"], reason, "{path} {answer}: {line}");
    }
}

#[tokio::test]
async fn a_stream_of_images_serves_no_whole_request() {
    let gateway = gateway();
    let (upstream, calls) = answering(|_, request| if request.contains("\"stream\":true") {
events(
            "event: image_generation.completed\ndata: {\"type\":\"image_generation.completed\",\"b64_json\":\"AA\"}\n\n",
        )
} else {
json_answer(r#"{"created":1,"data":[{"b64_json":"AA"}]}"#)
})
    .await;
    let config = cached(at(&upstream, "openai"));
    let call = Call::new(&gateway, &config).path("/v1/images/generations");
    for wanted in ["MISS", "HIT"] {
        for (stream, start) in [(true, "event: "), (false, "{\"created\"")] {
            let answer = call.send(&json!({"model": "m", "prompt": "p", "stream": stream}).to_string()).await;
            assert_eq!((answer.status, answer.cache.as_str()), (200, wanted), "{stream}: {answer:?}");
            assert!(answer.text.starts_with(start), "{stream}: {answer:?}");
        }
    }
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn an_answer_that_a_filter_withheld_is_not_kept() {
    let gateway = gateway();
    let whole = |finish: &str| json_answer(&WHOLE_CHAT.replace("\"stop\"", &format!("\"{finish}\"")));
    let stream =
        |finish: &str| events(&chat_events(&["hello"]).replace("\"stop\"", &format!("\"{finish}\"")));
    for (finish, second) in [("content_filter", "MISS"), ("stop", "HIT"), ("length", "HIT")] {
        for (streamed, answer) in [(false, whole(finish)), (true, stream(finish))] {
            assert!(answer.contains(finish));
            let (upstream, _) = answering(move |_, _| answer.clone()).await;
            let call = Call::new(&gateway, &cached(at(&upstream, "openai")));
            let body = chat("filtered", streamed);
            let first = call.send(&body).await;
            assert_eq!(first.cache, "MISS", "{finish}: {first:?}");
            assert_eq!(call.send(&body).await.cache, second, "{finish} {streamed}");
            let line = gateway.access_line(&first.trace).await;
            let reason = if second == "HIT" { Value::Null } else { json!("filtered") };
            assert_eq!(line["cache"]["not_stored"], reason, "{finish}: {line}");
        }
    }
}

/// What the provider gets may be what it responds by; what SDKs, proxies and traces add to each call is not.
#[tokio::test]
async fn headers_that_are_sent_keep_responses_apart_but_for_neutral_ones() {
    let gateway = gateway();
    let (upstream, _) =
        answering(|number, _| json_answer(&WHOLE_CHAT.replace("hello world", &format!("answer {number}"))))
            .await;
    let config = cached(at(&upstream, "openai"));
    let body = chat("headers", false);
    let sent = async |name: &'static str, value: &str| {
        Call::new(&gateway, &config).header(name, value).send(&body).await.cache
    };
    assert_eq!(Call::new(&gateway, &config).send(&body).await.cache, "MISS");
    for (name, value) in [
        ("user-agent", "OpenAI/Python 1.2.3"),
        ("x-stainless-retry-count", "1"),
        ("x-stainless-os", "Linux"),
        ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        ("x-request-id", "7"),
        ("idempotency-key", "7"),
        ("accept", "text/event-stream"),
        // Not sent to the provider.
        ("cookie", "a=b"),
        ("x-forwarded-for", "192.0.2.7"),
        ("x-real-ip", "192.0.2.7"),
        ("cf-connecting-ip", "192.0.2.7"),
        ("true-client-ip", "192.0.2.7"),
        ("x-client-ip", "192.0.2.7"),
    ] {
        assert_eq!(sent(name, value).await, "HIT", "{name}");
    }
    for name in ["x-user-id", "accept-language", "openai-organization", "anthropic-beta", "x-any"] {
        for value in ["one", "two"] {
            assert_eq!(sent(name, value).await, "MISS", "{name}: {value}");
            assert_eq!(sent(name, value).await, "HIT", "{name}: {value}");
        }
    }
    let in_namespace = Call::new(&gateway, &config).header("x-gateway-cache-namespace", "n");
    assert_eq!(in_namespace.send(&body).await.cache, "MISS");
    let other =
        Call::new(&gateway, &config).header("x-gateway-cache-namespace", "n").header("x-user-id", "three");
    assert_eq!(other.send(&body).await.cache, "HIT", "a namespace takes the place of headers");
}
