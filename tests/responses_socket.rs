//! The websocket mode of `/v1/responses`: each event on it is a request like a POST, with limits, guardrails, log and fallbacks of its own.
//!
//! On the running binary, with a websocket client. What events and frames are has tests beside the code.

use crate::limited_requests::{CLIENT, SETTINGS, USAGE, make, operate};
use crate::support::client::{install_ring, new_trace};
use crate::support::settings::{KEY, STANDARD};
use crate::support::{Gateway, gateway};
use futures_util::{SinkExt, StreamExt};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Response;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

const READ_TIMEOUT: Duration = Duration::from_secs(20);
/// Responses of five tokens.
const SHORT: (&str, &str) = ("x-emulator-script", "tokens=5");
/// Every path that a provider might take for that of responses.
const PATHS: [&str; 5] =
    ["/v1/responses", "/v1/responses/", "/openai/v1/responses", "/v1/proxy/responses", "/v1/%72esponses"];

struct Socket(WebSocketStream<MaybeTlsStream<TcpStream>>);

async fn handshake(
    gateway: &Gateway,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<(Socket, Response), Error> {
    install_ring();
    let mut request = format!("ws://127.0.0.1:{}{path}", gateway.ports.data).into_client_request().unwrap();
    for (name, value) in headers {
        let name: http::HeaderName = name.parse().unwrap();
        request.headers_mut().append(name, value.parse().unwrap());
    }
    let opened = tokio::time::timeout(READ_TIMEOUT, connect_async(request)).await.unwrap();
    opened.map(|(socket, response)| (Socket(socket), response))
}

async fn open(gateway: &Gateway, headers: &[(&str, &str)]) -> Socket {
    handshake(gateway, "/v1/responses", headers).await.unwrap().0
}

fn ours<'a>(provider: &'a str, trace: &'a str) -> [(&'a str, &'a str); 3] {
    [("x-gateway-api-key", KEY), ("x-gateway-provider", provider), ("x-gateway-trace-id", trace)]
}

fn create(input: &Value, more: &Value) -> Value {
    let mut event =
        json!({"type": "response.create", "model": "gpt-4o-mini", "store": false, "input": input});
    event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    event
}

fn hello() -> Value {
    create(&json!("Hello"), &json!({}))
}

impl Socket {
    async fn send(&mut self, event: &Value) {
        self.0.send(Message::text(event.to_string())).await.unwrap();
    }

    async fn message(&mut self) -> Message {
        let message = tokio::time::timeout(READ_TIMEOUT, self.0.next()).await.expect("no message arrived");
        message.expect("the websocket ended").unwrap()
    }

    async fn event(&mut self) -> Value {
        loop {
            match self.message().await {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// The events of one response up to its last.
    async fn response(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let event = self.event().await;
            let kind = event["type"].as_str().unwrap().to_owned();
            events.push(event);
            if ["response.completed", "response.incomplete", "response.failed", "error"].contains(&&*kind) {
                return events;
            }
        }
    }

    /// The last event of the response to this one.
    async fn outcome_of(&mut self, event: &Value) -> Value {
        self.send(event).await;
        self.response().await.pop().unwrap()
    }

    async fn closed_with(&mut self) -> CloseCode {
        loop {
            match self.message().await {
                Message::Close(Some(frame)) => return frame.code,
                Message::Text(_) | Message::Ping(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

/// What the provider was sent, one body for each request.
async fn bodies(gateway: &Gateway, tag: &str) -> Vec<Value> {
    let requests = gateway.emulator_requests(tag).await;
    requests.iter().map(|request| serde_json::from_str(request["body"].as_str().unwrap()).unwrap()).collect()
}

#[tokio::test]
async fn each_event_is_a_request_at_every_provider() {
    let gateway = gateway();
    for (provider, model) in [
        ("@emulator", "gpt-4o-mini"),
        ("@anthropic-emulator", "claude-sonnet-4-5"),
        ("@google-emulator", "gemini-2.5-flash"),
    ] {
        let trace = new_trace();
        let tag = new_trace();
        let more = [SHORT, ("x-emulator-tag", &*tag), ("openai-beta", "responses_websockets=2026-02-06")];
        let (mut socket, response) =
            handshake(&gateway, "/v1/responses", &[&ours(provider, &trace)[..], &more].concat())
                .await
                .unwrap();
        assert_eq!(response.status(), 101);
        assert_eq!(response.headers()["x-gateway-trace-id"], *trace);
        for turn in 1..=2 {
            socket.send(&create(&json!("Hello"), &json!({"model": model}))).await;
            let events = socket.response().await;
            assert_eq!(events[0]["type"], "response.created", "{provider} {events:?}");
            let numbers: Vec<u64> =
                events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
            assert!(numbers.is_sorted(), "{provider} {numbers:?}");
            let last = events.last().unwrap();
            assert_eq!(last["type"], "response.completed", "{provider} {last}");
            let line = gateway.access_line(&format!("{trace}-{turn}")).await;
            assert_eq!((&line["status"], &line["operation"]), (&json!(200), &json!("responses")), "{line}");
            assert!(line["cost_usd"].as_f64().unwrap() > 0.0 && line["tokens"]["output"] == 5, "{line}");
            assert_eq!(line["path"], "/v1/responses");
        }
        let got = gateway.emulator_requests(&tag).await;
        assert_eq!(got.len(), 2, "{provider}");
        let text = got[0].to_string();
        for unwanted in ["response.create", "websocket", KEY] {
            assert!(!text.contains(unwanted), "{unwanted} in {text}");
        }
        socket.0.close(None).await.unwrap();
        assert!(matches!(socket.message().await, Message::Close(_)));
        let line = gateway.access_line(&trace).await;
        assert_eq!(line["status"], 101, "{line}");
        assert!(
            line["bytes_in"].as_u64().unwrap() > 0 && line["bytes_out"].as_u64().unwrap() > 500,
            "{line}"
        );
    }
}

/// Five sessions of 2,000 tokens left a limit of 0.0001 dollars untouched once.
#[tokio::test]
async fn limits_and_guardrails_hold_on_every_path() {
    let gateway = Gateway::start(SETTINGS);
    let limit = json!({"conditions": [{"key": "api_key", "value": "*"}], "group_by": [{"key": "api_key"}], "type": "cost",
                       "credit_limit": 0.0001, "hard": true});
    let id = make(&gateway, USAGE, &limit).await;
    let headers = [("x-gateway-api-key", CLIENT), ("x-gateway-provider", "@emu")];
    for path in PATHS {
        let (mut socket, _) = handshake(&gateway, path, &headers).await.unwrap();
        let event = socket
            .outcome_of(&create(&json!("Hello"), &json!({"model": "gpt-4o", "max_output_tokens": 2000})))
            .await;
        assert_eq!((&event["type"], &event["status"]), (&json!("error"), &json!(412)), "{path} {event}");
        assert_eq!(event["error"]["type"], "usage_limits_policy_exhaust_error", "{event}");
    }
    operate(&gateway, Method::DELETE, &format!("{USAGE}/{id}"), &Value::Null).await;
    let denies = |more: Value| {
        let mut config = json!({"provider": "@emu"});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        config.to_string()
    };
    let check = json!([{"default.contains": {"words": ["KESTREL"], "operator": "none"}, "deny": true}]);
    let config = denies(json!({"input_guardrails": check}));
    let headers = [("x-gateway-api-key", CLIENT), ("x-gateway-config", &*config)];
    let (mut socket, _) = handshake(&gateway, "/v1/responses", &headers).await.unwrap();
    let event = socket.outcome_of(&create(&json!("a KESTREL"), &json!({}))).await;
    assert_eq!((&event["status"], &event["error"]["type"]), (&json!(446), &json!("hooks_failed")), "{event}");
    assert_eq!(socket.outcome_of(&hello()).await["type"], "response.completed", "the connection goes on");
}

#[tokio::test]
async fn a_conversation_is_kept_where_the_provider_keeps_none() {
    let gateway = gateway();
    for (provider, stored, sent_whole) in
        [("@emulator", false, true), ("@emulator", true, false), ("@anthropic-emulator", true, true)]
    {
        let tag = new_trace();
        let mut socket = open(
            &gateway,
            &[&ours(provider, &new_trace())[..], &[SHORT, ("x-emulator-tag", &*tag)]].concat(),
        )
        .await;
        let store = json!({"store": stored});
        let first = socket.outcome_of(&create(&json!("My name is Ann"), &store)).await;
        let id = &first["response"]["id"];
        let output = first["response"]["output"][0]["content"][0]["text"].as_str().unwrap();
        let next = json!([{"type": "message", "role": "user", "content": "Who am I?"}]);
        let next = create(&next, &json!({"store": stored, "previous_response_id": id}));
        let second = socket.outcome_of(&next).await;
        assert_eq!(second["type"], "response.completed", "{second}");
        let bodies = bodies(&gateway, &tag).await;
        let body = bodies[1].to_string();
        assert_eq!(body.contains("My name is Ann"), sent_whole, "{provider} {body}");
        assert_eq!(body.contains(output), sent_whole, "{provider} {body}");
        assert_eq!(bodies[1].get("previous_response_id").is_some(), !sent_whole, "{provider} {body}");
        assert!(body.contains("Who am I?"));
    }
    // The provider keeps it, but the fallback has no such thing.
    let config = json!({"strategy": {"mode": "fallback"}, "targets": [{"provider": "@emulator"}, {"provider": "@anthropic-emulator"}]});
    let config = config.to_string();
    let tag = new_trace();
    let headers =
        [("x-gateway-api-key", KEY), ("x-gateway-config", &*config), SHORT, ("x-emulator-tag", &*tag)];
    let mut socket = open(&gateway, &headers).await;
    let store = json!({"store": true});
    let first = socket.outcome_of(&create(&json!("My name is Ann"), &store)).await;
    let next = json!({"store": true, "previous_response_id": first["response"]["id"]});
    assert_eq!(socket.outcome_of(&create(&json!("Who am I?"), &next)).await["type"], "response.completed");
    let body = bodies(&gateway, &tag).await[1].to_string();
    assert!(body.contains("My name is Ann") && !body.contains("previous_response_id"), "{body}");
    // Neither the connection nor a provider that only chats has it.
    let mut socket = open(&gateway, &ours("@anthropic-emulator", &new_trace())).await;
    let event =
        socket.outcome_of(&create(&json!("Hello"), &json!({"previous_response_id": "resp_other"}))).await;
    let error = &event["error"];
    assert_eq!(
        (&event["status"], &error["code"]),
        (&json!(400), &json!("previous_response_not_found")),
        "{event}"
    );
    assert_eq!(error["param"], "previous_response_id");
}

#[tokio::test]
async fn a_warm_up_calls_no_provider_and_can_be_gone_on_from() {
    let gateway = gateway();
    let tag = new_trace();
    let trace = new_trace();
    let headers = [&ours("@anthropic-emulator", &trace)[..], &[SHORT, ("x-emulator-tag", &*tag)]].concat();
    let mut socket = open(&gateway, &headers).await;
    let warm = socket.outcome_of(&create(&json!("I am Ann"), &json!({"generate": false}))).await;
    assert_eq!((&warm["type"], &warm["response"]["output"]), (&json!("response.completed"), &json!([])));
    assert_eq!(gateway.emulator_requests(&tag).await.len(), 0);
    assert_eq!(gateway.access_line(&format!("{trace}-1")).await.get("cost_usd"), None);
    let next = json!({"previous_response_id": warm["response"]["id"]});
    assert_eq!(socket.outcome_of(&create(&json!("Who am I?"), &next)).await["type"], "response.completed");
    let bodies = bodies(&gateway, &tag).await;
    assert!(bodies.len() == 1 && bodies[0].to_string().contains("I am Ann"), "{bodies:?}");
}

#[tokio::test]
async fn errors_are_events_and_the_connection_goes_on() {
    let gateway = gateway();
    let mut socket = open(&gateway, &ours("@emulator", &new_trace())).await;
    for (event, status, param) in [
        (json!({"type": "session.update"}), 400, json!("type")),
        (create(&json!("a"), &json!({"stream_id": "b"})), 400, json!("stream_id")),
        (create(&json!("a"), &json!({"model": "gpt-4o-mini?status=429&retry_after=7"})), 429, Value::Null),
        (create(&json!("a"), &json!({"temperature": "hot"})), 400, json!("temperature")),
    ] {
        let error = socket.outcome_of(&event).await;
        assert_eq!((&error["type"], &error["status"]), (&json!("error"), &json!(status)), "{event} {error}");
        assert_eq!(error["error"]["param"], param, "{error}");
        if status == 429 {
            assert_eq!(error["headers"]["retry-after"], "7", "{error}");
        }
    }
    // A stream that breaks ends with an error, never as if it were complete.
    let broken =
        socket.outcome_of(&create(&json!("a"), &json!({"model": "gpt-4o-mini?fault=cut&after=3"}))).await;
    assert!(broken["type"] == "error" || broken["type"] == "response.failed", "{broken}");
    // What waits is run in its turn.
    let mut socket = open(&gateway, &[&ours("@emulator", &new_trace())[..], &[SHORT]].concat()).await;
    for _ in 0..3 {
        socket.send(&hello()).await;
    }
    for _ in 0..3 {
        assert_eq!(socket.response().await.last().unwrap()["type"], "response.completed");
    }
}

#[tokio::test]
async fn a_client_that_leaves_stops_the_provider() {
    let gateway = gateway();
    for closes in [true, false] {
        let tag = new_trace();
        let trace = new_trace();
        let more = [("x-emulator-script", "tokens=200&gap=100"), ("x-emulator-tag", &*tag)];
        let mut socket = open(&gateway, &[&ours("@emulator", &trace)[..], &more].concat()).await;
        socket.send(&hello()).await;
        assert_eq!(socket.event().await["type"], "response.created");
        if closes {
            socket.0.close(None).await.unwrap();
        }
        drop(socket);
        assert_eq!(gateway.emulator_requests(&tag).await[0]["closed"], "caller_left");
        assert_eq!(gateway.access_line(&format!("{trace}-1")).await["error_code"], "caller_left");
    }
}

#[tokio::test]
async fn a_key_counts_as_long_as_it_is_good() {
    let gateway = Gateway::start(STANDARD);
    let body = json!({"name": "k", "scopes": ["completions.write"], "allowed_models": ["gpt-4o-mini"]});
    let made = gateway.create("/v1/api-keys/workspace/service", &body).await;
    let key = made["key"].as_str().unwrap();
    let mut socket =
        open(&gateway, &[("x-gateway-api-key", key), ("x-gateway-provider", "@emulator"), SHORT]).await;
    assert_eq!(socket.outcome_of(&hello()).await["type"], "response.completed");
    let other = socket.outcome_of(&create(&json!("Hello"), &json!({"model": "gpt-4o"}))).await;
    assert_eq!(
        (&other["status"], &other["error"]["code"]),
        (&json!(403), &json!("model_forbidden")),
        "{other}"
    );
    let path = format!("/v1/api-keys/{}", made["id"].as_str().unwrap());
    assert!(gateway.control(Method::DELETE, &path).send().await.unwrap().status().is_success());
    let ended = socket.outcome_of(&hello()).await;
    assert_eq!(
        (&ended["status"], &ended["error"]["code"]),
        (&json!(401), &json!("invalid_api_key")),
        "{ended}"
    );
}

#[tokio::test]
async fn a_handshake_that_is_none_is_refused() {
    let gateway = gateway();
    for headers in [vec![("x-gateway-provider", "@emulator")], vec![("x-gateway-api-key", "wrong")]] {
        let Err(Error::Http(response)) = handshake(&gateway, "/v1/responses", &headers).await else {
            panic!("{headers:?} was accepted");
        };
        assert_eq!(response.status(), 401, "{headers:?}");
    }
    for path in PATHS {
        let url = format!("{}{path}", gateway.data_url());
        let call = crate::support::client::client().get(url).header("x-gateway-api-key", KEY);
        let response =
            call.header("upgrade", "other").header("x-gateway-provider", "@emulator").send().await.unwrap();
        // An offer that is not of a websocket is not taken, and reaches no provider: the request is a plain one.
        assert!(response.headers().contains_key("x-gateway-provider"), "{path} was not sent");
        // The emulator has no such path and shows what it got, or says that there is none.
        let status = response.status().as_u16();
        let shown = response.text().await.unwrap();
        assert!(matches!(status, 200 | 404) && !shown.contains("upgrade"), "{path} {status} {shown}");
    }
    let protocols = format!("realtime, openai-insecure-api-key.{KEY}");
    let headers = [("sec-websocket-protocol", &*protocols), ("x-gateway-provider", "@emulator"), SHORT];
    let (mut socket, response) = handshake(&gateway, "/v1/responses", &headers).await.unwrap();
    assert_eq!(response.headers()["sec-websocket-protocol"], "realtime");
    assert_eq!(socket.outcome_of(&hello()).await["type"], "response.completed");
}

#[tokio::test]
async fn messages_are_bounded_and_a_process_that_stops_closes_with_1001() {
    let gateway =
        Gateway::start(&format!("{STANDARD}limits: {{max_body_bytes: 5000, idle_timeout_ms: 2000}}\n"));
    for (message, code) in [
        (Message::text("x".repeat(5001)), CloseCode::Size),
        (Message::binary(vec![1]), CloseCode::Unsupported),
    ] {
        let mut socket = open(&gateway, &ours("@emulator", &new_trace())).await;
        socket.0.send(message).await.unwrap();
        assert_eq!(socket.closed_with().await, code);
    }
    // A client that is silent and there is sent pings, and stays.
    let mut idle = open(&gateway, &ours("@emulator", &new_trace())).await;
    for _ in 0..3 {
        assert!(matches!(idle.message().await, Message::Ping(_)));
    }
    let mut running = open(
        &gateway,
        &[&ours("@emulator", &new_trace())[..], &[("x-emulator-script", "tokens=20&gap=50")]].concat(),
    )
    .await;
    running.send(&hello()).await;
    assert_eq!(running.event().await["type"], "response.created");
    gateway.terminate();
    assert_eq!(idle.closed_with().await, CloseCode::Away);
    assert_eq!(running.response().await.last().unwrap()["type"], "response.completed");
    assert_eq!(running.closed_with().await, CloseCode::Away);
    assert!(gateway.ended().await.success());
}
