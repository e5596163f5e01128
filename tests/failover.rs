//! Failover in balanced groups and fallback by class of failure, as clients, the access line and `explain` see them.
//!
//! Not which member is drawn (unit tests of `route`), nor plain fallback (`routing`).

use crate::faults::case::{PRIMARY_DIALECTS, PrimaryDialect, body, send};
use crate::faults::observed::ObservedResponse;
use crate::support::client::{client, new_trace};
use crate::support::gateway;
use crate::support::settings::KEY;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const INDEX: &str = "x-gateway-last-used-option-index";

fn target(script: &str) -> Value {
    PrimaryDialect::OpenAi.target("t", script)
}

/// A target with additional keys.
fn with(script: &str, more: &Value) -> Value {
    let mut target = target(script);
    more.as_object().unwrap().iter().for_each(|(key, value)| target[key] = value.clone());
    target
}

/// A balanced group with failover whose first target is drawn practically always.
fn failover(strategy: &Value, first: &str, others: &[&str]) -> Value {
    let mut config = json!({"strategy": {"mode": "loadbalance", "failover": true},
        "targets": [with(first, &json!({"weight": 1e12}))]});
    for script in others {
        config["targets"].as_array_mut().unwrap().push(target(script));
    }
    for (key, value) in strategy.as_object().unwrap() {
        config["strategy"][key] = value.clone();
    }
    config
}

async fn chat(config: &Value, streamed: bool) -> (ObservedResponse, String) {
    let trace = new_trace();
    let response = send(&gateway(), &client(), &trace, config, &body(false, streamed), false).await;
    (response, trace)
}

#[tokio::test]
async fn no_client_sees_the_failures_of_one_of_two_balanced_targets() {
    let config = json!({"strategy": {"mode": "loadbalance", "failover": true},
        "targets": [target("status=529"), target("tokens=3")]});
    let mut attempts = BTreeSet::new();
    for round in 0..20 {
        let (response, _) = chat(&config, round % 2 == 0).await;
        assert_eq!(
            (response.status, response.header(INDEX)),
            (200, "config.targets[1]"),
            "{}",
            response.body
        );
        assert!(response.done && response.broken.is_none(), "{:?}", response.broken);
        attempts.insert(response.attempts().len());
    }
    assert_eq!(attempts, BTreeSet::from([1, 2]), "the failing target was drawn, and the other one");
}

#[tokio::test]
async fn each_target_is_tried_once_and_the_last_response_is_the_clients() {
    let config = failover(&json!({}), "status=529", &["status=503", "status=500"]);
    let (response, trace) = chat(&config, false).await;
    let attempts = response.attempts();
    let targets: BTreeSet<&str> = attempts.iter().map(|(target, _)| target.as_str()).collect();
    assert_eq!((attempts.len(), targets.len()), (3, 3), "{attempts:?}");
    assert_eq!(attempts[0], ("config.targets[0]".to_owned(), "529".to_owned()));
    assert_eq!(response.header(INDEX), attempts[2].0);
    assert_eq!(response.status.to_string(), attempts[2].1);
    let line = gateway().access_line(&trace).await;
    let why: Vec<&Value> =
        line["attempts"].as_array().unwrap().iter().map(|attempt| &attempt["why"]).collect();
    assert_eq!(why, ["weight", "next", "next"], "{line}");
}

#[tokio::test]
async fn failover_follows_refused_connections_timeouts_retries_and_broken_streams() {
    let retried = json!({"retry": {"attempts": 1, "backoff_ms": 1}});
    for (first, more, streamed, attempts) in [
        ("fault=reset", json!({}), false, &["upstream_unreachable", "200"][..]),
        ("fault=hang", json!({"time_limits": {"first_byte_ms": 300}}), false, &["request_timeout", "200"]),
        ("status=500", retried, false, &["500", "500", "200"]),
        ("fault=cut&after=3", json!({}), true, &["200", "200"]),
    ] {
        let mut config = failover(&json!({}), first, &["tokens=12"]);
        for (key, value) in more.as_object().unwrap() {
            config[key] = value.clone();
        }
        let (response, _) = chat(&config, streamed).await;
        assert_eq!(response.status, 200, "{first}: {}", response.body);
        assert!(response.done && response.error.is_none(), "{first}: {}", response.body);
        if !streamed {
            let outcomes: Vec<String> = response.attempts().into_iter().map(|(_, outcome)| outcome).collect();
            assert_eq!(outcomes, attempts, "{first}");
        }
        let line = gateway().access_line(response.header("x-gateway-trace-id")).await;
        assert_eq!(line["attempts"].as_array().unwrap().len(), attempts.len(), "{first}: {line}");
    }
}

#[tokio::test]
async fn failover_ends_by_the_lists() {
    for (strategy, status, tried) in [
        (json!({"on_status_codes": [429]}), 500, 1),
        (json!({"on_status_codes": [500]}), 500, 2),
        (json!({"on_errors": ["rate_limit"]}), 500, 1),
        (json!({"on_errors": ["server_error"]}), 500, 2),
        (json!({"on_errors": ["auth"], "on_status_codes": [404]}), 401, 2),
        (json!({"on_errors": ["auth"], "on_status_codes": [404]}), 404, 2),
        (json!({"on_errors": ["auth"], "on_status_codes": [404]}), 500, 1),
    ] {
        let config = failover(&strategy, &format!("status={status}"), &["tokens=1"]);
        let (response, _) = chat(&config, false).await;
        let wanted = if tried == 2 { 200 } else { status };
        assert_eq!((response.status, response.attempts().len()), (wanted, tried), "{strategy} {status}");
    }
}

#[tokio::test]
async fn a_client_that_sticks_stays_with_the_target_that_took_over() {
    let marker = new_trace();
    let sticky = json!({"sticky": {"enabled": true, "ttl": 60}});
    let config = failover(&sticky, &format!("status=500&times=1&key={marker}"), &["tokens=1"]);
    let (first, _) = chat(&config, false).await;
    assert_eq!((first.status, first.attempts().len()), (200, 2), "{}", first.body);
    // By weight it would be the first one, which is well again.
    let (second, _) = chat(&config, false).await;
    assert_eq!((second.header(INDEX), second.attempts().len()), ("config.targets[1]", 1));
}

/// What a vendor refuses as too long, or for its content, leads to the target for it, whatever status and text it has.
#[tokio::test]
async fn targets_for_classes_of_failures_are_used_after_those() {
    for dialect in PRIMARY_DIALECTS {
        let config = |script: &str| {
            json!({"strategy": {"mode": "fallback"}, "targets": [
                dialect.target("small", script),
                with("tokens=1", &json!({"for_errors": ["context_window"]})),
                with("tokens=1", &json!({"for_errors": ["content_policy"]})),
                target("tokens=1"),
            ]})
        };
        for (script, wanted) in [
            ("error=context_length", 1),
            ("error=content_filter", 2),
            ("status=500", 3),
            ("status=429", 3),
            ("tokens=1", 0),
        ] {
            // Gemini answers with a 200 without candidates, which is a response.
            if dialect.id() == "google" && wanted == 2 {
                continue;
            }
            let (response, _) = chat(&config(script), false).await;
            let at = format!("config.targets[{wanted}]");
            assert_eq!((response.status, response.header(INDEX)), (200, at.as_str()), "{dialect:?} {script}");
        }
    }
}

#[tokio::test]
async fn explain_shows_failover_and_classes() {
    let config = json!({"strategy": {"mode": "fallback", "on_errors": ["server_error", "timeout"]}, "targets": [
        failover(&json!({}), "tokens=1", &["tokens=2"]),
        with("tokens=3", &json!({"for_errors": ["context_window"]})),
    ]});
    let question = json!({
        "headers": {"x-gateway-api-key": KEY, "x-gateway-config": config},
        "body": {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hello"}]},
    });
    let call = gateway().control(Method::POST, "/v1/explain").body(question.to_string());
    let explained: Value = call.send().await.unwrap().json().await.unwrap();
    let tree = &explained["tree"];
    assert_eq!(tree["on_errors"], json!(["server_error", "timeout"]), "{explained}");
    assert_eq!((&tree["targets"][0]["failover"], &tree["failover"]), (&json!(true), &Value::Null));
    assert_eq!(tree["targets"][0]["targets"][0]["on_status_codes"], "not_2xx");
    assert_eq!(tree["targets"][1]["for_errors"], json!(["context_window"]));
    let then = |when: &str| -> Vec<String> {
        let paths = explained["then"].as_array().unwrap();
        let path = paths.iter().find(|path| path["when"] == when).unwrap();
        let tries = path["tries"].as_array().unwrap().iter();
        tries
            .map(|step| format!("{} {}", step["index"].as_str().unwrap(), step["why"].as_str().unwrap()))
            .collect()
    };
    let other = "config.targets[0].targets[1] next".to_owned();
    assert_eq!(then("429"), std::slice::from_ref(&other));
    assert_eq!(then("too_long"), [other, "config.targets[1] next".to_owned()]);
    assert!(then("refused").is_empty());
}
