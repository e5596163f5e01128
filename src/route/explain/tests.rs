//! What is told of configs, as tables.

use super::{Explained, explain, without_values};
use crate::api::body::Body;
use crate::api::operation::Operation;
use crate::config::Checks;
use crate::config::headers::GatewayHeaders;
use crate::net::custom_host::HostRules;
use crate::route::attempt::Request;
use crate::route::compile::Sources;
use crate::route::tests::{Made, target};
use crate::settings::Settings;
use bytes::Bytes;
use http::{HeaderMap, Method, Uri};
use serde_json::{Value, json};

const BODY: &str = r#"{"model":"gpt-4o","messages":[{"role":"user","content":"canary"}]}"#;
const STREAM: &str = r#"{"model":"gpt-4o","stream":true,"messages":[{"role":"user","content":"canary"}]}"#;

/// The explanation of a chat with this config, as JSON.
fn told(config: &str, body: &str, world: &Made) -> Value {
    let checks = Checks { provider: &|_| Ok(()), account: &|_, _| Ok(()), custom_host: &|_| Ok(()) };
    let sources = crate::settings::SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
    let settings = Settings::parse("", &sources, &checks).unwrap();
    let hosts = HostRules::new(&settings.custom_hosts);
    let mut headers = HeaderMap::new();
    headers.insert("x-gateway-config", config.parse().unwrap());
    let asked = GatewayHeaders::read(&headers, &settings.header_prefixes).unwrap();
    let sources =
        Sources { settings: &settings, hosts: &hosts, asked: &asked, bearer: None, model_slug: None };
    let body = Body::parse(Bytes::from(body.to_owned())).unwrap();
    let uri = Uri::from_static("/v1/chat/completions");
    let request = Request::new(Operation::ChatCompletions, Method::POST, uri, 4, Some(body));
    let explained: Explained = explain(&sources, &request, world, world.now());
    serde_json::to_value(explained).unwrap()
}

/// What follows one sort of failure, in short: `0 retry 0-1000, 1 next`.
fn walked(told: &Value, when: &str) -> String {
    let walks = told["then"].as_array().unwrap();
    let Some(walk) = walks.iter().find(|walk| walk["when"] == when) else { return "-".to_owned() };
    let one = |step: &Value| {
        let index = step["index"].as_str().unwrap();
        let short = index.replace("config", "").replace(".targets[", ".").replace(']', "");
        let wait = match step["wait_ms"].as_array() {
            Some(wait) => format!(" {}-{}", wait[0], wait[1]),
            None => String::new(),
        };
        format!("{} {}{wait}", short.trim_start_matches('.'), step["why"].as_str().unwrap())
    };
    walk["tries"].as_array().unwrap().iter().map(one).collect::<Vec<_>>().join(", ")
}

fn group(mode: &str, more: &str, targets: &[&str]) -> String {
    let targets: Vec<String> = targets.iter().map(|more| target(more)).collect();
    format!(r#"{{"strategy":{{"mode":"{mode}"{more}}},"targets":[{}]}}"#, targets.join(","))
}

#[test]
fn what_follows_each_failure_is_told_with_its_waits() {
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
        // Both ask for the same model.
        (&fallback, "too_long", String::new()),
        (&fallback, "refused", String::new()),
        (&fallback, "cannot_be_made", "-".to_owned()),
        (single, "timeout", " retry 0-1000".to_owned()),
        (single, "429", String::new()),
    ] {
        assert_eq!(walked(&told(config, STREAM, &Made::default()), when), wanted, "{when} {config}");
    }
    // Nothing that is not streamed is cut after its first token; and a rescue may be off.
    assert_eq!(walked(&told(&fallback, BODY, &Made::default()), "cut"), "-");
    let off = fallback.replacen('{', r#"{"stream_rescue":"off","#, 1);
    assert_eq!(walked(&told(&off, STREAM, &Made::default()), "cut"), "");
}

#[test]
fn a_walk_without_an_end_is_cut_short() {
    let many =
        r#"{"provider":"openai","api_key":"k","retry":{"attempts":4000,"backoff_ms":1,"max_backoff_ms":1}}"#;
    let told = told(many, BODY, &Made::default());
    let walk = &told["then"][0];
    assert_eq!((walk["tries"].as_array().unwrap().len(), &walk["more"]), (100, &json!(true)));
}

#[test]
fn the_first_choice_comes_with_its_reason() {
    let open = |index: &str| Made::default().opened(index, 10);
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
    let measured = Made::default().measured("config.targets[0]", 900).measured("config.targets[1]", 80);
    for (config, world, index, why, because) in [
        (&fallback, Made::default(), 0, "first", "the first in order"),
        (
            &fallback,
            open("config.targets[0]"),
            1,
            "first",
            "the first in order; config.targets[0] skipped: its circuit is open",
        ),
        (&weights, Made::default(), 0, "weight", "drawn by weight: 0.7 of 1"),
        (
            &price,
            Made::default(),
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
        (&condition, Made::default(), 0, "default", "no condition holds"),
        (
            &condition,
            Made::default().holding(),
            1,
            "condition",
            "condition 0 holds: metadata.tier $eq, headers.x-a $eq",
        ),
        (&group("single", "", &["", ""]), Made::default(), 0, "only", "single takes the first target"),
    ] {
        let told = told(config, BODY, &world);
        let at = format!("config.targets[{index}]");
        let wanted = json!({"index": at, "why": why, "because": [format!("config: {at}: {because}")]});
        assert_eq!(told["first"], wanted, "{config}");
        assert!(!told.to_string().contains("canary"), "{told}");
    }
}

#[test]
fn chances_add_up() {
    let least = |weights: &[u32]| {
        let targets: Vec<String> = weights.iter().map(|weight| format!(r#""weight":{weight}"#)).collect();
        group(
            "loadbalance",
            r#","by":"least_latency""#,
            &targets.iter().map(String::as_str).collect::<Vec<_>>(),
        )
    };
    let quick = || Made::default().measured("config.targets[0]", 900).measured("config.targets[1]", 80);
    for (config, world, wanted) in [
        (group("loadbalance", "", &["", "", r#""weight":2"#]), Made::default(), [0.25, 0.25, 0.5]),
        (group("loadbalance", "", &["", r#""weight":0"#, ""]), Made::default(), [0.5, 0.0, 0.5]),
        // The third was never measured, and counts as quick; of the first two the second wins.
        (least(&[1, 1, 1]), quick(), [0.0, 0.333, 0.667]),
        (least(&[1, 1, 0]), quick(), [0.0, 1.0, 0.0]),
    ] {
        let told = told(&config, BODY, &world);
        let chances: Vec<f64> = told["tree"]["targets"]
            .as_array()
            .unwrap()
            .iter()
            .map(|node| node["chance"].as_f64().unwrap())
            .collect();
        assert_eq!(chances, wanted, "{config}");
    }
}

#[test]
fn the_tree_tells_what_is_in_force() {
    let config = r#"{"strategy":{"mode":"fallback","on_status_codes":[429]},"time_limits":{"gap_ms":0,"total_ms":60000},
        "targets":[{"provider":"openai","api_key":"canary-key","override_params":{"model":"gpt-4o-mini"},
          "cb_config":{"failure_threshold":3,"cooldown_interval":30000},"retry":{"attempts":2,"on_status_codes":[500]}},
          {"provider":"openai","api_key":"canary-key","custom_host":"https://models.example.com/v1"}]}"#
        .replace('\n', " ");
    let world = Made::default().opened("config.targets[0]", 5).measured("config.targets[0]", 120);
    let told = told(&config, BODY, &world);
    let first = &told["tree"]["targets"][0];
    assert_eq!(told["tree"]["mode"], "fallback");
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
    assert_eq!(told["tree"]["targets"][1]["host"], "models.example.com");
    assert!(!told.to_string().contains("canary"), "{told}");
}

#[test]
fn the_request_is_told_without_its_words() {
    let direct = r#"{"provider":"openai","api_key":"k"}"#;
    let anthropic = r#"{"provider":"anthropic","api_key":"k"}"#;
    for (config, body, path, translated, sent, way) in [
        (direct, BODY, "/v1/chat/completions", false, "as_written", "orchestrated"),
        (direct, STREAM, "/v1/chat/completions", false, "as_written", "orchestrated"),
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
        let told = told(config, body, &Made::default());
        let request = &told["request"];
        assert_eq!(
            (&request["path"], &request["translated"], &request["body"], &request["way"]),
            (&json!(path), &json!(translated), &json!(sent), &json!(way)),
            "{config} {told}"
        );
        assert_eq!(told["problems"], json!([]));
        assert!(!told.to_string().contains("canary"), "{told}");
    }
}

#[test]
fn what_cannot_be_is_a_problem() {
    // What the first target cannot do: the attempt cannot be made, and the next one is asked.
    let fallback = r#"{"strategy":{"mode":"fallback"},"targets":[{"provider":"anthropic","api_key":"k"},{"provider":"openai","api_key":"k"}]}"#;
    let two = BODY.replacen('{', r#"{"n":2,"#, 1);
    let unfit = told(fallback, &two, &Made::default());
    assert_eq!(unfit["request"]["error"]["status"], 400, "{unfit}");
    assert_eq!(walked(&unfit, "cannot_be_made"), "1 next");
    let wrong = told(
        r#"{"provider":"openai","api_key":"k","weight":"x","retry":{"attempts":-1}}"#,
        BODY,
        &Made::default(),
    );
    let paths: Vec<&Value> =
        wrong["problems"].as_array().unwrap().iter().map(|problem| &problem["path"]).collect();
    assert_eq!(
        (paths, wrong.get("tree")),
        (vec![&json!("weight"), &json!("retry.attempts")], None),
        "{wrong}"
    );
    let unruly = told(r#"{"provider":"openai","api_key":"k"}"#, r#"{"model":"m"}"#, &Made::default());
    assert_eq!(
        (&unruly["problems"][0]["path"], &unruly["problems"][0]["status"]),
        (&json!("messages"), &json!(400))
    );
    assert!(unruly["first"].is_object(), "{unruly}");
}

#[test]
fn the_callers_query_keeps_its_values() {
    for (path, asked, wanted) in [
        ("/a", None, "/a"),
        ("/a?alt=sse", None, "/a?alt=sse"),
        ("/a?alt=sse&key=canary", Some("key=canary"), "/a?alt=sse&key=..."),
        ("/a?b&b=1", Some("b"), "/a?b&b=..."),
    ] {
        assert_eq!(without_values(path, asked), wanted);
    }
}
