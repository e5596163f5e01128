//! A client disconnect cancels the provider's request at once: before the response and during it. Behind the last event it is none.
//!
//! Not a client that stays connected but stops reading (`slow_clients`).

use crate::support::client::{client, install_ring, new_trace};
use crate::support::conversation::{Dialect, REQUEST_KINDS, RequestKind, chat_request};
use crate::support::gateway;
use crate::support::gateway::Gateway;
use crate::support::settings::KEY;
use crate::support::upstream::{Connection, Upstream};
use crate::support::wait::until;
use reqwest::Client;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Longer than cancelling takes on a busy machine, far shorter than any of the emulator's waits.
const AT_ONCE: Duration = Duration::from_secs(1);

/// A client that uses HTTP/2 without TLS, or HTTP/1.1.
fn speaking(h2: bool) -> Client {
    install_ring();
    let client = Client::builder().no_proxy();
    if h2 { client.http2_prior_knowledge().build().unwrap() } else { client.build().unwrap() }
}

/// The same request through another client.
fn through(client: Client, call: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
    let (_, request) = call.build_split();
    reqwest::RequestBuilder::from_parts(client, request.unwrap())
}

/// Waits until the emulator has received the request, not until it ended.
async fn arrived(gateway: &Gateway, tag: &str) {
    let url = format!("{}/_emulator/requests?tag={tag}", gateway.emulator_url());
    let client = client();
    until("the emulator to get the request", async || {
        let requests: Vec<Value> = client.get(&url).send().await.unwrap().json().await.unwrap();
        (!requests.is_empty()).then_some(())
    })
    .await;
}

async fn assert_cancelled_at_once(gateway: &Gateway, tag: &str, trace: &str, left: Instant, what: &str) {
    let requests = gateway.emulator_requests(tag).await;
    let elapsed = left.elapsed();
    assert_eq!((requests.len(), &requests[0]["closed"]), (1, &"caller_left".into()), "{what}: {requests:?}");
    assert!(elapsed < AT_ONCE, "{what}: the provider's request was cancelled after {elapsed:?}");
    let line = gateway.access_line(trace).await;
    assert_eq!(line["error_code"], "caller_left", "{what} {line}");
}

#[tokio::test]
async fn a_disconnect_before_the_response_cancels_the_provider() {
    let gateway = gateway();
    for h2 in [false, true] {
        for kind in REQUEST_KINDS {
            let tag = new_trace();
            let trace = new_trace();
            let call = chat_request(&gateway, Dialect::OpenAi, kind, &format!("fault=hang&tag={tag}"));
            let call = call.header("x-gateway-provider", "@emulator").header("x-gateway-trace-id", &trace);
            let call = tokio::spawn(through(speaking(h2), call).send());
            arrived(&gateway, &tag).await;
            let left = Instant::now();
            call.abort();
            let what = format!("{kind:?} h2={h2}");
            assert_cancelled_at_once(&gateway, &tag, &trace, left, &what).await;
        }
    }
}

#[tokio::test]
async fn a_disconnect_during_the_response_cancels_the_provider() {
    let gateway = gateway();
    for h2 in [false, true] {
        // A document under a request timeout is held, so its client leaves before the response.
        for kind in REQUEST_KINDS.into_iter().filter(|kind| *kind != RequestKind::Timed) {
            let tag = new_trace();
            let trace = new_trace();
            // The provider stalls after the first events or the first half: the disconnect must be noticed
            // without a write. Half of a shorter document would be held.
            let script = format!("fault=stall&tokens=60000&tag={tag}");
            let call = chat_request(&gateway, Dialect::OpenAi, kind, &script);
            let call = call.header("x-gateway-provider", "@emulator").header("x-gateway-trace-id", &trace);
            let mut response = through(speaking(h2), call).send().await.unwrap();
            let what = format!("{kind:?} h2={h2}");
            assert_eq!(response.status(), 200, "{what}");
            assert!(response.chunk().await.unwrap().is_some(), "{what}");
            let left = Instant::now();
            drop(response);
            assert_cancelled_at_once(&gateway, &tag, &trace, left, &what).await;
        }
    }
}

/// On HTTP/2 the client cancels one stream; the others on its connection continue.
#[tokio::test]
async fn a_cancelled_stream_leaves_others_on_its_connection_alone() {
    let gateway = gateway();
    let tag = new_trace();
    let client = speaking(true);
    let call = |script: &str| {
        let call = chat_request(&gateway, Dialect::OpenAi, RequestKind::Streamed, script);
        through(client.clone(), call.header("x-gateway-provider", "@emulator"))
    };
    let stays = call("tokens=40&gap=20").send().await.unwrap();
    let cancelled = call(&format!("tokens=4000&gap=20&tag={tag}")).send().await.unwrap();
    drop(cancelled);
    let requests = gateway.emulator_requests(&tag).await;
    assert_eq!(requests[0]["closed"], "caller_left", "{requests:?}");
    assert!(stays.text().await.unwrap().trim_end().ends_with("[DONE]"));
}

/// The terminal event of each dialect, and the path of its requests.
const LAST_EVENTS: [(&str, &str, &str); 4] = [
    (
        "/responses",
        "openai",
        "event: response.completed\ndata: {\"type\":\"response.completed\",\"sequence_number\":2,\"response\":{\"id\":\"resp_1\",\
         \"object\":\"response\",\"created_at\":1,\"model\":\"gpt-4o-mini\",\"status\":\"completed\",\"output\":[],\
         \"usage\":{\"input_tokens\":3,\"output_tokens\":2,\"total_tokens\":5}}}\n\n",
    ),
    (
        "/responses",
        "openai",
        "event: response.incomplete\ndata: {\"type\":\"response.incomplete\",\"sequence_number\":2,\"response\":{\"id\":\"resp_1\",\
         \"object\":\"response\",\"created_at\":1,\"model\":\"gpt-4o-mini\",\"status\":\"incomplete\",\"output\":[],\
         \"incomplete_details\":{\"reason\":\"max_output_tokens\"},\
         \"usage\":{\"input_tokens\":3,\"output_tokens\":2,\"total_tokens\":5}}}\n\n",
    ),
    (
        "/chat/completions",
        "openai",
        "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt-4o-mini\",\"choices\":[{\"index\":0,\
         \"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
    ),
    (
        "/messages",
        "anthropic",
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\
         \"model\":\"claude\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\n\
         event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\
         \"usage\":{\"output_tokens\":2}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
    ),
];

/// A provider that sends these events and then nothing, on a connection that stays open, or with a pause `[DONE]` and the end of the
/// body.
async fn ending_with(events: &'static str, goes_on: bool) -> Upstream {
    Upstream::start(move |mut connection: Connection| async move {
        while connection.request().await.is_some() {
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
            connection.write(&format!("{head}{:x}\r\n{events}\r\n", events.len())).await;
            if goes_on {
                tokio::time::sleep(Duration::from_millis(50)).await;
                connection.write("e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n").await;
            }
        }
    })
    .await
}

/// Codex closes its connection behind `response.completed`, whether more follows or not.
#[tokio::test]
async fn a_client_that_leaves_behind_the_last_event_has_the_whole_response() {
    let gateway = gateway();
    for goes_on in [false, true] {
        for (path, provider, events) in LAST_EVENTS {
            let upstream = ending_with(events, goes_on).await;
            let config = json!({"provider": provider, "api_key": "k", "custom_host": upstream.url()});
            let trace = new_trace();
            let body = json!({
                "model": "gpt-4o-mini", "stream": true, "max_tokens": 10, "input": "Hi",
                "messages": [{"role": "user", "content": "Hi"}],
            });
            let call = client().post(format!("{}{path}", gateway.base_url())).json(&body);
            let call = call.header("x-gateway-api-key", KEY).header("x-gateway-trace-id", &trace);
            let mut response = call.header("x-gateway-config", config.to_string()).send().await.unwrap();
            assert_eq!(response.status(), 200, "{path}: {:?}", response.text().await);
            let mut read = String::new();
            let last = events.trim_end().rsplit("\n\n").next().unwrap();
            while !read.contains(last) {
                let chunk = response.chunk().await.unwrap();
                assert!(chunk.is_some(), "{path}: no {last} in {read}");
                read += &String::from_utf8_lossy(&chunk.unwrap());
            }
            drop(response);
            let line = gateway.access_line(&trace).await;
            assert_eq!(
                (&line["status"], &line["error_code"]),
                (&200.into(), &Value::Null),
                "{goes_on} {line}"
            );
            assert_eq!(line["attempts"].as_array().map(Vec::len), Some(1), "{line}");
        }
    }
}

/// The event with the finish reason is not the last one of a chat.
#[tokio::test]
async fn a_client_that_leaves_before_the_last_event_has_left() {
    let gateway = gateway();
    for (path, provider, events) in [LAST_EVENTS[2], LAST_EVENTS[3]] {
        let before = &events[..events.trim_end().rfind("\n\n").unwrap() + 2];
        let upstream = ending_with(before, false).await;
        let config = json!({"provider": provider, "api_key": "k", "custom_host": upstream.url()});
        let trace = new_trace();
        let body = json!({
            "model": "gpt-4o-mini", "stream": true, "max_tokens": 10, "messages": [{"role": "user", "content": "Hi"}],
        });
        let call = client().post(format!("{}{path}", gateway.base_url())).json(&body);
        let call = call.header("x-gateway-api-key", KEY).header("x-gateway-trace-id", &trace);
        let mut response = call.header("x-gateway-config", config.to_string()).send().await.unwrap();
        assert!(response.chunk().await.unwrap().is_some(), "{path}");
        drop(response);
        assert_eq!(gateway.access_line(&trace).await["error_code"], "caller_left", "{path}");
    }
}
