//! Layers of attempts, with layers made for the tests: what one may do to a request, a response and its text, and what the
//! client, the provider and the plan see of it. The product's own do all of that: hooks change, deny and filter, the cache responds, limits
//! refuse, credentials hear of the end.
//!
//! Those have tests of their own (`guardrails`, `caching`, `limited_requests`, `held_requests`, `cloud_credentials`).

use crate::memory_engine::MemoryEngine;
use crate::own_dialects::{COMPLETION_EVENTS, WHOLE_COMPLETION, response_events, response_object};
use crate::support::provider::Provider;
use bytes::Bytes;
use futures_util::future::{BoxFuture, ready};
use http::{HeaderName, HeaderValue};
use judgment::route::attempt::Request;
use judgment::route::outcome::Outcome;
use motion::engine::attempt::{AttemptCall, Compile, Ending, Flow, LAYERS, Layer, LocalResponse};
use motion::engine::downstream::Downstream;
use motion::engine::memory_downstream::MemoryDownstream;
use parking_lot::Mutex;
use pingora::http::RequestHeader;
use pingora_core::protocols::http::HttpTask;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use words::api::body::Body;
use words::api::chat::{FilterFlow, TextFilter};
use words::error::Error;

const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";
pub(crate) const RESPONSES: &str = "/v1/responses";
pub(crate) const COMPLETIONS: &str = "/v1/completions";

pub(crate) const WHOLE_CHAT: &str = r#"{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hello world"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}"#;
pub(crate) const WHOLE_MESSAGE: &str = r#"{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hello world"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":2}}"#;
pub(crate) const MESSAGE_EVENTS: &str = concat!(
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":1,\"output_tokens\":0}}}\n\n",
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hello\"}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\" world\"}}\n\n",
    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\n",
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
);

fn chat_event(delta: &str, finish: &str) -> String {
    format!(
        "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
    )
}

/// A chat stream with one event for each text.
pub(crate) fn chat_events(texts: &[&str]) -> String {
    let mut events: String =
        texts.iter().map(|text| chat_event(&json!({"content": text}).to_string(), "null")).collect();
    events.push_str(&chat_event("{}", "\"stop\""));
    events + "data: [DONE]\n\n"
}

/// A response with a body whose kind its first byte shows.
fn response(status: &str, body: &str) -> Vec<u8> {
    let media = if body.starts_with('{') { "application/json" } else { "text/event-stream" };
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-type: {media}\r\ncontent-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// A provider that always responds with `body`.
pub(crate) async fn provider(body: &str) -> Provider {
    let bytes = response("200 OK", body);
    Provider::start(move |_| bytes.clone()).await
}

pub(crate) fn target(provider_id: &str, port: u16) -> Value {
    json!({"provider": provider_id, "api_key": "k", "custom_host": format!("http://127.0.0.1:{port}/v1")})
}

fn fallback(targets: &[Value]) -> Value {
    json!({"strategy": {"mode": "fallback"}, "targets": targets})
}

pub(crate) fn body(stream: bool) -> Value {
    json!({
        "model": "m", "messages": [{"role": "user", "content": "hi"}], "input": "hi", "prompt": "hi", "max_tokens": 9,
        "stream": stream,
    })
}

/// The text of a response in either dialect, whole or streamed.
pub(crate) fn text_of(body: &str) -> String {
    let data = body.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    let documents: Vec<&str> = if body.starts_with('{') { vec![body] } else { data.collect() };
    let places = [
        "/choices/0/message/content",
        "/choices/0/delta/content",
        "/choices/0/text",
        "/content/0/text",
        "/delta/text",
        "/delta",
        "/output/2/content/0/text",
    ];
    let texts = documents.into_iter().map(|document| {
        let value: Value = serde_json::from_str(document).unwrap();
        if value["type"] == "response.unheard_of_call.world" {
            return String::new();
        }
        places.iter().find_map(|place| value.pointer(place)?.as_str().map(str::to_owned)).unwrap_or_default()
    });
    texts.collect()
}

/// A layer that only filters, with a new filter for each attempt.
struct Filtering(fn() -> Box<dyn TextFilter>);

impl Layer for Filtering {
    fn name(&self) -> &'static str {
        "filtering"
    }

    fn open<'a>(&'a self, call: &'a mut AttemptCall<'_>) -> BoxFuture<'a, Flow> {
        call.add_filter((self.0)());
        Box::pin(ready(Flow::Continue))
    }
}

/// A layer that only acts before the attempt.
struct Before(fn(&mut AttemptCall<'_>) -> Flow);

impl Layer for Before {
    fn name(&self) -> &'static str {
        "before"
    }

    fn open<'a>(&'a self, call: &'a mut AttemptCall<'_>) -> BoxFuture<'a, Flow> {
        Box::pin(ready((self.0)(call)))
    }
}

/// Changes every text.
#[derive(Debug)]
struct UpperCase;

impl TextFilter for UpperCase {
    fn text(&mut self, _: u32, text: &str, out: &mut String) -> FilterFlow {
        out.push_str(&text.to_uppercase());
        FilterFlow::Continue
    }

    fn finish(&mut self, _: u32, _: &mut String) -> FilterFlow {
        FilterFlow::Continue
    }

    fn held(&self, _: u32) -> usize {
        0
    }

    fn follow(&mut self, _: u32, _: u32) {}
}

/// Denies a response in which "world" stands.
#[derive(Debug)]
struct Deny;

impl TextFilter for Deny {
    fn text(&mut self, _: u32, text: &str, out: &mut String) -> FilterFlow {
        if text.contains("world") {
            return FilterFlow::Deny(Error::bad_request("That word may not be used."));
        }
        out.push_str(text);
        FilterFlow::Continue
    }

    fn finish(&mut self, _: u32, _: &mut String) -> FilterFlow {
        FilterFlow::Continue
    }

    fn held(&self, _: u32) -> usize {
        0
    }

    fn follow(&mut self, _: u32, _: u32) {}
}

/// Holds all text back to the end.
#[derive(Debug, Default)]
struct Hold(String);

impl TextFilter for Hold {
    fn text(&mut self, _: u32, text: &str, _: &mut String) -> FilterFlow {
        self.0.push_str(text);
        FilterFlow::Continue
    }

    fn finish(&mut self, _: u32, out: &mut String) -> FilterFlow {
        out.push_str(&std::mem::take(&mut self.0));
        FilterFlow::Continue
    }

    fn held(&self, _: u32) -> usize {
        self.0.len()
    }

    fn follow(&mut self, _: u32, _: u32) {}
}

pub(crate) const UPPER_CASE: Compile = |_| Some(Box::new(Filtering(|| Box::new(UpperCase))));
pub(crate) const HOLD: Compile = |_| Some(Box::new(Filtering(|| Box::<Hold>::default())));
const DENY: Compile = |_| Some(Box::new(Filtering(|| Box::new(Deny))));

#[tokio::test]
async fn a_target_has_the_layers_of_its_config() {
    let engine = MemoryEngine::new(LAYERS);
    let signed = json!({
        "provider": "bedrock", "aws_region": "us-east-1", "aws_access_key_id": "a", "aws_secret_access_key": "s",
    });
    let guardrail = json!([{"default.contains": {"words": ["a"], "operator": "none"}, "deny": true}]);
    for (config, names) in [
        (json!({"provider": "openai", "api_key": "k"}), vec!["limits"]),
        (json!({"provider": "anthropic", "api_key": "k"}), vec!["limits"]),
        (
            json!({"provider": "azure-openai", "api_key": "k", "azure_resource_name": "r", "azure_deployment_id": "d", "azure_api_version": "v"}),
            vec!["limits"],
        ),
        (json!({"provider": "bedrock", "api_key": "k", "aws_region": "us-east-1"}), vec!["limits"]),
        (signed.clone(), vec!["limits", "credentials"]),
        (json!({"provider": "openai", "api_key": "k", "cache": {"mode": "simple"}}), vec!["cache", "limits"]),
        (
            json!({"provider": "openai", "api_key": "k", "output_guardrails": guardrail}),
            vec!["hooks", "limits"],
        ),
        (
            json!({"strategy": {"mode": "single"}, "targets": [signed], "cache": {"mode": "simple"}, "input_guardrails": guardrail}),
            vec!["hooks", "cache", "limits", "credentials"],
        ),
    ] {
        assert_eq!(engine.layer_names(CHAT, &config, &body(false)), names, "{config}");
    }
}

#[tokio::test]
async fn a_layer_adds_a_request_header() {
    const LIST: &[Compile] = &[|_| {
        Some(Box::new(Before(|call| {
            let headers = call.vendor_headers().unwrap();
            headers.set(HeaderName::from_static("x-layer"), HeaderValue::from_static("yes"));
            Flow::Continue
        })))
    }];
    let provider = provider(WHOLE_CHAT).await;
    let engine = MemoryEngine::new(LIST);
    let observed = engine.send(CHAT, &target("openai", provider.port), &body(false), "stage-header").await;
    assert_eq!((observed.status, observed.body.as_str()), (200, WHOLE_CHAT));
    assert_eq!(provider.received()[0].header("x-layer"), Some("yes"));
}

/// Also where the attempt was made and held of another one before.
#[tokio::test]
async fn what_a_layer_makes_of_the_request_is_sent() {
    const LIST: &[Compile] = &[|_| {
        Some(Box::new(Before(|call| {
            assert!(call.attempt().is_some());
            let body = Body::parse(body(false).to_string().replace("\"hi\"", "\"changed\"").into()).unwrap();
            call.change_request(Arc::new(Request { body: Some(body), ..call.request().clone() }));
            Flow::Continue
        })))
    }];
    let provider = provider(WHOLE_CHAT).await;
    let engine = MemoryEngine::new(LIST);
    let observed = engine.send(CHAT, &target("openai", provider.port), &body(false), "layer-changes").await;
    assert_eq!((observed.status, observed.body.as_str()), (200, WHOLE_CHAT));
    let sent = String::from_utf8(provider.received()[0].body.clone()).unwrap();
    assert!(sent.contains("changed") && !sent.contains("\"hi\""), "{sent}");
}

/// A layer that denies ends the target, and no earlier response takes the place of its error.
#[tokio::test]
async fn a_layer_denies_a_request() {
    const LIST: &[Compile] = &[|target| {
        let deny: fn(&mut AttemptCall<'_>) -> Flow = |_| Flow::Deny(Error::bad_request("Denied by a layer."));
        target.path.ends_with("[1]").then(|| Box::new(Before(deny)) as Box<dyn Layer>)
    }];
    let busy = Provider::start(|_| response("503 Service Unavailable", "{}")).await;
    let config = fallback(&[target("openai", busy.port), target("openai", busy.port)]);
    let denied = MemoryEngine::new(LIST).send(CHAT, &config, &body(false), "layer-denies").await;
    assert_eq!((denied.status, busy.received().len()), (400, 1), "{denied:?}");
    assert!(denied.body.contains("Denied by a layer."), "{denied:?}");
}

#[tokio::test]
async fn a_layer_responds_and_the_provider_is_not_called() {
    fn respond(call: &mut AttemptCall<'_>) -> Flow {
        let events = chat_events(&["hello", " layer"]);
        let response = match call.request().is_streamed() {
            true => LocalResponse { content_type: "text/event-stream", body: events.into() },
            false => LocalResponse { content_type: "application/json", body: WHOLE_CHAT.into() },
        };
        Flow::Respond(response.into())
    }
    const RESPOND: Compile = |_| Some(Box::new(Before(respond)));
    let provider = provider(WHOLE_MESSAGE).await;
    // The target's own dialect does not matter to a response of the gateway's own.
    for id in ["openai", "anthropic"] {
        let config = target(id, provider.port);
        let engine = MemoryEngine::new(const { &[RESPOND, DENY] });
        let whole = engine.send(CHAT, &config, &body(false), "stage-responds").await;
        assert_eq!((whole.status, whole.body.as_str()), (200, WHOLE_CHAT), "not filtered by a later layer");
        assert_eq!(whole.line["tokens"]["output"], 2, "{whole:?}");
        let events = engine.send(CHAT, &config, &body(true), "stage-responds-events").await;
        assert_eq!((events.status, events.body), (200, chat_events(&["hello", " layer"])));
        assert_eq!(events.headers["content-type"], "text/event-stream");
        let engine = MemoryEngine::new(const { &[UPPER_CASE, RESPOND] });
        for stream in [false, true] {
            let filtered = engine.send(CHAT, &config, &body(stream), "stage-responds-filtered").await;
            let wanted = if stream { "HELLO LAYER" } else { "HELLO WORLD" };
            assert_eq!((filtered.status, text_of(&filtered.body).as_str()), (200, wanted));
        }
    }
    assert!(provider.received().is_empty());
}

#[tokio::test]
async fn a_refusal_is_an_outcome_the_plan_sees() {
    const LIST: &[Compile] = &[|target| {
        let refuse: fn(&mut AttemptCall<'_>) -> Flow =
            |_| Flow::Refuse(Outcome::from_status(403), Error::bad_request("Refused by a layer."));
        target.path.ends_with("[0]").then(|| Box::new(Before(refuse)) as Box<dyn Layer>)
    }];
    let provider = provider(WHOLE_CHAT).await;
    let (engine, target) = (MemoryEngine::new(LIST), target("openai", provider.port));
    let config = fallback(&[target.clone(), target.clone()]);
    let fell_back = engine.send(CHAT, &config, &body(false), "stage-refuses").await;
    assert_eq!((fell_back.status, provider.received().len()), (200, 1));
    assert_eq!(fell_back.line["attempts"][0]["error"], "invalid_request");
    let refused = engine.send(CHAT, &fallback(&[target]), &body(false), "stage-refuses-all").await;
    assert_eq!((refused.status, provider.received().len()), (400, 1));
    assert!(refused.body.contains("Refused by a layer."), "{refused:?}");
}

#[tokio::test]
async fn a_layer_hears_once_how_its_attempt_ended() {
    static ENDED: Mutex<Vec<Ending>> = Mutex::new(Vec::new());
    const LIST: &[Compile] = &[|_| {
        Some(Box::new(Before(|call| {
            call.on_end(Box::new(|ending| ENDED.lock().push(ending)));
            Flow::Continue
        })))
    }];
    let busy = Provider::start(|_| response("503 Service Unavailable", "{}")).await;
    let provider = provider(WHOLE_CHAT).await;
    let config = fallback(&[target("openai", busy.port), target("openai", provider.port)]);
    MemoryEngine::new(LIST).send(CHAT, &config, &body(false), "stage-ends").await;
    let ended = ENDED.lock().clone();
    let is = |ending: &Ending, wanted| matches!(ending, Ending::Outcome(Outcome::Response { status, .. }) if *status == wanted);
    assert!(ended.len() == 2 && is(&ended[0], 503) && is(&ended[1], 200), "{ended:?}");
}

/// The headers of a response; only one that was encoded names the charset of its events.
fn without_charset(mut headers: BTreeMap<String, String>) -> BTreeMap<String, String> {
    headers
        .entry("content-type".to_owned())
        .and_modify(|media| *media = media.replace("; charset=utf-8", ""));
    headers
}

#[tokio::test]
async fn a_filter_changes_the_text_of_any_response_mode() {
    let streamed_chat = chat_events(&["hello", " world"]);
    for (name, path, provider_id, stream, upstream) in [
        ("chat, whole", CHAT, "openai", false, WHOLE_CHAT),
        ("chat, streamed", CHAT, "openai", true, &streamed_chat),
        ("chat, translated", CHAT, "anthropic", false, WHOLE_MESSAGE),
        ("chat, translated and streamed", CHAT, "anthropic", true, MESSAGE_EVENTS),
        ("messages, whole", MESSAGES, "anthropic", false, WHOLE_MESSAGE),
        ("messages, streamed", MESSAGES, "anthropic", true, MESSAGE_EVENTS),
        ("messages, translated", MESSAGES, "openai", false, WHOLE_CHAT),
        ("messages, translated and streamed", MESSAGES, "openai", true, &streamed_chat),
        ("proxied, streamed", "/v1/proxy/chat/completions", "openai", true, &streamed_chat),
        ("responses, whole", RESPONSES, "openai", false, &response_object().to_string()),
        ("responses, streamed", RESPONSES, "openai", true, &response_events()),
        ("responses, proxied", "/v1/proxy/responses", "openai", true, &response_events()),
        ("completions, whole", COMPLETIONS, "openai", false, WHOLE_COMPLETION),
        ("completions, streamed", COMPLETIONS, "openai", true, COMPLETION_EVENTS),
    ] {
        let provider = provider(upstream).await;
        let config = target(provider_id, provider.port);
        let plain = MemoryEngine::new(&[]).send(path, &config, &body(stream), "stage-text").await;
        assert_eq!(text_of(&plain.body), "hello world", "{name}");
        let lists = [const { &[UPPER_CASE] } as &[Compile], const { &[HOLD, UPPER_CASE, HOLD] }];
        for layers in lists {
            let engine = MemoryEngine::new(layers);
            let observed = engine.send(path, &config, &body(stream), "stage-text").await;
            assert_eq!((observed.status, text_of(&observed.body)), (200, "HELLO WORLD".to_owned()), "{name}");
            assert_eq!(without_charset(observed.headers), without_charset(plain.headers.clone()), "{name}");
            // What is recorded of it stays the same, but for its size.
            let recorded =
                |line: &Value| [&line["model"], &line["tokens"], &line["finish_reason"]].map(Value::clone);
            assert_eq!(recorded(&observed.line), recorded(&plain.line), "{name}");
            let last = |body: &str| body.lines().rfind(|line| !line.is_empty()).map(str::to_owned);
            if stream && path != RESPONSES && !path.ends_with("proxy/responses") {
                assert_eq!(last(&observed.body), last(&plain.body), "{name}");
            }
        }
    }
}

#[tokio::test]
async fn a_denied_response_is_an_outcome_the_plan_sees() {
    let streamed = chat_events(&["world"]);
    let (good_stream, good) = (chat_events(&["fine"]), WHOLE_CHAT.replace(" world", ""));
    let response = response_object().to_string();
    let fine = [&response, &response_events(), WHOLE_COMPLETION, COMPLETION_EVENTS]
        .map(|text| text.replace("hello world", "fine").replace("\" world\"", "\"\""));
    for (path, stream, bad, good) in [
        (CHAT, false, WHOLE_CHAT, &good),
        (CHAT, true, &streamed, &good_stream),
        (RESPONSES, false, &response, &fine[0]),
        (RESPONSES, true, &response_events().replace("\"hello\"", "\"hello world\""), &fine[1]),
        (COMPLETIONS, false, WHOLE_COMPLETION, &fine[2]),
        (COMPLETIONS, true, &COMPLETION_EVENTS.replace("\"hello\"", "\"hello world\""), &fine[3]),
    ] {
        let (bad, good) = (provider(bad).await, provider(good).await);
        let engine = MemoryEngine::new(const { &[DENY] });
        let config = fallback(&[target("openai", bad.port), target("openai", good.port)]);
        let fell_back = engine.send(path, &config, &body(stream), "stage-denied-first").await;
        assert_eq!((fell_back.status, good.received().len()), (200, 1), "{fell_back:?}");
        let all = fallback(&[target("openai", good.port + 1), target("openai", bad.port)]);
        let denied = engine.send(path, &all, &body(stream), "stage-denied-last").await;
        assert_eq!(denied.status, 400, "{denied:?}");
        assert!(denied.body.contains("That word may not be used."), "{denied:?}");
        assert!(!denied.body.contains("world"), "{denied:?}");
    }
}

/// An earlier provider's error does not stand in for the denial of the last response.
#[tokio::test]
async fn a_denial_is_the_last_response() {
    let busy = Provider::start(|_| response("503 Service Unavailable", "{}")).await;
    let bad = provider(WHOLE_CHAT).await;
    let config = fallback(&[target("openai", busy.port), target("openai", bad.port)]);
    let denied = MemoryEngine::new(const { &[DENY] }).send(CHAT, &config, &body(false), "stage-denied").await;
    assert_eq!(denied.status, 400, "{denied:?}");
}

/// A provider that sends one event, and when `proceed` comes the second one; then it leaves its stream open, or closes the
/// connection where the second event is empty. The receiver gets how much more it read until the gateway closed it.
async fn open_ended_provider(
    events: [String; 2],
    proceed: oneshot::Receiver<()>,
) -> (u16, oneshot::Receiver<usize>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (closed, closing) = oneshot::channel();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 4096];
        let _read = stream.read(&mut request).await;
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        let [first, second] = events.each_ref().map(|event| format!("{:x}\r\n{event}\r\n", event.len()));
        stream.write_all([head, &first].concat().as_bytes()).await.unwrap();
        proceed.await.unwrap();
        if events[1].is_empty() {
            return;
        }
        stream.write_all(second.as_bytes()).await.unwrap();
        let _sent = closed.send(stream.read(&mut request).await.unwrap_or(0));
    });
    (port, closing)
}

/// A client in memory that signals when it has got the first part of a body.
struct Signalling {
    memory: MemoryDownstream,
    signal: Option<oneshot::Sender<()>>,
}

impl From<Signalling> for MemoryDownstream {
    fn from(signalling: Signalling) -> Self {
        signalling.memory
    }
}

impl Downstream for Signalling {
    fn request(&self) -> &RequestHeader {
        self.memory.request()
    }

    fn peer_address(&self) -> Option<IpAddr> {
        self.memory.peer_address()
    }

    fn body_is_complete(&mut self) -> bool {
        self.memory.body_is_complete()
    }

    async fn next_chunk(&mut self) -> Result<Option<Bytes>, Error> {
        self.memory.next_chunk().await
    }

    async fn closed(&mut self) {
        self.memory.closed().await;
    }

    async fn send(&mut self, parts: Vec<HttpTask>) -> Result<(), Error> {
        let has_body = parts.iter().any(|part| matches!(part, HttpTask::Body(Some(_), _)));
        self.memory.send(parts).await?;
        if let Some(signal) = self.signal.take_if(|_| has_body) {
            signal.send(()).unwrap();
        }
        Ok(())
    }

    fn sent_status(&self) -> Option<u16> {
        self.memory.sent_status()
    }

    fn close_after_response(&mut self) {
        self.memory.close_after_response();
    }
}

#[tokio::test]
async fn a_stream_denied_in_its_middle_ends_with_an_error_event_and_its_provider_stops() {
    for (name, path) in [("chat", CHAT), ("messages", MESSAGES), ("responses", RESPONSES)] {
        let events = ["hello", " world"].map(|text| match path {
            RESPONSES => {
                let event = json!({"type": "response.output_text.delta", "item_id": "m", "delta": text});
                format!("event: response.output_text.delta\ndata: {event}\n\n")
            }
            _ => chat_event(&json!({"content": text}).to_string(), "null"),
        });
        let (signal, proceed) = oneshot::channel();
        let (port, closing) = open_ended_provider(events, proceed).await;
        let other = provider(&chat_events(&["hello", " there"])).await;
        // Another target must not continue it.
        let mut config = fallback(&[target("openai", port), target("openai", other.port)]);
        config["stream_rescue"] = json!("resume");
        let engine = MemoryEngine::new(const { &[DENY] });
        let wrap = |memory| Signalling { memory, signal: Some(signal) };
        let observed = engine.send_through(path, &config, &body(true), "stage-denied-stream", wrap).await;
        assert_eq!(observed.status, 200, "{name}: {observed:?}");
        assert!(observed.body.contains("hello") && !observed.body.contains("world"), "{name}: {observed:?}");
        let last = observed.body.trim_end().rsplit("data: ").next().unwrap();
        let error: Value = serde_json::from_str(last).expect(&observed.body);
        let failed = error.pointer("/response/error/message");
        let message = failed.or(error.pointer("/error/message")).unwrap_or(&error["message"]);
        assert_eq!(message, "That word may not be used.", "{name}: {}", observed.body);
        assert_eq!(observed.line["error_code"], "invalid_request", "{name}: {}", observed.line);
        assert_eq!(closing.await.unwrap(), 0, "{name}: the provider's connection is closed");
        assert!(other.received().is_empty(), "{name}");
    }
}

/// The second response is filtered anew, before it is compared with what the client has got.
#[tokio::test]
async fn a_filtered_stream_that_breaks_is_resumed() {
    let (signal, proceed) = oneshot::channel();
    let events = [chat_event("{\"content\":\"hello\"}", "null"), String::new()];
    let (port, _) = open_ended_provider(events, proceed).await;
    let other = provider(&chat_events(&["hel", "lo wor", "ld"])).await;
    let config = fallback(&[target("openai", port), target("openai", other.port)]);
    let engine = MemoryEngine::new(const { &[UPPER_CASE] });
    let wrap = |memory| Signalling { memory, signal: Some(signal) };
    let observed = engine.send_through(CHAT, &config, &body(true), "stage-resumed", wrap).await;
    assert_eq!(text_of(&observed.body), "HELLO WORLD", "{observed:?}");
    assert!(observed.body.ends_with("data: [DONE]\n\n"), "{observed:?}");
    assert_eq!(observed.line["attempts"][1]["why"], "rescue", "{}", observed.line);
}

#[tokio::test]
async fn what_cannot_be_read_is_refused_instead_of_not_filtered() {
    let provider = provider(WHOLE_CHAT).await;
    let (engine, config) = (MemoryEngine::new(const { &[UPPER_CASE] }), target("openai", provider.port));
    for (path, body) in [
        ("/v1/embeddings", json!({"model": "m", "input": "hi"})),
        ("/v1/images/generations", json!({"model": "m", "prompt": "hi"})),
    ] {
        let refused = engine.send(path, &config, &body, "stage-unreadable").await;
        assert_eq!(refused.status, 501, "{path}: {refused:?}");
    }
    assert!(provider.received().is_empty());
    let compressed = Provider::start(|_| {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip";
        format!("{head}\r\ncontent-length: 3\r\n\r\nxyz").into_bytes()
    })
    .await;
    let config = target("openai", compressed.port);
    let refused = engine.send(CHAT, &config, &body(false), "stage-compressed").await;
    assert_eq!(refused.status, 502, "{refused:?}");
    assert_eq!(Arc::strong_count(&engine.engine), 1);
}
