//! The part of the cache in one attempt that calls its target, or reads along with one that does.

use super::flight::FlightShare;
use super::similar::Similar;
use memory::cache::{CacheKey, Scope};
use std::sync::Arc;
use std::time::Duration;

/// The part of the cache in one attempt that calls its target, or reads along with one that does.
pub(in crate::engine) struct CachedCall {
    pub(super) key: CacheKey,
    pub(super) scope: Scope,
    pub(super) max_age: Duration,
    pub(super) share: FlightShare,
    /// What finds the response again for texts that mean the same.
    pub(super) similar: Option<Arc<Similar>>,
    /// A guardrail let the response pass with a failure.
    pub(super) is_flawed: bool,
}

impl CachedCall {
    /// Whether this request calls the target itself.
    pub(crate) fn is_leader(&self) -> bool {
        self.share.is_leader()
    }

    /// Whether the call has left for the provider.
    pub fn is_sent(&self) -> bool {
        self.share.is_sent()
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
    pub(crate) fn set_flawed(&mut self) {
        self.is_flawed = true;
    }
}
