//! A client disconnect cancels the provider's request at once: before the response and during it.
//!
//! Not a client that stays connected but stops reading (`slow_clients`).

use crate::support::client::{client, install_ring, new_trace};
use crate::support::conversation::{Dialect, REQUEST_KINDS, RequestKind, chat_request};
use crate::support::gateway;
use crate::support::gateway::Gateway;
use crate::support::wait::until;
use reqwest::Client;
use serde_json::Value;
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
