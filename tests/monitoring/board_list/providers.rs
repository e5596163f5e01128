//! Attempts at providers.
//!
//! Only panels; how they are written is in `board_list`.

use super::{Panel, graph, table};

pub(super) const PROVIDERS: &[Panel] = &[
    graph(
        "Attempts by outcome",
        "reqps",
        &[("sum by (outcome) (rate(turnpike_attempts_total{@}[$__rate_interval]))", "{{outcome}}")],
        "A failing status, an error code, or answered. outrun: the slower attempt of a hedge.",
    ),
    graph(
        "Attempts that fail, by provider",
        "percentunit",
        &[(
            r#"sum by (provider) (rate(turnpike_attempts_total{@,outcome!~"answered|outrun|caller_left"}[$__rate_interval])) / sum by (provider) (rate(turnpike_attempts_total{@}[$__rate_interval]))"#,
            "{{provider}}",
        )],
        "",
    ),
    graph(
        "Attempts by provider",
        "reqps",
        &[("sum by (provider) (rate(turnpike_attempts_total{@}[$__rate_interval]))", "{{provider}}")],
        "",
    ),
    graph(
        "Busiest models",
        "reqps",
        &[(
            "topk(10, sum by (gen_ai_provider_name, gen_ai_request_model) (rate(gen_ai_client_operation_duration_seconds_count{@}[$__rate_interval])))",
            "{{gen_ai_provider_name}} {{gen_ai_request_model}}",
        )],
        "",
    ),
    graph(
        "Duration by provider, p95",
        "s",
        &[(
            "histogram_quantile(0.95, sum by (le, gen_ai_provider_name) (rate(gen_ai_client_operation_duration_seconds_bucket{@}[$__rate_interval])))",
            "{{gen_ai_provider_name}}",
        )],
        "",
    ),
    graph(
        "Time to the first byte by provider, p95",
        "s",
        &[(
            "histogram_quantile(0.95, sum by (le, gen_ai_provider_name) (rate(gen_ai_client_operation_time_to_first_chunk_seconds_bucket{@}[$__rate_interval])))",
            "{{gen_ai_provider_name}}",
        )],
        "Streams only.",
    ),
    table(
        "Circuits that are not closed",
        &[("max by (config, target, provider) (turnpike_target_open{@}) > 0", "")],
        "1 open, 0.5 half-open: the next request is a probe.",
    ),
    graph(
        "Changes of circuits",
        "none",
        &[("sum by (to) (increase(turnpike_breaker_transitions_total{@}[$__rate_interval]))", "{{to}}")],
        "",
    ),
    graph(
        "Waits before another attempt",
        "s",
        &[(
            "histogram_quantile(0.95, sum by (le) (rate(turnpike_retry_wait_seconds_bucket{@}[$__rate_interval])))",
            "p95",
        )],
        "",
    ),
    graph(
        "Attempts for a request",
        "none",
        &[(
            "sum(rate(turnpike_attempts_total{@}[$__rate_interval])) / sum(rate(gen_ai_client_operation_duration_seconds_count{@}[$__rate_interval]))",
            "attempts",
        )],
        "Of requests for which a provider was chosen. Responses from the cache need none.",
    ),
    graph(
        "Hedges",
        "reqps",
        &[("sum by (outcome) (rate(turnpike_hedges_total{@}[$__rate_interval]))", "{{outcome}}")],
        "Extra attempts while another one was slow. refused: the budget was used up.",
    ),
    graph(
        "Broken streams",
        "reqps",
        &[("sum by (outcome) (rate(turnpike_rescues_total{@}[$__rate_interval]))", "{{outcome}}")],
        "resumed and replayed: the client noticed nothing. failed: its stream ended with an error.",
    ),
    graph(
        "Tokens by provider",
        "none",
        &[(
            r#"sum by (provider, kind) (rate(turnpike_tokens_total{@,kind=~"input|output"}[$__rate_interval]))"#,
            "{{provider}} {{kind}}",
        )],
        "A second.",
    ),
    graph(
        "Tokens and credentials of clouds",
        "none",
        &[("sum by (outcome) (increase(turnpike_grants_total{@}[$__rate_interval]))", "{{outcome}}")],
        "fetched while a request waited, renewed ahead of their expiry, failed.",
    ),
];
