//! What model servers have to do, by their own word (`engine` of a stored provider), read again and again in the background.
//!
//! A server that does not respond in time is not down: its last reading counts for a while, then there is none, and only what this
//! gateway has sent there counts. Bounded by the stored providers. Not here: what its metrics mean (`provider::engine_metrics`), and who
//! is chosen by them (`route`).

use super::Shared;
use super::discovered_hosts::DiscoveredHost;
use super::snapshot::SettingsSnapshot;
use crate::net::outbound::origin::Origin;
use crate::net::outbound::side_http::{SideHttpClient, SideRequest};
use futures_util::future::{AbortHandle, Abortable};
use futures_util::stream::{FuturesUnordered, StreamExt};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, Method};
use knowledge::provider::engine_metrics::EngineReading;
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use uuid::Uuid;
use words::config::policies::EnginePolicy;
use words::settings::StoredProvider;

/// The most servers that are read.
const MAX_ENGINES: usize = 1_000;
/// How often it is looked whether there are others.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// What others than the operator may have the gateway do.
const MIN_STORED_INTERVAL: Duration = Duration::from_secs(1);
/// For one reading, at least; a longer interval is the limit of its own.
const MIN_TIMEOUT: Duration = Duration::from_secs(2);
/// The largest page of metrics, bytes.
const MAX_PAGE_BYTES: usize = 4 << 20;
/// A reading counts for so many intervals, and no shorter than [`MIN_FRESH`].
const FRESH_INTERVALS: u32 = 5;
const MIN_FRESH: Duration = Duration::from_secs(5);

/// The readings of all servers.
#[derive(Debug)]
pub struct EngineLoads {
    http: SideHttpClient,
    /// By slug; those of several workspaces are told apart by their record, nil for a provider of the settings.
    readings: Mutex<HashMap<String, Vec<(Uuid, Kept)>>>,
    /// The slugs that metrics have.
    counted: Mutex<BTreeSet<String>>,
}

#[derive(Debug, Clone)]
struct Kept {
    reading: Arc<EngineReading>,
    /// When it counts no more.
    until: Instant,
}

/// A server to be read.
#[derive(Debug, Clone, PartialEq)]
struct EngineSource {
    record: Uuid,
    slug: String,
    url: String,
    headers: HeaderMap,
    policy: EnginePolicy,
    /// The operator wrote its address.
    is_trusted: bool,
}

/// A server as operators see it.
#[derive(Debug, Clone)]
pub struct EngineView {
    pub slug: String,
    pub reading: Arc<EngineReading>,
}

impl EngineLoads {
    pub fn new(ca_file: Option<PathBuf>) -> Self {
        Self { http: SideHttpClient::pooled(ca_file), readings: Mutex::default(), counted: Mutex::default() }
    }

    /// The reading of a stored provider, if it still counts at `now`. `record`: nil for one of the settings.
    pub fn get(&self, record: Uuid, slug: &str, now: Instant) -> Option<Arc<EngineReading>> {
        let readings = self.readings.lock();
        let (_, kept) = readings.get(slug)?.iter().find(|(of, _)| *of == record)?;
        (now < kept.until).then(|| Arc::clone(&kept.reading))
    }

    /// Those that count at `now`.
    pub fn list(&self, now: Instant) -> Vec<EngineView> {
        let readings = self.readings.lock();
        let all =
            readings.iter().flat_map(|(slug, of_slug)| of_slug.iter().map(move |(_, kept)| (slug, kept)));
        let fresh = all.filter(|(_, kept)| now < kept.until);
        fresh
            .map(|(slug, kept)| EngineView { slug: slug.clone(), reading: Arc::clone(&kept.reading) })
            .collect()
    }

    /// Keeps the readings of the providers in force fresh, for ever. A change of one does not disturb the others.
    pub async fn keep_fresh(&self, shared: &Shared) {
        let mut readers = FuturesUnordered::new();
        let mut running: Vec<(Arc<EngineSource>, AbortHandle)> = Vec::new();
        loop {
            let snapshot = shared.settings_arc();
            let wanted = sources(&snapshot);
            running.retain(|(source, reader)| {
                let stays = wanted.contains(source);
                if !stays {
                    reader.abort();
                }
                stays
            });
            for source in &wanted {
                if running.iter().any(|(other, _)| **other == *source) {
                    continue;
                }
                let source = Arc::new(source.clone());
                let (reader, registration) = AbortHandle::new_pair();
                let reading = self.read_again_and_again(shared, Arc::clone(&source));
                readers.push(Abortable::new(reading, registration));
                running.push((source, reader));
            }
            self.forget_others(&wanted, shared);
            let others = until_others(shared, snapshot, &wanted);
            tokio::pin!(others);
            loop {
                tokio::select! {
                    () = &mut others => break,
                    // A reader ends only when it is aborted.
                    Some(_) = readers.next() => {}
                }
            }
        }
    }

    async fn read_again_and_again(&self, shared: &Shared, source: Arc<EngineSource>) {
        let mut is_read = true;
        loop {
            let next = tokio::time::Instant::now() + source.policy.interval;
            let read = self.read(shared, &source).await;
            shared.metrics.record_engine_read(&source.slug, read.is_ok());
            match read {
                Ok(reading) => {
                    if !is_read {
                        log::info!(target: "turnpike", "engine {}: its metrics can be read again", source.slug);
                    }
                    is_read = true;
                    self.keep(&source, reading, Instant::now());
                }
                Err(why) => {
                    // When it begins, not every second.
                    if is_read {
                        log::warn!(target: "turnpike", "engine {}: its metrics cannot be read, its load is not known: {why}", source.slug);
                    }
                    is_read = false;
                }
            }
            tokio::time::sleep_until(next).await;
        }
    }

    async fn read(&self, shared: &Shared, source: &EngineSource) -> Result<EngineReading, String> {
        let request = SideRequest {
            method: Method::GET,
            url: &source.url,
            headers: source.headers.clone(),
            body: Vec::new(),
            timeout: source.policy.interval.max(MIN_TIMEOUT),
            max_body: MAX_PAGE_BYTES,
            trusted: source.is_trusted,
        };
        let hosts = &shared.settings_arc().hosts;
        let response = self.http.send(request, &shared.dns, hosts).await.map_err(|why| why.to_string())?;
        if response.status != 200 {
            return Err(format!("{} answers {}", source.policy.metrics_path, response.status));
        }
        let page = String::from_utf8_lossy(&response.body);
        let nothing = || format!("{} names no running or waiting requests", source.policy.metrics_path);
        EngineReading::read(&page).ok_or_else(nothing)
    }

    fn keep(&self, source: &EngineSource, reading: EngineReading, now: Instant) {
        let until = now + (source.policy.interval * FRESH_INTERVALS).max(MIN_FRESH);
        let kept = Kept { reading: Arc::new(reading), until };
        let mut readings = self.readings.lock();
        let of_slug = readings.entry(source.slug.clone()).or_default();
        match of_slug.iter_mut().find(|(record, _)| *record == source.record) {
            Some((_, earlier)) => *earlier = kept,
            None => of_slug.push((source.record, kept)),
        }
    }

    fn forget_others(&self, sources: &[EngineSource], shared: &Shared) {
        let is_source = |slug: &str, record: Uuid| {
            sources.iter().any(|source| source.slug == slug && source.record == record)
        };
        let slugs: BTreeSet<&str> = sources.iter().map(|source| source.slug.as_str()).collect();
        self.readings.lock().retain(|slug, of_slug| {
            of_slug.retain(|(record, _)| is_source(slug, *record));
            !of_slug.is_empty()
        });
        self.counted.lock().retain(|slug| {
            let stays = slugs.contains(slug.as_str());
            if !stays {
                shared.metrics.forget_engine(slug);
            }
            stays
        });
        self.counted.lock().extend(slugs.into_iter().map(str::to_owned));
    }
}

/// Returns when there are other servers than these.
async fn until_others(shared: &Shared, mut then: Arc<SettingsSnapshot>, sources_then: &[EngineSource]) {
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        let now = shared.settings_arc();
        if Arc::ptr_eq(&then, &now) {
            continue;
        }
        if sources(&now) != sources_then {
            return;
        }
        then = now;
    }
}

/// The servers to be read, by these settings and stored objects.
fn sources(snapshot: &SettingsSnapshot) -> Vec<EngineSource> {
    let own = snapshot.settings.providers.iter().flat_map(|(slug, provider)| {
        let hosts = snapshot.directory(None).hosts(slug).map(|(hosts, _)| hosts).unwrap_or_default();
        let of_host =
            |host: &DiscoveredHost| EngineSource::new(Uuid::nil(), &host.name, provider, &host.base, true);
        let alone = provider.account.custom_host.as_deref().filter(|_| hosts.is_empty());
        let alone = alone.and_then(|base| EngineSource::new(Uuid::nil(), slug, provider, base, true));
        hosts.iter().filter_map(of_host).chain(alone).collect::<Vec<_>>()
    });
    let stored = snapshot.stored.engines();
    let stored = stored.filter_map(|(record, slug, provider)| {
        let base = provider.account.custom_host.as_deref()?;
        EngineSource::new(record, slug, provider, base, false)
    });
    own.chain(stored).take(MAX_ENGINES).collect()
}

impl EngineSource {
    /// `base`: the address of its API, whose host has the metrics.
    fn new(
        record: Uuid,
        slug: &str,
        provider: &StoredProvider,
        base: &str,
        is_trusted: bool,
    ) -> Option<Self> {
        let mut policy = provider.policies.engine.clone()?;
        if !is_trusted {
            policy.interval = policy.interval.max(MIN_STORED_INTERVAL);
        }
        let origin = Origin::parse(base, is_trusted).ok()?;
        let scheme = if origin.tls { "https" } else { "http" };
        let url = format!("{scheme}://{}{}", origin.authority(), policy.metrics_path);
        let key = provider.account.api_key.as_ref().map(|key| format!("Bearer {}", key.expose()));
        let mut headers = HeaderMap::new();
        if let Some(mut value) = key.and_then(|key| HeaderValue::from_str(&key).ok()) {
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Some(Self { record, slug: slug.to_owned(), url, headers, policy, is_trusted })
    }
}
