//! The semantic cache as clients meet it: what means the same is found, and all else must be equal.
//!
//! Not how near two vectors are: the index has tests beside the code.

use crate::caching::{Call, answering, at, json_answer};
use crate::stages::{WHOLE_CHAT, text_of};
use crate::support::Gateway;
use crate::support::settings::STANDARD;
use crate::support::upstream::Upstream;
use crate::support::wait::until;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A gateway whose embedding model makes vectors of the texts' words.
pub(crate) async fn semantic_gateway() -> (Gateway, Upstream, Arc<AtomicUsize>, Upstream) {
    let (upstream, calls) =
        answering(|number, _| json_answer(&WHOLE_CHAT.replace("hello world", &format!("answer {number}"))))
            .await;
    let embedding = embedding_model().await;
    (Gateway::start(&with_semantic_cache(&embedding)), upstream, calls, embedding)
}

/// The standard settings with a semantic cache.
fn with_semantic_cache(embedding: &Upstream) -> String {
    STANDARD.replacen(
        "providers:\n",
        &format!(
            "semantic_cache: {{provider: '@vectors', model: text-embedding-3-small, threshold: 0.9}}\nproviders:\n  vectors: {{provider: openai, api_key: sk-v, custom_host: '{}'}}\n",
            embedding.url()
        ),
        1,
    )
}

/// A model that makes vectors of the words of a text.
async fn embedding_model() -> Upstream {
    let (embedding, _) = answering(|_, request| {
        if request.contains("broken") {
            return "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n".to_owned();
        }
        let body: Value = serde_json::from_str(request.split("\r\n\r\n").nth(1).unwrap()).unwrap();
        let mut vector = vec![0.001_f64; 64];
        for word in body["input"].as_str().unwrap().split_whitespace() {
            let place = word.bytes().fold(7_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into())) % 64;
            vector[place] += 1.0;
        }
        json_answer(&json!({"object": "list", "model": "e", "data": [{"object": "embedding", "index": 0, "embedding": vector}], "usage": {"prompt_tokens": 3, "total_tokens": 3}}).to_string())
    })
    .await;
    embedding
}

#[tokio::test]
async fn similar_texts_are_found_and_all_else_must_be_equal() {
    let (gateway, upstream, calls, _embedding) = semantic_gateway().await;
    let mut config = at(&upstream, "openai");
    config["cache"] = json!({"mode": "semantic", "max_age": 600});
    let call = Call::new(&gateway, &config);
    let chat = |system: &str, text: &str, temperature: f64| {
        json!({"model": "m", "temperature": temperature, "messages": [{"role": "system", "content": system}, {"role": "user", "content": text}]}).to_string()
    };
    let long = "how do I reset the password of my account on the web site today please";
    let first = call.send(&chat("be brief", long, 0.0)).await;
    assert_eq!((first.status, first.cache.as_str()), (200, "SEMANTIC MISS"), "{first:?}");
    until("the vector", async || {
        let answer = call.send(&chat("be brief", &long.replace("please", "thanks"), 0.0)).await;
        (answer.cache == "SEMANTIC HIT" && answer.text == first.text).then_some(())
    })
    .await;
    // Found by its meaning once, it is found by its words from then on.
    assert_eq!(call.send(&chat("be brief", &long.replace("please", "thanks"), 0.0)).await.cache, "HIT");
    let stream =
        chat("be brief", &long.replace("please", "pretty"), 0.0).replacen('{', "{\"stream\":true,", 1);
    let streamed = call.send(&stream).await;
    assert_eq!(
        (streamed.cache.as_str(), text_of(&streamed.text).as_str()),
        ("SEMANTIC HIT", "answer 0"),
        "{streamed:?}"
    );
    for (system, text, temperature) in [
        ("be long", long.replace("please", "quickly"), 0.0),
        ("be brief", long.replace("please", "quickly"), 0.5),
        ("be brief", "what is the weather in Paris like in March".to_owned(), 0.0),
    ] {
        let answer = call.send(&chat(system, &text, temperature)).await;
        assert_eq!(answer.cache, "SEMANTIC MISS", "{system} {text} {temperature}");
    }
    for (name, value) in [("x-gateway-metadata", r#"{"_user":"ann"}"#), ("x-gateway-cache-namespace", "n")] {
        let call = Call::new(&gateway, &config).header(name, value);
        assert_eq!(
            call.send(&chat("be brief", &long.replace("please", "soon"), 0.0)).await.cache,
            "SEMANTIC MISS",
            "{name}"
        );
    }
    // An embedding model that fails means a miss, and no more.
    let broken = call.send(&chat("be brief", &long.replace("please", "broken"), 0.0)).await;
    assert_eq!((broken.status, broken.cache.as_str()), (200, "MISS"), "{broken:?}");
    assert!(calls.load(Ordering::SeqCst) >= 7);
    let metrics = gateway.metrics().await;
    assert!(metrics.contains("turnpike_cache_embeddings_total{result=\"failed\"} 1"), "{metrics}");
    assert!(metrics.contains("turnpike_cache_requests_total{status=\"semantic_hit\"} 2"), "{metrics}");
}

#[tokio::test]
async fn a_reload_turns_it_on() {
    let (upstream, _calls) =
        answering(|number, _| json_answer(&WHOLE_CHAT.replace("hello world", &format!("answer {number}"))))
            .await;
    let embedding = embedding_model().await;
    let gateway = Gateway::start(STANDARD);
    let mut config = at(&upstream, "openai");
    config["cache"] = json!({"mode": "semantic", "max_age": 600});
    let call = Call::new(&gateway, &config);
    let chat =
        |text: &str| json!({"model": "m", "messages": [{"role": "user", "content": text}]}).to_string();
    let text = "how do I reset the password of my account on the web site today please";
    assert_eq!(call.send(&chat(text)).await.cache, "MISS", "equal requests only");
    gateway.reload(&with_semantic_cache(&embedding));
    let sent = AtomicUsize::new(0);
    until("a hit by the meaning", async || {
        let answer = call.send(&chat(&format!("{text} {}", sent.fetch_add(1, Ordering::SeqCst)))).await;
        (answer.cache == "SEMANTIC HIT").then_some(())
    })
    .await;
    assert!(gateway.stderr.lines_with("take effect after a restart").is_empty());
}
