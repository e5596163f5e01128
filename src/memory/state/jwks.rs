//! Fetches the public keys of the identity provider: from its URL, or from a file.
//!
//! In the background every ten minutes and after each reload, and at once when a token names an unknown key, at most every 30
//! seconds. When it fails the last good set stays in force. Verifying tokens is `auth::jwt`'s.

use super::Shared;
use crate::auth::Tokens;
use crate::auth::jwks::KeySet;
use crate::net::outbound::custom_host::HostRules;
use crate::net::outbound::dns::Dns;
use crate::net::outbound::side_client::FetchError;
use crate::net::outbound::token_http::TokenHttpClient;
use http::{HeaderMap, Method};
use knowledge::provider::token_exchange::TokenRequest;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, Notify};
use tokio::time::timeout;
use words::settings::jwt::JwksSource;

const REFRESH_INTERVAL: Duration = Duration::from_secs(600);
/// Between two tries while there is no key at all.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Between two fetches for tokens with unknown keys, of all clients together.
const MIN_INTERVAL: Duration = Duration::from_secs(30);
/// How long a token waits for newer keys. A fetch that takes longer goes on in the background.
const TOKEN_WAIT: Duration = Duration::from_secs(3);
/// The largest file, bytes. What comes from a URL is bounded by `token_http`.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Fetches key sets, one at a time.
pub struct JwksFetcher {
    http: TokenHttpClient,
    /// The last fetch for an unknown key. Held while any fetch runs; others wait for its result.
    last: Mutex<Option<LastFetch>>,
    changed: Notify,
}

/// A fetch for a token with an unknown key.
struct LastFetch {
    began: Instant,
    /// Whether there were keys when it began. A fetch that began without any may have missed keys that are new since.
    had_keys: bool,
}

impl LastFetch {
    /// How long after it no other fetch for an unknown key begins.
    fn interval(&self, has_keys: bool) -> Duration {
        match (self.had_keys, has_keys) {
            (true, true) => MIN_INTERVAL,
            (_, false) => RETRY_INTERVAL,
            (false, true) => Duration::ZERO,
        }
    }
}

impl JwksFetcher {
    pub fn new(ca_file: Option<PathBuf>) -> Self {
        Self { http: TokenHttpClient::new(ca_file), last: Mutex::default(), changed: Notify::new() }
    }

    /// Other settings are in force; their keys must be fetched.
    pub(crate) fn settings_changed(&self) {
        self.changed.notify_one();
    }

    /// Fetches the keys of `tokens` for an unknown one, unless the last such fetch began less than [`MIN_INTERVAL`] ago
    /// ([`RETRY_INTERVAL`] while there is no key). Takes at most [`TOKEN_WAIT`].
    pub(crate) async fn fetch_unless_recent(&self, tokens: &Tokens, dns: &Dns, hosts: &HostRules) {
        let mut has_begun = false;
        let fetched = timeout(TOKEN_WAIT, self.fetch_for_token(tokens, dns, hosts, &mut has_begun)).await;
        if fetched.is_err() && has_begun {
            // The task that keeps the keys fresh may wait longer.
            self.changed.notify_one();
        }
    }

    /// `has_begun`: set where this call fetches, and does not only wait for another that does.
    async fn fetch_for_token(&self, tokens: &Tokens, dns: &Dns, hosts: &HostRules, has_begun: &mut bool) {
        let had_none = !tokens.has_keys();
        let mut last = self.last.lock().await;
        let now = Instant::now();
        let had_keys = tokens.has_keys();
        if had_none && had_keys {
            // The first keys came while this waited for them.
            return;
        }
        if last.as_ref().is_some_and(|last| now.duration_since(last.began) < last.interval(had_keys)) {
            return;
        }
        *last = Some(LastFetch { began: now, had_keys });
        *has_begun = true;
        self.fetch(tokens, dns, hosts).await;
    }

    /// Keeps the keys of the settings in force fresh, for ever.
    pub async fn keep_fresh(&self, shared: &Shared) {
        loop {
            let snapshot = shared.settings_arc();
            let wait = match snapshot.service_keys.tokens() {
                Some(tokens) => {
                    let _guard = self.last.lock().await;
                    self.fetch(tokens, &shared.dns, &snapshot.hosts).await;
                    if tokens.has_keys() { REFRESH_INTERVAL } else { RETRY_INTERVAL }
                }
                None => REFRESH_INTERVAL,
            };
            drop(snapshot);
            let _ = timeout(wait, self.changed.notified()).await;
        }
    }

    async fn fetch(&self, tokens: &Tokens, dns: &Dns, hosts: &HostRules) {
        let source = &tokens.settings().keys;
        let fetched = match source {
            JwksSource::Url(url) => self.get(url, dns, hosts).await,
            JwksSource::File(path) => read(path).await,
        };
        match fetched.and_then(|text| KeySet::parse(&text)) {
            Ok(keys) => {
                log::debug!(target: "turnpike", "auth.jwt: {} keys of the identity provider", keys.len());
                tokens.set_keys(keys);
            }
            Err(why) => {
                let kept = if tokens.has_keys() {
                    "the last ones stay in force"
                } else {
                    "no token counts until they are there"
                };
                log::warn!(target: "turnpike", "auth.jwt: the keys of the identity provider cannot be had, {kept}: {why}");
            }
        }
    }

    async fn get(&self, url: &str, dns: &Dns, hosts: &HostRules) -> Result<Vec<u8>, String> {
        let request = TokenRequest {
            method: Method::GET,
            url: url.to_owned(),
            headers: HeaderMap::new(),
            body: Vec::new(),
            is_metadata: false,
        };
        let response = self.http.run(&request, true, dns, hosts).await.map_err(|why| match why {
            FetchError::Refused(why) | FetchError::Broken(why) => why,
        })?;
        match response.status {
            200 => Ok(response.body),
            status => Err(format!("{url} answers {status}")),
        }
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, String> {
    let shown = |why: std::io::Error| format!("{}: {why}", path.display());
    let size = tokio::fs::metadata(path).await.map_err(shown)?.len();
    if size > MAX_FILE_BYTES {
        return Err(format!("{}: it is over {MAX_FILE_BYTES} bytes", path.display()));
    }
    tokio::fs::read(path).await.map_err(shown)
}
