//! Websockets pass in both directions: `/v1/realtime` and any other path, with the provider's key and none of
//! our headers.
//!
//! Not the content of a realtime session: the emulator echoes everything. Frames that the emulator would not
//! send come from a provider defined here.

use crate::support::client::{install_ring, new_trace};
use crate::support::provider::Provider;
use crate::support::settings::{KEY, PROVIDER_KEY, STANDARD};
use crate::support::wait::until;
use crate::support::{Gateway, gateway};
use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Response;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, accept_async, connect_async_with_config};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

const READ_TIMEOUT: Duration = Duration::from_secs(20);
const BIG: usize = 8 << 20;
/// How long providers here wait before they upgrade. Pingora 0.9.1 closes a websocket if the 101 arrives
/// before it has switched from writing the request header to reading: it then takes its own note that a GET
/// has no body for the client's close. Providers behind a network are never that fast; one on the loopback of
/// a busy machine is.
const THOUGHT: Duration = Duration::from_millis(100);
const THINKS: (&str, &str) = ("x-emulator-script", "latency=100");

async fn open(gateway: &Gateway, path: &str, headers: &[(&str, &str)]) -> Result<(Socket, Response), Error> {
    install_ring();
    let mut request =
        format!("ws://127.0.0.1:{}/v1/{path}", gateway.ports.data).into_client_request().unwrap();
    for (name, value) in headers {
        let name: http::HeaderName = name.parse().unwrap();
        if name == http::header::CONNECTION {
            request.headers_mut().remove(&name);
        }
        request.headers_mut().append(name, value.parse().unwrap());
    }
    let config = WebSocketConfig::default().max_frame_size(Some(4 * BIG)).max_message_size(Some(4 * BIG));
    tokio::time::timeout(READ_TIMEOUT, connect_async_with_config(request, Some(config), true)).await.unwrap()
}

async fn next(socket: &mut Socket) -> Message {
    tokio::time::timeout(READ_TIMEOUT, socket.next()).await.expect("no message arrived").unwrap().unwrap()
}

fn ours(trace: &str) -> [(&str, &str); 3] {
    [("x-gateway-api-key", KEY), ("x-gateway-provider", "@emulator"), ("x-gateway-trace-id", trace)]
}

#[tokio::test]
async fn a_session_past_the_grace_period_ends_with_an_error_and_a_close() {
    let gateway = Gateway::start(&STANDARD.replace("grace_period_seconds: 5", "grace_period_seconds: 1"));
    let trace = new_trace();
    let (mut socket, _) = open(&gateway, "realtime?model=gpt-realtime", &ours(&trace)).await.unwrap();
    let Message::Text(created) = next(&mut socket).await else { panic!("no session.created") };
    assert!(created.contains("session.created"), "{created}");
    gateway.terminate();
    let Message::Text(event) = next(&mut socket).await else { panic!("no error event") };
    let event: Value = serde_json::from_str(&event).unwrap();
    assert_eq!((&event["type"], &event["error"]["code"]), (&"error".into(), &"draining".into()), "{event}");
    let Message::Close(Some(CloseFrame { code, reason })) = next(&mut socket).await else {
        panic!("no close")
    };
    assert_eq!(code, CloseCode::Away);
    assert!(reason.contains("connect again"), "{reason}");
    assert!(gateway.ended().await.success());
    let line = gateway.access_line(&trace).await;
    assert_eq!(line["error_code"], "draining", "{line}");
}

#[tokio::test]
async fn messages_pass_in_both_directions() {
    let gateway = gateway();
    let trace = new_trace();
    let tag = new_trace();
    let headers =
        [&ours(&trace)[..], &[THINKS, ("x-emulator-tag", &*tag), ("openai-beta", "realtime=v1")]].concat();
    let (mut socket, response) = open(&gateway, "realtime?model=gpt-realtime", &headers).await.unwrap();
    assert_eq!(response.status(), 101);
    assert_eq!(response.headers()["x-gateway-trace-id"], &*trace);
    // The provider sends the first message.
    let created: Value = serde_json::from_str(next(&mut socket).await.to_text().unwrap()).unwrap();
    assert_eq!(
        (&created["type"], &created["session"]["model"]),
        (&"session.created".into(), &"gpt-realtime".into())
    );

    let big: Vec<u8> = (0..BIG).map(|at| (at * 31 % 251) as u8).collect();
    let text = format!("{{\"big\":\"{}\"}}", "é".repeat(BIG / 4));
    for message in [
        Message::text("{\"type\":\"x\",\"text\":\"caf\u{e9} \u{1F980}\"}"),
        Message::text("no JSON"),
        Message::text(text),
        Message::binary(vec![]),
        Message::binary(big),
    ] {
        socket.send(message.clone()).await.unwrap();
        assert!(next(&mut socket).await == message, "{} bytes were changed", message.len());
    }
    socket.send(Message::Ping("are you there".into())).await.unwrap();
    assert_eq!(next(&mut socket).await, Message::Pong("are you there".into()));

    socket.send(Message::text("{\"type\":\"emulator.close\",\"code\":4321}")).await.unwrap();
    let bye = CloseFrame { code: CloseCode::from(4321), reason: "as you wish".into() };
    assert_eq!(next(&mut socket).await, Message::Close(Some(bye)));
    let ended = tokio::time::timeout(READ_TIMEOUT, socket.next()).await.unwrap();
    assert!(ended.is_none() || ended.unwrap().is_err());

    let got = gateway.emulator_requests(&tag).await;
    assert_eq!(got.len(), 1);
    let got = got[0].to_string();
    assert!(got.contains(PROVIDER_KEY) && got.contains("realtime=v1"), "{got}");
    assert!(!got.contains(KEY) && !got.contains("x-gateway-"), "{got}");
    let line = gateway.access_line(&trace).await;
    assert_eq!((&line["status"], &line["operation"]), (&101.into(), &"realtime".into()), "{line}");
    assert!(line["bytes_out"].as_u64().unwrap() > BIG as u64, "{line}");
    assert!(line["bytes_in"].as_u64().unwrap() > BIG as u64, "{line}");
}

/// What a client of a socket sends is no upload, which must come at a least rate.
#[tokio::test]
async fn a_client_of_a_socket_may_send_little() {
    let gateway =
        Gateway::start(&format!("{STANDARD}limits: {{body_timeout_ms: 300, min_body_rate: 100000}}\n"));
    let (mut socket, _) = open(&gateway, "realtime?model=gpt-realtime", &ours(&new_trace())).await.unwrap();
    next(&mut socket).await;
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        socket.send(Message::text("a")).await.unwrap();
        assert_eq!(next(&mut socket).await, Message::text("a"));
    }
}

/// The emulator sends back what it is sent.
#[tokio::test]
async fn a_session_is_charged_for_its_responses() {
    let gateway = gateway();
    let done = |input: u64, output: u64| {
        let usage = serde_json::json!({"total_tokens": input + output, "input_tokens": input, "output_tokens": output,
            "input_token_details": {"text_tokens": input, "audio_tokens": 0, "cached_tokens": 0},
            "output_token_details": {"text_tokens": output, "audio_tokens": 0}});
        serde_json::json!({"type": "response.done", "event_id": "e", "response": {"status": "completed", "usage": usage}})
    };
    for (messages, tokens) in [(vec![done(1000, 100), done(500, 50)], Some((1500, 150))), (vec![], None)] {
        let trace = new_trace();
        let headers = [&ours(&trace)[..], &[THINKS]].concat();
        let (mut socket, _) = open(&gateway, "realtime?model=gpt-realtime", &headers).await.unwrap();
        next(&mut socket).await;
        for message in messages {
            socket.send(Message::text(message.to_string())).await.unwrap();
            next(&mut socket).await;
        }
        socket.close(None).await.unwrap();
        next(&mut socket).await;
        drop(socket);
        // Each response has a line of its own; the session has no cost.
        let member = format!("\"trace_id\":{}", Value::from(&*trace));
        let lines = until("the session's line", async || {
            let lines = gateway.stdout.lines_with(&member);
            lines.iter().any(|line| line.contains("\"status\":101")).then_some(lines)
        });
        let lines: Vec<Value> = lines.await.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        let of_session = lines.iter().find(|line| line["status"] == 101).unwrap();
        assert_eq!((of_session.get("cost_usd"), of_session.get("tokens")), (None, None), "{of_session}");
        let turns: Vec<&Value> = lines.iter().filter(|line| line["status"] == 200).collect();
        let sum = |name: &str| turns.iter().filter_map(|line| line["tokens"][name].as_u64()).sum::<u64>();
        let (input, output) = tokens.unwrap_or_default();
        assert_eq!((sum("input"), sum("output")), (input, output), "{lines:?}");
        // 4 and 16 dollars per million.
        let cost: f64 = turns.iter().filter_map(|line| line["cost_usd"].as_f64()).sum();
        assert!((cost - (input * 4 + output * 16) as f64 / 1e6).abs() < 1e-12, "{lines:?}");
    }
}

#[tokio::test]
async fn a_client_close_reaches_the_provider() {
    let gateway = gateway();
    let trace = new_trace();
    let tag = new_trace();
    let headers = [&ours(&trace)[..], &[THINKS, ("x-emulator-tag", &*tag)]].concat();
    let (mut socket, _) = open(&gateway, "realtime?model=m", &headers).await.unwrap();
    next(&mut socket).await;
    let bye = CloseFrame { code: CloseCode::Away, reason: "lunch".into() };
    socket.close(Some(bye.clone())).await.unwrap();
    assert_eq!(next(&mut socket).await, Message::Close(Some(bye)));
    assert_eq!(gateway.emulator_requests(&tag).await[0]["closed"], "complete");

    // A client that closes without a close frame.
    let tag = new_trace();
    let headers = [&ours(&trace)[..], &[THINKS, ("x-emulator-tag", &*tag)]].concat();
    let (mut socket, _) = open(&gateway, "realtime?model=m", &headers).await.unwrap();
    next(&mut socket).await;
    drop(socket);
    assert_eq!(gateway.emulator_requests(&tag).await[0]["closed"], "caller_left");
}

#[tokio::test]
async fn a_handshake_without_a_key_is_refused() {
    let gateway = gateway();
    for (headers, wanted) in [
        (vec![("x-gateway-provider", "@emulator")], 401),
        (vec![("x-gateway-api-key", "wrong"), ("x-gateway-provider", "@emulator")], 401),
        (vec![("x-gateway-api-key", KEY)], 400),
        (vec![("x-gateway-api-key", KEY), ("x-gateway-provider", "@nobody")], 400),
    ] {
        let Err(Error::Http(response)) = open(&gateway, "realtime?model=m", &headers).await else {
            panic!("{headers:?} was accepted");
        };
        assert_eq!(response.status(), wanted, "{headers:?}");
        let body = String::from_utf8(response.into_body().unwrap()).unwrap();
        assert!(body.contains("\"error\""), "{headers:?}: {body}");
    }
}

#[tokio::test]
async fn a_refused_upgrade_is_returned_to_the_client() {
    let gateway = gateway();
    for status in [401, 404, 429, 503] {
        let script = format!("status={status}");
        let trace = new_trace();
        let headers = [&ours(&trace)[..], &[("x-emulator-script", &*script)]].concat();
        let Err(Error::Http(response)) = open(&gateway, "realtime?model=m", &headers).await else {
            panic!("{status} became an upgrade");
        };
        assert_eq!(response.status(), status);
        let body: Value = serde_json::from_slice(response.body().as_ref().unwrap()).unwrap();
        assert!(body["error"]["message"].as_str().unwrap().contains(&status.to_string()), "{body}");
    }
    // A provider that treats the upgrade as an ordinary request.
    let provider = Provider::start(|_| b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}".to_vec()).await;
    let host = provider.base_url();
    let headers = [
        ("x-gateway-api-key", KEY),
        ("x-gateway-provider", "openai"),
        ("authorization", "Bearer k"),
        ("x-gateway-custom-host", &host),
    ];
    let Err(Error::Http(response)) = open(&gateway, "realtime?model=m", &headers).await else {
        panic!("200 became an upgrade");
    };
    assert_eq!(response.status(), 200);
}

#[tokio::test]
async fn sub_protocols_and_the_upgrade_reach_the_provider() {
    let gateway = gateway();
    let trace = new_trace();
    let tag = new_trace();
    let protocols = "realtime, openai-insecure-api-key.sk-browser, openai-beta.realtime-v1";
    let headers =
        [&ours(&trace)[..], &[THINKS, ("x-emulator-tag", &*tag), ("sec-websocket-protocol", protocols)]]
            .concat();
    let named = [
        ("connection", "Upgrade, x-own"),
        ("x-own", "1"),
        ("cf-connecting-ip", "192.0.2.7"),
        ("x-kept", "1"),
    ];
    let headers = [&headers[..], &named].concat();
    let (mut socket, response) = open(&gateway, "realtime?model=m", &headers).await.unwrap();
    assert_eq!(response.headers()["sec-websocket-protocol"], "realtime");
    next(&mut socket).await;
    drop(socket);
    let got = gateway.emulator_requests(&tag).await;
    let header = |name: &str| {
        let headers = got[0]["headers"].as_array().unwrap();
        let found = headers.iter().find(|header| header[0].as_str().unwrap().eq_ignore_ascii_case(name));
        found.map(|header| header[1].as_str().unwrap().to_owned())
    };
    // A key there is treated like one in a header: a stored provider gets its own.
    assert_eq!(header("sec-websocket-protocol").as_deref(), Some("realtime, openai-beta.realtime-v1"));
    assert!(!got[0].to_string().contains("sk-browser"), "{got:?}");
    assert_eq!(header("upgrade").as_deref(), Some("websocket"));
    assert_eq!(header("sec-websocket-version").as_deref(), Some("13"));
    assert_eq!(header("connection").as_deref(), Some("Upgrade"));
    let named = ["x-own", "cf-connecting-ip", "x-kept"].map(header);
    assert_eq!(named, [None, None, Some("1".to_owned())], "{got:?}");
}

/// As `new WebSocket(url, protocols)` of a page sends it: no header can be set there.
const PROTOCOLS: &str = "realtime, openai-insecure-api-key.THE-KEY, openai-organization.org-1, openai-project.proj-1, \
                         openai-beta.realtime-v1";
const OTHER_PROTOCOLS: &str =
    "realtime, openai-organization.org-1, openai-project.proj-1, openai-beta.realtime-v1";

#[tokio::test]
async fn a_page_logs_in_by_the_subprotocol() {
    let gateway = gateway();
    let trace = new_trace();
    let tag = new_trace();
    let protocols = PROTOCOLS.replace("THE-KEY", KEY);
    let common = [THINKS, ("x-gateway-provider", "@emulator"), ("x-emulator-tag", &*tag)];
    let own = [("x-gateway-trace-id", &*trace), ("sec-websocket-protocol", &*protocols)];
    let (mut socket, response) =
        open(&gateway, "realtime?model=m", &[&common[..], &own].concat()).await.unwrap();
    assert_eq!(response.headers()["sec-websocket-protocol"], "realtime");
    next(&mut socket).await;
    drop(socket);
    let got = gateway.emulator_requests(&tag).await[0].to_string();
    assert!(got.contains(OTHER_PROTOCOLS) && got.contains(PROVIDER_KEY) && !got.contains(KEY), "{got}");
    assert_eq!(gateway.access_line(&trace).await["key"], "tests");

    let wrong = PROTOCOLS.replace("THE-KEY", "sk-wrong-1");
    let wrong = [("x-gateway-provider", "@emulator"), ("sec-websocket-protocol", &*wrong)];
    let Err(Error::Http(response)) = open(&gateway, "realtime?model=m", &wrong).await else {
        panic!("a wrong key was accepted");
    };
    let text = String::from_utf8(response.body().clone().unwrap()).unwrap();
    assert_eq!(response.status(), 401, "{text}");
    assert!(
        text.contains("Unknown service key in sec-websocket-protocol") && !text.contains("sk-wrong"),
        "{text}"
    );
}

#[tokio::test]
async fn a_providers_key_in_the_subprotocol_becomes_its_own_header() {
    let gateway = gateway();
    let tag = new_trace();
    let protocols = PROTOCOLS.replace("THE-KEY", "sk-browser");
    let host = format!("{}/v1", gateway.emulator_url());
    let headers = [
        THINKS,
        ("x-gateway-api-key", KEY),
        ("x-gateway-provider", "openai"),
        ("x-gateway-custom-host", &host),
        ("x-emulator-tag", &tag),
        ("sec-websocket-protocol", &protocols),
    ];
    let (mut socket, _) = open(&gateway, "realtime?model=m", &headers).await.unwrap();
    next(&mut socket).await;
    drop(socket);
    let got = gateway.emulator_requests(&tag).await[0]["headers"].to_string();
    assert!(got.contains(OTHER_PROTOCOLS) && got.contains("Bearer sk-browser"), "{got}");
    assert_eq!(got.matches("sk-browser").count(), 1, "{got}");
}

/// A browser closes a websocket whose handshake names none of its subprotocols.
#[tokio::test]
async fn a_provider_without_subprotocols_is_named_one() {
    let gateway = gateway();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let host = format!("http://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::time::sleep(THOUGHT).await;
            let mut socket = accept_async(stream).await.unwrap();
            socket.send(Message::text("hello")).await.unwrap();
            let _closed = socket.next().await;
        }
    });
    let protocols = PROTOCOLS.replace("THE-KEY", "sk-browser");
    let headers = [
        ("x-gateway-api-key", KEY),
        ("x-gateway-provider", "openai"),
        ("x-gateway-custom-host", &*host),
        ("sec-websocket-protocol", &*protocols),
    ];
    let (mut socket, response) = open(&gateway, "realtime?model=m", &headers).await.unwrap();
    assert_eq!(response.headers()["sec-websocket-protocol"], "realtime");
    assert_eq!(next(&mut socket).await, Message::text("hello"));
}

#[tokio::test]
async fn any_path_may_be_a_websocket_and_the_provider_may_ping_first() {
    let gateway = gateway();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let host = format!("http://{}/v1", listener.local_addr().unwrap());
    let provider = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::time::sleep(THOUGHT).await;
        let mut socket = accept_async(stream).await.unwrap();
        socket.send(Message::Ping("1".into())).await.unwrap();
        socket.send(Message::text("hello")).await.unwrap();
        let mut got = Vec::new();
        while let Some(Ok(message)) = socket.next().await {
            got.push(message);
        }
        got
    });
    let headers = [
        ("x-gateway-api-key", KEY),
        ("x-gateway-provider", "openai"),
        ("authorization", "Bearer k"),
        ("x-gateway-custom-host", &host),
    ];
    let (mut socket, _) = open(&gateway, "proxy/listen?x=1", &headers).await.unwrap();
    assert_eq!(next(&mut socket).await, Message::Ping("1".into()));
    assert_eq!(next(&mut socket).await, Message::text("hello"));
    socket.send(Message::text("bye")).await.unwrap();
    socket.close(None).await.unwrap();
    while let Ok(Some(Ok(_))) = tokio::time::timeout(READ_TIMEOUT, socket.next()).await {}
    let got = tokio::time::timeout(READ_TIMEOUT, provider).await.unwrap().unwrap();
    assert_eq!(got, [Message::Pong("1".into()), Message::text("bye"), Message::Close(None)]);
}
