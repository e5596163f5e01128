//! HTTP/2 by prior knowledge on a plain listener: every way, small and large, beside HTTP/1.
//!
//! Not ALPN (`tls_listener`) and not callers that leave (`callers_leaving`).

use crate::support::client::{install_ring, new_trace};
use crate::support::settings::KEY;
use crate::support::talk::{SPEECHES, WAYS, Way, ask};
use crate::support::{gateway, raw, sse};
use reqwest::{Client, RequestBuilder, Version};
use serde_json::Value;

/// A client that speaks nothing but HTTP/2.
fn h2c() -> Client {
    install_ring();
    Client::builder().no_proxy().http2_prior_knowledge().build().unwrap()
}

fn through(client: &Client, call: RequestBuilder) -> RequestBuilder {
    let (_, request) = call.build_split();
    RequestBuilder::from_parts(client.clone(), request.unwrap())
}

#[tokio::test]
async fn conversations_of_every_way_share_one_connection() {
    let (gateway, client) = (gateway(), h2c());
    let talks = SPEECHES.iter().flat_map(|speech| WAYS.map(|way| (*speech, way)));
    let talks = talks.map(|(speech, way)| {
        let call = ask(&gateway, speech, way, "tokens=12").header("x-gateway-provider", speech.slug());
        let call = through(&client, call);
        async move {
            let answer = call.send().await.unwrap();
            let what = format!("{speech:?} {way:?}");
            assert_eq!((answer.status().as_u16(), answer.version()), (200, Version::HTTP_2), "{what}");
            let text = answer.text().await.unwrap();
            match way {
                Way::Streamed => assert!(sse::events(&text).len() > 12, "{what}: {text}"),
                _ => assert!(serde_json::from_str::<Value>(&text).unwrap().is_object(), "{what}: {text}"),
            }
        }
    });
    futures_util::future::join_all(talks).await;
}

#[tokio::test]
async fn bodies_of_any_size_come_through_both_ways() {
    let (gateway, client) = (gateway(), h2c());
    let bytes = vec![7_u8; 5 << 20];
    let call = client.post(format!("{}/weather/upload?bytes=3000000", gateway.base_url()));
    let call = call.header("x-gateway-api-key", KEY).header("x-gateway-provider", "@emulator");
    let tag = new_trace();
    let answer = call.header("x-emulator-tag", &tag).body(bytes.clone()).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.bytes().await.unwrap().len(), 3_000_000);
    let seen = gateway.emulator_requests(&tag).await;
    assert_eq!(seen[0]["body_bytes"], bytes.len(), "{seen:?}");

    let call = client.get(format!("{}/models", gateway.base_url()));
    let call = call.header("x-gateway-api-key", KEY).header("x-gateway-provider", "@emulator");
    let models: Value = call.send().await.unwrap().json().await.unwrap();
    assert_eq!(models["object"], "list");
}

#[tokio::test]
async fn a_refusal_is_told_while_the_body_is_still_on_its_way() {
    let (gateway, client) = (gateway(), h2c());
    let url = format!("{}/chat/completions", gateway.base_url());
    let answer = client.post(url).header("x-gateway-api-key", "nobody").body(vec![b' '; 3 << 20]);
    let answer = answer.send().await.unwrap();
    assert_eq!(answer.status(), 401);
    let body: Value = answer.json().await.unwrap();
    assert_eq!(body["error"]["code"], "invalid_api_key");
}

/// Shorter than HTTP/2's preface of 24 bytes, which must not be waited for.
#[tokio::test]
async fn a_short_request_on_the_same_port_is_not_taken_for_a_preface() {
    let gateway = gateway();
    for short in
        ["GET / HTTP/1.0\r\n\r\n", "PUT / HTTP/1.0\n\n", "P / HTTP/1.0\r\n\r\n", "PRI / HTTP/1.0\r\n\r\n"]
    {
        assert!(short.len() < 24);
        let answer = raw::send(gateway.ports.data, short.as_bytes()).await;
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 4"), "{short:?}: {answer}");
    }
}
