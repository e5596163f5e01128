//! Responses with unusual statuses, and methods: which pass unchanged, and which do not.
//!
//! Not the bodies of ordinary responses.

use crate::support::client::client;
use crate::support::conversation::{Dialect, REQUEST_KINDS, RequestKind, chat_request};
use crate::support::gateway::Gateway;
use crate::support::settings::KEY;
use crate::support::upstream::Upstream;
use crate::support::{gateway, raw};
use reqwest::{Method, RequestBuilder};

fn call(gateway: &Gateway, method: Method, path: &str) -> RequestBuilder {
    let call = client().request(method, format!("{}/{path}", gateway.base_url()));
    call.header("x-gateway-api-key", KEY).header("x-gateway-provider", "@emulator")
}

#[tokio::test]
async fn a_status_without_a_body_keeps_the_connection_alive() {
    let gateway = gateway();
    for status in [204, 304] {
        let head = format!(
            "GET /v1/weather HTTP/1.1\r\nhost: gateway\r\nx-gateway-api-key: {KEY}\r\n\
             x-gateway-provider: @emulator\r\n"
        );
        let mut connection = raw::Raw::connect(gateway.ports.data).await;
        connection
            .write(format!("{head}x-emulator-script: status={status}\r\n\r\n").as_bytes())
            .await
            .unwrap();
        let first = connection.read_response().await;
        assert!(first.starts_with(&format!("HTTP/1.1 {status}")), "{first}");
        connection.write(format!("{head}\r\n").as_bytes()).await.unwrap();
        let second = connection.read_response().await;
        assert!(second.starts_with("HTTP/1.1 200"), "{status}: {second}");
    }
}

#[tokio::test]
async fn redirects_are_returned_and_never_followed() {
    let gateway = gateway();
    let upstream = Upstream::start(|mut line| async move {
        line.request().await;
        line.send_json("{}").await;
    })
    .await;
    for status in [301, 302, 303, 307, 308] {
        for kind in REQUEST_KINDS {
            let script = format!("status={status}&location={}", upstream.url());
            let call = chat_request(&gateway, Dialect::OpenAi, kind, &script)
                .header("x-gateway-provider", "@emulator");
            let response = call.send().await.unwrap();
            assert_eq!(response.status(), status, "{kind:?}");
            assert_eq!(response.headers()["location"], upstream.url().as_str(), "{kind:?}");
        }
    }
    assert_eq!(upstream.connections(), 0, "a redirect was followed");
}

#[tokio::test]
async fn interim_responses_are_not_mistaken_for_the_final_one() {
    let gateway = gateway();
    let upstream = Upstream::start(|mut line| async move {
        line.request().await;
        line.write("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n").await;
        line.send_json("{\"fine\": true}").await;
    })
    .await;
    // A document is converted where a stream was requested (`converted_kinds`).
    for kind in REQUEST_KINDS.into_iter().filter(|kind| *kind != RequestKind::Streamed) {
        let call = chat_request(&gateway, Dialect::OpenAi, kind, "").header("x-gateway-provider", "openai");
        let call = call.header("authorization", "Bearer sk-1");
        let response = call.header("x-gateway-custom-host", upstream.url()).send().await.unwrap();
        assert_eq!(response.status(), 200, "{kind:?}");
        assert_eq!(response.text().await.unwrap(), "{\"fine\": true}", "{kind:?}");
    }
}

#[tokio::test]
async fn only_methods_of_apis_are_passed_on() {
    let gateway = gateway();
    for method in [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
        let response = call(&gateway, method.clone(), "weather/today?place=a%20b&x=1").send().await.unwrap();
        assert_eq!(response.status(), 200, "{method}");
        let echoed: serde_json::Value = response.json().await.unwrap();
        assert_eq!(
            (&echoed["method"], &echoed["path"]),
            (&method.as_str().into(), &"/v1/weather/today".into())
        );
        assert_eq!(echoed["query"], "place=a%20b&x=1", "{method}");
    }
    let response = call(&gateway, Method::TRACE, "weather/today").send().await.unwrap();
    assert_eq!(response.status(), 405);
    assert_eq!(response.headers()["allow"], "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
    assert!(response.text().await.unwrap().contains("method_not_allowed"));
}

#[tokio::test]
async fn a_response_to_head_has_no_body() {
    let gateway = gateway();
    let rest = format!("host: gateway\r\nx-gateway-api-key: {KEY}\r\nx-gateway-provider: @emulator\r\n");
    let mut connection = raw::Raw::connect(gateway.ports.data).await;
    connection.write(format!("HEAD /v1/weather HTTP/1.1\r\n{rest}\r\n").as_bytes()).await.unwrap();
    let first = connection.read_response_to("HEAD").await;
    assert!(first.starts_with("HTTP/1.1 200"), "{first}");
    connection.write(format!("GET /v1/weather HTTP/1.1\r\n{rest}\r\n").as_bytes()).await.unwrap();
    let second = connection.read_response().await;
    assert!(second.starts_with("HTTP/1.1 200"), "{second}");
}

#[tokio::test]
async fn a_providers_408_is_not_a_gateway_timeout() {
    let gateway = gateway();
    for kind in [RequestKind::Plain, RequestKind::Streamed] {
        let call = chat_request(&gateway, Dialect::OpenAi, kind, "status=408")
            .header("x-gateway-provider", "@emulator");
        let text = call.send().await.unwrap().text().await.unwrap();
        assert!(text.contains("The emulator was told to answer 408"), "{kind:?} {text}");
    }
}
