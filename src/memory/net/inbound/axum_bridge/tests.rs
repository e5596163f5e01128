//! The bridge over real loopback connections, with raw bytes and with an HTTP client.

use super::*;
use crate::net::inbound::h2c_guard::H2cGuard;
use axum::body::Bytes;
use axum::extract::ConnectInfo;
use axum::response::sse::{Event, Sse};
use axum::routing::{get, post};
use http::{HeaderMap, StatusCode};
use pingora_core::apps::ServerApp;
use pingora_core::protocols::l4::stream::Stream as L4Stream;
use pingora_core::protocols::{GetSocketDigest, SocketDigest, Stream};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

fn limits() -> ConnectionLimits {
    ConnectionLimits {
        max_body: 1024,
        header_timeout: Duration::from_millis(300),
        body_timeout: Duration::from_millis(300),
        ..ConnectionLimits::default()
    }
}

/// A stream of events that the test feeds. The sender of `feed` notices when the stream is dropped.
fn events(feed: mpsc::Receiver<&'static str>) -> impl futures_util::Stream<Item = Result<Event, Infallible>> {
    futures_util::stream::unfold(feed, |mut feed| async move {
        let text = feed.recv().await?;
        Some((Ok(Event::default().data(text)), feed))
    })
}

fn router(feed: Option<mpsc::Receiver<&'static str>>) -> Router {
    let feed = Arc::new(parking_lot::Mutex::new(feed));
    Router::new()
        .route("/hello", get(|| async { "hello" }))
        .route("/echo", post(|body: Bytes| async move { body }))
        .route(
            "/peer",
            get(|ConnectInfo(peer): ConnectInfo<SocketAddr>| async move { peer.ip().to_string() }),
        )
        .route("/nothing", get(|| async { StatusCode::NO_CONTENT }))
        .route("/path", get(|uri: http::Uri| async move { uri.to_string() }))
        .route("/events", get(move || async move { Sse::new(events(feed.lock().take().unwrap())) }))
}

/// The body for a head that cannot be read.
const INVALID: &str = r#"{"error":{}}"#;

/// Serves `router` as the control plane does. Returns the address and the switch that signals a shutdown.
async fn spawn_server(router: Router) -> (SocketAddr, watch::Sender<bool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = Arc::new(H2cGuard::new(
        AxumApp::new(router, limits(), Bytes::from_static(INVALID.as_bytes())),
        Duration::from_millis(300),
    ));
    let (stop, shutdown) = watch::channel(false);
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let app = Arc::clone(&app);
            let shutdown = shutdown.clone();
            tokio::spawn(async move { app.process_new(stream(socket), &shutdown).await.is_some() });
        }
    });
    (address, stop)
}

fn stream(socket: TcpStream) -> Stream {
    // As Pingora's listener does: the client's address is read from this digest.
    let digest = SocketDigest::from_raw_fd(socket.as_raw_fd());
    let mut socket: L4Stream = socket.into();
    socket.set_socket_digest(digest);
    Box::new(socket)
}

/// Sends bytes and reads until the other side closes.
async fn exchange_bytes(address: SocketAddr, text: &str) -> String {
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(text.as_bytes()).await.unwrap();
    let mut out = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(5), socket.read_to_end(&mut out)).await;
    assert!(read.is_ok(), "still open after {text:?}: {}", String::from_utf8_lossy(&out));
    String::from_utf8(out).unwrap()
}

fn client() -> reqwest::ClientBuilder {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy()
}

#[tokio::test]
async fn requests_and_responses_over_http_1_and_http_2() {
    let (address, _stop) = spawn_server(router(None)).await;
    for client in [client(), client().http2_prior_knowledge()] {
        let client = client.build().unwrap();
        let url = |path: &str| format!("http://{address}{path}");
        let hello = client.get(url("/hello")).send().await.unwrap();
        assert_eq!(hello.headers()["content-length"], "5");
        assert_eq!(hello.text().await.unwrap(), "hello");
        let body = "x".repeat(1024);
        let echo = client.post(url("/echo")).body(body.clone()).send().await.unwrap();
        assert_eq!(echo.text().await.unwrap(), body);
        let peer = client.get(url("/peer")).send().await.unwrap();
        assert_eq!(peer.text().await.unwrap(), "127.0.0.1");
        let response = client.head(url("/hello")).send().await.unwrap();
        assert_eq!(
            (response.status(), &response.headers()["content-length"]),
            (StatusCode::OK, &"5".parse().unwrap())
        );
        let nothing = client.get(url("/nothing")).send().await.unwrap();
        assert_eq!(
            (nothing.status(), nothing.headers().get("content-length")),
            (StatusCode::NO_CONTENT, None)
        );
        assert_eq!(client.get(url("/absent")).send().await.unwrap().status(), StatusCode::NOT_FOUND);
        assert_eq!(client.put(url("/hello")).send().await.unwrap().status(), StatusCode::METHOD_NOT_ALLOWED);
        // The connection is still good after all that.
        assert_eq!(client.get(url("/hello")).send().await.unwrap().text().await.unwrap(), "hello");
    }
}

#[tokio::test]
async fn one_connection_serves_many_requests_and_keeps_their_bounds() {
    let (address, _stop) = spawn_server(router(None)).await;
    let text = "GET /path?a=%20b HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut socket = TcpStream::connect(address).await.unwrap();
    for _ in 0..3 {
        socket.write_all(text.as_bytes()).await.unwrap();
        let mut chunk = [0; 1024];
        let read = socket.read(&mut chunk).await.unwrap();
        let mut out = String::from_utf8_lossy(&chunk[..read]).into_owned();
        while !out.ends_with("/path?a=%20b") {
            let read = socket.read(&mut chunk).await.unwrap();
            assert!(read > 0, "{out}");
            out.push_str(&String::from_utf8_lossy(&chunk[..read]));
        }
        assert!(out.starts_with("HTTP/1.1 200 OK\r\n"), "{out}");
    }
    let response =
        exchange_bytes(address, "HEAD /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    assert!(
        response.contains("ontent-Length: 5\r\n") || response.contains("ontent-length: 5\r\n"),
        "{response}"
    );
    assert!(response.ends_with("\r\n\r\n"), "{response}");
}

#[tokio::test]
async fn bodies_above_the_limit_get_413() {
    let (address, _stop) = spawn_server(router(None)).await;
    let announced = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1025\r\n\r\n";
    let chunked = format!(
        "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n401\r\n{}\r\n0\r\n\r\n",
        "x".repeat(1025)
    );
    for text in [announced, &chunked] {
        let out = exchange_bytes(address, text).await;
        assert!(out.starts_with("HTTP/1.1 413 "), "{out}");
        let (_, body) = out.split_once("\r\n\r\n").unwrap();
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["error"]["code"], "body_too_large");
    }
}

#[tokio::test]
async fn slow_idle_and_broken_clients_do_not_hold_a_connection() {
    let (address, _stop) = spawn_server(router(None)).await;
    // A body that never arrives, a header that never ends, silence, half a preface, bytes that are not HTTP.
    let out = exchange_bytes(address, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab").await;
    assert!(out.starts_with("HTTP/1.1 408 "), "{out}");
    assert_eq!(exchange_bytes(address, "GET /hello HTTP/1.1\r\nHost").await, "");
    assert_eq!(exchange_bytes(address, "").await, "");
    assert_eq!(exchange_bytes(address, "PRI * HTTP/2.0\r\n").await, "");
    for text in ["\x16\x03\x01\x02\x00 hello there", "GET\r\n\r\n", "GET / HTTP/1.1\r\nbad header\r\n\r\n"] {
        let out = exchange_bytes(address, text).await;
        assert!(out.starts_with("HTTP/1.1 400 ") && out.ends_with(INVALID), "{text:?}: {out}");
    }
    // Longer than the parser takes a target.
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(70_000));
    let out = exchange_bytes(address, &long).await;
    assert!(out.starts_with("HTTP/1.1 400 ") && out.ends_with(INVALID), "{out}");
}

#[tokio::test]
async fn a_short_http_1_0_request_gets_a_response_with_h2c_on() {
    let (address, _stop) = spawn_server(router(None)).await;
    let out = exchange_bytes(address, "GET / HTTP/1.0\r\n\r\n").await;
    assert!(out.contains(" 404 ") && out.contains("onnection: close"), "{out}");
    assert!(!out.to_ascii_lowercase().contains("chunked"), "{out}");
}

#[tokio::test]
async fn a_client_that_waits_for_100_continue_gets_it() {
    let (address, _stop) = spawn_server(router(None)).await;
    let mut socket = TcpStream::connect(address).await.unwrap();
    let response = "POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\n";
    socket.write_all(response.as_bytes()).await.unwrap();
    let mut go = [0; 25];
    socket.read_exact(&mut go).await.unwrap();
    assert_eq!(&go, b"HTTP/1.1 100 Continue\r\n\r\n");
    socket.write_all(b"ok").await.unwrap();
    let mut out = String::new();
    socket.read_to_string(&mut out).await.unwrap();
    assert!(out.starts_with("HTTP/1.1 200 OK\r\n") && out.ends_with("ok"), "{out}");
}

#[tokio::test]
async fn events_arrive_one_by_one_and_stop_when_the_client_disconnects() {
    for prior_knowledge in [false, true] {
        let (feed, fed) = mpsc::channel(4);
        let (address, _stop) = spawn_server(router(Some(fed))).await;
        let client = if prior_knowledge { client().http2_prior_knowledge() } else { client() };
        let client = client.build().unwrap();
        let mut response = client.get(format!("http://{address}/events")).send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        for text in ["one", "two"] {
            // The second event is sent only once the first has arrived: nothing is buffered.
            feed.send(text).await.unwrap();
            assert_eq!(response.chunk().await.unwrap().unwrap(), format!("data: {text}\n\n"));
        }
        drop(response);
        drop(client);
        // The source is dropped although no further event is written.
        tokio::time::timeout(Duration::from_secs(5), feed.closed()).await.unwrap();
    }
}

#[tokio::test]
async fn after_the_shutdown_signal_a_connection_ends_with_its_response() {
    let (address, stop) = spawn_server(router(None)).await;
    let idle = tokio::spawn(async move { exchange_bytes(address, "").await });
    tokio::task::yield_now().await;
    stop.send(true).unwrap();
    assert_eq!(idle.await.unwrap(), "");
    let out = exchange_bytes(address, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(out.is_empty() || out.ends_with("hello"), "{out}");
}

#[tokio::test]
async fn the_data_plane_forwards_a_request() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let client_task = tokio::spawn(async move {
        let request = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nConnection: close\r\n\r\nping";
        let big = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n";
        (exchange_bytes(address, request).await, exchange_bytes(address, big).await)
    });
    let mut outcomes = Vec::new();
    for _ in 0..2 {
        let (socket, _) = listener.accept().await.unwrap();
        let mut session = Session::new_h1(stream(socket));
        assert!(session.as_downstream_mut().read_request().await.unwrap());
        outcomes.push(
            serve(&mut session, &router(None), HeaderMap::new(), 8, &UnreadBodies::default()).await.unwrap(),
        );
        session.as_downstream_mut().shutdown().await;
    }
    let (first, second) = client_task.await.unwrap();
    assert!(first.starts_with("HTTP/1.1 200 OK\r\n") && first.ends_with("ping"), "{first}");
    assert!(second.starts_with("HTTP/1.1 413 "), "{second}");
    assert_eq!(outcomes[0], BridgeOutcome { status: 200, body_bytes: 4 });
    assert_eq!(outcomes[1].status, 413);
}
