//! What holds for each operation of the table: budgets, rates, guardrails, the log, prices. The table of `docs/limits.md` is read and
//! compared cell by cell with what the running binary does, so that an operation without a row fails.
//!
//! Chats one by one are in `limited_requests` and `limits_counted`, sockets in `realtime`.

use crate::guardrails::none_of;
use crate::support::client::{client, new_trace};
use crate::support::message::Message;
use crate::support::provider::Provider;
use crate::support::raw::Raw;
use crate::support::{Gateway, wait};
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use words::api::operation::Operation;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/limits.md");
const HEADING: &str = "## What holds for each operation";

/// A guardrail of these tests denies it.
const WORD: &str = "hidden";
const FORM: &str = "--b\r\ncontent-disposition: form-data; name=\"prompt\"\r\n\r\nhidden\r\n--b\r\n\
                    content-disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n\0\u{1}{}\r\n--b--\r\n";
const NONE: &str = "";
const CHAT: &str =
    r#"{"model":"gpt-4o","messages":[{"role":"user","content":"it is hidden"}],"max_completion_tokens":5}"#;
const RESPONSE: &str = r#"{"model":"gpt-4o","input":"it is hidden","max_output_tokens":16}"#;
const GOOGLE: &str = r#"{"contents":[{"role":"user","parts":[{"text":"it is hidden"}]}],"generationConfig":{"maxOutputTokens":9}}"#;

/// Operation, method, path, body; the provider is named by the path.
type Call = (&'static str, &'static str, &'static str, &'static str);

/// One call of each operation that is no socket.
const CALLS: &[Call] = &[
    ("chat", "POST", "/v1/chat/completions", CHAT),
    (
        "text_completion",
        "POST",
        "/v1/completions",
        r#"{"model":"gpt-4o","prompt":"it is hidden","max_tokens":5}"#,
    ),
    ("embeddings", "POST", "/v1/embeddings", r#"{"model":"text-embedding-3-small","input":"it is hidden"}"#),
    (
        "messages",
        "POST",
        "/v1/messages",
        r#"{"model":"claude-sonnet-4-5","max_tokens":9,"messages":[{"role":"user","content":"it is hidden"}]}"#,
    ),
    (
        "count_tokens",
        "POST",
        "/v1/messages/count_tokens",
        r#"{"model":"claude-sonnet-4-5","messages":[{"role":"user","content":"it is hidden"}]}"#,
    ),
    ("responses", "POST", "/v1/responses", RESPONSE),
    ("responses_get", "GET", "/v1/responses/resp_1", NONE),
    ("responses_delete", "DELETE", "/v1/responses/resp_1", NONE),
    ("responses_cancel", "POST", "/v1/responses/resp_1/cancel", NONE),
    ("responses_input_items", "GET", "/v1/responses/resp_1/input_items", NONE),
    (
        "responses_input_tokens",
        "POST",
        "/v1/responses/input_tokens",
        r#"{"model":"gpt-4o","input":"hidden"}"#,
    ),
    ("responses_compact", "POST", "/v1/responses/compact", RESPONSE),
    ("images", "POST", "/v1/images/generations", r#"{"model":"gpt-image-1","prompt":"it is hidden"}"#),
    ("image_edits", "POST", "/v1/images/edits", FORM),
    ("image_variations", "POST", "/v1/images/variations", FORM),
    ("speech", "POST", "/v1/audio/speech", r#"{"model":"tts-1","input":"it is hidden","voice":"alloy"}"#),
    ("transcriptions", "POST", "/v1/audio/transcriptions", FORM),
    ("translations", "POST", "/v1/audio/translations", FORM),
    ("moderations", "POST", "/v1/moderations", r#"{"model":"gpt-4o","input":"it is hidden"}"#),
    ("rerank", "POST", "/v1/rerank", r#"{"model":"gpt-4o","query":"a","documents":["it is hidden"]}"#),
    ("files_upload", "POST", "/v1/files", FORM),
    ("files_list", "GET", "/v1/files", NONE),
    ("files_get", "GET", "/v1/files/file-1", NONE),
    ("files_content", "GET", "/v1/files/file-1/content", NONE),
    ("files_delete", "DELETE", "/v1/files/file-1", NONE),
    (
        "batches_create",
        "POST",
        "/v1/batches",
        r#"{"input_file_id":"f","completion_window":"24h","endpoint":"/v1/embeddings"}"#,
    ),
    ("batches_list", "GET", "/v1/batches", NONE),
    ("batches_get", "GET", "/v1/batches/batch_1", NONE),
    ("batches_cancel", "POST", "/v1/batches/batch_1/cancel", NONE),
    ("batches_output", "GET", "/v1/batches/batch_1/output", NONE),
    (
        "fine_tuning_create",
        "POST",
        "/v1/fine_tuning/jobs",
        r#"{"model":"gpt-4o","training_file":"f","suffix":"hidden","method":{"type":"supervised"}}"#,
    ),
    ("fine_tuning_list", "GET", "/v1/fine_tuning/jobs", NONE),
    ("fine_tuning_get", "GET", "/v1/fine_tuning/jobs/ftjob-1", NONE),
    ("fine_tuning_cancel", "POST", "/v1/fine_tuning/jobs/ftjob-1/cancel", NONE),
    ("fine_tuning_events", "GET", "/v1/fine_tuning/jobs/ftjob-1/events", NONE),
    ("fine_tuning_checkpoints", "GET", "/v1/fine_tuning/jobs/ftjob-1/checkpoints", NONE),
    ("models", "GET", "/v1/models", NONE),
    ("models_get", "GET", "/v1/models/gpt-4o", NONE),
    ("generate_content", "POST", "/v1beta/models/gemini-2.5-flash:generateContent", GOOGLE),
    (
        "stream_generate_content",
        "POST",
        "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse",
        GOOGLE,
    ),
    ("list_generate_content", "POST", "/v1beta/models/gemini-2.5-flash:streamGenerateContent", GOOGLE),
    ("gemini_count_tokens", "POST", "/v1beta/models/gemini-2.5-flash:countTokens", GOOGLE),
    (
        "embed_content",
        "POST",
        "/v1beta/models/gemini-embedding-001:embedContent",
        r#"{"content":{"parts":[{"text":"it is hidden"}]}}"#,
    ),
    (
        "batch_embed_contents",
        "POST",
        "/v1beta/models/gemini-embedding-001:batchEmbedContents",
        r#"{"requests":[{"model":"models/gemini-embedding-001","content":{"parts":[{"text":"it is hidden"}]}}]}"#,
    ),
    ("gemini_models", "GET", "/v1beta/models", NONE),
    ("gemini_models_get", "GET", "/v1beta/models/gemini-2.5-flash", NONE),
    ("prompt_completions", "POST", "/v1/prompts/PROMPT/completions", r#"{"variables":{"a":"hidden"}}"#),
    ("proxy", "POST", "/v1/ocr", r#"{"model":"gpt-4o","document":"it is hidden"}"#),
];

/// Rows of operations that these tests do not call: `realtime` and `mcp_gateway` do.
const SOCKETS: &[&str] = &["realtime", "mcp", "mcp_call"];

/// The provider that a call is for: the one whose dialect it speaks.
fn provider_of(path: &str) -> &'static str {
    match path {
        path if path.starts_with("/v1beta/") => "@gemini",
        path if path.contains("messages") => "@claude",
        _ => "@up",
    }
}

/// What is no JSON of an operation: a socket where it is asked for, responses without a body, one that cannot be read.
fn other_response(request: &Message) -> Option<Vec<u8>> {
    let head = |status: &str, length: usize| format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n");
    let response = match &request.start {
        _ if request.header("x-socket").is_some() => {
            "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n".to_owned()
        }
        start if start.contains("/empty") => head("202 Accepted", 0),
        start if start.contains("/moved") => head("307 Temporary Redirect\r\nlocation: /elsewhere", 0),
        start if start.contains("/absent") => head("404 Not Found\r\ncontent-type: text/html", 4) + "<p/>",
        start if start.contains("/zipped") => {
            head("200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip", 3) + "xyz"
        }
        _ => return None,
    };
    Some(response.into_bytes())
}

/// Responds as any of the providers does, with usage where the request has the header `x-usage`.
fn respond(request: &Message) -> Vec<u8> {
    if let Some(response) = other_response(request) {
        return response;
    }
    let (usage, google) = if request.header("x-usage").is_none() {
        (Value::Null, Value::Null)
    } else if ["/messages", "/responses"].iter().any(|path| request.start.contains(path)) {
        (json!({"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}), Value::Null)
    } else {
        let google = json!({"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5});
        (json!({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}), google)
    };
    let mut body = json!({
        "id": "x-1", "model": "gpt-4o", "usage": usage,
        "choices": [{"index": 0, "text": "hi", "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
        "content": [{"type": "text", "text": "hi"}], "stop_reason": "end_turn", "data": [],
    });
    if request.start.contains("/v1beta/") {
        body = json!({
            "candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": "hi"}]}, "finishReason": "STOP"}],
            "usageMetadata": google, "embedding": {"values": [0.5]}, "embeddings": [{"values": [0.5]}], "totalTokens": 3,
        });
    }
    if request.start.contains("/embeddings") {
        body = json!({"object": "list", "model": "text-embedding-3-small", "data": [{"index": 0, "embedding": [0.5]}]});
    }
    // Numbers have no tokens of their own.
    if request.start.to_lowercase().contains("embed") {
        body["candidates"] = Value::Null;
        if request.header("x-usage").is_some() {
            body["usage"] = json!({"prompt_tokens": 3, "total_tokens": 3});
            body["usageMetadata"] = json!({"promptTokenCount": 3, "totalTokenCount": 3});
        }
    }
    let (kind, body) = match &request.start {
        start if start.contains("streamGenerate") => ("text/event-stream", format!("data: {body}\n\n")),
        start if start.contains("/speech") => ("audio/mpeg", "\u{1}\u{2}".to_owned()),
        _ => ("application/json", body.to_string()),
    };
    format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        .into_bytes()
}

const FREE: &str = "tp-limitless-0123456789";
const SOFT: &str = "tp-soft-spent-0123456789";
const HARD: &str = "tp-hard-room-0123456789";
const HARD_SPENT: &str = "tp-hard-spent-0123456789";
const FITTED: &str = "tp-hard-fitted-0123456789";
const RATED: &str = "tp-rated-0123456789";

/// Three stored providers that are one, and a key for each kind of limit.
fn settings(port: u16) -> String {
    format!(
        "
custom_hosts: {{allow: [127.0.0.1]}}
auth:
  keys:
    - {{name: operator, key: tp-operator-0123456789, scopes: [administration]}}
    - {{name: limitless, key: {FREE}, workspace: default}}
    - {{name: soft, key: {SOFT}, workspace: default, usage_limits: [{{credit_limit: 0}}]}}
    - {{name: hard, key: {HARD}, workspace: default, usage_limits: [{{credit_limit: 1000, hard: true}}]}}
    - {{name: spent, key: {HARD_SPENT}, workspace: default, usage_limits: [{{credit_limit: 0, hard: true}}]}}
    - {{name: fitted, key: {FITTED}, workspace: default, usage_limits: [{{credit_limit: 1000, hard: true, fit: true}}]}}
    - {{name: rated, key: {RATED}, workspace: default, rate_limits: [{{unit: rpw, value: 1}}]}}
providers:
  up: {{provider: openai, api_key: k, custom_host: 'http://127.0.0.1:{port}/v1'}}
  claude: {{provider: anthropic, api_key: k, custom_host: 'http://127.0.0.1:{port}/v1'}}
  gemini: {{provider: google, api_key: k, custom_host: 'http://127.0.0.1:{port}'}}
"
    )
}

/// A gateway with these settings, its provider, and the slug of a prompt.
struct Room {
    gateway: Gateway,
    provider: Provider,
    prompt: String,
}

impl Room {
    async fn new() -> Self {
        let provider = Provider::start(respond).await;
        let gateway = Gateway::start(&settings(provider.port));
        let prompt = json!({
            "name": "p", "string": r#"[{"role":"user","content":"it is {{a}}"}]"#, "virtual_key": "up", "model": "gpt-4o",
            "parameters": {"max_tokens": 5},
        });
        let url = format!("{}/prompts", gateway.base_url());
        let made = client().post(url).header("x-gateway-api-key", FREE).json(&prompt).send().await.unwrap();
        let made: Value = made.json().await.unwrap();
        let prompt = made["slug"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
        Self { gateway, provider, prompt }
    }

    fn call(&self, key: &str, (_, method, path, body): Call) -> RequestBuilder {
        let method: Method = method.parse().unwrap();
        let url = format!("{}{}", self.gateway.data_url(), path.replace("PROMPT", &self.prompt));
        let call = client().request(method, url).header("x-gateway-api-key", key);
        match body.as_bytes().first() {
            None => call,
            Some(b'{') => call.header(CONTENT_TYPE, "application/json").body(body),
            Some(_) => call.header(CONTENT_TYPE, "multipart/form-data; boundary=b").body(body),
        }
    }

    async fn sent(&self, call: RequestBuilder) -> (u16, HeaderMap, String) {
        let response = call.send().await.unwrap();
        (response.status().as_u16(), response.headers().clone(), response.text().await.unwrap())
    }

    /// Whether a call with this key is refused with this status.
    async fn refuses(&self, key: &str, call: Call, wanted: u16) -> bool {
        let sent = self.call(key, call).header("x-gateway-provider", provider_of(call.2));
        let (status, _, text) = self.sent(sent).await;
        assert!(status == 200 || status == wanted, "{} with {key}: {status} {text}", call.0);
        status == wanted
    }

    /// The log of a call without limits, and the header that tells of its cost.
    async fn logged(&self, call: Call, has_usage: bool) -> (Value, Option<String>) {
        let trace = new_trace();
        let sent = self.call(FREE, call).header("x-gateway-provider", provider_of(call.2));
        let sent = sent.header("x-gateway-trace-id", &trace);
        let sent = if has_usage { sent.header("x-usage", "1") } else { sent };
        let (status, headers, text) = self.sent(sent).await;
        assert!([200, 202, 307, 404].contains(&status), "{} {}: {text}", call.0, call.2);
        let path = format!("/v1/logs?trace_id={trace}");
        let log = wait::until(&format!("the log of {} {}", call.0, call.2), async || {
            let found = self.gateway.read(&path).await;
            found["data"].as_array()?.first().cloned()
        })
        .await;
        let header = headers.get("x-gateway-cost-status").map(|value| value.to_str().unwrap().to_owned());
        (log, header)
    }

    async fn guardrail(&self, call: Call) -> &'static str {
        let config = json!({"provider": provider_of(call.2), "input_guardrails": none_of(WORD, true)});
        let (status, _, text) =
            self.sent(self.call(FREE, call).header("x-gateway-config", config.to_string())).await;
        match (status, call.3.contains(WORD)) {
            (446, true) => "checked",
            (200, true) => "not read",
            (200, false) => "no text",
            _ => panic!("{}: {status} {text}", call.0),
        }
    }

    /// What is charged: by the response's usage, and without one.
    async fn price(&self, call: Call) -> String {
        let (reported, _) = self.logged(call, true).await;
        let (silent, header) = self.logged(call, false).await;
        let text = |log: &Value| log["cost_status"].as_str().map(str::to_owned);
        let (reported, silent) = (text(&reported), text(&silent));
        let cell = match (reported.as_deref(), silent.as_deref()) {
            (Some("priced"), Some("priced")) if call.0 == "speech" => "characters",
            (Some("priced"), Some("priced")) => "tokens",
            (Some("priced"), Some("unknown")) => "reported",
            (Some("unknown"), Some("unknown")) => "unknown",
            (None, None) => "free",
            other => return format!("{other:?}"),
        };
        if (header.as_deref() == Some("unknown")) == (silent.as_deref() == Some("unknown")) {
            cell.to_owned()
        } else {
            format!("{silent:?}, and the header says {header:?}")
        }
    }

    /// The cells of an operation's row.
    async fn row(&self, call: Call) -> String {
        let refused = |refuses: bool| if refuses { "refused" } else { "passes" };
        let soft = refused(self.refuses(SOFT, call, 412).await);
        let hard = match (self.refuses(HARD, call, 412).await, self.refuses(HARD_SPENT, call, 412).await) {
            (true, true) => "refused",
            (false, true) => "held",
            (false, false) => "passes",
            (true, false) => panic!("{}: refused with room alone", call.0),
        };
        let rate = refused(self.refuses(RATED, call, 429).await);
        let (log, _) = self.logged(call, true).await;
        let label = if call.0 == "prompt_completions" { "chat" } else { call.0 };
        assert_eq!(log["operation"], label, "{log}");
        let (guardrail, price) = (self.guardrail(call).await, self.price(call).await);
        [soft, hard, rate, guardrail, "row", &price].join(" | ")
    }
}

/// The rows of the table in the page, by operation.
fn documented() -> BTreeMap<String, String> {
    let page = std::fs::read_to_string(DOCS).unwrap();
    let section = page.split(HEADING).nth(1).unwrap_or_else(|| panic!("{DOCS} has no {HEADING}"));
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.flat_map(|row| {
        let mut cells = row.trim_matches('|').split('|').map(str::trim);
        let operations: Vec<String> =
            cells.next().unwrap().split(", ").map(|name| name.trim_matches('`').to_owned()).collect();
        let cells = cells.collect::<Vec<_>>().join(" | ");
        operations.into_iter().map(move |name| (name, cells.clone()))
    })
    // Rows of another table: what happens to the events of a socket.
    .filter(|(name, _)| !name.contains('.'))
    .collect()
}

#[tokio::test]
async fn every_operation_matches_its_row() {
    let room = Room::new().await;
    // The rate of a week is used up, the week may end meanwhile, once.
    wait::until("the rate to be used up", async || room.refuses(RATED, CALLS[0], 429).await.then_some(()))
        .await;
    let mut found = BTreeMap::new();
    for call in CALLS {
        found.insert(call.0.to_owned(), room.row(*call).await);
    }
    let mut documented = documented();
    let labels: Vec<&str> = Operation::labels().collect();
    for label in &labels {
        assert!(documented.contains_key(*label), "docs/limits.md has no row for the operation {label}");
        assert!(found.contains_key(*label) || SOCKETS.contains(label), "no call of the operation {label}");
    }
    documented.retain(|label, _| !SOCKETS.contains(&label.as_str()));
    let rows = found.iter().map(|(name, cells)| format!("| `{name}` | {cells} |\n"));
    assert_eq!(documented, found, "what was found:\n{}", rows.collect::<String>());
}

/// A bound that cannot be set is no bound: a hard limit that fits is not exceeded by what it cannot fit.
#[tokio::test]
async fn what_has_no_bound_is_refused_by_hard_limits_that_fit() {
    let room = Room::new().await;
    for call in CALLS {
        let sent = room.call(FITTED, *call).header("x-gateway-provider", provider_of(call.2));
        let (status, _, text) = room.sent(sent).await;
        let is_refused = room.refuses(HARD, *call, 412).await;
        assert_eq!(status == 412, is_refused, "{}: {status} {text}", call.0);
    }
    let metrics = room.gateway.metrics().await;
    assert!(metrics.contains(r#"cause="unboundable""#), "{metrics}");
}

/// Limits of a target judge what Pingora proxies natively too.
#[tokio::test]
async fn limits_of_a_target_are_for_what_is_not_read() {
    let room = Room::new().await;
    let policy = json!({
        "conditions": [{"key": "provider", "value": "openai"}], "group_by": [{"key": "provider"}],
        "type": "requests", "unit": "rpw", "value": 1, "workspace_id": null,
    });
    room.gateway.create("/v1/policies/rate-limits", &policy).await;
    wait::until("the rate to be used up", async || room.refuses(FREE, CALLS[0], 429).await.then_some(()))
        .await;
    let before = room.provider.received().len();
    for (method, path, body) in [
        ("POST", "/v1/audio/transcriptions", FORM),
        ("POST", "/v1/images/edits", FORM),
        ("POST", "/v1/files", FORM),
        ("DELETE", "/v1/files/file-1", NONE),
        ("POST", "/v1/proxy/v1/audio/transcriptions", FORM),
        ("PUT", "/v1/proxy/v1/blobs/1", "bytes"),
        ("GET", "/v1/proxy/v1/vector_stores", NONE),
    ] {
        let sent = room.call(FREE, ("", method, path, body)).header("x-gateway-provider", "@up");
        let (status, _, text) = room.sent(sent).await;
        assert_eq!(status, 429, "{method} {path}: {text}");
    }
    let (status, text) = socket(&room, FREE, "/v1/proxy/v1/live", "").await;
    assert_eq!(status, 429, "{text}");
    assert_eq!(room.provider.received().len(), before);
}

/// What is no operation, and what goes on after its response: charged by the report, else its cost is unknown and said to be. Never nothing.
#[tokio::test]
async fn a_response_without_a_report_has_an_unknown_cost() {
    let room = Room::new().await;
    let background = r#"{"model":"gpt-4o","input":"a","max_output_tokens":16,"background":true}"#;
    let unnamed = r#"{"items":[]}"#;
    for (method, path, body, wanted) in [
        ("POST", "/v1/responses", background, "unknown"),
        ("POST", "/v1/proxy/v1/chat/completions", CHAT, "unknown"),
        ("POST", "/v1/conversations", unnamed, "unknown"),
        ("PATCH", "/v1/proxy/v1/anything", unnamed, "unknown"),
        ("PUT", "/v1/proxy/v1/blobs/1", "bytes", "unknown"),
        ("POST", "/v1/proxy/v1/audio/transcriptions", FORM, "unknown"),
        ("POST", "/v1/proxy/v1/audio/speech", CALLS[0].3, "unknown"),
        ("POST", "/v1/proxy/v1/batches", unnamed, "unknown"),
        ("POST", "/v1/proxy/v1/empty", unnamed, "unknown"),
        ("POST", "/v1/proxy/v1/zipped", unnamed, "unknown"),
        // By the token, of which no response tells.
        ("POST", "/v1/audio/speech", r#"{"model":"gpt-4o-mini-tts","input":"a","voice":"alloy"}"#, "unknown"),
        ("POST", "/v1/images/generations", r#"{"model":"gpt-image-1","prompt":"a","n":1}"#, "unknown"),
        ("POST", "/v1/proxy/v1/batches/b_1/cancel", NONE, ""),
        ("POST", "/v1/proxy/v1/moved", unnamed, ""),
        ("POST", "/v1/proxy/v1/absent", unnamed, ""),
        ("PUT", "/v1/proxy/v1/absent", "bytes", ""),
        ("DELETE", "/v1/proxy/v1/conversations/c_1", NONE, ""),
        ("GET", "/v1/proxy/v1/vector_stores", NONE, ""),
    ] {
        let (log, header) = room.logged(("", method, path, body), false).await;
        let shown = log["cost_status"].as_str().unwrap_or_default();
        assert_eq!(shown, wanted, "{method} {path}: {log}");
        assert_eq!(header.as_deref().unwrap_or_default(), wanted, "{method} {path}");
        assert_eq!(log["cost"], Value::Null, "{method} {path}: {log}");
    }
    // Twelve characters at $15 a million.
    let spoken = *CALLS.iter().find(|call| call.0 == "speech").unwrap();
    let (log, _) = room.logged(spoken, false).await;
    assert_eq!((&log["cost_status"], &log["cost"]), (&json!("priced"), &json!(0.018)), "{log}");
    let (log, _) = room.logged(("", "POST", "/v1/proxy/v1/batches", unnamed), true).await;
    assert_eq!((&log["cost_status"], &log["total_units"]), (&json!("unknown"), &Value::Null), "{log}");
    let unpriced = room.gateway.metric(r#"turnpike_unpriced_attempts_total{provider="openai"}"#).await;
    assert_eq!(unpriced, Some(13.0));
}

/// A response in the background is not over with its first response: a hard budget keeps what it holds for it.
#[tokio::test]
async fn a_hard_budget_keeps_what_it_holds_for_a_response_in_the_background() {
    let room = Room::new().await;
    let limit = json!({"type": "cost", "credit_limit": 0.009, "hard": true});
    let key = json!({"name": "k", "scopes": ["completions.write"], "usage_limits": limit});
    let made = room.gateway.create("/v1/api-keys/workspace/service", &key).await;
    let key = made["key"].as_str().unwrap();
    // Some $0.0037 each at most, at the dearest tier: two fit.
    let body = r#"{"model":"gpt-4o","input":"a","max_output_tokens":200,"background":true}"#;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        let sent = room.call(key, ("", "POST", "/v1/responses", body)).header("x-gateway-provider", "@up");
        statuses.push(room.sent(sent).await.0);
        // What is held of a running request is a 429.
        room.gateway.idle().await;
    }
    assert_eq!(statuses, [200, 200, 412, 412]);
}

/// Of a socket that is no operation nothing is read: its cost is unknown, hard budgets refuse it, and so do guardrails that decide.
#[tokio::test]
async fn an_unread_socket_is_neither_free_nor_judged() {
    let room = Room::new().await;
    let path = "/v1/proxy/v1/live";
    for key in [SOFT, HARD, HARD_SPENT] {
        let (status, text) = socket(&room, key, path, "").await;
        assert_eq!(status, 412, "{text}");
    }
    let config = json!({"input_guardrails": none_of(WORD, true)});
    let (status, text) = socket(&room, FREE, path, &format!("x-gateway-config: {config}\r\n")).await;
    assert_eq!(status, 501, "{text}");
    let trace = new_trace();
    let head = format!("x-socket: 1\r\nx-gateway-trace-id: {trace}\r\n");
    let (status, text) = socket(&room, FREE, path, &head).await;
    assert_eq!(status, 101, "{text}");
    let line = room.gateway.access_line(&trace).await;
    assert_eq!(line["cost_status"], "unknown", "{line}");
}

/// Sends the handshake of a websocket. The provider of these tests answers as to any other request, or with 101 where it is asked for it.
async fn socket(room: &Room, key: &str, path: &str, head: &str) -> (u16, String) {
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: g\r\nx-gateway-api-key: {key}\r\nx-gateway-provider: @up\r\nconnection: Upgrade\r\n\
         upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n{head}\r\n"
    );
    let mut raw = Raw::connect(room.gateway.ports.data).await;
    raw.write(request.as_bytes()).await.unwrap();
    let bytes = raw.read_some().await;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default(), text)
}
