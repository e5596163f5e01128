//! The part of the cache in one attempt that calls its target, or reads along with one that does.

use super::Caching;
use super::flight::{Flight, FlightShare};
use super::similar::Similar;
use crate::engine::upstream_stream::UpstreamStream;
use bytes::Bytes;
use memory::cache::{CacheKey, Scope};
use memory::state::held_bytes::Hold;
use std::sync::Arc;
use std::time::Duration;
use words::error::Error;

/// The part of the cache in one attempt that calls its target, or reads along with one that does.
pub(in crate::engine) struct CachedCall {
    pub(super) key: CacheKey,
    pub(super) scope: Scope,
    pub(super) max_age: Duration,
    pub(super) share: FlightShare,
    /// What finds the response again for texts that mean the same.
    pub(super) similar: Option<Box<Similar>>,
    /// A guardrail let the response pass with a failure.
    pub(super) is_flawed: bool,
}

/// A call that others may read along with, before it is made. Dropped without being made, it fails for those who wait for it.
pub(in crate::engine) struct Launch {
    pub(super) caching: Arc<Caching>,
    pub(super) key: CacheKey,
    pub(super) flight: Arc<Flight>,
    pub(super) is_made: bool,
    /// What was looked up: the response to another body is none to this.
    pub(super) body: Option<Bytes>,
}

impl CachedCall {
    /// Whether this request calls the target itself.
    pub fn is_leader(&self) -> bool {
        self.share.is_leader()
    }

    /// See [`FlightShare::is_charged`].
    pub fn is_charged(&self, is_complete: bool) -> bool {
        self.share.is_charged(is_complete)
    }

    /// Whether all of the response has arrived, though it may not have been read.
    pub fn is_complete(&self) -> bool {
        self.share.is_complete()
    }

    /// Nobody may join the call any more.
    pub fn close(&self) {
        self.share.close();
    }

    pub fn share(&self) -> FlightShare {
        self.share.clone()
    }

    /// A guardrail has failed, and let the response pass.
    pub fn set_flawed(&mut self) {
        self.is_flawed = true;
    }
}

impl Launch {
    /// Whether it is the call of an attempt that sends this body.
    pub fn is_of(&self, body: Option<&Bytes>) -> bool {
        let is_same = |one: &Bytes, other: &Bytes| one.as_ptr() == other.as_ptr() && one.len() == other.len();
        match (&self.body, body) {
            (Some(looked_up), Some(sent)) => is_same(looked_up, sent) || looked_up == sent,
            (looked_up, sent) => looked_up.is_none() && sent.is_none(),
        }
    }

    /// Makes the call, whose response all its readers get.
    pub fn start(mut self, stream: UpstreamStream, held: Hold) {
        self.is_made = true;
        let caching = Arc::clone(&self.caching);
        let key = self.key;
        let flight = Arc::clone(&self.flight);
        tokio::spawn(async move {
            Arc::clone(&flight).run(stream, held).await;
            caching.flights.remove(&key, &flight);
        });
    }
}

impl Drop for Launch {
    fn drop(&mut self) {
        if !self.is_made {
            let error =
                Error::unreachable("The call that this request waited for was not made.", "no launch");
            self.caching.flights.remove(&self.key, &self.flight);
            self.flight.fail(error);
        }
    }
}
