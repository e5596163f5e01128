//! What is sent is what limits hold: hooks that make more of a request than was held for it, in budgets and rates.
//!
//! On the running binary, with real hooks. What limits do to requests that nothing changes: `limited_requests`.

use crate::limited_requests::{CLIENT, Chat, RATES, SETTINGS, USAGE, calls, entities, make};
use crate::support::client::client;
use crate::support::provider::Provider;
use crate::support::{Gateway, wait};
use serde_json::{Value, json};
use std::time::Duration;

/// A server that has a hook replace the request by this one.
async fn replacing(request: Value) -> Provider {
    let body = json!({"verdict": true, "transformedData": {"request": {"json": request}}}).to_string();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
    let response = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes();
    Provider::start(move |_| response.clone()).await
}

fn by_webhook(server: &Provider) -> Value {
    json!({"default.webhook": {"webhookURL": format!("http://127.0.0.1:{}/", server.port)}})
}

fn guarded(check: &Value) -> String {
    json!({"provider": "@emu", "input_guardrails": [check]}).to_string()
}

/// A chat of a model with members of its own.
fn chat(members: Value) -> Value {
    let mut chat = json!({"model": "gpt-4o", "messages": [{"role": "user", "content": "Hello"}], "max_completion_tokens": 5});
    for (name, value) in members.as_object().unwrap() {
        chat[name] = value.clone();
    }
    chat
}

fn for_each_key(of: &str, limit: Value) -> Value {
    let mut policy = json!({"conditions": [{"key": "api_key", "value": "*"}], "group_by": [{"key": "api_key"}], "type": of});
    for (name, value) in limit.as_object().unwrap() {
        policy[name] = value.clone();
    }
    policy
}

/// Nothing of a policy is held any more, and so much of it was used.
async fn usage(gateway: &Gateway, id: &str) -> f64 {
    wait::until("the end of all holds", async || {
        let found = entities(gateway, id, "").await;
        let is_over = found.iter().all(|bucket| bucket["reserved_usage"] == 0);
        is_over.then(|| found.iter().map(|bucket| bucket["current_usage"].as_f64().unwrap()).sum())
    })
    .await
}

#[tokio::test]
async fn a_hook_takes_no_request_past_a_hard_budget() {
    let gateway = Gateway::start(SETTINGS);
    let budget = for_each_key("cost", json!({"credit_limit": 0.01, "hard": true}));
    let id = make(&gateway, USAGE, &budget).await;
    let (long, text) = ("word ".repeat(1500), json!([{"role": "user", "content": "a dear model"}]));
    let mut without_bound = chat(json!({}));
    without_bound.as_object_mut().unwrap().remove("max_completion_tokens");
    let before = calls(&gateway).await;
    for (what, changed) in [
        ("a higher bound", chat(json!({"max_completion_tokens": 100_000}))),
        ("no bound", without_bound),
        ("more choices", chat(json!({"n": 1000}))),
        // 600 tokens of the client's model would fit, at $0.006; of this one they are $0.018.
        (
            "a dearer model",
            chat(json!({"model": "gpt-4-turbo", "messages": text, "max_completion_tokens": 600})),
        ),
        ("a longer text", chat(json!({"messages": [{"role": "user", "content": long.repeat(8)}]}))),
    ] {
        let server = replacing(changed).await;
        let config = guarded(&by_webhook(&server));
        let sent = (0..8).map(|_| Chat::new().header("x-gateway-config", config.clone()).status(&gateway));
        let statuses = futures_util::future::join_all(sent).await;
        assert_eq!(statuses, [412; 8], "{what}");
        assert_eq!(server.received().len(), 8, "{what}");
    }
    let prefix = json!({"default.addPrefix": {"prefix": long}});
    assert_eq!(Chat::new().header("x-gateway-config", guarded(&prefix)).status(&gateway).await, 412);
    assert_eq!(calls(&gateway).await, before, "no provider was called");
    assert!(usage(&gateway, &id).await == 0.0, "nothing was spent, nothing stays held");
    // One that fits as it is changed is sent, and counts once.
    let server = replacing(chat(json!({"max_completion_tokens": 7}))).await;
    let fitting =
        Chat::new().header("x-gateway-config", guarded(&by_webhook(&server))).status(&gateway).await;
    assert_eq!((fitting, calls(&gateway).await), (200, before + 1));
    let spent =
        wait::until("its usage", async || Some(usage(&gateway, &id).await).filter(|spent| *spent > 0.0))
            .await;
    assert!(spent < 0.01, "{spent}");
}

/// An earlier item that a request refers to is sent in its place: limits hold it, and guardrails read it.
#[tokio::test]
async fn an_item_that_a_request_refers_to_is_held_and_checked() {
    let body = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "mistral-small-latest",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "forbidden ".repeat(20_000)}}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}})
    .to_string();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
    let response = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes();
    let server = Provider::start(move |_| response.clone()).await;
    let account = format!(
        "  chats: {{provider: mistral-ai, api_key: k, custom_host: 'http://127.0.0.1:{}/v1'}}\n",
        server.port
    );
    let gateway = Gateway::start(&SETTINGS.replacen("providers:\n", &format!("providers:\n{account}"), 1));
    let send = async |body: Value, config: Value| {
        let call =
            client().post(format!("{}/responses", gateway.base_url())).header("x-gateway-api-key", CLIENT);
        let response = call.header("x-gateway-config", config.to_string()).json(&body).send().await.unwrap();
        (response.status().as_u16(), response.json::<Value>().await.unwrap())
    };
    let plain = json!({"provider": "@chats"});
    let (_, first) =
        send(json!({"model": "mistral-small-latest", "input": "x", "max_output_tokens": 10}), plain.clone())
            .await;
    let reference = json!({"type": "item_reference", "id": first["output"][0]["id"]});
    let next = json!({"model": "mistral-small-latest", "max_output_tokens": 1,
        "input": [reference, {"role": "user", "content": "y"}]});
    assert_eq!(send(next.clone(), plain.clone()).await.0, 200);
    let last = server.received().pop().unwrap();
    assert!(last.body.len() > 200_000, "{}", last.body.len());
    let checked = json!({"provider": "@chats", "input_guardrails": [{"default.contains": {"operator": "none", "words": ["forbidden"]},
        "scope": "all", "deny": true}]});
    assert_eq!(send(next.clone(), checked).await.0, 446);
    // 200,000 bytes are 50,000 tokens at least of any tokenizer, at $0.1 a million: $0.005.
    make(&gateway, USAGE, &for_each_key("cost", json!({"credit_limit": 0.004, "hard": true}))).await;
    let before = server.received().len();
    let (status, refused) = send(next, plain).await;
    assert_eq!((status, server.received().len()), (412, before), "{refused}");
}

/// The client's body names no model, since a prompt of the provider does: the one that a hook adds is what policies look at.
#[tokio::test]
async fn a_model_that_a_hook_adds_is_the_one_that_limits_see() {
    let gateway = Gateway::start(SETTINGS);
    let of_model = json!({"conditions": [{"key": "model", "value": "gpt-4o"}], "group_by": [{"key": "api_key"}],
        "type": "requests", "unit": "rph", "value": 1});
    make(&gateway, RATES, &of_model).await;
    let prompt = json!({"prompt": {"id": "pmpt_1"}, "input": "Hello", "max_output_tokens": 5});
    let mut changed = prompt.clone();
    changed["model"] = "gpt-4o".into();
    let server = replacing(changed).await;
    let config = guarded(&by_webhook(&server));
    let send = async || {
        let call =
            client().post(format!("{}/responses", gateway.base_url())).header("x-gateway-api-key", CLIENT);
        call.header("x-gateway-config", &config).json(&prompt).send().await.unwrap().status().as_u16()
    };
    assert_eq!([send().await, send().await], [200, 429]);
}

#[tokio::test]
async fn a_changed_request_counts_in_rates_by_what_is_sent_and_once() {
    let gateway = Gateway::start(SETTINGS);
    make(&gateway, RATES, &for_each_key("tokens", json!({"unit": "rph", "value": 3000}))).await;
    let long = json!({"default.addPrefix": {"prefix": "word ".repeat(1400)}});
    let short = json!({"default.addPrefix": {"prefix": "Be brief. "}});
    let send = async |check: &Value| {
        let status = Chat::new().header("x-gateway-config", guarded(check)).status(&gateway).await;
        // Otherwise the next one finds the estimate of this one.
        gateway.idle().await;
        status
    };
    assert_eq!(send(&short).await, 200);
    let before = calls(&gateway).await;
    // Some 1,400 tokens each by the provider's count, 2,300 by the estimate.
    let statuses = [send(&long).await, send(&long).await, send(&long).await, send(&long).await];
    assert_eq!(statuses[0], 200, "{statuses:?}");
    assert_eq!(statuses[3], 429, "{statuses:?}");
    let passed = statuses.iter().filter(|status| **status == 200).count() as u64;
    assert_eq!(calls(&gateway).await - before, passed);
}

/// The request is given up and held anew: a rate with room for one has room for it.
#[tokio::test]
async fn a_changed_request_is_counted_as_one_request() {
    let gateway = Gateway::start(SETTINGS);
    make(&gateway, RATES, &for_each_key("requests", json!({"unit": "rph", "value": 2}))).await;
    make(&gateway, USAGE, &for_each_key("cost", json!({"credit_limit": 1, "hard": true}))).await;
    let prefix = json!({"default.addPrefix": {"prefix": "Be brief. "}});
    let send = async || Chat::new().header("x-gateway-config", guarded(&prefix)).status(&gateway).await;
    assert_eq!([send().await, send().await, send().await], [200, 200, 429]);
}

/// Where the changed request does not fit at the first target, the plan goes on to another one, which is held anew.
#[tokio::test]
async fn another_target_is_held_after_a_change_that_did_not_fit() {
    let gateway = Gateway::start(SETTINGS);
    let id = make(&gateway, USAGE, &for_each_key("cost", json!({"credit_limit": 0.01, "hard": true}))).await;
    let server = replacing(chat(json!({"max_completion_tokens": 100_000}))).await;
    let config = json!({"strategy": {"mode": "fallback", "on_status_codes": [412]}, "targets": [
        {"provider": "@emu", "input_guardrails": [by_webhook(&server)]}, {"provider": "@emu2"},
    ]});
    let before = calls(&gateway).await;
    let status = Chat::new().header("x-gateway-config", config.to_string()).status(&gateway).await;
    assert_eq!((status, calls(&gateway).await), (200, before + 1));
    let spent =
        wait::until("its usage", async || Some(usage(&gateway, &id).await).filter(|spent| *spent > 0.0))
            .await;
    assert!(spent < 0.01, "{spent}");
}

/// Whoever reads along with the call of an equal request may be charged for it, and holds what the request was before its change.
#[tokio::test]
async fn a_changed_request_makes_a_call_of_its_own() {
    let gateway = Gateway::start(SETTINGS);
    make(&gateway, USAGE, &for_each_key("cost", json!({"credit_limit": 1, "hard": true}))).await;
    let prefix = json!({"default.addPrefix": {"prefix": "Be brief. "}});
    let config =
        json!({"provider": "@emu", "cache": {"mode": "simple", "max_age": 60}, "input_guardrails": [prefix]});
    let before = calls(&gateway).await;
    let sent = (0..4).map(|_| {
        let chat = Chat::new().script("tokens=5&latency=500");
        chat.header("x-gateway-config", config.to_string()).status(&gateway)
    });
    assert_eq!(futures_util::future::join_all(sent).await, [200; 4]);
    assert_eq!(calls(&gateway).await, before + 4);
}

/// Credentials that cannot be fetched: the attempt was held by the limits of its target, and is not sent.
#[tokio::test]
async fn an_attempt_that_is_not_sent_holds_nothing() {
    let cloud = "providers:\n  cloud: {provider: bedrock, cloud_a_auth_type: serviceRole, custom_host: 'http://127.0.0.1:EMULATOR_PORT'}\n";
    let gateway = Gateway::start_with(&SETTINGS.replace("providers:\n", cloud), &|command| {
        for name in ["AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_AUTHORIZATION_TOKEN"]
        {
            command.env_remove(name);
        }
        command.env("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/role");
    });
    // Room for what one attempt may use, 95 bytes and 5 tokens, and not for two.
    let of_model = json!({"conditions": [{"key": "model", "value": "gpt-4o"}], "group_by": [{"key": "api_key"}],
        "type": "tokens", "credit_limit": 150, "hard": true});
    make(&gateway, USAGE, &of_model).await;
    let targets = json!([{"provider": "@cloud"}, {"provider": "@emu"}]);
    let config = json!({"strategy": {"mode": "fallback"}, "targets": targets}).to_string();
    let before = calls(&gateway).await;
    assert_eq!(Chat::new().header("x-gateway-config", &config).status(&gateway).await, 200);
    assert_eq!(calls(&gateway).await, before + 1);
}

/// A target that is not the first is held by what it sends in every limit that counts tokens or costs: a hook of its own, `override_params`,
/// and another price.
#[tokio::test]
async fn a_fallback_is_held_by_what_it_sends_in_rates_and_soft_budgets() {
    let long = "word ".repeat(6000);
    let by_hook = json!({"provider": "@emu", "input_guardrails": [{"default.addPrefix": {"prefix": long}}]});
    let by_params =
        json!({"provider": "@emu", "override_params": {"messages": [{"role": "user", "content": long}]}});
    let by_defaults =
        json!({"provider": "@emu", "default_params": {"prediction": {"type": "content", "content": long}}});
    let by_price = json!({"provider": "@emu", "override_params": {"model": "gpt-4-turbo"}});
    for (what, target, tokens, nanodollars) in [
        ("a hook", by_hook, 5000, 15_000_000),
        ("parameters", by_params, 5000, 15_000_000),
        ("defaults", by_defaults, 5000, 15_000_000),
        ("another price", by_price, 0, 300_000),
    ] {
        let gateway = Gateway::start(SETTINGS);
        make(&gateway, RATES, &for_each_key("tokens", json!({"unit": "rph", "value": 100_000}))).await;
        let id = make(&gateway, USAGE, &for_each_key("cost", json!({"credit_limit": 1}))).await;
        let config = json!({"strategy": {"mode": "fallback"}, "targets": [{"provider": "@gone"}, target]});
        let first =
            Chat::new().script("tokens=5&latency=3000").header("x-gateway-config", config.to_string());
        let parallel = async {
            wait::until("what the fallback holds", async || {
                let found = entities(&gateway, &id, "").await;
                let held = found.first()?["reserved_usage"].as_f64()? * 1e9;
                (held >= f64::from(nanodollars)).then_some(())
            })
            .await;
            let call = client().post(format!("{}/chat/completions", gateway.base_url()));
            let call = call.header("x-gateway-api-key", CLIENT).header("x-gateway-provider", "@emu");
            let response = call.json(&chat(json!({}))).send().await.unwrap();
            let left = response.headers()["x-ratelimit-remaining-tokens"].to_str().unwrap().to_owned();
            left.parse::<i64>().unwrap()
        };
        let (status, left) = tokio::join!(first.status(&gateway), parallel);
        assert_eq!(status, 200, "{what}");
        assert!(left < 100_000 - tokens, "{what}: {left} tokens are left beside it");
    }
}

/// The request that crosses the line of a soft budget may have its fallback too: it does not wait for what it holds itself.
#[tokio::test]
async fn the_last_request_of_a_soft_budget_has_its_fallback() {
    let gateway = Gateway::start(SETTINGS);
    make(&gateway, USAGE, &for_each_key("cost", json!({"credit_limit": 0.000_01}))).await;
    let config =
        json!({"strategy": {"mode": "fallback"}, "targets": [{"provider": "@gone"}, {"provider": "@emu"}]});
    assert_eq!(Chat::new().header("x-gateway-config", config.to_string()).status(&gateway).await, 200);
    wait::until("the budget to be spent", async || (Chat::new().status(&gateway).await == 412).then_some(()))
        .await;
}

/// Whoever reads along pays where the one who has made the call leaves: limits of the target count it too, and only then.
#[tokio::test]
async fn a_call_that_is_read_along_counts_in_limits_of_its_target() {
    let gateway = Gateway::start(SETTINGS);
    let of_target = json!({"conditions": [{"key": "virtual_key", "value": "emu"}], "group_by": [{"key": "virtual_key"}],
        "type": "tokens", "credit_limit": 100_000, "hard": true});
    let id = make(&gateway, USAGE, &of_target).await;
    let config = json!({"provider": "@emu", "cache": {"mode": "simple", "max_age": 60}}).to_string();
    let send = |patience: u64| {
        let call = client().post(format!("{}/chat/completions", gateway.base_url()));
        let call = call.header("x-gateway-api-key", CLIENT).header("x-gateway-config", &config);
        let call = call.header("x-emulator-script", "tokens=5&latency=2000").json(&chat(json!({})));
        call.timeout(std::time::Duration::from_millis(patience)).send()
    };
    let before = calls(&gateway).await;
    let second = async {
        wait::until("the first call", async || (calls(&gateway).await > before).then_some(())).await;
        send(20_000).await.unwrap().status().as_u16()
    };
    let (first, status) = tokio::join!(send(1000), second);
    assert!(first.is_err(), "the first client has left");
    assert_eq!((status, calls(&gateway).await), (200, before + 1));
    let spent = usage(&gateway, &id).await;
    let spent = if spent > 0.0 {
        spent
    } else {
        wait::until("the call to be counted", async || {
            Some(usage(&gateway, &id).await).filter(|spent| *spent > 0.0)
        })
        .await
    };
    // What is kept is nobody's call.
    assert_eq!(send(20_000).await.unwrap().status(), 200);
    assert_eq!((usage(&gateway, &id).await, calls(&gateway).await), (spent, before + 1));
}

/// A provider that was sent a request may charge it, whether its response was waited for or not. Each attempt counts.
#[tokio::test]
async fn a_hard_budget_keeps_what_it_holds_for_attempts_without_a_report() {
    let gateway = Gateway::start(SETTINGS);
    let hard = make(&gateway, USAGE, &for_each_key("cost", json!({"credit_limit": 1, "hard": true}))).await;
    let soft = make(&gateway, USAGE, &for_each_key("cost", json!({"credit_limit": 1}))).await;
    let slow = "tokens=5&latency=5000";
    let config = |retries: u32| {
        let retry = json!({"attempts": retries, "backoff_ms": 1, "on_status_codes": [408]});
        json!({"provider": "@emu", "request_timeout": 100, "retry": retry}).to_string()
    };
    let late = async |retries| {
        Chat::new().script(slow).header("x-gateway-config", config(retries)).status(&gateway).await
    };
    let spent = async |wanted: f64| {
        wait::until("the end of the request", async || {
            let spent = usage(&gateway, &hard).await;
            (spent >= wanted * 0.999).then_some(spent)
        })
        .await
    };
    assert_eq!(late(0).await, 408);
    let one = spent(f64::MIN_POSITIVE).await;
    assert_eq!(late(2).await, 408);
    let four = spent(4.0 * one).await;
    assert!((four / one - 4.0).abs() < 0.01, "{one} for one attempt, {four} for four");
    // A client that leaves before the response.
    let leaving = Chat::new().script(slow).status(&gateway);
    assert!(tokio::time::timeout(Duration::from_millis(300), leaving).await.is_err());
    let five = spent(5.0 * one).await;
    assert!((five / one - 5.0).abs() < 0.01, "{one} for one attempt, {five} for five");
    // What was not sent, what the provider refused and what it reported cost what they cost.
    let refused = Chat::new().script("status=500").header("x-gateway-config", r#"{"provider":"@emu"}"#);
    assert_eq!(refused.status(&gateway).await, 500);
    let unreachable = json!({"provider": "openai", "api_key": "k", "custom_host": "http://127.0.0.1:1/v1"});
    let unreachable = Chat::new().header("x-gateway-config", unreachable.to_string()).status(&gateway).await;
    assert!(unreachable >= 500, "{unreachable}");
    assert!((usage(&gateway, &hard).await / five - 1.0).abs() < 0.001);
    assert!(usage(&gateway, &soft).await == 0.0, "a soft budget counts what was delivered");
}

/// A streamed chat, by this script of the provider.
async fn streamed(gateway: &Gateway, script: &str, config: Value) -> reqwest::Response {
    let call = client().post(format!("{}/chat/completions", gateway.base_url()));
    let call = call.header("x-gateway-api-key", CLIENT).header("x-emulator-script", script);
    let call = call.header("x-gateway-config", config.to_string());
    call.json(&chat(json!({"stream": true}))).send().await.unwrap()
}

fn one_target() -> Value {
    json!({"provider": "@emu"})
}

/// A hard budget, and what one attempt holds of it: nothing is read of that attempt.
async fn hard_budget(gateway: &Gateway) -> (String, f64) {
    let hard = make(gateway, USAGE, &for_each_key("cost", json!({"credit_limit": 1, "hard": true}))).await;
    let late = json!({"provider": "@emu", "request_timeout": 100});
    assert_eq!(streamed(gateway, "tokens=5&latency=5000", late).await.status(), 408);
    let one = usage(gateway, &hard).await;
    assert!(one > 0.0);
    (hard, one)
}

/// What a request has used of a budget.
async fn grown(gateway: &Gateway, id: &str, before: f64) -> f64 {
    wait::until("the end of the request", async || {
        let grown = usage(gateway, id).await - before;
        (grown > 0.0).then_some(grown)
    })
    .await
}

/// What ends before its report may cost more than what was read of it: a stream that is cut, the loser of a race, a client that leaves
/// between the last text and the report.
#[tokio::test]
async fn a_hard_budget_keeps_what_it_holds_for_what_ends_before_its_report() {
    let gateway = Gateway::start(SETTINGS);
    let (hard, one) = hard_budget(&gateway).await;
    let before = usage(&gateway, &hard).await;
    let _broken = streamed(&gateway, "tokens=5&fault=cut&after=2", one_target()).await.text().await;
    let cut = grown(&gateway, &hard, before).await;
    assert!((cut / one - 1.0).abs() < 0.01, "{cut} of a stream that was cut, {one} held");

    let before = usage(&gateway, &hard).await;
    let mut leaving = streamed(&gateway, "tokens=3&gap=300", one_target()).await;
    let mut text = String::new();
    while !text.contains(r#""finish_reason":"stop""#) {
        text.push_str(std::str::from_utf8(&leaving.chunk().await.unwrap().unwrap()).unwrap());
    }
    assert!(!text.contains("prompt_tokens"), "the report comes later: {text}");
    drop(leaving);
    let left = grown(&gateway, &hard, before).await;
    assert!((left / one - 1.0).abs() < 0.01, "{left} of a client that left, {one} held");

    let before = usage(&gateway, &hard).await;
    let race = json!({
        "strategy": {"mode": "fallback"},
        "hedge": {"after_ms": 100, "max_extra_ratio": 1.0},
        "targets": [one_target(), one_target()],
    });
    assert_eq!(
        streamed(&gateway, "tokens=5&latency=5000&times=1&key=race", race)
            .await
            .text()
            .await
            .unwrap()
            .matches("stop")
            .count(),
        1
    );
    let raced = grown(&gateway, &hard, before).await;
    assert!(raced > one && raced < 2.0 * one, "{raced} of both, {one} held for each");

    let before = usage(&gateway, &hard).await;
    streamed(&gateway, "tokens=5", one_target()).await.text().await.unwrap();
    let reported = grown(&gateway, &hard, before).await;
    assert!(reported < one, "{reported} reported, {one} held");
}

/// A stream that breaks off behind its finish reason may have a report ahead, which nobody has read.
#[tokio::test]
async fn a_hard_budget_keeps_what_it_holds_for_a_stream_cut_behind_its_finish_reason() {
    let gateway = Gateway::start(SETTINGS);
    let (hard, one) = hard_budget(&gateway).await;
    // How many events that is, the emulator decides.
    let mut is_behind = false;
    for after in 3..12 {
        let before = usage(&gateway, &hard).await;
        let script = format!("tokens=5&fault=cut&after={after}");
        let Ok(text) = streamed(&gateway, &script, one_target()).await.text().await else { continue };
        is_behind = text.contains(r#""finish_reason":"stop""#) && !text.contains("prompt_tokens");
        if is_behind {
            let cut = grown(&gateway, &hard, before).await;
            assert!((cut / one - 1.0).abs() < 0.01, "{cut} of a stream that was cut, {one} held: {text}");
            break;
        }
    }
    assert!(is_behind, "no cut was behind the finish reason");
}
