//! `cache` and `semantic_cache`: where responses are cached, how many, and what finds requests of similar meaning.
//!
//! Not here: which requests are cached (`cache` of a config, `config::policies`).

use super::values::{count, millis, non_empty};
use crate::config::read::ObjectReader;
use crate::config::secret::Secret;
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// The longest time that a response is kept, seconds: 90 days.
const MAX_AGE: i64 = 7_776_000;

/// `cache`; all of it may be absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheSettings {
    /// Of entries in memory.
    pub max_bytes: u64,
    /// The largest response that is stored.
    pub max_entry_bytes: u64,
    /// For how long a response is kept where the config does not say.
    pub max_age: Duration,
    /// Redis or Valkey, which several gateways share.
    pub url: Option<Secret>,
    /// How long a request waits for it.
    pub timeout: Duration,
}

impl Default for CacheSettings {
    fn default() -> Self {
        Self {
            max_bytes: 256 * MIB,
            max_entry_bytes: 4 * MIB,
            max_age: Duration::from_secs(604_800),
            url: None,
            timeout: Duration::from_millis(50),
        }
    }
}

impl CacheSettings {
    pub(super) fn read(fields: ObjectReader<'_>) -> Self {
        let mut f = fields;
        let default = Self::default();
        let bytes = |count: Option<usize>, default: u64| count.map_or(default, |bytes| bytes as u64);
        let settings = Self {
            max_bytes: bytes(count(&mut f, "max_bytes", 1 << 20, 1 << 40), default.max_bytes),
            max_entry_bytes: bytes(count(&mut f, "max_entry_bytes", 1024, 64 << 20), default.max_entry_bytes),
            max_age: count(&mut f, "max_age", 1, MAX_AGE)
                .map_or(default.max_age, |seconds| Duration::from_secs(seconds as u64)),
            url: f.get(&["url"]).and_then(|at| {
                let text = at.text()?;
                let url = url::Url::parse(text).ok().filter(url::Url::has_host);
                match url.as_ref().map(url::Url::scheme) {
                    Some("redis" | "rediss") => Some(Secret::new(text)),
                    _ => {
                        at.problem("must be redis://HOST:PORT, or rediss://HOST:PORT with TLS");
                        None
                    }
                }
            }),
            timeout: millis(&mut f, "timeout_ms").unwrap_or(default.timeout),
        };
        f.reject_unknown(&["max_bytes", "max_entry_bytes", "max_age", "url", "timeout_ms"]);
        settings
    }
}

/// `semantic_cache`: how texts become vectors. Without it, `mode: semantic` finds equal requests only.
#[derive(Debug, Clone, PartialEq)]
pub struct SemanticCacheSettings {
    /// `@slug` of a stored provider, or the id of a saved config.
    pub provider: String,
    /// The embedding model.
    pub model: String,
    /// Of the vectors, where the model lets one choose.
    pub dimensions: Option<u32>,
    /// The least cosine similarity of texts that mean the same.
    pub threshold: f64,
    /// How long a request waits for its vector.
    pub timeout: Duration,
    /// Of vectors in memory.
    pub max_bytes: u64,
}

impl SemanticCacheSettings {
    pub(super) const DEFAULT_THRESHOLD: f64 = 0.95;
    pub(super) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(2);
    pub(super) const DEFAULT_MAX_BYTES: u64 = 256 * MIB;

    pub(super) fn read(fields: ObjectReader<'_>) -> Option<Self> {
        let mut f = fields;
        let provider = f.required(&["provider"]).and_then(|at| non_empty(&at).map(str::to_owned));
        let model = f.required(&["model"]).and_then(|at| non_empty(&at).map(str::to_owned));
        let dimensions = count(&mut f, "dimensions", 1, 4096).and_then(|count| u32::try_from(count).ok());
        let threshold = f.get(&["threshold"]).and_then(|at| {
            let number = at.number()?;
            if !(0.0..=1.0).contains(&number) {
                at.problem("must be a number from 0 to 1");
                return None;
            }
            Some(number)
        });
        let timeout = millis(&mut f, "timeout_ms").unwrap_or(Self::DEFAULT_TIMEOUT);
        let max_bytes = count(&mut f, "max_bytes", 1 << 20, 1 << 40)
            .map_or(Self::DEFAULT_MAX_BYTES, |bytes| bytes as u64);
        f.reject_unknown(&["provider", "model", "dimensions", "threshold", "timeout_ms", "max_bytes"]);
        Some(Self {
            provider: provider?,
            model: model?,
            dimensions,
            threshold: threshold.unwrap_or(Self::DEFAULT_THRESHOLD),
            timeout,
            max_bytes,
        })
    }
}
