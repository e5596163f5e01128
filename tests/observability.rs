//! What is reported about each request: the access line, response headers, `traceparent`.
//!
//! Not where the line is written (`outputs`), not the metrics (`metrics`), and not what must never be shown
//! (`secrecy`).

use crate::support::client::{chat, chat_at, client, hello, new_trace, status};
use crate::support::settings::KEY;
use crate::support::{Gateway, gateway, ports};
use serde_json::{Value, json};

/// Every key the line may have, and the type of its value.
fn is_right(name: &str, value: &Value) -> bool {
    match name {
        "ts" => value.as_str().is_some_and(|text| text.parse::<jiff::Timestamp>().is_ok()),
        "trace_id" | "key" | "caller" | "method" | "path" | "operation" | "provider" | "slug" | "model"
        | "response_model" | "finish_reason" | "provider_error" | "warnings" | "error_code" | "error" => {
            value.as_str().is_some_and(|text| !text.is_empty())
        }
        "status" => value.as_u64().is_some_and(|status| (100..600).contains(&status)),
        "bytes_in" | "bytes_out" => value.is_u64(),
        "stream" => value.is_boolean(),
        "cost_usd" => value.as_f64().is_some_and(|cost| cost > 0.0),
        "cost_status" => value == "priced",
        "tokens" => ["input", "output"].iter().all(|name| value[name].is_u64()),
        "attempts" => value.as_array().is_some_and(|tries| tries.iter().all(is_attempt)),
        "ttfb_ms" | "ttft_ms" | "total_ms" | "overhead_ms" => value.as_f64().is_some_and(|ms| ms >= 0.0),
        "metadata" => value.is_object(),
        _ => false,
    }
}

fn is_attempt(attempt: &Value) -> bool {
    let ended = attempt["status"].is_u64() != attempt["error"].is_string();
    attempt["target"].is_string() && attempt["provider"].is_string() && attempt["ms"].is_f64() && ended
}

const ALWAYS: [&str; 13] = [
    "ts",
    "trace_id",
    "caller",
    "method",
    "path",
    "operation",
    "status",
    "stream",
    "bytes_in",
    "bytes_out",
    "attempts",
    "total_ms",
    "overhead_ms",
];

/// The access line of a request just made; it must have exactly these keys besides those that are always
/// there.
async fn line_with(gateway: &Gateway, trace: &str, more: &[&str]) -> Value {
    let line = gateway.access_line(trace).await;
    let keys: Vec<&str> = line.as_object().unwrap().keys().map(String::as_str).collect();
    for (name, value) in line.as_object().unwrap() {
        assert!(is_right(name, value), "{name}: {value} in {line}");
        let expected = ALWAYS.contains(&name.as_str()) || more.contains(&name.as_str());
        assert!(expected, "{name} should not be in {line}");
    }
    for name in ALWAYS.iter().chain(more) {
        assert!(keys.contains(name), "{name} is not in {line}");
    }
    let ms = |name: &str| line[name].as_f64().unwrap_or_default();
    assert!(ms("ttfb_ms") <= ms("total_ms") && ms("overhead_ms") <= ms("total_ms"), "{line}");
    line
}

#[tokio::test]
async fn the_line_of_a_whole_chat_response() {
    let gateway = gateway();
    let trace = new_trace();
    let call =
        chat(&gateway, &trace, &hello(false)).header("x-gateway-metadata", r#"{"team":"red","n":"1"}"#);
    assert_eq!(status(call).await, 200);
    let more = [
        "cost_usd",
        "cost_status",
        "key",
        "provider",
        "slug",
        "model",
        "response_model",
        "tokens",
        "finish_reason",
        "ttfb_ms",
        "ttft_ms",
        "metadata",
    ];
    let line = line_with(&gateway, &trace, &more).await;
    for (name, wanted) in [
        ("key", json!("tests")),
        ("caller", json!("127.0.0.1")),
        ("method", json!("POST")),
        ("path", json!("/v1/chat/completions")),
        ("operation", json!("chat")),
        ("provider", json!("openai")),
        ("slug", json!("emulator")),
        ("model", json!("gpt-4o-mini")),
        ("finish_reason", json!("stop")),
        ("status", json!(200)),
        ("stream", json!(false)),
        ("metadata", json!({"team": "red", "n": "1"})),
    ] {
        assert_eq!(line[name], wanted, "{name} in {line}");
    }
    assert_eq!(line["bytes_in"], hello(false).to_string().len());
    assert!(line["bytes_out"].as_u64() > Some(100) && line["tokens"]["output"].as_u64() > Some(0), "{line}");
    assert_eq!(line["attempts"].as_array().unwrap().len(), 1);
    assert_eq!(line["attempts"][0]["status"], 200);
}

#[tokio::test]
async fn the_line_of_a_stream_has_the_time_to_first_token() {
    let gateway = gateway();
    let trace = new_trace();
    let mut body = hello(true);
    body["model"] = json!("gpt-4o-mini?ttft=120&gap=4");
    body["stream_options"] = json!({"include_usage": true});
    assert_eq!(status(chat(&gateway, &trace, &body)).await, 200);
    let more = [
        "cost_usd",
        "cost_status",
        "key",
        "provider",
        "slug",
        "model",
        "response_model",
        "tokens",
        "finish_reason",
        "ttfb_ms",
        "ttft_ms",
    ];
    let line = line_with(&gateway, &trace, &more).await;
    assert_eq!(line["stream"], true);
    let ms = |name: &str| line[name].as_f64().unwrap();
    assert!(ms("ttft_ms") >= 119.0 && ms("total_ms") >= ms("ttft_ms") + 100.0, "{line}");
    assert!(ms("overhead_ms") < 100.0, "waiting for the provider is counted as overhead: {line}");
}

#[tokio::test]
async fn access_lines_of_failures_name_the_origin() {
    let gateway = gateway();
    let optional_fields = ["key", "provider", "slug", "model", "provider_error", "ttfb_ms", "ttft_ms"];
    // A provider's own error is passed through like any response.
    let trace = new_trace();
    let mut body = hello(false);
    body["model"] = json!("gpt-4o-mini?status=503");
    assert_eq!(status(chat(&gateway, &trace, &body)).await, 503);
    let line = line_with(&gateway, &trace, &optional_fields).await;
    assert_eq!((&line["status"], &line["attempts"][0]["status"]), (&json!(503), &json!(503)), "{line}");

    // An unreachable provider and invalid responses: the gateway's own error.
    let unreachable = format!("http://127.0.0.1:{}/v1", ports::free());
    let emulator = format!("{}/v1", gateway.emulator_url());
    for (host, model, code) in [
        (&unreachable, "m", "upstream_unreachable"),
        (&emulator, "m?fault=reset", "upstream_unreachable"),
        (&emulator, "m?fault=garbage", "upstream_invalid_answer"),
    ] {
        for stream in [false, true] {
            let trace = new_trace();
            let mut body = hello(stream);
            body["model"] = json!(model);
            assert_eq!(status(chat_at(&gateway, &trace, host, &body)).await, 502, "{model}");
            let line =
                line_with(&gateway, &trace, &["key", "provider", "model", "error_code", "error"]).await;
            assert_eq!(line["error_code"], code, "{line}");
            assert_eq!(line["attempts"][0]["error"], code, "{line}");
        }
    }

    // Failures before a provider is chosen.
    let trace = new_trace();
    let call = chat(&gateway, &trace, &hello(false)).header("x-gateway-provider", "@nowhere");
    let url = format!("{}/chat/completions", gateway.base_url());
    assert_eq!(status(call).await, 400);
    let line = line_with(&gateway, &trace, &["key", "model", "error_code", "error"]).await;
    assert_eq!(line["attempts"], json!([]));
    let trace = new_trace();
    assert_eq!(
        status(client().post(url).header("x-gateway-trace-id", &trace).json(&hello(false))).await,
        401
    );
    let line = line_with(&gateway, &trace, &["error_code", "error"]).await;
    assert_eq!((&line["error_code"], &line["status"]), (&json!("invalid_api_key"), &json!(401)));
}

#[tokio::test]
async fn the_lines_of_other_calls() {
    let gateway = gateway();
    let call = |method: reqwest::Method, path: &str, trace: &str| {
        let call = client().request(method, format!("{}{path}", gateway.base_url()));
        let call = call.header("x-gateway-api-key", KEY).header("x-gateway-provider", "@emulator");
        call.header("x-gateway-trace-id", trace)
    };
    let trace = new_trace();
    assert_eq!(status(call(reqwest::Method::GET, "/some/path?bytes=70000&secret=canary", &trace)).await, 200);
    let line = line_with(&gateway, &trace, &["key", "provider", "slug", "ttfb_ms"]).await;
    assert_eq!((&line["operation"], &line["bytes_out"]), (&json!("proxy"), &json!(70_000)));
    assert_eq!(line["path"], "/v1/some/path", "without its query");

    let trace = new_trace();
    let file = reqwest::multipart::Part::bytes(vec![b'x'; 100_000]).file_name("a.jsonl");
    let form = reqwest::multipart::Form::new().text("purpose", "batch").part("file", file);
    assert_eq!(status(call(reqwest::Method::POST, "/files", &trace).multipart(form)).await, 200);
    let line = gateway.access_line(&trace).await;
    assert!(line["bytes_in"].as_u64() > Some(100_000), "{line}");

    // Overlong names are truncated, so that a client cannot make the line arbitrarily long.
    let trace = new_trace();
    let mut body = hello(false);
    body["model"] = json!("ü".repeat(40_000));
    assert_eq!(status(chat(&gateway, &trace, &body)).await, 200);
    assert!(gateway.access_line(&trace).await.to_string().len() < 4_000);
    let trace = new_trace();
    status(call(reqwest::Method::GET, &format!("/{}", "y".repeat(20_000)), &trace)).await;
    assert!(gateway.access_line(&trace).await.to_string().len() < 4_000);
}

#[tokio::test]
async fn response_headers_report_what_happened() {
    let gateway = gateway();
    let trace = new_trace();
    let header = |response: &reqwest::Response, name: &str| {
        response.headers().get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
    };
    for stream in [false, true] {
        let response = chat(&gateway, &trace, &hello(stream)).send().await.unwrap();
        for (name, wanted) in [
            ("x-gateway-trace-id", trace.as_str()),
            ("x-gateway-provider", "openai"),
            ("x-gateway-last-used-option-index", "config"),
            ("x-gateway-retry-attempt-count", "0"),
            ("x-gateway-cache-status", "DISABLED"),
        ] {
            assert_eq!(header(&response, name), wanted, "{name}");
        }
    }
    let unreachable = format!("http://127.0.0.1:{}/v1", ports::free());
    let failed = chat_at(&gateway, &trace, &unreachable, &hello(false)).send().await.unwrap();
    assert_eq!((failed.status().as_u16(), header(&failed, "x-gateway-trace-id")), (502, trace.clone()));
    assert_eq!(header(&failed, "x-gateway-provider"), "openai");
    assert_eq!(header(&failed, "x-gateway-last-used-option-index"), "config");
    // The trace id is generated if absent, also for refused requests.
    let refused = client().get(format!("{}/models", gateway.base_url())).send().await.unwrap();
    assert_eq!((refused.status().as_u16(), header(&refused, "x-gateway-trace-id").len()), (401, 36));
}

#[tokio::test]
async fn traceparent_is_accepted_and_forwarded() {
    let gateway = gateway();
    let call = async |parent: &str| {
        let tag = new_trace();
        let mut body = hello(false);
        body["model"] = json!(format!("gpt-4o-mini?tag={tag}"));
        let call = client().post(format!("{}/chat/completions", gateway.base_url())).json(&body);
        let call = call.header("x-gateway-api-key", KEY).header("x-gateway-provider", "@emulator");
        let response = call.header("traceparent", parent).header("tracestate", "a=b").send().await.unwrap();
        assert_eq!(response.status(), 200);
        let received = gateway.emulator_requests(&tag).await[0].to_string();
        assert!(received.contains(parent) && received.contains("a=b"), "{received}");
        response.headers()["x-gateway-trace-id"].to_str().unwrap().to_owned()
    };
    let id = "4bf92f3577b34da6a3ce929d0e0e4736";
    assert_eq!(call(&format!("00-{id}-00f067aa0ba902b7-01")).await, id);
    assert_eq!(
        call("00-00000000000000000000000000000000-00f067aa0ba902b7-01").await.len(),
        36,
        "not a trace"
    );
}
