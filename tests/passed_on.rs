//! Answers of unusual status, and methods: what is passed on as it came, and what is not.
//!
//! Not the bodies of ordinary answers.

use crate::support::client::client;
use crate::support::gateway::Gateway;
use crate::support::settings::KEY;
use crate::support::talk::{Speech, WAYS, Way, ask};
use crate::support::upstream::Upstream;
use crate::support::{gateway, raw};
use reqwest::{Method, RequestBuilder};

fn call(gateway: &Gateway, method: Method, path: &str) -> RequestBuilder {
    let call = client().request(method, format!("{}/{path}", gateway.base_url()));
    call.header("x-gateway-api-key", KEY).header("x-gateway-provider", "@emulator")
}

#[tokio::test]
async fn a_status_without_a_body_is_passed_on_and_the_connection_lives() {
    let gateway = gateway();
    for status in [204, 304] {
        let head = format!(
            "GET /v1/weather HTTP/1.1\r\nhost: gateway\r\nx-gateway-api-key: {KEY}\r\n\
             x-gateway-provider: @emulator\r\n"
        );
        let mut caller = raw::Raw::connect(gateway.ports.data).await;
        caller.write(format!("{head}x-emulator-script: status={status}\r\n\r\n").as_bytes()).await.unwrap();
        let first = caller.answer().await;
        assert!(first.starts_with(&format!("HTTP/1.1 {status}")), "{first}");
        caller.write(format!("{head}\r\n").as_bytes()).await.unwrap();
        let second = caller.answer().await;
        assert!(second.starts_with("HTTP/1.1 200"), "{status}: {second}");
    }
}

#[tokio::test]
async fn redirects_are_passed_on_and_never_followed() {
    let gateway = gateway();
    let upstream = Upstream::start(|mut line| async move {
        line.request().await;
        line.answer("{}").await;
    })
    .await;
    for status in [301, 302, 303, 307, 308] {
        for way in WAYS {
            let script = format!("status={status}&location={}", upstream.url());
            let call = ask(&gateway, Speech::OpenAi, way, &script).header("x-gateway-provider", "@emulator");
            let answer = call.send().await.unwrap();
            assert_eq!(answer.status(), status, "{way:?}");
            assert_eq!(answer.headers()["location"], upstream.url().as_str(), "{way:?}");
        }
    }
    assert_eq!(upstream.connections(), 0, "a redirect was followed");
}

#[tokio::test]
async fn interim_answers_are_not_mistaken_for_the_final_one() {
    let gateway = gateway();
    let upstream = Upstream::start(|mut line| async move {
        line.request().await;
        line.write("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n").await;
        line.answer("{\"fine\": true}").await;
    })
    .await;
    for way in WAYS {
        let call = ask(&gateway, Speech::OpenAi, way, "").header("x-gateway-provider", "openai");
        let call = call.header("authorization", "Bearer sk-1");
        let answer = call.header("x-gateway-custom-host", upstream.url()).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{way:?}");
        assert_eq!(answer.text().await.unwrap(), "{\"fine\": true}", "{way:?}");
    }
}

#[tokio::test]
async fn only_the_four_methods_are_passed_on() {
    let gateway = gateway();
    for method in [Method::GET, Method::POST, Method::PUT, Method::DELETE] {
        let answer = call(&gateway, method.clone(), "weather/today?place=a%20b&x=1").send().await.unwrap();
        assert_eq!(answer.status(), 200, "{method}");
        let seen: serde_json::Value = answer.json().await.unwrap();
        assert_eq!((&seen["method"], &seen["path"]), (&method.as_str().into(), &"/v1/weather/today".into()));
        assert_eq!(seen["query"], "place=a%20b&x=1", "{method}");
    }
    for method in [Method::HEAD, Method::PATCH, Method::OPTIONS, Method::TRACE] {
        let answer = call(&gateway, method.clone(), "weather/today").send().await.unwrap();
        assert_eq!(answer.status(), 405, "{method}");
        let text = answer.text().await.unwrap();
        assert_eq!(text.contains("method_not_allowed"), method != Method::HEAD, "{method} {text}");
    }
}

#[tokio::test]
async fn an_answer_to_head_has_no_body_to_confuse_the_next() {
    let gateway = gateway();
    let rest = format!("host: gateway\r\nx-gateway-api-key: {KEY}\r\nx-gateway-provider: @emulator\r\n");
    let mut caller = raw::Raw::connect(gateway.ports.data).await;
    caller.write(format!("HEAD /v1/weather HTTP/1.1\r\n{rest}\r\n").as_bytes()).await.unwrap();
    let first = caller.answer_to("HEAD").await;
    assert!(first.starts_with("HTTP/1.1 405"), "{first}");
    caller.write(format!("GET /v1/weather HTTP/1.1\r\n{rest}\r\n").as_bytes()).await.unwrap();
    let second = caller.answer().await;
    assert!(second.starts_with("HTTP/1.1 200"), "{second}");
}

#[tokio::test]
async fn a_provider_that_says_408_is_not_the_gateway_that_gave_up() {
    let gateway = gateway();
    for way in [Way::Plain, Way::Streamed] {
        let call = ask(&gateway, Speech::OpenAi, way, "status=408").header("x-gateway-provider", "@emulator");
        let text = call.send().await.unwrap().text().await.unwrap();
        assert!(text.contains("The emulator was told to answer 408"), "{way:?} {text}");
    }
}
