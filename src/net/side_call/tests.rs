//! Side calls against a server of our own: what is sent, what is refused, what is bounded.

use super::*;
use crate::settings::CustomHosts;
use http::{HeaderMap, HeaderValue, Method};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

fn errand(url: &str, is_metadata: bool) -> TokenRequest {
    let mut headers = HeaderMap::new();
    headers.insert("x-test", HeaderValue::from_static("1"));
    TokenRequest {
        method: Method::POST,
        url: url.to_owned(),
        headers,
        body: b"grant=canary".to_vec(),
        is_metadata,
    }
}

async fn run(errand: &TokenRequest, by_operator: bool) -> Result<TokenResponse, Failed> {
    let rules = HostRules::new(&CustomHosts::default());
    SideCalls::new(None).run(errand, by_operator, &Dns::system(), &rules).await
}

/// Answers one request with `answer`, and hands out what it read.
async fn server(answer: Vec<u8>) -> (String, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/token?q=canary", listener.local_addr().unwrap());
    let task = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut read = Vec::new();
        let mut chunk = [0; 4096];
        while !read.ends_with(b"grant=canary") {
            let n = stream.read(&mut chunk).await.unwrap();
            read.extend_from_slice(&chunk[..n]);
            if n == 0 {
                break;
            }
        }
        let _ = stream.write_all(&answer).await;
        String::from_utf8(read).unwrap()
    });
    (url, task)
}

#[tokio::test]
async fn it_brings_back_status_and_body_and_follows_nothing() {
    let answer = b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 2\r\n\r\n{}";
    let (url, server) = server(answer.to_vec()).await;
    let brought = run(&errand(&url, true), true).await.unwrap();
    assert_eq!((brought.status, brought.body.as_slice()), (302, b"{}".as_slice()));
    let seen = server.await.unwrap();
    assert!(seen.starts_with("POST /token?q=canary HTTP/1.1\r\n"), "{seen}");
    assert!(seen.contains("x-test: 1\r\n") && seen.contains("user-agent: turnpike/"), "{seen}");
}

#[tokio::test]
async fn an_endless_answer_is_cut_off() {
    let mut answer = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n".to_vec();
    answer.resize(1_000_000, b'x');
    let (url, _server) = server(answer).await;
    let Err(Failed::Broken(why)) = run(&errand(&url, true), true).await else { panic!() };
    assert!(why.contains("over 65536 bytes") && !why.contains("canary"), "{why}");
}

#[tokio::test]
async fn what_may_not_be_called_is_not_called() {
    for (url, is_metadata, by_operator, wanted) in [
        // A caller borrows nothing.
        ("http://169.254.169.254/latest/api/token", true, false, "identity of the gateway's own machine"),
        ("env:PATH", true, false, "identity of the gateway's own machine"),
        ("file:/etc/hostname", true, false, "identity of the gateway's own machine"),
        ("env:PATH", false, true, "must begin with http"),
        ("file:/etc/hostname", false, true, "must begin with http"),
        // Not in the clear, not inside.
        ("http://sts.example.com/", false, true, "must begin with https"),
        ("http://127.0.0.1:1/", false, false, "must begin with https"),
        ("https://127.0.0.1:1/", false, false, "custom host"),
        ("https://169.254.169.254/", false, false, "custom host"),
        ("https://localhost/", false, false, "custom host"),
        ("https://user:canary@example.com/", false, true, "user name"),
    ] {
        let Err(Failed::Refused(why)) = run(&errand(url, is_metadata), by_operator).await else {
            panic!("{url}");
        };
        assert!(why.contains(wanted) && !why.contains("canary"), "{url}: {why}");
    }
    let Err(Failed::Broken(why)) = run(&errand("http://example.com/?canary", true), true).await else {
        panic!()
    };
    assert!(why.contains("is no metadata server"), "{why}");
}

#[tokio::test]
async fn a_failure_tells_neither_query_nor_body() {
    let Err(Failed::Broken(why)) = run(&errand("http://127.0.0.1:1/token?q=canary", false), true).await
    else {
        panic!()
    };
    assert!(why.starts_with("127.0.0.1:1: ") && !why.contains("canary"), "{why}");
}

#[tokio::test]
async fn the_machine_has_variables_and_files() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "token").unwrap();
    let brought = run(&errand(&format!("file:{}", file.path().display()), true), true).await.unwrap();
    assert_eq!((brought.status, brought.body.as_slice()), (200, b"token".as_slice()));
    assert_eq!(run(&errand("file:/no/such/file", true), true).await.unwrap().status, 404);
    assert_eq!(run(&errand("env:PATH", true), true).await.unwrap().status, 200);
    assert_eq!(run(&errand("env:NO_SUCH_VARIABLE", true), true).await.unwrap().status, 404);
}

#[test]
fn metadata_servers_are_known_by_their_address() {
    for (url, wanted) in [
        ("http://169.254.169.254", true),
        ("http://169.254.170.2", true),
        ("http://[fd00:ec2::254]", true),
        ("http://[fd20:ce::254]", true),
        ("http://metadata.google.internal", true),
        ("http://10.0.0.1", false),
        ("http://metadata.google.internal.example.com", false),
    ] {
        assert_eq!(is_metadata(&Origin::parse(url, true).unwrap().host), wanted, "{url}");
    }
}
