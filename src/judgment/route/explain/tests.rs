//! Tests of explanations, as tables.

use super::{Explanation, explain, without_values};
use crate::route::admission::Endpoint;
use crate::route::attempt::Request;
use crate::route::compile::Sources;
use crate::route::model_names::ModelNaming;
use crate::route::tests::{TestEnv, target};
use bytes::Bytes;
use http::{HeaderMap, Method, Uri};
use memory::net::outbound::custom_host::HostRules;
use memory::state::directory::Directory;
use memory::state::discovered_hosts::HostLists;
use memory::state::stored::Stored;
use serde_json::{Value, json};
use words::api::body::Body;
use words::config::Checks;
use words::config::headers::GatewayHeaders;
use words::settings::Settings;

const BODY: &str = r#"{"model":"gpt-4o","messages":[{"role":"user","content":"canary"}]}"#;
const STREAM: &str = r#"{"model":"gpt-4o","stream":true,"messages":[{"role":"user","content":"canary"}]}"#;

/// The explanation of a chat request with this config, as JSON.
fn explained(config: &str, body: &str, env: &TestEnv) -> Value {
    let checks = Checks::NONE;
    let sources = words::settings::SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
    let settings = Settings::parse("", &sources, &checks).unwrap();
    let hosts = HostRules::new(&settings.custom_hosts);
    let stored = Stored::default();
    let mut headers = HeaderMap::new();
    headers.insert("x-gateway-config", config.parse().unwrap());
    let gateway_headers = GatewayHeaders::read(&headers, &settings.header_prefixes).unwrap();
    let sources = Sources {
        settings: &settings,
        hosts: &hosts,
        directory: Directory {
            settings: &settings,
            stored: &stored,
            hosts_of: &HostLists::new(),
            workspace: None,
        },
        gateway_headers: &gateway_headers,
        provider_key: None,
        model_slug: None,
        names: ModelNaming::default(),
        prompt: None,
        object: None,
    };
    let body = Body::parse(Bytes::from(body.to_owned())).unwrap();
    let uri = Uri::from_static("/v1/chat/completions");
    let endpoint = Endpoint::find(&Method::POST, uri.path());
    let request = Request::new(endpoint, Method::POST, uri, Some(body));
    let explained: Explanation = explain(&sources, &request, env);
    serde_json::to_value(explained).unwrap()
}

/// The attempts after one kind of failure, in short: `0 retry 0-1000, 1 next`.
fn failure_path(explanation: &Value, when: &str) -> String {
    let paths = explanation["then"].as_array().unwrap();
    let Some(path) = paths.iter().find(|path| path["when"] == when) else { return "-".to_owned() };
    let one = |step: &Value| {
        let index = step["index"].as_str().unwrap();
        let short = index.replace("config", "").replace(".targets[", ".").replace(']', "");
        let wait = match step["wait_ms"].as_array() {
            Some(wait) => format!(" {}-{}", wait[0], wait[1]),
            None => String::new(),
        };
        format!("{} {}{wait}", short.trim_start_matches('.'), step["why"].as_str().unwrap())
    };
    path["tries"].as_array().unwrap().iter().map(one).collect::<Vec<_>>().join(", ")
}

fn group(mode: &str, more: &str, targets: &[&str]) -> String {
    let targets: Vec<String> = targets.iter().map(|more| target(more)).collect();
    format!(r#"{{"strategy":{{"mode":"{mode}"{more}}},"targets":[{}]}}"#, targets.join(","))
}

#[test]
fn each_failure_path_is_listed_with_its_waits() {
    let fallback = group("fallback", "", &["", ""]).replacen('{', r#"{"retry":{"attempts":2},"#, 1);
    let single = r#"{"provider":"openai","api_key":"k","retry":{"attempts":1,"on_status_codes":[408]}}"#;
    let twice = "retry 0-1000, 0 retry 0-2000, 1 next, 1 retry 0-1000, 1 retry 0-2000";
    for (config, when, wanted) in [
        (fallback.as_str(), "429", format!("0 {twice}")),
        (&fallback, "500", format!("0 {twice}")),
        (&fallback, "400", "1 next".to_owned()),
        (&fallback, "timeout", "1 next".to_owned()),
        (&fallback, "reset", format!("0 {twice}")),
        (&fallback, "cut", "1 next, 1 retry 0-1000, 1 retry 0-2000".to_owned()),
        // Both targets use the same model.
        (&fallback, "too_long", String::new()),
        (&fallback, "refused", String::new()),
        (&fallback, "cannot_be_made", "-".to_owned()),
        (single, "timeout", " retry 0-1000".to_owned()),
        (single, "429", String::new()),
    ] {
        assert_eq!(
            failure_path(&explained(config, STREAM, &TestEnv::default()), when),
            wanted,
            "{when} {config}"
        );
    }
    // A response that is not streamed cannot break off after its first token, and stream rescue may be off.
    assert_eq!(failure_path(&explained(&fallback, BODY, &TestEnv::default()), "cut"), "-");
    let off = fallback.replacen('{', r#"{"stream_rescue":"off","#, 1);
    assert_eq!(failure_path(&explained(&off, STREAM, &TestEnv::default()), "cut"), "");
}

#[test]
fn a_long_failure_path_is_truncated() {
    let many =
        r#"{"provider":"openai","api_key":"k","retry":{"attempts":4000,"backoff_ms":1,"max_backoff_ms":1}}"#;
    let explanation = explained(many, BODY, &TestEnv::default());
    let path = &explanation["then"][0];
    assert_eq!((path["tries"].as_array().unwrap().len(), &path["more"]), (100, &json!(true)));
}

#[test]
fn the_first_choice_has_a_reason() {
    let open = |index: &str| TestEnv::default().opened(index, 10);
    let fallback =
        group("fallback", r#","cb_config":{"failure_threshold":1,"cooldown_interval":30000}"#, &["", ""]);
    let weights = group("loadbalance", "", &[r#""weight":7"#, r#""weight":3"#]);
    let price = group(
        "loadbalance",
        r#","by":"price""#,
        &[r#""price":{"input":2,"output":3}"#, r#""price":{"input":1,"output":2}"#],
    );
    let latency = group("loadbalance", r#","by":"least_latency""#, &["", ""]);
    let condition = group(
        "conditional",
        r#","conditions":[{"query":{"metadata.tier":{"$eq":"canary"},"$or":[{"headers.x-a":"canary"}]},"then":"b"}],"default":"a""#,
        &[r#""name":"a""#, r#""name":"b""#],
    );
    let measured = TestEnv::default().measured("config.targets[0]", 900).measured("config.targets[1]", 80);
    for (config, env, index, why, because) in [
        (&fallback, TestEnv::default(), 0, "first", "the first in order"),
        (
            &fallback,
            open("config.targets[0]"),
            1,
            "first",
            "the first in order; config.targets[0] skipped: its circuit is open, or its provider is drained or warms up",
        ),
        (&weights, TestEnv::default(), 0, "weight", "drawn by weight: 0.7 of 1"),
        (
            &price,
            TestEnv::default(),
            1,
            "price",
            "the lowest price: 3 US dollars per million tokens, in and out",
        ),
        (
            &latency,
            measured,
            1,
            "latency",
            "the quicker of two drawn by weight: 80 ms against 900 ms of config.targets[0]",
        ),
        (&condition, TestEnv::default(), 0, "default", "no condition holds"),
        (
            &condition,
            TestEnv::default().matching(),
            1,
            "condition",
            "condition 0 holds: metadata.tier $eq, headers.x-a $eq",
        ),
        (&group("single", "", &["", ""]), TestEnv::default(), 0, "only", "single takes the first target"),
    ] {
        let explanation = explained(config, BODY, &env);
        let at = format!("config.targets[{index}]");
        let wanted = json!({"index": at, "why": why, "because": [format!("config: {at}: {because}")]});
        assert_eq!(explanation["first"], wanted, "{config}");
        assert!(!explanation.to_string().contains("canary"), "{explanation}");
    }
}

#[test]
fn probabilities_add_up() {
    let least_latency = |weights: &[u32]| {
        let targets: Vec<String> = weights.iter().map(|weight| format!(r#""weight":{weight}"#)).collect();
        group(
            "loadbalance",
            r#","by":"least_latency""#,
            &targets.iter().map(String::as_str).collect::<Vec<_>>(),
        )
    };
    let quick = || TestEnv::default().measured("config.targets[0]", 900).measured("config.targets[1]", 80);
    for (config, env, wanted) in [
        (group("loadbalance", "", &["", "", r#""weight":2"#]), TestEnv::default(), [0.25, 0.25, 0.5]),
        (group("loadbalance", "", &["", r#""weight":0"#, ""]), TestEnv::default(), [0.5, 0.0, 0.5]),
        // The third was never measured, and counts as quick. Of the first two the second is quicker.
        (least_latency(&[1, 1, 1]), quick(), [0.0, 0.333, 0.667]),
        (least_latency(&[1, 1, 0]), quick(), [0.0, 1.0, 0.0]),
    ] {
        let explanation = explained(&config, BODY, &env);
        let chances: Vec<f64> = explanation["tree"]["targets"]
            .as_array()
            .unwrap()
            .iter()
            .map(|node| node["chance"].as_f64().unwrap())
            .collect();
        assert_eq!(chances, wanted, "{config}");
    }
}

#[test]
fn the_tree_shows_the_effective_policies() {
    let config = r#"{"strategy":{"mode":"fallback","on_status_codes":[429]},"time_limits":{"gap_ms":0,"total_ms":60000},
        "targets":[{"provider":"openai","api_key":"canary-key","override_params":{"model":"gpt-4o-mini"},
          "cb_config":{"failure_threshold":3,"cooldown_interval":30000},"retry":{"attempts":2,"on_status_codes":[500]}},
          {"provider":"openai","api_key":"canary-key","custom_host":"https://models.example.com/v1"}]}"#
        .replace('\n', " ");
    let env = TestEnv::default().opened("config.targets[0]", 5).measured("config.targets[0]", 120);
    let explanation = explained(&config, BODY, &env);
    let first = &explanation["tree"]["targets"][0];
    assert_eq!(explanation["tree"]["mode"], "fallback");
    for (field, wanted) in [
        ("provider", json!("openai")),
        ("slug", json!(null)),
        ("model", json!("gpt-4o-mini")),
        ("host", json!("api.openai.com")),
        ("on_status_codes", json!([429])),
        ("stream_rescue", json!("resume")),
        ("latency_ms", json!(120)),
        (
            "breaker",
            json!({"state": "open", "failure_threshold": 3, "cooldown_ms": 30000, "failure_status_codes": null}),
        ),
        (
            "retry",
            json!({"attempts": 2, "on_status_codes": [500], "use_retry_after_headers": false, "backoff_ms": 1000,
                   "max_backoff_ms": 8000, "budget_ms": 60000}),
        ),
    ] {
        assert_eq!(first[field], wanted, "{field}");
    }
    let limits = &first["time_limits"];
    assert_eq!(
        (&limits["another_left"]["first_token_ms"], &limits["none_left"]["first_token_ms"]),
        (&json!(10000), &json!(600_000))
    );
    assert_eq!(
        (&limits["another_left"]["gap_ms"], &limits["none_left"]["total_ms"]),
        (&json!(null), &json!(60000))
    );
    assert_eq!(explanation["tree"]["targets"][1]["host"], "models.example.com");
    assert!(!explanation.to_string().contains("canary"), "{explanation}");
}

#[test]
fn the_request_is_shown_without_its_content() {
    let direct = r#"{"provider":"openai","api_key":"k"}"#;
    let anthropic = r#"{"provider":"anthropic","api_key":"k"}"#;
    for (config, body, path, translated, sent, transport) in [
        (direct, BODY, "/v1/chat/completions", false, "as_written", "orchestrated"),
        // Its usage is requested.
        (direct, STREAM, "/v1/chat/completions", false, "changed", "orchestrated"),
        (
            r#"{"provider":"openai","api_key":"k","override_params":{"n":1}}"#,
            BODY,
            "/v1/chat/completions",
            false,
            "changed",
            "orchestrated",
        ),
        (anthropic, BODY, "/v1/messages", true, "changed", "orchestrated"),
    ] {
        let explanation = explained(config, body, &TestEnv::default());
        let request = &explanation["request"];
        assert_eq!(
            (&request["path"], &request["translated"], &request["body"], &request["way"]),
            (&json!(path), &json!(translated), &json!(sent), &json!(transport)),
            "{config} {explanation}"
        );
        assert_eq!(explanation["problems"], json!([]));
        assert!(!explanation.to_string().contains("canary"), "{explanation}");
    }
}

#[test]
fn invalid_requests_are_problems() {
    // The first target does not support the call, so its attempt cannot be made and the next target follows.
    let fallback = r#"{"strategy":{"mode":"fallback"},"targets":[{"provider":"anthropic","api_key":"k"},{"provider":"openai","api_key":"k"}]}"#;
    let two = BODY.replacen('{', r#"{"n":2,"#, 1);
    let unsupported = explained(fallback, &two, &TestEnv::default());
    assert_eq!(unsupported["request"]["error"]["status"], 400, "{unsupported}");
    assert_eq!(failure_path(&unsupported, "cannot_be_made"), "1 next");
    let wrong = explained(
        r#"{"provider":"openai","api_key":"k","weight":"x","retry":{"attempts":-1}}"#,
        BODY,
        &TestEnv::default(),
    );
    let paths: Vec<&Value> =
        wrong["problems"].as_array().unwrap().iter().map(|problem| &problem["path"]).collect();
    assert_eq!(
        (paths, wrong.get("tree")),
        (vec![&json!("weight"), &json!("retry.attempts")], None),
        "{wrong}"
    );
    let unruly = explained(r#"{"provider":"openai","api_key":"k"}"#, r#"{"model":"m"}"#, &TestEnv::default());
    assert_eq!(
        (&unruly["problems"][0]["path"], &unruly["problems"][0]["status"]),
        (&json!("messages"), &json!(400))
    );
    assert!(unruly["first"].is_object(), "{unruly}");
}

#[test]
fn values_of_the_client_query_are_hidden() {
    for (path, client_query, wanted) in [
        ("/a", None, "/a"),
        ("/a?alt=sse", None, "/a?alt=sse"),
        ("/a?alt=sse&key=canary", Some("key=canary"), "/a?alt=sse&key=..."),
        ("/a?b&b=1", Some("b"), "/a?b&b=..."),
    ] {
        assert_eq!(without_values(path, client_query), wanted);
    }
}

#[test]
fn hooks_are_listed_with_how_they_are_applied_to_a_stream() {
    let none = r#""contains":{"operator":"none","words":["abc"]}"#;
    let config = target(&format!(
        r#""input_guardrails":[{{"id":"in",{none},"parallel":true}},{{"id":"later",{none},"async":true,"deny":true}}],
        "output_guardrails":[{{"id":"window",{none},"deny":true}},{{"id":"wide",{none},"deny":true,"overlap_bytes":9}},
        {{"id":"count","wordCount":{{"minWords":1,"maxWords":2}},"deny":true}},
        {{"id":"gap","regexMatch":{{"rule":"a.*b","not":true}},"deny":true}},{{"id":"passes",{none},"on_success":{{"deny":true}}}},
        {{"id":"held",{none},"deny":true,"stream":"buffer"}},{{"id":"looks",{none}}},
        {{"id":"waits",{none},"stream":"buffer"}},
        {{"id":"wrong","regexMatch":{{"rule":"("}},"deny":true}}]"#
    ));
    // It travels in a header.
    let config = config.replace('\n', " ");
    let env = TestEnv::default();
    let found = explained(&config, STREAM, &env);
    let hooks = found["hooks"].as_array().unwrap();
    let view = |hook: &Value| {
        json!([
            hook["id"],
            hook["on"],
            hook["runs"],
            hook["deny"],
            hook["stream"]["how"],
            hook["stream"]["held_bytes"]
        ])
    };
    let wanted = [
        json!(["in", "request", "parallel", false, null, null]),
        json!(["later", "request", "async", false, null, null]),
        json!(["window", "response", "waits", true, "window", 3]),
        json!(["wide", "response", "waits", true, "window", 9]),
        json!(["count", "response", "waits", true, "buffer", null]),
        json!(["gap", "response", "waits", true, "buffer", null]),
        json!(["passes", "response", "waits", true, "buffer", null]),
        json!(["held", "response", "waits", true, "buffer", null]),
        json!(["looks", "response", "waits", false, "at_end", null]),
        json!(["waits", "response", "waits", false, "buffer", null]),
        json!(["wrong", "response", "waits", true, "buffer", null]),
    ];
    assert_eq!(hooks.iter().map(view).collect::<Vec<_>>(), wanted, "{found}");
    let why = |place: usize| hooks[place]["stream"]["why"].as_str().unwrap();
    assert_eq!(why(4), "default.wordCount must see the whole response");
    assert_eq!(
        why(5),
        "what default.regexMatch looks for has no longest match, and there is no `overlap_bytes`"
    );
    assert_eq!((why(6), why(7)), ("it denies what passes", "its `stream` is \"buffer\""));
    assert!(hooks[10]["checks"][0]["error"].as_str().unwrap().contains("rule"), "{found}");
    let whole = explained(&config, BODY, &env);
    assert!(whole["hooks"].as_array().unwrap().iter().all(|hook| hook["stream"].is_null()), "{whole}");
    assert!(explained(&target(""), BODY, &env).get("hooks").is_none());
}
