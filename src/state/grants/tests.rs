//! Grants fetched from a token server of our own, at moments we choose.

use super::*;
use crate::config::secret::Secret;
use crate::provider::grant::TokenRequest;
use http::{HeaderMap, Method};
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Two requests, then the token the second one brought.
#[derive(Debug)]
struct Test {
    url: String,
    name: &'static str,
}

impl TokenExchange for Test {
    fn key(&self) -> String {
        self.name.to_owned()
    }

    fn description(&self) -> &'static str {
        "the test's sign-in"
    }

    fn next_step(&self, answers: &[TokenResponse], _now: SystemTime) -> Result<Step, String> {
        if self.name == "incomplete" {
            return Err("half an account".to_owned());
        }
        let url = self.url.clone();
        let errand = TokenRequest {
            method: Method::POST,
            url,
            headers: HeaderMap::new(),
            body: Vec::new(),
            is_metadata: true,
        };
        match answers {
            [] | [_] => Ok(Step::Request(errand)),
            [.., last] if last.status == 200 => {
                let token = String::from_utf8(last.body.clone()).unwrap();
                Ok(Step::Done(Credentials::Bearer(Secret::new(token)), Duration::from_secs(3600)))
            }
            _ => Err("it says no".to_owned()),
        }
    }
}

struct Bench {
    grants: Grants,
    hosts: HostRules,
    dns: Dns,
    metrics: Metrics,
    grant: Test,
    asked: Arc<AtomicUsize>,
    status: Arc<AtomicUsize>,
}

impl Bench {
    /// A token server whose n-th answer is `t<n>`.
    async fn new(name: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let asked = Arc::new(AtomicUsize::new(0));
        let status = Arc::new(AtomicUsize::new(200));
        let (count, says) = (Arc::clone(&asked), Arc::clone(&status));
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let _ = stream.read(&mut [0; 4096]).await;
                let body = format!("t{}", count.fetch_add(1, Ordering::SeqCst) + 1);
                let head = format!(
                    "HTTP/1.1 {} X\r\ncontent-length: {}\r\n\r\n",
                    says.load(Ordering::SeqCst),
                    body.len()
                );
                let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
            }
        });
        Self {
            grants: Grants::new(None),
            hosts: HostRules::default(),
            dns: Dns::system(),
            metrics: Metrics::new().unwrap(),
            grant: Test { url, name },
            asked,
            status,
        }
    }

    fn with(&self, by_operator: bool) -> With<'_> {
        With { hosts: &self.hosts, dns: &self.dns, metrics: &self.metrics, by_operator }
    }

    async fn obtain(&self, seconds: u64) -> Result<(String, Renew), Error> {
        let found = self.grants.obtain(&self.grant, self.with(true), at(seconds)).await;
        found.map(|(granted, renew)| match granted {
            Credentials::Bearer(token) => (token.expose().to_owned(), renew),
            Credentials::Aws { .. } => unreachable!(),
        })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
}

fn token(text: &str, renew: Renew) -> (String, Renew) {
    (text.to_owned(), renew)
}

#[tokio::test]
async fn many_who_wait_make_one_exchange() {
    let bench = Bench::new("a").await;
    let all = futures_util::future::join_all((0..50).map(|_| bench.obtain(0))).await;
    assert!(all.iter().all(|one| *one.as_ref().unwrap() == token("t2", Renew::No)));
    assert_eq!(bench.asked(), 2);
    let shown = String::from_utf8(bench.metrics.render(&[])).unwrap();
    assert!(shown.contains(r#"turnpike_grants_total{outcome="fetched"} 1"#), "{shown}");
}

#[tokio::test]
async fn an_old_one_is_renewed_behind_the_back_of_who_uses_it() {
    let bench = Bench::new("a").await;
    bench.obtain(0).await.unwrap();
    assert_eq!(bench.obtain(3000).await.unwrap(), token("t2", Renew::Yes));
    assert_eq!(bench.obtain(3000).await.unwrap(), token("t2", Renew::No));
    bench.grants.renew(&bench.grant, bench.with(true), at(3001)).await;
    assert_eq!(bench.obtain(3600).await.unwrap(), token("t4", Renew::No));
    // A renewal that fails leaves the old one in use, to its end.
    bench.status.store(500, Ordering::SeqCst);
    assert_eq!(bench.obtain(6000).await.unwrap(), token("t4", Renew::Yes));
    bench.grants.renew(&bench.grant, bench.with(true), at(6000)).await;
    assert_eq!(bench.obtain(6001).await.unwrap(), token("t4", Renew::No));
    assert_eq!(bench.obtain(6600).await.unwrap_err().status(), 502);
}

#[tokio::test]
async fn a_failure_is_told_again_without_asking() {
    let bench = Bench::new("a").await;
    bench.status.store(400, Ordering::SeqCst);
    let error = bench.obtain(0).await.unwrap_err();
    assert_eq!((error.status(), error.message.as_str()), (502, "The test's sign-in failed: it says no"));
    assert_eq!(error.cause.as_deref(), Some("the last answer had status 400"));
    assert_eq!(bench.obtain(1).await.unwrap_err().message, error.message);
    assert_eq!(bench.asked(), 2);
    bench.status.store(200, Ordering::SeqCst);
    assert_eq!(bench.obtain(2).await.unwrap(), token("t4", Renew::No));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_502_and_half_an_account_a_400() {
    let bench = Bench::new("incomplete").await;
    let error = bench.obtain(0).await.unwrap_err();
    assert_eq!((error.status(), error.message.as_str()), (400, "half an account"));
    let gone = Test { url: "http://127.0.0.1:1/".to_owned(), name: "gone" };
    let error = bench.grants.obtain(&gone, bench.with(true), at(0)).await.unwrap_err();
    assert_eq!((error.status(), error.kind.row().code), (502, "upstream_grant_failed"));
    assert_eq!(error.message, "The test's sign-in got no usable answer. Try again in a moment.");
}

#[tokio::test]
async fn a_caller_borrows_neither_the_machine_nor_what_an_operator_fetched() {
    let bench = Bench::new("a").await;
    bench.obtain(0).await.unwrap();
    let error = bench.grants.obtain(&bench.grant, bench.with(false), at(1)).await.unwrap_err();
    assert_eq!(error.status(), 400);
    assert!(error.message.contains("only accounts the operator wrote"), "{}", error.message);
    assert_eq!(bench.asked(), 2);
}

#[tokio::test]
async fn what_the_provider_refused_is_fetched_anew() {
    let bench = Bench::new("a").await;
    bench.obtain(0).await.unwrap();
    bench.grants.doubt(&bench.grant, true, at(1));
    assert_eq!(bench.obtain(1).await.unwrap(), token("t2", Renew::No));
    bench.grants.doubt(&bench.grant, true, at(100));
    assert_eq!(bench.obtain(100).await.unwrap(), token("t4", Renew::No));
}
