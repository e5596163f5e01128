//! The cache as clients meet it: hits and misses in every dialect, what is never stored, one call for many.
//!
//! Not who gets whose response (`cached_tenants`), not the shared store (`shared_cache`), and not what beside the code has tests of its own: keys, the memory, the index.

use crate::stages::{MESSAGE_EVENTS, WHOLE_CHAT, WHOLE_MESSAGE, chat_events, text_of};
use crate::support::client::{client, new_trace};
use crate::support::settings::KEY;
use crate::support::upstream::{Connection, Upstream};
use crate::support::wait::until;
use crate::support::{Gateway, gateway};
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Semaphore;

pub(crate) const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";

/// What the client got.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) cache: String,
    age: Option<String>,
    pub(crate) text: String,
    pub(crate) trace: String,
}

pub(crate) struct Call<'a> {
    gateway: &'a Gateway,
    path: &'a str,
    config: Value,
    headers: Vec<(&'static str, String)>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(gateway: &'a Gateway, config: &Value) -> Self {
        Self {
            gateway,
            path: CHAT,
            config: config.clone(),
            headers: vec![("x-gateway-api-key", KEY.to_owned())],
        }
    }

    pub(crate) fn path(mut self, path: &'a str) -> Self {
        self.path = path;
        self
    }

    /// Sets a header, in place of one of the same name.
    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.retain(|(old, _)| *old != name);
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(crate) fn request(&self, body: &str) -> (reqwest::RequestBuilder, String) {
        let url = self.gateway.base_url().replace("/v1", self.path);
        let trace = new_trace();
        let mut request = client()
            .post(url)
            .header("x-gateway-config", self.config.to_string())
            .header("x-gateway-trace-id", &trace)
            .header("content-type", "application/json");
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        (request.body(body.to_owned()), trace)
    }

    pub(crate) async fn send(&self, body: &str) -> Answer {
        let (request, trace) = self.request(body);
        let response = request.send().await.unwrap();
        let header =
            |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let (status, cache, age) =
            (response.status().as_u16(), header("x-gateway-cache-status").unwrap_or_default(), header("age"));
        let text = response.text().await.unwrap_or_else(|why| format!("broken off: {why}"));
        Answer { status, cache, age, text, trace }
    }
}

/// The config of a target whose responses are cached.
pub(crate) fn cached(target: Value) -> Value {
    let mut config = target;
    config["cache"] = json!({"mode": "simple"});
    config
}

pub(crate) fn at(upstream: &Upstream, provider: &str) -> Value {
    json!({"provider": provider, "api_key": "sk-1", "custom_host": upstream.url()})
}

/// A chat that no other test sends.
pub(crate) fn chat(text: &str, stream: bool) -> String {
    json!({"model": "m", "max_tokens": 9, "stream": stream, "messages": [{"role": "user", "content": text}]})
        .to_string()
}

pub(crate) fn events(text: &str) -> String {
    let length = text.len();
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {length}\r\n\r\n{text}")
}

/// A provider that answers each request with this, and counts them.
pub(crate) async fn answering(
    answer: impl Fn(usize, &str) -> String + Send + Sync + 'static,
) -> (Upstream, Arc<AtomicUsize>) {
    let answer = Arc::new(answer);
    let count = Arc::<AtomicUsize>::default();
    let calls = Arc::clone(&count);
    let upstream = Upstream::start(move |mut connection: Connection| {
        let answer = Arc::clone(&answer);
        let calls = Arc::clone(&calls);
        async move {
            while let Some(request) = connection.request().await {
                let number = calls.fetch_add(1, Ordering::SeqCst);
                let text = answer(number, &request);
                connection.write(&text).await;
            }
        }
    })
    .await;
    (upstream, count)
}

pub(crate) fn json_answer(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

pub(crate) async fn chat_provider() -> (Upstream, Arc<AtomicUsize>) {
    answering(|_, request| {
        if request.contains("\"stream\":true") {
            events(&chat_events(&["hello", " world"]))
        } else {
            json_answer(WHOLE_CHAT)
        }
    })
    .await
}

async fn messages_provider() -> (Upstream, Arc<AtomicUsize>) {
    answering(|_, request| {
        if request.contains("\"stream\":true") { events(MESSAGE_EVENTS) } else { json_answer(WHOLE_MESSAGE) }
    })
    .await
}

#[tokio::test]
async fn the_second_of_two_equal_requests_is_a_hit_however_it_is_spelt() {
    let gateway = gateway();
    let (upstream, calls) = chat_provider().await;
    let call = Call::new(&gateway, &cached(at(&upstream, "openai")));
    let first =
        call.send(r#"{"model":"m","messages":[{"role":"user","content":"spelling"}],"temperature":1}"#).await;
    assert_eq!((first.status, first.cache.as_str(), &first.age), (200, "MISS", &None), "{first:?}");
    let spellings = [
        r#"{"model":"m","messages":[{"role":"user","content":"spelling"}],"temperature":1}"#,
        r#"{"temperature":1.0, "messages":[ {"content":"spelling","role":"user"} ],"model":"m"}"#,
        "{\"model\":\"\\u006d\",\"messages\":[{\"role\":\"user\",\"content\":\"spell\\u0069ng\"}],\"temperature\":1e0}",
    ];
    for body in spellings {
        let next = call.send(body).await;
        assert_eq!((next.status, next.cache.as_str()), (200, "HIT"), "{body}");
        assert_eq!(next.age.as_deref(), Some("0"));
        assert_eq!(next.text, first.text);
        let line = gateway.access_line(&next.trace).await;
        assert_eq!(line["cache"]["status"], "HIT", "{line}");
        assert!(line["cost_usd"].is_null() && line["cost_status"].is_null(), "{line}");
    }
    for body in [
        r#"{"model":"m","messages":[{"role":"user","content":"spelling"}],"temperature":1.01}"#,
        r#"{"model":"m","messages":[{"role":"user","content":"Spelling"}],"temperature":1}"#,
        r#"{"model":"m","messages":[{"role":"user","content":"spelling"}]}"#,
    ] {
        assert_eq!(call.send(body).await.cache, "MISS", "{body}");
    }
    assert_eq!(calls.load(Ordering::SeqCst), 4);
    let off = Call::new(&gateway, &at(&upstream, "openai")).send(spellings[0]).await;
    assert_eq!(off.cache, "DISABLED");
}

#[tokio::test]
async fn one_entry_serves_streams_and_whole_responses_in_both_directions() {
    let gateway = gateway();
    for (kind, path) in [("openai", CHAT), ("anthropic", CHAT), ("anthropic", MESSAGES)] {
        let (upstream, calls) = match kind {
            "openai" => chat_provider().await,
            _ => messages_provider().await,
        };
        let config = cached(at(&upstream, kind));
        let call = Call::new(&gateway, &config).path(path);
        for (text, first_streams) in [("stream first", true), ("whole first", false)] {
            let first = call.send(&chat(text, first_streams)).await;
            let second = call.send(&chat(text, !first_streams)).await;
            let again = call.send(&chat(text, first_streams)).await;
            let statuses = [&first, &second, &again].map(|answer| (answer.status, answer.cache.as_str()));
            assert_eq!(
                statuses,
                [(200, "MISS"), (200, "HIT"), (200, "HIT")],
                "{kind} {path} {text}: {second:?}"
            );
            for answer in [&first, &second, &again] {
                assert_eq!(text_of(&answer.text), "hello world", "{kind} {path} {text}: {}", answer.text);
            }
            let (stream, whole) = if first_streams { (&again, &second) } else { (&second, &again) };
            let last =
                if path == CHAT { "data: [DONE]\n\n" } else { "data: {\"type\":\"message_stop\"}\n\n" };
            assert!(stream.text.ends_with(last), "{kind} {path}: {}", stream.text);
            let usage = &serde_json::from_str::<Value>(&whole.text).unwrap()["usage"];
            let (input, output) = if path == CHAT {
                ("prompt_tokens", "completion_tokens")
            } else {
                ("input_tokens", "output_tokens")
            };
            let counts = (usage[input].as_u64(), usage[output].as_u64());
            // The stream of the OpenAI provider of this test reports none.
            let has_usage = !(kind == "openai" && first_streams);
            assert_eq!(
                counts,
                if has_usage { (Some(1), Some(2)) } else { (None, None) },
                "{kind} {path} {text}: {usage}"
            );
        }
        assert_eq!(calls.load(Ordering::SeqCst), 2, "{kind} {path}");
    }
}

#[tokio::test]
async fn what_is_no_complete_success_is_never_stored() {
    let gateway = gateway();
    let failing = "HTTP/1.1 500 Internal Server Error\r\ncontent-type: application/json\r\ncontent-length: 25\r\n\r\n{\"error\":{\"message\":\"x\"}}";
    let error_in_success = json_answer(r#"{"error":{"message":"overloaded","type":"server_error"}}"#);
    let error_event = events(
        &(chat_events(&["hello"])
            .split("data: [DONE]")
            .next()
            .unwrap()
            .split("\"finish_reason\":\"stop\"")
            .next()
            .unwrap()
            .rsplit_once("data: ")
            .unwrap()
            .0
            .to_owned()
            + "data: {\"error\":{\"message\":\"x\"}}\n\n"),
    );
    let cut = {
        let whole = chat_events(&["hello", "world"]);
        let part = whole.split("data: ").take(2).collect::<Vec<_>>().join("data: ");
        format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{part}\r\n0\r\n\r\n",
            part.len()
        )
    };
    let created = json_answer(WHOLE_CHAT).replace("200 OK", "201 Created");
    let gzip = json_answer(WHOLE_CHAT).replace("content-type", "content-encoding: gzip\r\ncontent-type");
    for (name, answer, stream) in [
        ("500", failing.to_owned(), false),
        ("error with 200", error_in_success, false),
        ("error event", error_event, true),
        ("cut stream", cut, true),
        ("201", created, false),
        ("compressed", gzip, false),
    ] {
        let (upstream, calls) = answering(move |_, _| answer.clone()).await;
        let call = Call::new(&gateway, &cached(at(&upstream, "openai")));
        for _ in 0..2 {
            let answer = call.send(&chat(name, stream)).await;
            assert_eq!(answer.cache, "MISS", "{name}: {answer:?}");
        }
        assert_eq!(calls.load(Ordering::SeqCst), 2, "{name}");
    }
    // Of these the provider's response is complete, and a guardrail has something against it.
    for (name, deny, status) in [("denied", true, 446), ("failed", false, 246)] {
        let (upstream, calls) = chat_provider().await;
        let mut config = cached(at(&upstream, "openai"));
        config["output_guardrails"] =
            json!([{"default.contains": {"operator": "none", "words": ["hello"]}, "deny": deny}]);
        let call = Call::new(&gateway, &config);
        for _ in 0..2 {
            let answer = call.send(&chat(name, false)).await;
            assert_eq!(answer.status, status, "{name}: {answer:?}");
            let line = gateway.access_line(&answer.trace).await;
            assert_eq!(line["cache"]["status"], "MISS", "{name}: {line}");
        }
        assert_eq!(calls.load(Ordering::SeqCst), 2, "{name}");
    }
}

#[tokio::test]
async fn checks_run_on_hits_too_and_before_the_look_up() {
    let gateway = gateway();
    let (upstream, calls) = chat_provider().await;
    let plain = cached(at(&upstream, "openai"));
    let body = chat("checks on hits", false);
    assert_eq!(Call::new(&gateway, &plain).send(&body).await.cache, "MISS");
    let mut output = plain.clone();
    output["output_guardrails"] =
        json!([{"default.contains": {"operator": "none", "words": ["hello"]}, "deny": true}]);
    let denied = Call::new(&gateway, &output).send(&body).await;
    assert_eq!(denied.status, 446, "{denied:?}");
    assert_eq!(gateway.access_line(&denied.trace).await["cache"]["status"], "HIT");
    let streamed = Call::new(&gateway, &output).send(&chat("checks on hits", true)).await;
    assert_eq!(streamed.status, 446, "{streamed:?}");
    let mut input = plain.clone();
    input["input_guardrails"] =
        json!([{"default.contains": {"operator": "none", "words": ["checks"]}, "deny": true}]);
    let denied = Call::new(&gateway, &input).send(&body).await;
    assert_eq!(denied.status, 446, "{denied:?}");
    assert_ne!(denied.cache, "HIT");
    let mut redacting = plain.clone();
    redacting["input_guardrails"] = json!([{"pii": {"redact": true, "restore": true}}]);
    let call = Call::new(&gateway, &redacting);
    let first = call.send(&chat("write to ann@example.com", false)).await;
    let second = call.send(&chat("write to bob@example.com", false)).await;
    assert_eq!(
        (first.cache.as_str(), second.cache.as_str()),
        ("MISS", "HIT"),
        "what is sent is equal: {second:?}"
    );
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_forced_refresh_calls_the_provider_and_replaces_what_is_stored() {
    let gateway = gateway();
    let (upstream, calls) =
        answering(|number, _| json_answer(&WHOLE_CHAT.replace("hello world", &format!("answer {number}"))))
            .await;
    let config = cached(at(&upstream, "openai"));
    let body = chat("refresh", false);
    let call = Call::new(&gateway, &config);
    assert_eq!(text_of(&call.send(&body).await.text), "answer 0");
    let refresh =
        Call::new(&gateway, &config).header("x-gateway-cache-force-refresh", "true").send(&body).await;
    assert_eq!((refresh.cache.as_str(), text_of(&refresh.text).as_str()), ("REFRESH", "answer 1"));
    let hit = call.send(&body).await;
    assert_eq!((hit.cache.as_str(), text_of(&hit.text).as_str()), ("HIT", "answer 1"));
    let mut short = config.clone();
    short["cache"] = json!({"mode": "simple", "max_age": 0});
    let call = Call::new(&gateway, &short);
    for number in 2..4 {
        let answer = call.send(&chat("no age", false)).await;
        assert_eq!((answer.cache.as_str(), text_of(&answer.text)), ("MISS", format!("answer {number}")));
        let line = gateway.access_line(&answer.trace).await;
        let stored = (&line["cache"]["stored"], &line["cache"]["not_stored"]);
        assert_eq!(stored, (&json!(false), &json!("max_age")), "{line}");
    }
    assert_eq!(calls.load(Ordering::SeqCst), 4);
}

/// A provider that sends the first event of a stream at once, and one more for each permit.
async fn step_by_step() -> (Upstream, Arc<Semaphore>, Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let steps = Arc::new(Semaphore::new(0));
    let calls = Arc::<AtomicUsize>::default();
    let closed = Arc::<AtomicUsize>::default();
    let permits = Arc::clone(&steps);
    let count = Arc::clone(&calls);
    let ends = Arc::clone(&closed);
    let upstream = Upstream::start(move |mut connection: Connection| {
        let permits = Arc::clone(&permits);
        let count = Arc::clone(&count);
        let ends = Arc::clone(&ends);
        async move {
            if connection.request().await.is_none() {
                return;
            }
            count.fetch_add(1, Ordering::SeqCst);
            connection.write("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n").await;
            let whole = chat_events(&["one ", "two ", "three"]);
            for event in whole.split_inclusive("\n\n") {
                connection.write(&format!("{:x}\r\n{event}\r\n", event.len())).await;
                tokio::select! {
                    permit = permits.acquire() => permit.unwrap().forget(),
                    none = connection.request() => {
                        assert!(none.is_none());
                        ends.fetch_add(1, Ordering::SeqCst);
                        return;
                    }
                }
            }
            connection.write("0\r\n\r\n").await;
        }
    })
    .await;
    (upstream, steps, calls, closed)
}

async fn next_text(stream: &mut (impl StreamExt<Item = reqwest::Result<bytes::Bytes>> + Unpin)) -> String {
    String::from_utf8(stream.next().await.unwrap().unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn many_streams_share_one_call_and_late_ones_get_what_was_before() {
    let gateway = gateway();
    let (upstream, steps, calls, _) = step_by_step().await;
    let config = cached(at(&upstream, "openai"));
    let call = Call::new(&gateway, &config);
    let body = chat("one flight", true);
    let mut first = call.request(&body).0.send().await.unwrap();
    assert_eq!(first.headers()["x-gateway-cache-status"], "MISS");
    let mut early = String::from_utf8(first.chunk().await.unwrap().unwrap().to_vec()).unwrap();
    assert_eq!(text_of(&early), "one ");
    let mut others = Vec::new();
    for _ in 0..20 {
        let response = call.request(&body).0.send().await.unwrap();
        assert_eq!(response.headers()["x-gateway-cache-status"], "HIT");
        others.push(response.bytes_stream());
    }
    for other in &mut others {
        assert_eq!(text_of(&next_text(other).await), "one ", "before anything else arrives");
    }
    steps.add_permits(10);
    while let Some(chunk) = first.chunk().await.unwrap() {
        early.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    for other in &mut others {
        let mut text = "one ".to_owned();
        while let Some(chunk) = other.next().await {
            text.push_str(&text_of(std::str::from_utf8(&chunk.unwrap()).unwrap()));
        }
        assert_eq!(text, "one two three");
    }
    assert_eq!(text_of(&early), "one two three");
    assert_eq!(call.send(&body).await.cache, "HIT");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_client_that_leaves_takes_no_other_with_it_and_the_last_one_ends_the_call() {
    let gateway = gateway();
    let (upstream, steps, calls, closed) = step_by_step().await;
    let config = cached(at(&upstream, "openai"));
    let call = Call::new(&gateway, &config);
    let body = chat("leaves", true);
    let (request, leaders_trace) = call.request(&body);
    let mut leader = request.send().await.unwrap();
    leader.chunk().await.unwrap();
    let (request, follower_trace) = call.request(&body);
    let mut follower = request.send().await.unwrap();
    let mut text = String::from_utf8(follower.chunk().await.unwrap().unwrap().to_vec()).unwrap();
    drop(leader);
    let line = gateway.access_line(&leaders_trace).await;
    assert!(line["tokens"].is_null() && line["error_code"] == "caller_left", "{line}");
    steps.add_permits(10);
    while let Some(chunk) = follower.chunk().await.unwrap() {
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    assert_eq!(text_of(&text), "one two three");
    // Who stays to the end pays, once.
    let line = gateway.access_line(&follower_trace).await;
    assert!(line["tokens_estimated"] == true && line["tokens"]["output"].as_u64() > Some(0), "{line}");
    assert_eq!((calls.load(Ordering::SeqCst), closed.load(Ordering::SeqCst)), (1, 0));
    assert_eq!(call.send(&body).await.cache, "HIT");

    let (upstream, _, calls, closed) = step_by_step().await;
    let config = cached(at(&upstream, "openai"));
    let call = Call::new(&gateway, &config);
    let mut all = Vec::new();
    for _ in 0..3 {
        let mut response = call.request(&body).0.send().await.unwrap();
        response.chunk().await.unwrap();
        all.push(response);
    }
    drop(all);
    until("the end of the call", async || (closed.load(Ordering::SeqCst) == 1).then_some(())).await;
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_call_that_fails_is_made_again_for_those_who_wait() {
    let gateway = gateway();
    let gate = Arc::new(Semaphore::new(0));
    let calls = Arc::<AtomicUsize>::default();
    let permits = Arc::clone(&gate);
    let count = Arc::clone(&calls);
    let upstream = Upstream::start(move |mut connection: Connection| {
        let permits = Arc::clone(&permits);
        let count = Arc::clone(&count);
        async move {
            if connection.request().await.is_none() {
                return;
            }
            if count.fetch_add(1, Ordering::SeqCst) == 0 {
                permits.acquire().await.unwrap().forget();
                let body = r#"{"error":{"message":"no"}}"#;
                let length = body.len();
                connection.write(&format!("HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")).await;
            } else {
                connection.send_json(WHOLE_CHAT).await;
            }
        }
    })
    .await;
    let config = cached(at(&upstream, "openai"));
    let call = Call::new(&gateway, &config);
    let body = chat("fails", false);
    let sending = futures_util::future::join_all((0..8).map(|_| call.send(&body)));
    let failing = async {
        until("the first call", async || (calls.load(Ordering::SeqCst) == 1).then_some(())).await;
        gate.add_permits(1);
    };
    let (answers, ()) = tokio::join!(sending, failing);
    let failed = answers.iter().filter(|answer| answer.status == 400).count();
    assert_eq!(failed, 1, "only the one that made the call: {answers:?}");
    assert!(
        answers
            .iter()
            .filter(|answer| answer.status == 200)
            .all(|answer| text_of(&answer.text) == "hello world")
    );
}

/// The second attempt is looked up last, and is another target's with another key.
#[tokio::test]
async fn with_a_hedge_the_header_is_about_the_attempt_that_served() {
    let gateway = gateway();
    for first_serves in [true, false] {
        let permits = Arc::new(Semaphore::new(0));
        let mut upstreams = Vec::new();
        for is_first in [true, false] {
            let wait = Arc::clone(&permits);
            let serves = is_first == first_serves;
            let calls = Arc::<AtomicUsize>::default();
            let count = Arc::clone(&calls);
            let upstream = Upstream::start(move |mut connection: Connection| {
                let wait = Arc::clone(&wait);
                let calls = Arc::clone(&count);
                async move {
                    while connection.request().await.is_some() {
                        calls.fetch_add(1, Ordering::SeqCst);
                        if serves {
                            wait.acquire().await.unwrap().forget();
                            connection.send_json(WHOLE_CHAT).await;
                        }
                    }
                }
            })
            .await;
            upstreams.push((upstream, calls));
        }
        let config = json!({
            "strategy": {"mode": "fallback"},
            "hedge": {"after_ms": 50, "max_extra_ratio": 1.0},
            "targets": [cached(at(&upstreams[0].0, "openai")), at(&upstreams[1].0, "openai")],
        });
        let call = Call::new(&gateway, &config);
        let body = chat(&format!("hedged {first_serves}"), false);
        let opening = async {
            until("both attempts", async || {
                upstreams.iter().all(|(_, calls)| calls.load(Ordering::SeqCst) == 1).then_some(())
            })
            .await;
            permits.add_permits(1);
        };
        let (answer, ()) = tokio::join!(call.send(&body), opening);
        let wanted = if first_serves { "MISS" } else { "DISABLED" };
        assert_eq!((answer.status, answer.cache.as_str()), (200, wanted), "{answer:?}");
    }
}

#[tokio::test]
async fn a_target_without_a_cache_does_not_show_what_another_one_found() {
    let gateway = gateway();
    let (failing, _) =
        answering(|_, _| "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n".to_owned()).await;
    let (upstream, _) = chat_provider().await;
    let config = json!({
        "strategy": {"mode": "fallback"}, "targets": [cached(at(&failing, "openai")), at(&upstream, "openai")],
    });
    let answer = Call::new(&gateway, &config).send(&chat("fallen back", false)).await;
    assert_eq!((answer.status, answer.cache.as_str()), (200, "DISABLED"), "{answer:?}");
}
