//! The data port and `POST /v1/explain` refuse the same requests in the same words: a table of the classes, and a few
//! hundred requests drawn from a seed.
//!
//! Not a test of what is refused (`request_rules`, `which_config`, `limits`), only of the agreement. Bodies are JSON,
//! since a question to explain can hold no others.

use crate::support::message::Message;
use crate::support::rng::Rng;
use crate::support::settings::{KEY, OPERATOR_KEY, OTHER_KEY, STANDARD};
use crate::support::{Gateway, raw};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Fewer in a class and the draws prove little about it.
const CASES: u64 = 600;
const MIN_PER_CLASS: usize = 5;
const AT_ONCE: usize = 8;
const MAX_BODY: usize = 2_000;

/// A request as both are given it. The framing is added where it is written.
#[derive(Debug, Clone, Default)]
struct Request {
    method: String,
    path: String,
    headers: Vec<(&'static str, String)>,
    /// JSON text.
    body: Option<String>,
    chunked: bool,
}

/// What the data port and explain say of a request.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// It goes to a provider.
    Passes,
    /// The control plane responds, or the gateway itself.
    Control,
    /// Status and messages.
    Refused(u64, Vec<String>),
}

impl Request {
    fn new(method: &str, path: &str, headers: &[(&'static str, &str)], body: &str) -> Self {
        let key = ("x-gateway-api-key", KEY.to_owned());
        let given = headers.iter().map(|(name, value)| (*name, (*value).to_owned()));
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            headers: std::iter::once(key).chain(given).collect(),
            body: Some(body.to_owned()).filter(|body| !body.is_empty()),
            chunked: false,
        }
    }

    fn on_the_wire(&self) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\nhost: g\r\nconnection: close\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        match &self.body {
            Some(body) if self.chunked => {
                let length = body.len();
                text.push_str(&format!(
                    "transfer-encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n"
                ));
            }
            Some(body) => text.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len())),
            None => text.push_str("\r\n"),
        }
        text.into_bytes()
    }

    fn as_question(&self) -> String {
        let mut headers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (name, value) in &self.headers {
            headers.entry(name).or_default().push(value);
        }
        if self.chunked && self.body.is_some() {
            headers.insert("transfer-encoding", vec!["chunked"]);
        }
        headers.entry("connection").or_default().push("close");
        // Put together as text: the body must stay as it is written.
        format!(
            r#"{{"method":{},"path":{},"headers":{},"body":{}}}"#,
            json!(self.method),
            json!(self.path),
            json!(headers),
            self.body.as_deref().unwrap_or("null")
        )
    }

    async fn on_the_data_port(&self, gateway: &Gateway) -> Verdict {
        let bytes = raw::send(gateway.ports.data, &self.on_the_wire()).await;
        let Some((response, _)) = Message::parse(&bytes, true) else {
            panic!("{self:?} was answered {}", bytes.escape_ascii());
        };
        // Every response of an attempt names its provider.
        if response.header("x-gateway-provider").is_some() {
            return Verdict::Passes;
        }
        let body: Value = serde_json::from_slice(&response.body).unwrap_or_default();
        // Only the control plane says so.
        if body["success"] == false {
            return Verdict::Control;
        }
        match body["error"]["message"].as_str() {
            Some(message) => Verdict::Refused(response.status().into(), vec![message.to_owned()]),
            None => Verdict::Control,
        }
    }

    async fn explained(&self, gateway: &Gateway) -> Verdict {
        let question = self.as_question();
        let head = format!(
            "POST /v1/explain HTTP/1.1\r\nhost: g\r\nconnection: close\r\nx-gateway-api-key: {OPERATOR_KEY}\r\n\
             content-length: {}\r\n\r\n",
            question.len()
        );
        let bytes = raw::send(gateway.ports.control, &[head.as_bytes(), question.as_bytes()].concat()).await;
        let (response, _) = Message::parse(&bytes, true).unwrap();
        assert_eq!(response.status(), 200, "{question} {}", response.text());
        let response: Value = serde_json::from_slice(&response.body).unwrap();
        let note =
            response["notes"][0].as_str().and_then(|note| note.strip_prefix("the data port would answer "));
        if let Some((status, message)) = note.and_then(|note| note.split_once(": ")) {
            return Verdict::Refused(status.parse().unwrap(), vec![message.to_owned()]);
        }
        let mut problems: Vec<&Value> = response["problems"].as_array().unwrap().iter().collect();
        // An attempt that cannot be made is refused where the config has no other.
        if let Some(error) = response["request"].get("error").filter(|_| problems.is_empty()) {
            problems.push(error);
        }
        let message = |problem: &&Value| problem["message"].as_str().unwrap().to_owned();
        match problems.first() {
            None => Verdict::Passes,
            Some(first) if message(first).contains(" is answered by the ") => Verdict::Control,
            Some(first) => {
                Verdict::Refused(first["status"].as_u64().unwrap(), problems.iter().map(message).collect())
            }
        }
    }
}

/// Asks both; returns what they agree on.
async fn agreed(gateway: &Gateway, request: &Request) -> Verdict {
    let sent = request.on_the_data_port(gateway).await;
    let explained = request.explained(gateway).await;
    let agree = match (&sent, &explained) {
        // The problems of a config are one message on the data port.
        (Verdict::Refused(status, message), Verdict::Refused(explained_status, problems)) => {
            status == explained_status && problems.iter().all(|problem| message[0].contains(problem.as_str()))
        }
        // The control plane refuses what it has no route for, and bodies that are too long, in its own words.
        (Verdict::Refused(404 | 405 | 413 | 501, message), Verdict::Control) => {
            !["There is nothing at", "is not passed on"].iter().any(|part| message[0].contains(part))
        }
        // Files and batches of the gateway's own: it responds in its own words, or with a list.
        (_, Verdict::Control)
            if ["/v1/files", "/v1/batches"].iter().any(|path| request.path.starts_with(path)) =>
        {
            true
        }
        (sent, explained) => sent == explained,
    };
    assert!(agree, "{request:?}\nthe data port: {sent:?}\nexplain: {explained:?}");
    explained
}

const CHAT: &str = r#"{"model":"gpt-4o-mini","messages":[{"role":"user","content":"a"}]}"#;
const SLUG: &str = r#"{"model":"@emulator/gpt-4o-mini","messages":[{"role":"user","content":"a"}]}"#;

fn settings() -> String {
    let narrowed = STANDARD.replace(OTHER_KEY, &format!("{OTHER_KEY}, scopes: [prompts.render]"));
    format!("{narrowed}limits: {{max_body_bytes: {MAX_BODY}}}\n")
}

const OURS: (&str, &str) = ("x-gateway-provider", "@emulator");
const JSON: (&str, &str) = ("content-type", "application/json");

/// A chat with the standard body.
fn chat(headers: &[(&'static str, &str)]) -> Request {
    Request::new("POST", "/v1/chat/completions", headers, CHAT)
}

/// Both agree on a status and a part of the message; on status 0 the request passes.
async fn all_agree(rows: Vec<(u64, &str, Request)>) {
    let gateway = Gateway::start(&settings());
    for (wanted, part, request) in rows {
        match (agreed(&gateway, &request).await, wanted) {
            (Verdict::Passes, 0) => {}
            (Verdict::Refused(status, problems), wanted) if status == wanted => {
                assert!(problems[0].contains(part), "{request:?} {problems:?}");
            }
            (verdict, wanted) => panic!("{request:?}: {verdict:?}, not {wanted}"),
        }
    }
}

#[tokio::test]
async fn refusals_by_the_head_are_explained() {
    let unstored = ("x-gateway-provider", "@nobody");
    all_agree(vec![
        (0, "", chat(&[OURS])),
        (0, "", Request::new("GET", "/v1/models", &[OURS], "")),
        (404, "nothing at", Request::new("POST", "/v2/chat/completions", &[OURS], CHAT)),
        (404, "nothing at", Request::new("POST", "/v1/proxy/", &[OURS], CHAT)),
        (405, "PATCH", Request::new("PATCH", "/v1/chat/completions", &[OURS], CHAT)),
        (400, "Content-Encoding", chat(&[OURS, ("content-encoding", "compress")])),
        (400, "proper HTTP", chat(&[OURS, ("connection", "host")])),
        (400, "limit", Request::new("GET", "/v1/batches?limit=0", &[OURS], "")),
        (400, "nobody", chat(&[unstored])),
        (400, "cf-nobody", chat(&[("x-gateway-config", "cf-nobody")])),
        (401, "Unknown service key", chat(&[OURS]).with_key("wrong")),
        (403, "scope completions.write", chat(&[OURS]).with_key(OTHER_KEY)),
        (403, "scope completions.write", Request::new("GET", "/v1/models", &[OURS], "").with_key(OTHER_KEY)),
        (
            403,
            "scope completions.write",
            Request::new("POST", "/v1/proxy/x", &[OURS], "{}").with_key(OTHER_KEY),
        ),
        (401, "Unknown service key", Request::new("GET", "/v1/files", &[], "").with_key("wrong")),
    ])
    .await;
}

#[tokio::test]
async fn with_saved_only_nothing_inline_passes() {
    let gateway = Gateway::start(&settings().replacen("auth:\n", "auth:\n  saved_only: true\n", 1));
    for (header, value, part) in [
        ("x-gateway-provider", "@emulator", None),
        ("x-gateway-config", "cf-emulator", None),
        ("x-gateway-config", r#"{"provider":"@emulator"}"#, Some("a config of its own")),
        ("x-gateway-provider", "openai", Some("a provider that is not stored")),
        ("x-gateway-custom-host", "https://a.example.com", Some("a host")),
    ] {
        match (agreed(&gateway, &chat(&[(header, value)])).await, part) {
            (Verdict::Passes, None) => {}
            (Verdict::Refused(400, problems), Some(part)) => {
                assert!(problems[0].contains(part), "{problems:?}");
            }
            (verdict, _) => panic!("{header}: {value}: {verdict:?}"),
        }
    }
}

#[tokio::test]
async fn refusals_by_the_body_are_explained() {
    let text = ("content-type", "text/plain");
    let gzip = ("content-encoding", "gzip");
    let bedrock = ("x-gateway-provider", "@bedrock-emulator");
    let long = format!(r#"{{"model":"{}"}}"#, "x".repeat(MAX_BODY));
    let ours = |body: &str| Request::new("POST", "/v1/chat/completions", &[OURS], body);
    let unlisted = |headers: &[(&'static str, &str)]| Request::new("POST", "/v1/unlisted", headers, SLUG);
    all_agree(vec![
        (0, "", Request::new("POST", "/v1/chat/completions", &[], SLUG)),
        (0, "", unlisted(&[JSON])),
        (0, "", unlisted(&[JSON, OURS, gzip])),
        (0, "", Request::new("POST", "/v1/proxy/chat/completions", &[JSON, OURS], &long)),
        (400, "No provider", unlisted(&[text])),
        (400, "No provider", unlisted(&[JSON, gzip])),
        (400, "No provider", Request { chunked: true, ..unlisted(&[JSON]) }),
        (413, "2000 bytes", ours(&long)),
        (413, "2000 bytes", Request { chunked: true, ..ours(&long) }),
        (400, "empty", ours("")),
        (400, "JSON object", ours("[1]")),
        (400, "messages", ours(r#"{"model":"m"}"#)),
        (501, "bedrock", Request::new("POST", "/v1/moderations", &[bedrock], r#"{"model":"m","input":"a"}"#)),
    ])
    .await;
}

#[tokio::test]
async fn control_paths_are_explained() {
    let gateway = Gateway::start(&settings());
    for path in ["/livez", "/v1/health", "/v1/logs", "/v1/prompts/x"] {
        assert_eq!(agreed(&gateway, &Request::new("GET", path, &[], "")).await, Verdict::Control, "{path}");
    }
    // No key is required there.
    let keyless = Request { headers: Vec::new(), ..Request::new("GET", "/readyz", &[], "") };
    assert_eq!(agreed(&gateway, &keyless).await, Verdict::Control);
}

impl Request {
    fn with_key(mut self, key: &str) -> Self {
        self.headers[0].1 = key.to_owned();
        self
    }

    /// Draws a request: mostly a good one with one or two things changed.
    fn draw(rng: &mut Rng) -> Self {
        let path = if rng.below(8) == 0 { rng.one(ODD_PATHS) } else { rng.one(PATHS) };
        let mut request = Self::new(rng.one(METHODS), path, &[], rng.one(BODIES));
        if path.starts_with("/v1/models") || path.starts_with("/v1/batches?") {
            "GET".clone_into(&mut request.method);
        }
        if rng.below(3) > 0 {
            request.headers.push(("content-type", rng.one(MEDIA_TYPES).to_owned()));
        } else {
            request.headers.push(("content-type", "application/json".to_owned()));
        }
        if rng.below(4) > 0 {
            request.headers.push(("x-gateway-provider", rng.one(PROVIDERS).to_owned()));
        }
        if rng.below(4) == 0 {
            let config = rng.one(CONFIGS);
            let value = match rng.below(3) {
                0 => printable(&rng.mutated(config.as_bytes())),
                _ => config.to_owned(),
            };
            request.headers.push(("x-gateway-config", value));
        }
        for _ in 0..rng.below(3) / 2 + rng.below(2) {
            let (name, values) = HEADERS[rng.below(HEADERS.len())];
            request.headers.push((name, rng.one(values).to_owned()));
        }
        if rng.below(12) == 0 {
            request.body = Some(format!(r#"{{"model":"@emulator/m","user":"{}"}}"#, "x".repeat(MAX_BODY)));
        }
        request.chunked = rng.below(6) == 0;
        match rng.below(16) {
            0 => request.with_key("wrong"),
            1 => {
                request.headers.remove(0);
                request
            }
            _ => request,
        }
    }
}

fn printable(bytes: &[u8]) -> String {
    bytes.iter().filter(|byte| (b' '..=b'~').contains(*byte)).map(|byte| char::from(*byte)).collect()
}

const METHODS: &[&str] =
    &["POST", "POST", "POST", "POST", "POST", "POST", "PUT", "GET", "DELETE", "PATCH", "OPTIONS"];
const PATHS: &[&str] = &[
    "/v1/chat/completions",
    "/v1/chat/completions",
    "/v1/messages",
    "/v1/embeddings",
    "/v1/responses",
    "/v1/moderations",
    "/v1/rerank",
    "/v1/files",
    "/v1/models",
    "/v1/models/m",
    "/v1/batches?limit=0",
    "/v1/batches?limit=7",
    "/v1/unlisted",
    "/v1/proxy/unlisted?a=b",
    "/v1/proxy/chat/completions",
];
const ODD_PATHS: &[&str] = &[
    "/",
    "/v1",
    "/v1/",
    "/v1/proxy/",
    "/v1//",
    "/v2/models",
    "/v1/logs",
    "/v1/prompts/x",
    "/livez",
    "/v1/explain",
];
const MEDIA_TYPES: &[&str] =
    &["application/json", "Application/JSON; charset=utf-8", "text/plain", "application/jsonl", ""];
const PROVIDERS: &[&str] = &[
    "@emulator",
    "@emulator",
    "@anthropic-emulator",
    "@bedrock-emulator",
    "@cohere-emulator",
    "@nobody",
    "nobody",
    "openai",
    "@",
];
const BODIES: &[&str] = &[
    "",
    "[1]",
    "\"text\"",
    "{}",
    CHAT,
    CHAT,
    SLUG,
    SLUG,
    r#"{"model":"@nobody/m","messages":[{"role":"user","content":"a"}],"input":"a"}"#,
    r#"{"model":"m","input":"a","max_tokens":5,"messages":[{"role":"user","content":"a"}],"query":"a","documents":["b"]}"#,
    r#"{"model":"m","messages":[{"role":"user","content":"a"}],"temperature":9}"#,
    r#"{"model":"m","messages":[],"input":[],"n":0}"#,
];
const CONFIGS: &[&str] = &[
    "cf-emulator",
    "cf-fallback",
    "cf-override",
    "cf-nobody",
    "{",
    r#"{"provider":"@emulator","retry":{"attempts":1}}"#,
    r#"{"provider":"@emulator","retry":{"attempts":"x"},"weight":-1}"#,
    r#"{"strategy":{"mode":"fallback"},"targets":[{"provider":"@emulator"},{"provider":"@nobody"}]}"#,
    r#"{"provider":"@emulator","override_params":{"model":"m","messages":[{"role":"user","content":"b"}]}}"#,
    r#"{"provider":"@emulator","prompt_id":"pp-x"}"#,
];
const HEADERS: &[(&str, &[&str])] = &[
    ("content-encoding", &["compress", "identity", ""]),
    ("connection", &["keep-alive", "host", "x-forwarded-for, close", "a b", "x-own"]),
    ("x-gateway-request-timeout", &["30000", "0", "x"]),
    ("x-gateway-metadata", &["{\"a\":\"b\"}", "{", "[]"]),
    ("x-gateway-strict-std-compliance", &["true", "maybe"]),
    ("x-gateway-forward-headers", &["x-own", "a b", "x-gateway-forward-headers"]),
    ("x-gateway-virtual-key", &["emulator", "nobody"]),
    ("x-gateway-custom-host", &["http://127.0.0.1:1/v1", "http://", "ftp://h"]),
    ("x-gateway-trace-id", &["tp-trace", "a\tb"]),
    ("authorization", &["Bearer sk-own", "Bearer tp-tests-0123456789", "Basic eDp5"]),
    ("x-own", &["1"]),
];

#[tokio::test]
async fn drawn_requests_are_explained_as_they_are_treated() {
    let gateway = Gateway::start(&settings());
    let one = async |case: u64| match agreed(&gateway, &Request::draw(&mut Rng::new("admission", case))).await
    {
        Verdict::Passes => 200,
        Verdict::Control => 0,
        Verdict::Refused(status, _) => status,
    };
    let mut counts = BTreeMap::<u64, usize>::new();
    for class in stream::iter(0..CASES).map(one).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await {
        *counts.entry(class).or_default() += 1;
    }
    for class in [0, 200, 400, 401, 404, 405, 413] {
        assert!(counts.get(&class).is_some_and(|count| *count >= MIN_PER_CLASS), "{class}: {counts:?}");
    }
}
