//! `POST /v1/explain` and `turnpike explain`: what would happen to a request, without sending it to a
//! provider.
//!
//! Not every field of every config (tables in `route::explain`).

use crate::limited_requests::{RATES, USAGE};
use crate::support::client::{self, client, hello, new_trace};
use crate::support::command::turnpike;
use crate::support::settings::{KEY, PROVIDER_KEY, STANDARD};
use crate::support::stores::{is_postgres, on_each_store};
use crate::support::wait::until;
use crate::support::{Gateway, gateway};
use reqwest::Method;
use serde_json::{Value, json};

fn chat(config: &Value) -> Value {
    json!({
        "headers": {"x-gateway-api-key": KEY, "x-gateway-config": config, "x-note": "canary-header"},
        "body": {"model": "gpt-4o", "messages": [{"role": "user", "content": "canary-words"}]},
    })
}

/// The status and body the control port returns for this question.
async fn post_explain(gateway: &Gateway, question: &str) -> (u16, Value) {
    let call = gateway.control(Method::POST, "/v1/explain");
    let response = call.body(question.to_owned()).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

async fn explained(gateway: &Gateway, question: &Value) -> Value {
    let (status, response) = post_explain(gateway, &question.to_string()).await;
    assert_eq!(status, 200, "{response}");
    let text = response.to_string();
    for secret in ["canary", KEY, PROVIDER_KEY, "AKIAEMULATOR"] {
        assert!(!text.contains(secret), "{secret} is in {text}");
    }
    response
}

#[tokio::test]
async fn a_saved_config_is_explained_without_upstream_requests() {
    let gateway = gateway();
    let tag = new_trace();
    let mut question = chat(&json!("cf-fallback"));
    question["headers"]["x-emulator-tag"] = json!(tag);
    let response = explained(&gateway, &question).await;
    assert_eq!((&response["problems"], &response["caller"]), (&json!([]), &json!("tests")), "{response}");
    assert_eq!(
        (&response["operation"], &response["config"]),
        (&json!("chat"), &json!("cf-fallback")),
        "{response}"
    );
    assert_eq!(response["first"]["index"], "config.targets[0]", "{response}");
    assert_eq!(response["request"]["path"], "/v1/chat/completions", "{response}");
    let targets = response["tree"]["targets"].as_array().unwrap();
    assert_eq!(
        (&targets[0]["slug"], &targets[1]["provider"], &targets[0]["host"]),
        (&json!("emulator"), &json!("anthropic"), &Value::Null),
        "an operator's host is disclosed: {response}"
    );
    let tries = &response["then"][0]["tries"];
    assert_eq!(tries, &json!([{"index": "config.targets[1]", "why": "next"}]), "{response}");
    assert_eq!(gateway.emulator_requests(&tag).await, Vec::<Value>::new(), "a provider got a request");
}

#[tokio::test]
async fn problems_have_paths_and_status_200() {
    let gateway = gateway();
    let wrong = json!({"strategy": {"mode": "sometimes"}, "retry": {"attempts": "canary"},
                       "targets": [{"provider": "@emulator", "api_key": "canary-key", "weight": "x"}]});
    let response = explained(&gateway, &chat(&wrong)).await;
    let problems = response["problems"].as_array().unwrap();
    let paths: Vec<&str> = problems.iter().map(|problem| problem["path"].as_str().unwrap()).collect();
    for path in ["strategy.mode", "retry.attempts", "targets[0].weight"] {
        assert!(paths.contains(&path), "{path} is not in {paths:?}");
    }
    assert!(response.get("tree").is_none(), "{response}");
    // Requests that the data port would refuse for other reasons.
    let saved = |member: &str, value: Value| {
        let mut question = chat(&json!("cf-emulator"));
        question[member] = value;
        question
    };
    for (question, status, path) in [
        (chat(&json!("cf-nobody")), 400, "x-gateway-config"),
        (saved("body", json!({"model": "m"})), 400, "messages"),
        (saved("body", json!(null)), 400, ""),
        (saved("body", json!([1])), 400, ""),
        (saved("path", json!("/v2/chat/completions")), 404, ""),
        (saved("path", json!("/v1/logs")), 404, ""),
        (saved("method", json!("PATCH")), 405, ""),
        (saved("headers", json!({"x-gateway-request-timeout": "canary"})), 400, "x-gateway-request-timeout"),
    ] {
        let response = explained(&gateway, &question).await;
        let problem = &response["problems"][0];
        assert_eq!(
            (&problem["status"], &problem["path"]),
            (&json!(status), &json!(path)),
            "{question} {response}"
        );
    }
    // Without a service key the rest is explained all the same.
    let response = explained(&gateway, &saved("headers", json!({"x-gateway-config": "cf-emulator"}))).await;
    assert_eq!((&response["caller"], &response["problems"]), (&Value::Null, &json!([])), "{response}");
    assert!(response["notes"][0].as_str().unwrap().contains("401"), "{response}");
}

#[tokio::test]
async fn malformed_questions_are_refused() {
    let gateway = gateway();
    for question in [
        "",
        "[]",
        "{\"header\": {}}",
        "{\"method\": \"GET IT\"}",
        "{\"path\": \"v1/models\"}",
        "{\"headers\": \"canary\"}",
        "{\"headers\": {\"a b\": \"c\"}}",
        "{\"headers\": {\"a\": null}}",
        "{\"headers\": {\"a\": \"canary\\n\"}}",
    ] {
        let (status, response) = post_explain(&gateway, question).await;
        assert_eq!(
            (status, &response["error"]["code"]),
            (400, &json!("invalid_request")),
            "{question} {response}"
        );
        assert!(!response.to_string().contains("canary"), "{question} {response}");
    }
    // Not on the data port, and not to a provider either.
    let url = format!("{}/v1/explain", gateway.data_url());
    let call = client().post(url).header("x-gateway-api-key", KEY).header("x-gateway-provider", "@emulator");
    let text = call.body("{}").send().await.unwrap().text().await.unwrap();
    assert!(text.contains("control port only"), "{text}");
}

#[tokio::test]
async fn a_condition_is_held_against_metadata_and_headers() {
    let gateway = gateway();
    let config = json!({
        "strategy": {"mode": "conditional", "default": "cheap", "conditions": [
            {"query": {"metadata.plan": {"$eq": "canary-paid"}}, "then": "good"},
            {"query": {"headers.x-note": {"$regex": "^canary"}}, "then": "noted"}]},
        "targets": [{"name": "cheap", "provider": "@emulator"}, {"name": "good", "provider": "@emulator"},
                    {"name": "noted", "provider": "@emulator"}],
    });
    for (metadata, note, index, why, expected_notes) in [
        (json!({"plan": "canary-paid"}), "canary", 1, "condition", "condition 0 holds: metadata.plan $eq"),
        (json!({"plan": "free"}), "canary", 2, "condition", "condition 1 holds: headers.x-note $regex"),
        (json!({"plan": "free"}), "none", 0, "default", "no condition holds"),
    ] {
        let mut question = chat(&config);
        question["headers"]["x-gateway-metadata"] = metadata;
        question["headers"]["x-note"] = json!(note);
        let response = explained(&gateway, &question).await;
        let first = &response["first"];
        assert_eq!(
            (&first["index"], &first["why"]),
            (&json!(format!("config.targets[{index}]")), &json!(why))
        );
        assert!(first["because"][0].as_str().unwrap().ends_with(expected_notes), "{response}");
    }
}

/// Explain reads the state of the running process and does not change it.
#[tokio::test]
async fn an_open_breaker_is_shown_and_explain_has_no_side_effects() {
    let gateway = Gateway::start(STANDARD);
    let config = json!({
        "strategy": {"mode": "fallback"}, "cb_config": {"failure_threshold": 1, "cooldown_interval": 60_000},
        "targets": [{"provider": "@emulator", "override_params": {"model": "first?status=503"}}, {"provider": "@anthropic-emulator"}],
    });
    let before = explained(&gateway, &chat(&config)).await;
    assert_eq!(before["tree"]["targets"][0]["breaker"]["state"], "closed", "{before}");
    assert_eq!(before["first"]["index"], "config.targets[0]", "{before}");
    let targets = async || gateway.read("/v1/targets").await;
    assert_eq!(targets().await, json!({"targets": [], "drained": []}), "explain created a target state");

    // One failure of the first target opens its circuit.
    let url = format!("{}/chat/completions", gateway.base_url());
    let call =
        client().post(url).header("x-gateway-api-key", KEY).header("x-gateway-config", config.to_string());
    let call = call.json(&chat(&config)["body"]);
    let _second_response = call.send().await.unwrap().bytes().await.unwrap();
    let opened = async || {
        let targets = targets().await;
        targets["targets"].as_array()?.iter().any(|target| target["state"] == "open").then_some(())
    };
    until("the breaker to open", opened).await;
    let after = explained(&gateway, &chat(&config)).await;
    assert_eq!(after["tree"]["targets"][0]["breaker"]["state"], "open", "{after}");
    let first = &after["first"];
    assert_eq!(first["index"], "config.targets[1]", "{after}");
    assert!(first["because"][0].as_str().unwrap().contains("config.targets[0] skipped"), "{after}");
}

#[test]
fn the_command_prints_the_same_and_exits_1_on_problems() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("turnpike.yaml"), STANDARD.replace("EMULATOR_PORT", "1")).unwrap();
    let run = |question: &str, arguments: &[&str]| {
        std::fs::write(path("question.json"), question).unwrap();
        let command = ["explain", "-c", &path("turnpike.yaml"), "--request", &path("question.json")];
        turnpike(&[&command, arguments].concat())
    };
    let good = run(&chat(&json!("cf-fallback")).to_string(), &["--json"]);
    let response: Value = serde_json::from_str(&good.stdout).unwrap_or_else(|_| panic!("{good:?}"));
    assert_eq!((good.code, &response["first"]["index"]), (Some(0), &json!("config.targets[0]")), "{good:?}");
    assert!(good.stdout.starts_with("{\n  \"caller\": \"tests\""), "{good:?}");
    assert!(!good.stdout.contains(PROVIDER_KEY) && !good.stdout.contains("canary"), "{good:?}");

    let summary = run(&chat(&json!("cf-fallback")).to_string(), &[]);
    assert_eq!(summary.code, Some(0), "{summary:?}");
    let lines: Vec<&str> = summary.stdout.lines().collect();
    for (line, expected) in lines.iter().zip([
        "request   chat from tests",
        "config    cf-fallback",
        "first     config.targets[0] is @emulator (openai): ",
        "sent      /v1/chat/completions, the body as it is; the response is passed on",
        "failures  429, 500, ",
    ]) {
        assert!(line.starts_with(expected), "{expected} is not the start of {line}");
    }
    assert!(lines[4].contains(": config.targets[1]"), "{summary:?}");
    assert_eq!(lines.len(), 5, "{summary:?}");

    let wrong = chat(&json!({"retry": {"attempts": -1}})).to_string();
    let bad = run(&wrong, &["--json"]);
    assert_eq!(bad.code, Some(1), "{bad:?}");
    assert!(bad.stdout.contains("\"retry.attempts\""), "{bad:?}");
    let bad = run(&wrong, &[]);
    assert_eq!((bad.code, bad.stdout.lines().count()), (Some(1), 6), "{bad:?}");
    assert!(bad.stdout.contains("problem   400 retry.attempts: "), "{bad:?}");
    let unread = run("{", &[]);
    assert!(
        unread.code == Some(1) && unread.stdout.is_empty() && unread.stderr.contains("JSON"),
        "{unread:?}"
    );
    let missing = turnpike(&["explain", "-c", &path("turnpike.yaml"), "--request", &path("nothing.json")]);
    assert!(missing.code == Some(1) && missing.stderr.contains("nothing.json"), "{missing:?}");
}

#[test]
fn the_command_needs_none_of_the_services_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let settings = "listen: {data: [127.0.0.1:1], control: 127.0.0.1:2}\nproviders:\n  \
                    main: {provider: openai, api_key: 'credential:openai'}\n  \
                    other: {provider: anthropic, api_key: '${NO_SUCH_VARIABLE}'}\n";
    std::fs::write(path("turnpike.yaml"), settings).unwrap();
    let config =
        json!({"strategy": {"mode": "fallback"}, "targets": [{"provider": "@main"}, {"provider": "@other"}]});
    std::fs::write(path("question.json"), chat(&config).to_string()).unwrap();
    let explain =
        || turnpike(&["explain", "-c", &path("turnpike.yaml"), "--request", &path("question.json")]);
    let done = explain();
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stdout.contains("first     config.targets[0] is @main (openai)"), "{done:?}");
    for expected in ["without these values", "turnpike.yaml:3:37: providers.main.api_key", "NO_SUCH_VARIABLE"]
    {
        assert!(done.stderr.contains(expected), "{expected}: {done:?}");
    }
    // What is wrong with the file itself is not forgiven.
    std::fs::write(path("turnpike.yaml"), format!("{settings}colour: red\n")).unwrap();
    let refused = explain();
    assert!(refused.code == Some(1) && refused.stderr.contains("colour: unknown key"), "{refused:?}");
    assert!(!refused.stderr.contains("credential:openai"), "{refused:?}");
}

/// What each limit decides, by whose it is: `request usage passes 0`, the last being what was spent.
fn decisions(response: &Value) -> Vec<String> {
    let limits = response["limits"].as_array().unwrap_or_else(|| panic!("{response}"));
    let text = |limit: &Value, name: &str| limit[name].as_str().unwrap().to_owned();
    let line = |limit: &Value| {
        let names = ["of", "kind", "decision"].map(|name| text(limit, name));
        format!("{} {}", names.join(" "), limit["spent"].as_f64().unwrap())
    };
    let mut found: Vec<String> = limits.iter().map(line).collect();
    found.sort();
    found
}

/// Two usage limits for each user, one of them hard, and a rate limit for each provider. Returns the id of the first.
async fn limited(gateway: &Gateway) -> String {
    let policy = |key: &str, of: &str, more: Value| {
        let mut policy =
            json!({"conditions": [{"key": key, "value": "*"}], "group_by": [{"key": key}], "type": of});
        policy.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        policy
    };
    let usage = policy("metadata._user", "requests", json!({"credit_limit": 2, "name": "each user"}));
    let hard = policy("metadata._user", "tokens", json!({"credit_limit": 1_000_000, "hard": true}));
    gateway.create(USAGE, &hard).await;
    let rate = policy("virtual_key", "requests", json!({"unit": "rpd", "value": 2}));
    gateway.create(RATES, &rate).await;
    gateway.create(USAGE, &usage).await["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn limits_are_judged_and_nothing_is_held() {
    on_each_store(async || {
        let shared = if is_postgres() { "limits: {shared: store}\n" } else { "" };
        let gateway = Gateway::start(&format!("{STANDARD}{shared}"));
        let usage = limited(&gateway).await;
        let mut question = chat(&json!({"provider": "@emulator"}));
        let plain = explained(&gateway, &question).await;
        assert_eq!(decisions(&plain), ["target rate passes 0"], "{plain}");
        question["headers"]["x-gateway-metadata"] = json!({"_user": "ann"});
        question["body"]["max_completion_tokens"] = json!(50);
        for _ in 0..3 {
            let free = explained(&gateway, &question).await;
            let wanted = ["request usage passes 0", "request usage passes 0", "target rate passes 0"];
            assert_eq!(
                (decisions(&free), &free["problems"]),
                (wanted.map(str::to_owned).to_vec(), &json!([]))
            );
            let of_tokens = free["limits"].as_array().unwrap().iter().find(|limit| limit["type"] == "tokens");
            assert!(of_tokens.unwrap()["wanted"].as_f64() > Some(50.0), "{free}");
        }
        // Without a bound, a hard limit cannot be kept.
        question["body"].as_object_mut().unwrap().remove("max_completion_tokens");
        let unbounded = explained(&gateway, &question).await;
        assert_eq!(unbounded["problems"][0]["status"], 412, "{unbounded}");
        assert!(decisions(&unbounded).contains(&"request usage no_bound 0".to_owned()), "{unbounded}");
        question["body"]["max_completion_tokens"] = json!(50);
        let mut body = hello(false);
        body["max_completion_tokens"] = json!(50);
        let send = async || {
            let call = client::chat(&gateway, &new_trace(), &body);
            let call = call.header("x-gateway-metadata", r#"{"_user":"ann"}"#);
            let response =
                call.header("x-gateway-config", r#"{"provider":"@emulator"}"#).send().await.unwrap();
            (response.status().as_u16(), response.json::<Value>().await.unwrap())
        };
        assert_eq!((send().await.0, send().await.0), (200, 200));
        // Until the second one has ended, what it may use is reserved: another refusal.
        let (status, refused) =
            until("the counters", async || Some(send().await).filter(|(status, _)| *status != 429)).await;
        let spent = until("the counters", async || {
            let response = explained(&gateway, &question).await;
            decisions(&response).contains(&"request usage spent 2".to_owned()).then_some(response)
        })
        .await;
        let problem = json!({"status": status, "path": "", "message": refused["error"]["message"]});
        assert_eq!(spent["problems"], json!([problem]), "as the data port says it");
        assert!(decisions(&spent).contains(&"target rate rate 2".to_owned()), "{spent}");
        let of_requests =
            spent["limits"].as_array().unwrap().iter().find(|limit| limit["id"] == usage).unwrap();
        assert_eq!(
            (&of_requests["name"], &of_requests["value_key"], &of_requests["held"], &of_requests["limit"]),
            (&json!("each user"), &json!("metadata._user:ann"), &json!(0.0), &json!(2.0)),
        );
    })
    .await;
}

#[tokio::test]
async fn what_a_limit_groups_by_may_be_demanded_and_amounts_are_not_for_everybody() {
    let gateway = Gateway::start(STANDARD);
    let rate = json!({
        "conditions": [{"key": "api_key", "value": "*"}], "group_by": [{"key": "metadata.team"}], "type": "requests",
        "unit": "rpd", "value": 2, "on_missing": "deny",
    });
    gateway.create(RATES, &rate).await;
    let mut question = chat(&json!({"provider": "@emulator"}));
    let response = explained(&gateway, &question).await;
    assert_eq!(response["problems"][0]["status"], 400, "{response}");
    assert_eq!(response["problems"][0]["path"], "metadata.team", "{response}");
    question["headers"]["x-gateway-metadata"] = json!({"team": "a"});
    let key = json!({"name": "reader", "scopes": ["explain.read"]});
    let made =
        gateway.control(Method::POST, "/v1/api-keys/organisation/service").json(&key).send().await.unwrap();
    let made: Value = made.json().await.unwrap();
    let call = client().post(format!("{}/v1/explain", gateway.control_url())).json(&question);
    let call = call.header("x-gateway-api-key", made["key"].as_str().unwrap_or_else(|| panic!("{made}")));
    let response: Value = call.send().await.unwrap().json().await.unwrap();
    let limit = response["limits"][0].as_object().unwrap_or_else(|| panic!("{response}"));
    assert_eq!((&limit["decision"], &limit["scope"]), (&json!("passes"), &json!("policy")), "{response}");
    for amount in ["spent", "held", "limit", "wanted", "value_key"] {
        assert!(!limit.contains_key(amount), "{response}");
    }
}

#[tokio::test]
async fn the_cache_is_looked_into_and_its_key_is_shown() {
    let gateway = Gateway::start(STANDARD);
    let config = json!({"provider": "@emulator", "cache": {"mode": "simple"}});
    let preview = async |config: &Value, more: Value| {
        let mut question = chat(config);
        question["headers"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        explained(&gateway, &question).await["cache"].clone()
    };
    let before = preview(&config, json!({})).await;
    assert_eq!((&before["status"], &before["mode"]), (&json!("MISS"), &json!("simple")), "{before}");
    assert_eq!(preview(&config, json!({})).await, before, "a question changes nothing");
    let trace = new_trace();
    let question = chat(&config);
    let call = client().post(format!("{}/chat/completions", gateway.base_url()));
    let call = call.header("x-gateway-api-key", KEY).header("x-gateway-config", config.to_string());
    let call = call.header("x-note", "canary-header");
    let response = call.header("x-gateway-trace-id", &trace).json(&question["body"]).send().await.unwrap();
    assert_eq!(response.headers()["x-gateway-cache-status"], "MISS");
    response.text().await.unwrap();
    let key = gateway.access_line(&trace).await["cache"]["key"].clone();
    assert_eq!(before["key"], key);
    let after = preview(&config, json!({})).await;
    assert_eq!(
        (&after["status"], &after["key"], after["age"].is_u64()),
        (&json!("HIT"), &key, true),
        "{after}"
    );
    let refreshed = preview(&config, json!({"x-gateway-cache-force-refresh": "true"})).await;
    assert_eq!((&refreshed["status"], &refreshed["key"]), (&json!("REFRESH"), &key));
    let named = preview(&config, json!({"x-gateway-cache-namespace": "n"})).await;
    assert!(named["status"] == "MISS" && named["key"] != key, "{named}");
    assert_eq!(preview(&json!({"provider": "@emulator"}), json!({})).await, Value::Null);
}
