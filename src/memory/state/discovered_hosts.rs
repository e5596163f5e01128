//! The hosts of providers that come and go (`providers.<slug>.discover`), looked for again and again in the background.
//!
//! What was found is part of the snapshot, so that a config compiles to a choice among it. Where a look fails the last hosts stay. Not
//! here: which of them is chosen (`route`), and whether one is up, which circuits and engines tell.

use super::Shared;
use super::snapshot::SettingsSnapshot;
use crate::net::outbound::dns::Dns;
use crate::net::outbound::origin::Origin;
use futures_util::future::{AbortHandle, Abortable};
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;
use url::Url;
use words::settings::outbound::Outbound;
use words::settings::{HostSource, Settings, StoredProvider};

/// The hosts of a provider, at most.
const MAX_HOSTS: usize = 256;
/// How often it is looked whether other settings are in force.
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
    /// `custom_host` itself, which stands for all of them.
    pub of_all: Arc<str>,
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

/// Keeps the hosts of the settings in force fresh, for ever. A source that takes long holds up no other.
pub async fn keep_fresh(shared: &Shared) {
    let mut looking = FuturesUnordered::new();
    let mut running: HashMap<String, (StoredProvider, AbortHandle)> = HashMap::new();
    loop {
        let snapshot = shared.settings_arc();
        let wanted = |slug: &str, provider: &StoredProvider| {
            snapshot.settings.providers.get(slug).is_some_and(|now| is_found_as(now, provider))
        };
        running.retain(|slug, (provider, task)| {
            let stays = wanted(slug, provider);
            if !stays {
                task.abort();
            }
            stays
        });
        for (slug, provider) in &snapshot.settings.providers {
            if provider.discover.is_none() || running.contains_key(slug) {
                continue;
            }
            let (task, registration) = AbortHandle::new_pair();
            let look = look_again_and_again(shared, slug.clone(), provider.clone());
            looking.push(Abortable::new(look, registration));
            running.insert(slug.clone(), (provider.clone(), task));
        }
        let settings = Arc::clone(&snapshot.settings);
        drop(snapshot);
        let others = until_others(shared, settings);
        tokio::pin!(others);
        loop {
            tokio::select! {
                () = &mut others => break,
                // One ends only when it is aborted.
                Some(_) = looking.next() => {}
            }
        }
    }
}

/// Returns when other settings are in force.
async fn until_others(shared: &Shared, settings: Arc<Settings>) {
    while Arc::ptr_eq(&settings, &shared.settings_arc().settings) {
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// Whether the hosts of both are found in the same way, and are addresses of the same form.
pub(super) fn is_found_as(one: &StoredProvider, other: &StoredProvider) -> bool {
    one.discover.is_some()
        && one.discover == other.discover
        && one.account.custom_host == other.account.custom_host
}

async fn look_again_and_again(shared: &Shared, slug: String, provider: StoredProvider) {
    let interval = provider.discover.as_ref().map_or(TIMEOUT, |discover| discover.interval);
    let mut has_failed = false;
    loop {
        let next = tokio::time::Instant::now() + interval;
        let found = look(shared, &provider).await;
        let found = found.and_then(|found| hosts_of(&slug, &provider, found));
        if let Err(why) = &found
            && !has_failed
        {
            log::warn!(target: "turnpike", "provider {slug}: its hosts cannot be found, the last ones stay: {why}");
        }
        has_failed = found.is_err();
        if let Ok(found) = found {
            shared.install_hosts(&slug, &provider, found);
        }
        tokio::time::sleep_until(next).await;
    }
}

/// The lists of the providers that look for hosts as before: what a reload keeps.
pub(super) fn kept(before: &SettingsSnapshot, after: &SettingsSnapshot) -> HostLists {
    let is_kept = |slug: &str| {
        let own = before.settings.providers.get(slug).zip(after.settings.providers.get(slug));
        own.is_some_and(|(before, after)| is_found_as(before, after))
    };
    let lists = before.hosts_of.iter().filter(|(slug, _)| is_kept(slug));
    lists.map(|(slug, hosts)| (slug.clone(), Arc::clone(hosts))).collect()
}

async fn look(shared: &Shared, provider: &StoredProvider) -> Result<Vec<Found>, String> {
    let Some(discover) = &provider.discover else { return Ok(Vec::new()) };
    let outbound = &shared.settings_arc().settings.outbound;
    let looked = timeout(TIMEOUT, find(&shared.dns, outbound, &discover.source)).await;
    looked.unwrap_or_else(|_| Err(format!("no answer within {TIMEOUT:?}")))
}

async fn find(dns: &Dns, outbound: &Outbound, source: &HostSource) -> Result<Vec<Found>, String> {
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
    // A pipe would wait for whoever writes it, and a device may have no end.
    if !tokio::fs::metadata(path).await.map_err(shown)?.is_file() {
        return Err(format!("{}: it is no regular file", path.display()));
    }
    let mut text = String::new();
    let file = tokio::fs::File::open(path).await.map_err(shown)?;
    let read = file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).await.map_err(shown)?;
    if read as u64 > MAX_FILE_BYTES {
        return Err(format!("{}: it is over {MAX_FILE_BYTES} bytes", path.display()));
    }
    Ok(text)
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
///
/// # Errors
/// One of them is none that can be connected to.
fn hosts_of(
    slug: &str,
    provider: &StoredProvider,
    found: Vec<Found>,
) -> Result<Arc<[DiscoveredHost]>, String> {
    let Some(of_all) = provider.account.custom_host.as_deref() else { return Ok(Arc::default()) };
    let base = Url::parse(of_all).map_err(|why| why.to_string())?;
    let of_all: Arc<str> = of_all.into();
    let mut hosts: BTreeMap<String, DiscoveredHost> = BTreeMap::new();
    for Found { host, port, weight } in found {
        let wrong = || format!("{host:?} is no host");
        let mut url = base.clone();
        // In DNS a name may end with a dot.
        let bare = host.strip_suffix('.').unwrap_or(&host);
        let literal =
            if bare.contains(':') && !bare.starts_with('[') { format!("[{bare}]") } else { bare.to_owned() };
        url.set_host(Some(&literal)).map_err(|_| wrong())?;
        if let Some(port) = port {
            url.set_port(Some(port)).map_err(|()| wrong())?;
        }
        let base = url.as_str().trim_end_matches('/').to_owned();
        // As the target at it is compiled.
        Origin::parse(&base, true).map_err(|_| wrong())?;
        let authority =
            url.host_str().zip(url.port_or_known_default()).map(|(host, port)| format!("{host}:{port}"));
        let authority = authority.ok_or_else(wrong)?;
        let host = DiscoveredHost {
            name: format!("{slug}@{authority}").into(),
            authority: authority.as_str().into(),
            base,
            of_all: Arc::clone(&of_all),
            weight,
        };
        hosts.entry(authority).or_insert(host);
    }
    if hosts.len() > MAX_HOSTS {
        return Err(format!("there are {} hosts, and {MAX_HOSTS} is the most", hosts.len()));
    }
    Ok(hosts.into_values().collect())
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
            found("GPU-1.", Some(9000)),
            found("10.0.0.2", Some(8000)),
        ];
        let hosts = hosts_of("engine", &provider("http://engines.internal:8000/v1"), all.clone()).unwrap();
        let bases: Vec<&str> = hosts.iter().map(|host| host.base.as_str()).collect();
        assert_eq!(bases, ["http://10.0.0.2:8000/v1", "http://[::1]:8000/v1", "http://gpu-1:9000/v1"]);
        assert_eq!(&*hosts[1].name, "engine@[::1]:8000");
        let plain = hosts_of("engine", &provider("http://engines.internal"), all).unwrap();
        assert_eq!((&*plain[0].authority, plain[0].base.as_str()), ("10.0.0.2:80", "http://10.0.0.2"));
        assert_eq!(hosts_of("engine", &StoredProvider::default(), vec![found("a", None)]).unwrap().len(), 0);
        // Each is one that a target can be at: one that is not would make all of the provider's requests fail.
        let long = "a".repeat(64);
        for wrong in ["a b", "*.x", "a..b", "a,b", "a;b", "x~y", "", ".", &long] {
            let one =
                hosts_of("engine", &provider("http://e/v1"), vec![found("good", None), found(wrong, None)]);
            assert!(one.is_err_and(|why| why.contains("is no host")), "{wrong}");
        }
        let many = (0..=MAX_HOSTS).map(|number| found(&format!("h{number}"), None)).collect();
        assert!(hosts_of("engine", &provider("http://e/v1"), many).unwrap_err().contains("is the most"));
    }
}
