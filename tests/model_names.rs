//! Names of `models`: taken as `model` in every dialect, for those who may use them, listed, explained and logged.
//!
//! Not what each name becomes (`route::model_names`), and not the lists of providers (`models`).

use crate::support::Gateway;
use crate::support::client::{client, new_trace};
use crate::support::settings::{KEY, OTHER_KEY, STANDARD};
use crate::support::wait::until;
use reqwest::multipart::{Form, Part};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use std::sync::OnceLock;

/// A key that may use some models.
const SOME: &str = "tp-some-0123456789";

const MODELS: &str = "
models:
  fast: '@emulator/gpt-4o-mini'
  claude-*: '@anthropic-emulator'
  'vendor/*': '@emulator/*'
  smart: cf-single
  reserved: {to: '@emulator/x', keys: [others]}
  vectors: {to: '@emulator/emulator-embedding', operations: [embeddings]}
";

fn settings() -> String {
    let key = format!(
        "    - {{name: some, key: {SOME}, allowed_models: [fast, 'gpt-4o*', '@anthropic-emulator/*']}}\n"
    );
    let yaml = STANDARD.replacen("providers:\n", &format!("{key}providers:\n"), 1);
    format!("{yaml}{MODELS}")
}

fn gateway() -> &'static Gateway {
    static GATEWAY: OnceLock<Gateway> = OnceLock::new();
    GATEWAY.get_or_init(|| Gateway::start(&settings()))
}

fn post(gateway: &Gateway, path: &str, key: &str) -> RequestBuilder {
    client().post(format!("{}{path}", gateway.data_url())).header("x-gateway-api-key", key)
}

/// Status, body, and what reached the provider.
async fn sent(gateway: &Gateway, call: RequestBuilder) -> (u16, Value, Vec<Value>) {
    let tag = new_trace();
    let response = call.header("x-emulator-tag", &tag).send().await.unwrap();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
    if matches!(status, 403 | 404) {
        // Nothing to wait for.
        let url = format!("{}/_emulator/requests?tag={tag}", gateway.emulator_url());
        return (status, body, client().get(url).send().await.unwrap().json().await.unwrap());
    }
    (status, body, gateway.emulator_requests(&tag).await)
}

fn chat(model: &str) -> Value {
    json!({"model": model, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 20})
}

#[tokio::test]
async fn a_name_is_taken_in_every_dialect() {
    let gateway = gateway();
    let contents = json!({"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]});
    for (path, body) in [
        ("/v1/chat/completions", chat("fast")),
        ("/v1/messages", chat("fast")),
        ("/v1/responses", json!({"model": "fast", "input": "Hi"})),
        ("/v1/completions", json!({"model": "fast", "prompt": "Hi"})),
        ("/v1/embeddings", json!({"model": "fast", "input": "Hi"})),
        ("/v1/images/generations", json!({"model": "fast", "prompt": "Hi"})),
        ("/v1/audio/speech", json!({"model": "fast", "input": "Hi", "voice": "alloy"})),
        ("/v1/moderations", json!({"model": "fast", "input": "Hi"})),
        ("/v1beta/models/fast:generateContent", contents.clone()),
        ("/v1beta/models/vendor%2Fgpt-4o-mini:generateContent", contents),
        (
            "/openai/deployments/fast/chat/completions?api-version=2024-06-01",
            json!({"messages": [{"role": "user", "content": "Hi"}]}),
        ),
        ("/v1/proxy/chat/completions", chat("fast")),
        ("/v1/chat/completions", chat("vendor/gpt-4o-mini")),
    ] {
        let (status, answer, requests) = sent(gateway, post(gateway, path, KEY).json(&body)).await;
        assert_eq!(requests.len(), 1, "{path} {status} {answer}");
        let sent: Value = serde_json::from_str(requests[0]["body"].as_str().unwrap()).unwrap();
        assert_eq!(sent["model"], "gpt-4o-mini", "{path} {status} {answer}");
    }
}

#[tokio::test]
async fn a_form_may_name_a_model() {
    let gateway = gateway();
    for (key, model, wanted) in [
        (KEY, "fast", Some("gpt-4o-mini")),
        (SOME, "fast", Some("gpt-4o-mini")),
        (SOME, "vendor/x", None),
        (KEY, "reserved", None),
    ] {
        let file = Part::bytes(b"RIFF".to_vec()).file_name("a.wav");
        let form = Form::new().part("file", file).text("model", model);
        let call = post(gateway, "/v1/audio/transcriptions", key).multipart(form);
        let (status, answer, requests) = sent(gateway, call).await;
        let got = requests.first().and_then(|request| request["body"].as_str());
        match wanted {
            Some(wanted) => {
                let body = got.unwrap_or_else(|| panic!("{model} {status} {answer}"));
                assert!(body.contains(wanted) && !body.contains("fast"), "{body}");
            }
            None => assert_eq!((status, got), (403, None), "{model} {answer}"),
        }
    }
    // A provider that is named otherwise gets the form as it is; for a key that may use some models it is judged.
    for (key, status) in [(KEY, 200), (SOME, 403)] {
        let file = Part::bytes(b"RIFF".to_vec()).file_name("a.wav");
        let form = Form::new().part("file", file).text("model", "whisper-1");
        let call = post(gateway, "/v1/audio/transcriptions", key).multipart(form);
        let got = sent(gateway, call.header("x-gateway-provider", "@emulator")).await;
        assert_eq!((got.0, got.2.len()), (status, usize::from(status == 200)), "{}", got.1);
    }
}

#[tokio::test]
async fn an_unknown_name_is_a_404_that_names_near_ones() {
    let gateway = gateway();
    let (status, body, requests) =
        sent(gateway, post(gateway, "/v1/chat/completions", KEY).json(&chat("fasst"))).await;
    let error = &body["error"];
    assert_eq!((status, &error["code"], &error["param"]), (404, &json!("model_not_found"), &json!("model")));
    assert!(error["message"].as_str().unwrap().contains("Did you mean fast?"), "{body}");
    assert!(requests.is_empty());
    let messages = post(gateway, "/v1/messages", KEY).json(&chat("fasst"));
    let (status, body, _) = sent(gateway, messages).await;
    assert_eq!(
        (status, &body["type"], &body["error"]["type"]),
        (404, &json!("error"), &json!("not_found_error"))
    );
    let gemini = post(gateway, "/v1beta/models/fasst:generateContent", KEY);
    let (status, body, _) =
        sent(gateway, gemini.json(&json!({"contents": [{"parts": [{"text": "Hi"}]}]}))).await;
    assert_eq!(
        (status, &body["error"]["code"], &body["error"]["status"]),
        (404, &json!(404), &json!("NOT_FOUND"))
    );
    // Neither a name of other keys nor one that this key may not use.
    let (_, body, _) =
        sent(gateway, post(gateway, "/v1/chat/completions", KEY).json(&chat("reservedd"))).await;
    assert!(!body.to_string().contains("Did you mean"), "{body}");
    let (_, body, _) = sent(gateway, post(gateway, "/v1/chat/completions", SOME).json(&chat("smartt"))).await;
    assert!(!body.to_string().contains("Did you mean"), "{body}");
    // A provider that is named otherwise gets any name.
    let named = post(gateway, "/v1/chat/completions", KEY).header("x-gateway-provider", "@emulator");
    assert_eq!(sent(gateway, named.json(&chat("fasst"))).await.0, 200);
}

#[tokio::test]
async fn who_may_not_use_a_model_sends_nothing() {
    let gateway = gateway();
    let inline = r#"{"provider":"@emulator","override_params":{"model":"o9"}}"#;
    let second = r#"{"strategy":{"mode":"fallback"},"targets":[{"provider":"@emulator","override_params":{"model":"gpt-4o?status=500"}},
        {"provider":"@emulator","override_params":{"model":"o9"}}]}"#;
    for (key, model, config, status, count) in [
        (KEY, "reserved", None, 403, 0),
        (OTHER_KEY, "reserved", None, 200, 1),
        (KEY, "vectors", None, 403, 0),
        (SOME, "fast", None, 200, 1),
        (SOME, "smart", None, 403, 0),
        (SOME, "@anthropic-emulator/claude-x", None, 200, 1),
        (SOME, "claude-x", None, 200, 1),
        (SOME, "@emulator/o9", None, 403, 0),
        (SOME, "gpt-4o", Some(inline), 403, 0),
        // The first target fails; the second is never called.
        (SOME, "gpt-4o", Some(second), 500, 1),
    ] {
        let call = post(gateway, "/v1/chat/completions", key).json(&chat(model));
        let call = config
            .into_iter()
            .fold(call, |call, config| call.header("x-gateway-config", config.replace('\n', "")));
        let (got, body, requests) = sent(gateway, call).await;
        assert_eq!(requests.len(), count, "{model} {config:?} {body}");
        assert_eq!(got, status, "{model} {config:?} {body}");
        if got == 403 {
            assert_eq!(body["error"]["code"], "model_forbidden", "{body}");
        }
    }
    let messages = post(gateway, "/v1/messages", SOME).json(&chat("smart"));
    let (status, body, _) = sent(gateway, messages).await;
    assert_eq!((status, &body["error"]["type"]), (403, &json!("permission_error")));
}

async fn listed(gateway: &Gateway, key: &str) -> Vec<Value> {
    let call = client().get(format!("{}/models", gateway.base_url())).header("x-gateway-api-key", key);
    let list: Value = call.send().await.unwrap().json().await.unwrap();
    list["data"].as_array().unwrap().clone()
}

#[tokio::test]
async fn names_are_listed_for_those_who_may_use_them() {
    let gateway = gateway();
    let ids = |list: &[Value]| {
        list.iter().map(|model| model["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let all = listed(gateway, KEY).await;
    let names = ids(&all);
    for name in ["fast", "smart", "vendor/emulator-mini", "@emulator/emulator"] {
        assert!(names.iter().any(|listed| listed == name), "{name} {names:?}");
    }
    assert!(!names.iter().any(|name| name == "reserved" || name.contains('*')), "{names:?}");
    assert!(ids(&listed(gateway, OTHER_KEY).await).contains(&"reserved".to_owned()));
    let some = ids(&listed(gateway, SOME).await);
    assert!(some.contains(&"fast".to_owned()) && !some.contains(&"smart".to_owned()), "{some:?}");
    assert!(some.iter().all(|name| name == "fast" || name.starts_with("@anthropic-emulator/")), "{some:?}");
    // The catalogue knows what it stands for.
    let fast = all.iter().find(|model| model["id"] == "fast").unwrap();
    assert_eq!(
        (&fast["context_window"], &fast["prices"]["input"]),
        (&json!(128_000), &json!(0.15)),
        "{fast}"
    );
    assert_eq!((&fast["owned_by"], &fast["provider"]), (&json!("openai"), &json!("emulator")));
    let one = |name: &str, version: Option<&'static str>| {
        let call =
            client().get(format!("{}/models/{name}", gateway.base_url())).header("x-gateway-api-key", KEY);
        let call = version.into_iter().fold(call, |call, version| call.header("anthropic-version", version));
        async move {
            let response = call.send().await.unwrap();
            (response.status().as_u16(), response.json::<Value>().await.unwrap())
        }
    };
    let (status, model) = one("vendor/emulator-mini", None).await;
    assert_eq!((status, &model["id"]), (200, &json!("vendor/emulator-mini")));
    let (_, model) = one("fast", Some("2023-06-01")).await;
    assert_eq!((&model["type"], &model["max_input_tokens"]), (&json!("model"), &json!(128_000)), "{model}");
    assert_eq!(one("reserved", None).await.0, 404);
}

#[tokio::test]
async fn a_default_config_that_replaces_the_model_is_warned_of() {
    let yaml = settings().replacen(
        "configs:\n",
        "configs:\n  cf-demo: {provider: '@emulator', override_params: {model: demo}}\n",
        1,
    );
    let gateway = Gateway::start(&format!("{yaml}default_config: cf-demo\n"));
    let call = async |model: &str| {
        let call = post(&gateway, "/v1/chat/completions", KEY).json(&chat(model));
        let response = call.send().await.unwrap();
        assert_eq!(response.status(), 200);
        response.headers().get("x-gateway-warnings").map(|value| value.to_str().unwrap().to_owned())
    };
    let warning = call("gpt-4o").await.unwrap_or_default();
    assert!(warning.contains("the default config has replaced the model"), "{warning}");
    assert_eq!(call("demo").await, None);
    assert_eq!(call("fast").await, None, "a name counts before the default config");
}

#[tokio::test]
async fn explain_log_and_analytics_have_what_a_name_became() {
    let gateway = gateway();
    let question = json!({"headers": {"x-gateway-api-key": KEY}, "body": chat("vendor/demo")});
    let explained: Value = gateway
        .control(Method::POST, "/v1/explain")
        .json(&question)
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(explained["requested_model"], "vendor/demo", "{explained}");
    assert_eq!(explained["request"]["model"], "demo", "{explained}");
    let smart = json!({"headers": {"x-gateway-api-key": KEY}, "body": chat("smart")});
    let explained: Value =
        gateway.control(Method::POST, "/v1/explain").json(&smart).send().await.unwrap().json().await.unwrap();
    assert_eq!(explained["config"], "cf-single", "{explained}");
    let trace = new_trace();
    let call = post(gateway, "/v1/chat/completions", KEY).header("x-gateway-trace-id", &trace);
    assert_eq!(sent(gateway, call.json(&chat("vendor/demo"))).await.0, 200);
    let line = gateway.access_line(&trace).await;
    assert_eq!((&line["requested_model"], &line["model"]), (&json!("vendor/demo"), &json!("demo")), "{line}");
    let row = until("the log", async || {
        let found = gateway.read(&format!("/v1/logs?trace_id={trace}")).await;
        found["data"].get(0).cloned()
    })
    .await;
    assert_eq!((&row["requested_model"], &row["ai_model"]), (&json!("vendor/demo"), &json!("demo")), "{row}");
    let now = jiff::Timestamp::now();
    let hour = jiff::SignedDuration::from_hours(1);
    let range = format!("time_of_generation_min={}&time_of_generation_max={}", now - hour, now + hour);
    let groups = gateway.read(&format!("/v1/analytics/groups/requested_model?{range}")).await;
    let names: Vec<&Value> =
        groups["data"].as_array().unwrap().iter().map(|group| &group["requested_model"]).collect();
    assert!(names.contains(&&json!("vendor/demo")), "{groups}");
}

#[tokio::test]
async fn stored_names_belong_to_their_workspace() {
    let gateway = Gateway::start(&settings());
    let workspace = async |name: &str| {
        let made = gateway.create("/v1/admin/workspaces", &json!({"name": name, "slug": name})).await;
        let id = made["id"].as_str().unwrap().to_owned();
        let body = json!({"name": name, "workspace_id": id, "scopes": ["completions.write", "configs.create", "configs.update", "configs.delete"], "allowed_models": ["team-*"]});
        let key = gateway.create("/v1/api-keys/workspace/service", &body).await;
        (id, key["key"].as_str().unwrap().to_owned(), key["id"].as_str().unwrap().to_owned())
    };
    let (red_id, red, red_key) = workspace("red").await;
    let (_, blue, _) = workspace("blue").await;
    let to = json!({"provider": "@emulator", "override_params": {"model": "demo"}});
    let entry = json!({"name": "team-model", "to": to, "workspace_id": red_id});
    let made = gateway.create("/v1/model-names", &entry).await;
    let slug = made["slug"].as_str().unwrap();
    let model = async |key: &str, model: &str| {
        let (status, _, requests) =
            sent(&gateway, post(&gateway, "/v1/chat/completions", key).json(&chat(model))).await;
        let body = requests
            .first()
            .and_then(|request| serde_json::from_str::<Value>(request["body"].as_str()?).ok());
        (status, body.map(|body| body["model"].clone()))
    };
    assert_eq!(model(&red, "team-model").await, (200, Some(json!("demo"))));
    for (method, path, body) in [
        (Method::POST, "/v1/model-names".to_owned(), json!({"name": "team-x", "to": "@emulator/o9"})),
        (Method::PUT, format!("/v1/model-names/{slug}"), json!({"to": "@emulator/o9"})),
        (Method::DELETE, format!("/v1/model-names/{slug}"), json!({})),
    ] {
        let url = format!("{}{path}", gateway.control_url());
        let call = client().request(method, url).header("x-gateway-api-key", &red).json(&body);
        assert_eq!(call.send().await.unwrap().status(), 403, "its list would mean nothing: {path}");
    }
    assert_eq!(model(&blue, "team-model").await, (404, None));
    assert_eq!(model(&red, "fast").await, (403, None), "the key may use its team's names only");
    let names: Vec<Value> = listed(&gateway, &red).await.iter().map(|model| model["id"].clone()).collect();
    assert_eq!(names, [json!("team-model")]);
    let again = gateway.control(Method::POST, "/v1/model-names").json(&entry).send().await.unwrap();
    assert_eq!(again.status(), 409);
    for (body, wanted) in [
        (json!({"name": "a b", "to": "@emulator/m"}), "without spaces"),
        (json!({"name": "a", "to": "@nobody/m"}), "to"),
        (json!({"name": "a", "to": "no-config"}), "to"),
        (json!({"name": "a", "to": {"provider": "@nobody"}}), "to.provider"),
        (json!({"name": "a", "to": "@emulator/*"}), "nothing that it stands for"),
    ] {
        let refused = gateway.control(Method::POST, "/v1/model-names").json(&body).send().await.unwrap();
        assert_eq!(refused.status(), 400, "{body}");
        let text = refused.text().await.unwrap();
        assert!(text.contains(wanted), "{body} {text}");
    }
    let change = gateway.control(Method::PUT, &format!("/v1/model-names/{slug}?workspace_id={red_id}"));
    assert_eq!(change.json(&json!({"to": "@emulator/gpt-4o-mini"})).send().await.unwrap().status(), 200);
    assert_eq!(model(&red, "team-model").await, (200, Some(json!("gpt-4o-mini"))));
    let shown = gateway.read(&format!("/v1/model-names/{slug}?workspace_id={red_id}")).await;
    assert_eq!((&shown["name"], &shown["to"]), (&json!("team-model"), &json!("@emulator/gpt-4o-mini")));
    let list = gateway.read(&format!("/v1/model-names?workspace_id={red_id}")).await;
    assert!(
        list["data"]
            .as_array()
            .unwrap()
            .iter()
            .any(|item| item["name"] == "fast" && item["origin"] == "settings"),
        "{list}"
    );
    let key = gateway.read(&format!("/v1/api-keys/{red_key}")).await;
    assert_eq!(key["allowed_models"], json!(["team-*"]));
    let change = gateway
        .control(Method::PUT, &format!("/v1/api-keys/{red_key}"))
        .json(&json!({"allowed_models": null}));
    assert_eq!(change.send().await.unwrap().status(), 200);
    assert_eq!(model(&red, "fast").await.0, 200);
    let delete = gateway.control(Method::DELETE, &format!("/v1/model-names/{slug}?workspace_id={red_id}"));
    assert_eq!(delete.send().await.unwrap().status(), 200);
    assert_eq!(model(&red, "team-model").await.0, 404);
}

#[tokio::test]
async fn a_stored_provider_may_be_for_some_models() {
    let gateway = Gateway::start(&settings());
    let url = format!("{}/v1", gateway.emulator_url());
    let body = json!({"name": "v", "slug": "v", "provider": "openai", "key": "sk-emulator-0123456789", "customHost": url, "allowed_models": ["gpt-4o*"]});
    gateway.create("/v1/virtual-keys", &body).await;
    let status = async |model: &str| {
        sent(&gateway, post(&gateway, "/v1/chat/completions", KEY).json(&chat(model))).await.0
    };
    assert_eq!(status("@v/gpt-4o-mini").await, 200);
    assert_eq!(status("@v/o9").await, 403);
    let shown = gateway.read("/v1/virtual-keys/v").await;
    assert_eq!(shown["allowed_models"], json!(["gpt-4o*"]), "{shown}");
}
