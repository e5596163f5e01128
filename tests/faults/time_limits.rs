//! The same faults with `time_limits` and `stream_rescue`: settings that shorten, lengthen or disable
//! something.
//!
//! The matrix covers the plain config.

use super::case::{Case, PrimaryDialect, TOKENS, emulator_requests, sample_text, send};
use super::rows::{FAULTS, Form};
use crate::support::client::{client, fresh_client, new_trace};
use crate::support::gateway;
use serde_json::{Value, json};
use std::time::Duration;

fn case(name: &str, form: Form) -> Case {
    let fault = FAULTS.iter().find(|fault| fault.name == name).unwrap();
    Case { fault, dialect: PrimaryDialect::OpenAi, form, messages: false }
}

/// A fallback config with additional keys.
fn config(case: &Case, trace: &str, more: &Value) -> Value {
    let mut config = case.config(&case.targets(trace));
    for (key, value) in more.as_object().unwrap() {
        config[key] = value.clone();
    }
    config
}

#[tokio::test]
async fn shorter_time_limits_abandon_a_target_sooner() {
    let gateway = gateway();
    let client = client();
    for (name, form, limits) in [
        ("silence", Form::Streamed, json!({"first_token_ms": 300})),
        ("silence", Form::Whole, json!({"first_token_ms": 300})),
        ("head at once, first token after 20 s", Form::Streamed, json!({"first_token_ms": 300})),
        ("head at once, first token after 20 s", Form::Whole, json!({"first_token_ms": 300})),
        ("stalled after 20 tokens", Form::Streamed, json!({"gap_ms": 300})),
        ("stalled after 20 tokens", Form::Whole, json!({"gap_ms": 300})),
    ] {
        let case = case(name, form);
        let trace = new_trace();
        let mut config = config(&case, &trace, &json!({"time_limits": limits}));
        if name == "silence" && form == Form::Whole {
            config["request_timeout"] = 300.into();
        }
        let response = case.send(&gateway, &client, &trace, &config).await;
        assert_eq!((response.status, response.text), (200, sample_text(TOKENS)), "{case}: {}", response.body);
        assert!(response.elapsed < Duration::from_secs(4), "{case}: {:?}", response.elapsed);
        let primary = emulator_requests(&gateway, &format!("{trace}-p")).await;
        assert_eq!(primary.len(), 1, "{case}");
        assert_eq!(primary[0]["closed"], "caller_left", "{case}: the slow attempt was not cancelled");
    }
}

#[tokio::test]
async fn the_whole_request_may_have_a_limit() {
    let gateway = gateway();
    let client = client();
    let trace = new_trace();
    let case = case("silence", Form::Streamed);
    let targets =
        ["p", "f"].map(|role| PrimaryDialect::OpenAi.target(role, &format!("fault=hang&tag={trace}-{role}")));
    let mut config = case.config(&targets);
    config["time_limits"] = json!({"first_token_ms": 300, "total_ms": 700});
    let response = case.send(&gateway, &client, &trace, &config).await;
    assert!((400..600).contains(&response.status), "{}", response.body);
    assert!(response.error.is_some(), "{}", response.body);
    assert!(
        (Duration::from_millis(600)..Duration::from_secs(4)).contains(&response.elapsed),
        "{:?}",
        response.elapsed
    );
    assert_eq!(emulator_requests(&gateway, &format!("{trace}-f")).await.len(), 1);
}

#[tokio::test]
async fn without_a_rescue_a_cut_stream_ends_in_an_error() {
    let gateway = gateway();
    let client = client();
    let trace = new_trace();
    let case = case("cut after 40 of 60 tokens", Form::Streamed);
    let config = config(&case, &trace, &json!({"stream_rescue": "off"}));
    let response = case.send(&gateway, &client, &trace, &config).await;
    assert_eq!(response.status, 200);
    assert!(response.error.is_some() && !response.done, "{}", response.body);
    assert!(
        !response.text.is_empty() && sample_text(TOKENS).starts_with(&response.text),
        "{}",
        response.text
    );
    assert!(emulator_requests(&gateway, &format!("{trace}-f")).await.is_empty());
}

#[tokio::test]
async fn a_buffered_stream_comes_from_the_fallback_alone() {
    let gateway = gateway();
    let client = client();
    let trace = new_trace();
    let case = case("cut after 40 of 60 tokens", Form::Streamed);
    let config = config(&case, &trace, &json!({"stream_rescue": "buffer"}));
    let response = case.send(&gateway, &client, &trace, &config).await;
    assert_eq!(
        (response.status, response.text.as_str(), response.done),
        (200, sample_text(TOKENS).as_str(), true),
        "{}",
        response.body
    );
    assert_eq!(response.header("x-gateway-last-used-option-index"), "config.targets[1]");
    assert!(response.model.starts_with(&PrimaryDialect::OpenAi.model("fallback")), "{}", response.model);
}

#[tokio::test]
async fn a_fallback_that_cannot_continue_ends_in_an_error() {
    let gateway = gateway();
    let client = client();
    let trace = new_trace();
    let case = case("cut after 40 of 60 tokens", Form::Streamed);
    let [primary, _] = case.targets(&trace);
    // The echo returns entirely different text.
    let other = json!({"provider": "@emulator", "override_params": {"model": format!("emulator-echo?tag={trace}-f")}});
    let body = json!({
        "model": "asked-for", "stream": true,
        "messages": [{"role": "user", "content": "Nothing of foxes, but a good deal of hens and their eggs."}],
    });
    let response = send(&gateway, &client, &trace, &case.config(&[primary, other]), &body, false).await;
    assert!(response.error.is_some() && !response.done, "{}", response.body);
    assert!(sample_text(TOKENS).starts_with(&response.text), "{}", response.text);
    assert!(!emulator_requests(&gateway, &format!("{trace}-f")).await.is_empty());
}

/// The text of the rescuing target may arrive together with the fault that breaks it: no text is lost or
/// repeated.
#[tokio::test]
async fn a_rescue_that_breaks_is_rescued_again() {
    let gateway = gateway();
    let client = client();
    let case = case("cut after 40 of 60 tokens", Form::Streamed);
    for second in
        [PrimaryDialect::OpenAi, PrimaryDialect::Anthropic, PrimaryDialect::Gemini, PrimaryDialect::Bedrock]
    {
        let trace = new_trace();
        let targets = [
            PrimaryDialect::OpenAi.target("p", &format!("tokens=40&fault=cut&after=10&tag={trace}-p")),
            second.target("s", &format!("tokens=40&fault=malformed&after=16&tag={trace}-s")),
            PrimaryDialect::OpenAi.target("f", &format!("tokens=40&tag={trace}-f")),
        ];
        let mut config = case.config(&targets);
        config["retry"] = json!({"attempts": 0});
        let response = case.send(&gateway, &client, &trace, &config).await;
        assert_eq!(
            (response.text.as_str(), response.done),
            (sample_text(40).as_str(), true),
            "{second:?}: {}",
            response.body
        );
        assert_eq!(emulator_requests(&gateway, &format!("{trace}-s")).await.len(), 1, "{second:?}");
    }
}

#[tokio::test]
async fn an_idle_stream_is_filled_with_comments() {
    let gateway = gateway();
    let client = client();
    for (script, limits, comments) in [
        ("tokens=4&gap=700", json!({"heartbeat_ms": 200}), true),
        ("tokens=4&gap=700", json!({"heartbeat_ms": 0}), false),
        // Heartbeats start once a response is accepted, unless early ones are enabled.
        ("tokens=4&ttft=1000", json!({"heartbeat_ms": 200}), false),
        ("tokens=4&ttft=1000", json!({"heartbeat_ms": 200, "early_heartbeat": true}), true),
    ] {
        let case = case("silence", Form::Streamed);
        let targets =
            [PrimaryDialect::OpenAi.target("primary", script), PrimaryDialect::OpenAi.target("fallback", "")];
        let mut config = case.config(&targets);
        config["time_limits"] = limits;
        let response = case.send(&gateway, &client, &new_trace(), &config).await;
        assert_eq!(
            (response.text.as_str(), response.done),
            (sample_text(4).as_str(), true),
            "{script}: {}",
            response.body
        );
        assert_eq!(response.body.contains(": keep-alive\n"), comments, "{config}: {}", response.body);
    }
}

/// With no target left, a broken response ends in an error; a partial response is never passed off as
/// complete.
#[tokio::test]
async fn the_last_targets_broken_response_is_a_clean_error() {
    let gateway = gateway();
    let client = fresh_client();
    let mut wrong = Vec::new();
    for (script, form) in [
        ("fault=cut", Form::Whole),
        ("fault=stall", Form::Whole),
        ("fault=truncate", Form::Whole),
        ("fault=malformed", Form::Whole),
        ("fault=empty", Form::Whole),
        ("fault=html", Form::Whole),
        ("fault=error_event", Form::Whole),
        ("ttft=60000", Form::Whole),
        ("fault=empty", Form::Streamed),
        ("fault=html", Form::Streamed),
        ("fault=error_event&after=0", Form::Streamed),
        ("fault=cut&after=1", Form::Streamed),
        ("ttft=60000", Form::Streamed),
    ] {
        let case = case("503 without end", form);
        let targets = ["first", "last"].map(|role| PrimaryDialect::OpenAi.target(role, script));
        let mut config = case.config(&targets);
        config["retry"]["attempts"] = 0.into();
        config["time_limits"] = json!({"first_token_ms": 400, "gap_ms": 400});
        let response = case.send(&gateway, &client, &new_trace(), &config).await;
        if response.status < 400 || response.error.is_none() || response.broken.is_some() {
            wrong.push(format!(
                "{script} {form:?}: {} {:?} {}",
                response.status, response.broken, response.body
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
