//! No secret in anything the gateway writes: access lines, its own log at its most verbose level, metrics,
//! and its error responses.
//!
//! Every secret here contains `canary`. Names are not secret: an access line may contain an unknown provider,
//! slug or config. That providers get the right key is tested elsewhere.

use crate::support::client::{client, hello, new_trace};
use crate::support::provider::Provider;
use crate::support::wait::until;
use crate::support::{Gateway, ports};
use reqwest::{Method, RequestBuilder};
use serde_json::json;

const SETTINGS: &str = "
server: {threads: 2, grace_period_seconds: 5}
auth:
  keys: [{name: caller, key: canary-service-key-1}]
providers:
  emulator: {provider: openai, api_key: canary-provider-key-1, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1'}
  claude: {provider: anthropic, api_key: canary-provider-key-2, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1'}
  gone: {provider: openai, api_key: canary-provider-key-3, custom_host: 'http://127.0.0.1:9/v1'}
configs:
  saved: {provider: openai, api_key: canary-saved-key-1, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1'}
custom_hosts: {allow_private: true}
log: {level: LEVEL}
";

/// Requests with a secret, one set of headers each; some succeed, some fail.
fn headers(emulator: &str, unreachable: &str) -> Vec<Vec<(&'static str, String)>> {
    let key = || ("x-gateway-api-key", "canary-service-key-1".to_owned());
    let bearer = || ("authorization", "Bearer canary-bearer-1".to_owned());
    let provider = |name: &str| ("x-gateway-provider", name.to_owned());
    let config = |text: String| vec![key(), ("x-gateway-config", text)];
    let inline = |host: &str| {
        json!({"provider": "openai", "api_key": "canary-inline-1", "custom_host": host}).to_string()
    };
    vec![
        vec![key(), provider("@emulator")],
        vec![("authorization", "Bearer canary-service-key-1".to_owned()), provider("@emulator")],
        vec![key(), provider("@claude")],
        vec![key(), provider("@gone")],
        vec![key(), ("x-gateway-config", "saved".to_owned())],
        vec![key(), bearer(), provider("openai"), ("x-gateway-custom-host", emulator.to_owned())],
        vec![key(), bearer(), provider("openai"), ("x-gateway-custom-host", unreachable.to_owned())],
        vec![key(), bearer(), provider("openai"), ("x-gateway-custom-host", "http://u:canary-password@127.0.0.1:1/".to_owned())],
        vec![key(), bearer(), provider("openai"), ("x-gateway-custom-host", format!("{unreachable}?key=canary-query"))],
        vec![key(), bearer(), provider("unheard-of")],
        vec![key(), provider("@unknown-slug")],
        vec![key(), ("x-gateway-virtual-key", "unknown-slug".to_owned())],
        vec![("x-gateway-api-key", "canary-wrong-key".to_owned()), provider("@emulator")],
        vec![("authorization", "Bearer canary-wrong-bearer".to_owned()), provider("@emulator")],
        config(inline(emulator)),
        config(inline(unreachable)),
        config(inline(emulator).replace('}', ", ")),
        config(inline(emulator).replace("\"api_key\"", "\"apikey\"")),
        config(json!({"provider": "openai", "api_key": {"canary-in": "canary-object"}}).to_string()),
        config(json!({"provider": "unheard-of", "api_key": ["canary-list"], "retry": "canary-retry"}).to_string()),
        config(json!({"targets": [{"provider": "openai", "api_key": "canary-target", "weight": "canary-weight"}]}).to_string()),
        config("unknown-config".to_owned()),
        vec![key(), provider("@emulator"), ("cookie", "session=canary-cookie".to_owned())],
        vec![key(), provider("cloud-a"), ("x-gateway-cloud-a-secret-access-key", "canary-cloud".to_owned())],
        vec![key(), provider("@emulator"), ("x-gateway-request-timeout", "canary-timeout".to_owned())],
        vec![key(), provider("@emulator"), ("x-gateway-metadata", "canary-no-json".to_owned())],
        vec![key(), provider("@emulator"), ("x-api-key", "canary-x-api-key".to_owned()), ("api-key", "canary-api-key".to_owned())],
    ]
}

fn calls(gateway: &Gateway) -> Vec<RequestBuilder> {
    let unreachable = format!("http://127.0.0.1:{}/v1", ports::free());
    let emulator = format!("{}/v1", gateway.emulator_url());
    let client = client();
    let mut calls = Vec::new();
    for headers in headers(&emulator, &unreachable) {
        for (stream, model) in [(false, "m"), (true, "m"), (false, "m?status=401"), (true, "m?fault=cut")] {
            let mut body = hello(stream);
            body["model"] = json!(model);
            body["messages"][0]["content"] = json!("canary-prompt");
            let mut call =
                client.post(format!("{}/chat/completions?key=canary-query", gateway.base_url())).json(&body);
            for (name, value) in &headers {
                call = call.header(*name, value);
            }
            calls.push(call.header("x-gateway-trace-id", new_trace()));
        }
    }
    let plain = |method: Method, path: &str| {
        let call = client
            .request(method, format!("{}{path}", gateway.base_url()))
            .header("x-gateway-api-key", "canary-service-key-1");
        call.header("x-gateway-provider", "@emulator").header("x-gateway-trace-id", new_trace())
    };
    calls.push(plain(Method::GET, "/anything?bytes=10&api_key=canary-query"));
    calls.push(plain(Method::PATCH, "/models"));
    calls.push(plain(Method::GET, "/prompts"));
    calls.push(
        plain(Method::POST, "/chat/completions")
            .header("content-type", "application/json")
            .body("{\"model\": \"canary-"),
    );
    calls.push(
        plain(Method::POST, "/chat/completions")
            .json(&json!({"model": "m", "messages": "canary-messages", "n": "canary-n"})),
    );
    calls
}

async fn assert_no_secret_at(level: &str) {
    let gateway = Gateway::start(&SETTINGS.replace("LEVEL", level));
    let calls = calls(&gateway);
    let count = calls.len();
    let mut failures = 0;
    for call in calls {
        let call = call.build().unwrap();
        let name = format!("{:?}", call.headers());
        let sent = call.headers().clone();
        let response = client().execute(call).await.unwrap();
        let trace = sent["x-gateway-trace-id"].to_str().unwrap();
        assert_eq!(response.headers()["x-gateway-trace-id"], trace, "{name}");
        let failed = !response.status().is_success();
        failures += u32::from(failed);
        // A cut stream also ends with an error of the gateway's.
        let text = response.text().await.unwrap_or_default();
        for secret in ["canary-provider-key", "canary-saved-key", "canary-service-key"] {
            assert!(!text.contains(secret), "{secret} in the response to {name}:\n{text}");
        }
    }
    assert!(failures > 30, "{failures} failures");
    // A reload of an invalid file reports its problems, none of which may contain a value.
    gateway.reload(
        &SETTINGS.replace("LEVEL", level).replace("provider: anthropic", "provider: '${HOME}-canary'"),
    );
    until("the refused reload", async || gateway.stderr.lines_with("settings not reloaded").first().cloned())
        .await;
    let metrics = gateway.metrics().await;
    gateway.terminate();
    assert!(gateway.ended().await.success());
    assert_eq!(gateway.stdout.lines_with("\"trace_id\"").len(), count, "not one line for each request");
    for (what, lines) in [
        ("access lines", gateway.stdout.lines_with("canary")),
        ("log", gateway.stderr.lines_with("canary")),
        ("metrics", metrics.lines().filter(|line| line.contains("canary")).map(str::to_owned).collect()),
    ] {
        assert!(lines.is_empty(), "{} {what} with a secret:\n{}", lines.len(), lines.join("\n"));
    }
}

#[tokio::test]
async fn no_secret_is_written() {
    assert_no_secret_at("info").await;
}

#[tokio::test]
async fn no_secret_is_written_when_everything_is_logged() {
    assert_no_secret_at("trace").await;
}

const KEY: &str = "canary-stored-key-0001";

/// Responds with its request in a failing response, an error event, or an error inside a 200, by the path.
async fn echoing_provider() -> Provider {
    Provider::start(|request| {
        let echoed = format!("{request:?}").replace(['"', '\\'], "'");
        let body = json!({"error": {"message": echoed, "type": "x", "code": KEY}}).to_string();
        let model = String::from_utf8_lossy(&request.body).into_owned();
        let (status, media, body) = match () {
            () if model.contains("whole-error") => ("200 OK", "application/json", body),
            () if model.contains("event") => {
                let start = r#"{"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"a"}}]}"#;
                ("200 OK", "text/event-stream", format!("data: {start}\n\ndata: {body}\n\n"))
            }
            () => ("401 Unauthorized", "application/json", body),
        };
        let length = body.len();
        // Who cannot read it cannot mask it.
        let media = if model.contains("compressed") {
            format!("{media}\r\ncontent-encoding: gzip")
        } else {
            media.to_owned()
        };
        format!("HTTP/1.1 {status}\r\ncontent-type: {media}\r\nx-echo: {KEY}\r\ncontent-length: {length}\r\n\r\n{body}")
            .into_bytes()
    })
    .await
}

#[tokio::test]
async fn a_provider_that_echoes_its_request_gives_no_key_away() {
    let provider = echoing_provider().await;
    let settings = format!(
        "auth:\n  keys: [{{name: caller, key: service-key-0001}}]\nproviders:\n\
         \x20 openai: {{provider: openai, api_key: {KEY}, custom_host: '{url}'}}\n\
         \x20 anthropic: {{provider: anthropic, api_key: {KEY}, custom_host: '{url}'}}\n",
        url = provider.base_url()
    );
    let gateway = Gateway::start(&settings);
    let post = |path: &str, slug: &str, body: Vec<u8>, media: &str| {
        client()
            .post(format!("{}/{path}", gateway.base_url()))
            .header("x-gateway-api-key", "service-key-0001")
            .header("x-gateway-provider", slug)
            .header("content-type", media)
            .body(body)
            .send()
    };
    let chat = |model: &str, stream: bool| {
        let messages = json!([{"role": "user", "content": "x"}]);
        json!({"model": model, "stream": stream, "max_tokens": 9, "messages": messages})
            .to_string()
            .into_bytes()
    };
    let compressed = || b"compressed".to_vec();
    let upload = || b"--b\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nx\r\n--b--\r\n".to_vec();
    for slug in ["@openai", "@anthropic"] {
        for (what, path, body, media) in [
            ("refused", "chat/completions", chat("m", false), "application/json"),
            ("refused messages", "messages", chat("m", false), "application/json"),
            ("error in a 200", "chat/completions", chat("whole-error", false), "application/json"),
            ("error event", "chat/completions", chat("event", true), "application/json"),
            ("upload", "files", upload(), "multipart/form-data; boundary=b"),
            ("other path", "anything/else", chat("m", false), "application/json"),
            ("other path, unread", "anything/else", upload(), "text/plain"),
            ("compressed", "chat/completions", chat("compressed", false), "application/json"),
            ("compressed, unread", "anything/else", compressed(), "text/plain"),
        ] {
            let response = post(path, slug, body, media).await.unwrap();
            let headers = format!("{:?}", response.headers());
            let status = response.status();
            let text = response.text().await.unwrap();
            assert!(
                !text.contains(KEY) && !headers.contains(KEY),
                "{slug} {what}: {status} {headers} {text}"
            );
            assert!(status != 200 || what == "error event", "{slug} {what}: {status} {text}");
            // What is not a credential stays.
            let shown = if what.starts_with("compressed") { "not shown" } else { "***" };
            assert!(text.contains(shown) || slug == "@anthropic", "{slug} {what}: {status} {text}");
        }
    }
    assert!(provider.received().iter().any(|request| format!("{request:?}").contains(KEY)));
    let log = gateway.log();
    assert!(!log.contains(KEY), "{log}");
}
