//! Client authentication: service keys in every place they may be, and that they are not forwarded.
//!
//! Not which provider a request goes to (`which_config`).

use crate::support::client::{client, install_ring, new_trace};
use crate::support::conversation::{
    DIALECTS, Dialect, REQUEST_KINDS, RequestKind, assert_gateway_error, body,
};
use crate::support::gateway::Gateway;
use crate::support::raw::Raw;
use crate::support::settings::{KEY, OTHER_KEY, PROVIDER_KEY, STANDARD};
use reqwest::{Client, RequestBuilder};
use serde_json::Value;
use std::sync::OnceLock;

/// A gateway that accepts its headers under two prefixes.
fn gateway() -> &'static Gateway {
    static GATEWAY: OnceLock<Gateway> = OnceLock::new();
    GATEWAY.get_or_init(|| Gateway::start(&format!("{STANDARD}header_prefixes: [x-gateway-, x-portkey-]\n")))
}

fn post(dialect: Dialect, kind: RequestKind, tag: &str) -> RequestBuilder {
    let path = if dialect == Dialect::OpenAi { "chat/completions" } else { "messages" };
    let call = client().post(format!("{}/{path}", gateway().base_url()));
    let call = call.header("x-emulator-tag", tag);
    let limit = (kind == RequestKind::Timed).then_some(("x-gateway-request-timeout", "20000"));
    let call = limit.into_iter().fold(call, |call, (name, value)| call.header(name, value));
    call.json(&body(dialect, kind, ""))
}

/// Headers of the one request the emulator received with this tag, names in lower case.
async fn received(tag: &str) -> Vec<(String, String)> {
    let requests = gateway().emulator_requests(tag).await;
    assert_eq!(requests.len(), 1, "{requests:?}");
    let headers = requests[0]["headers"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    headers.iter().map(|pair| (text(&pair[0]).to_lowercase(), text(&pair[1]))).collect()
}

#[tokio::test]
async fn a_service_key_is_accepted_in_every_header() {
    let rows: [(&str, String, &str); 9] = [
        ("x-gateway-api-key", KEY.to_owned(), "tests"),
        ("x-portkey-api-key", OTHER_KEY.to_owned(), "others"),
        ("X-Portkey-API-Key", KEY.to_owned(), "tests"),
        ("authorization", format!("Bearer {KEY}"), "tests"),
        ("Authorization", format!("bearer   {OTHER_KEY}"), "others"),
        ("authorization", KEY.to_owned(), "tests"),
        ("x-api-key", KEY.to_owned(), "tests"),
        ("Api-Key", OTHER_KEY.to_owned(), "others"),
        ("X-Goog-Api-Key", KEY.to_owned(), "tests"),
    ];
    let calls = rows.iter().flat_map(|row| REQUEST_KINDS.map(|kind| assert_identified_as(row, kind)));
    futures_util::future::join_all(calls).await;
}

async fn assert_identified_as((name, value, client_name): &(&str, String, &str), kind: RequestKind) {
    let tag = new_trace();
    let trace = new_trace();
    let call = post(Dialect::OpenAi, kind, &tag).header(*name, value);
    let call = call.header("x-portkey-provider", "@emulator").header("x-portkey-trace-id", &trace);
    let response = call.send().await.unwrap();
    assert_eq!(response.status(), 200, "{name} {kind:?}");
    assert_eq!(response.headers()["x-gateway-trace-id"], trace.as_str(), "{name} {kind:?}");
    assert_eq!(gateway().access_line(&trace).await["key"], *client_name, "{name} {kind:?}");
    assert_no_gateway_headers(&received(&tag).await);
}

fn assert_no_gateway_headers(headers: &[(String, String)]) {
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
        // A valid bearer does not override an invalid key header: the header decides.
        &[("x-gateway-api-key", "nobody"), ("authorization", "Bearer tp-tests-0123456789")],
    ];
    for dialect in DIALECTS {
        for headers in rows {
            let tag = new_trace();
            let trace = new_trace();
            let call = post(dialect, RequestKind::Plain, &tag).header("x-gateway-provider", dialect.slug());
            let call = headers.iter().fold(call, |call, (name, value)| call.header(*name, *value));
            let response = call.header("x-gateway-trace-id", &trace).send().await.unwrap();
            let message = assert_gateway_error(response, dialect, &trace, 401, "invalid_api_key").await;
            assert!(!message.contains("tp-tests"), "{message}");
            let url = format!("{}/_emulator/requests?tag={tag}", gateway().emulator_url());
            let requests: Vec<Value> = client().get(url).send().await.unwrap().json().await.unwrap();
            assert!(requests.is_empty(), "{headers:?} {requests:?}");
        }
    }
}

/// Whatever a config is set to forward.
#[tokio::test]
async fn the_service_key_never_reaches_a_provider_even_when_configured() {
    let hostile_config = r#"{"provider": "@SLUG", "forward_headers":
        ["Authorization", "x-api-key", "x-gateway-api-key", "x-portkey-api-key", "x-gateway-config", "cookie"]}"#;
    let hostile_config = hostile_config.replace('\n', " ");
    for dialect in DIALECTS {
        for kind in REQUEST_KINDS {
            for (name, value) in [
                ("x-gateway-api-key", KEY.to_owned()),
                ("x-portkey-api-key", KEY.to_owned()),
                ("authorization", format!("Bearer {KEY}")),
            ] {
                let tag = new_trace();
                let config = hostile_config.replace("@SLUG", dialect.slug());
                let call = post(dialect, kind, &tag).header(name, value).header("x-gateway-config", config);
                // Like an SDK that only sets its own key header.
                let call = call.header("x-api-key", OTHER_KEY);
                let response = call.send().await.unwrap();
                assert_eq!(response.status(), 200, "{dialect:?} {kind:?} {name}");
                assert_no_gateway_headers(&received(&tag).await);
            }
        }
    }
}

/// Wherever the client puts it: in cookies, as a user's password, in a header of its own.
#[tokio::test]
async fn a_service_key_hidden_in_another_header_is_not_forwarded() {
    use base64::Engine as _;
    let basic = base64::engine::general_purpose::STANDARD.encode(format!("user:{OTHER_KEY}"));
    let encoded = KEY.replace('-', "%2D");
    let hiding = [
        ("cookie", format!("session=1; key={KEY}; x=y")),
        ("cookie", format!("key=\"{OTHER_KEY}\"")),
        ("cookie", format!("key={encoded}")),
        ("authorization", format!("Basic {basic}")),
        ("x-own", format!("before {KEY} after")),
        ("x-unlisted", KEY.to_owned()),
    ];
    for kind in REQUEST_KINDS {
        for (name, value) in &hiding {
            let tag = new_trace();
            let call = post(Dialect::OpenAi, kind, &tag).header("x-gateway-api-key", KEY);
            let call = call.header("x-gateway-provider", Dialect::OpenAi.slug()).header(*name, value);
            let call = call
                .header("x-gateway-forward-headers", "cookie, authorization, x-own")
                .header("x-own", "kept");
            let response = call.send().await.unwrap();
            assert_eq!(response.status(), 200, "{kind:?} {name}");
            let received_headers = received(&tag).await;
            assert_no_gateway_headers(&received_headers);
            let shown = format!("{received_headers:?}");
            assert!(!shown.contains(&**value) && !shown.contains(KEY), "{name}: {shown}");
            let is_kept = received_headers.iter().any(|(name, value)| name == "x-own" && value == "kept");
            assert_eq!(is_kept, *name != "x-own", "{name}: {shown}");
        }
    }
}

/// A key in the wrong header is no id, and must not get into the log as one.
#[tokio::test]
async fn of_an_unknown_id_the_access_line_has_eight_characters() {
    for (name, value) in [
        ("x-gateway-config", "sk-canary-0123456789"),
        ("x-gateway-provider", "sk-canary-0123456789"),
        ("x-gateway-provider", "@sk-canary-0123456789"),
        ("x-gateway-virtual-key", "sk-canary-0123456789"),
    ] {
        let trace = new_trace();
        let call = post(Dialect::OpenAi, RequestKind::Plain, &trace).header("x-gateway-api-key", KEY);
        let response = call.header("x-gateway-trace-id", &trace).header(name, value).send().await.unwrap();
        assert_eq!(response.status(), 400, "{name}");
        let text = response.text().await.unwrap();
        assert!(text.contains("sk-canary-0123456789"), "the client has all of it: {text}");
        let line = gateway().access_line(&trace).await.to_string();
        assert!(line.contains("sk-canar...") && !line.contains("sk-canary"), "{name}: {line}");
    }
}

/// Two `Authorization` headers: a careless gateway reads only the first.
#[tokio::test]
async fn a_service_key_hidden_behind_another_bearer_is_found() {
    let tag = new_trace();
    let body = body(Dialect::Anthropic, RequestKind::Plain, "").to_string();
    let request = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: gateway\r\nx-gateway-api-key: {KEY}\r\n\
         authorization: Bearer sk-caller\r\nauthorization: Bearer {OTHER_KEY}\r\n\
         x-gateway-config: {{\"provider\": \"@anthropic-emulator\", \"forward_headers\": [\"authorization\"]}}\r\n\
         x-emulator-tag: {tag}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut connection = Raw::connect(gateway().ports.data).await;
    connection.write(request.as_bytes()).await.unwrap();
    let response = connection.read_response().await;
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    assert_no_gateway_headers(&received(&tag).await);
}

#[tokio::test]
async fn a_bearer_that_is_no_service_key_is_the_providers_key() {
    let url = gateway().emulator_url();
    for (dialect, provider, header, value) in [
        (Dialect::OpenAi, "openai", "authorization", "Bearer sk-caller"),
        (Dialect::Anthropic, "anthropic", "x-api-key", "sk-caller"),
    ] {
        for kind in REQUEST_KINDS {
            let tag = new_trace();
            let call = post(dialect, kind, &tag).header("x-gateway-api-key", KEY);
            let call =
                call.header("x-gateway-provider", provider).header("authorization", "Bearer sk-caller");
            let call = call.header("x-gateway-custom-host", format!("{url}/v1"));
            assert_eq!(call.send().await.unwrap().status(), 200, "{dialect:?} {kind:?}");
            let received_headers = received(&tag).await;
            let keys: Vec<_> =
                received_headers.iter().filter(|(_, text)| text.contains("sk-caller")).collect();
            assert_eq!(keys, [&(header.to_owned(), value.to_owned())], "{received_headers:?}");
        }
    }
}

#[tokio::test]
async fn a_stored_providers_key_is_sent_whatever_the_client_sends() {
    for dialect in DIALECTS {
        for kind in REQUEST_KINDS {
            let tag = new_trace();
            let call = post(dialect, kind, &tag).header("x-gateway-api-key", KEY);
            let call = call.header("x-gateway-provider", dialect.slug()).header("x-api-key", "mine");
            let call = call.header("api-key", "mine").header("x-goog-api-key", "mine");
            let call = call.header("authorization", "Bearer mine").header("cookie", "session=mine");
            assert_eq!(call.send().await.unwrap().status(), 200);
            let received_headers = received(&tag).await;
            assert!(
                received_headers.iter().all(|(_, value)| !value.contains("mine")),
                "{received_headers:?}"
            );
            assert!(
                received_headers.iter().any(|(_, value)| value.contains(PROVIDER_KEY)),
                "{received_headers:?}"
            );
        }
    }
}

#[tokio::test]
async fn the_same_holds_over_http_2() {
    install_ring();
    let h2 = Client::builder().no_proxy().http2_prior_knowledge().build().unwrap();
    for kind in REQUEST_KINDS {
        let tag = new_trace();
        let call = post(Dialect::OpenAi, kind, &tag).header("authorization", format!("Bearer {KEY}"));
        let call =
            call.header("x-portkey-provider", "@emulator").header("cookie", "a=1").header("cookie", "b=2");
        let (_, request) = call.build_split();
        let response = RequestBuilder::from_parts(h2.clone(), request.unwrap()).send().await.unwrap();
        assert_eq!(response.status(), 200, "{kind:?}");
        let received_headers = received(&tag).await;
        assert_no_gateway_headers(&received_headers);
        assert!(received_headers.iter().all(|(name, _)| name != "cookie"), "{received_headers:?}");
    }
}
