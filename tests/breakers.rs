//! Circuit breakers as clients and operators see them: which target is skipped, what the control port shows
//! and resets, and which failures do not count against a target.
//!
//! The states and their timing are unit-tested with a mock clock: the shortest cooldown is 30 s.

use crate::faults::case::{PrimaryDialect, body, emulator_requests, send};
use crate::faults::observed::ObservedResponse;
use crate::support::client::{client, new_trace};
use crate::support::settings::{KEY, STANDARD};
use crate::support::wait::until;
use crate::support::{Gateway, gateway};
use reqwest::Method;
use serde_json::{Value, json};

/// A fallback of these targets, with a breaker that opens at the second failure.
fn config(targets: &[Value]) -> Value {
    json!({
        "strategy": {"mode": "fallback"},
        "cb_config": {"failure_threshold": 2, "cooldown_interval": 30000},
        "targets": targets,
    })
}

/// A target whose requests are tagged `trace-role`.
fn target(trace: &str, role: &str, script: &str) -> Value {
    PrimaryDialect::OpenAi.target(role, &format!("{script}&tag={trace}-{role}"))
}

async fn send_chat(gateway: &Gateway, config: &Value) -> ObservedResponse {
    send(gateway, &client(), &new_trace(), config, &body(false, false), false).await
}

async fn request_count(gateway: &Gateway, trace: &str, role: &str) -> usize {
    emulator_requests(gateway, &format!("{trace}-{role}")).await.len()
}

/// The entry in the control port's list whose model starts with the role's.
async fn shown(gateway: &Gateway, role: &str) -> Value {
    let list: Value = gateway.control(Method::GET, "/v1/targets").send().await.unwrap().json().await.unwrap();
    let model = PrimaryDialect::OpenAi.model(role);
    let targets = list["targets"].as_array().unwrap().clone();
    let found =
        targets.into_iter().find(|target| target["model"].as_str().is_some_and(|it| it.starts_with(&model)));
    found.unwrap_or_else(|| panic!("{role} is not in {list}"))
}

#[tokio::test]
async fn an_open_target_is_skipped_shown_and_reset() {
    let gateway = Gateway::start(STANDARD);
    let trace = new_trace();
    let targets = [target(&trace, "primary", "status=503&times=2"), target(&trace, "fallback", "")];
    let config = config(&targets);
    for primary_requests in [1, 2, 2, 2] {
        let response = send_chat(&gateway, &config).await;
        assert_eq!(response.status, 200, "{}", response.body);
        assert_eq!(response.header("x-gateway-last-used-option-index"), "config.targets[1]");
        assert_eq!(request_count(&gateway, &trace, "primary").await, primary_requests);
    }
    let open = shown(&gateway, "primary").await;
    assert_eq!((&open["state"], &open["index"]), (&json!("open"), &json!("config.targets[0]")), "{open}");
    assert!(open["next_try_seconds"].as_f64().is_some_and(|left| (1.0..=30.0).contains(&left)), "{open}");
    assert_eq!(shown(&gateway, "fallback").await["state"], "closed");
    let gauge = async |index: &str| {
        let metrics = gateway.metrics().await;
        let mut lines = metrics.lines().filter(|line| line.starts_with("turnpike_target_open{"));
        lines.find(|line| line.contains(index)).map(|line| line.rsplit(' ').next().unwrap().to_owned())
    };
    assert_eq!(gauge("config.targets[0]").await.as_deref(), Some("1"));
    assert_eq!(gauge("config.targets[1]").await.as_deref(), Some("0"));
    let reset = gateway.control(Method::POST, "/v1/targets/reset").json(&json!({}));
    assert_eq!(reset.send().await.unwrap().json::<Value>().await.unwrap(), json!({"reset": 1}));
    assert_eq!(shown(&gateway, "primary").await["state"], "closed");
    assert_eq!(gauge("config.targets[0]").await.as_deref(), Some("0"));
    let response = send_chat(&gateway, &config).await;
    assert_eq!(response.header("x-gateway-last-used-option-index"), "config.targets[0]", "{}", response.body);
}

#[tokio::test]
async fn when_all_are_open_the_least_bad_is_tried_and_reported() {
    let gateway = gateway();
    let trace = new_trace();
    let targets = ["one", "two"].map(|role| target(&trace, role, "status=503"));
    let config = config(&targets);
    for _ in 0..2 {
        assert_eq!(send_chat(&gateway, &config).await.status, 503);
    }
    let line_trace = new_trace();
    let response = send(&gateway, &client(), &line_trace, &config, &body(false, false), false).await;
    assert_eq!(response.status, 503, "{}", response.body);
    // The one whose circuit opened first.
    assert_eq!(response.attempts().first().map(|(target, _)| target.as_str()), Some("config.targets[0]"));
    assert!(request_count(&gateway, &trace, "one").await == 3);
    let line = gateway.access_line(&line_trace).await;
    assert!(line.to_string().contains("least_bad"), "{line}");
}

#[tokio::test]
async fn resets_timeouts_and_broken_responses_open_a_target() {
    let gateway = gateway();
    for (script, more) in [
        ("fault=eof", json!({})),
        ("fault=hang", json!({"request_timeout": 200})),
        ("ttft=60000", json!({"time_limits": {"first_token_ms": 200}})),
        ("fault=cut&after=9", json!({})),
        ("fault=malformed&after=0", json!({})),
        ("fault=empty", json!({})),
        ("status=529", json!({})),
    ] {
        let trace = new_trace();
        let mut config = config(&[target(&trace, "primary", script), target(&trace, "fallback", "")]);
        more.as_object().unwrap().iter().for_each(|(key, value)| config[key] = value.clone());
        for _ in 0..2 {
            let response = send(&gateway, &client(), &new_trace(), &config, &body(false, true), false).await;
            assert_eq!((response.status, response.done), (200, true), "{script}: {}", response.body);
        }
        let before = request_count(&gateway, &trace, "primary").await;
        let response = send_chat(&gateway, &config).await;
        assert_eq!(response.status, 200, "{script}: {}", response.body);
        assert_eq!(
            request_count(&gateway, &trace, "primary").await,
            before,
            "{script}: got a request though its circuit should be open"
        );
    }
}

#[tokio::test]
async fn client_errors_do_not_open_a_target() {
    let gateway = gateway();
    for script in ["status=400", "status=401", "status=429", "status=500", "error=context_length"] {
        let trace = new_trace();
        let config = config(&[target(&trace, "primary", script), target(&trace, "fallback", "")]);
        for primary_requests in 1..=4 {
            send_chat(&gateway, &config).await;
            assert_eq!(request_count(&gateway, &trace, "primary").await, primary_requests, "{script}");
        }
    }
    // An explicit list of statuses replaces the default.
    let trace = new_trace();
    let mut listed = config(&[target(&trace, "primary", "status=429"), target(&trace, "fallback", "")]);
    listed["cb_config"]["failure_status_codes"] = json!([429]);
    for primary_requests in [1, 2, 2] {
        send_chat(&gateway, &listed).await;
        assert_eq!(request_count(&gateway, &trace, "primary").await, primary_requests, "listed");
    }
}

#[tokio::test]
async fn a_client_disconnect_does_not_open_a_target() {
    let gateway = gateway();
    let trace = new_trace();
    let script = format!("fault=hang&times=3&key={trace}");
    let config = config(&[target(&trace, "primary", &script), target(&trace, "fallback", "")]);
    let log = format!("{}/_emulator/requests?tag={trace}-primary", gateway.emulator_url());
    for left in 1..=3 {
        let call = client()
            .post(format!("{}/chat/completions", gateway.base_url()))
            .header("x-gateway-api-key", KEY);
        let call = call.header("x-gateway-config", config.to_string()).json(&body(false, true));
        let pending = tokio::spawn(call.send());
        until("the primary to get the request", async || {
            let got: Vec<Value> = client().get(&log).send().await.unwrap().json().await.unwrap();
            (got.len() == left).then_some(())
        })
        .await;
        pending.abort();
        assert_eq!(request_count(&gateway, &trace, "primary").await, left);
    }
    let response = send_chat(&gateway, &config).await;
    assert_eq!(response.header("x-gateway-last-used-option-index"), "config.targets[0]", "{}", response.body);
}
