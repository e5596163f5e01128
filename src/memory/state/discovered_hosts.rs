//! The hosts of providers that come and go (`providers.<slug>.discover`), looked for again and again in the background.
//!
//! What was found is part of the snapshot, so that a config compiles to a choice among it. Where a look fails the last hosts stay. Not
//! here: which of them is chosen (`route`), and whether one is up, which circuits and engines tell.

use super::Shared;
use super::snapshot::SettingsSnapshot;
use crate::net::outbound::dns::Dns;
use futures_util::future::join_all;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::timeout;
use url::Url;
use words::settings::outbound::Outbound;
use words::settings::{HostSource, StoredProvider};

/// The hosts of a provider, at most.
const MAX_HOSTS: usize = 256;
/// How often it is looked whether one is due.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
const TIMEOUT: Duration = Duration::from_secs(5);
/// The largest file, bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The hosts that were found, by the slug of their provider.
pub type HostLists = BTreeMap<String, Arc<[DiscoveredHost]>>;

/// A host of a provider.
#[derive(Debug, Clone, PartialEq)]
pub struct DiscoveredHost {
    /// What tells it from the others, for engines, places and drains: `slug@10.0.0.1:8000`.
    pub name: Arc<str>,
    /// `10.0.0.1:8000`.
    pub authority: Arc<str>,
    /// `custom_host` with this host in it.
    pub base: String,
    pub weight: f64,
}

/// What names a host, before it is one of a provider.
#[derive(Debug, Clone, PartialEq)]
struct Found {
    host: String,
    /// `None`: that of `custom_host`.
    port: Option<u16>,
    weight: f64,
}

/// A provider that is looked for.
struct Watch {
    due: Instant,
    /// Whether the last look has failed, so that it is said once.
    has_failed: bool,
}

/// Keeps the hosts of the settings in force fresh, for ever.
pub async fn keep_fresh(shared: &Shared) {
    let mut watches: HashMap<String, Watch> = HashMap::new();
    loop {
        let snapshot = shared.settings_arc();
        let now = Instant::now();
        watches.retain(|slug, _| discovery(&snapshot, slug).is_some());
        let all = snapshot.settings.providers.iter().filter(|(_, provider)| provider.discover.is_some());
        let due: Vec<_> =
            all.filter(|(slug, _)| watches.get(*slug).is_none_or(|watch| now >= watch.due)).collect();
        let looks =
            due.into_iter().map(async |(slug, provider)| (slug, provider, look(shared, provider).await));
        for (slug, provider, found) in join_all(looks).await {
            let interval = provider.discover.as_ref().map_or(TIMEOUT, |discover| discover.interval);
            let had_failed = watches.get(slug).is_some_and(|watch| watch.has_failed);
            watches.insert(slug.clone(), Watch { due: now + interval, has_failed: found.is_err() });
            match found {
                Ok(found) => shared.install_hosts(slug, hosts_of(slug, provider, found)),
                Err(why) if !had_failed => {
                    log::warn!(target: "turnpike", "provider {slug}: its hosts cannot be found, the last ones stay: {why}");
                }
                Err(_) => {}
            }
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// The lists of the providers that look for hosts as before: what a reload keeps.
pub(super) fn kept(before: &SettingsSnapshot, after: &SettingsSnapshot) -> HostLists {
    let is_kept = |slug: &str| {
        let provider = |snapshot: &SettingsSnapshot| {
            let provider = snapshot.settings.providers.get(slug)?;
            Some((provider.discover.clone()?, provider.account.custom_host.clone()))
        };
        provider(before).is_some_and(|own| provider(after) == Some(own))
    };
    let lists = before.hosts_of.iter().filter(|(slug, _)| is_kept(slug));
    lists.map(|(slug, hosts)| (slug.clone(), Arc::clone(hosts))).collect()
}

fn discovery<'s>(snapshot: &'s SettingsSnapshot, slug: &str) -> Option<&'s words::settings::Discovery> {
    snapshot.settings.providers.get(slug)?.discover.as_ref()
}

async fn look(shared: &Shared, provider: &StoredProvider) -> Result<Vec<Found>, String> {
    let Some(discover) = &provider.discover else { return Ok(Vec::new()) };
    let outbound = &shared.settings_arc().settings.outbound;
    let looked = timeout(TIMEOUT, ask(&shared.dns, outbound, &discover.source)).await;
    looked.unwrap_or_else(|_| Err(format!("no answer within {TIMEOUT:?}")))
}

async fn ask(dns: &Dns, outbound: &Outbound, source: &HostSource) -> Result<Vec<Found>, String> {
    match source {
        HostSource::Dns(name) => {
            let ips = dns.all_addresses(name, outbound).await.map_err(|why| why.to_string())?;
            Ok(ips.into_iter().map(|ip| Found { host: ip.to_string(), port: None, weight: 1.0 }).collect())
        }
        HostSource::Srv(name) => {
            let services = dns.services(name).await.map_err(|why| why.to_string())?;
            let first = services.iter().map(|service| service.priority).min();
            let first = services.into_iter().filter(|service| Some(service.priority) == first);
            // A weight of 0 is the smallest of those that are there, and not none (RFC 2782).
            let found = first.map(|service| Found {
                weight: f64::from(service.weight.max(1)),
                port: Some(service.port),
                host: service.host,
            });
            Ok(found.collect())
        }
        HostSource::File(path) => parse(&read(path).await?),
    }
}

async fn read(path: &Path) -> Result<String, String> {
    let shown = |why: std::io::Error| format!("{}: {why}", path.display());
    let size = tokio::fs::metadata(path).await.map_err(shown)?.len();
    if size > MAX_FILE_BYTES {
        return Err(format!("{}: it is over {MAX_FILE_BYTES} bytes", path.display()));
    }
    tokio::fs::read_to_string(path).await.map_err(shown)
}

/// Reads a file: a host in each line, or a JSON list of hosts or of objects with `targets`, as Prometheus has them (`file_sd_configs`).
fn parse(text: &str) -> Result<Vec<Found>, String> {
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Item {
        Host(String),
        Group { targets: Vec<String> },
    }
    if text.trim_start().starts_with('[') {
        let items: Vec<Item> =
            serde_json::from_str(text).map_err(|why| format!("it is no list of hosts: {why}"))?;
        let names = items.into_iter().flat_map(|item| match item {
            Item::Host(host) => vec![host],
            Item::Group { targets } => targets,
        });
        return names.map(|name| Found::parse(&name)).collect();
    }
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).map(Found::parse).collect()
}

impl Found {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not HOST or HOST:PORT");
        let authority: http::uri::Authority = text.parse().map_err(|_| wrong())?;
        let is_plain = !text.contains('@') && !authority.host().is_empty();
        let port = match authority.port_u16() {
            // A port that is no number.
            None if authority.host().len() != text.len() => return Err(wrong()),
            port => port,
        };
        if !is_plain || port == Some(0) {
            return Err(wrong());
        }
        Ok(Self { host: authority.host().to_owned(), port, weight: 1.0 })
    }
}

/// The hosts of a provider, in one order however they were named, each once.
fn hosts_of(slug: &str, provider: &StoredProvider, found: Vec<Found>) -> Arc<[DiscoveredHost]> {
    let base = provider.account.custom_host.as_deref().and_then(|base| Url::parse(base).ok());
    let Some(base) = base else { return Arc::default() };
    let mut hosts: BTreeMap<String, DiscoveredHost> = BTreeMap::new();
    for Found { host, port, weight } in found {
        let mut url = base.clone();
        let literal = if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host };
        let is_set =
            url.set_host(Some(&literal)).is_ok() && port.is_none_or(|port| url.set_port(Some(port)).is_ok());
        let (Some(host), Some(port), true) = (url.host_str(), url.port_or_known_default(), is_set) else {
            log::warn!(target: "turnpike", "provider {slug}: {literal:?} is no host");
            continue;
        };
        let authority = format!("{host}:{port}");
        let host = DiscoveredHost {
            name: format!("{slug}@{authority}").into(),
            authority: authority.as_str().into(),
            base: url.as_str().trim_end_matches('/').to_owned(),
            weight,
        };
        hosts.entry(authority).or_insert(host);
    }
    if hosts.len() > MAX_HOSTS {
        log::warn!(target: "turnpike", "provider {slug}: of {} hosts {MAX_HOSTS} are used", hosts.len());
    }
    hosts.into_values().take(MAX_HOSTS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use words::config::account::Account;

    fn provider(base: &str) -> StoredProvider {
        let account = Account { custom_host: Some(base.to_owned()), ..Account::default() };
        StoredProvider { account, ..StoredProvider::default() }
    }

    #[test]
    fn a_file_has_lines_or_a_list() {
        let found = |text: &str| {
            parse(text).map(|all| all.into_iter().map(|found| (found.host, found.port)).collect::<Vec<_>>())
        };
        let wanted = vec![
            ("gpu-1".to_owned(), None),
            ("10.0.0.2".to_owned(), Some(8001)),
            ("[::1]".to_owned(), Some(80)),
        ];
        assert_eq!(found("# engines\ngpu-1\n\n10.0.0.2:8001 # new\n  [::1]:80\n").unwrap(), wanted);
        assert_eq!(found(r#"["gpu-1", "10.0.0.2:8001", "[::1]:80"]"#).unwrap(), wanted);
        let of_prometheus =
            r#"[{"targets": ["gpu-1", "10.0.0.2:8001"], "labels": {"a": "b"}}, {"targets": ["[::1]:80"]}]"#;
        assert_eq!(found(of_prometheus).unwrap(), wanted);
        for empty in ["", "# none\n", "[]"] {
            assert_eq!(found(empty).unwrap(), [], "{empty}");
        }
        for wrong in [
            "http://gpu-1",
            "a b",
            "gpu-1:",
            "gpu-1:x",
            "gpu-1:99999",
            "gpu-1:0",
            "u@gpu-1",
            ":80",
            "gpu-1/v1",
            "[1]",
            "[{}]",
            "[\"a b\"]",
        ] {
            assert!(found(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn hosts_stand_in_the_place_of_the_host_of_custom_host() {
        let found = |host: &str, port| Found { host: host.to_owned(), port, weight: 1.0 };
        let all = vec![
            found("10.0.0.2", None),
            found("::1", None),
            found("GPU-1", Some(9000)),
            found("10.0.0.2", Some(8000)),
            found("a b", None),
        ];
        let hosts = hosts_of("engine", &provider("http://engines.internal:8000/v1"), all.clone());
        let bases: Vec<&str> = hosts.iter().map(|host| host.base.as_str()).collect();
        assert_eq!(bases, ["http://10.0.0.2:8000/v1", "http://[::1]:8000/v1", "http://gpu-1:9000/v1"]);
        assert_eq!(&*hosts[1].name, "engine@[::1]:8000");
        let plain = hosts_of("engine", &provider("http://engines.internal"), all);
        assert_eq!((&*plain[0].authority, plain[0].base.as_str()), ("10.0.0.2:80", "http://10.0.0.2"));
        assert_eq!(hosts_of("engine", &StoredProvider::default(), vec![found("a", None)]).len(), 0);
        let many = (0..=MAX_HOSTS).map(|number| found(&format!("h{number}"), None)).collect();
        assert_eq!(hosts_of("engine", &provider("http://e/v1"), many).len(), MAX_HOSTS);
    }
}
