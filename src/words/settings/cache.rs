//! `cache` and `semantic_cache`: where responses are cached, how many, and what finds requests of similar meaning.
//!
//! Not here: which requests are cached (`cache` of a config, `config::policies`).

use crate::config::members::{Form, MILLIS, MemberTable, NON_EMPTY, SHARE, form, seconds, whole};
use crate::config::secret::Secret;
use crate::json::schema::pattern;
use std::time::Duration;

const MIB: u64 = 1 << 20;

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

const URL: Form<Secret> = form(
    |at| {
        let text = at.text()?;
        let url = url::Url::parse(text).ok().filter(url::Url::has_host);
        match url.as_ref().map(url::Url::scheme) {
            Some("redis" | "rediss") => Some(Secret::new(text)),
            _ => {
                at.problem("must be redis://HOST:PORT, or rediss://HOST:PORT with TLS");
                None
            }
        }
    },
    |doc| pattern(doc, "^rediss?://.", &["redis://127.0.0.1:6379"]),
);

impl CacheSettings {
    pub(super) const DOC: &str = "Where responses are cached that configs cache (docs/cache.md).";

    pub(super) fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let default = Self::default();
        let max_age = "How long a response is kept where the config sets no max_age, seconds.";
        let url = "Redis or Valkey, which several gateways share: redis://HOST:PORT, or rediss:// with TLS. Without it each gateway \
                   has its own cache.";
        Some(Self {
            max_bytes: table.or(
                "max_bytes",
                whole(1 << 20, 1 << 40),
                default.max_bytes,
                "The most memory that cached responses take, bytes.",
            ),
            max_entry_bytes: table.or(
                "max_entry_bytes",
                whole(1024, 64 << 20),
                default.max_entry_bytes,
                "The largest response that is cached, bytes.",
            ),
            // At most 90 days.
            max_age: table.or("max_age", seconds(1, 7_776_000), default.max_age, max_age),
            url: table.get("url", URL, url),
            timeout: table.or(
                "timeout_ms",
                MILLIS,
                default.timeout,
                "How long a request waits for it, milliseconds.",
            ),
        })
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
    pub(super) const DOC: &str =
        "What makes vectors of texts, for configs whose cache has the mode semantic (docs/cache.md).";

    pub(super) fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let provider = "The @slug of a stored provider that has embeddings, or the id of a saved config.";
        let dimensions = "Of the vectors, where the model lets one choose.";
        let threshold = "The least cosine similarity of texts that count as the same.";
        let provider = table.needed("provider", NON_EMPTY, provider);
        let model = table.needed("model", NON_EMPTY, "The embedding model.");
        let dimensions = table.get("dimensions", whole(1, 4096), dimensions);
        let threshold = table.or("threshold", SHARE, 0.95, threshold);
        let timeout = table.or(
            "timeout_ms",
            MILLIS,
            Duration::from_secs(2),
            "How long a request waits for its vector, milliseconds.",
        );
        let max_bytes = table.or(
            "max_bytes",
            whole(1 << 20, 1 << 40),
            256 * MIB,
            "The most memory that vectors take, bytes.",
        );
        Some(Self { provider: provider?, model: model?, dimensions, threshold, timeout, max_bytes })
    }
}
