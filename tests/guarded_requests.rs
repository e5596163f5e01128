//! What guardrails see of a request in any spelling: bodies that are sent in pieces or as another type, paths that only some servers read as
//! an operation, members that only some readers see, operations without a text.
//!
//! Statuses of plain chats are in `guardrails`.

use crate::guardrails::{CHAT, none_of, send, with};
use crate::http2::h2c;
use crate::stages::{WHOLE_CHAT, provider};
use crate::support::client::client;
use crate::support::gateway;
use crate::support::gateway::Gateway;
use crate::support::provider::Provider;
use crate::support::raw;
use crate::support::settings::{KEY, STANDARD};
use crate::support::upstream::{Connection, Upstream};
use futures_util::stream;
use reqwest::{Body, Method, RequestBuilder};
use serde_json::{Value, json};
use std::io;
use std::sync::Arc;
use tokio::sync::Notify;

const GENERIC: &str = "/v1/proxy/v1/something/new";

/// A provider that responds with a chat, and the target that it is.
async fn target() -> (Provider, Value) {
    let upstream = provider(WHOLE_CHAT).await;
    let target = json!({"provider": "openai", "api_key": "k", "custom_host": upstream.base_url()});
    (upstream, target)
}

fn chat(text: &str) -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": text}]})
}

/// The status of a request that is sent as it is written, and its response. `head`: its header lines.
async fn sent(method: &str, path: &str, config: &Value, head: &str, body: &[u8]) -> (u16, String) {
    let line =
        format!("{method} {path} HTTP/1.1\r\nhost: g\r\nconnection: close\r\nx-gateway-api-key: {KEY}\r\n");
    let head = format!("{line}x-gateway-config: {config}\r\n{head}\r\n");
    let response = raw::send(gateway().ports.data, &[head.as_bytes(), body].concat()).await;
    let response = String::from_utf8_lossy(&response).into_owned();
    let status = response.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("no response: {response}")), response)
}

fn chunked(body: &str) -> Vec<u8> {
    let (first, second) = body.split_at(body.len() / 2);
    let chunk = |part: &str| format!("{:x}\r\n{part}\r\n", part.len());
    format!("{}{}0\r\n\r\n", chunk(first), chunk(second)).into_bytes()
}

/// A hook that decides over what it could not read would let everything pass that is sent in another way.
#[tokio::test]
async fn a_body_is_judged_however_it_is_sent_or_refused() {
    let body = chat("it is hidden").to_string();
    let sized = |kind: &str, body: &[u8]| format!("{kind}content-length: {}\r\n", body.len());
    let json = "content-type: application/json\r\n";
    let marked = format!("\u{feff}{body}");
    let invalid = body.replace("hidden", "hidden \u{1}").into_bytes();
    let invalid: Vec<u8> = invalid.into_iter().map(|byte| if byte == 1 { 0xff } else { byte }).collect();
    let wide: Vec<u8> = body.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let list = format!("[{body}]");
    for (case, head, bytes, wanted) in [
        ("chunked", format!("{json}transfer-encoding: chunked\r\n"), chunked(&body), 446),
        ("text", sized("content-type: text/plain\r\n", body.as_bytes()), body.clone().into_bytes(), 446),
        ("no type", sized("", body.as_bytes()), body.clone().into_bytes(), 446),
        (
            "vendor",
            sized("content-type: application/vnd.api+json\r\n", body.as_bytes()),
            body.clone().into_bytes(),
            446,
        ),
        (
            "identity",
            sized("content-type: application/json\r\ncontent-encoding: identity\r\n", body.as_bytes()),
            body.clone().into_bytes(),
            446,
        ),
        (
            "gzip",
            sized("content-type: application/json\r\ncontent-encoding: gzip\r\n", b"\x1f\x8b\x08"),
            b"\x1f\x8b\x08".to_vec(),
            501,
        ),
        ("mark", sized(json, marked.as_bytes()), marked.clone().into_bytes(), 501),
        ("utf-16", sized(json, &wide), wide.clone(), 501),
        ("invalid", sized(json, &invalid), invalid.clone(), 501),
        ("list", sized(json, list.as_bytes()), list.clone().into_bytes(), 501),
        (
            "form",
            sized("content-type: multipart/form-data; boundary=x\r\n", body.as_bytes()),
            body.clone().into_bytes(),
            501,
        ),
    ] {
        let (upstream, target) = target().await;
        for path in ["/v1/proxy/chat/completions", GENERIC] {
            let config = with(&target, json!({"input_guardrails": none_of("hidden", true)}));
            let (status, response) = sent("POST", path, &config, &head, &bytes).await;
            assert_eq!(status, wanted, "{case} {path}: {response}");
            assert_eq!(upstream.received().len(), 0, "{case} {path}");
        }
        // What decides nothing, or decides over the response only, need not read it.
        for hooks in [json!({"input_guardrails": none_of("hidden", false)}), json!({})] {
            let (status, response) = sent("POST", GENERIC, &with(&target, hooks), &head, &bytes).await;
            assert!([200, 246].contains(&status), "{case}: {response}");
        }
        let config = with(&target, json!({"output_guardrails": none_of("world", true)}));
        let (status, response) = sent("POST", GENERIC, &config, &head, &bytes).await;
        assert!(status == 446 && !response.contains("hello"), "{case}: {response}");
        assert_eq!(upstream.received().len(), 3, "{case}");
    }
}

fn guarded_call(call: RequestBuilder, config: &Value) -> RequestBuilder {
    call.header("x-gateway-api-key", KEY).header("x-gateway-config", config.to_string())
}

/// The status of a request in HTTP/2 whose body is sent in these pieces, without a length; and its response.
async fn sent_in_frames(
    method: Method,
    path: &str,
    config: &Value,
    media: &str,
    body: &str,
) -> (u16, String) {
    let (first, second) = body.split_at(body.len() / 2);
    let pieces = [first, second].map(|piece| Ok::<_, io::Error>(piece.to_owned()));
    let call = h2c().request(method, gateway().base_url().replace("/v1", path)).header("content-type", media);
    let response = guarded_call(call, config).body(Body::wrap_stream(stream::iter(pieces))).send().await;
    let response = response.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

/// HTTP/2 has no `Transfer-Encoding`, and a body needs no `Content-Length`: its header is that of a request without a body.
#[tokio::test]
async fn a_body_without_length_in_http2_is_judged_or_refused() {
    let json = "application/json";
    let body = chat("it is hidden").to_string();
    let hides = json!({"input_guardrails": none_of("hidden", true)});
    let models = json!({"input_guardrails": [{"modelWhitelist": {"models": ["good"]}, "deny": true}]});
    for (media, body, hooks, wanted) in [
        (json, &body, &hides, 446),
        ("text/plain", &body, &hides, 446),
        (json, &body, &models, 446),
        (json, &format!("[{body}]"), &hides, 501),
        ("multipart/form-data; boundary=x", &"--x--".to_owned(), &hides, 501),
    ] {
        let (upstream, target) = target().await;
        for path in ["/v1/proxy/chat/completions", GENERIC] {
            let config = with(&target, hooks.clone());
            let (status, response) = sent_in_frames(Method::POST, path, &config, media, body).await;
            assert_eq!(status, wanted, "{path} {media} {body} {hooks}: {response}");
        }
        assert_eq!(upstream.received().len(), 0, "{media} {body} {hooks}");
    }
    // What passes arrives whole, and a request without a body stays one.
    let (upstream, target) = target().await;
    let config = with(&target, json!({"input_guardrails": none_of("absent", true)}));
    for (method, body) in [(Method::POST, body.as_str()), (Method::GET, "")] {
        let (status, response) = sent_in_frames(method.clone(), GENERIC, &config, json, body).await;
        assert_eq!(status, 200, "{method}: {response}");
        assert_eq!(upstream.received().last().unwrap().body, body.as_bytes(), "{method}");
    }
}

/// A signature over the empty body would be sent with a body that is not.
#[tokio::test]
async fn a_body_without_length_in_http2_is_not_sent_with_a_signature_of_none() {
    let (upstream, _) = target().await;
    let config = json!({"provider": "bedrock", "cloud_a_access_key_id": "AKID", "cloud_a_secret_access_key": "s",
        "custom_host": upstream.base_url()});
    let (status, response) = sent_in_frames(Method::POST, GENERIC, &config, "text/plain", "a body").await;
    assert!(status == 400 && response.contains("signed with their body"), "{status}: {response}");
    assert_eq!(upstream.received().len(), 0);
}

/// Where nothing looks at the response and no results are shown in it, it streams: it may be long, or slow.
#[tokio::test]
async fn a_response_that_no_hook_looks_at_is_not_held_back() {
    let begun = Arc::new(Notify::new());
    let mark = Arc::clone(&begun);
    let upstream = Upstream::start(move |mut connection: Connection| {
        let begun = Arc::clone(&mark);
        async move {
            connection.request().await;
            connection
                .write("HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\n\r\n{\"a\":1}\n")
                .await;
            begun.notified().await;
            connection.write("{\"b\":2}\n").await;
        }
    })
    .await;
    let target = json!({"provider": "openai", "api_key": "k", "custom_host": upstream.url()});
    let types = json!({"allowedRequestTypes": {"blockedTypes": ["embed"]}, "deny": true});
    for hook in [types, none_of("absent", true)[0].clone()] {
        let config = with(&target, json!({"input_guardrails": [hook]}));
        let url = gateway().base_url().replace("/v1", "/v1/some/export");
        // Held back, this would wait for the end, which comes only after the first line has arrived.
        let mut response = guarded_call(client().get(url), &config).send().await.unwrap();
        assert_eq!(response.status(), 200);
        let mut text = String::new();
        while let Some(chunk) = response.chunk().await.unwrap() {
            text.push_str(std::str::from_utf8(&chunk).unwrap());
            begun.notify_one();
        }
        assert_eq!(text, "{\"a\":1}\n{\"b\":2}\n");
    }
}

#[tokio::test]
async fn a_path_that_may_be_an_operation_is_refused_where_hooks_decide() {
    let (upstream, target) = target().await;
    let body = chat("it is hidden").to_string();
    let head = format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    let deciding = with(&target, json!({"input_guardrails": none_of("absent", true)}));
    let after = with(&target, json!({"output_guardrails": none_of("absent", true)}));
    for path in
        ["/v1//chat/completions", "/v1/chat/completions/", "/v1/chat/%63ompletions", "/v1/CHAT/completions"]
    {
        for config in [&deciding, &after] {
            let (status, response) = sent("POST", path, config, &head, body.as_bytes()).await;
            assert!(status == 400 && response.contains("/v1/chat/completions."), "{path}: {response}");
        }
        let before = upstream.received().len();
        for config in [&target, &with(&target, json!({"input_guardrails": none_of("absent", false)}))] {
            let (status, response) = sent("POST", path, config, &head, body.as_bytes()).await;
            assert_eq!(status, 200, "{path}: {response}");
        }
        assert_eq!(upstream.received().len(), before + 2, "the generic endpoint is as before");
    }
}

/// Every text of what only the provider knows is judged.
#[tokio::test]
async fn bodies_of_unknown_shape_are_judged_as_a_whole() {
    for (path, body) in [
        ("/v1/messages/batches", json!({"requests": [{"custom_id": "a", "params": chat("it is hidden")}]})),
        ("/v1/threads/runs", json!({"thread": {"messages": [{"role": "user", "content": "it is hidden"}]}})),
        ("/v1/conversations", json!({"items": [{"type": "message", "content": "it is hidden"}]})),
        ("/v1beta/models/m:batchGenerateContent", json!({"batch": {"input": ["it is hidden"]}})),
        ("/v1/responses/input_tokens", json!({"model": "m", "input": "it is hidden"})),
        ("/v1/predictions", json!({"input": {"text": "ok", "prompt": "it is hidden"}})),
        ("/v1/predictions", json!({"prompt": {"variables": {"a": "ok"}, "text": "it is hidden"}})),
    ] {
        let (upstream, target) = target().await;
        for (word, wanted) in [("hidden", 446), ("absent", 200)] {
            let config = with(&target, json!({"input_guardrails": none_of(word, true)}));
            let answer = send(path, &config, &body).await;
            assert_eq!(answer.status, wanted, "{path}: {}", answer.text);
        }
        assert_eq!(upstream.received().len(), 1, "{path}");
    }
}

#[tokio::test]
async fn what_is_stored_is_judged_when_it_is_fetched() {
    for path in ["/v1/chat/completions/c", "/v1/responses/r"] {
        let (_upstream, target) = target().await;
        for (word, wanted) in [("world", 446), ("absent", 200)] {
            let config = with(&target, json!({"output_guardrails": none_of(word, true)}));
            let (status, response) = sent("GET", path, &config, "", b"").await;
            assert_eq!(status, wanted, "{path}: {response}");
        }
    }
}

/// A parallel hook on a request without a text runs before the call, and not beside it once more.
#[tokio::test]
async fn a_parallel_hook_on_a_request_without_a_body_runs_once() {
    let gateway = Gateway::start(STANDARD);
    let (_upstream, target) = target().await;
    let types = json!({"allowedRequestTypes": {"blockedTypes": ["embed"]}, "deny": true, "parallel": true});
    let hooks = json!({"input_guardrails": [types], "output_guardrails": none_of("absent", true)});
    let url = gateway.base_url() + "/responses/r";
    let response = guarded_call(client().get(url), &with(&target, hooks)).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let name = "turnpike_guardrail_checks_total{check=\"default.allowedRequestTypes\",verdict=\"passed\"}";
    assert_eq!(gateway.metric(name).await, Some(1.0));
}

#[tokio::test]
async fn texts_that_only_some_readers_see_are_judged() {
    let (upstream, target) = target().await;
    let config = with(&target, json!({"input_guardrails": none_of("hidden", true)}));
    for (body, wanted) in [
        (r#"{"model":"m","messages":[{"role":"user","content":"\ud800 it is hidden"}]}"#.to_owned(), 446),
        (r#"{"model":"m","messages":[{"role":"user","\udc00":1,"content":"it is hidden"}]}"#.to_owned(), 446),
        (
            r#"{"model":"m","messages":[{"role":"user","content":"it is hidden","content":"a"}]}"#.to_owned(),
            400,
        ),
        (r#"{"model":"m","messages":[{"role":"user","content":"a"}],"model":"n"}"#.to_owned(), 400),
        (
            format!(
                r#"{{"model":"m","messages":[{{"role":"user","content":"a"}}],"x":{}{}}}"#,
                "[".repeat(200),
                "]".repeat(200)
            ),
            400,
        ),
        (r#"{"model":"m","messages":[{"role":"user","content":"a"}],"user":"\ud800"}"#.to_owned(), 200),
    ] {
        let head = format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
        let (status, response) =
            sent("POST", "/v1/proxy/chat/completions", &config, &head, body.as_bytes()).await;
        assert_eq!(status, wanted, "{body}: {response}");
    }
    let received = upstream.received();
    assert_eq!(received.len(), 1);
    let sent = String::from_utf8_lossy(&received[0].body).into_owned();
    assert!(sent.contains(r#""\ud800""#), "what passes keeps its bytes: {sent}");
}

#[tokio::test]
async fn a_part_that_was_not_read_fails_where_errors_do() {
    let (_upstream, target) = target().await;
    let part = json!({"type": "file", "file": {"file_id": "f"}});
    let body = json!({"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, part]}]});
    for (fail, wanted) in [(true, 446), (false, 200)] {
        let parameters = json!({"operator": "none", "words": ["hidden"], "failOnError": fail});
        let config = with(&target, json!({"input_guardrails": [{"contains": parameters, "deny": true}]}));
        let answer = send(CHAT, &config, &body).await;
        assert_eq!(answer.status, wanted, "{}", answer.text);
        let check = &answer.json()["hook_results"]["before_request_hooks"][0]["checks"][0];
        assert_eq!(check["error"]["name"], "UnreadError", "{}", answer.text);
    }
}

/// Types, metadata and models are judged on every operation.
#[tokio::test]
async fn checks_that_need_no_text_run_on_operations_without_one() {
    let (upstream, target) = target().await;
    let denies =
        |check: &str, parameters: Value| json!({"input_guardrails": [{check: parameters, "deny": true}]});
    let only_embeddings = denies("allowedRequestTypes", json!({"allowedTypes": ["embed"]}));
    let image = json!({"model": "bad", "prompt": "a"});
    let provider_file =
        json!({"input_file_id": "file-of-the-provider", "endpoint": CHAT, "completion_window": "24h"});
    for (path, body, config, wanted) in [
        ("/v1/images/generations", &image, &only_embeddings, 446),
        ("/v1/audio/speech", &json!({"model": "m", "input": "a", "voice": "v"}), &only_embeddings, 446),
        ("/v1/moderations", &json!({"input": "a"}), &only_embeddings, 446),
        ("/v1/batches", &provider_file, &only_embeddings, 446),
        (
            "/v1/images/generations",
            &image,
            &denies("allowedRequestTypes", json!({"blockedTypes": ["embed"]})),
            200,
        ),
        ("/v1/images/generations", &image, &denies("modelWhitelist", json!({"models": ["good"]})), 446),
        (
            "/v1/images/generations",
            &image,
            &denies("requiredMetadataKeys", json!({"metadataKeys": ["team"]})),
            446,
        ),
        (
            "/v1/images/generations",
            &image,
            &denies("requestParametersCheck", json!({"params": {"blockedKeys": ["prompt"]}})),
            446,
        ),
        // A check of texts has none to read there.
        ("/v1/batches", &provider_file, &json!({"input_guardrails": none_of("24h", true)}), 200),
        // What is drawn, said, judged and ranked is a text.
        ("/v1/images/generations", &image, &json!({"input_guardrails": none_of("a", true)}), 446),
        ("/v1/images/generations", &image, &json!({"input_guardrails": none_of("b", true)}), 200),
        (
            "/v1/deployments/bad/chat/completions",
            &json!({"messages": []}),
            &denies("modelWhitelist", json!({"models": ["good"]})),
            446,
        ),
        (
            "/v1/deployments/good/chat/completions",
            &json!({"messages": []}),
            &denies("modelWhitelist", json!({"models": ["good"]})),
            200,
        ),
        (
            "/v1/deployments/good/chat/completions",
            &json!({"model": "bad"}),
            &denies("modelWhitelist", json!({"models": ["good"]})),
            400,
        ),
    ] {
        let before = upstream.received().len();
        let answer = send(path, &with(&target, config.clone()), body).await;
        assert_eq!(answer.status, wanted, "{path} {config}: {}", answer.text);
        assert_eq!(upstream.received().len() > before, wanted == 200, "{path} {config}");
    }
}

/// Also where a request has no body, switches protocols, or has a body that is not read.
#[tokio::test]
async fn checks_that_need_no_text_need_no_body() {
    let (upstream, target) = target().await;
    let denies =
        |check: &str, parameters: Value| json!({"input_guardrails": [{check: parameters, "deny": true}]});
    let config = with(&target, denies("allowedRequestTypes", json!({"allowedTypes": ["embed"]})));
    let (status, response) = sent("GET", "/v1/fine_tuning/jobs", &config, "", b"").await;
    assert_eq!(status, 446, "{response}");
    // An operation at another place is blocked as one.
    let blocked = with(&target, denies("allowedRequestTypes", json!({"blockedTypes": ["chatComplete"]})));
    let answer = send("/v1/proxy/v1/chat/completions", &blocked, &chat("a")).await;
    assert_eq!(answer.status, 446, "{}", answer.text);
    let upgrade = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
    for path in ["/v1/realtime?model=m", "/v1/realtime"] {
        let (status, response) = sent("GET", path, &config, upgrade, b"").await;
        assert_eq!(status, 446, "{response}");
    }
    let form = "content-type: multipart/form-data; boundary=x\r\ncontent-length: 5\r\n";
    let models = with(&target, denies("modelWhitelist", json!({"models": ["good"]})));
    let (status, response) = sent("POST", "/v1/audio/transcriptions", &models, form, b"--x--").await;
    assert_eq!(status, 501, "the model is in a form: {response}");
    assert_eq!(upstream.received().len(), 0);
}

/// Java's client offers HTTP/2 with each request. Such a one was proxied natively, past all layers, and its body was not sent.
#[tokio::test]
async fn an_offer_of_another_protocol_is_a_request_like_any_other() {
    let (upstream, target) = target().await;
    let check = json!([{"contains": {"words": ["KESTREL"], "operator": "none"}, "deny": true}]);
    let config = with(&target, json!({"input_guardrails": check}));
    for path in [CHAT, "/v1/proxy/chat/completions"] {
        for (text, wanted) in [("a KESTREL", 446), ("a wren", 200)] {
            let body = chat(text).to_string();
            let offer = "connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n";
            let kind = if path == CHAT { "application/json" } else { "text/plain" };
            let head = format!("{offer}content-type: {kind}\r\ncontent-length: {}\r\n", body.len());
            let before = upstream.received().len();
            let (status, response) = sent("POST", path, &config, &head, body.as_bytes()).await;
            assert_eq!(status, wanted, "{path} {text}: {response}");
            let received = upstream.received();
            assert_eq!(received.len() - before, usize::from(wanted == 200), "{path} {text}");
            if let Some(got) = received.get(before) {
                assert_eq!(got.body, body.as_bytes(), "{path}");
            }
        }
    }
}

#[tokio::test]
async fn tools_are_judged_in_every_shape() {
    let (_upstream, target) = target().await;
    let blocked = json!({"tools": {"blockedFunctionNames": ["rm"]}});
    let config =
        with(&target, json!({"input_guardrails": [{"requestParametersCheck": blocked, "deny": true}]}));
    for tools in [
        json!({"tools": [{"type": "function", "function": {"name": "rm"}}]}),
        json!({"functions": [{"name": "rm"}]}),
        json!({"tools": [{"functionDeclarations": [{"name": "ls"}, {"name": "rm"}]}]}),
        json!({"tools": [{"function_declarations": [{"name": "rm"}]}]}),
    ] {
        let answer = send("/v1/proxy/chat/completions", &config, &with(&chat("a"), tools.clone())).await;
        assert_eq!(answer.status, 446, "{tools}: {}", answer.text);
    }
    let answer = send(
        "/v1/proxy/chat/completions",
        &config,
        &with(&chat("a"), json!({"functions": [{"name": "ls"}]})),
    )
    .await;
    assert_eq!(answer.status, 200, "{}", answer.text);
}

/// A check that replaces the body changes what it is for, and nothing else.
#[tokio::test]
async fn what_a_check_does_not_change_keeps_its_bytes() {
    let (upstream, target) = target().await;
    let config = with(&target, json!({"input_guardrails": [{"addPrefix": {"prefix": "P: "}}]}));
    let schema = r#""response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"properties":{"zz":{},"aa":{}}}}}"#;
    let earlier = r#"{"role":"system","content":"be kind","name":"n"}"#;
    let body = format!(
        r#"{{"model":"m","temperature":1.50,"messages":[{earlier},{{"role":"user","content":"a","name":"b"}}],{schema}}}"#
    );
    let head = format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    let (status, response) = sent("POST", CHAT, &config, &head, body.as_bytes()).await;
    assert_eq!(status, 200, "{response}");
    let sent = String::from_utf8(upstream.received()[0].body.clone()).unwrap();
    let changed = r#"{"role":"user","content":"P: a","name":"b"}"#;
    for part in [schema, earlier, changed, r#""temperature":1.50"#] {
        assert!(sent.contains(part), "{part} in {sent}");
    }
}

/// The attempt of a request that asks for an upgrade is made at admission, for the first target. Where the hooks of that one deny the request,
/// the next target gets an attempt of its own.
#[tokio::test]
async fn a_denied_request_for_an_upgrade_is_not_sent_to_the_target_that_denied_it() {
    let denying = provider(WHOLE_CHAT).await;
    let (second, plain) = target().await;
    let first = json!({"provider": "anthropic", "api_key": "k", "custom_host": denying.base_url(),
        "input_guardrails": none_of("hidden", true)});
    let config = json!({"strategy": {"mode": "fallback"}, "targets": [first, plain]});
    let body = json!({"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hidden"}]})
        .to_string();
    let head = format!("upgrade: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n", body.len());
    let (status, response) = sent("POST", CHAT, &config, &head, body.as_bytes()).await;
    assert_eq!((status, denying.received().len(), second.received().len()), (200, 0, 1), "{response}");
}
