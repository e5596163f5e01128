//! Calls that the gateway makes for a client: models that judge, and embeddings of the semantic cache. They are under the client's limits,
//! and what a config has a model asked passes the guardrails of the client's workspace.
//!
//! On the running binary. How a judge is asked is tested beside the code.

use crate::caching::json_answer;
use crate::limited_requests::{CLIENT, Chat, RATES, SETTINGS, USAGE, change, entities, make, operate};
use crate::support::client::client;
use crate::support::provider::Provider;
use crate::support::{Gateway, wait};
use reqwest::Method;
use serde_json::{Value, json};

/// A model that finds everything right, at 20 tokens for what it reads and 10 for what it says, and makes a vector of any text.
async fn agreeing() -> Provider {
    let verdict = r#"{"verdict": true, "score": 1, "reason": "fine"}"#;
    let usage = json!({"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30});
    let chat = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-4o", "usage": usage,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": verdict}, "finish_reason": "stop"}]});
    let vector = json!({"object": "list", "model": "e", "usage": {"prompt_tokens": 3, "total_tokens": 3},
        "data": [{"object": "embedding", "index": 0, "embedding": [1.0, 0.5]}]});
    let (chat, vector) = (json_answer(&chat.to_string()), json_answer(&vector.to_string()));
    Provider::start(move |request| {
        let is_embedding = request.start.contains("/embeddings");
        if is_embedding { vector.clone().into_bytes() } else { chat.clone().into_bytes() }
    })
    .await
}

fn settings(judge: &Provider) -> String {
    let provider = format!(
        "providers:\n  judge: {{provider: openai, api_key: j, custom_host: '{}'}}\n",
        judge.base_url()
    );
    SETTINGS.replacen("providers:\n", &provider, 1)
}

/// A guarded chat whose judge may say so much.
fn judged(max_tokens: u64) -> Value {
    let judge = json!({"provider": "@judge", "model": "gpt-4o", "instructions": "It is kind.", "max_tokens": max_tokens, "failOnError": true});
    json!({"provider": "@emu", "input_guardrails": [{"default.modelJudge": judge, "deny": true}]})
}

/// The status of such a chat, and what its check says of an error.
async fn send(gateway: &Gateway, key: &str, config: &Value) -> (u16, String) {
    let body = json!({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Hello"}], "max_completion_tokens": 5});
    let call =
        client().post(format!("{}/chat/completions", gateway.base_url())).header("x-gateway-api-key", key);
    let call = call.header("x-gateway-config", config.to_string()).header("x-emulator-script", "tokens=5");
    let response = call.json(&body).send().await.unwrap();
    let status = response.status().as_u16();
    let body: Value = response.json().await.unwrap();
    let check = &body["hook_results"]["before_request_hooks"][0]["checks"][0];
    (status, check["error"]["message"].as_str().unwrap_or_default().to_owned())
}

/// Whatever a limit is of, it holds what a judge may use, and a judge without room is not called: the check could not decide.
#[tokio::test]
async fn a_judge_is_under_every_limit_of_its_client() {
    let by_key = json!([{"key": "api_key"}]);
    let any_key = json!({"key": "api_key", "value": "*"});
    let cost = |condition: Value| {
        (
            USAGE,
            json!({"conditions": [condition], "group_by": by_key, "type": "cost", "credit_limit": 0.01, "hard": true}),
        )
    };
    let rate = |condition: Value, of: &str| {
        (RATES, json!({"conditions": [condition], "group_by": by_key, "type": of, "unit": "rph", "value": 0}))
    };
    for (path, limit) in [
        cost(any_key.clone()),
        cost(json!({"key": "workspace_id", "value": "default"})),
        cost(json!({"key": "metadata.team", "value": "red"})),
        cost(json!({"key": "model", "value": "gpt-4o"})),
        cost(json!({"key": "virtual_key", "value": "judge"})),
        rate(json!({"key": "model", "value": "gpt-4o"}), "requests"),
        rate(json!({"key": "virtual_key", "value": "judge"}), "tokens"),
    ] {
        let judge = agreeing().await;
        let gateway = Gateway::start(&settings(&judge));
        make(&gateway, path, &limit).await;
        // A dollar for what it may say.
        let config = judged(100_000);
        let body = json!({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Hello"}], "max_completion_tokens": 5});
        let call = client()
            .post(format!("{}/chat/completions", gateway.base_url()))
            .header("x-gateway-api-key", CLIENT);
        let call = call
            .header("x-gateway-config", config.to_string())
            .header("x-gateway-metadata", r#"{"team":"red"}"#);
        let response = call.json(&body).send().await.unwrap();
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        assert_eq!((status, judge.received().len()), (446, 0), "{limit}: {text}");
        assert!(text.contains("the model could not be called"), "{limit}: {text}");
    }
}

#[tokio::test]
async fn what_a_judge_costs_is_its_clients() {
    let judge = agreeing().await;
    let gateway = Gateway::start(&settings(&judge));
    let limit = json!({"conditions": [{"key": "api_key", "value": "*"}], "group_by": [{"key": "api_key"}], "type": "cost",
        "credit_limit": 0.01, "hard": true});
    let id = make(&gateway, USAGE, &limit).await;
    assert_eq!(send(&gateway, CLIENT, &judged(50)).await, (200, String::new()));
    assert_eq!(judge.received().len(), 1);
    let spent = wait::until("both to be counted", async || {
        let found = entities(&gateway, &id, "").await;
        let spent = found.first()?["current_usage"].as_f64()?;
        (found[0]["reserved_usage"] == 0 && spent > 0.000_15).then_some(spent)
    })
    .await;
    // 20 tokens at 2.5 and 10 at 10 dollars per million, and a chat of the small model.
    assert!(spent < 0.000_17, "{spent}");
}

#[tokio::test]
async fn an_embedding_of_the_semantic_cache_is_under_the_clients_limits() {
    let vectors = agreeing().await;
    let semantic = "semantic_cache: {provider: '@judge', model: text-embedding-3-small}\nproviders:\n";
    let gateway = Gateway::start(&settings(&vectors).replacen("providers:\n", semantic, 1));
    let config = json!({"provider": "@emu", "cache": {"mode": "semantic"}}).to_string();
    let send = async |text: &str| {
        Chat::new().script(text).header("x-gateway-config", config.clone()).status(&gateway).await
    };
    assert_eq!((send("tokens=5").await, vectors.received().len()), (200, 1));
    let none = json!({"conditions": [{"key": "model", "value": "text-embedding-3-small"}], "group_by": [{"key": "api_key"}],
        "type": "requests", "unit": "rph", "value": 0});
    make(&gateway, RATES, &none).await;
    let config =
        json!({"provider": "@emu", "cache": {"mode": "semantic"}, "override_params": {"temperature": 0}})
            .to_string();
    let status = Chat::new().header("x-gateway-config", config).status(&gateway).await;
    assert_eq!((status, vectors.received().len()), (200, 1), "the request itself goes on");
}

/// What the workspace denies does not reach a provider in the instructions of a judge; its own guardrails may ask a model anything.
#[tokio::test]
async fn instructions_of_a_judge_pass_the_guardrails_of_the_workspace() {
    const SECRET: &str = "PURPLE-ELEPHANT";
    let judge = agreeing().await;
    let gateway = Gateway::start(&settings(&judge));
    let id = make(&gateway, "/v1/admin/workspaces", &json!({"name": "own", "slug": "own"})).await;
    let own_key = json!({"name": "own", "workspace_id": id, "scopes": ["completions.write"]});
    let (_, made) = operate(&gateway, Method::POST, "/v1/api-keys/workspace/service", &own_key).await;
    let key = made["key"].as_str().unwrap().to_owned();
    let words = json!({"id": "default.contains", "parameters": {"operator": "none", "words": [SECRET]}});
    let own = json!({"id": "default.modelJudge", "parameters": {"provider": "@judge", "model": "gpt-4o",
        "instructions": format!("It does not speak of {SECRET}."), "failOnError": true}});
    for (slug, check) in [("words", words), ("model", own)] {
        let saved = json!({"name": slug, "slug": slug, "workspace_id": id, "checks": [check], "actions": {"deny": true}});
        make(&gateway, "/v1/guardrails", &saved).await;
    }
    let set = async |slugs: Value| {
        let defaults = json!({"defaults": {"input_guardrails": slugs}});
        change(&gateway, &format!("/v1/admin/workspaces/{id}"), &defaults).await;
    };
    set(json!(["words", "model"])).await;
    assert_eq!(send(&gateway, &key, &json!({"provider": "@emu"})).await.0, 200);
    assert_eq!(judge.received().len(), 1, "the workspace's own judge is asked about it");
    set(json!(["words"])).await;
    let asking = |instructions: String| {
        let judge = json!({"provider": "@judge", "model": "gpt-4o", "instructions": instructions, "failOnError": true});
        json!({"provider": "@emu", "input_guardrails": [{"default.modelJudge": judge, "deny": true}]})
    };
    let before = judge.received().len();
    let (status, _) = send(&gateway, &key, &asking(format!("Say {SECRET}."))).await;
    assert_eq!(status, 446);
    assert_eq!(judge.received().len(), before, "the judge is not called");
    assert_eq!(send(&gateway, &key, &asking("It is kind.".to_owned())).await.0, 200);
}

/// A judge that a config names is a model that the client's key may use. One of a saved guardrail is its author's choice.
#[tokio::test]
async fn a_judge_of_a_config_is_a_model_that_the_key_may_use() {
    const FEW: &str = "tp-few-0123456789";
    let judge = agreeing().await;
    let few = format!(
        "  keys:\n    - {{name: few, key: {FEW}, workspace: default, allowed_models: [gpt-4o-mini]}}\n"
    );
    let gateway = Gateway::start(&settings(&judge).replacen("  keys:\n", &few, 1));
    let check = json!({"id": "default.modelJudge", "parameters": {"provider": "@judge", "model": "gpt-4o",
        "instructions": "It is kind.", "failOnError": true}});
    let saved = json!({"name": "judge", "slug": "saved-judge", "workspace_id": "default", "checks": [check], "actions": {"deny": true}});
    make(&gateway, "/v1/guardrails", &saved).await;
    let of_config = |model: &str| {
        let judge =
            json!({"provider": "@judge", "model": model, "instructions": "It is kind.", "failOnError": true});
        json!({"provider": "@emu", "input_guardrails": [{"default.modelJudge": judge, "deny": true}]})
    };
    let overridden = json!({"provider": "@emu", "input_guardrails": [{"deny": true, "default.modelJudge": {
        "config": {"provider": "@judge", "override_params": {"model": "gpt-4o"}}, "model": "gpt-4o-mini",
        "instructions": "It is kind.", "failOnError": true}}]});
    for (key, config, status, calls) in [
        (FEW, of_config("gpt-4o"), 446, 0),
        (FEW, overridden, 446, 0),
        (FEW, of_config("gpt-4o-mini"), 200, 1),
        (FEW, json!({"provider": "@emu", "input_guardrails": ["saved-judge"]}), 200, 1),
        (CLIENT, of_config("gpt-4o"), 200, 1),
    ] {
        let before = judge.received().len();
        let (found, message) = send(&gateway, key, &config).await;
        assert_eq!((found, judge.received().len() - before), (status, calls), "{config}: {message}");
    }
}
