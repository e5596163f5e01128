//! The name cache with a scripted resolver and a clock that is passed in.

use super::*;
use parking_lot::Mutex;
use std::time::Duration;

/// Returns results from a script, in order, and records the queries; the last result repeats.
#[derive(Debug, Default)]
struct ScriptedResolver {
    results: Mutex<Vec<Result<LookupResult, ResolveError>>>,
    queries: Mutex<Vec<(String, bool)>>,
}

impl ScriptedResolver {
    fn push(&self, ips: &str, ttl: u64) {
        let ips = ips.split_whitespace().map(|ip| ip.parse().unwrap()).collect();
        self.results.lock().push(Ok(LookupResult { ips, ttl: Duration::from_secs(ttl) }));
    }

    fn fail(&self, error: ResolveError) {
        self.results.lock().push(Err(error));
    }

    fn query_count(&self) -> usize {
        self.queries.lock().len()
    }
}

#[async_trait]
impl Resolve for ScriptedResolver {
    async fn resolve(&self, name: &str, search: bool) -> Result<LookupResult, ResolveError> {
        self.queries.lock().push((name.to_owned(), search));
        // Lets other requests join the lookup.
        tokio::task::yield_now().await;
        let mut results = self.results.lock();
        if results.len() > 1 { results.remove(0) } else { results[0].clone() }
    }
}

struct DnsFixture {
    script: Arc<ScriptedResolver>,
    dns: Dns,
    start: Instant,
}

impl DnsFixture {
    fn new() -> Self {
        let script = Arc::new(ScriptedResolver::default());
        let dns = Dns::with_resolver(Arc::clone(&script) as Arc<dyn Resolve>);
        Self { script, dns, start: Instant::now() }
    }

    /// Resolves `url` at `seconds` after the start. Returns the addresses as text.
    async fn lookup(&self, url: &str, trusted: bool, seconds: f64) -> Result<String, ResolveError> {
        let origin = Origin::parse(url, trusted).unwrap();
        let now = self.start + Duration::from_secs_f64(seconds);
        let found = self.dns.addresses_at(&origin, &HostRules::default(), now).await?;
        let texts: Vec<String> = found.iter().map(|address| address.to_string()).collect();
        Ok(texts.join(" "))
    }

    /// Lets a refresh in the background finish.
    async fn settle(&self) {
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
    }
}

const API: &str = "https://api.example.com/v1";

#[tokio::test]
async fn literals_need_no_dns_and_are_checked() {
    let fixture = DnsFixture::new();
    assert_eq!(fixture.lookup("http://8.8.8.8:81", false, 0.0).await.unwrap(), "8.8.8.8:81");
    assert_eq!(fixture.lookup("https://[2606:4700::1]", false, 0.0).await.unwrap(), "[2606:4700::1]:443");
    assert_eq!(fixture.lookup("http://127.0.0.1", true, 0.0).await.unwrap(), "127.0.0.1:80");
    for url in ["http://127.0.0.1", "http://2130706433", "http://[::ffff:10.0.0.1]"] {
        assert!(matches!(fixture.lookup(url, false, 0.0).await, Err(ResolveError::Refused(_))), "{url}");
    }
    assert_eq!(fixture.script.query_count(), 0);
}

#[tokio::test]
async fn one_forbidden_address_refuses_the_host_for_clients_only() {
    let fixture = DnsFixture::new();
    fixture.script.push("93.184.216.34 10.0.0.1", 60);
    assert!(matches!(fixture.lookup(API, false, 0.0).await, Err(ResolveError::Refused(_))));
    assert_eq!(fixture.lookup(API, true, 0.0).await.unwrap(), "93.184.216.34:443 10.0.0.1:443");
    // Search domains apply to operators' names only.
    assert_eq!(
        fixture.script.queries.lock().iter().map(|(_, search)| *search).collect::<Vec<_>>(),
        [false, true]
    );
}

#[tokio::test]
async fn a_forbidden_name_is_never_looked_up() {
    let fixture = DnsFixture::new();
    for url in ["http://localhost", "http://svc.internal", "http://metadata.google.internal"] {
        assert!(matches!(fixture.lookup(url, false, 0.0).await, Err(ResolveError::Refused(_))), "{url}");
    }
    assert_eq!(fixture.script.query_count(), 0);
}

#[tokio::test]
async fn dns_rebinding_is_prevented() {
    let fixture = DnsFixture::new();
    fixture.script.push("93.184.216.34", 0);
    fixture.script.push("169.254.169.254", 0);
    let origin = Origin::parse("http://rebind.example.com", false).unwrap();
    let rules = HostRules::default();
    let found = fixture.dns.addresses_at(&origin, &rules, fixture.start).await.unwrap();
    // The connection goes to the checked address: the peer is made from it, and nothing resolves again.
    let address = found.first().unwrap();
    let peer = crate::net::outbound::peer::peer(
        &origin,
        address,
        &crate::net::outbound::peer::PeerOptions::default(),
    );
    assert_eq!(peer._address.to_string(), "93.184.216.34:80");
    assert_eq!(fixture.script.query_count(), 1, "resolved once per attempt");
    // The next attempt gets the new result and refuses it.
    let later = fixture.start + Duration::from_secs(2);
    assert!(matches!(fixture.dns.addresses_at(&origin, &rules, later).await, Err(ResolveError::Refused(_))));
    assert_eq!(found.first(), Some(address), "what was handed out does not change");
}

#[tokio::test]
async fn results_are_cached_for_their_ttl_within_bounds() {
    // TTL, seconds after which it is still cached, seconds after which it is looked up again
    for (ttl, held, expired) in [(0, 0.7, 1.1), (60, 47.0, 61.0), (86_400, 239.0, 301.0)] {
        let fixture = DnsFixture::new();
        fixture.script.push("1.1.1.1", ttl);
        fixture.lookup(API, true, 0.0).await.unwrap();
        fixture.lookup(API, true, held).await.unwrap();
        assert_eq!(fixture.script.query_count(), 1, "{ttl}");
        fixture.lookup(API, true, expired).await.unwrap();
        assert_eq!(fixture.script.query_count(), 2, "{ttl}");
    }
}

#[tokio::test]
async fn a_result_is_refreshed_before_it_expires() {
    let fixture = DnsFixture::new();
    fixture.script.push("1.1.1.1", 100);
    fixture.script.push("2.2.2.2", 100);
    fixture.lookup(API, false, 0.0).await.unwrap();
    assert_eq!(fixture.lookup(API, false, 85.0).await.unwrap(), "1.1.1.1:443", "does not wait");
    fixture.settle().await;
    assert_eq!(fixture.lookup(API, false, 86.0).await.unwrap(), "2.2.2.2:443");
    assert_eq!(fixture.script.query_count(), 2);
}

#[tokio::test]
async fn a_failed_refresh_keeps_a_valid_result() {
    let fixture = DnsFixture::new();
    fixture.script.push("1.1.1.1", 100);
    fixture.script.fail(ResolveError::Failed("down".into()));
    fixture.lookup(API, false, 0.0).await.unwrap();
    fixture.lookup(API, false, 85.0).await.unwrap();
    fixture.settle().await;
    assert_eq!(fixture.lookup(API, false, 99.0).await.unwrap(), "1.1.1.1:443");
    fixture.settle().await;
    assert!(matches!(fixture.lookup(API, false, 101.0).await, Err(ResolveError::Failed(_))));
}

#[tokio::test]
async fn stale_results_are_served_for_operator_names() {
    let fixture = DnsFixture::new();
    fixture.script.push("1.1.1.1", 60);
    fixture.script.fail(ResolveError::Failed("down".into()));
    fixture.lookup(API, true, 0.0).await.unwrap();
    for seconds in [61.0, 61.5, 63.0, 400.0, 659.0] {
        assert_eq!(fixture.lookup(API, true, seconds).await.unwrap(), "1.1.1.1:443", "{seconds}");
        fixture.settle().await;
    }
    assert!(matches!(fixture.lookup(API, true, 661.0).await, Err(ResolveError::Failed(_))), "not for ever");
}

#[tokio::test]
async fn a_name_that_no_longer_exists_is_not_found() {
    let fixture = DnsFixture::new();
    fixture.script.push("1.1.1.1", 60);
    fixture.script.fail(ResolveError::NotFound);
    fixture.lookup(API, true, 0.0).await.unwrap();
    assert_eq!(fixture.lookup(API, true, 61.0).await, Err(ResolveError::NotFound));
}

#[tokio::test]
async fn failures_are_remembered_for_a_second() {
    for trusted in [true, false] {
        let fixture = DnsFixture::new();
        fixture.script.fail(ResolveError::NotFound);
        fixture.script.push("1.1.1.1", 60);
        assert_eq!(fixture.lookup(API, trusted, 0.0).await, Err(ResolveError::NotFound));
        assert_eq!(fixture.lookup(API, trusted, 0.9).await, Err(ResolveError::NotFound));
        assert_eq!(fixture.script.query_count(), 1);
        assert_eq!(fixture.lookup(API, trusted, 1.1).await.unwrap(), "1.1.1.1:443");
    }
    let fixture = DnsFixture::new();
    fixture.script.push("", 60);
    assert_eq!(fixture.lookup(API, true, 0.0).await, Err(ResolveError::NotFound), "no address is no host");
}

#[tokio::test]
async fn many_requests_share_one_lookup() {
    let fixture = Arc::new(DnsFixture::new());
    fixture.script.push("1.1.1.1", 60);
    let lookups = (0..100).map(|_| {
        let fixture = Arc::clone(&fixture);
        tokio::spawn(async move { fixture.lookup(API, false, 0.0).await })
    });
    for lookup in lookups.collect::<Vec<_>>() {
        assert_eq!(lookup.await.unwrap().unwrap(), "1.1.1.1:443");
    }
    assert_eq!(fixture.script.query_count(), 1);
}

#[tokio::test]
async fn an_address_that_failed_goes_to_the_back_and_stays_there() {
    let fixture = DnsFixture::new();
    fixture.script.push("1.1.1.1 2.2.2.2 3.3.3.3", 60);
    fixture.script.push("3.3.3.3 1.1.1.1 2.2.2.2", 60);
    fixture.lookup(API, true, 0.0).await.unwrap();
    let origin = Origin::parse(API, true).unwrap();
    fixture.dns.connect_failed(&origin, "1.1.1.1:443".parse().unwrap());
    fixture.dns.connect_failed(&origin, "1.1.1.1:443".parse().unwrap());
    assert_eq!(fixture.lookup(API, true, 1.0).await.unwrap(), "2.2.2.2:443 3.3.3.3:443 1.1.1.1:443");
    assert_eq!(fixture.lookup(API, true, 61.0).await.unwrap(), "2.2.2.2:443 3.3.3.3:443 1.1.1.1:443");
    for ip in ["2.2.2.2:443", "3.3.3.3:443", "1.1.1.1:443"] {
        fixture.dns.connect_failed(&origin, ip.parse().unwrap());
    }
    assert_eq!(fixture.lookup(API, true, 62.0).await.unwrap(), "2.2.2.2:443 3.3.3.3:443 1.1.1.1:443");
}

#[tokio::test]
async fn client_names_and_operator_names_are_kept_apart() {
    let fixture = DnsFixture::new();
    fixture.script.push("1.1.1.1", 60);
    fixture.lookup(API, true, 0.0).await.unwrap();
    fixture.lookup(API, false, 0.0).await.unwrap();
    assert_eq!(fixture.script.query_count(), 2);
}

#[test]
fn a_lookup_that_dies_with_its_runtime_does_not_block_the_name() {
    let fixture = DnsFixture::new();
    fixture.script.push("1.1.1.1", 60);
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    first.block_on(async {
        // The lookup is started but never finishes: the runtime ends before its task is polled.
        let lookup = fixture.lookup(API, true, 0.0);
        tokio::pin!(lookup);
        assert!(futures_util::poll!(&mut lookup).is_pending());
    });
    drop(first);
    assert_eq!(runtime().block_on(fixture.lookup(API, true, 0.0)).unwrap(), "1.1.1.1:443");
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

#[tokio::test]
async fn only_addresses_of_the_chosen_version_are_used() {
    let fixture = DnsFixture::new();
    fixture.script.push("1.1.1.1 2606:4700::1", 60);
    let named = Origin::parse("https://a.example", true).unwrap();
    let literal = Origin::parse("https://1.1.1.1", true).unwrap();
    let mut rules = HostRules::default();
    for (ip, wanted) in [
        (IpVersions::Any, &["1.1.1.1:443", "[2606:4700::1]:443"][..]),
        (IpVersions::V4, &["1.1.1.1:443"]),
        (IpVersions::V6, &["[2606:4700::1]:443"]),
    ] {
        rules.outbound.ip = ip;
        let found = fixture.dns.addresses(&named, &rules).await.unwrap();
        assert_eq!(found.iter().map(|address| address.to_string()).collect::<Vec<_>>(), wanted);
        assert!(fixture.dns.addresses(&literal, &rules).await.unwrap().first().is_some());
    }
    let fixture = DnsFixture::new();
    fixture.script.push("1.1.1.1", 60);
    let refused = fixture.dns.addresses(&named, &rules).await.unwrap_err();
    assert!(refused.to_string().contains("no IPv6 address (outbound.ip)"), "{refused}");
}

#[tokio::test]
async fn names_are_resolved_by_the_system_where_it_is_set() {
    let mut rules = HostRules::default();
    rules.outbound.resolver = NameResolver::System;
    let script = Arc::new(ScriptedResolver::default());
    let dns = Dns::with_resolver(Arc::clone(&script) as Arc<dyn Resolve>);
    let found = dns.addresses(&Origin::parse("http://localhost:1", true).unwrap(), &rules).await.unwrap();
    assert!(found.iter().all(|address| address.ip().is_loopback()), "{found:?}");
    assert_eq!(script.query_count(), 0);
}
