//! Credentials fetched from a local token server, with the time as an argument.

use super::*;
use http::{HeaderMap, Method};
use knowledge::provider::token_exchange::TokenRequest;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use words::config::secret::Secret;

/// An exchange of two requests; the second response contains the token.
#[derive(Debug)]
struct TestExchange {
    url: String,
    name: &'static str,
}

impl TokenExchange for TestExchange {
    fn key(&self) -> String {
        self.name.to_owned()
    }

    fn description(&self) -> &'static str {
        "the test's sign-in"
    }

    fn next_step(&self, responses: &[TokenResponse], _now: SystemTime) -> Result<Step, String> {
        if self.name == "incomplete" {
            return Err("half an account".to_owned());
        }
        let url = self.url.clone();
        let token_request = TokenRequest {
            method: Method::POST,
            url,
            headers: HeaderMap::new(),
            body: Vec::new(),
            is_metadata: true,
        };
        match responses {
            [] | [_] => Ok(Step::Request(token_request)),
            [.., last] if last.status == 200 => {
                let token = String::from_utf8(last.body.clone()).unwrap();
                Ok(Step::Done(Credentials::Bearer(Secret::new(token)), Duration::from_secs(3600)))
            }
            _ => Err("it says no".to_owned()),
        }
    }
}

struct CacheFixture {
    cache: CredentialCache,
    hosts: HostRules,
    dns: Dns,
    metrics: Metrics,
    exchange: TestExchange,
    requests: Arc<AtomicUsize>,
    status: Arc<AtomicUsize>,
}

impl CacheFixture {
    /// Starts a token server whose n-th response is `t<n>`.
    async fn new(name: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let requests = Arc::new(AtomicUsize::new(0));
        let status = Arc::new(AtomicUsize::new(200));
        let count = Arc::clone(&requests);
        let response_status = Arc::clone(&status);
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let _ = stream.read(&mut [0; 4096]).await;
                let body = format!("t{}", count.fetch_add(1, Ordering::SeqCst) + 1);
                let header = format!(
                    "HTTP/1.1 {} X\r\ncontent-length: {}\r\n\r\n",
                    response_status.load(Ordering::SeqCst),
                    body.len()
                );
                let _ = stream.write_all(format!("{header}{body}").as_bytes()).await;
            }
        });
        Self {
            cache: CredentialCache::new(None),
            hosts: HostRules::default(),
            dns: Dns::system(),
            metrics: Metrics::new().unwrap(),
            exchange: TestExchange { url, name },
            requests,
            status,
        }
    }

    fn context(&self, by_operator: bool) -> FetchContext<'_> {
        FetchContext { hosts: &self.hosts, dns: &self.dns, metrics: &self.metrics, by_operator }
    }

    async fn get(&self, seconds: u64) -> Result<(String, Refresh), Error> {
        let found = self.cache.get(&self.exchange, self.context(true), at(seconds)).await;
        found.map(|(credentials, refresh)| match credentials {
            Credentials::Bearer(token) => (token.expose().to_owned(), refresh),
            Credentials::Aws { .. } => unreachable!(),
        })
    }

    fn request_count(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
}

fn token(text: &str, refresh: Refresh) -> (String, Refresh) {
    (text.to_owned(), refresh)
}

#[tokio::test]
async fn concurrent_requests_share_one_exchange() {
    let fixture = CacheFixture::new("a").await;
    let all = futures_util::future::join_all((0..50).map(|_| fixture.get(0))).await;
    assert!(all.iter().all(|one| *one.as_ref().unwrap() == token("t2", Refresh::No)));
    assert_eq!(fixture.request_count(), 2);
    let metrics_page = String::from_utf8(fixture.metrics.render(&[])).unwrap();
    assert!(metrics_page.contains(r#"turnpike_grants_total{outcome="fetched"} 1"#), "{metrics_page}");
}

#[tokio::test]
async fn stale_credentials_are_refreshed_in_the_background() {
    let fixture = CacheFixture::new("a").await;
    fixture.get(0).await.unwrap();
    assert_eq!(fixture.get(3000).await.unwrap(), token("t2", Refresh::Yes));
    assert_eq!(fixture.get(3000).await.unwrap(), token("t2", Refresh::No));
    fixture.cache.refresh(&fixture.exchange, fixture.context(true), at(3001)).await;
    assert_eq!(fixture.get(3600).await.unwrap(), token("t4", Refresh::No));
    // After a failed refresh the old credentials stay in use until they expire.
    fixture.status.store(500, Ordering::SeqCst);
    assert_eq!(fixture.get(6000).await.unwrap(), token("t4", Refresh::Yes));
    fixture.cache.refresh(&fixture.exchange, fixture.context(true), at(6000)).await;
    assert_eq!(fixture.get(6001).await.unwrap(), token("t4", Refresh::No));
    assert_eq!(fixture.get(6600).await.unwrap_err().status(), 502);
}

#[tokio::test]
async fn a_failure_is_cached_during_the_backoff() {
    let fixture = CacheFixture::new("a").await;
    fixture.status.store(400, Ordering::SeqCst);
    let error = fixture.get(0).await.unwrap_err();
    assert_eq!((error.status(), error.message.as_str()), (502, "The test's sign-in failed: it says no"));
    assert_eq!(error.cause.as_deref(), Some("the last answer had status 400"));
    assert_eq!(fixture.get(1).await.unwrap_err().message, error.message);
    assert_eq!(fixture.request_count(), 2);
    fixture.status.store(200, Ordering::SeqCst);
    assert_eq!(fixture.get(3).await.unwrap(), token("t4", Refresh::No));
}

#[tokio::test]
async fn an_unreachable_server_is_a_502_and_an_incomplete_account_a_400() {
    let fixture = CacheFixture::new("incomplete").await;
    let error = fixture.get(0).await.unwrap_err();
    assert_eq!((error.status(), error.message.as_str()), (400, "half an account"));
    let unreachable_exchange = TestExchange { url: "http://127.0.0.1:1/".to_owned(), name: "gone" };
    let error = fixture.cache.get(&unreachable_exchange, fixture.context(true), at(0)).await.unwrap_err();
    assert_eq!((error.status(), error.kind.row().code), (502, "upstream_grant_failed"));
    assert_eq!(error.message, "The test's sign-in got no usable answer. Try again in a moment.");
}

#[tokio::test]
async fn a_client_uses_neither_the_machine_identity_nor_operator_credentials() {
    let fixture = CacheFixture::new("a").await;
    fixture.get(0).await.unwrap();
    let error = fixture.cache.get(&fixture.exchange, fixture.context(false), at(1)).await.unwrap_err();
    assert_eq!(error.status(), 400);
    assert!(error.message.contains("only accounts the operator wrote"), "{}", error.message);
    assert_eq!(fixture.request_count(), 2);
}

#[tokio::test]
async fn rejected_credentials_are_fetched_again() {
    let fixture = CacheFixture::new("a").await;
    fixture.get(0).await.unwrap();
    fixture.cache.invalidate(&fixture.exchange, true, at(1));
    assert_eq!(fixture.get(1).await.unwrap(), token("t2", Refresh::No));
    fixture.cache.invalidate(&fixture.exchange, true, at(100));
    assert_eq!(fixture.get(100).await.unwrap(), token("t4", Refresh::No));
}
