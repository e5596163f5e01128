//! Agents at vendors that are stricter than OpenAI, on the running binary: names of tools, betas, parallel calls, Claude Code's first
//! line, the first count of a stream, and counting beside limits.
//!
//! How each body is written and read is tested beside the code (`knowledge::provider`).

use crate::guardrails::none_of;
use crate::support::client::client;
use crate::support::gateway::Gateway;
use crate::support::settings::KEY;
use crate::support::upstream::Upstream;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// A provider that keeps its requests and responds with what `respond` makes of each body: JSON, or events where it begins with `data:`.
async fn provider(respond: fn(&Value) -> String) -> (Upstream, Arc<Mutex<Vec<String>>>) {
    let received = Arc::<Mutex<Vec<String>>>::default();
    let kept = Arc::clone(&received);
    let upstream = Upstream::start(move |mut line| {
        let kept = Arc::clone(&kept);
        async move {
            while let Some(request) = line.request().await {
                let body = request.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned();
                kept.lock().unwrap().push(request);
                let response = respond(&serde_json::from_str(&body).unwrap_or_default());
                if response.starts_with("data:") {
                    let length = response.len();
                    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
                    line.write(&format!("{head}content-length: {length}\r\n\r\n{response}")).await;
                } else {
                    line.send_json(&response).await;
                }
            }
        }
    })
    .await;
    (upstream, received)
}

/// The vendors, all at this upstream.
fn settings(upstream: &Upstream) -> String {
    let url = format!("http://127.0.0.1:{}", upstream.port);
    format!(
        "
custom_hosts: {{allow: [127.0.0.1]}}
auth:
  keys:
    - {{name: tests, key: {KEY}}}
    - {{name: slow, key: tp-slow-0123456789, rate_limits: [{{unit: rph, value: 1}}]}}
providers:
  mis: {{provider: mistral-ai, custom_host: '{url}/v1', api_key: k}}
  tog: {{provider: together-ai, custom_host: '{url}/v1', api_key: k}}
  ant: {{provider: anthropic, custom_host: '{url}/v1', api_key: k}}
  ver: {{provider: vertex-ai, custom_host: '{url}/v1', cloud_b_project_id: p, cloud_b_region: us-east5, api_key: k}}
"
    )
}

async fn post(gateway: &Gateway, path: &str, key: &str, betas: &str, body: &Value) -> (u16, String, String) {
    let call = client().post(format!("{}/{path}", gateway.base_url())).header("x-gateway-api-key", key);
    let call = if betas.is_empty() { call } else { call.header("anthropic-beta", betas) };
    let response = call.json(body).send().await.unwrap();
    let warnings = response.headers().get("x-gateway-warnings");
    let warnings = warnings.map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
    (response.status().as_u16(), warnings, response.text().await.unwrap())
}

fn calls(body: &Value, streamed: bool) -> String {
    let name = body.pointer("/tools/0/function/name").cloned().unwrap_or_default();
    let call = |id: &str| json!({"id": id, "type": "function", "index": 0, "function": {"name": name, "arguments": "{}"}});
    if streamed {
        let event = |delta: Value, finish: Value| {
            let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
            format!(
                "data: {}\n\n",
                json!({"id": "r", "object": "chat.completion.chunk", "model": "m", "choices": [choice]})
            )
        };
        let deltas =
            ["aaaaaaaaa", "bbbbbbbbb"].map(|id| event(json!({"tool_calls": [call(id)]}), Value::Null));
        return deltas.concat() + &event(json!({}), json!("tool_calls")) + "data: [DONE]\n\n";
    }
    let message =
        json!({"role": "assistant", "content": null, "tool_calls": [call("aaaaaaaaa"), call("aaaaaaaaa")]});
    json!({"id": "r", "object": "chat.completion", "model": "m", "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})
    .to_string()
}

/// A message of Anthropic's, which is a count of tokens as well.
fn message(_: &Value) -> String {
    json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": "Hi"}],
        "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}, "input_tokens": 3})
    .to_string()
}

#[tokio::test]
async fn names_of_tools_go_to_mistral_as_it_takes_them_and_come_back() {
    let (upstream, received) = provider(|body| calls(body, body["stream"] == json!(true))).await;
    let gateway = Gateway::start(&settings(&upstream));
    let deny = json!({"output_guardrails": none_of("forbidden", true)});
    for (streamed, config) in [(false, Value::Null), (true, Value::Null), (true, deny)] {
        let body = json!({"model": "@mis/mistral-large", "stream": streamed, "messages": [{"role": "user", "content": "x"}],
            "tools": [{"type": "function", "function": {"name": "fs.read", "parameters": {"type": "object", "properties": {}}}}]});
        let call = client()
            .post(format!("{}/chat/completions", gateway.base_url()))
            .header("x-gateway-api-key", KEY);
        let call = if config.is_null() { call } else { call.header("x-gateway-config", config.to_string()) };
        let response = call.json(&body).send().await.unwrap();
        assert_eq!(response.status(), 200);
        let text = response.text().await.unwrap();
        let sent = received.lock().unwrap().pop().unwrap();
        assert!(sent.contains("\"fs_read_") && !sent.contains("fs.read"), "{sent}");
        assert_eq!((text.matches("\"fs.read\"").count(), text.contains("fs_read_")), (2, false), "{text}");
        // Two calls, whatever their indices and ids were.
        let two = if streamed { "\"index\":1" } else { "call_r_0_1" };
        assert!(text.contains(two), "{text}");
    }
}

#[tokio::test]
async fn a_cloud_gets_the_betas_that_it_has_and_no_changing_first_line() {
    let (upstream, received) = provider(message).await;
    let gateway = Gateway::start(&settings(&upstream));
    let betas = "claude-code-20250219,context-1m-2025-08-07,mcp-client-2025-11-20";
    let line = "x-anthropic-billing-header: cc_version=2.1; cc_entrypoint=cli; cch=00001;";
    for (model, is_own) in [("@ant/claude-sonnet-4-5", true), ("@ver/claude-sonnet-4-5", false)] {
        let body = json!({"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": "x"}],
            "system": [{"type": "text", "text": line}, {"type": "text", "text": "You are."}], "mcp_servers": []});
        let (status, warnings, text) = post(&gateway, "messages", KEY, betas, &body).await;
        assert_eq!(status, 200, "{text}");
        let sent = received.lock().unwrap().pop().unwrap();
        let header = sent.lines().find_map(|line| line.strip_prefix("anthropic-beta: ")).unwrap();
        assert_eq!(header, if is_own { betas } else { "context-1m-2025-08-07" });
        for part in [line, "mcp_servers"] {
            assert_eq!(sent.contains(part), is_own, "{sent}");
        }
        assert_eq!(warnings.is_empty(), is_own, "{warnings}");
    }
}

#[tokio::test]
async fn a_stream_of_messages_begins_with_an_estimate_of_its_input() {
    let (upstream, _) = provider(|body| calls(body, true)).await;
    let gateway = Gateway::start(&settings(&upstream));
    let body = json!({"model": "@tog/kimi-k2", "max_tokens": 9, "stream": true,
        "messages": [{"role": "user", "content": "one two three four five six seven"}],
        "tools": [{"name": "f", "input_schema": {"type": "object"}}]});
    let (status, _, text) = post(&gateway, "messages", KEY, "", &body).await;
    assert_eq!(status, 200, "{text}");
    let start = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let start: Value = serde_json::from_str(start).unwrap();
    let input = start.pointer("/message/usage/input_tokens").and_then(Value::as_u64).unwrap();
    assert!((7..400).contains(&input), "{start}");
}

#[tokio::test]
async fn counting_tokens_leaves_the_limits_to_the_messages() {
    let (upstream, _) = provider(message).await;
    let gateway = Gateway::start(&settings(&upstream));
    let body = json!({"model": "@ant/claude-sonnet-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]});
    let status = async |path| post(&gateway, path, "tp-slow-0123456789", "", &body).await.0;
    for _ in 0..3 {
        assert_eq!(status("messages/count_tokens").await, 200);
    }
    assert_eq!(status("messages").await, 200);
    assert_eq!(status("messages").await, 429);
    assert_eq!(status("messages/count_tokens").await, 200, "not refused either");
}
