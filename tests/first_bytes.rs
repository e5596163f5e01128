//! A connection that begins with something other than HTTP is refused at once, on both ports.
//!
//! Not requests that begin well and go on badly (`hostile_input`, `slow_clients`).

use crate::support::raw::Raw;
use crate::support::settings::STANDARD;
use crate::support::{Gateway, wait};
use std::time::{Duration, Instant};

/// The header timeout is 10 seconds.
const AT_ONCE: Duration = Duration::from_secs(4);

const CLIENT_HELLO: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x0a\x0a\x13\x01";

#[tokio::test]
async fn what_is_no_http_is_refused_at_once() {
    let gateway = Gateway::start(STANDARD);
    for (bytes, text) in [
        (CLIENT_HELLO, "This port speaks plain HTTP"),
        (b"\x16", "This port speaks plain HTTP"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "did not begin with an HTTP request"),
        (b"\x00\x01\x02", "did not begin with an HTTP request"),
        (b"\x03\x00\x00\x13\x0e\xe0", "did not begin with an HTTP request"),
        (b"EHLO mail.example\r\n", "did not begin with an HTTP request"),
        (b"{\"model\": \"m\"}", "did not begin with an HTTP request"),
    ] {
        let started = Instant::now();
        let mut connection = Raw::connect(gateway.ports.data).await;
        connection.write(bytes).await.unwrap();
        let response = String::from_utf8_lossy(&connection.read_to_end().await).into_owned();
        assert!(started.elapsed() < AT_ONCE, "{} after {:?}", bytes.escape_ascii(), started.elapsed());
        // Clients of TLS show these bytes as such: Go by name, OpenSSL as a wrong version number.
        assert!(response.starts_with("HTTP/1.1 400 "), "{response}");
        assert!(response.contains(text), "{response}");
    }
    // Byte by byte, and on a connection that was used.
    let mut connection = Raw::connect(gateway.ports.data).await;
    connection.write(b"GET /livez HTTP/1.1\r\nhost: g\r\n\r\n").await.unwrap();
    assert!(connection.read_response().await.starts_with("HTTP/1.1 200"));
    connection.write(b"SSH-2.0").await.unwrap();
    connection.write(b"-x\r\n").await.unwrap();
    let response = String::from_utf8(connection.read_to_end().await).unwrap();
    assert!(response.starts_with("HTTP/1.1 400"), "{response}");
    let counted = gateway.metric("turnpike_errors_total{code=\"invalid_request\"}").await;
    assert_eq!(counted, Some(8.0));
}

#[tokio::test]
async fn many_of_them_are_a_line_a_second() {
    let gateway = Gateway::start(STANDARD);
    for _ in 0..50 {
        let mut connection = Raw::connect(gateway.ports.data).await;
        connection.write(CLIENT_HELLO).await.unwrap();
        connection.read_to_end().await;
    }
    let lines = || gateway.log().lines().filter(|line| line.contains("began with TLS")).count();
    wait::until("the first line", async || (lines() > 0).then_some(())).await;
    assert!(lines() < 10, "{} lines\n{}", lines(), gateway.log());
}

#[tokio::test]
async fn the_control_port_refuses_them_at_once_too() {
    let gateway = crate::support::gateway();
    for bytes in [CLIENT_HELLO, b"SSH-2.0-OpenSSH_9.6\r\n", b"\x00\x01\x02"] {
        let started = Instant::now();
        let mut connection = Raw::connect(gateway.ports.control).await;
        connection.write(bytes).await.unwrap();
        let response = String::from_utf8_lossy(&connection.read_to_end().await).into_owned();
        assert!(started.elapsed() < AT_ONCE, "{} after {:?}", bytes.escape_ascii(), started.elapsed());
        assert!(response.starts_with("HTTP/1.1 400"), "{response}");
    }
}
