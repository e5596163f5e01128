//! Token requests against a local server: what is sent, what is refused, what is bounded.

use super::*;
use http::{HeaderMap, HeaderValue, Method};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use words::settings::CustomHosts;

fn token_request(url: &str, is_metadata: bool) -> TokenRequest {
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

async fn run(request: &TokenRequest, by_operator: bool) -> Result<TokenResponse, FetchError> {
    let rules = HostRules::new(&CustomHosts::default());
    TokenHttpClient::new(None).run(request, by_operator, &Dns::system(), &rules).await
}

/// Responds to one request with `response`. Returns the URL and a task that ends with the bytes it received.
async fn server(response: Vec<u8>) -> (String, tokio::task::JoinHandle<String>) {
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
        let _ = stream.write_all(&response).await;
        String::from_utf8(read).unwrap()
    });
    (url, task)
}

#[tokio::test]
async fn status_and_body_are_returned_and_redirects_not_followed() {
    let response = b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 2\r\n\r\n{}";
    let (url, server) = server(response.to_vec()).await;
    let response = run(&token_request(&url, true), true).await.unwrap();
    assert_eq!((response.status, response.body.as_slice()), (302, b"{}".as_slice()));
    let received = server.await.unwrap();
    assert!(received.starts_with("POST /token?q=canary HTTP/1.1\r\n"), "{received}");
    assert!(received.contains("x-test: 1\r\n") && received.contains("user-agent: turnpike/"), "{received}");
}

#[tokio::test]
async fn an_oversized_response_is_an_error() {
    let mut response = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n".to_vec();
    response.resize(1_000_000, b'x');
    let (url, _server) = server(response).await;
    let Err(FetchError::Broken(why)) = run(&token_request(&url, true), true).await else { panic!() };
    assert!(why.contains("over 65536 bytes") && !why.contains("canary"), "{why}");
}

#[tokio::test]
async fn forbidden_addresses_are_refused() {
    for (url, is_metadata, by_operator, wanted) in [
        // A client's account may not use the machine's identity.
        ("http://169.254.169.254/latest/api/token", true, false, "identity of the gateway's own machine"),
        ("env:PATH", true, false, "identity of the gateway's own machine"),
        ("file:/etc/hostname", true, false, "identity of the gateway's own machine"),
        ("env:PATH", false, true, "must begin with http"),
        ("file:/etc/hostname", false, true, "must begin with http"),
        // Not over plain HTTP, and not into private networks.
        ("http://sts.example.com/", false, true, "must begin with https"),
        ("http://127.0.0.1:1/", false, false, "must begin with https"),
        ("https://127.0.0.1:1/", false, false, "custom host"),
        ("https://169.254.169.254/", false, false, "custom host"),
        ("https://localhost/", false, false, "custom host"),
        ("https://user:canary@example.com/", false, true, "user name"),
    ] {
        let Err(FetchError::Refused(why)) = run(&token_request(url, is_metadata), by_operator).await else {
            panic!("{url}");
        };
        assert!(why.contains(wanted) && !why.contains("canary"), "{url}: {why}");
    }
    let Err(FetchError::Broken(why)) = run(&token_request("http://example.com/?canary", true), true).await
    else {
        panic!()
    };
    assert!(why.contains("is no metadata server"), "{why}");
}

#[tokio::test]
async fn an_error_shows_neither_query_nor_body() {
    let Err(FetchError::Broken(why)) =
        run(&token_request("http://127.0.0.1:1/token?q=canary", false), true).await
    else {
        panic!()
    };
    assert!(why.starts_with("127.0.0.1:1: ") && !why.contains("canary"), "{why}");
}

#[tokio::test]
async fn variables_and_files_are_read_locally() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "token").unwrap();
    let response = run(&token_request(&format!("file:{}", file.path().display()), true), true).await.unwrap();
    assert_eq!((response.status, response.body.as_slice()), (200, b"token".as_slice()));
    assert_eq!(run(&token_request("file:/no/such/file", true), true).await.unwrap().status, 404);
    assert_eq!(run(&token_request("env:PATH", true), true).await.unwrap().status, 200);
    assert_eq!(run(&token_request("env:NO_SUCH_VARIABLE", true), true).await.unwrap().status, 404);
}

#[test]
fn metadata_servers_are_recognized_by_address() {
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
