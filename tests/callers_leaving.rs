//! A caller that leaves takes its provider's connection with it, at once: before the answer and in its middle.
//!
//! Not a caller that stays but stops reading (`limits`).

use crate::support::client::{client, install_ring, new_trace};
use crate::support::gateway;
use crate::support::gateway::Gateway;
use crate::support::talk::{Speech, WAYS, Way, ask};
use crate::support::wait::until;
use reqwest::Client;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Longer on a busy machine than it takes, far shorter than any of the emulator's waits.
const AT_ONCE: Duration = Duration::from_secs(1);

/// A client that speaks HTTP/2 to a plain port, or HTTP/1.1.
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

/// Waits until the emulator has the request; the wait for its end is another matter.
async fn arrived(gateway: &Gateway, tag: &str) {
    let url = format!("{}/_emulator/requests?tag={tag}", gateway.emulator_url());
    let client = client();
    until("the request at the emulator", async || {
        let seen: Vec<Value> = client.get(&url).send().await.unwrap().json().await.unwrap();
        (!seen.is_empty()).then_some(())
    })
    .await;
}

async fn assert_left_at_once(gateway: &Gateway, tag: &str, trace: &str, left: Instant, what: &str) {
    let seen = gateway.emulator_requests(tag).await;
    let took = left.elapsed();
    assert_eq!((seen.len(), &seen[0]["closed"]), (1, &"caller_left".into()), "{what}: {seen:?}");
    assert!(took < AT_ONCE, "{what}: the provider was told after {took:?}");
    let line = gateway.access_line(trace).await;
    assert_eq!(line["error_code"], "caller_left", "{what} {line}");
}

#[tokio::test]
async fn the_provider_is_let_go_when_the_caller_leaves_before_the_answer() {
    let gateway = gateway();
    for h2 in [false, true] {
        for way in WAYS {
            let (tag, trace) = (new_trace(), new_trace());
            let call = ask(&gateway, Speech::OpenAi, way, &format!("fault=hang&tag={tag}"));
            let call = call.header("x-gateway-provider", "@emulator").header("x-gateway-trace-id", &trace);
            let call = tokio::spawn(through(speaking(h2), call).send());
            arrived(&gateway, &tag).await;
            let left = Instant::now();
            call.abort();
            let what = format!("{way:?} h2={h2}");
            assert_left_at_once(&gateway, &tag, &trace, left, &what).await;
        }
    }
}

#[tokio::test]
async fn the_provider_is_let_go_when_the_caller_leaves_in_the_middle_of_the_answer() {
    let gateway = gateway();
    for h2 in [false, true] {
        for way in WAYS {
            let (tag, trace) = (new_trace(), new_trace());
            // It falls silent after the first events or the first half: the leaving must be seen without a write.
            let script = format!("fault=stall&tokens=2000&tag={tag}");
            let call = ask(&gateway, Speech::OpenAi, way, &script);
            let call = call.header("x-gateway-provider", "@emulator").header("x-gateway-trace-id", &trace);
            let mut answer = through(speaking(h2), call).send().await.unwrap();
            let what = format!("{way:?} h2={h2}");
            assert_eq!(answer.status(), 200, "{what}");
            assert!(answer.chunk().await.unwrap().is_some(), "{what}");
            let left = Instant::now();
            drop(answer);
            assert_left_at_once(&gateway, &tag, &trace, left, &what).await;
        }
    }
}

/// On HTTP/2 the caller gives up one stream; the others of its connection are not touched.
#[tokio::test]
async fn a_stream_given_up_leaves_the_others_of_its_connection_alone() {
    let (gateway, tag) = (gateway(), new_trace());
    let client = speaking(true);
    let call = |script: &str| {
        let call = ask(&gateway, Speech::OpenAi, Way::Streamed, script);
        through(client.clone(), call.header("x-gateway-provider", "@emulator"))
    };
    let stays = call("tokens=40&gap=20").send().await.unwrap();
    let leaves = call(&format!("tokens=4000&gap=20&tag={tag}")).send().await.unwrap();
    drop(leaves);
    let seen = gateway.emulator_requests(&tag).await;
    assert_eq!(seen[0]["closed"], "caller_left", "{seen:?}");
    assert!(stays.text().await.unwrap().trim_end().ends_with("[DONE]"));
}
