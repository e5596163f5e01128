//! The same faults under `time_limits` and `stream_rescue`: settings that shorten, lengthen or switch off.
//!
//! Not the plain config, which is the matrix's.

use super::case::{Case, TOKENS, Who, asked, send, story};
use super::rows::{FAULTS, Form};
use crate::support::client::{client, fresh_client, new_trace};
use crate::support::gateway;
use serde_json::{Value, json};
use std::time::Duration;

fn case(name: &str, form: Form) -> Case {
    let fault = FAULTS.iter().find(|fault| fault.name == name).unwrap();
    Case { fault, who: Who::OpenAi, form, messages: false }
}

/// A fallback config with more keys.
fn config(case: &Case, trace: &str, more: &Value) -> Value {
    let mut config = case.config(&case.targets(trace));
    for (key, value) in more.as_object().unwrap() {
        config[key] = value.clone();
    }
    config
}

#[tokio::test]
async fn shorter_limits_give_a_target_up_sooner() {
    let (gateway, client) = (gateway(), client());
    for (name, form, limits) in [
        ("silence", Form::Streamed, json!({"first_token_ms": 300})),
        ("silence", Form::Whole, json!({"first_token_ms": 300})),
        ("head at once, first token after 20 s", Form::Streamed, json!({"first_token_ms": 300})),
        ("head at once, first token after 20 s", Form::Whole, json!({"first_token_ms": 300})),
        ("stalled after 20 tokens", Form::Streamed, json!({"gap_ms": 300})),
        ("stalled after 20 tokens", Form::Whole, json!({"gap_ms": 300})),
    ] {
        let (case, trace) = (case(name, form), new_trace());
        let mut config = config(&case, &trace, &json!({"time_limits": limits}));
        if name == "silence" && form == Form::Whole {
            config["request_timeout"] = 300.into();
        }
        let seen = case.send(&gateway, &client, &trace, &config).await;
        assert_eq!((seen.status, seen.text), (200, story(TOKENS)), "{case}: {}", seen.body);
        assert!(seen.took < Duration::from_secs(4), "{case}: {:?}", seen.took);
        let primary = asked(&gateway, &format!("{trace}-p")).await;
        assert_eq!(primary.len(), 1, "{case}");
        assert_eq!(primary[0]["closed"], "caller_left", "{case}: the slow one was not left");
    }
}

#[tokio::test]
async fn the_whole_request_may_have_a_limit() {
    let (gateway, client, trace) = (gateway(), client(), new_trace());
    let case = case("silence", Form::Streamed);
    let targets = ["p", "f"].map(|role| Who::OpenAi.target(role, &format!("fault=hang&tag={trace}-{role}")));
    let mut config = case.config(&targets);
    config["time_limits"] = json!({"first_token_ms": 300, "total_ms": 700});
    let seen = case.send(&gateway, &client, &trace, &config).await;
    assert!((400..600).contains(&seen.status), "{}", seen.body);
    assert!(seen.error.is_some(), "{}", seen.body);
    assert!((Duration::from_millis(600)..Duration::from_secs(4)).contains(&seen.took), "{:?}", seen.took);
    assert_eq!(asked(&gateway, &format!("{trace}-f")).await.len(), 1);
}

#[tokio::test]
async fn without_a_rescue_a_cut_stream_ends_in_an_error() {
    let (gateway, client, trace) = (gateway(), client(), new_trace());
    let case = case("cut after 40 of 60 tokens", Form::Streamed);
    let config = config(&case, &trace, &json!({"stream_rescue": "off"}));
    let seen = case.send(&gateway, &client, &trace, &config).await;
    assert_eq!(seen.status, 200);
    assert!(seen.error.is_some() && !seen.done, "{}", seen.body);
    assert!(!seen.text.is_empty() && story(TOKENS).starts_with(&seen.text), "{}", seen.text);
    assert!(asked(&gateway, &format!("{trace}-f")).await.is_empty());
}

#[tokio::test]
async fn a_buffered_stream_is_the_fallbacks_from_its_first_word() {
    let (gateway, client, trace) = (gateway(), client(), new_trace());
    let case = case("cut after 40 of 60 tokens", Form::Streamed);
    let config = config(&case, &trace, &json!({"stream_rescue": "buffer"}));
    let seen = case.send(&gateway, &client, &trace, &config).await;
    assert_eq!(
        (seen.status, seen.text.as_str(), seen.done),
        (200, story(TOKENS).as_str(), true),
        "{}",
        seen.body
    );
    assert_eq!(seen.header("x-gateway-last-used-option-index"), "config.targets[1]");
    assert!(seen.model.starts_with(&Who::OpenAi.model("fallback")), "{}", seen.model);
}

#[tokio::test]
async fn an_answer_that_fits_neither_is_an_error_and_not_a_mixture() {
    let (gateway, client, trace) = (gateway(), client(), new_trace());
    let case = case("cut after 40 of 60 tokens", Form::Streamed);
    let [primary, _] = case.targets(&trace);
    // The echo says something else altogether.
    let other = json!({"provider": "@emulator", "override_params": {"model": format!("emulator-echo?tag={trace}-f")}});
    let body = json!({
        "model": "asked-for", "stream": true,
        "messages": [{"role": "user", "content": "Nothing of foxes, but a good deal of hens and their eggs."}],
    });
    let seen = send(&gateway, &client, &trace, &case.config(&[primary, other]), &body, false).await;
    assert!(seen.error.is_some() && !seen.done, "{}", seen.body);
    assert!(story(TOKENS).starts_with(&seen.text), "{}", seen.text);
    assert!(!asked(&gateway, &format!("{trace}-f")).await.is_empty());
}

/// What a rescuer says and the fault it breaks with may come together: what it said is neither lost nor said twice.
#[tokio::test]
async fn a_rescuer_that_breaks_as_well_is_gone_on_from() {
    let (gateway, client) = (gateway(), client());
    let case = case("cut after 40 of 60 tokens", Form::Streamed);
    for second in [Who::OpenAi, Who::Anthropic, Who::Gemini, Who::Bedrock] {
        let trace = new_trace();
        let targets = [
            Who::OpenAi.target("p", &format!("tokens=40&fault=cut&after=10&tag={trace}-p")),
            second.target("s", &format!("tokens=40&fault=malformed&after=16&tag={trace}-s")),
            Who::OpenAi.target("f", &format!("tokens=40&tag={trace}-f")),
        ];
        let mut config = case.config(&targets);
        config["retry"] = json!({"attempts": 0});
        let seen = case.send(&gateway, &client, &trace, &config).await;
        assert_eq!((seen.text.as_str(), seen.done), (story(40).as_str(), true), "{second:?}: {}", seen.body);
        assert_eq!(asked(&gateway, &format!("{trace}-s")).await.len(), 1, "{second:?}");
    }
}

#[tokio::test]
async fn silence_in_a_stream_is_filled_with_comments() {
    let (gateway, client) = (gateway(), client());
    for (script, limits, comments) in [
        ("tokens=4&gap=700", json!({"heartbeat_ms": 200}), true),
        ("tokens=4&gap=700", json!({"heartbeat_ms": 0}), false),
        // Before the answer is known to be good there are none, unless they are asked for.
        ("tokens=4&ttft=1000", json!({"heartbeat_ms": 200}), false),
        ("tokens=4&ttft=1000", json!({"heartbeat_ms": 200, "early_heartbeat": true}), true),
    ] {
        let case = case("silence", Form::Streamed);
        let targets = [Who::OpenAi.target("primary", script), Who::OpenAi.target("fallback", "")];
        let mut config = case.config(&targets);
        config["time_limits"] = limits;
        let seen = case.send(&gateway, &client, &new_trace(), &config).await;
        assert_eq!((seen.text.as_str(), seen.done), (story(4).as_str(), true), "{script}: {}", seen.body);
        assert_eq!(seen.body.contains(": keep-alive\n\n"), comments, "{config}: {}", seen.body);
    }
}

/// Nobody is left to go to: what breaks then is told as an error, and no half of an answer as a whole one.
#[tokio::test]
async fn the_last_targets_broken_answer_is_a_clean_error() {
    let (gateway, client) = (gateway(), fresh_client());
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
        let targets = ["first", "last"].map(|role| Who::OpenAi.target(role, script));
        let mut config = case.config(&targets);
        config["retry"]["attempts"] = 0.into();
        config["time_limits"] = json!({"first_token_ms": 400, "gap_ms": 400});
        let seen = case.send(&gateway, &client, &new_trace(), &config).await;
        if seen.status < 400 || seen.error.is_none() || seen.broke.is_some() {
            wrong.push(format!("{script} {form:?}: {} {:?} {}", seen.status, seen.broke, seen.body));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
