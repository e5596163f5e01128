//! What a proxy is handed, by who named the host.

use super::*;
use crate::net::outbound::dns::{LookupResult, Resolve};
use async_trait::async_trait;
use std::time::Duration;
use words::config::Checks;
use words::settings::{SecretSources, Settings};

/// Resolves all names but `unknown.example`: those with `private` in them to a private address.
#[derive(Debug)]
struct Names;

#[async_trait]
impl Resolve for Names {
    async fn resolve(&self, name: &str, _search: bool) -> Result<LookupResult, ResolveError> {
        let ip = match name {
            "unknown.example" => return Err(ResolveError::NotFound),
            name if name.contains("private") => "10.0.0.1",
            _ => "1.2.3.4",
        };
        Ok(LookupResult { ips: vec![ip.parse().unwrap()], ttl: Duration::from_secs(60) })
    }
}

fn rules(text: &str) -> HostRules {
    let sources = SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
    let checks = Checks::NONE;
    HostRules::of(&Settings::parse(text, &sources, &checks).unwrap())
}

async fn reached(url: &str, trusted: bool, is_upgrade: bool) -> Result<Reached, ResolveError> {
    let rules = rules(
        "outbound: {proxy: 'http://u:p@proxy.example:3128'}\ncustom_hosts: {allow: [opened.private]}\n",
    );
    let dns = Dns::with_resolver(Arc::new(Names));
    reach(&dns, &Origin::parse(url, trusted).unwrap(), &rules, None, is_upgrade).await
}

#[tokio::test]
async fn operators_hosts_are_named_and_clients_hosts_are_checked_addresses() {
    for (url, trusted, is_upgrade, tunnel) in [
        ("https://api.example.com", true, false, Some("api.example.com:443")),
        ("https://unknown.example:8443", true, false, Some("unknown.example:8443")),
        ("https://[2001:db8::1]", true, false, Some("[2001:db8::1]:443")),
        ("http://api.example.com", true, false, None),
        ("http://api.example.com", true, true, Some("api.example.com:80")),
        ("https://api.example.com", false, false, Some("1.2.3.4:443")),
        ("http://api.example.com", false, false, Some("1.2.3.4:80")),
        ("https://opened.private", false, false, Some("opened.private:443")),
        ("http://opened.private", false, false, None),
    ] {
        let found = reached(url, trusted, is_upgrade).await.unwrap();
        let proxied = found.proxied.unwrap();
        assert_eq!(proxied.tunnel(), tunnel, "{url} {trusted}");
        assert_eq!(
            proxied.handed_address().is_some(),
            !trusted && !url.contains("opened") || url.contains('['),
            "{url}"
        );
        assert_eq!(found.addresses.first().unwrap().to_string(), "1.2.3.4:3128", "{url}");
    }
}

#[tokio::test]
async fn a_clients_host_is_refused_behind_a_proxy_as_without_one() {
    for url in ["https://a-private.example.com", "http://10.0.0.1", "https://x.corp", "https://metadata.goog"]
    {
        assert!(matches!(reached(url, false, false).await, Err(ResolveError::Refused(_))), "{url}");
    }
    let unknown = reached("https://unknown.example", false, false).await;
    assert!(
        matches!(unknown, Err(ResolveError::NotFound)),
        "a name that cannot be checked is not handed over"
    );
}

#[tokio::test]
async fn a_forwarded_request_has_an_absolute_target_and_the_credentials() {
    let forwarded = reached("http://api.example.com:8080/v1", true, false).await.unwrap().proxied.unwrap();
    let mut header = RequestHeader::build("POST", b"/v1/chat?a=b", None).unwrap();
    forwarded.apply(&mut header).unwrap();
    assert_eq!(header.raw_path(), b"http://api.example.com:8080/v1/chat?a=b");
    assert_eq!(header.headers[PROXY_AUTHORIZATION], "Basic dTpw");
    assert!(forwarded.refusal(407).is_some() && forwarded.refusal(502).is_none());
    let tunnelled = reached("https://api.example.com", true, false).await.unwrap().proxied.unwrap();
    let mut header = RequestHeader::build("POST", b"/v1", None).unwrap();
    tunnelled.apply(&mut header).unwrap();
    assert_eq!(header.raw_path(), b"/v1");
    assert!(header.headers.is_empty() && tunnelled.refusal(407).is_none());
}

#[test]
fn a_source_address_is_for_its_own_version() {
    let [v4, v6] = ["10.0.0.1", "fd00::1"].map(|ip| ip.parse::<IpAddr>().unwrap());
    let source = SourceAddresses::new(&[v6, v4]);
    assert_eq!(
        (source.towards("1.1.1.1".parse().unwrap()), source.towards("::1".parse().unwrap())),
        (Some(v4), Some(v6))
    );
    assert_eq!(SourceAddresses::new(&[v4]).towards(v6), None);
}
