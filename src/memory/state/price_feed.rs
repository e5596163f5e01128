//! Reads a newer catalogue of prices from the file or URL of the settings, and puts it in force if it can be believed.
//!
//! In the background: at the start, after each reload, and every `prices.refresh_hours`. When it cannot be had, or is refused, the
//! prices in force stay. Which catalogues are refused is decided in `price` (`check_replacement`).

use super::Shared;
use crate::net::outbound::side_http::{SideHttpClient, SideRequest};
use http::{HeaderMap, Method};
use jiff::Timestamp;
use knowledge::price::{Catalog, MAX_CATALOGUE_BYTES, PriceBook, SHIPPED_VERSION, check_replacement};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use words::settings::CatalogueSource;

/// For the whole download.
const FETCH_TIMEOUT: Duration = Duration::from_secs(60);

/// Until the next try after one that failed, unless `refresh_hours` is shorter.
const RETRY_INTERVAL: Duration = Duration::from_secs(300);

pub struct PriceFeed {
    http: SideHttpClient,
    changed: Notify,
    /// When the catalogue in force was read, in seconds of Unix time.
    read_at: AtomicI64,
    /// Where it is from: `binary`, `file` or `url`.
    origin: Mutex<&'static str>,
}

/// What became of one reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatalogueRefresh {
    Replaced,
    /// It is the catalogue in force.
    Same,
}

impl PriceFeed {
    pub fn new(ca_file: Option<PathBuf>) -> Self {
        let read_at = AtomicI64::new(SHIPPED_AT);
        let origin = Mutex::new("binary");
        Self { http: SideHttpClient::new(ca_file), changed: Notify::new(), read_at, origin }
    }

    /// Other settings are in force.
    pub(crate) fn settings_changed(&self) {
        self.changed.notify_one();
    }

    /// How old the prices in force are, in seconds: since they were read, or since the ones in the binary were taken over.
    pub fn age(&self, now: Timestamp) -> i64 {
        (now.as_second() - self.read_at.load(Ordering::Relaxed)).max(0)
    }

    /// Keeps the catalogue fresh, for ever.
    pub async fn keep_fresh(&self, shared: &Shared) {
        loop {
            let snapshot = shared.settings_arc();
            let settings = &snapshot.settings.prices;
            let wait = match &settings.catalogue {
                None => {
                    self.use_shipped(shared);
                    settings.refresh_interval
                }
                Some(source) => match self.refresh(shared, source).await {
                    Ok(_) => settings.refresh_interval,
                    Err(_) => settings.refresh_interval.min(RETRY_INTERVAL),
                },
            };
            drop(snapshot);
            shared.metrics.prices_loaded(*self.origin.lock(), shared.prices.load().version());
            let _ = tokio::time::timeout(wait, self.changed.notified()).await;
        }
    }

    fn use_shipped(&self, shared: &Shared) {
        if &**shared.prices.load().edition() != SHIPPED_VERSION {
            shared.prices.rcu(|book| book.with_shipped_catalog());
            self.read_at.store(SHIPPED_AT, Ordering::Relaxed);
            *self.origin.lock() = "binary";
        }
    }

    /// # Errors
    /// Why the prices in force stay, for the log; it is logged and counted already.
    pub async fn refresh(
        &self,
        shared: &Shared,
        source: &CatalogueSource,
    ) -> Result<CatalogueRefresh, String> {
        let fetched = match source {
            CatalogueSource::File(path) => read(path).await,
            CatalogueSource::Url(url) => self.fetch(shared, url).await,
        };
        let wanted = shared.settings().settings.prices.sha256.clone();
        let (fetched, outcome) = match fetched {
            Ok(text) => match check_digest(&text, wanted.as_deref()) {
                Ok(()) => (self.replace(shared, text).await, "refused"),
                Err(why) => (Err(why), "refused"),
            },
            Err(why) => (Err(why), "failed"),
        };
        match &fetched {
            Ok(refresh) => {
                self.read_at.store(Timestamp::now().as_second(), Ordering::Relaxed);
                *self.origin.lock() = match source {
                    CatalogueSource::File(_) => "file",
                    CatalogueSource::Url(_) => "url",
                };
                shared.metrics.prices_refreshed(refresh.as_str());
            }
            Err(why) => {
                log::warn!(target: "turnpike", "prices: the catalogue {}, the prices in force stay: {why}", verb(outcome));
                shared.metrics.prices_refreshed(outcome);
            }
        }
        fetched
    }

    async fn fetch(&self, shared: &Shared, url: &str) -> Result<Vec<u8>, String> {
        let request = SideRequest {
            method: Method::GET,
            url,
            headers: HeaderMap::new(),
            body: Vec::new(),
            timeout: FETCH_TIMEOUT,
            max_body: MAX_CATALOGUE_BYTES,
            trusted: true,
        };
        let hosts = Arc::clone(&shared.settings().hosts);
        let response = self.http.send(request, &shared.dns, &hosts).await;
        let response = response.map_err(|why| why.to_string())?;
        match response.status {
            200 => Ok(response.body),
            status => Err(format!("{url} responds with status {status}")),
        }
    }

    async fn replace(&self, shared: &Shared, text: Vec<u8>) -> Result<CatalogueRefresh, String> {
        let edition = edition(&text);
        let book = shared.prices.load_full();
        if &**book.edition() == edition.as_str() {
            return Ok(CatalogueRefresh::Same);
        }
        let checked = tokio::task::spawn_blocking(move || check(&book, &text));
        let catalog = checked.await.map_err(|why| why.to_string())??;
        let models = catalog.models();
        let catalog = Arc::new(catalog);
        shared.prices.rcu(|book| book.with_catalog(Arc::clone(&catalog), &edition));
        log::info!(target: "turnpike", "prices: {models} models of the catalogue {edition} are in force");
        Ok(CatalogueRefresh::Replaced)
    }
}

/// When the data in the binary was taken over: 2026-11-22.
const SHIPPED_AT: i64 = 1_795_305_600;

impl CatalogueRefresh {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Replaced => "replaced",
            Self::Same => "same",
        }
    }
}

fn verb(outcome: &str) -> &'static str {
    match outcome {
        "refused" => "is refused",
        _ => "cannot be had",
    }
}

fn check(book: &PriceBook, text: &[u8]) -> Result<Catalog, String> {
    let catalog = Catalog::read(text)?;
    check_replacement(book, &catalog, Timestamp::now())?;
    Ok(catalog)
}

/// The SHA-256 of a catalogue, as lower-case hex digits.
pub fn digest(text: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The catalogue's name in rows: the beginning of its SHA-256.
pub fn edition(text: &[u8]) -> String {
    let digest = digest(text);
    format!("sha256-{}", digest.get(..12).unwrap_or_default())
}

/// Whether a catalogue is the one that the settings want (`prices.sha256`).
///
/// # Errors
/// What its digest is.
pub fn check_digest(text: &[u8], wanted: Option<&str>) -> Result<(), String> {
    let Some(wanted) = wanted else { return Ok(()) };
    match digest(text) {
        found if found == wanted => Ok(()),
        found => Err(format!("its SHA-256 is {found}, and prices.sha256 wants {wanted}")),
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, String> {
    let shown = |why: std::io::Error| format!("{}: {why}", path.display());
    let size = tokio::fs::metadata(path).await.map_err(shown)?.len();
    if size > MAX_CATALOGUE_BYTES as u64 {
        return Err(format!("{}: it is over {MAX_CATALOGUE_BYTES} bytes", path.display()));
    }
    tokio::fs::read(path).await.map_err(shown)
}
