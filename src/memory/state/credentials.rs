//! The cache of tokens and temporary credentials: fetched once for all requests that wait, refreshed before expiry.
//!
//! The steps of an exchange are a [`TokenExchange`]'s, sending a request is `net::outbound::token_http`'s. Here: which
//! credentials are still usable, who fetches them, and a backoff after a token server failed.

mod cached;

use super::metrics::Metrics;
use crate::net::outbound::custom_host::HostRules;
use crate::net::outbound::dns::Dns;
use crate::net::outbound::side_client::FetchError;
use crate::net::outbound::token_http::TokenHttpClient;
use cached::{CachedCredential, Freshness};
use knowledge::provider::token_exchange::{Credentials, Step, TokenExchange, TokenResponse};
use moka::sync::Cache;
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use words::error::Error;

/// Maximum number of credentials in each cache. Operators', clients' and persons' are separate, so that no client can evict
/// an operator's.
const MAX_ENTRIES: u64 = 1024;
/// Credentials not used for this long are removed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(6 * 60 * 60);
/// The same of what is for one person alone: more of them, each for a shorter time.
const MAX_PERSONS: u64 = 10_000;
const PERSON_IDLE_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Maximum number of requests of one exchange; reading a variable or a file counts as one.
const MAX_REQUESTS: usize = 24;
/// The timeout of a whole exchange.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(20);

/// All fetched credentials of the process.
pub struct CredentialCache {
    http: TokenHttpClient,
    operators: Cache<String, Arc<Slot>>,
    clients: Cache<String, Arc<Slot>>,
    persons: Cache<String, Arc<Slot>>,
}

/// The cache entry of one token exchange.
#[derive(Default)]
struct Slot {
    cached: Mutex<CachedCredential>,
    /// Held during a fetch. Other requests wait for it and then find the result in `cached`.
    refresh_lock: tokio::sync::Mutex<()>,
}

/// What a fetch needs besides the token exchange.
#[derive(Clone, Copy)]
pub struct FetchContext<'a> {
    pub hosts: &'a HostRules,
    pub dns: &'a Dns,
    pub metrics: &'a Metrics,
    /// The operator wrote the account, and no client named its host.
    pub by_operator: bool,
}

impl CredentialCache {
    pub fn new(ca_file: Option<PathBuf>) -> Self {
        let cache =
            |most: u64, idle: Duration| Cache::builder().max_capacity(most).time_to_idle(idle).build();
        Self {
            http: TokenHttpClient::new(ca_file),
            operators: cache(MAX_ENTRIES, IDLE_TIMEOUT),
            clients: cache(MAX_ENTRIES, IDLE_TIMEOUT),
            persons: cache(MAX_PERSONS, PERSON_IDLE_TIMEOUT),
        }
    }

    /// Drops the credentials that nobody used for long; otherwise only the next uses do.
    pub fn drop_expired(&self) {
        self.operators.run_pending_tasks();
        self.clients.run_pending_tasks();
        self.persons.run_pending_tasks();
    }

    /// The credentials of `token_exchange`, from the cache or fetched now. With [`Refresh::Yes`] they should be
    /// refreshed soon: call [`CredentialCache::refresh`] in the background.
    ///
    /// # Errors
    /// 400 when the account must not sign in this way, 502 when the exchange failed.
    pub async fn get(
        &self,
        token_exchange: &dyn TokenExchange,
        context: FetchContext<'_>,
        now: SystemTime,
    ) -> Result<(Credentials, Refresh), Error> {
        let slot = self.slot(token_exchange, context.by_operator);
        if let Some(found) = without_exchange(&slot.cached, now) {
            return found;
        }
        let began = Instant::now();
        let _guard = slot.refresh_lock.lock().await;
        // Another request may have fetched them, or failed, while this one waited.
        let now = now + began.elapsed();
        if let Some(found) = without_exchange(&slot.cached, now) {
            return found;
        }
        let credentials = self.fetch(token_exchange, &slot, context, now, "fetched").await?;
        Ok((credentials, Refresh::No))
    }

    /// Refreshes credentials that are still usable. One refresh runs at a time; after a failure the old credentials
    /// stay in use.
    pub async fn refresh(
        &self,
        token_exchange: &dyn TokenExchange,
        context: FetchContext<'_>,
        now: SystemTime,
    ) {
        let slot = self.slot(token_exchange, context.by_operator);
        let Ok(_guard) = slot.refresh_lock.try_lock() else { return };
        if let Err(error) = self.fetch(token_exchange, &slot, context, now, "renewed").await {
            log::warn!(target: "turnpike", "credentials were not refreshed, the current ones stay in use until they expire: {error}");
        }
    }

    /// The provider rejected the credentials: the next `get` fetches new ones, unless these are very recent.
    pub fn invalidate(&self, token_exchange: &dyn TokenExchange, by_operator: bool, now: SystemTime) {
        self.slot(token_exchange, by_operator).cached.lock().invalidate(now);
    }

    fn slot(&self, token_exchange: &dyn TokenExchange, by_operator: bool) -> Arc<Slot> {
        let cache = match by_operator {
            _ if token_exchange.is_of_person() => &self.persons,
            true => &self.operators,
            false => &self.clients,
        };
        cache.get_with(token_exchange.key(), Arc::default)
    }

    async fn fetch(
        &self,
        token_exchange: &dyn TokenExchange,
        slot: &Slot,
        context: FetchContext<'_>,
        now: SystemTime,
        outcome: &str,
    ) -> Result<Credentials, Error> {
        let began = Instant::now();
        let exchange = tokio::time::timeout(EXCHANGE_TIMEOUT, self.exchange(token_exchange, context, now));
        let timed_out =
            || Err(unusable_response(token_exchange, format!("no end within {EXCHANGE_TIMEOUT:?}")));
        let fetched = exchange.await.unwrap_or_else(|_| timed_out());
        let mut cached = slot.cached.lock();
        match fetched {
            Ok((credentials, lifetime)) => {
                context.metrics.record_token_exchange(outcome);
                cached.store(credentials.clone(), lifetime, now);
                Ok(credentials)
            }
            Err(error) => {
                context.metrics.record_token_exchange("failed");
                // From its end on: one that hangs takes longer than it counts.
                cached.record_failure(error.clone(), now + began.elapsed());
                Err(error)
            }
        }
    }

    async fn exchange(
        &self,
        token_exchange: &dyn TokenExchange,
        context: FetchContext<'_>,
        now: SystemTime,
    ) -> Result<(Credentials, Duration), Error> {
        let mut responses: Vec<TokenResponse> = Vec::new();
        loop {
            let token_request = match token_exchange.next_step(&responses, now) {
                Ok(Step::Done(credentials, lifetime)) => return Ok((credentials, lifetime)),
                Ok(Step::Request(_)) if responses.len() >= MAX_REQUESTS => {
                    return Err(unusable_response(
                        token_exchange,
                        format!("no end after {MAX_REQUESTS} requests"),
                    ));
                }
                Ok(Step::Request(token_request)) => token_request,
                // An error before the first request can only come from the account itself.
                Err(reason) if responses.is_empty() => return Err(Error::bad_request(reason)),
                Err(reason) => return Err(exchange_failed(token_exchange, &reason, &responses)),
            };
            let response =
                self.http.run(&token_request, context.by_operator, context.dns, context.hosts).await;
            responses.push(response.map_err(|error| match error {
                FetchError::Refused(reason) => Error::bad_request(reason),
                FetchError::Broken(cause) => unusable_response(token_exchange, cause),
            })?);
        }
    }
}

/// Whether the credentials should be refreshed, because they expire soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refresh {
    No,
    Yes,
}

/// A result that needs no exchange: cached credentials, or a failure during the backoff.
fn without_exchange(
    cached: &Mutex<CachedCredential>,
    now: SystemTime,
) -> Option<Result<(Credentials, Refresh), Error>> {
    match cached.lock().freshness(now) {
        Freshness::Fresh(credentials) => Some(Ok((credentials, Refresh::No))),
        Freshness::Stale(credentials) => Some(Ok((credentials, Refresh::Yes))),
        Freshness::Failing(error) => Some(Err(error)),
        Freshness::Missing => None,
    }
}

fn unusable_response(token_exchange: &dyn TokenExchange, cause: String) -> Error {
    let what = token_exchange.description();
    Error::credentials_unavailable(
        format!("{} got no usable answer. Try again in a moment.", capitalized(what)),
        cause,
    )
}

fn exchange_failed(token_exchange: &dyn TokenExchange, reason: &str, responses: &[TokenResponse]) -> Error {
    let what = token_exchange.description();
    let status = responses.last().map_or(0, |response| response.status);
    Error::credentials_unavailable(
        format!("{} failed: {reason}", capitalized(what)),
        format!("the last answer had status {status}"),
    )
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests;
