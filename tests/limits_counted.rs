//! What limits count, seen from outside: in which unit, what a hard budget has room for, and which bucket is which.
//!
//! On the running binary. Who is refused with what is in `limited_requests`.

use crate::caching::json_answer;
use crate::limited_requests::{
    CLIENT, Chat, SETTINGS, USAGE, calls, change, entities, get, make, operate, per_user,
};
use crate::support::client::{client, new_trace};
use crate::support::provider::Provider;
use crate::support::{Gateway, wait};
use reqwest::Method;
use serde_json::{Value, json};

/// What a key has used counts in what it was counted in.
#[tokio::test]
async fn a_limit_that_counts_something_else_begins_at_nothing_and_comes_back_with_what_it_had() {
    let gateway = Gateway::start(SETTINGS);
    let body = json!({"name": "k", "scopes": ["completions.write"], "usage_limits": {"type": "tokens", "credit_limit": 1}});
    let (_, made) = operate(&gateway, Method::POST, "/v1/api-keys/workspace/service", &body).await;
    let key = made["key"].as_str().unwrap();
    let path = format!("/v1/api-keys/{}", made["id"].as_str().unwrap());
    assert_eq!(Chat::new().key(key).status(&gateway).await, 200);
    let spent = async |status: u16| {
        wait::until("the next decision", async || {
            (Chat::new().key(key).status(&gateway).await == status).then_some(())
        })
        .await;
    };
    spent(412).await;
    // Some tokens are no dollars, and some nanodollars no requests.
    let usage = async || {
        let own = get(&gateway, &path).await;
        own["usage"].as_array().map(|list| list[0]["current_usage"].clone())
    };
    for of in ["cost", "requests"] {
        change(&gateway, &path, &json!({"usage_limits": {"type": of, "credit_limit": 1}})).await;
        assert_eq!(usage().await, Some(json!(0)), "{of}");
    }
    change(&gateway, &path, &json!({"usage_limits": {"type": "tokens", "credit_limit": 1}})).await;
    assert_eq!(Chat::new().key(key).status(&gateway).await, 412, "it was taken away and set again");
}

/// Searches are paid for by the piece, and a tier may cost more than the standard: a hard budget has room for both.
#[tokio::test]
async fn a_hard_budget_has_room_for_searches_and_the_dearest_tier() {
    let gateway = Gateway::start(SETTINGS);
    let mut policy = per_user("cost", json!(0.02));
    policy["hard"] = true.into();
    make(&gateway, USAGE, &policy).await;
    let respond = async |more: Value| {
        let mut body = json!({"model": "gpt-4o", "input": "Hello", "max_output_tokens": 16});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let call =
            client().post(format!("{}/responses", gateway.base_url())).header("x-gateway-api-key", CLIENT);
        let call =
            call.header("x-gateway-provider", "@emu").header("x-gateway-metadata", r#"{"_user":"ann"}"#);
        let response = call.json(&body).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    let search = json!([{"type": "web_search"}]);
    let before = calls(&gateway).await;
    let (status, text) = respond(json!({"tools": search})).await;
    assert!(status == 412 && text.contains("max_tool_calls"), "{status} {text}");
    // Ten searches cost ten cents.
    let (status, text) = respond(json!({"tools": search, "max_tool_calls": 10})).await;
    assert!(status == 412 && text.contains("does not pay"), "{status} {text}");
    assert_eq!(calls(&gateway).await, before, "the provider was not called");
    assert_eq!(respond(json!({"tools": search, "max_tool_calls": 1})).await.0, 200);
    assert_eq!(respond(json!({"tools": [{"type": "function", "name": "f", "parameters": {}}]})).await.0, 200);
}

/// What a compressed response used is unknown: it cannot be read. A hard budget keeps what it holds for it.
#[tokio::test]
async fn a_compressed_response_counts_what_is_held_of_a_hard_budget() {
    let provider = Provider::start(|_| {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip";
        format!("{head}\r\ncontent-length: 3\r\n\r\nxyz").into_bytes()
    })
    .await;
    let gateway = Gateway::start(SETTINGS);
    let limit = json!({"type": "tokens", "credit_limit": 1000, "hard": true});
    let body = json!({"name": "k", "scopes": ["completions.write"], "usage_limits": limit});
    let (_, made) = operate(&gateway, Method::POST, "/v1/api-keys/workspace/service", &body).await;
    let target = json!({"provider": "openai", "api_key": "k", "custom_host": provider.base_url()});
    let send = async |target: &Value| {
        let call = client().post(format!("{}/chat/completions", gateway.base_url()));
        let call = call.header("x-gateway-api-key", made["key"].as_str().unwrap());
        let body =
            json!({"model": "gpt-4o", "messages": [{"role": "user", "content": "a"}], "max_tokens": 300});
        call.header("x-gateway-config", target.to_string())
            .json(&body)
            .send()
            .await
            .unwrap()
            .status()
            .as_u16()
    };
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(send(&target).await);
    }
    assert_eq!(statuses, [200, 200, 412, 412]);
    // Nobody could read what a translation would have to.
    let mut translated = target;
    translated["provider"] = "anthropic".into();
    let other = json!({"name": "o", "scopes": ["completions.write"]});
    let (_, other) = operate(&gateway, Method::POST, "/v1/api-keys/workspace/service", &other).await;
    let call = client().post(format!("{}/chat/completions", gateway.base_url()));
    let call = call.header("x-gateway-api-key", other["key"].as_str().unwrap());
    let body = json!({"model": "claude-sonnet-4-5", "messages": [{"role": "user", "content": "a"}]});
    let response = call.header("x-gateway-config", translated.to_string()).json(&body).send().await.unwrap();
    assert_eq!(response.status(), 502);
}

#[tokio::test]
async fn buckets_that_read_the_same_are_different() {
    let gateway = Gateway::start(SETTINGS);
    let policy = json!({
        "conditions": [{"key": "api_key", "value": "*"}], "group_by": [{"key": "metadata.a"}, {"key": "metadata.b"}],
        "type": "requests", "credit_limit": 100,
    });
    let id = make(&gateway, USAGE, &policy).await;
    for (a, b) in [("x", "y-metadata.b:z"), ("x-metadata.b:y", "z"), ("other", "z")] {
        let metadata = json!({"a": a, "b": b}).to_string();
        assert_eq!(Chat::new().header("x-gateway-metadata", metadata).status(&gateway).await, 200);
    }
    let path = format!("{USAGE}/{id}");
    let map = wait::until("the usage of all", async || {
        let map = get(&gateway, &format!("{path}?include_usage=true")).await["value_key_usage_map"].clone();
        let counts = |entry: &Value| entry["current_usage"] == 1;
        (map.as_object()?.len() == 3 && map.as_object()?.values().all(counts)).then_some(map)
    })
    .await;
    assert!(map["metadata.a:other-metadata.b:z"].is_object(), "{map}");
    let reset = |value: &str| json!({"reset_usage_for_value": value});
    let (status, body) =
        operate(&gateway, Method::PUT, &path, &reset("metadata.a:x-metadata.b:y-metadata.b:z")).await;
    assert_eq!((status, &body["error"]["param"]), (400, &json!("reset_usage_for_value")), "{body}");
    change(&gateway, &path, &reset("metadata.a:other-metadata.b:z")).await;
}

/// A provider that reports this usage with each chat.
async fn reporting(usage: Value) -> Provider {
    let chat = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-4o", "usage": usage,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]});
    let answer = json_answer(&chat.to_string());
    Provider::start(move |_| answer.clone().into_bytes()).await
}

/// One answer spends no budget by what its provider reports: what the request could not use is not charged.
#[tokio::test]
async fn a_report_is_charged_as_far_as_the_request_could_go() {
    let lies = [
        json!({"prompt_tokens": 1_000_000_000_000_u64, "completion_tokens": 1_000_000_000_000_u64}),
        json!({"prompt_tokens": 1e308, "completion_tokens": 9_223_372_036_854_775_807_u64}),
        json!({"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 1_000_000_000_000_u64}}),
        json!({"input_tokens": 10, "output_tokens": 5, "cache_creation_input_tokens": 1_000_000_000_000_u64}),
    ];
    for lie in lies {
        let provider = reporting(lie.clone()).await;
        let stored = format!(
            "providers:\n  liar: {{provider: openai, api_key: k, custom_host: '{}'}}\n",
            provider.base_url()
        );
        let gateway = Gateway::start(&SETTINGS.replacen("providers:\n", &stored, 1));
        let mut hard = per_user("cost", json!(1));
        hard["hard"] = true.into();
        let id = make(&gateway, USAGE, &hard).await;
        let trace = new_trace();
        for trace in [new_trace(), new_trace(), trace.clone()] {
            let chat = Chat::new()
                .header("x-gateway-metadata", r#"{"_user":"ann"}"#)
                .header("x-gateway-trace-id", trace);
            assert_eq!(
                chat.header("x-gateway-config", r#"{"provider":"@liar"}"#).status(&gateway).await,
                200,
                "{lie}"
            );
        }
        let counted = r#"turnpike_bounded_usage_reports_total{provider="openai"}"#;
        wait::until("three reports", async || (gateway.metric(counted).await == Some(3.0)).then_some(()))
            .await;
        let spent = wait::until("the end of all holds", async || {
            let found = entities(&gateway, &id, "").await;
            let bucket = found.first().filter(|bucket| bucket["reserved_usage"] == 0)?;
            bucket["current_usage"].as_f64()
        })
        .await;
        // At most a token for each byte, 16,384 for what vendors add, and the five of output: some 0.045 dollars each.
        assert!(spent > 0.0 && spent < 0.2, "{lie}: {spent}");
        wait::until("the row", async || {
            let found = get(&gateway, &format!("/v1/logs?trace_id={trace}")).await;
            (found["total"] == 1).then_some(())
        })
        .await;
        let log = get(&gateway, &format!("/v1/logs/{trace}")).await;
        assert_eq!(log["metrics"]["usage_source"], "bounded", "{log}");
        assert_eq!(gateway.access_line(&trace).await["tokens_bounded"], true);
    }
}

/// What a client calls with its own key at its own host costs nobody else anything: tokens and requests count, dollars do not.
#[tokio::test]
async fn a_clients_own_host_spends_no_money_of_others() {
    let provider = reporting(json!({"prompt_tokens": 50, "completion_tokens": 5})).await;
    let gateway = Gateway::start(SETTINGS);
    let mut ids = Vec::new();
    for (of, credit) in [("cost", json!(0.000_000_1)), ("tokens", json!(1000)), ("requests", json!(10))] {
        ids.push(make(&gateway, USAGE, &per_user(of, credit)).await);
    }
    let config =
        json!({"provider": "openai", "api_key": "own", "custom_host": provider.base_url()}).to_string();
    for _ in 0..3 {
        let chat = Chat::new().header("x-gateway-metadata", r#"{"_user":"ann"}"#);
        assert_eq!(chat.header("x-gateway-config", config.clone()).status(&gateway).await, 200);
    }
    let usage = async |id: &str| {
        wait::until("what is counted", async || {
            let found = entities(&gateway, id, "").await;
            Some(found.first().map_or(0.0, |bucket| bucket["current_usage"].as_f64().unwrap()))
        })
        .await
    };
    wait::until("three requests", async || (usage(&ids[2]).await == 3.0).then_some(())).await;
    assert_eq!([usage(&ids[0]).await, usage(&ids[1]).await], [0.0, 165.0]);
    // A host that serves without a key of theirs may be the operator's.
    let without_key = json!({"provider": "openai", "custom_host": provider.base_url()}).to_string();
    let chat = Chat::new().header("x-gateway-metadata", r#"{"_user":"ann"}"#);
    assert_eq!(chat.header("x-gateway-config", without_key).status(&gateway).await, 200);
    wait::until("its price", async || (usage(&ids[0]).await > 0.0).then_some(())).await;
}
