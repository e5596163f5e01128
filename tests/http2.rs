//! HTTP/2 by prior knowledge on a plain listener: every request kind, small and large, beside HTTP/1.
//!
//! Not ALPN (`tls_listener`) and not disconnects (`client_disconnects`).

use crate::support::client::{install_ring, new_trace};
use crate::support::conversation::{DIALECTS, REQUEST_KINDS, RequestKind, chat_request};
use crate::support::settings::KEY;
use crate::support::{gateway, raw, sse};
use reqwest::{Client, RequestBuilder, Version};
use serde_json::Value;

/// A client that uses only HTTP/2.
pub(crate) fn h2c() -> Client {
    install_ring();
    Client::builder().no_proxy().http2_prior_knowledge().build().unwrap()
}

fn through(client: &Client, call: RequestBuilder) -> RequestBuilder {
    let (_, request) = call.build_split();
    RequestBuilder::from_parts(client.clone(), request.unwrap())
}

#[tokio::test]
async fn every_request_kind_shares_one_connection() {
    let gateway = gateway();
    let client = h2c();
    let talks = DIALECTS.iter().flat_map(|dialect| REQUEST_KINDS.map(|kind| (*dialect, kind)));
    let talks = talks.map(|(dialect, kind)| {
        let call =
            chat_request(&gateway, dialect, kind, "tokens=12").header("x-gateway-provider", dialect.slug());
        let call = through(&client, call);
        async move {
            let response = call.send().await.unwrap();
            let what = format!("{dialect:?} {kind:?}");
            assert_eq!((response.status().as_u16(), response.version()), (200, Version::HTTP_2), "{what}");
            let text = response.text().await.unwrap();
            match kind {
                RequestKind::Streamed => assert!(sse::events(&text).len() > 12, "{what}: {text}"),
                _ => assert!(serde_json::from_str::<Value>(&text).unwrap().is_object(), "{what}: {text}"),
            }
        }
    });
    futures_util::future::join_all(talks).await;
}

#[tokio::test]
async fn bodies_of_any_size_pass_in_both_directions() {
    let gateway = gateway();
    let client = h2c();
    let bytes = vec![7_u8; 5 << 20];
    let call = client.post(format!("{}/weather/upload?bytes=3000000", gateway.base_url()));
    let call = call.header("x-gateway-api-key", KEY).header("x-gateway-provider", "@emulator");
    let tag = new_trace();
    let response = call.header("x-emulator-tag", &tag).body(bytes.clone()).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.bytes().await.unwrap().len(), 3_000_000);
    let requests = gateway.emulator_requests(&tag).await;
    assert_eq!(requests[0]["body_bytes"], bytes.len(), "{requests:?}");

    let call = client.get(format!("{}/models", gateway.base_url()));
    let call = call.header("x-gateway-api-key", KEY).header("x-gateway-provider", "@emulator");
    let models: Value = call.send().await.unwrap().json().await.unwrap();
    assert_eq!(models["object"], "list");
}

#[tokio::test]
async fn an_early_refusal_arrives_during_the_upload() {
    let gateway = gateway();
    let client = h2c();
    let url = format!("{}/chat/completions", gateway.base_url());
    let response = client.post(url).header("x-gateway-api-key", "nobody").body(vec![b' '; 3 << 20]);
    let response = response.send().await.unwrap();
    assert_eq!(response.status(), 401);
    let body: Value = response.json().await.unwrap();
    assert_eq!(body["error"]["code"], "invalid_api_key");
}

/// The gateway must not wait for the 24 bytes of HTTP/2's preface: this request is shorter.
#[tokio::test]
async fn a_short_request_on_the_same_port_is_not_taken_for_a_preface() {
    let gateway = gateway();
    for short in
        ["GET / HTTP/1.0\r\n\r\n", "PUT / HTTP/1.0\n\n", "P / HTTP/1.0\r\n\r\n", "PRI / HTTP/1.0\r\n\r\n"]
    {
        assert!(short.len() < 24);
        let response = raw::send(gateway.ports.data, short.as_bytes()).await;
        let response = String::from_utf8_lossy(&response);
        assert!(response.starts_with("HTTP/1.1 4"), "{short:?}: {response}");
    }
}
