//! `default_params`, `override_params` and `drop_params` as the provider sees them, and targets whose provider the request names
//! (`passthrough`).
//!
//! Not paths into JSON (`words::json::path`), nor what limits hold for a request (`held_requests`).

use crate::support::client::{client, new_trace};
use crate::support::settings::KEY;
use crate::support::{Gateway, gateway};
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};

async fn send(path: &str, headers: &[(&str, &str)], config: &Value, body: &Value) -> (Response, String) {
    let tag = new_trace();
    let url = gateway().base_url().trim_end_matches("/v1").to_owned() + path;
    let call = client().post(url).header("x-gateway-api-key", KEY).header("x-emulator-tag", &tag);
    let call = call.header("x-gateway-config", config.to_string());
    let call = headers.iter().fold(call, |call, (name, value)| call.header(*name, *value));
    (call.json(body).send().await.unwrap(), tag)
}

/// The bodies that the provider got.
async fn sent_bodies(gateway: &Gateway, tag: &str) -> Vec<Value> {
    let requests = gateway.emulator_requests(tag).await;
    requests.iter().map(|request| serde_json::from_str(request["body"].as_str().unwrap()).unwrap()).collect()
}

/// The one body that the provider got for this request.
async fn forwarded(path: &str, config: &Value, body: &Value) -> Value {
    let (response, tag) = send(path, &[], config, body).await;
    let status = response.status();
    assert_eq!(status, 200, "{config} {}", response.text().await.unwrap());
    let mut sent = sent_bodies(&gateway(), &tag).await;
    assert_eq!(sent.len(), 1, "{sent:?}");
    sent.remove(0)
}

fn chat(more: &Value) -> Value {
    let mut body = json!({"model": "gpt-4o-mini?tokens=2", "messages": [{"role": "user", "content": "Hi", "name": "ann"}]});
    more.as_object().unwrap().iter().for_each(|(name, value)| body[name] = value.clone());
    body
}

const CHATS: &str = "/v1/chat/completions";

#[tokio::test]
async fn parameters_are_defaulted_then_overridden_then_dropped() {
    let tools = json!([{"type": "function", "function": {"name": "f", "strict": true, "parameters": {"type": "object"}}}]);
    let params = json!({"provider": "@emulator", "default_params": {"temperature": 0.5, "seed": 7, "user": "d"},
        "override_params": {"user": "o", "top_p": 0.1},
        "drop_params": ["logprobs", "messages[*].name", "tools[0].function.strict", "top_p", "stop[1]"]});
    let plain = json!({"provider": "@emulator", "retry": {"attempts": 0}});
    for (config, client, wanted) in [
        (&params, json!({}), json!({"temperature": 0.5, "seed": 7, "user": "o"})),
        (
            &params,
            json!({"temperature": 0, "logprobs": true, "top_p": 0.9, "user": "c", "tools": tools}),
            json!({"temperature": 0, "seed": 7, "user": "o", "tools": [{"type": "function",
                "function": {"name": "f", "parameters": {"type": "object"}}}]}),
        ),
        // A value that the client sends counts, whatever it is.
        (&params, json!({"seed": null}), json!({"temperature": 0.5, "seed": null, "user": "o"})),
        (&plain, json!({"logprobs": true}), json!({"logprobs": true})),
    ] {
        let sent = forwarded(CHATS, config, &chat(&client)).await;
        let mut wanted = chat(&wanted);
        if config != &plain {
            wanted["messages"][0].as_object_mut().unwrap().remove("name");
        }
        assert_eq!(sent, wanted, "{config} {client}");
    }
}

#[tokio::test]
async fn parameters_are_inherited_by_the_targets_of_groups() {
    let config = json!({"strategy": {"mode": "fallback"}, "default_params": {"seed": 1, "user": "group"},
        "drop_params": ["metadata"], "targets": [
            {"provider": "@emulator", "override_params": {"model": "m?status=500"}, "default_params": {"user": "own"}},
            {"provider": "@emulator", "override_params": {"model": "m?tokens=1"}, "drop_params": ["messages[0].name"]}]});
    let (response, tag) = send(CHATS, &[], &config, &chat(&json!({"metadata": {"a": "b"}}))).await;
    assert_eq!(response.status(), 200);
    let sent = sent_bodies(&gateway(), &tag).await;
    assert_eq!(
        (&sent[0]["seed"], &sent[0]["user"], &sent[0]["metadata"]),
        (&json!(1), &json!("own"), &Value::Null)
    );
    assert_eq!(sent[0]["messages"][0]["name"], "ann");
    assert_eq!((&sent[1]["user"], &sent[1]["metadata"]["a"]), (&json!("group"), &json!("b")));
    assert_eq!(sent[1]["messages"][0].get("name"), None);
}

/// A bound on the output is one under either of its names, and a required member may be a default.
#[tokio::test]
async fn defaults_fill_in_what_each_dialect_needs() {
    let bounded = json!({"provider": "@emulator", "default_params": {"max_tokens": 9}});
    let sent = forwarded(CHATS, &bounded, &chat(&json!({"max_completion_tokens": 3}))).await;
    assert_eq!((&sent["max_completion_tokens"], sent.get("max_tokens")), (&json!(3), None));
    assert_eq!(forwarded(CHATS, &bounded, &chat(&json!({}))).await["max_tokens"], 9);

    let messages = json!({"model": "claude-3-5-haiku-20241022?tokens=2", "messages": [{"role": "user", "content": "Hi"}]});
    let claude = json!({"provider": "@anthropic-emulator", "default_params": {"max_tokens": 9}});
    assert_eq!(forwarded("/v1/messages", &claude, &messages).await["max_tokens"], 9);
    let without = json!({"provider": "@anthropic-emulator", "retry": {"attempts": 0}});
    let (refused, _) = send("/v1/messages", &[], &without, &messages).await;
    assert_eq!(refused.status(), 400, "max_tokens is required");
    let mut wrong = messages.clone();
    wrong["max_tokens"] = json!("many");
    let (refused, _) = send("/v1/messages", &[], &claude, &wrong).await;
    assert_eq!(refused.status(), 400, "what the client sends is checked");

    let google = json!({"provider": "@google-emulator", "default_params": {"temperature": 0.5, "top_p": 0.2},
        "override_params": {"seed": 3}, "drop_params": ["max_tokens", "labels"]});
    let body = json!({"contents": [{"role": "user", "parts": [{"text": "Hi"}]}], "labels": {"a": "b"},
        "generation_config": {"top_p": 0.9, "max_output_tokens": 4}});
    let sent = forwarded("/v1beta/models/gemini-2.0-flash:generateContent", &google, &body).await;
    let config = sent.get("generationConfig").or(sent.get("generation_config")).unwrap();
    assert_eq!(config, &json!({"top_p": 0.9, "temperature": 0.5, "seed": 3}), "{sent}");
    assert_eq!(sent.get("labels"), None);
}

/// What is dropped is dropped before the request is translated.
#[tokio::test]
async fn parameters_count_in_the_clients_dialect() {
    let config = json!({"provider": "@anthropic-emulator", "default_params": {"stop": ["x"]}, "drop_params": ["temperature"]});
    let mut body = chat(&json!({"temperature": 0.3}));
    body["model"] = json!("claude-3-5-haiku-20241022?tokens=2");
    let sent = forwarded(CHATS, &config, &body).await;
    assert_eq!((&sent["stop_sequences"], sent.get("temperature")), (&json!(["x"]), None), "{sent}");
}

#[tokio::test]
async fn a_passthrough_target_has_the_provider_that_the_request_names() {
    let config = json!({"strategy": {"mode": "fallback"}, "targets": [
        {"passthrough": true, "override_params": {"user": "first"}},
        {"provider": "@emulator", "override_params": {"model": "m?tokens=1", "user": "second"}}]});
    let named = |model: &str| chat(&json!({"model": model}));
    for (headers, model, index) in [
        (&[("x-gateway-provider", "@emulator")][..], "m?tokens=1", 0),
        (&[("x-gateway-provider", "@emulator")], "m?status=500", 1),
        (&[("x-gateway-virtual-key", "emulator")], "m?tokens=1", 0),
        (&[], "@emulator/m?tokens=1", 0),
    ] {
        let (response, tag) = send(CHATS, headers, &config, &named(model)).await;
        assert_eq!(response.status(), 200, "{model}");
        assert_eq!(
            response.headers()["x-gateway-last-used-option-index"],
            format!("config.targets[{index}]")
        );
        let sent = sent_bodies(&gateway(), &tag).await;
        let wanted = if model.contains("500") { "m?status=500" } else { "m?tokens=1" };
        assert_eq!((&sent[0]["model"], &sent[0]["user"]), (&json!(wanted), &json!("first")));
    }
    let (refused, _) = send(CHATS, &[], &config, &named("m")).await;
    assert!(
        matches!(refused.status(), StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND),
        "{}",
        refused.status()
    );
}

/// What a guardrail was shown, and has changed, is what is sent: a path to an item names no other one afterwards.
#[tokio::test]
async fn nothing_is_dropped_again_behind_a_guardrail() {
    let config = json!({"provider": "@emulator", "default_params": {"seed": 7}, "drop_params": ["messages[0]"],
        "input_guardrails": [{"regexReplace": {"rule": "KESTREL\\b", "redactText": "gone"}}]});
    let message = |text: &str| json!({"role": "user", "content": text});
    let body = chat(&json!({"messages": [message("a"), message("b KESTREL"), message("c")]}));
    let sent = forwarded(CHATS, &config, &body).await;
    assert_eq!((&sent["messages"], &sent["seed"]), (&json!([message("b gone"), message("c")]), &json!(7)));
}

#[tokio::test]
async fn mistakes_in_parameters_are_named() {
    for (config, wanted) in [
        (json!({"provider": "@emulator", "default_params": {"model": "m"}}), "default_params.model"),
        (json!({"provider": "@emulator", "default_params": {"stream": true}}), "default_params.stream"),
        (json!({"provider": "@emulator", "drop_params": ["model"]}), "drop_params[0]"),
        (json!({"provider": "@emulator", "drop_params": ["a..b"]}), "drop_params[0]"),
        (json!({"provider": "@emulator", "passthrough": true}), "passthrough"),
        (json!({"provider": "@emulator", "allow_subdomain": true}), "allow_subdomain"),
    ] {
        let (refused, _) = send(CHATS, &[], &config, &chat(&json!({}))).await;
        assert_eq!(refused.status(), 400, "{config}");
        let text = refused.text().await.unwrap();
        assert!(text.contains(wanted), "{config} {text}");
    }
}
