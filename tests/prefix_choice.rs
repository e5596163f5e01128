//! Groups that choose by the beginning of a request (`strategy.by: prefix`), over four engines that each keep what prompts they have
//! room for.
//!
//! The rules of the choice are unit-tested (`judgment::route::tests::prefix`).

use crate::support::client::{client, new_trace};
use crate::support::gateway::Gateway;
use crate::support::message::Message;
use crate::support::provider::Provider;
use crate::support::settings::{KEY, STANDARD};
use crate::support::{gateway, report};
use futures_util::future::join_all;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;

const SESSIONS: usize = 24;
const TURNS: usize = 8;
/// Histories that an engine has room for; the one used longest ago goes first.
const ROOM: usize = SESSIONS;

/// The cache of an engine: the messages of each history as it was last sent.
#[derive(Default)]
struct PromptCache(VecDeque<Vec<Value>>);

impl PromptCache {
    /// Takes a request; how many of its first messages were there.
    fn take(&mut self, messages: Vec<Value>) -> usize {
        let common =
            |kept: &Vec<Value>| kept.iter().zip(&messages).take_while(|(one, other)| one == other).count();
        let found = self.0.iter().map(common).max().unwrap_or_default();
        // It grows on from the history that it continues.
        self.0.retain(|kept| common(kept) < kept.len());
        self.0.push_back(messages);
        if self.0.len() > ROOM {
            self.0.pop_front();
        }
        found
    }
}

/// An engine, which says how many messages it had in its cache.
async fn engine() -> Provider {
    let cache = Arc::<Mutex<PromptCache>>::default();
    Provider::start(move |request: &Message| {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let found = cache.lock().take(body["messages"].as_array().unwrap().clone());
        let answer = json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "finish_reason": "stop",
                "message": {"role": "assistant", "content": "It is done. ".repeat(60)}}],
            "usage": {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010,
                "prompt_tokens_details": {"cached_tokens": found}}})
        .to_string();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length";
        format!("{head}: {}\r\n\r\n{answer}", answer.len()).into_bytes()
    })
    .await
}

async fn engines() -> Vec<Provider> {
    join_all((0..4).map(|_| engine())).await
}

fn config(engines: &[Provider], by: &str) -> Value {
    // Their names, and not their ports, say who comes first by a hash.
    let target = |(number, engine): (usize, &Provider)| json!({"name": format!("engine-{number}"), "provider": "vllm", "custom_host": engine.base_url()});
    let targets: Vec<Value> = engines.iter().enumerate().map(target).collect();
    json!({"strategy": {"mode": "loadbalance", "by": by}, "targets": targets})
}

/// What a session has sent before its first turn: the system prompt and tools of its agent, one of four.
fn opening(session: usize) -> Vec<Value> {
    let rules = format!("You are agent {}. Follow the rules of the house. ", session % 4).repeat(120);
    vec![json!({"role": "system", "content": rules})]
}

async fn send(gateway: &Gateway, config: &Value, messages: &[Value], trace: &str) -> (Value, String) {
    let call = client().post(format!("{}/chat/completions", gateway.base_url()));
    let call = call.header("x-gateway-api-key", KEY).header("x-gateway-config", config.to_string());
    let body = json!({"model": "m", "messages": messages});
    let response = call.header("x-gateway-trace-id", trace).json(&body).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let index = response.headers()["x-gateway-last-used-option-index"].to_str().unwrap().to_owned();
    (response.json().await.unwrap(), index)
}

/// An agent's session; of how many of its turns the engine had all that was sent before.
async fn session(gateway: &Gateway, config: &Value, number: usize) -> usize {
    let mut messages = opening(number);
    let mut hits = 0;
    let mut sent_before = 0;
    for turn in 0..TURNS {
        let words =
            format!("Session {number}, turn {turn}: read the next file. ").repeat(20 + 5 * (number % 5));
        messages.push(json!({"role": "user", "content": words}));
        let (answer, _) = send(gateway, config, &messages, &new_trace()).await;
        let found = answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
        hits += usize::from(turn > 0 && found >= sent_before);
        sent_before = messages.len() as u64;
        messages.push(answer["choices"][0]["message"].clone());
    }
    hits
}

/// The share of later turns whose history the engine had.
async fn hit_rate(gateway: &Gateway, config: &Value) -> f64 {
    let hits = join_all((0..SESSIONS).map(|number| session(gateway, config, number))).await;
    hits.iter().sum::<usize>() as f64 / (SESSIONS * (TURNS - 1)) as f64
}

#[tokio::test]
async fn sessions_of_agents_find_their_histories_in_the_cache_of_the_engine() {
    let gateway = gateway();
    let by_weight = hit_rate(&gateway, &config(&engines().await, "weight")).await;
    let by_prefix = hit_rate(&gateway, &config(&engines().await, "prefix")).await;
    assert!(by_prefix >= 0.9 && by_weight <= 0.4, "{by_prefix} by prefix, {by_weight} by weight");
    report(&format!("histories found: {by_prefix:.3} by prefix, {by_weight:.3} by weight"));
}

#[tokio::test]
async fn the_reason_of_a_choice_is_in_the_access_line_an_explanation_and_a_metric() {
    let gateway = Gateway::start(STANDARD);
    let engines = engines().await;
    let config = config(&engines, "prefix");
    let mut messages = opening(0);
    messages.push(json!({"role": "user", "content": "Begin."}));
    let question = |messages: &[Value]| {
        json!({"headers": {"x-gateway-api-key": KEY, "x-gateway-config": config},
            "body": {"model": "m", "messages": messages}})
    };
    let explained = async |messages: &[Value]| {
        let call = gateway.control(reqwest::Method::POST, "/v1/explain").json(&question(messages));
        call.send().await.unwrap().json::<Value>().await.unwrap()["first"].clone()
    };
    let before = explained(&messages).await;
    assert_eq!(before["why"], "prefix_hash", "{before}");
    let traces = [new_trace(), new_trace()];
    let (answer, first) = send(&gateway, &config, &messages, &traces[0]).await;
    assert_eq!(before["index"], first.as_str());
    messages.push(answer["choices"][0]["message"].clone());
    messages.push(json!({"role": "user", "content": "Go on."}));
    let after = explained(&messages).await;
    let because = after["because"][0].as_str().unwrap();
    assert!(because.ends_with("was last sent there: 5 blocks, 5120 bytes of text"), "{because}");
    let (_, second) = send(&gateway, &config, &messages, &traces[1]).await;
    assert_eq!(first, second);
    for (trace, why, blocks) in [(&traces[0], "prefix_hash", Value::Null), (&traces[1], "prefix", json!(5))] {
        let attempt = &gateway.access_line(trace).await["attempts"][0];
        assert_eq!((&attempt["why"], &attempt["prefix_blocks"]), (&json!(why), &blocks), "{attempt}");
    }
    for (result, count) in [("hit", 1.0), ("miss", 1.0), ("passed_on", 0.0)] {
        let series = format!(r#"turnpike_prefix_choices_total{{result="{result}"}}"#);
        assert_eq!(gateway.metric(&series).await, Some(count), "{result}");
    }
}

/// A share is bounded, here by places: an engine that has none passes on, and what was passed on is known there, too.
#[tokio::test]
async fn a_full_engine_passes_a_conversation_on() {
    let gateway = Gateway::start(STANDARD);
    let target = json!({"provider": "@emulator", "concurrency": {"max": 1, "queue": {"max": 9}}});
    let config =
        json!({"strategy": {"mode": "loadbalance", "by": "prefix"}, "targets": [target, target, target]});
    let mut messages = [opening(0), vec![json!({"role": "user", "content": "Begin."})]].concat();
    let (_, first) = send(&gateway, &config, &messages, &new_trace()).await;
    let call = client().post(format!("{}/chat/completions", gateway.base_url()));
    let call = call.header("x-gateway-api-key", KEY).header("x-gateway-config", config.to_string());
    let call = call.header("x-emulator-script", "tokens=1000&gap=1000");
    let body = json!({"model": "m", "stream": true, "messages": messages});
    let endless = call.json(&body).send().await.unwrap();
    assert_eq!(endless.headers()["x-gateway-last-used-option-index"], first.as_str());
    messages.push(json!({"role": "user", "content": "Go on. ".repeat(200)}));
    let trace = new_trace();
    let (_, second) = send(&gateway, &config, &messages, &trace).await;
    assert_ne!(second, first);
    assert_eq!(gateway.access_line(&trace).await["attempts"][0]["why"], "passed_on");
    assert_eq!(gateway.metric(r#"turnpike_prefix_choices_total{result="passed_on"}"#).await, Some(1.0));
    drop(endless);
    gateway.idle().await;
    // The second has more of it.
    let (_, next) = send(&gateway, &config, &messages, &new_trace()).await;
    assert_eq!(next, second);
}
