//! Whose address a request has behind proxies: `listen.trusted_proxies` with headers, and the PROXY protocol, plain and before TLS.
//!
//! Not real balancers (`balancers`), nor how each form of an address is read (`net::inbound::client_address`).

use crate::support::client::{chat, hello, install_ring, new_trace, status};
use crate::support::gateway::Gateway;
use crate::support::raw::{self, Raw};
use crate::support::settings::{KEY, OPERATOR_KEY, STANDARD};
use crate::support::wait::until;
use crate::support::{gateway, ports};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// `data`: further data listeners, each after a comma. `trusted`: the list.
fn start(data: &str, trusted: &str) -> Gateway {
    let listen = format!(
        "listen:
  data: [127.0.0.1:DATA_PORT{data}]
  control: 127.0.0.1:CONTROL_PORT
  trusted_proxies: [{trusted}]
emulator: {{listen: 127.0.0.1:EMULATOR_PORT}}"
    );
    Gateway::start(&format!("{listen}{STANDARD}"))
}

#[tokio::test]
async fn a_trusted_proxy_names_the_client_and_others_do_not() {
    let trusting = start("", "127.0.0.1, 10.0.0.0/8");
    let caller = async |gateway: &Gateway, name: &str, value: &str| {
        let trace = new_trace();
        assert_eq!(status(chat(gateway, &trace, &hello(false)).header(name, value)).await, 200);
        gateway.access_line(&trace).await["caller"].as_str().unwrap().to_owned()
    };
    assert_eq!(caller(&trusting, "x-forwarded-for", "1.1.1.1, 203.0.113.9, 10.0.0.7").await, "203.0.113.9");
    assert_eq!(caller(&trusting, "forwarded", "for=\"[2001:db8::9]:4711\";proto=https").await, "2001:db8::9");
    assert_eq!(caller(&trusting, "x-real-ip", "203.0.113.9").await, "127.0.0.1");
    assert_eq!(caller(&gateway(), "x-forwarded-for", "203.0.113.9").await, "127.0.0.1");
    assert_eq!(caller(&gateway(), "forwarded", "for=203.0.113.9").await, "127.0.0.1");
    // The audit log of the control plane, at both ports.
    for (at, address) in [(trusting.control_url(), "203.0.113.1"), (trusting.data_url(), "203.0.113.2")] {
        let slug = format!("audited-{}", address.replace('.', "-"));
        let call = crate::support::client::client().post(format!("{at}/v1/configs"));
        let call = call.header("x-gateway-api-key", OPERATOR_KEY).header("x-forwarded-for", address);
        let config = json!({"name": slug, "slug": slug, "config": {"provider": "@emulator"}, "workspace_id": "default"});
        assert_eq!(status(call.json(&config)).await, 200);
    }
    let entries = trusting.read("/v1/audit-logs?resource_type=configs").await.to_string();
    assert!(entries.contains("203.0.113.1") && entries.contains("203.0.113.2"), "{entries}");
    // In force with the next reload.
    let text = std::fs::read_to_string(trusting.folder().join("turnpike.yaml")).unwrap();
    trusting.reload(&text.replace("trusted_proxies: [127.0.0.1, 10.0.0.0/8]", "trusted_proxies: []"));
    until("the settings without proxies", async || {
        let found = caller(&trusting, "x-forwarded-for", "203.0.113.9").await;
        (found == "127.0.0.1").then_some(())
    })
    .await;
}

/// A chat as bytes.
fn request(trace: &str) -> Vec<u8> {
    let body = hello(false).to_string();
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-gateway-api-key: {KEY}\r\nx-gateway-provider: @emulator\r\n\
         x-gateway-trace-id: {trace}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn v2() -> Vec<u8> {
    [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"[..], &[203, 0, 113, 9, 127, 0, 0, 1, 0x12, 0x67, 1, 0xbb]]
        .concat()
}

const V1: &[u8] = b"PROXY TCP4 203.0.113.9 127.0.0.1 4711 443\r\n";

async fn caller(gateway: &Gateway, trace: &str) -> Value {
    gateway.access_line(trace).await["caller"].clone()
}

#[tokio::test]
async fn the_proxy_protocol_names_the_client_of_a_connection() {
    let port = ports::free();
    let gateway = start(&format!(", {{address: '127.0.0.1:{port}', proxy_protocol: true}}"), "127.0.0.1");
    for (header, expected) in [
        (V1.to_vec(), "203.0.113.9"),
        (v2(), "203.0.113.9"),
        (b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.1"),
        (b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0".to_vec(), "127.0.0.1"),
    ] {
        // Two requests on a connection with one header; the first is in the same segment, and the header in two.
        let mut connection = Raw::connect(port).await;
        let traces = [new_trace(), new_trace()];
        connection.write(&header[..9]).await.unwrap();
        connection.write(&[&header[9..], &request(&traces[0])].concat()).await.unwrap();
        assert!(connection.read_response().await.starts_with("HTTP/1.1 200"));
        connection.write(&request(&traces[1])).await.unwrap();
        assert!(connection.read_response().await.starts_with("HTTP/1.1 200"));
        for trace in &traces {
            assert_eq!(caller(&gateway, trace).await, expected);
        }
    }
    // HTTP/2 with prior knowledge.
    let h2 =
        raw::send(port, &[V1, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", &goaway()].concat())
            .await;
    assert!(h2.len() >= 9 && h2[3] == 4, "no SETTINGS frame: {h2:?}");
    // The other listener takes no header, and this one no connection without.
    let refused = raw::send(gateway.ports.data, &[V1, &request("none")].concat()).await;
    assert!(!String::from_utf8_lossy(&refused).contains(" 200 "), "{}", String::from_utf8_lossy(&refused));
    assert_eq!(raw::send(port, &request("none")).await, b"");
    logged(&gateway, "does not begin with a header of the PROXY protocol").await;
}

/// Waits for a line of the log, which is written beside the connection.
async fn logged(gateway: &Gateway, text: &str) {
    until(text, async || (!gateway.stderr.lines_with(text).is_empty()).then_some(())).await;
}

/// A frame that ends an HTTP/2 connection.
fn goaway() -> Vec<u8> {
    [&b"\0\0\x08\x07\0\0\0\0\0"[..], &[0; 8]].concat()
}

#[tokio::test]
async fn a_connection_with_the_header_from_somewhere_else_is_closed() {
    let port = ports::free();
    let gateway = start(&format!(", {{address: '127.0.0.1:{port}', proxy_protocol: true}}"), "192.0.2.1");
    assert_eq!(raw::send(port, &[V1, &request("none")].concat()).await, b"");
    logged(&gateway, "the peer is not in listen.trusted_proxies").await;
}

/// A connection with TLS that begins with the header; the first response on it.
async fn over_tls(port: u16, folder: &Path, trace: &str) -> String {
    install_ring();
    let mut roots = rustls::RootCertStore::empty();
    let pem = std::fs::read(folder.join("cert.pem")).unwrap();
    let certificate = rustls::pki_types::pem::PemObject::from_pem_slice(&pem).unwrap();
    roots.add(certificate).unwrap();
    let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let mut socket = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    socket.write_all(&v2()).await.unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    let mut stream = connector.connect("localhost".try_into().unwrap(), socket).await.unwrap();
    stream.write_all(&request(trace)).await.unwrap();
    let mut read = vec![0; 1 << 14];
    let count = stream.read(&mut read).await.unwrap();
    String::from_utf8_lossy(&read[..count]).into_owned()
}

#[tokio::test]
async fn the_header_comes_before_tls() {
    let folder = tempfile::tempdir().unwrap();
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(folder.path().join("cert.pem"), pair.cert.pem()).unwrap();
    std::fs::write(folder.path().join("key.pem"), pair.signing_key.serialize_pem()).unwrap();
    let port = ports::free();
    let files = format!("cert: {0}/cert.pem, key: {0}/key.pem", folder.path().display());
    let listener = format!(", {{address: '127.0.0.1:{port}', proxy_protocol: true, tls: {{{files}}}}}");
    let gateway = start(&listener, "127.0.0.1");
    let trace = new_trace();
    let answer = over_tls(port, folder.path(), &trace);
    let response = tokio::time::timeout(Duration::from_secs(60), answer).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    assert_eq!(caller(&gateway, &trace).await, "203.0.113.9");
}
