//! Every operation reaches the provider with method, path, query and body exactly as sent, and its response
//! is returned exactly as sent.
//!
//! Not validation (`request_rules`), not size or speed (`transfer`, `streams`). The provider records and
//! sends raw bytes: an HTTP library at either end would hide changes.

use crate::support::client::new_trace;
use crate::support::message::Message;
use crate::support::provider::Provider;
use crate::support::settings::KEY;
use crate::support::{Gateway, gateway, raw};

const CHAT: &str = "{ \"model\":\"m\",\n \"messages\" : [{\"role\":\"user\",\"content\":\"caf\\u00e9 \u{1F980}\"}],\"x_unknown\":1.00}";
const FORM: &str = "--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.jsonl\"\r\n\r\n\0\u{1}{}\r\n--b--\r\n";
const NONE: &str = "";

/// Method, path and query below `/v1/`, body, operation in the access line.
type Row = (&'static str, &'static str, &'static str, &'static str);

const ROWS: &[Row] = &[
    ("POST", "chat/completions", CHAT, "chat"),
    ("POST", "chat/completions?api-version=2024-12-01-preview", CHAT, "chat"),
    ("POST", "completions", r#"{"model":"m","prompt":["a","b"]}"#, "text_completion"),
    ("POST", "embeddings", r#"{"model":"m","input":[[1,2],[3]]}"#, "embeddings"),
    ("POST", "responses", r#"{"model":"m","input":"Hello"}"#, "responses"),
    ("GET", "responses/resp_1", NONE, "responses_get"),
    ("GET", "responses/resp_1?include[]=file_search_call.results&stream=false", NONE, "responses_get"),
    ("DELETE", "responses/resp_1", NONE, "responses_delete"),
    ("POST", "responses/resp_1/cancel", NONE, "responses_cancel"),
    ("GET", "responses/resp_1/input_items?limit=5&order=asc&after=item_1", NONE, "responses_input_items"),
    ("POST", "responses/input_tokens", r#"{"model":"m","input":"Hello"}"#, "responses_input_tokens"),
    ("POST", "responses/compact", r#"{"model":"m","input":"Hello"}"#, "responses_compact"),
    (
        "POST",
        "messages",
        r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"}]}"#,
        "messages",
    ),
    (
        "POST",
        "messages/count_tokens?beta=true",
        r#"{"model":"m","messages":[{"role":"user"}]}"#,
        "count_tokens",
    ),
    ("POST", "images/generations", r#"{"prompt":"a fox"}"#, "images"),
    ("POST", "images/edits", FORM, "image_edits"),
    ("POST", "images/variations", FORM, "image_variations"),
    ("POST", "audio/speech", r#"{"model":"m","input":"a","voice":"alloy"}"#, "speech"),
    ("POST", "audio/transcriptions", FORM, "transcriptions"),
    ("POST", "audio/translations", FORM, "translations"),
    ("POST", "moderations", r#"{"input":"a"}"#, "moderations"),
    ("POST", "rerank", r#"{"model":"m","query":"a","documents":["b"]}"#, "rerank"),
    ("POST", "files", FORM, "files_upload"),
    ("GET", "files?purpose=batch&limit=3", NONE, "files_list"),
    ("GET", "files/file-1", NONE, "files_get"),
    ("GET", "files/file-1/content", NONE, "files_content"),
    ("DELETE", "files/file-1", NONE, "files_delete"),
    (
        "POST",
        "batches",
        r#"{"input_file_id":"f","completion_window":"24h","endpoint":"/v1/embeddings"}"#,
        "batches_create",
    ),
    ("GET", "batches?limit=100&after=batch_1", NONE, "batches_list"),
    ("GET", "batches/batch_1", NONE, "batches_get"),
    ("POST", "batches/batch_1/cancel", NONE, "batches_cancel"),
    ("GET", "batches/batch_1/output", NONE, "batches_output"),
    (
        "POST",
        "fine_tuning/jobs",
        r#"{"model":"m","training_file":"f","suffix":"s","method":{"type":"dpo"}}"#,
        "fine_tuning_create",
    ),
    ("GET", "fine_tuning/jobs?limit=2", NONE, "fine_tuning_list"),
    ("GET", "fine_tuning/jobs/ftjob-1", NONE, "fine_tuning_get"),
    ("POST", "fine_tuning/jobs/ftjob-1/cancel", NONE, "fine_tuning_cancel"),
    ("GET", "fine_tuning/jobs/ftjob-1/events", NONE, "fine_tuning_events"),
    ("GET", "fine_tuning/jobs/ftjob-1/checkpoints?limit=1", NONE, "fine_tuning_checkpoints"),
    ("GET", "models", NONE, "models"),
    ("GET", "models/ft:gpt-4o:acme::abc", NONE, "models_get"),
    // Any other path.
    ("POST", "conversations", r#"{"items":[]}"#, "proxy"),
    ("GET", "vector_stores/vs_1/files", NONE, "proxy"),
    ("PUT", "anything/at/all", r#"["no","object"]"#, "proxy"),
    ("POST", "anything", "{\"no\": JSON", "proxy"),
    ("PUT", "blobs/1", "\u{0}\u{1}\u{2}no JSON", "proxy"),
    ("DELETE", "conversations/conv_1", NONE, "proxy"),
    ("DELETE", "conversations/conv_1/items", r#"{"ids":["a"]}"#, "proxy"),
    // Unusual characters are forwarded unchanged.
    ("GET", "files/a%2Fb%20c", NONE, "files_get"),
    ("GET", "models/meta-llama%2FLlama-3.1-8B", NONE, "models_get"),
    ("GET", "search/a//b/", NONE, "proxy"),
    ("GET", "search/~user/(x)/*;v=1,2/:y@z!$&'+=", NONE, "proxy"),
    ("GET", "search?q=a+b%20c%2B&x[]=1&x[]=2&y={'z':[1,|\\^`]}&&=&flag", NONE, "proxy"),
    ("GET", "search?", NONE, "proxy"),
    ("GET", "search?path=../../etc&url=https://example.com/a?b", NONE, "proxy"),
    ("GET", "search/caf%C3%A9%FF", NONE, "proxy"),
    ("GET", "search?q=caf\u{e9}", NONE, "proxy"),
    ("GET", "search/{a}|b^c\"d\"", NONE, "proxy"),
    ("GET", "...", NONE, "proxy"),
];

/// The provider's response: every kind of header a client may use, and bytes that are not text.
const HEADERS: &[(&str, &str)] = &[
    ("Content-Type", "application/json"),
    ("x-request-id", "req_0123456789"),
    ("openai-processing-ms", "12"),
    ("x-ratelimit-limit-requests", "10000"),
    ("x-ratelimit-remaining-tokens", "149984"),
    ("x-ratelimit-reset-requests", "6m0s"),
    ("Set-Cookie", "__cf_bm=a; path=/; HttpOnly"),
    ("Set-Cookie", "_cfuvid=b; path=/"),
    ("CF-RAY", "8f00-FRA"),
    ("alt-svc", "h3=\":443\"; ma=86400"),
    ("ETag", "W/\"1\""),
    ("X-Empty", ""),
];
const RESPONSE: &[u8] = b"{\"n\": 1.000, \"s\":\"\\u00e9\xC3\xA9\", \"raw\":\"\xFF\xFE\"}\r\n\r\n";

fn response_bytes(status: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 {status}\r\n").into_bytes();
    for (name, value) in headers {
        bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    bytes.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// Sends one request with the client's own key to the test's provider.
async fn call(
    gateway: &Gateway,
    provider: &Provider,
    trace: &str,
    (method, path, body): (&str, &str, &str),
) -> Message {
    let kind = match body.as_bytes().first() {
        Some(b'{' | b'[') => "content-type: application/json\r\n",
        Some(b'-') => "content-type: multipart/form-data; boundary=b\r\n",
        Some(_) => "content-type: application/octet-stream\r\n",
        None => "",
    };
    let length = if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
    // The vendor that has this operation natively: for another vendor the request would be translated.
    let vendor = if path.contains("messages") { "anthropic" } else { "openai" };
    let request = format!(
        "{method} /v1/{path} HTTP/1.1\r\nhost: gateway\r\nx-gateway-api-key: {KEY}\r\nx-gateway-provider: {vendor}\r\n\
         authorization: Bearer sk-callers-own\r\nx-gateway-custom-host: {}\r\nx-gateway-trace-id: {trace}\r\n\
         X-Callers-Own: as it is\r\n{kind}{length}connection: close\r\n\r\n{body}",
        provider.base_url(),
    );
    let bytes = raw::send(gateway.ports.data, request.as_bytes()).await;
    let parsed = Message::parse(&bytes, true);
    parsed.unwrap_or_else(|| panic!("{method} {path}: {:?}", String::from_utf8_lossy(&bytes))).0
}

/// The end-to-end headers of the provider's response, without hop-by-hop headers and the gateway's own.
/// `Date` is excluded because Pingora always replaces it.
fn passed_headers(response: &Message) -> Vec<(&str, &str)> {
    let mut headers: Vec<(&str, &str)> =
        response.headers.iter().map(|(name, value)| (&**name, &**value)).collect();
    headers.retain(|(name, _)| {
        let name = name.to_ascii_lowercase();
        // To clients of Anthropic's dialect, the id of the request under the name that they read.
        let added = matches!(&*name, "connection" | "content-length" | "date" | "request-id");
        !name.starts_with("x-gateway-") && !added
    });
    headers
}

#[tokio::test]
async fn every_operation_passes_unchanged_in_both_directions() {
    let gateway = gateway();
    let provider = Provider::start(|_| response_bytes("200 OK", HEADERS, RESPONSE)).await;
    let mut request_count = 0;
    let mut expected_lines = Vec::new();
    for &(method, path, body, operation) in ROWS {
        for below in [path.to_owned(), format!("proxy/{path}")] {
            let trace = new_trace();
            let response = call(&gateway, &provider, &trace, (method, &below, body)).await;
            // Recognised operations return header names in lower case; anything else keeps the provider's
            // spelling.
            let proxied = below.starts_with("proxy/") || operation == "proxy";
            let spelled = |pairs: Vec<(&str, &str)>| -> Vec<(String, String)> {
                let name = |name: &str| if proxied { name.to_owned() } else { name.to_ascii_lowercase() };
                pairs.iter().map(|&(given, value)| (name(given), value.to_owned())).collect()
            };
            assert_eq!(response.status(), 200, "{method} {below}");
            assert_eq!(spelled(passed_headers(&response)), spelled(HEADERS.to_vec()), "{method} {below}");
            assert_eq!(response.body, RESPONSE, "{method} {below}");
            let got = provider.received();
            request_count += 1;
            assert_eq!(got.len(), request_count, "{method} {below}");
            let got = got.last().unwrap();
            assert_eq!(got.start, format!("{method} /v1/{path} HTTP/1.1"), "{below}");
            assert_eq!(got.text(), body, "{method} {below}");
            let bearer = got.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
            let shown = got.header("x-api-key").or(bearer);
            assert_eq!(shown, Some("sk-callers-own"), "{method} {below}");
            assert_eq!(got.header("x-callers-own"), Some("as it is"), "{method} {below}");
            let ours =
                got.headers.iter().find(|(name, _)| name.to_ascii_lowercase().starts_with("x-gateway-"));
            assert_eq!(ours, None, "{method} {below}");
            expected_lines.push((trace, operation));
        }
    }
    for (trace, operation) in expected_lines {
        assert_eq!(gateway.access_line(&trace).await["operation"], operation, "{trace}");
    }
}

/// The status that the request's header names.
fn respond_with_status(request: &Message) -> Vec<u8> {
    let status = request.header("x-status").unwrap_or("200 OK");
    if status.starts_with("204") || status.starts_with("304") {
        return format!("HTTP/1.1 {status}\r\nx-request-id: r\r\n\r\n").into_bytes();
    }
    // An error inside a success is no success (`wrong_answers`).
    let body: &[u8] = if status.starts_with('2') {
        b"{\"object\":\"as I say\"}"
    } else {
        b"{\"error\":{\"message\":\"as I say\"}}"
    };
    response_bytes(status, &[("content-type", "application/json"), ("x-request-id", "r")], body)
}

#[tokio::test]
async fn every_status_is_returned_unchanged() {
    let gateway = gateway();
    let provider = Provider::start(respond_with_status).await;
    for status in [
        "201 Created",
        "202 Accepted",
        "204 No Content",
        "206 Partial Content",
        "207 Multi-Status",
        "301 Moved",
        "302 Found",
        "304 Not Modified",
        "307 Temporary Redirect",
        "400 Bad Request",
        "401 Unauthorized",
        "402 Payment Required",
        "403 Forbidden",
        "404 Not Found",
        "408 Request Timeout",
        "409 Conflict",
        "413 Too Large",
        "418 I'm a teapot",
        "422 Unprocessable Entity",
        "424 Failed",
        "429 Too Many Requests",
        "451 Legal",
        "498 Odd",
        "500 Error",
        "502 Bad Gateway",
        "503 Unavailable",
        "504 Timeout",
        "529 Overloaded",
        "599 Odd",
    ] {
        for (method, path, body) in [("GET", "models", ""), ("POST", "chat/completions", CHAT)] {
            // Where a model's output is due, no content is a failure (`wrong_answers`).
            if method == "POST" && status.starts_with("204") {
                continue;
            }
            let request = format!(
                "{method} /v1/{path} HTTP/1.1\r\nhost: g\r\nx-gateway-api-key: {KEY}\r\nx-gateway-provider: openai\r\n\
                 authorization: Bearer k\r\nx-gateway-custom-host: {}\r\nx-status: {status}\r\n\
                 content-length: {}\r\nconnection: close\r\n\r\n{body}",
                provider.base_url(),
                body.len(),
            );
            let bytes = raw::send(gateway.ports.data, request.as_bytes()).await;
            let (response, _) = Message::parse(&bytes, true).unwrap_or_else(|| panic!("{status}: {bytes:?}"));
            assert_eq!(response.status().to_string(), status[..3], "{method}");
            assert_eq!(response.header("x-request-id"), Some("r"), "{method} {status}");
            let empty = status.starts_with("204") || status.starts_with("304");
            assert_eq!(response.body.is_empty(), empty, "{method} {status}");
        }
    }
}

#[tokio::test]
async fn paths_that_escape_the_base_are_refused() {
    let gateway = gateway();
    let provider = Provider::start(|_| response_bytes("200 OK", &[], b"{}")).await;
    for path in [
        "../admin",
        "a/../../admin",
        "proxy/../admin",
        "proxy/a/..",
        "%2e%2e/admin",
        "proxy/%2E%2e/admin",
        "a/..%2fb",
        "a%5c..%5cb",
        "%252e%252e/admin",
        "./models",
        "files/../../x",
        "files/..",
        "responses/%2e%2e/cancel",
    ] {
        for method in ["GET", "POST"] {
            let response = call(&gateway, &provider, &new_trace(), (method, path, "")).await;
            assert!(
                // `admin` is a name of the control plane.
                matches!(response.status(), 400 | 404)
                    || response.status() == 501 && path.ends_with("/admin"),
                "{method} {path}: {} {}",
                response.start,
                response.text()
            );
            assert!(response.text().contains("\"error\""), "{method} {path}: {}", response.text());
        }
    }
    assert_eq!(provider.received(), []);
}

#[tokio::test]
async fn other_methods_are_refused() {
    let gateway = gateway();
    let provider = Provider::start(|_| response_bytes("200 OK", &[], b"{}")).await;
    for method in ["PATCH", "TRACE", "BREW"] {
        let response = call(&gateway, &provider, &new_trace(), (method, "models", "")).await;
        assert_eq!(response.status(), 405, "{method}: {}", response.text());
        assert_eq!(response.header("allow"), Some("GET, HEAD, POST, PUT, DELETE, OPTIONS"), "{method}");
    }
    assert_eq!(provider.received(), []);
}
