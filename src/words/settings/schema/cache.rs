//! The schema of `cache` and `semantic_cache`.
//!
//! Not of `cache` in configs (`config_object`).

use super::{integer, ms, non_empty, object, or, pattern};
use crate::settings::{CacheSettings, SemanticCacheSettings};
use serde_json::{Value, json};

pub(super) fn cache() -> Value {
    let default = CacheSettings::default();
    object(
        "Where responses are cached that configs cache (docs/cache.md).",
        &[],
        vec![
            (
                "max_bytes",
                or(
                    integer("The most memory that cached responses take, bytes.", 1 << 20, Some(1 << 40)),
                    default.max_bytes,
                ),
            ),
            (
                "max_entry_bytes",
                or(
                    integer("The largest response that is cached, bytes.", 1024, Some(64 << 20)),
                    default.max_entry_bytes,
                ),
            ),
            (
                "max_age",
                or(
                    integer(
                        "How long a response is kept where the config sets no max_age, seconds.",
                        1,
                        Some(7_776_000),
                    ),
                    default.max_age.as_secs(),
                ),
            ),
            (
                "url",
                pattern(
                    "Redis or Valkey, which several gateways share: redis://HOST:PORT, or rediss:// with TLS. Without it each gateway has \
                     its own cache.",
                    "^rediss?://.",
                    &["redis://127.0.0.1:6379"],
                ),
            ),
            (
                "timeout_ms",
                or(
                    integer("How long a request waits for it, milliseconds.", 1, Some(86_400_000)),
                    ms(default.timeout),
                ),
            ),
        ],
    )
}

pub(super) fn semantic() -> Value {
    object(
        "What makes vectors of texts, for configs whose cache has the mode semantic (docs/cache.md).",
        &["provider", "model"],
        vec![
            (
                "provider",
                non_empty("The @slug of a stored provider that has embeddings, or the id of a saved config."),
            ),
            ("model", non_empty("The embedding model.")),
            ("dimensions", integer("Of the vectors, where the model lets one choose.", 1, Some(4096))),
            (
                "threshold",
                or(
                    json!({
                        "type": "number", "minimum": 0, "maximum": 1,
                        "description": "The least cosine similarity of texts that count as the same.",
                    }),
                    SemanticCacheSettings::DEFAULT_THRESHOLD,
                ),
            ),
            (
                "timeout_ms",
                or(
                    integer("How long a request waits for its vector, milliseconds.", 1, Some(86_400_000)),
                    ms(SemanticCacheSettings::DEFAULT_TIMEOUT),
                ),
            ),
            (
                "max_bytes",
                or(
                    integer("The most memory that vectors take, bytes.", 1 << 20, Some(1 << 40)),
                    SemanticCacheSettings::DEFAULT_MAX_BYTES,
                ),
            ),
        ],
    )
}
