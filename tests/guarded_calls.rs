//! What guardrails make of the calls of an answer, of conversations with a history, and of what they deny: that is repeated nowhere.
//!
//! In every dialect, whole and streamed. Where texts are in a body has tests beside the code (`guard::body_texts`).

use crate::guarded_texts::{GEMINI, GEMINI_EVENTS, MESSAGES, body, both_ways, events, is_denied, speaking};
use crate::guardrails::{CHAT, none_of, send, send_to, with};
use crate::stages::{RESPONSES, WHOLE_CHAT, provider};
use crate::support::Gateway;
use crate::support::client::client;
use crate::support::settings::STANDARD;
use crate::support::wait::until;
use reqwest::Method;
use serde_json::{Value, json};

const SECRET: &str = "KESTREL";

fn usage() -> Value {
    json!({"input_tokens": 1, "output_tokens": 1, "total_tokens": 2})
}

fn whole_chat(arguments: &str) -> String {
    let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}});
    let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    let choice = json!({"index": 0, "message": message, "finish_reason": "tool_calls"});
    json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})
        .to_string()
}

/// Two calls whose pieces come in turns.
fn chat_stream(arguments: &str) -> String {
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]})
    };
    let begin = |index: u32| {
        let function = json!({"name": "f", "arguments": ""});
        chunk(
            json!({"tool_calls": [{"index": index, "id": format!("c{index}"), "type": "function", "function": function}]}),
            Value::Null,
        )
    };
    let piece = |index: u32, piece: &str| {
        chunk(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}), Value::Null)
    };
    let (first, second) = arguments.split_at(arguments.find("TREL").unwrap_or(3));
    let list = [begin(0), begin(1), piece(1, first), piece(0, "{\"a\""), piece(1, second), piece(0, ":1}")];
    events(&list) + &events(&[chunk(json!({}), "tool_calls".into())]) + "data: [DONE]\n\n"
}

fn whole_message(arguments: &str) -> String {
    let input: Value = serde_json::from_str(arguments).unwrap();
    let block = json!({"type": "tool_use", "id": "t", "name": "f", "input": input});
    json!({"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [block], "stop_reason": "tool_use", "usage": usage()})
        .to_string()
}

fn message_stream(arguments: &str) -> String {
    let message = json!({"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage()});
    let block = json!({"type": "tool_use", "id": "t", "name": "f", "input": {}});
    let (first, second) = arguments.split_at(arguments.find("TREL").unwrap_or(3));
    let delta = |piece: &str| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": piece}});
    let list = [
        json!({"type": "message_start", "message": message}),
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
        delta(first),
        delta(second),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": usage()}),
        json!({"type": "message_stop"}),
    ];
    let named =
        list.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()));
    named.collect()
}

fn gemini_candidate(arguments: &str) -> Value {
    let args: Value = serde_json::from_str(arguments).unwrap();
    let content = json!({"role": "model", "parts": [{"functionCall": {"name": "f", "args": args}}]});
    json!({"candidates": [{"content": content, "index": 0, "finishReason": "STOP"}], "modelVersion": "m"})
}

fn whole_response(item: &Value) -> Value {
    json!({"id": "r", "object": "response", "status": "completed", "model": "m", "output": [item], "usage": usage()})
}

fn function_item(arguments: &str) -> Value {
    json!({"type": "function_call", "id": "f1", "call_id": "c", "name": "f", "arguments": arguments, "status": "completed"})
}

fn custom_item(input: &str) -> Value {
    json!({"type": "custom_tool_call", "id": "f1", "call_id": "c", "name": "f", "input": input})
}

/// The stream of one call: `kind` is the middle of the types of its events.
fn response_stream(kind: &str, member: &str, item: &Value) -> String {
    let text = item[member].as_str().unwrap();
    let mut begun = item.clone();
    begun[member] = "".into();
    let (first, second) = text.split_at(text.find("TREL").unwrap_or(3));
    let of =
        |kind: String, more: Value| with(&json!({"type": kind, "item_id": "f1", "output_index": 0}), more);
    let mut list = vec![
        json!({"type": "response.output_item.added", "output_index": 0, "item": begun}),
        of(format!("response.{kind}.delta"), json!({"delta": first})),
        of(format!("response.{kind}.delta"), json!({"delta": second})),
        of(format!("response.{kind}.done"), json!({member: text})),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        json!({"type": "response.completed", "response": whole_response(item)}),
    ];
    for (number, event) in list.iter_mut().enumerate() {
        event["sequence_number"] = number.into();
    }
    events(&list)
}

/// Every answer with a call that has this text in its arguments: vendor, path, whether it streams, what the provider sends.
fn answers(text: &str) -> Vec<(&'static str, &'static str, bool, String)> {
    let arguments = json!({"deep": [{"to": text}], "n": 7}).to_string();
    let function = function_item(&arguments);
    let custom = custom_item(text);
    let gemini = gemini_candidate(&arguments);
    vec![
        ("openai", CHAT, false, whole_chat(&arguments)),
        ("openai", CHAT, true, chat_stream(&arguments)),
        ("openai", MESSAGES, true, chat_stream(&arguments)),
        ("anthropic", MESSAGES, false, whole_message(&arguments)),
        ("anthropic", MESSAGES, true, message_stream(&arguments)),
        ("anthropic", CHAT, true, message_stream(&arguments)),
        ("google", GEMINI, false, gemini.to_string()),
        ("google", GEMINI_EVENTS, true, events(&[gemini])),
        ("openai", RESPONSES, false, whole_response(&function).to_string()),
        ("openai", RESPONSES, true, response_stream("function_call_arguments", "arguments", &function)),
        ("openai", RESPONSES, false, whole_response(&custom).to_string()),
        ("openai", RESPONSES, true, response_stream("custom_tool_call_input", "input", &custom)),
    ]
}

#[tokio::test]
async fn the_arguments_of_calls_are_judged_and_changed_in_every_dialect() {
    let escaped = json!([{"id": "g", "regexMatch": {"rule": r"(?m)^KESTREL$", "not": true}, "deny": true}]);
    let replaces = json!([{"regexReplace": {"rule": "KESTREL\\b", "redactText": "a \"b\""}}]);
    // A line end in JSON is two letters, and none in a text.
    for (vendor, path, streamed, sent) in answers(&format!("line\n{SECRET}")) {
        let (_upstream, target) = speaking(vendor, &sent).await;
        for guardrails in both_ways(&none_of(SECRET, true)).iter().chain(&both_ways(&escaped)) {
            let config = with(&target, json!({"output_guardrails": guardrails}));
            let answer = send(path, &config, &body(path, streamed)).await;
            let case = format!("{vendor} {path} {streamed} {guardrails}: {}", answer.text);
            assert!(is_denied(&answer), "{case}");
            assert!(!answer.text.contains("line"), "{case}");
        }
        for guardrails in both_ways(&replaces) {
            let config = with(&target, json!({"output_guardrails": guardrails}));
            let answer = send(path, &config, &body(path, streamed)).await;
            let case = format!("{vendor} {path} {streamed} {guardrails}: {}", answer.text);
            assert_eq!(answer.status, 200, "{case}");
            assert!(answer.text.contains("line") && answer.text.contains("b\\"), "{case}");
            // Also not in pieces of it.
            assert!(
                !["KES", "TREL"].iter().any(|text| answer.text.replace(r"KESTREL\\b", "").contains(text)),
                "{case}"
            );
        }
        for guardrails in both_ways(&none_of("absent", true)) {
            let config = with(&target, json!({"output_guardrails": guardrails}));
            let answer = send(path, &config, &body(path, streamed)).await;
            assert!(
                answer.status == 200 && answer.text.contains(SECRET),
                "{path} {guardrails}: {}",
                answer.text
            );
        }
    }
}

/// A denial says how much there was and where, and not what.
#[tokio::test]
async fn a_denial_repeats_nothing_of_what_it_denies() {
    let text = format!("begin {}{SECRET} end", "filler ".repeat(400));
    let denies = json!([
        {"id": "all", "regexMatch": {"rule": "[\\s\\S]*(K.STREL)[\\s\\S]*", "not": true}, "deny": true},
        {"id": "counts", "wordCount": {"minWords": 1, "maxWords": 9999}, "characterCount": {"minCharacters": 1, "maxCharacters": 1}},
    ]);
    let whole = WHOLE_CHAT.replace("hello world", &text);
    for (streamed, sent) in [(false, whole), (true, crate::stages::chat_events(&[&text]))] {
        let (_upstream, target) = speaking("openai", &sent).await;
        let config = with(
            &target,
            json!({"output_guardrails": denies, "input_guardrails": [{"wordCount": {"minWords": 0, "maxWords": 99}}]}),
        );
        let answer = send(CHAT, &config, &body(CHAT, streamed)).await;
        assert_eq!(answer.status, 446, "{streamed}: {}", answer.text);
        for part in ["begin", "filler", SECRET, "end\""] {
            assert!(!answer.text.contains(part), "{streamed} {part}: {}", answer.text);
        }
        let hooks = &answer.json()["hook_results"]["after_request_hooks"];
        let data = &hooks[0]["checks"][0]["data"];
        assert_eq!(data["matchDetails"], json!({"index": 0, "length": text.len()}), "{}", answer.text);
        assert_eq!(hooks[0]["judged"]["texts"], json!({"answer": 1}), "{}", answer.text);
    }
    // A request that is denied is repeated as little.
    let (_upstream, target) = speaking("openai", WHOLE_CHAT).await;
    let mut request = body(CHAT, false);
    request["messages"][0]["content"] = text.into();
    let answer = send(CHAT, &with(&target, json!({"input_guardrails": denies})), &request).await;
    assert!(answer.status == 446 && !answer.text.contains("filler"), "{}", answer.text);
}

fn history() -> Value {
    json!({"model": "m", "messages": [
        {"role": "system", "content": "plain"}, {"role": "user", "content": format!("it is {SECRET}")},
        {"role": "assistant", "content": "ok"}, {"role": "user", "content": "fine"}]})
}

#[tokio::test]
async fn the_scope_decides_how_much_of_a_history_is_judged_and_the_result_has_what_was() {
    let (upstream, target) = speaking("openai", WHOLE_CHAT).await;
    for (scope, status, judged) in [
        (
            None,
            200,
            json!({"scope": "new", "texts": {"user": 1}, "left_out": {"user": 1, "system": 1, "assistant": 1}}),
        ),
        (
            Some("new"),
            200,
            json!({"scope": "new", "texts": {"user": 1}, "left_out": {"user": 1, "system": 1, "assistant": 1}}),
        ),
        (Some("all"), 446, json!({"scope": "all", "texts": {"user": 2, "system": 1, "assistant": 1}})),
    ] {
        let mut guardrails = none_of(SECRET, true);
        if let Some(scope) = scope {
            guardrails[0]["scope"] = scope.into();
        }
        let answer = send(CHAT, &with(&target, json!({"input_guardrails": guardrails})), &history()).await;
        assert_eq!(answer.status, status, "{scope:?}: {}", answer.text);
        let hook = &answer.json()["hook_results"]["before_request_hooks"][0];
        assert_eq!(hook["judged"], judged, "{}", answer.text);
    }
    assert_eq!(upstream.received().len(), 2);
    let wrong = json!([{"contains": {"words": ["a"]}, "scope": "some", "also": ["names"]}]);
    let answer = send(CHAT, &with(&target, json!({"input_guardrails": wrong})), &history()).await;
    assert!(
        answer.status == 400 && answer.text.contains("scope") && answer.text.contains("also"),
        "{}",
        answer.text
    );
    let misplaced = json!([{"contains": {"words": ["a"]}, "scope": "all"}]);
    let answer = send(CHAT, &with(&target, json!({"output_guardrails": misplaced})), &history()).await;
    assert_eq!(answer.status, 400, "{}", answer.text);
}

/// A workspace whose guardrail denies a secret in requests and in answers. Its key.
async fn guarded_workspace(gateway: &Gateway) -> String {
    let check = json!({"id": "default.contains", "parameters": {"operator": "none", "words": [SECRET]}});
    let defaults = json!({"input_guardrails": ["secret"], "output_guardrails": ["secret"]});
    workspace_with(gateway, &json!([check]), defaults).await
}

/// A workspace with a guardrail `secret` of these checks, and these defaults. Its key.
async fn workspace_with(gateway: &Gateway, checks: &Value, defaults: Value) -> String {
    let (id, key) = crate::analytics::workspace(gateway, "own").await;
    let saved = json!({"name": "secret", "slug": "secret", "workspace_id": id, "checks": checks, "actions": {"deny": true}});
    gateway.create("/v1/guardrails", &saved).await;
    let defaults = json!({"defaults": defaults});
    let call = gateway.control(Method::PUT, &format!("/v1/admin/workspaces/{id}")).json(&defaults);
    assert_eq!(call.send().await.unwrap().status(), 200);
    key
}

/// A workspace's own guardrails judge all of a request, and what they deny of an answer reaches no server that a config names.
#[tokio::test]
async fn a_workspaces_guardrail_judges_all_and_what_it_denies_is_sent_to_no_webhook() {
    let gateway = Gateway::start(STANDARD);
    let key = guarded_workspace(&gateway).await;
    let hooks = provider(r#"{"verdict":true}"#).await;
    let url = format!("http://127.0.0.1:{}/", hooks.port);
    let send = async |config: &Value, body: &Value| {
        let call = client().post(format!("{}{CHAT}", gateway.data_url())).header("x-gateway-api-key", &key);
        let response = call.header("x-gateway-config", config.to_string()).json(body).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    let (_upstream, target) = speaking("openai", WHOLE_CHAT).await;
    let (status, text) = send(&target, &history()).await;
    assert!(status == 446 && text.contains(r#""scope":"all""#), "{text}");

    let secret = WHOLE_CHAT.replace("hello world", SECRET);
    let fine =
        json!({"index": 0, "message": {"role": "assistant", "content": "fine"}, "finish_reason": "stop"});
    let mut second: Value = serde_json::from_str(&secret).unwrap();
    second["choices"][0]["index"] = 1.into();
    second["choices"].as_array_mut().unwrap().insert(0, fine);
    for sent in [secret, second.to_string()] {
        let (_upstream, target) = speaking("openai", &sent).await;
        let webhook = json!({"default.webhook": {"webhookURL": url}});
        let log = with(&json!({"default.log": {"logURL": url}}), json!({"async": true}));
        let config = with(&target, json!({"output_guardrails": [webhook, log]}));
        let before = hooks.received().len();
        let (status, text) = send(&config, &body(CHAT, false)).await;
        assert_eq!(status, 446, "{text}");
        // The one in the background is called, and gets counts.
        until("the log", async || (hooks.received().len() > before).then_some(())).await;
        for call in hooks.received() {
            let got = String::from_utf8_lossy(&call.body).into_owned();
            assert!(!got.contains(SECRET) && got.contains("\"withheld\""), "{got}");
        }
    }
}

/// What is denied is in no log, unless the settings want it.
#[tokio::test]
async fn logs_keep_what_is_denied_only_where_the_settings_want_it() {
    for keeps in [false, true] {
        let settings = format!("{STANDARD}\nlogs: {{payloads: all}}\nguardrails: {{keep_denied: {keeps}}}\n");
        let gateway = Gateway::start(&settings);
        let (_upstream, target) =
            speaking("anthropic", &whole_message(&json!({"to": SECRET}).to_string())).await;
        let mut denied = body(CHAT, false);
        denied["messages"][0]["content"] = format!("it is {SECRET}").into();
        for (more, request, kept) in [
            (json!({"input_guardrails": none_of("it is", true)}), denied, keeps),
            (json!({"output_guardrails": none_of("TREL", true)}), body(CHAT, false), false),
        ] {
            let answer = send_to(&gateway, CHAT, &with(&target, more.clone()), &request).await;
            assert_eq!(answer.status, 446, "{more}: {}", answer.text);
            let trace = answer.headers["x-gateway-trace-id"].to_str().unwrap().to_owned();
            let path = format!("/v1/logs/{trace}");
            let log = until("the log", async || {
                let response = gateway.control(Method::GET, &path).send().await.unwrap();
                if response.status() == 200 { Some(response.text().await.unwrap()) } else { None }
            })
            .await;
            assert_eq!(log.contains(SECRET), kept, "{more}: {log}");
            assert!(log.contains("hook_results"), "{more}: {log}");
        }
    }
}

/// What one choice of several is denied for reaches no webhook of a config with any of them, whichever of them it is.
#[tokio::test]
async fn a_response_of_several_choices_that_the_workspace_denies_is_sent_to_no_webhook() {
    let gateway = Gateway::start(STANDARD);
    let key = guarded_workspace(&gateway).await;
    let hooks = provider(r#"{"verdict":true}"#).await;
    let webhook = json!({"default.webhook": {"webhookURL": format!("http://127.0.0.1:{}/", hooks.port)}});
    let choice = |index: usize, text: &str| {
        let message = json!({"role": "assistant", "content": text});
        json!({"index": index, "message": message, "finish_reason": "stop"})
    };
    for (texts, wanted) in [(["fine", "well"], 200), ([SECRET, "fine"], 446), (["fine", SECRET], 446)] {
        let mut sent: Value = serde_json::from_str(WHOLE_CHAT).unwrap();
        sent["choices"] = texts.iter().enumerate().map(|(index, text)| choice(index, text)).collect();
        let (_upstream, target) = speaking("openai", &sent.to_string()).await;
        let config = with(&target, json!({"output_guardrails": [webhook]}));
        let before = hooks.received().len();
        let call = client().post(format!("{}{CHAT}", gateway.data_url())).header("x-gateway-api-key", &key);
        let call = call.header("x-gateway-config", config.to_string()).json(&body(CHAT, false));
        let answer = call.send().await.unwrap();
        assert_eq!(answer.status(), wanted, "{texts:?}");
        assert_eq!(hooks.received().len() > before, wanted == 200, "{texts:?}");
    }
}

/// What the workspace redacts of an answer is in no result of a client's checks, in no call of theirs to a server, and in no results that are
/// logged, whole and streamed.
#[tokio::test]
async fn what_the_workspace_redacts_is_in_no_result_and_no_webhook() {
    let gateway = Gateway::start(STANDARD);
    let redact =
        json!({"id": "default.regexReplace", "parameters": {"rule": "KES[A-Z]+", "redactText": "***"}});
    let count = json!({"id": "default.wordCount", "parameters": {"minWords": 1, "maxWords": 900}});
    let key =
        workspace_with(&gateway, &json!([count, redact]), json!({"output_guardrails": ["secret"]})).await;
    let hooks = provider(r#"{"verdict":true}"#).await;
    let url = format!("http://127.0.0.1:{}/", hooks.port);
    let answer = WHOLE_CHAT.replace("hello world", &format!("it is {SECRET} and more"));
    let checks = json!({
        "default.regexMatch": {"rule": "([\\s\\S]*)"},
        "default.wordCount": {"minWords": 100, "maxWords": 200},
        "default.endsWith": {"suffix": "zz"},
        "default.contains": {"words": ["TREL"]},
        "default.log": {"logURL": url},
        "default.webhook": {"webhookURL": url},
    });
    for streamed in [false, true] {
        let sent = if streamed {
            let delta = json!({"content": format!("it is {SECRET} and more")});
            let choice = json!({"index": 0, "delta": delta, "finish_reason": "stop"});
            events(&[
                json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}),
            ]) + "data: [DONE]\n\n"
        } else {
            answer.clone()
        };
        let (_upstream, target) = speaking("openai", &sent).await;
        let more = json!({"output_guardrails": [checks], "strict_std_compliance": false});
        let call = client().post(format!("{}{CHAT}", gateway.data_url())).header("x-gateway-api-key", &key);
        let call = call.header("x-gateway-config", with(&target, more).to_string());
        let response = call.json(&body(CHAT, streamed)).send().await.unwrap();
        let text = response.text().await.unwrap();
        assert!(text.contains("it is *** and more") && text.contains("matchedText"), "{text}");
        assert!(!text.contains(SECRET), "{streamed} {text}");
    }
    assert_eq!(hooks.received().len(), 4);
    for call in hooks.received() {
        let got = String::from_utf8_lossy(&call.body).into_owned();
        assert!(got.contains("***") && !got.contains(SECRET), "{got}");
    }
}
