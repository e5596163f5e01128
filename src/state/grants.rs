//! Tokens and temporary credentials in memory: fetched once for all who wait, renewed ahead of expiry.
//!
//! What an exchange consists of is a [`Grant`]'s business, how a request is made `side_call`'s. Here: which
//! one is good still, who fetches, and that a token server that fails is left in peace for a while.

mod shelf;

use super::metrics::Metrics;
use crate::error::Error;
use crate::net::custom_host::HostRules;
use crate::net::dns::Dns;
use crate::net::side_call::{Failed, SideCalls};
use crate::provider::grant::{Credentials, Step, TokenExchange, TokenResponse};
use moka::sync::Cache;
use parking_lot::Mutex;
use shelf::{Shelf, Standing};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Most grants remembered of either kind: operators' and callers' are kept apart, so that no caller can push
/// an operator's out.
const MOST: u64 = 1024;
/// One that nobody asked for so long is forgotten.
const IDLE: Duration = Duration::from_secs(6 * 60 * 60);
/// Requests one exchange may take; a look into the environment counts as one.
const MOST_ERRANDS: usize = 24;
/// A whole exchange.
const LIMIT: Duration = Duration::from_secs(20);

/// All grants of the process.
pub struct Grants {
    calls: SideCalls,
    operators: Cache<String, Arc<Slot>>,
    callers: Cache<String, Arc<Slot>>,
}

/// One grant's place.
#[derive(Default)]
struct Slot {
    shelf: Mutex<Shelf>,
    /// Held by whoever fetches; the others wait here and find it fetched.
    door: tokio::sync::Mutex<()>,
}

/// What an exchange needs beside the grant.
#[derive(Clone, Copy)]
pub struct With<'a> {
    pub hosts: &'a HostRules,
    pub dns: &'a Dns,
    pub metrics: &'a Metrics,
    /// The operator wrote the account, and no caller named its host.
    pub by_operator: bool,
}

impl Grants {
    pub fn new(ca_file: Option<PathBuf>) -> Self {
        let cache = || Cache::builder().max_capacity(MOST).time_to_idle(IDLE).build();
        Self { calls: SideCalls::new(ca_file), operators: cache(), callers: cache() }
    }

    /// What `grant` yields: from memory, or fetched now. Whether it should be renewed is told beside it: the
    /// caller need not wait for that, and calls [`Grants::renew`] when it has somebody to do it.
    ///
    /// # Errors
    /// 400 when the account may not sign in this way, 502 when it could not.
    pub async fn obtain(
        &self,
        grant: &dyn TokenExchange,
        with: With<'_>,
        now: SystemTime,
    ) -> Result<(Credentials, Renew), Error> {
        let slot = self.slot(grant, with.by_operator);
        if let Some(found) = settled(&slot.shelf, now) {
            return found;
        }
        let _first = slot.door.lock().await;
        // Somebody may have fetched it, or failed, while we waited.
        if let Some(found) = settled(&slot.shelf, now) {
            return found;
        }
        let granted = self.fetch(grant, &slot, with, now, "fetched").await?;
        Ok((granted, Renew::No))
    }

    /// Fetches anew what is still good. One at a time; a failure leaves the old one in use.
    pub async fn renew(&self, grant: &dyn TokenExchange, with: With<'_>, now: SystemTime) {
        let slot = self.slot(grant, with.by_operator);
        let Ok(_first) = slot.door.try_lock() else { return };
        if let Err(error) = self.fetch(grant, &slot, with, now, "renewed").await {
            log::warn!(target: "turnpike", "a grant was not renewed and is used to its end: {error}");
        }
    }

    /// The provider refused what was granted: fetches anew next time, unless it is new.
    pub fn doubt(&self, grant: &dyn TokenExchange, by_operator: bool, now: SystemTime) {
        self.slot(grant, by_operator).shelf.lock().doubt(now);
    }

    fn slot(&self, grant: &dyn TokenExchange, by_operator: bool) -> Arc<Slot> {
        let cache = if by_operator { &self.operators } else { &self.callers };
        cache.get_with(grant.key(), Arc::default)
    }

    async fn fetch(
        &self,
        grant: &dyn TokenExchange,
        slot: &Slot,
        with: With<'_>,
        now: SystemTime,
        outcome: &str,
    ) -> Result<Credentials, Error> {
        let exchange = tokio::time::timeout(LIMIT, self.exchange(grant, with, now));
        let late = || Err(broken(grant, format!("no end within {LIMIT:?}")));
        let fetched = exchange.await.unwrap_or_else(|_| late());
        let mut shelf = slot.shelf.lock();
        match fetched {
            Ok((granted, life)) => {
                with.metrics.grant_asked(outcome);
                shelf.put(granted.clone(), life, now);
                Ok(granted)
            }
            Err(error) => {
                with.metrics.grant_asked("failed");
                shelf.fail(error.clone(), now);
                Err(error)
            }
        }
    }

    async fn exchange(
        &self,
        grant: &dyn TokenExchange,
        with: With<'_>,
        now: SystemTime,
    ) -> Result<(Credentials, Duration), Error> {
        let mut answers: Vec<TokenResponse> = Vec::new();
        loop {
            let errand = match grant.next_step(&answers, now) {
                Ok(Step::Done(granted, life)) => return Ok((granted, life)),
                Ok(Step::Request(_)) if answers.len() >= MOST_ERRANDS => {
                    return Err(broken(grant, format!("no end after {MOST_ERRANDS} requests")));
                }
                Ok(Step::Request(errand)) => errand,
                // Before anything was asked, it can only be the account itself.
                Err(why) if answers.is_empty() => return Err(Error::bad_request(why)),
                Err(why) => return Err(refused(grant, &why, &answers)),
            };
            let brought = self.calls.run(&errand, with.by_operator, with.dns, with.hosts).await;
            answers.push(brought.map_err(|failed| match failed {
                Failed::Refused(why) => Error::bad_request(why),
                Failed::Broken(cause) => broken(grant, cause),
            })?);
        }
    }
}

/// Whether what was obtained is near its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renew {
    No,
    Yes,
}

/// What needs no exchange.
fn settled(shelf: &Mutex<Shelf>, now: SystemTime) -> Option<Result<(Credentials, Renew), Error>> {
    match shelf.lock().standing(now) {
        Standing::Good(granted) => Some(Ok((granted, Renew::No))),
        Standing::Ageing(granted) => Some(Ok((granted, Renew::Yes))),
        Standing::Failed(error) => Some(Err(error)),
        Standing::Absent => None,
    }
}

fn broken(grant: &dyn TokenExchange, cause: String) -> Error {
    let what = grant.description();
    Error::credentials_unavailable(
        format!("{} got no usable answer. Try again in a moment.", capital(what)),
        cause,
    )
}

fn refused(grant: &dyn TokenExchange, why: &str, answers: &[TokenResponse]) -> Error {
    let what = grant.description();
    let status = answers.last().map_or(0, |brought| brought.status);
    Error::credentials_unavailable(
        format!("{} failed: {why}", capital(what)),
        format!("the last answer had status {status}"),
    )
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests;
