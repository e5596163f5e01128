//! The cache and its stores.
//!
//! Only panels; how they are written is in `board_list`.

use super::{Panel, graph, number};

pub(super) const CACHE: &[Panel] = &[
    number(
        "Served from the cache",
        "percentunit",
        &[(
            r#"1 - sum(rate(turnpike_cache_requests_total{@,status!~"hit|semantic_hit"}[$__rate_interval])) / sum(rate(turnpike_cache_requests_total{@}[$__rate_interval]))"#,
            "",
        )],
    ),
    number(
        "Saved in an hour",
        "currencyUSD",
        &[("sum(increase(turnpike_cache_saved_cost_dollars_total{@}[1h]))", "")],
    ),
    number("Entries in memory", "none", &[("sum(turnpike_cache_entries{@})", "")]),
    number("Memory", "bytes", &[("sum(turnpike_cache_bytes{@})", "")]),
    number("Shared store", "none", &[("min(turnpike_cache_store_up{@})", "")]),
    graph(
        "Requests by status",
        "reqps",
        &[("sum by (status) (rate(turnpike_cache_requests_total{@}[$__rate_interval]))", "{{status}}")],
        "Of requests whose config caches.",
    ),
    graph(
        "Saved tokens",
        "none",
        &[(
            "sum by (direction) (rate(turnpike_cache_saved_tokens_total{@}[$__rate_interval]))",
            "{{direction}}",
        )],
        "A second.",
    ),
    graph(
        "Hits that read another request's call",
        "reqps",
        &[("sum(rate(turnpike_cache_shared_requests_total{@}[$__rate_interval]))", "shared")],
        "",
    ),
    graph(
        "Not stored",
        "reqps",
        &[("sum by (reason) (rate(turnpike_cache_not_stored_total{@}[$__rate_interval]))", "{{reason}}")],
        "Responses that were to be cached.",
    ),
    graph(
        "Left the memory",
        "none",
        &[("sum by (reason) (rate(turnpike_cache_evictions_total{@}[$__rate_interval]))", "{{reason}}")],
        "A second. size: cache.max_bytes is too small for all.",
    ),
    graph(
        "Dropped writes",
        "none",
        &[("sum by (reason) (rate(turnpike_cache_dropped_writes_total{@}[$__rate_interval]))", "{{reason}}")],
        "A second.",
    ),
    graph(
        "Errors of the shared store",
        "none",
        &[("sum by (reason) (rate(turnpike_cache_store_errors_total{@}[$__rate_interval]))", "{{reason}}")],
        "A second.",
    ),
    graph(
        "Texts for the embedding model",
        "reqps",
        &[("sum by (result) (rate(turnpike_cache_embeddings_total{@}[$__rate_interval]))", "{{result}}")],
        "",
    ),
];
