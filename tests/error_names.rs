//! What a client can act on when a request fails: the words of its dialect, the provider's own beside them, whether to
//! repeat the request, and the request's id under the name that its SDK reads.
//!
//! The words of each vendor's errors are in `provider::rewriter::error_response`'s tests.

use crate::support::client::{client, hello};
use crate::support::provider::Provider;
use crate::support::settings::{KEY, STANDARD};
use crate::support::{Gateway, gateway};
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};

fn answer(status: &str, headers: &str, media: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\n{headers}content-type: {media}\r\ncontent-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// A call of a path, to a provider at a scripted host.
fn call(gateway: &Gateway, path: &str, provider: (&str, &Provider), stream: bool) -> RequestBuilder {
    let mut body = match path {
        "/responses" => json!({"input": "hi"}),
        _ => json!({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9}),
    };
    body["model"] = "m".into();
    body["stream"] = stream.into();
    let mut config = json!({"provider": provider.0, "custom_host": provider.1.base_url()});
    let account = match provider.0 {
        "bedrock" => &[
            ("cloud_a_access_key_id", "AKIAEXAMPLE"),
            ("cloud_a_secret_access_key", "secret-example"),
            ("cloud_a_region", "us-east-1"),
        ][..],
        _ => &[("api_key", "k")],
    };
    for (name, value) in account {
        config[*name] = (*value).into();
    }
    let call = client().post(format!("{}{path}", gateway.base_url())).json(&body);
    call.header("x-gateway-api-key", KEY).header("x-gateway-config", config.to_string())
}

fn header<'r>(response: &'r Response, name: &str) -> Option<&'r str> {
    response.headers().get(name).map(|value| value.to_str().unwrap())
}

#[tokio::test]
async fn a_providers_error_has_the_clients_names_and_one_id() {
    let anthropic =
        r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow"},"request_id":"req_a"}"#;
    let google = r#"{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED"}}"#;
    let openai =
        r#"{"error":{"message":"slow","type":"requests","param":null,"code":"rate_limit_exceeded"}}"#;
    let groq = r#"{"error":{"message":"slow","type":"x","code":"too_many_requests","more":1}}"#;
    let gateway = gateway();
    for (provider, headers, body, id) in [
        ("anthropic", "request-id: req_a\r\n", anthropic, Some("req_a")),
        ("google", "", google, None),
        ("openai", "x-request-id: req_o\r\n", openai, Some("req_o")),
        ("groq", "x-request-id: req_g\r\n", groq, Some("req_g")),
        (
            "bedrock",
            "x-amzn-requestid: req_b\r\nx-amzn-errortype: ThrottlingException:http://x\r\n",
            r#"{"message":"slow"}"#,
            Some("req_b"),
        ),
    ] {
        let sent = answer("429 Too Many Requests", headers, "application/json", body);
        let host = Provider::start(move |_| sent.clone()).await;
        for path in ["/chat/completions", "/responses", "/messages"] {
            let call = call(&gateway, path, (provider, &host), false);
            let response = call.send().await.unwrap();
            let what = format!("{provider} {path}");
            assert_eq!(response.status(), 429, "{what}");
            let name = if path == "/messages" { "request-id" } else { "x-request-id" };
            let given = header(&response, name).unwrap_or_else(|| panic!("{what} {response:?}")).to_owned();
            assert_eq!(given, id.unwrap_or(header(&response, "x-gateway-trace-id").unwrap()), "{what}");
            assert_eq!(header(&response, "x-should-retry"), None, "{what}");
            let body: Value = response.json().await.unwrap();
            let error = &body["error"];
            if path == "/messages" {
                assert_eq!(
                    (&error["type"], &body["request_id"]),
                    (&json!("rate_limit_error"), &json!(given)),
                    "{what}"
                );
            } else {
                let names = (error["type"].as_str().unwrap(), error["code"].as_str().unwrap());
                assert_eq!(names, ("requests", "rate_limit_exceeded"), "{what}: {body}");
            }
            let own = match (provider, path) {
                ("anthropic", "/messages") | ("openai", "/chat/completions" | "/responses") => None,
                ("anthropic", _) => Some("rate_limit_error"),
                ("google", _) => Some("RESOURCE_EXHAUSTED"),
                ("openai", _) => Some("rate_limit_exceeded"),
                ("groq", _) => Some("too_many_requests"),
                _ => Some("ThrottlingException"),
            };
            let own = own.filter(|own| error["type"] != **own);
            assert_eq!(error["provider_code"].as_str(), own, "{what}: {body}");
        }
    }
}

/// Anthropic's id may be in the body alone: then the header has that one too.
#[tokio::test]
async fn an_id_in_the_body_alone_is_the_headers_too() {
    let body =
        r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"},"request_id":"req_x"}"#;
    let sent = answer("529 Busy", "", "application/json", body);
    let host = Provider::start(move |_| sent.clone()).await;
    let response = call(&gateway(), "/messages", ("anthropic", &host), false).send().await.unwrap();
    assert_eq!(header(&response, "request-id"), Some("req_x"));
    assert_eq!(response.text().await.unwrap(), body);
}

#[tokio::test]
async fn errors_inside_streams_have_the_clients_names() {
    let text = r#"data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"},"finish_reason":null}]}"#;
    let openai = format!(
        "{text}\n\ndata: {{\"error\":{{\"message\":\"busy\",\"code\":503,\"metadata\":{{\"a\":1}}}}}}\n\n"
    );
    let start = r#"{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}}"#;
    let anthropic = format!(
        "event: message_start\ndata: {start}\n\n\
         event: content_block_start\ndata: {{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{{\"type\":\"text\",\"text\":\"\"}}}}\n\n\
         event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"Hi\"}}}}\n\n\
         event: error\ndata: {{\"type\":\"error\",\"error\":{{\"type\":\"overloaded_error\",\"message\":\"busy\"}}}}\n\n"
    );
    let gateway = gateway();
    for (provider, stream, own) in
        [("hyperbolic", openai, "503"), ("anthropic", anthropic, "overloaded_error")]
    {
        let sent = answer("200 OK", "", "text/event-stream", &stream);
        let host = Provider::start(move |_| sent.clone()).await;
        for path in ["/chat/completions", "/responses", "/messages"] {
            let what = format!("{provider} {path}");
            let response = call(&gateway, path, (provider, &host), true).send().await.unwrap();
            let id = if path == "/messages" { "request-id" } else { "x-request-id" };
            assert_eq!(header(&response, id), header(&response, "x-gateway-trace-id"), "{what}");
            // What fails before any of it was sent has the status that the error means, and no events.
            let text = response.text().await.unwrap();
            let events = text.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
            let mut error = events.filter_map(|data| serde_json::from_str::<Value>(data).ok());
            let error =
                error.rfind(|data| data["error"].is_object()).unwrap_or_else(|| panic!("{what} {text}"));
            let error = &error["error"];
            match path {
                "/messages" => assert_eq!(error["type"], "overloaded_error", "{what} {text}"),
                _ => {
                    let names = (error["type"].as_str().unwrap(), error["code"].as_str().unwrap());
                    assert_eq!(names, ("server_error", "server_is_overloaded"), "{what} {text}");
                }
            }
            let own = Some(own).filter(|own| error["type"] != **own);
            assert_eq!(error["provider_code"].as_str(), own, "{what} {text}");
        }
    }
}

/// SDKs repeat what they may: 408, 409, 429 and all of 5xx, unless they are told not to.
#[tokio::test]
async fn what_cannot_succeed_is_not_repeated() {
    let gateway = gateway();
    let post = |path: &str, body: &Value| {
        client().post(format!("{}{path}", gateway.base_url())).header("x-gateway-api-key", KEY).json(body)
    };
    let chat = |config: &Value| {
        post("/chat/completions", &hello(false)).header("x-gateway-config", config.to_string())
    };
    let hooks = json!({"provider": "@emulator", "input_guardrails": ["x"]});
    let refused = json!({"provider": "openai", "api_key": "k", "custom_host": "http://127.0.0.1:1/v1"});
    let slow = json!({"provider": "@emulator", "request_timeout": 50,
        "override_params": {"model": "gpt-4o-mini?fault=hang"}});
    for (call, status, never) in [
        (chat(&hooks), 400, true),
        (chat(&json!({"provider": "nobody"})), 400, true),
        (post("/chat/completions", &json!({"model": "@emulator/m"})), 400, true),
        (post("/messages", &json!({"model": "@anthropic-emulator/m"})), 400, true),
        (client().post(format!("{}/chat/completions", gateway.base_url())).json(&hello(false)), 401, true),
        (client().get(format!("{}/nothing", gateway.data_url())).header("x-gateway-api-key", KEY), 404, true),
        (post("/scim/workspaces", &json!({})), 501, true),
        (chat(&refused), 502, false),
        (chat(&slow), 408, false),
    ] {
        let response = call.send().await.unwrap();
        let what = format!("{response:?}");
        assert_eq!(response.status(), status, "{what}");
        assert_eq!(header(&response, "x-should-retry"), never.then_some("false"), "{what}");
        let id = if response.url().path().ends_with("/messages") { "request-id" } else { "x-request-id" };
        assert!(header(&response, id).is_some(), "{what}");
        assert_eq!(header(&response, id), header(&response, "x-gateway-trace-id"), "{what}");
        let is_anthropic = id == "request-id";
        let id = header(&response, id).unwrap().to_owned();
        let body: Value = response.json().await.unwrap();
        assert!(!is_anthropic || body["request_id"] == id, "{body}");
    }
    let status = client().get(format!("{}/v1/no-such-route", gateway.control_url())).send().await.unwrap();
    assert_eq!(header(&status, "x-should-retry"), Some("false"), "{status:?}");
}

#[tokio::test]
async fn responses_have_the_prefix_that_the_client_used() {
    let gateway = Gateway::start(&format!("header_prefixes: [x-gateway-, x-other-, x-third-]\n{STANDARD}"));
    let chat = |headers: &[(&str, &str)], stream: bool| {
        let call = client().post(format!("{}/chat/completions", gateway.base_url())).json(&hello(stream));
        headers.iter().fold(call, |call, (name, value)| call.header(*name, *value))
    };
    for (headers, stream, prefixes) in [
        (&[("x-other-api-key", KEY), ("x-other-provider", "@emulator")][..], false, &["x-other-"][..]),
        (&[("x-other-api-key", KEY), ("x-third-provider", "@emulator")], true, &["x-other-", "x-third-"]),
        (&[("x-gateway-api-key", KEY), ("x-gateway-provider", "@emulator")], false, &[]),
        // Refused: also where its headers are not read that far.
        (&[("x-third-api-key", "wrong")], false, &["x-third-"]),
    ] {
        let response = chat(headers, stream).send().await.unwrap();
        for prefix in ["x-other-", "x-third-"] {
            for suffix in
                ["trace-id", "provider", "cache-status", "retry-attempt-count", "last-used-option-index"]
            {
                let own = header(&response, &format!("x-gateway-{suffix}"));
                let wanted = own.filter(|_| prefixes.contains(&prefix));
                assert_eq!(header(&response, &format!("{prefix}{suffix}")), wanted, "{headers:?} {suffix}");
            }
        }
        assert!(header(&response, "x-gateway-trace-id").is_some());
    }
}

/// Uploads and downloads are proxied natively.
#[tokio::test]
async fn natively_proxied_responses_have_an_id() {
    let gateway = gateway();
    for (headers, id) in [("", None), ("x-request-id: req_1\r\n", Some("req_1"))] {
        let sent = answer("200 OK", headers, "application/json", r#"{"object":"list","data":[]}"#);
        let host = Provider::start(move |_| sent.clone()).await;
        let files = client().get(format!("{}/files", gateway.base_url())).header("x-gateway-api-key", KEY);
        let files =
            files.header("x-gateway-provider", "openai").header("x-gateway-custom-host", host.base_url());
        let response = files.header("authorization", "Bearer k").send().await.unwrap();
        assert_eq!(response.status(), 200);
        let wanted = id.or(header(&response, "x-gateway-trace-id"));
        assert!(wanted.is_some());
        assert_eq!(header(&response, "x-request-id"), wanted);
    }
}
