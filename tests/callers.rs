//! Who calls: service keys wherever they may stand, and that they stop at the gateway.
//!
//! Not which provider a request goes to (`which_config`).

use crate::support::client::{client, install_ring, new_trace};
use crate::support::gateway::Gateway;
use crate::support::raw::Raw;
use crate::support::settings::{KEY, OTHER_KEY, PROVIDER_KEY, STANDARD};
use crate::support::talk::{SPEECHES, Speech, WAYS, Way, body, failed};
use reqwest::{Client, RequestBuilder};
use serde_json::Value;
use std::sync::OnceLock;

/// A gateway that takes its headers under two prefixes.
fn gateway() -> &'static Gateway {
    static GATEWAY: OnceLock<Gateway> = OnceLock::new();
    GATEWAY.get_or_init(|| Gateway::start(&format!("{STANDARD}header_prefixes: [x-gateway-, x-portkey-]\n")))
}

fn post(speech: Speech, way: Way, tag: &str) -> RequestBuilder {
    let path = if speech == Speech::OpenAi { "chat/completions" } else { "messages" };
    let call = client().post(format!("{}/{path}", gateway().base_url()));
    let call = call.header("x-emulator-tag", tag);
    let limit = (way == Way::Timed).then_some(("x-gateway-request-timeout", "20000"));
    let call = limit.into_iter().fold(call, |call, (name, value)| call.header(name, value));
    call.json(&body(speech, way, ""))
}

/// Headers of the one request the emulator got with this tag, names in lower case.
async fn received(tag: &str) -> Vec<(String, String)> {
    let seen = gateway().emulator_requests(tag).await;
    assert_eq!(seen.len(), 1, "{seen:?}");
    let headers = seen[0]["headers"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    headers.iter().map(|pair| (text(&pair[0]).to_lowercase(), text(&pair[1]))).collect()
}

#[tokio::test]
async fn a_service_key_is_taken_wherever_it_may_stand() {
    let rows: [(&str, String, &str); 6] = [
        ("x-gateway-api-key", KEY.to_owned(), "tests"),
        ("x-portkey-api-key", OTHER_KEY.to_owned(), "others"),
        ("X-Portkey-API-Key", KEY.to_owned(), "tests"),
        ("authorization", format!("Bearer {KEY}"), "tests"),
        ("Authorization", format!("bearer   {OTHER_KEY}"), "others"),
        ("authorization", KEY.to_owned(), "tests"),
    ];
    let calls = rows.iter().flat_map(|row| WAYS.map(|way| is_known_as(row, way)));
    futures_util::future::join_all(calls).await;
}

async fn is_known_as((name, value, who): &(&str, String, &str), way: Way) {
    let (tag, trace) = (new_trace(), new_trace());
    let call = post(Speech::OpenAi, way, &tag).header(*name, value);
    let call = call.header("x-portkey-provider", "@emulator").header("x-portkey-trace-id", &trace);
    let answer = call.send().await.unwrap();
    assert_eq!(answer.status(), 200, "{name} {way:?}");
    assert_eq!(answer.headers()["x-gateway-trace-id"], trace.as_str(), "{name} {way:?}");
    assert_eq!(gateway().access_line(&trace).await["key"], *who, "{name} {way:?}");
    assert_nothing_of_ours(&received(&tag).await);
}

fn assert_nothing_of_ours(headers: &[(String, String)]) {
    for (name, value) in headers {
        assert!(!name.starts_with("x-gateway-") && !name.starts_with("x-portkey-"), "{headers:?}");
        assert!(!value.contains(KEY) && !value.contains(OTHER_KEY), "{headers:?}");
    }
}

#[tokio::test]
async fn a_wrong_or_missing_service_key_is_refused_in_both_dialects() {
    let rows: [&[(&str, &str)]; 6] = [
        &[],
        &[("x-gateway-api-key", "tp-tests-012345678")],
        &[("x-gateway-api-key", "")],
        &[("authorization", "Bearer sk-of-a-provider")],
        &[("authorization", "Basic dHAtdGVzdHM6eA==")],
        // A wrong header is not saved by a right bearer: the header says who calls.
        &[("x-gateway-api-key", "nobody"), ("authorization", "Bearer tp-tests-0123456789")],
    ];
    for speech in SPEECHES {
        for headers in rows {
            let (tag, trace) = (new_trace(), new_trace());
            let call = post(speech, Way::Plain, &tag).header("x-gateway-provider", speech.slug());
            let call = headers.iter().fold(call, |call, (name, value)| call.header(*name, *value));
            let answer = call.header("x-gateway-trace-id", &trace).send().await.unwrap();
            let message = failed(answer, speech, &trace, 401, "invalid_api_key").await;
            assert!(!message.contains("tp-tests"), "{message}");
            let url = format!("{}/_emulator/requests?tag={tag}", gateway().emulator_url());
            let seen: Vec<Value> = client().get(url).send().await.unwrap().json().await.unwrap();
            assert!(seen.is_empty(), "{headers:?} {seen:?}");
        }
    }
}

/// Whatever a config asks to forward.
#[tokio::test]
async fn the_service_key_never_reaches_a_provider_even_when_asked_to() {
    let asks = r#"{"provider": "@SLUG", "forward_headers":
        ["Authorization", "x-api-key", "x-gateway-api-key", "x-portkey-api-key", "x-gateway-config", "cookie"]}"#;
    let asks = asks.replace('\n', " ");
    for speech in SPEECHES {
        for way in WAYS {
            for (name, value) in [
                ("x-gateway-api-key", KEY.to_owned()),
                ("x-portkey-api-key", KEY.to_owned()),
                ("authorization", format!("Bearer {KEY}")),
            ] {
                let tag = new_trace();
                let config = asks.replace("@SLUG", speech.slug());
                let call = post(speech, way, &tag).header(name, value).header("x-gateway-config", config);
                // As an SDK does that knows its own header only.
                let call = call.header("x-api-key", OTHER_KEY);
                let answer = call.send().await.unwrap();
                assert_eq!(answer.status(), 200, "{speech:?} {way:?} {name}");
                assert_nothing_of_ours(&received(&tag).await);
            }
        }
    }
}

/// Two `Authorization` headers, of which a careless gateway looks at the first only.
#[tokio::test]
async fn a_service_key_hidden_behind_another_bearer_is_found() {
    let tag = new_trace();
    let body = body(Speech::Anthropic, Way::Plain, "").to_string();
    let request = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: gateway\r\nx-gateway-api-key: {KEY}\r\n\
         authorization: Bearer sk-caller\r\nauthorization: Bearer {OTHER_KEY}\r\n\
         x-gateway-config: {{\"provider\": \"@anthropic-emulator\", \"forward_headers\": [\"authorization\"]}}\r\n\
         x-emulator-tag: {tag}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut caller = Raw::connect(gateway().ports.data).await;
    caller.write(request.as_bytes()).await.unwrap();
    let answer = caller.answer().await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_nothing_of_ours(&received(&tag).await);
}

#[tokio::test]
async fn a_bearer_that_is_no_service_key_is_the_providers_key() {
    let url = gateway().emulator_url();
    for (speech, provider, header, value) in [
        (Speech::OpenAi, "openai", "authorization", "Bearer sk-caller"),
        (Speech::Anthropic, "anthropic", "x-api-key", "sk-caller"),
    ] {
        for way in WAYS {
            let tag = new_trace();
            let call = post(speech, way, &tag).header("x-gateway-api-key", KEY);
            let call =
                call.header("x-gateway-provider", provider).header("authorization", "Bearer sk-caller");
            let call = call.header("x-gateway-custom-host", format!("{url}/v1"));
            assert_eq!(call.send().await.unwrap().status(), 200, "{speech:?} {way:?}");
            let seen = received(&tag).await;
            let keys: Vec<_> = seen.iter().filter(|(_, text)| text.contains("sk-caller")).collect();
            assert_eq!(keys, [&(header.to_owned(), value.to_owned())], "{seen:?}");
        }
    }
}

#[tokio::test]
async fn a_stored_providers_key_is_shown_whatever_the_caller_sends() {
    for speech in SPEECHES {
        for way in WAYS {
            let tag = new_trace();
            let call = post(speech, way, &tag).header("x-gateway-api-key", KEY);
            let call = call.header("x-gateway-provider", speech.slug()).header("x-api-key", "mine");
            let call = call.header("api-key", "mine").header("x-goog-api-key", "mine");
            let call = call.header("authorization", "Bearer mine").header("cookie", "session=mine");
            assert_eq!(call.send().await.unwrap().status(), 200);
            let seen = received(&tag).await;
            assert!(seen.iter().all(|(_, value)| !value.contains("mine")), "{seen:?}");
            assert!(seen.iter().any(|(_, value)| value.contains(PROVIDER_KEY)), "{seen:?}");
        }
    }
}

#[tokio::test]
async fn the_same_holds_over_http_2() {
    install_ring();
    let h2 = Client::builder().no_proxy().http2_prior_knowledge().build().unwrap();
    for way in WAYS {
        let tag = new_trace();
        let call = post(Speech::OpenAi, way, &tag).header("authorization", format!("Bearer {KEY}"));
        let call =
            call.header("x-portkey-provider", "@emulator").header("cookie", "a=1").header("cookie", "b=2");
        let (_, request) = call.build_split();
        let answer = RequestBuilder::from_parts(h2.clone(), request.unwrap()).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{way:?}");
        let seen = received(&tag).await;
        assert_nothing_of_ours(&seen);
        assert!(seen.iter().all(|(name, _)| name != "cookie"), "{seen:?}");
    }
}
