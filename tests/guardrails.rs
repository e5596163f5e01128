//! Guardrails and hooks as clients meet them: statuses, results, streams, retries, in every dialect.
//!
//! Not what single checks find: those have tests beside the code.

use crate::own_dialects::{COMPLETION_EVENTS, WHOLE_COMPLETION, response_events, response_object};
use crate::stages::{
    COMPLETIONS, MESSAGE_EVENTS, RESPONSES, WHOLE_CHAT, WHOLE_MESSAGE, chat_events, provider, text_of,
};
use crate::support::client::{client, new_trace};
use crate::support::provider::Provider;
use crate::support::settings::{KEY, STANDARD};
use crate::support::upstream::{Connection, Upstream};
use crate::support::wait::until;
use crate::support::{Gateway, gateway};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

pub(crate) const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";
const EMBEDDINGS: &str = "/v1/embeddings";

/// What the client got.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) text: String,
    pub(crate) headers: reqwest::header::HeaderMap,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|why| panic!("{why}: {}", self.text))
    }

    /// The results of the hooks of a phase.
    fn hooks(&self, phase: &str) -> Value {
        self.json()["hook_results"][phase].clone()
    }
}

pub(crate) async fn send_to(gateway: &Gateway, path: &str, config: &Value, body: &Value) -> Answer {
    let url = gateway.base_url().replace("/v1", path);
    let call =
        client().post(url).header("x-gateway-api-key", KEY).header("x-gateway-config", config.to_string());
    let response = call.header("x-gateway-trace-id", new_trace()).json(body).send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let text = response.text().await.unwrap_or_else(|why| format!("broken off: {why}"));
    Answer { status, text, headers }
}

pub(crate) async fn send(path: &str, config: &Value, body: &Value) -> Answer {
    send_to(&gateway(), path, config, body).await
}

pub(crate) fn with(target: &Value, more: Value) -> Value {
    let mut config = target.clone();
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    config
}

fn body(path: &str, text: &str, stream: bool) -> Value {
    let mut body = match path {
        RESPONSES | EMBEDDINGS => json!({"model": "m", "input": text}),
        COMPLETIONS => json!({"model": "m", "prompt": text}),
        _ => json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": text}]}),
    };
    if stream {
        body["stream"] = true.into();
    }
    body
}

/// A provider that speaks the dialect of a path, and the target that is it. Its response is "hello world".
async fn speaking(path: &str, stream: bool) -> (Provider, Value) {
    let text = match (path, stream) {
        (CHAT, false) => WHOLE_CHAT.to_owned(),
        (CHAT, true) => chat_events(&["hello", " world"]),
        (MESSAGES, false) => WHOLE_MESSAGE.to_owned(),
        (MESSAGES, true) => MESSAGE_EVENTS.to_owned(),
        (COMPLETIONS, false) => WHOLE_COMPLETION.to_owned(),
        (COMPLETIONS, true) => COMPLETION_EVENTS.to_owned(),
        (RESPONSES, false) => response_object().to_string(),
        (RESPONSES, true) => response_events(),
        _ => json!({"object": "list", "data": [], "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1}})
            .to_string(),
    };
    let provider = provider(&text).await;
    let vendor = if path == MESSAGES { "anthropic" } else { "openai" };
    let target = json!({"provider": vendor, "api_key": "k", "custom_host": provider.base_url()});
    (provider, target)
}

pub(crate) fn none_of(word: &str, deny: bool) -> Value {
    json!([{"id": "g", "contains": {"operator": "none", "words": [word]}, "deny": deny}])
}

const PATHS: [&str; 4] = [CHAT, MESSAGES, COMPLETIONS, RESPONSES];

/// The table of statuses of `docs/guardrails.md`, row by row.
#[tokio::test]
async fn statuses_and_results_are_those_of_the_reference_in_every_dialect() {
    for path in PATHS {
        for (key, word, deny, wanted) in [
            ("input_guardrails", "hidden", true, 446),
            ("input_guardrails", "hidden", false, 246),
            ("input_guardrails", "absent", true, 200),
            ("output_guardrails", "world", true, 446),
            ("output_guardrails", "world", false, 246),
            ("output_guardrails", "absent", true, 200),
        ] {
            let (upstream, target) = speaking(path, false).await;
            let config = with(&target, json!({key: none_of(word, deny)}));
            let answer = send(path, &config, &body(path, "it is hidden", false)).await;
            let case = format!("{path} {key} {word} {deny}: {}", answer.text);
            assert_eq!(answer.status, wanted, "{case}");
            let phase =
                if key == "input_guardrails" { "before_request_hooks" } else { "after_request_hooks" };
            let hooks = answer.hooks(phase);
            assert_eq!(hooks[0]["id"], "g", "{case}");
            assert_eq!(hooks[0]["verdict"], wanted == 200, "{case}");
            assert_eq!(hooks[0]["deny"], wanted == 446, "{case}");
            assert_eq!(hooks[0]["checks"][0]["id"], "default.contains", "{case}");
            let is_called = wanted != 446 || key == "output_guardrails";
            assert_eq!(upstream.received().len(), usize::from(is_called), "{case}");
            match wanted {
                446 if path == MESSAGES => assert_eq!(answer.json()["type"], "error", "{case}"),
                446 => {
                    let error = json!({
                        "message": "The guardrail checks defined in the config failed. You can find more information in the \
                                    `hook_results` object.",
                        "type": "hooks_failed", "param": null, "code": null,
                    });
                    assert_eq!(answer.json()["error"], error, "{case}");
                    assert!(!text_of(&answer.text).contains("world"), "{case}");
                }
                _ => assert_eq!(text_of(&answer.text), "hello world", "{case}"),
            }
        }
    }
}

/// The same for streams, where hooks on the response see more than at Portkey.
#[tokio::test]
async fn statuses_of_streams_are_those_of_the_reference_in_every_dialect() {
    let held = |word: &str, deny: bool| {
        let mut hooks = none_of(word, deny);
        hooks[0]["stream"] = "buffer".into();
        hooks
    };
    for path in PATHS {
        for (key, guardrails, wanted) in [
            ("input_guardrails", none_of("hidden", true), 446),
            ("input_guardrails", none_of("hidden", false), 246),
            ("input_guardrails", none_of("absent", true), 200),
            ("output_guardrails", held("lo wor", true), 446),
            ("output_guardrails", held("lo wor", false), 246),
            ("output_guardrails", held("absent", true), 200),
            // Nothing is held back for it, so that the status is sent before it has seen anything.
            ("output_guardrails", none_of("lo wor", false), 200),
        ] {
            let (upstream, target) = speaking(path, true).await;
            let config = with(&target, json!({key: guardrails, "strict_std_compliance": false}));
            let answer = send(path, &config, &body(path, "it is hidden", true)).await;
            let case = format!("{path} {config}: {}", answer.text);
            assert_eq!(answer.status, wanted, "{case}");
            let is_called = wanted != 446 || key == "output_guardrails";
            assert_eq!(upstream.received().len(), usize::from(is_called), "{case}");
            match wanted {
                446 => assert!(answer.text.starts_with('{') && !answer.text.contains("\"hello"), "{case}"),
                _ => assert!(answer.text.contains("hello") && answer.text.contains("world"), "{case}"),
            }
            let shows_results = key == "input_guardrails" || guardrails[0]["stream"] == "buffer";
            assert_eq!(answer.text.contains("hook_results"), shows_results, "{case}");
        }
    }
}

#[tokio::test]
async fn streams_are_denied_before_and_in_their_middle_and_the_provider_is_stopped() {
    for path in PATHS {
        let (_upstream, target) = speaking(path, true).await;
        let denied = with(&target, json!({"output_guardrails": none_of("lo wor", true)}));
        let answer = send(path, &denied, &body(path, "hi", true)).await;
        assert!(!answer.text.contains("world"), "{path}: {}", answer.text);
        assert!(answer.text.contains("guardrail checks"), "{path}: {}", answer.text);
        let passing = with(&target, json!({"output_guardrails": none_of("absent", true)}));
        let answer = send(path, &passing, &body(path, "hi", true)).await;
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.text.contains("world"), "{path}: {}", answer.text);
    }
}

/// The event of a chat's stream with this text.
pub(crate) fn chat_event(text: &str) -> String {
    let delta = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]});
    format!("data: {delta}\n\n")
}

#[tokio::test]
async fn a_denial_in_the_middle_ends_the_stream_with_an_error_and_stops_the_provider() {
    let (begun, left) = (Arc::new(Notify::new()), Arc::<AtomicBool>::default());
    let marks = (Arc::clone(&begun), Arc::clone(&left));
    let upstream = Upstream::start(move |mut connection: Connection| {
        let (begun, left) = marks.clone();
        async move {
            connection.request().await;
            connection.write("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n").await;
            connection.write(&chat_event("this text is sent on, and it is long enough. ")).await;
            begun.notified().await;
            for text in ["sec", "ret", " never sent"] {
                connection.write(&chat_event(text)).await;
            }
            // Returns when the gateway has closed the connection.
            connection.request().await;
            left.store(true, Ordering::SeqCst);
        }
    })
    .await;
    let config = json!({
        "provider": "openai", "api_key": "k", "custom_host": upstream.url(),
        "output_guardrails": none_of("secret", true),
    });
    let url = format!("{}/chat/completions", gateway().base_url());
    let call =
        client().post(url).header("x-gateway-api-key", KEY).header("x-gateway-config", config.to_string());
    let mut response = call.json(&body(CHAT, "hi", true)).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let mut text = String::new();
    while let Some(chunk) = response.chunk().await.unwrap() {
        text.push_str(std::str::from_utf8(&chunk).unwrap());
        begun.notify_one();
    }
    assert!(text.contains("this text is sent on"), "{text}");
    assert!(text.contains("hooks_failed"), "{text}");
    for never in ["sec\"", "secret\"}", "never sent", "[DONE]"] {
        assert!(!text.contains(never), "{never}: {text}");
    }
    until("the provider is stopped", async || left.load(Ordering::SeqCst).then_some(())).await;
}

#[tokio::test]
async fn what_needs_the_whole_text_holds_a_stream_back_and_may_still_fall_back() {
    let (_one, first) = speaking(CHAT, true).await;
    let other = provider(&chat_events(&["good", " bye"])).await;
    let other = json!({"provider": "openai", "api_key": "k", "custom_host": other.base_url()});
    let needs = json!([{"contains": {"operator": "all", "words": ["good", "bye"]}, "deny": true}]);
    let config = with(&first, json!({"output_guardrails": needs}));
    let answer = send(CHAT, &config, &body(CHAT, "hi", true)).await;
    assert_eq!(answer.status, 446, "{}", answer.text);
    let config =
        json!({"strategy": {"mode": "fallback"}, "output_guardrails": needs, "targets": [first, other]});
    let answer = send(CHAT, &config, &body(CHAT, "hi", true)).await;
    assert_eq!((answer.status, text_of(&answer.text).as_str()), (200, "good bye"), "{}", answer.text);
    assert_eq!(answer.headers["x-gateway-last-used-option-index"], "config.targets[1]");
}

#[tokio::test]
async fn denials_and_failures_take_part_in_retries_where_the_config_lists_them() {
    let (upstream, target) = speaking(CHAT, false).await;
    for (deny, listed, calls, status) in [
        (true, json!([446]), 3, 446),
        (true, json!([500]), 1, 446),
        (false, json!([246]), 3, 246),
        (false, json!([446]), 1, 246),
    ] {
        let before = upstream.received().len();
        let retry = json!({"attempts": 2, "on_status_codes": listed});
        let config = with(&target, json!({"output_guardrails": none_of("world", deny), "retry": retry}));
        let answer = send(CHAT, &config, &body(CHAT, "hi", false)).await;
        assert_eq!((answer.status, upstream.received().len() - before), (status, calls), "{deny} {listed}");
        let retries = if calls == 3 { "-1" } else { "0" };
        assert_eq!(answer.headers["x-gateway-retry-attempt-count"], retries, "{deny} {listed}");
        assert_eq!(answer.hooks("after_request_hooks")[0]["verdict"], false, "{}", answer.text);
    }
    // A request that is denied for one target goes to the next one, but 246 is a success.
    let guarded = with(&target, json!({"input_guardrails": none_of("hidden", true)}));
    let gone = with(&target, json!({"custom_host": "http://127.0.0.1:1/v1"}));
    let config = json!({"strategy": {"mode": "fallback"}, "targets": [gone, guarded]});
    let answer = send(CHAT, &config, &body(CHAT, "hidden", false)).await;
    let attempts = answer.headers["x-gateway-attempts"].to_str().unwrap();
    let shown = attempts.split(", ").map(|attempt| attempt.rsplit_once(':').unwrap().0).collect::<Vec<_>>();
    assert_eq!(answer.status, 446);
    assert_eq!(shown, ["config.targets[0]:upstream_unreachable", "config.targets[1]:hooks_failed"]);
    let config = json!({"strategy": {"mode": "fallback"}, "targets": [guarded, target]});
    let answer = send(CHAT, &config, &body(CHAT, "hidden", false)).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.headers["x-gateway-last-used-option-index"], "config.targets[1]");
}

#[tokio::test]
async fn the_long_form_has_feedback_and_denies_by_its_actions() {
    let (upstream, target) = speaking(CHAT, false).await;
    let check = |operator: &str| json!([{"id": "default.contains", "parameters": {"operator": operator, "words": ["hidden"]}}]);
    let feedback = json!({"value": -5, "weight": 0.5, "metadata": {"team": "a"}});
    let hook = json!({"id": "h", "type": "guardrail", "checks": check("none"), "on_fail": {"deny": true, "feedback": feedback}});
    let config = with(&target, json!({"before_request_hooks": [hook]}));
    let answer = send(CHAT, &config, &body(CHAT, "hidden", false)).await;
    assert_eq!((answer.status, upstream.received().len()), (446, 0), "{}", answer.text);
    let kept = &answer.hooks("before_request_hooks")[0]["feedback"];
    let metadata =
        json!({"team": "a", "failedChecks": "default.contains", "successfulChecks": "", "erroredChecks": ""});
    assert_eq!(*kept, json!({"value": -5.0, "weight": 0.5, "metadata": metadata}));
    // Output guardrails may deny what passes.
    let passing = json!([{"contains": {"words": ["world"]}, "on_success": {"deny": true}, "message": "No worlds here."}]);
    let config = with(&target, json!({"output_guardrails": passing}));
    let answer = send(CHAT, &config, &body(CHAT, "hi", false)).await;
    assert_eq!(answer.status, 446, "{}", answer.text);
    assert_eq!(answer.json()["error"]["message"], "No worlds here.");
}

#[tokio::test]
async fn parallel_hooks_hold_the_response_until_they_pass() {
    for stream in [false, true] {
        let (upstream, target) = speaking(CHAT, stream).await;
        let guardrails = |word: &str| json!([{"contains": {"operator": "none", "words": [word]}, "deny": true, "parallel": true}]);
        let config = with(&target, json!({"input_guardrails": guardrails("hidden")}));
        let answer = send(CHAT, &config, &body(CHAT, "hidden", stream)).await;
        assert_eq!((answer.status, upstream.received().len()), (446, 1), "{}", answer.text);
        let config = with(&target, json!({"input_guardrails": guardrails("absent")}));
        let answer = send(CHAT, &config, &body(CHAT, "hidden", stream)).await;
        assert_eq!((answer.status, text_of(&answer.text).as_str()), (200, "hello world"), "{}", answer.text);
    }
}

#[tokio::test]
async fn embeddings_have_their_input_checked_and_an_error_of_the_provider_shows_what_was_found() {
    let (upstream, target) = speaking(EMBEDDINGS, false).await;
    let config = with(
        &target,
        json!({"input_guardrails": none_of("hidden", true), "output_guardrails": none_of("x", true)}),
    );
    let answer = send(EMBEDDINGS, &config, &body(EMBEDDINGS, "hidden", false)).await;
    assert_eq!((answer.status, upstream.received().len()), (446, 0), "{}", answer.text);
    let answer = send(EMBEDDINGS, &config, &body(EMBEDDINGS, "fine", false)).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert!(answer.json()["hook_results"]["after_request_hooks"].is_null(), "{}", answer.text);
    let error = r#"{"error":{"message":"no","type":"server_error","param":null,"code":null}}"#;
    let failing = Provider::start(move |_| {
        let length = error.len();
        format!(
            "HTTP/1.1 503 Busy\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{error}"
        )
        .into_bytes()
    })
    .await;
    let config = json!({
        "provider": "openai", "api_key": "k", "custom_host": failing.base_url(), "input_guardrails": none_of("absent", true),
    });
    let answer = send(CHAT, &config, &body(CHAT, "hi", false)).await;
    assert_eq!(answer.status, 503);
    assert_eq!(answer.json()["error"]["message"], "no", "{}", answer.text);
    assert_eq!(answer.hooks("before_request_hooks")[0]["verdict"], true, "{}", answer.text);
}

#[tokio::test]
async fn a_stream_shows_results_as_its_first_event_only_where_the_client_is_not_strict() {
    let (_upstream, target) = speaking(CHAT, true).await;
    for (strict, wanted) in [(true, false), (false, true)] {
        let config = with(
            &target,
            json!({"input_guardrails": none_of("hidden", false), "strict_std_compliance": strict}),
        );
        let answer = send(CHAT, &config, &body(CHAT, "hidden", true)).await;
        assert_eq!(answer.status, 246, "{}", answer.text);
        assert_eq!(answer.text.starts_with("data: {\"hook_results\":"), wanted, "{}", answer.text);
        assert!(answer.text.ends_with("data: [DONE]\n\n"), "{}", answer.text);
    }
}

#[tokio::test]
async fn what_cannot_be_checked_is_refused_with_all_problems_and_their_paths() {
    let (upstream, target) = speaking(CHAT, false).await;
    let empty = with(
        &target,
        json!({"input_guardrails": [{"deny": true}], "before_request_hooks": [{"id": "no-such"}]}),
    );
    let answer = send(CHAT, &empty, &body(CHAT, "hi", false)).await;
    assert_eq!(answer.status, 400, "{}", answer.text);
    for path in ["before_request_hooks[0]", "input_guardrails[0]"] {
        assert!(answer.text.contains(path), "{path}: {}", answer.text);
    }
    let input = json!([{"nothing": {}}, "no-such", {"contains": {"words": 5, "wrods": []}}, {"contains": {"words": []}, "stream": "window"}]);
    let output = json!([{"contains": {"words": ["a"], "operator": "all"}, "stream": "window"}]);
    let config = with(&target, json!({"input_guardrails": input}));
    let answer = send(CHAT, &config, &body(CHAT, "hi", false)).await;
    assert_eq!((answer.status, upstream.received().len()), (400, 0), "{}", answer.text);
    assert!(answer.text.contains("input_guardrails[3].stream"), "{}", answer.text);
    let config = with(
        &target,
        json!({"input_guardrails": input.as_array().unwrap()[..3], "output_guardrails": output}),
    );
    let answer = send(CHAT, &config, &body(CHAT, "hi", false)).await;
    let problems = answer.json()["error"]["problems"].clone();
    let paths: Vec<&str> =
        problems.as_array().unwrap().iter().map(|problem| problem["path"].as_str().unwrap()).collect();
    assert_eq!(
        paths,
        [
            "input_guardrails[0].nothing",
            "input_guardrails[1]",
            "input_guardrails[2].contains.words",
            "input_guardrails[2].contains.wrods",
            "output_guardrails[0].stream",
        ],
    );
    // Types of requests that are none, and schemas that cannot be judged.
    let input = json!([{"allowedRequestTypes": {"allowedTypes": ["stream-chatComplete"], "blockedTypes": ["chatcomplete"]}},
        {"jsonSchema": {"schema": {"$ref": "#"}}}, {"jsonSchema": {"schema": {"properties": {"a": {"$ref": "#"}}}}}]);
    let answer =
        send(CHAT, &with(&target, json!({"input_guardrails": input})), &body(CHAT, "hi", false)).await;
    assert_eq!(answer.status, 400, "{}", answer.text);
    let problems = answer.json()["error"]["problems"].clone();
    let paths: Vec<_> = problems.as_array().unwrap().iter().map(|problem| problem["path"].clone()).collect();
    let wanted =
        ["input_guardrails[0].allowedRequestTypes.blockedTypes", "input_guardrails[1].jsonSchema.schema"];
    assert_eq!(paths, wanted, "{problems}");
}

#[tokio::test]
async fn text_is_changed_on_its_way_to_the_provider_and_back() {
    for (path, stream) in PATHS.into_iter().flat_map(|path| [(path, false), (path, true)]) {
        let (upstream, target) = speaking(path, stream).await;
        let replace = |rule: &str| json!([{"regexReplace": {"rule": rule, "redactText": "***"}}]);
        let config = with(
            &target,
            json!({"input_guardrails": replace("hidden"), "output_guardrails": replace("wor[a-z]d")}),
        );
        let answer = send(path, &config, &body(path, "it is hidden", stream)).await;
        assert_eq!(answer.status, 200, "{path} {stream}: {}", answer.text);
        let sent = String::from_utf8(upstream.received()[0].body.clone()).unwrap();
        assert!(sent.contains("it is ***") && !sent.contains("hidden"), "{path} {stream}: {sent}");
        assert!(answer.text.contains("***"), "{path} {stream}: {}", answer.text);
        assert!(!answer.text.contains("hello world"), "{path} {stream}: {}", answer.text);
    }
}

#[tokio::test]
async fn mutators_run_behind_the_guardrails_of_their_phase() {
    let (provider, target) = speaking(CHAT, false).await;
    let config = with(
        &target,
        json!({
            "input_mutators": [{"id": "in", "addPrefix": {"prefix": "Be brief. "}}],
            "input_guardrails": [{"id": "first", "contains": {"operator": "none", "words": ["brief"]}, "deny": true}],
            "output_mutators": [{"id": "out", "regexReplace": {"rule": "world", "redactText": "you"}}],
            "output_guardrails": [{"id": "seen", "contains": {"operator": "all", "words": ["world"]}}],
        }),
    );
    let answer = send(CHAT, &config, &body(CHAT, "Hi", false)).await;
    assert_eq!((answer.status, text_of(&answer.text).as_str()), (200, "hello you"), "{}", answer.text);
    let sent = String::from_utf8(provider.received()[0].body.clone()).unwrap();
    assert!(sent.contains("Be brief. Hi"), "{sent}");
    let run = |phase: &str| {
        let results = answer.hooks(phase);
        let result =
            |hook: &Value| format!("{} {}", hook["id"].as_str().unwrap(), hook["type"].as_str().unwrap());
        results.as_array().unwrap().iter().map(result).collect::<Vec<_>>()
    };
    assert_eq!(run("before_request_hooks"), ["first guardrail", "in mutator"]);
    assert_eq!(run("after_request_hooks"), ["seen guardrail", "out mutator"]);
}

#[tokio::test]
async fn redacted_data_is_restored_in_the_answer() {
    let echo = |stream: bool| {
        let text = "write to {{EMAIL_ADDRESS_1}} now";
        match stream {
            true => chat_events(&["write to {{EMA", "IL_ADDRESS", "_1}} now"]),
            false => WHOLE_CHAT.replace("hello world", text),
        }
    };
    for stream in [false, true] {
        let upstream = provider(&echo(stream)).await;
        let config = json!({
            "provider": "openai", "api_key": "k", "custom_host": upstream.base_url(),
            "input_guardrails": [{"pii": {"redact": true, "restore": true}}],
        });
        let answer = send(CHAT, &config, &body(CHAT, "I am ann@example.com", stream)).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let sent = String::from_utf8(upstream.received()[0].body.clone()).unwrap();
        assert!(sent.contains("{{EMAIL_ADDRESS_1}}") && !sent.contains("ann@"), "{sent}");
        assert_eq!(text_of(&answer.text), "write to ann@example.com now", "{}", answer.text);
    }
}

#[tokio::test]
async fn a_check_that_hangs_or_fails_is_given_up_at_its_limit_and_shows_it() {
    let hanging = Upstream::start(|mut connection: Connection| async move {
        connection.request().await;
        connection.request().await;
    })
    .await;
    let (_upstream, target) = speaking(CHAT, false).await;
    for (parameters, status) in [
        (json!({"webhookURL": hanging.url(), "timeout": 50}), 200),
        (json!({"webhookURL": hanging.url(), "timeout": 50, "failOnError": true}), 446),
        (json!({"webhookURL": "http://127.0.0.1:1/", "timeout": 2000}), 200),
        (json!({"webhookURL": "http://127.0.0.1:1/", "timeout": 2000, "fail_on_error": true}), 446),
    ] {
        let config = with(&target, json!({"input_guardrails": [{"webhook": parameters, "deny": true}]}));
        let answer = send(CHAT, &config, &body(CHAT, "hi", false)).await;
        assert_eq!(answer.status, status, "{parameters}: {}", answer.text);
        let check = &answer.hooks("before_request_hooks")[0]["checks"][0];
        assert!(check["error"]["message"].is_string(), "{parameters}: {}", answer.text);
        assert_eq!(check["verdict"], false, "{parameters}: {}", answer.text);
    }
}

#[tokio::test]
async fn a_check_may_not_call_an_address_that_a_custom_host_may_not_name() {
    let yaml = STANDARD.replace("allow_private: true", "allow: ['127.0.0.1']");
    let gateway = Gateway::start(&yaml);
    let (_upstream, target) = speaking(CHAT, false).await;
    for url in ["http://127.0.0.2/", "file:///etc/passwd", "http://[::1]/", "http://localhost:1/", "no url"] {
        let parameters = json!({"webhookURL": url, "timeout": 2000, "failOnError": true});
        let config = with(&target, json!({"input_guardrails": [{"webhook": parameters, "deny": true}]}));
        let answer = send_to(&gateway, CHAT, &config, &body(CHAT, "hi", false)).await;
        assert_eq!(answer.status, 446, "{url}: {}", answer.text);
    }
}

#[tokio::test]
async fn asynchronous_hooks_never_touch_the_response_and_leave_feedback_and_metrics() {
    let gateway = Gateway::start(STANDARD);
    for stream in [false, true] {
        let (_upstream, target) = speaking(CHAT, stream).await;
        let feedback = json!({"feedback": {"value": -3, "weight": 1}});
        let guardrail = json!([{"contains": {"operator": "none", "words": ["world"]}, "deny": true, "async": true, "on_fail": feedback}]);
        let config = with(&target, json!({"output_guardrails": guardrail, "input_guardrails": guardrail}));
        let answer = send_to(&gateway, CHAT, &config, &body(CHAT, "world", stream)).await;
        assert_eq!((answer.status, text_of(&answer.text).as_str()), (200, "hello world"), "{}", answer.text);
        assert!(!answer.text.contains("hook_results"), "{}", answer.text);
        let wanted = if stream { 4.0 } else { 2.0 };
        let name = "turnpike_guardrail_checks_total{check=\"default.contains\",verdict=\"failed\"}";
        until("the hooks in the background", async || {
            (gateway.metric(name).await == Some(wanted)).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_while_hooks_run_stops_the_request() {
    let slow = Upstream::start(|mut connection: Connection| async move {
        connection.request().await;
        connection.request().await;
    })
    .await;
    let (upstream, target) = speaking(CHAT, false).await;
    let webhook = json!({"webhookURL": slow.url(), "timeout": 60_000});
    let config = with(&target, json!({"output_guardrails": [{"webhook": webhook, "deny": true}]}));
    let url = format!("{}/chat/completions", gateway().base_url());
    let call =
        client().post(url).header("x-gateway-api-key", KEY).header("x-gateway-config", config.to_string());
    let left = call.json(&body(CHAT, "hi", false)).timeout(Duration::from_millis(300)).send().await;
    assert!(left.is_err());
    assert_eq!(upstream.received().len(), 1);
}

#[tokio::test]
async fn the_access_line_has_what_hooks_decided() {
    let gateway = gateway();
    for stream in [false, true] {
        for (more, wanted) in [
            (json!({"input_guardrails": none_of("hidden", true)}), json!([["g", "request", "denied"]])),
            (json!({"input_guardrails": none_of("hidden", false)}), json!([["g", "request", "failed"]])),
            (
                json!({"input_guardrails": none_of("absent", true), "output_guardrails": none_of("absent", true)}),
                json!([["g", "request", "passed"], ["g", "response", "passed"]]),
            ),
            (json!({"output_guardrails": none_of("world", true)}), json!([["g", "response", "denied"]])),
        ] {
            let (_upstream, target) = speaking(CHAT, stream).await;
            let answer =
                send_to(&gateway, CHAT, &with(&target, more.clone()), &body(CHAT, "it is hidden", stream))
                    .await;
            let trace = answer.headers["x-gateway-trace-id"].to_str().unwrap();
            let line = gateway.access_line(trace).await;
            let hooks = line["hooks"].as_array().unwrap_or_else(|| panic!("{more}: {line}"));
            let found: Vec<Value> =
                hooks.iter().map(|hook| json!([hook["id"], hook["on"], hook["verdict"]])).collect();
            assert_eq!(json!(found), wanted, "{stream} {more}: {line}");
            assert!(hooks.iter().all(|hook| hook["ms"].is_number()), "{line}");
        }
    }
    let (_upstream, target) = speaking(CHAT, false).await;
    let config = with(
        &target,
        json!({"input_guardrails": [{"id": "g", "regexReplace": {"rule": "hidden", "redactText": "***"}}]}),
    );
    let answer = send_to(&gateway, CHAT, &config, &body(CHAT, "it is hidden", false)).await;
    let line = gateway.access_line(answer.headers["x-gateway-trace-id"].to_str().unwrap()).await;
    assert_eq!(line["hooks"][0]["changed"], true, "{line}");
}
