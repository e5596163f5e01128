//! Which provider a request goes to, and by which config: headers, saved ids, slugs, defaults.
//!
//! Not provider keys (`service_keys`) nor custom hosts (`custom_hosts`).

use crate::support::client::{client, hello, new_trace};
use crate::support::gateway;
use crate::support::gateway::Gateway;
use crate::support::settings::{KEY, PROVIDER_KEY, STANDARD};
use crate::support::wait::until;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

fn post(gateway: &Gateway, body: &Value) -> RequestBuilder {
    let call = client().post(format!("{}/chat/completions", gateway.base_url()));
    call.header("x-gateway-api-key", KEY).json(body)
}

async fn problem(call: RequestBuilder) -> (u16, Value) {
    let response = call.send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

#[tokio::test]
async fn every_form_of_provider_name_is_resolved() {
    let gateway = gateway();
    let by_model = json!({"model": "@emulator/gpt-4o-mini", "messages": [{"role": "user", "content": "Hi"}]});
    let by_override = r#"{"retry": {"attempts": 1}, "override_params": {"model": "@emulator/gpt-4o-mini"}}"#;
    let hello = &hello(false);
    let rows = [
        ("slug", Some(("x-gateway-provider", "@emulator")), hello, "config"),
        ("slug and model", Some(("x-gateway-provider", "@emulator/gpt-4o")), hello, "config"),
        ("virtual key", Some(("x-gateway-virtual-key", "emulator")), hello, "config"),
        (
            "inline",
            Some(("x-gateway-config", r#"{"provider": "@emulator", "retry": {"attempts": 1}}"#)),
            hello,
            "config",
        ),
        ("inline key", Some(("x-gateway-config", r#"{"virtual_key": "emulator"}"#)), hello, "config"),
        ("saved", Some(("x-gateway-config", "cf-emulator")), hello, "config"),
        ("single", Some(("x-gateway-config", "cf-single")), hello, "config.targets[0]"),
        ("model", None, &by_model, "config"),
        ("override", Some(("x-gateway-config", by_override)), hello, "config"),
    ];
    for (what, header, body, index) in rows {
        let tag = new_trace();
        let call = post(&gateway, body).header("x-emulator-tag", &tag);
        let call = header.into_iter().fold(call, |call, (name, value)| call.header(name, value));
        let response = call.send().await.unwrap();
        let status = response.status();
        let given = response.headers().get("x-gateway-last-used-option-index").cloned();
        assert_eq!(status, 200, "{what}: {}", response.text().await.unwrap());
        assert_eq!(given.unwrap(), index, "{what}");
        let requests = gateway.emulator_requests(&tag).await;
        assert!(requests[0].to_string().contains(PROVIDER_KEY), "{what} {requests:?}");
        let sent: Value = serde_json::from_str(requests[0]["body"].as_str().unwrap()).unwrap();
        assert_eq!(sent["model"], "gpt-4o-mini", "{what}");
    }
}

#[tokio::test]
async fn requests_without_a_provider_are_refused_with_advice() {
    let gateway = gateway();
    // header, what the message contains, param
    let rows = [
        (None, "There is no model", "model"),
        (Some(("x-gateway-provider", "@nobody")), "nobody", "x-gateway-provider"),
        (Some(("x-gateway-provider", "opnai")), "opnai", "x-gateway-provider"),
        (Some(("x-gateway-virtual-key", "nobody")), "nobody", "x-gateway-provider"),
        (Some(("x-gateway-config", "cf-nobody")), "cf-nobody", "x-gateway-config"),
        (Some(("x-gateway-config", "{\"provider\": ")), "Invalid config", "x-gateway-config"),
        (
            Some(("x-gateway-config", "{\"retry\": {\"attempts\": 1}}")),
            "No provider was named",
            "x-gateway-provider",
        ),
        (Some(("x-gateway-provider", "openai")), "key", "authorization"),
    ];
    for (header, expected, _param) in rows {
        let call = post(&gateway, &hello(false));
        let call = header.into_iter().fold(call, |call, (name, value)| call.header(name, value));
        let (status, body) = problem(call).await;
        let message = body["error"]["message"].as_str().unwrap_or_default();
        assert!(
            [400, 401, 404].contains(&status) && message.contains(expected),
            "{header:?} {status} {body}"
        );
        assert_eq!(status == 404, header.is_none(), "{header:?} {body}");
        assert_eq!(status == 401, expected == "key", "{header:?} {body}");
        assert!(body["error"]["param"].is_string(), "{header:?} {body}");
    }
}

#[tokio::test]
async fn keys_without_effect_are_warned_of() {
    let gateway = gateway();
    let target = json!({"provider": "@emulator"});
    for (config, warning) in [
        (
            json!({"provider": "@emulator", "targets": [target]}),
            Some("targets: no effect, there is no strategy"),
        ),
        (
            json!({"provider": "@emulator", "strategy": {"mode": "single"}}),
            Some("strategy: no effect, there are no targets"),
        ),
        (
            json!({"strategy": {"mode": "fallback"}, "targets": [{"provider": "@emulator", "weight": 1}]}),
            Some("targets[0].weight: no effect, it is for loadbalance mode"),
        ),
        (json!({"strategy": {"mode": "single"}, "targets": [target]}), None),
    ] {
        let call = post(&gateway, &hello(false)).header("x-gateway-config", config.to_string());
        let response = call.send().await.unwrap();
        let got = response.headers().get("x-gateway-warnings").map(|value| value.to_str().unwrap());
        assert_eq!((response.status().as_u16(), got), (200, warning), "{config}");
    }
    // Neither is one of the combinations of which a config needs one.
    for config in [json!({"targets": [target]}), json!({"strategy": {"mode": "single"}})] {
        let (status, body) =
            problem(post(&gateway, &hello(false)).header("x-gateway-config", config.to_string())).await;
        assert_eq!((status, &body["error"]["code"]), (400, &json!("invalid_config")), "{body}");
    }
}

#[tokio::test]
async fn all_problems_of_a_config_are_reported_with_their_paths() {
    let gateway = gateway();
    let config = json!({
        "strategy": {"mode": "sometimes"},
        "retry": {"attempts": "many"},
        "no_such_key": 1,
        "targets": [{"provider": "opnai", "api_key": "sk-inline"}, {"provider": "@emulator", "weight": "x"}],
    });
    let (status, body) =
        problem(post(&gateway, &hello(false)).header("x-gateway-config", config.to_string())).await;
    assert_eq!((status, &body["error"]["code"]), (400, &json!("invalid_config")), "{body}");
    let problems = body["error"]["problems"].as_array().unwrap();
    let paths: Vec<&str> = problems.iter().map(|problem| problem["path"].as_str().unwrap()).collect();
    for path in ["strategy.mode", "retry.attempts", "no_such_key", "targets[0].provider", "targets[1].weight"]
    {
        assert!(paths.contains(&path), "{path} is not in {paths:?}");
        assert!(body["error"]["message"].as_str().unwrap().contains(path), "{body}");
    }
    assert!(!body.to_string().contains("sk-inline"), "{body}");
}

#[tokio::test]
async fn every_mode_chooses_a_target_and_reports_it() {
    let gateway = gateway();
    let targets = r#""targets": [{"name": "a", "provider": "@emulator", "weight": 0}, {"name": "b", "provider": "@emulator"}]"#;
    for (mode, more, index) in [
        ("single", "", "config.targets[0]"),
        ("loadbalance", "", "config.targets[1]"),
        ("fallback", "", "config.targets[0]"),
        (
            "conditional",
            r#", "conditions": [{"query": {"metadata.x": "1"}, "then": "a"}], "default": "b""#,
            "config.targets[1]",
        ),
    ] {
        let config = format!(r#"{{"strategy": {{"mode": "{mode}"{more}}}, {targets}}}"#);
        let response = post(&gateway, &hello(false)).header("x-gateway-config", config).send().await.unwrap();
        assert_eq!(response.status(), 200, "{mode}");
        assert_eq!(response.headers()["x-gateway-last-used-option-index"], index, "{mode}");
    }
    let saved = post(&gateway, &hello(false)).header("x-gateway-config", "cf-fallback").send().await.unwrap();
    assert_eq!(saved.status(), 200);
}

#[tokio::test]
async fn requests_without_a_config_use_the_default() {
    for default in ["cf-override", "'@emulator'"] {
        let gateway = Gateway::start(&format!("{STANDARD}default_config: {default}\n"));
        let tag = new_trace();
        let call = post(&gateway, &hello(false)).header("x-emulator-tag", &tag);
        assert_eq!(call.header("x-gateway-trace-id", &tag).send().await.unwrap().status(), 200, "{default}");
        let requests = gateway.emulator_requests(&tag).await;
        let sent: Value = serde_json::from_str(requests[0]["body"].as_str().unwrap()).unwrap();
        assert_eq!(sent["temperature"].is_number(), default == "cf-override", "{default} {sent}");
        let log = until("the log", async || {
            let logs = gateway.read(&format!("/v1/logs?trace_id={tag}")).await;
            logs["data"].get(0).cloned()
        })
        .await;
        assert_eq!(log["config"].as_str(), (default == "cf-override").then_some(default), "{log}");
        let key = json!({"x-gateway-api-key": KEY});
        let explained = json!({"headers": key, "body": hello(false)});
        let explained = gateway.control(Method::POST, "/v1/explain").json(&explained).send().await.unwrap();
        let explained: Value = explained.json().await.unwrap();
        let config = explained["config"].as_str().unwrap();
        assert_eq!(config == default, default == "cf-override", "{explained}");
        assert_eq!(config.starts_with("inline-"), default != "cf-override", "{explained}");
        // A default does not override what the client names.
        let (status, body) =
            problem(post(&gateway, &hello(false)).header("x-gateway-provider", "@nobody")).await;
        assert_eq!(status, 400, "{body}");
    }
}

/// Only the model's slug is removed: every other byte is the client's.
#[tokio::test]
async fn the_slug_is_removed_from_the_model_and_nothing_else_changes() {
    let gateway = gateway();
    let body = "{ \"messages\":[{\"role\":\"user\",\"content\":\"\\u00e4 \u{1F98A}\"}] ,\n\t\"model\" : \"@emulator/a/b@c\",\
                \"temperature\":1.50e0,\"n\":1,\"new_field\":{\"z\":1,\"a\":[ ]} }";
    let tag = new_trace();
    let call = post(&gateway, &json!({})).header("x-emulator-tag", &tag).body(body);
    let response = call.send().await.unwrap();
    assert_eq!(response.status(), 200, "{}", response.text().await.unwrap());
    let requests = gateway.emulator_requests(&tag).await;
    assert_eq!(requests[0]["body"], body.replace("@emulator/a/b@c", "a/b@c"));

    // Workers AI's own model names start with an @ as well.
    let tag = new_trace();
    let named = body.replace("@emulator/a/b@c", "@cf/meta/llama");
    let call = post(&gateway, &json!({})).header("x-emulator-tag", &tag).body(named.clone());
    assert_eq!(call.header("x-gateway-provider", "@emulator").send().await.unwrap().status(), 200);
    assert_eq!(gateway.emulator_requests(&tag).await[0]["body"], named.as_str());
}

#[tokio::test]
async fn override_params_replace_and_add_members_for_every_request_kind() {
    let gateway = gateway();
    for (stream, long) in [(false, false), (true, false), (false, true)] {
        let tag = new_trace();
        let mut body = hello(stream);
        body["temperature"] = 1.into();
        body["seed"] = 7.into();
        if long {
            body["messages"][0]["content"] = "long ".repeat(20_000).into();
        }
        let config = r#"{"provider": "@emulator", "override_params": {"temperature": 0.5, "user": "ü", "stop": ["x"]}}"#;
        let call = post(&gateway, &body).header("x-emulator-tag", &tag).header("x-gateway-config", config);
        assert_eq!(call.send().await.unwrap().status(), 200);
        let mut wanted = body.clone();
        wanted["temperature"] = 0.5.into();
        wanted["user"] = "ü".into();
        wanted["stop"] = json!(["x"]);
        if stream {
            // The gateway wants to know what a stream used.
            wanted["stream_options"] = json!({"include_usage": true});
        }
        let requests = gateway.emulator_requests(&tag).await;
        if long {
            // The log keeps only 64 KiB.
            assert!(requests[0]["body_bytes"].as_u64().unwrap() > 100_000);
        } else {
            let sent: Value = serde_json::from_str(requests[0]["body"].as_str().unwrap()).unwrap();
            assert_eq!(sent, wanted);
        }
    }
}

#[tokio::test]
async fn any_path_reaches_the_provider_with_any_method() {
    let gateway = gateway();
    for (method, path) in [
        (Method::GET, "weather/today?x=1&y=%2F"),
        (Method::POST, "weather//double/"),
        (Method::PUT, "weather/%E2%82%AC/a%20b"),
        (Method::DELETE, "weather/today"),
        (Method::POST, "proxy/v2/weather"),
    ] {
        let tag = new_trace();
        let call = client().request(method.clone(), format!("{}/{path}", gateway.base_url()));
        let call = call.header("x-gateway-api-key", KEY).header("x-gateway-config", "cf-emulator");
        let call = call.header("x-emulator-tag", &tag).body("some text");
        assert_eq!(call.send().await.unwrap().status(), 200, "{method} {path}");
        let requests = gateway.emulator_requests(&tag).await;
        let (wanted, query) = path.split_once('?').unwrap_or((path, ""));
        let wanted = wanted.strip_prefix("proxy/").unwrap_or(wanted);
        assert_eq!(requests[0]["path"], format!("/v1/{wanted}"), "{method}");
        assert_eq!(requests[0]["query"].as_str().unwrap_or_default(), query, "{method}");
        assert_eq!(
            (&requests[0]["method"], &requests[0]["body"]),
            (&json!(method.as_str()), &json!("some text"))
        );
    }
}
