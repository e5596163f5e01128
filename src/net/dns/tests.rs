//! The memory of names on a scripted resolver and a clock that is passed in.

use super::*;
use parking_lot::Mutex;
use std::time::Duration;

/// Answers from a script, in order, and counts; the last answer repeats.
#[derive(Debug, Default)]
struct Script {
    answers: Mutex<Vec<Result<Answer, NetError>>>,
    asked: Mutex<Vec<(String, bool)>>,
}

impl Script {
    fn push(&self, ips: &str, ttl: u64) {
        let ips = ips.split_whitespace().map(|ip| ip.parse().unwrap()).collect();
        self.answers.lock().push(Ok(Answer { ips, ttl: Duration::from_secs(ttl) }));
    }

    fn fail(&self, error: NetError) {
        self.answers.lock().push(Err(error));
    }

    fn asked(&self) -> usize {
        self.asked.lock().len()
    }
}

#[async_trait]
impl Resolve for Script {
    async fn resolve(&self, name: &str, search: bool) -> Result<Answer, NetError> {
        self.asked.lock().push((name.to_owned(), search));
        // Let others join the lookup.
        tokio::task::yield_now().await;
        let mut answers = self.answers.lock();
        if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() }
    }
}

struct Bench {
    script: Arc<Script>,
    dns: Dns,
    start: Instant,
}

impl Bench {
    fn new() -> Self {
        let script = Arc::new(Script::default());
        let dns = Dns::with_resolver(Arc::clone(&script) as Arc<dyn Resolve>);
        Self { script, dns, start: Instant::now() }
    }

    /// Addresses as text, `seconds` after the start.
    async fn ask(&self, url: &str, trusted: bool, seconds: f64) -> Result<String, NetError> {
        let origin = Origin::parse(url, trusted).unwrap();
        let now = self.start + Duration::from_secs_f64(seconds);
        let found = self.dns.addresses_at(&origin, &HostRules::default(), now).await?;
        let texts: Vec<String> = found.iter().map(|address| address.to_string()).collect();
        Ok(texts.join(" "))
    }

    /// Lets a renewal in the background finish.
    async fn settle(&self) {
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
    }
}

const API: &str = "https://api.example.com/v1";

#[tokio::test]
async fn literals_need_no_dns_and_are_checked() {
    let bench = Bench::new();
    assert_eq!(bench.ask("http://8.8.8.8:81", false, 0.0).await.unwrap(), "8.8.8.8:81");
    assert_eq!(bench.ask("https://[2606:4700::1]", false, 0.0).await.unwrap(), "[2606:4700::1]:443");
    assert_eq!(bench.ask("http://127.0.0.1", true, 0.0).await.unwrap(), "127.0.0.1:80");
    for url in ["http://127.0.0.1", "http://2130706433", "http://[::ffff:10.0.0.1]"] {
        assert!(matches!(bench.ask(url, false, 0.0).await, Err(NetError::Refused(_))), "{url}");
    }
    assert_eq!(bench.script.asked(), 0);
}

#[tokio::test]
async fn one_forbidden_address_refuses_the_host_for_callers_only() {
    let bench = Bench::new();
    bench.script.push("93.184.216.34 10.0.0.1", 60);
    assert!(matches!(bench.ask(API, false, 0.0).await, Err(NetError::Refused(_))));
    assert_eq!(bench.ask(API, true, 0.0).await.unwrap(), "93.184.216.34:443 10.0.0.1:443");
    // Search domains are for operators' names.
    assert_eq!(
        bench.script.asked.lock().iter().map(|(_, search)| *search).collect::<Vec<_>>(),
        [false, true]
    );
}

#[tokio::test]
async fn a_name_refused_by_its_text_is_never_asked_for() {
    let bench = Bench::new();
    for url in ["http://localhost", "http://svc.internal", "http://metadata.google.internal"] {
        assert!(matches!(bench.ask(url, false, 0.0).await, Err(NetError::Refused(_))), "{url}");
    }
    assert_eq!(bench.script.asked(), 0);
}

#[tokio::test]
async fn rebinding_gains_nothing() {
    let bench = Bench::new();
    bench.script.push("93.184.216.34", 0);
    bench.script.push("169.254.169.254", 0);
    let origin = Origin::parse("http://rebind.example.com", false).unwrap();
    let rules = HostRules::default();
    let found = bench.dns.addresses_at(&origin, &rules, bench.start).await.unwrap();
    // What was checked is what is dialled: the peer is made of the address, and nothing resolves again.
    let address = found.first().unwrap();
    let peer = crate::net::peer::peer(&origin, address, &crate::net::peer::Dial::default());
    assert_eq!(peer._address.to_string(), "93.184.216.34:80");
    assert_eq!(bench.script.asked(), 1, "resolved once per attempt");
    // The next attempt sees the new answer, and refuses it.
    let later = bench.start + Duration::from_secs(2);
    assert!(matches!(bench.dns.addresses_at(&origin, &rules, later).await, Err(NetError::Refused(_))));
    assert_eq!(found.first(), Some(address), "what was handed out does not change");
}

#[tokio::test]
async fn answers_hold_for_their_ttl_within_bounds() {
    // TTL, still remembered after, asked again after
    for (ttl, held, over) in [(0, 0.7, 1.1), (60, 47.0, 61.0), (86_400, 239.0, 301.0)] {
        let bench = Bench::new();
        bench.script.push("1.1.1.1", ttl);
        bench.ask(API, true, 0.0).await.unwrap();
        bench.ask(API, true, held).await.unwrap();
        assert_eq!(bench.script.asked(), 1, "{ttl}");
        bench.ask(API, true, over).await.unwrap();
        assert_eq!(bench.script.asked(), 2, "{ttl}");
    }
}

#[tokio::test]
async fn an_answer_is_renewed_before_it_runs_out() {
    let bench = Bench::new();
    bench.script.push("1.1.1.1", 100);
    bench.script.push("2.2.2.2", 100);
    bench.ask(API, false, 0.0).await.unwrap();
    assert_eq!(bench.ask(API, false, 85.0).await.unwrap(), "1.1.1.1:443", "does not wait");
    bench.settle().await;
    assert_eq!(bench.ask(API, false, 86.0).await.unwrap(), "2.2.2.2:443");
    assert_eq!(bench.script.asked(), 2);
}

#[tokio::test]
async fn a_failed_renewal_takes_nothing_from_an_answer_that_holds() {
    let bench = Bench::new();
    bench.script.push("1.1.1.1", 100);
    bench.script.fail(NetError::Failed("down".into()));
    bench.ask(API, false, 0.0).await.unwrap();
    bench.ask(API, false, 85.0).await.unwrap();
    bench.settle().await;
    assert_eq!(bench.ask(API, false, 99.0).await.unwrap(), "1.1.1.1:443");
    bench.settle().await;
    assert!(matches!(bench.ask(API, false, 101.0).await, Err(NetError::Failed(_))));
}

#[tokio::test]
async fn the_last_good_answer_helps_out_for_operators_names() {
    let bench = Bench::new();
    bench.script.push("1.1.1.1", 60);
    bench.script.fail(NetError::Failed("down".into()));
    bench.ask(API, true, 0.0).await.unwrap();
    for seconds in [61.0, 61.5, 63.0, 400.0, 659.0] {
        assert_eq!(bench.ask(API, true, seconds).await.unwrap(), "1.1.1.1:443", "{seconds}");
        bench.settle().await;
    }
    assert!(matches!(bench.ask(API, true, 661.0).await, Err(NetError::Failed(_))), "not for ever");
}

#[tokio::test]
async fn a_name_that_is_gone_is_gone() {
    let bench = Bench::new();
    bench.script.push("1.1.1.1", 60);
    bench.script.fail(NetError::NotFound);
    bench.ask(API, true, 0.0).await.unwrap();
    assert_eq!(bench.ask(API, true, 61.0).await, Err(NetError::NotFound));
}

#[tokio::test]
async fn failures_are_remembered_for_a_second() {
    for trusted in [true, false] {
        let bench = Bench::new();
        bench.script.fail(NetError::NotFound);
        bench.script.push("1.1.1.1", 60);
        assert_eq!(bench.ask(API, trusted, 0.0).await, Err(NetError::NotFound));
        assert_eq!(bench.ask(API, trusted, 0.9).await, Err(NetError::NotFound));
        assert_eq!(bench.script.asked(), 1);
        assert_eq!(bench.ask(API, trusted, 1.1).await.unwrap(), "1.1.1.1:443");
    }
    let bench = Bench::new();
    bench.script.push("", 60);
    assert_eq!(bench.ask(API, true, 0.0).await, Err(NetError::NotFound), "no address is no host");
}

#[tokio::test]
async fn many_requests_share_one_lookup() {
    let bench = Arc::new(Bench::new());
    bench.script.push("1.1.1.1", 60);
    let asks = (0..100).map(|_| {
        let bench = Arc::clone(&bench);
        tokio::spawn(async move { bench.ask(API, false, 0.0).await })
    });
    for ask in asks.collect::<Vec<_>>() {
        assert_eq!(ask.await.unwrap().unwrap(), "1.1.1.1:443");
    }
    assert_eq!(bench.script.asked(), 1);
}

#[tokio::test]
async fn an_address_that_failed_goes_to_the_back_and_stays_there() {
    let bench = Bench::new();
    bench.script.push("1.1.1.1 2.2.2.2 3.3.3.3", 60);
    bench.script.push("3.3.3.3 1.1.1.1 2.2.2.2", 60);
    bench.ask(API, true, 0.0).await.unwrap();
    let origin = Origin::parse(API, true).unwrap();
    bench.dns.failed(&origin, "1.1.1.1:443".parse().unwrap());
    bench.dns.failed(&origin, "1.1.1.1:443".parse().unwrap());
    assert_eq!(bench.ask(API, true, 1.0).await.unwrap(), "2.2.2.2:443 3.3.3.3:443 1.1.1.1:443");
    assert_eq!(bench.ask(API, true, 61.0).await.unwrap(), "2.2.2.2:443 3.3.3.3:443 1.1.1.1:443");
    for ip in ["2.2.2.2:443", "3.3.3.3:443", "1.1.1.1:443"] {
        bench.dns.failed(&origin, ip.parse().unwrap());
    }
    assert_eq!(bench.ask(API, true, 62.0).await.unwrap(), "2.2.2.2:443 3.3.3.3:443 1.1.1.1:443");
}

#[tokio::test]
async fn callers_names_and_operators_names_are_kept_apart() {
    let bench = Bench::new();
    bench.script.push("1.1.1.1", 60);
    bench.ask(API, true, 0.0).await.unwrap();
    bench.ask(API, false, 0.0).await.unwrap();
    assert_eq!(bench.script.asked(), 2);
}

#[test]
fn a_lookup_that_dies_with_its_runtime_does_not_block_the_name() {
    let bench = Bench::new();
    bench.script.push("1.1.1.1", 60);
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    first.block_on(async {
        // Started, never finished: the runtime goes before the lookup's task is polled.
        let ask = bench.ask(API, true, 0.0);
        tokio::pin!(ask);
        assert!(futures_util::poll!(&mut ask).is_pending());
    });
    drop(first);
    assert_eq!(runtime().block_on(bench.ask(API, true, 0.0)).unwrap(), "1.1.1.1:443");
}

#[test]
fn the_systems_resolver_is_built_without_a_runtime_and_serves_two() {
    let dns = Dns::system();
    for _ in 0..2 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let origin = Origin::parse("http://localhost:8790", true).unwrap();
        let found = runtime.block_on(dns.addresses(&origin, &HostRules::default())).unwrap();
        assert!(found.iter().all(|address| address.ip().is_loopback() && address.port() == 8790));
        assert_eq!(found.first().map(|address| address.is_ipv4()), Some(true), "IPv4 first");
    }
}
