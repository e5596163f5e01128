//! Tokens and temporary credentials in memory: fetched once for all who wait, renewed ahead of expiry.
//!
//! What an exchange consists of is a [`Grant`]'s business, how a request is made `side_call`'s. Here: which
//! one is good still, who fetches, and that a token server that fails is left in peace for a while.

mod cached;

use super::metrics::Metrics;
use crate::error::Error;
use crate::net::outbound::custom_host::HostRules;
use crate::net::outbound::dns::Dns;
use crate::net::outbound::token_http::{FetchError, TokenHttpClient};
use crate::provider::token_exchange::{Credentials, Step, TokenExchange, TokenResponse};
use cached::{CachedCredential, Freshness};
use moka::sync::Cache;
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Most grants remembered of either kind: operators' and callers' are kept apart, so that no caller can push
/// an operator's out.
const MAX_ENTRIES: u64 = 1024;
/// One that nobody asked for so long is forgotten.
const IDLE_TIMEOUT: Duration = Duration::from_secs(6 * 60 * 60);
/// Requests one exchange may take; a look into the environment counts as one.
const MAX_REQUESTS: usize = 24;
/// A whole exchange.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(20);

/// All grants of the process.
pub struct CredentialCache {
    http: TokenHttpClient,
    operators: Cache<String, Arc<Slot>>,
    clients: Cache<String, Arc<Slot>>,
}

/// One grant's place.
#[derive(Default)]
struct Slot {
    cached: Mutex<CachedCredential>,
    /// Held by whoever fetches; the others wait here and find it fetched.
    refresh_lock: tokio::sync::Mutex<()>,
}

/// What an exchange needs beside the grant.
#[derive(Clone, Copy)]
pub struct FetchContext<'a> {
    pub hosts: &'a HostRules,
    pub dns: &'a Dns,
    pub metrics: &'a Metrics,
    /// The operator wrote the account, and no caller named its host.
    pub by_operator: bool,
}

impl CredentialCache {
    pub fn new(ca_file: Option<PathBuf>) -> Self {
        let cache = || Cache::builder().max_capacity(MAX_ENTRIES).time_to_idle(IDLE_TIMEOUT).build();
        Self { http: TokenHttpClient::new(ca_file), operators: cache(), clients: cache() }
    }

    /// What `grant` yields: from memory, or fetched now. Whether it should be renewed is told beside it: the
    /// caller need not wait for that, and calls [`Grants::renew`] when it has somebody to do it.
    ///
    /// # Errors
    /// 400 when the account may not sign in this way, 502 when it could not.
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
        let _guard = slot.refresh_lock.lock().await;
        // Somebody may have fetched it, or failed, while we waited.
        if let Some(found) = without_exchange(&slot.cached, now) {
            return found;
        }
        let credentials = self.fetch(token_exchange, &slot, context, now, "fetched").await?;
        Ok((credentials, Refresh::No))
    }

    /// Fetches anew what is still good. One at a time; a failure leaves the old one in use.
    pub async fn refresh(
        &self,
        token_exchange: &dyn TokenExchange,
        context: FetchContext<'_>,
        now: SystemTime,
    ) {
        let slot = self.slot(token_exchange, context.by_operator);
        let Ok(_guard) = slot.refresh_lock.try_lock() else { return };
        if let Err(error) = self.fetch(token_exchange, &slot, context, now, "renewed").await {
            log::warn!(target: "turnpike", "a grant was not renewed and is used to its end: {error}");
        }
    }

    /// The provider refused what was granted: fetches anew next time, unless it is new.
    pub fn invalidate(&self, token_exchange: &dyn TokenExchange, by_operator: bool, now: SystemTime) {
        self.slot(token_exchange, by_operator).cached.lock().invalidate(now);
    }

    fn slot(&self, token_exchange: &dyn TokenExchange, by_operator: bool) -> Arc<Slot> {
        let cache = if by_operator { &self.operators } else { &self.clients };
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
                cached.record_failure(error.clone(), now);
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
                // Before anything was asked, it can only be the account itself.
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

/// Whether what was obtained is near its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refresh {
    No,
    Yes,
}

/// What needs no exchange.
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
