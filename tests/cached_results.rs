//! Which successful responses the cache keeps, by what is in them: the result of the operation, of the kind that was requested.
//!
//! Not errors and broken streams (`caching`).

use crate::caching::{CHAT, Call, answering, at, cached, chat, events, json_answer};
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
