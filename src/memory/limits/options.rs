//! What the counters need besides the limits, as the settings say it.

use super::window::Calendar;
use crate::store::{Location, StoreError, StoreOptions};
use std::path::PathBuf;
use std::time::Duration;
use words::config::secret::Secret;
use words::settings::{Counting, NEEDS_POSTGRES, OnStoreError, Settings, SharedCounters};

/// How long a hold counts after the longest request there can be.
const GRACE: Duration = Duration::from_secs(60);

/// A store of shared counters: its URL, which may hold a password.
#[derive(Debug, Clone)]
pub enum CounterBackend {
    Redis(Secret),
    Postgres(Secret),
}

impl CounterBackend {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Redis(_) => "redis",
            Self::Postgres(_) => "postgres",
        }
    }
}

/// What [`Limits::open`](super::Limits::open) needs.
#[derive(Debug, Clone)]
pub struct LimitsOptions {
    /// The journal of an embedded gateway. `None`: usage ends with the process.
    pub journal: Option<PathBuf>,
    /// The store of counters that several gateways share.
    pub shared: Option<CounterBackend>,
    /// Whether an amount is borrowed ahead of hot buckets of such counters.
    pub leases: bool,
    /// What budgets do while that store is away.
    pub on_store_error: OnStoreError,
    pub calendar: Calendar,
    /// Output of a request without a bound.
    pub assume_output_tokens: u64,
    /// What all buckets in memory may take.
    pub max_bucket_bytes: usize,
    /// How long a hold of a gateway that is gone counts as one; then it counts as spent.
    pub hold_lifetime: Duration,
}

impl Default for LimitsOptions {
    fn default() -> Self {
        Self {
            journal: None,
            shared: None,
            leases: true,
            on_store_error: OnStoreError::Allow,
            calendar: Calendar::default(),
            assume_output_tokens: 4096,
            max_bucket_bytes: Counting::default().max_bucket_bytes,
            hold_lifetime: Duration::from_secs(600) + GRACE,
        }
    }
}

impl LimitsOptions {
    /// As the settings have it. The journal is `limits.db` beside the store's file, or in the state directory where the store is not
    /// a file; a store in memory has none.
    ///
    /// # Errors
    /// The store's URL cannot be read, or is not that of PostgreSQL where counters are to be in it.
    pub fn new(settings: &Settings, store: &StoreOptions) -> Result<Self, StoreError> {
        let location = store.location()?;
        let journal = match &location {
            Location::File(file) => Some(file.with_file_name("limits.db")),
            Location::Postgres(_) => Some(store.state_dir.join("limits.db")),
            Location::Memory => None,
        };
        let limits = &settings.limits;
        let shared = match (&limits.counting.shared, location) {
            (None, _) => None,
            (Some(SharedCounters::Redis(url)), _) => Some(CounterBackend::Redis(url.clone())),
            (Some(SharedCounters::Postgres(url)), _) => Some(CounterBackend::Postgres(url.clone())),
            (Some(SharedCounters::Store), Location::Postgres(url)) => Some(CounterBackend::Postgres(url)),
            (Some(SharedCounters::Store), _) => {
                return Err(StoreError::Misconfigured(format!("limits.shared: {NEEDS_POSTGRES}")));
            }
        };
        Ok(Self {
            journal,
            shared,
            leases: limits.counting.leases,
            on_store_error: limits.counting.on_store_error,
            calendar: Calendar::of(&limits.counting),
            assume_output_tokens: limits.counting.assume_output_tokens as u64,
            max_bucket_bytes: limits.counting.max_bucket_bytes,
            hold_lifetime: limits.request_timeout.unwrap_or(limits.upstream_read_timeout) + GRACE,
        })
    }
}
