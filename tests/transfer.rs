//! Bulk data: uploads and downloads pass in constant memory, and a slow end slows the other one down.
//!
//! Not websockets (`realtime`) and not event streams (`streams`). 64 MiB in each direction;
//! `TRANSFER_MIB=1024` makes it 1 GiB.

use crate::support::client::{client, new_trace};
use crate::support::emulator::Emulator;
use crate::support::settings::{KEY, STANDARD};
use crate::support::wait::until;
use crate::support::{Gateway, report};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use reqwest::{Body, RequestBuilder};
use serde_json::Value;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const MIB: usize = 1 << 20;
/// The accepted growth of the gateway's memory in KiB, whatever the size of the transfer.
const MAX_KIB: u64 = 16 << 10;
/// The number of concurrent transfers.
const AT_ONCE: usize = 4;

fn mebibytes() -> usize {
    std::env::var("TRANSFER_MIB").ok().and_then(|text| text.parse().ok()).unwrap_or(64)
}

fn call(gateway: &Gateway, method: &str, path: &str) -> RequestBuilder {
    let method = method.parse().unwrap();
    let call = client().request(method, format!("{}/{path}", gateway.base_url()));
    let call = call.timeout(Duration::from_secs(300)).header("x-gateway-api-key", KEY);
    call.header("x-gateway-provider", "@emulator").header("x-gateway-trace-id", new_trace())
}

/// `count` MiB, in chunks of 1 MiB.
fn chunks(count: usize) -> impl futures_util::Stream<Item = Result<Bytes, std::io::Error>> {
    let chunk = Bytes::from(vec![b'x'; MIB]);
    stream::iter((0..count).map(move |_| Ok(chunk.clone())))
}

const FORM_START: &str = "--b\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n\
    --b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"big.jsonl\"\r\n\r\n";
const TAIL: &str = "\r\n--b--\r\n";

fn form(count: usize) -> Body {
    let form_start = stream::iter([Ok(Bytes::from_static(FORM_START.as_bytes()))]);
    let tail = stream::iter([Ok(Bytes::from_static(TAIL.as_bytes()))]);
    Body::wrap_stream(form_start.chain(chunks(count)).chain(tail))
}

/// Compares the gateway's peak memory with that before the transfer.
fn hold(gateway: &Gateway, what: &str, before: u64) {
    let (_, peak) = gateway.memory();
    let grown = peak.saturating_sub(before);
    if std::env::var("TRANSFER_MIB").is_ok() {
        report(&format!("{what}: memory {before} KiB before, {peak} KiB at most"));
    }
    assert!(grown < MAX_KIB, "{what}: memory grew by {grown} KiB");
}

/// A gateway with the emulator outside, so that only the gateway's memory is measured; a small request first
/// initialises what every process needs once.
async fn warm() -> (Emulator, Gateway, u64) {
    let emulator = Emulator::start(None);
    let gateway = Gateway::start(&STANDARD.replace("EMULATOR_PORT", &emulator.port.to_string()));
    let response = call(&gateway, "GET", "proxy/x?bytes=1000000").send().await.unwrap();
    assert_eq!(response.bytes().await.unwrap().len(), 1_000_000);
    let (resident, _) = gateway.memory();
    (emulator, gateway, resident)
}

#[tokio::test]
async fn uploads_pass_in_constant_memory() {
    let (_emulator, gateway, before) = warm().await;
    let size = mebibytes() * MIB;
    let length = FORM_START.len() + size + TAIL.len();
    let upload = async |number: usize| {
        let upload =
            call(&gateway, "POST", "files").header("content-type", "multipart/form-data; boundary=b");
        // Half of them with a Content-Length, half chunked.
        let upload = if number.is_multiple_of(2) { upload.header("content-length", length) } else { upload };
        let response = upload.body(form(mebibytes())).send().await.unwrap();
        assert_eq!(response.status(), 200);
        let file: Value = response.json().await.unwrap();
        assert_eq!((&file["object"], &file["bytes"]), (&"file".into(), &size.into()), "{file}");
    };
    futures_util::future::join_all((0..AT_ONCE).map(upload)).await;
    hold(&gateway, "multipart uploads", before);

    // An unknown path without multipart; such a JSON body is too long to be read by the gateway.
    let upload = async |kind: &str| {
        let upload = call(&gateway, "PUT", "blobs/1")
            .header("content-type", kind)
            .body(Body::wrap_stream(chunks(mebibytes())));
        let echo: Value = upload.send().await.unwrap().json().await.unwrap();
        assert_eq!(echo["body_bytes"], size, "{kind}: {echo}");
    };
    futures_util::future::join_all(["application/octet-stream", "application/json"].map(upload)).await;
    hold(&gateway, "other uploads", before);
}

/// Attempts of a config with several targets: the upload is forwarded while it arrives, and can be sent only
/// once.
#[tokio::test]
async fn uploads_of_attempts_pass_whole_and_in_constant_memory() {
    let (_emulator, gateway, before) = warm().await;
    let size = mebibytes() * MIB;
    let length = FORM_START.len() + size + TAIL.len();
    let config =
        r#"{"strategy":{"mode":"fallback"},"targets":[{"provider":"@emulator"},{"provider":"@emulator"}]}"#;
    let upload = async |number: usize| {
        let call = client().post(format!("{}/files", gateway.base_url())).timeout(Duration::from_secs(300));
        let call = call.header("x-gateway-api-key", KEY).header("x-gateway-config", config);
        let call = call.header("content-type", "multipart/form-data; boundary=b");
        let call = if number.is_multiple_of(2) { call.header("content-length", length) } else { call };
        let response = call.body(form(mebibytes())).send().await.unwrap();
        let file: Value = response.json().await.unwrap();
        assert_eq!((&file["object"], &file["bytes"]), (&"file".into(), &size.into()), "{number} {file}");
    };
    futures_util::future::join_all((0..AT_ONCE).map(upload)).await;
    hold(&gateway, "uploads of attempts", before);
}

#[tokio::test]
async fn downloads_pass_in_constant_memory() {
    let (_emulator, gateway, before) = warm().await;
    let size = mebibytes() * MIB;
    let download = async |path: &str| {
        let response = call(&gateway, "GET", &format!("{path}?bytes={size}")).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        assert_eq!(response.content_length(), Some(size as u64), "{path}");
        let mut chunks = response.bytes_stream();
        let mut got = 0;
        while let Some(chunk) = chunks.next().await {
            got += chunk.unwrap_or_else(|error| panic!("{path}: after {got} bytes: {error}")).len();
        }
        assert_eq!(got, size, "{path}");
    };
    futures_util::future::join_all(["files/file-1/content", "proxy/a", "b", "c/d"].map(download)).await;
    hold(&gateway, "downloads", before);
}

#[tokio::test]
async fn a_client_that_does_not_read_slows_the_provider_down() {
    let (_emulator, gateway, before) = warm().await;
    let mut clients = Vec::new();
    for path in ["GET /v1/blobs?bytes=100000000", "GET /v1/events?sse=1000000"] {
        let mut connection = TcpStream::connect(("127.0.0.1", gateway.ports.data)).await.unwrap();
        let head = format!(
            "{path} HTTP/1.1\r\nhost: g\r\nx-gateway-api-key: {KEY}\r\nx-gateway-provider: @emulator\r\n\r\n"
        );
        connection.write_all(head.as_bytes()).await.unwrap();
        let mut first = [0; 4096];
        assert!(connection.read(&mut first).await.unwrap() > 0, "{path}");
        clients.push(connection);
    }
    // An attempt: forwarded by the orchestrator, not by Pingora.
    let mut connection = TcpStream::connect(("127.0.0.1", gateway.ports.data)).await.unwrap();
    let body = r#"{"model":"m?tokens=900000","stream":true,"messages":[{"role":"user","content":"a"}]}"#;
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\nx-gateway-api-key: {KEY}\r\nx-gateway-provider: @emulator\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    connection.write_all(head.as_bytes()).await.unwrap();
    clients.push(connection);
    // Once all buffers between provider and client are full, nothing moves any more.
    let mut last = 0;
    let mut unmoved = 0;
    until("the transfers to stop", async || {
        let (resident, _) = gateway.memory();
        unmoved = if resident == last { unmoved + 1 } else { 0 };
        last = resident;
        (unmoved == 20).then_some(())
    })
    .await;
    hold(&gateway, "clients that do not read", before);
}

#[tokio::test]
async fn a_provider_that_does_not_read_slows_the_client_down() {
    let (_emulator, gateway, before) = warm().await;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let host = format!("http://{}/v1", listener.local_addr().unwrap());
    let accepted = tokio::spawn(async move { listener.accept().await.unwrap() });
    let mut connection = TcpStream::connect(("127.0.0.1", gateway.ports.data)).await.unwrap();
    let head = format!(
        "POST /v1/files HTTP/1.1\r\nhost: g\r\nx-gateway-api-key: {KEY}\r\nx-gateway-provider: openai\r\n\
         authorization: Bearer k\r\nx-gateway-custom-host: {host}\r\ncontent-type: multipart/form-data; boundary=b\r\n\
         content-length: 10000000000\r\n\r\n"
    );
    connection.write_all(head.as_bytes()).await.unwrap();
    let _unread = accepted.await.unwrap();
    let chunk = vec![b'x'; MIB];
    let mut sent = 0;
    while let Ok(written) = tokio::time::timeout(Duration::from_millis(500), connection.write(&chunk)).await {
        sent += written.unwrap();
        assert!(sent < 64 * MIB, "{sent} bytes were taken from the client, though the provider read none");
    }
    hold(&gateway, "a provider that does not read", before);
}
