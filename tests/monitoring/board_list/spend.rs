//! Costs, tokens, limits.
//!
//! Only panels; how they are written is in `board_list`.

use super::{Panel, graph, number, table};

pub(super) const SPEND: &[Panel] = &[
    number("Cost of an hour", "currencyUSD", &[("sum(increase(turnpike_cost_dollars_total{@}[1h]))", "")]),
    number("Cost of a day", "currencyUSD", &[("sum(increase(turnpike_cost_dollars_total{@}[1d]))", "")]),
    number(
        "Saved by the cache, a day",
        "currencyUSD",
        &[("sum(increase(turnpike_cache_saved_cost_dollars_total{@}[1d]))", "")],
    ),
    number("Age of the prices", "s", &[("max(turnpike_prices_age_seconds{@})", "")]),
    number("Counters of limits", "none", &[("min(turnpike_limit_counters_available{@})", "")]),
    number("Gateways that count together", "none", &[("max(turnpike_limit_gateways{@})", "")]),
    graph(
        "Cost by provider",
        "currencyUSD",
        &[(
            "sum by (provider) (rate(turnpike_cost_dollars_total{@}[$__rate_interval])) * 3600",
            "{{provider}}",
        )],
        "An hour at this rate. Attempts without a price are not in it.",
    ),
    graph(
        "Cost of the dearest models",
        "currencyUSD",
        &[(
            "topk(10, sum by (gen_ai_request_model) (rate(gen_ai_client_cost_sum{@}[$__rate_interval]))) * 3600",
            "{{gen_ai_request_model}}",
        )],
        "An hour at this rate.",
    ),
    graph(
        "Cost of the dearest clients",
        "currencyUSD",
        &[(
            "topk(10, sum by (workspace, key, user) (rate(turnpike_client_cost_dollars_total{@}[$__rate_interval]))) * 3600",
            "{{workspace}} {{key}} {{user}}",
        )],
        "An hour at this rate. Empty without metrics.labels (docs/metrics.md).",
    ),
    graph(
        "Requests of the busiest clients",
        "reqps",
        &[(
            "topk(10, sum by (workspace, key, user) (rate(turnpike_client_requests_total{@}[$__rate_interval])))",
            "{{workspace}} {{key}} {{user}}",
        )],
        "Empty without metrics.labels (docs/metrics.md).",
    ),
    graph(
        "Cost of a request",
        "currencyUSD",
        &[
            (
                "histogram_quantile(0.5, sum by (le) (rate(gen_ai_client_cost_bucket{@}[$__rate_interval])))",
                "p50",
            ),
            (
                "histogram_quantile(0.95, sum by (le) (rate(gen_ai_client_cost_bucket{@}[$__rate_interval])))",
                "p95",
            ),
        ],
        "",
    ),
    graph(
        "Tokens of a request, p95",
        "none",
        &[(
            "histogram_quantile(0.95, sum by (le, gen_ai_token_type) (rate(gen_ai_client_token_usage_bucket{@}[$__rate_interval])))",
            "{{gen_ai_token_type}}",
        )],
        "",
    ),
    graph(
        "Attempts without a price",
        "reqps",
        &[(
            "sum by (provider) (rate(turnpike_unpriced_attempts_total{@}[$__rate_interval]))",
            "{{provider}}",
        )],
        "They are charged, and no cost, budget or bill has them. docs/prices.md: an overlay gives them a price.",
    ),
    graph(
        "Refusals by limits",
        "reqps",
        &[(
            "sum by (scope, cause) (rate(turnpike_limit_refusals_total{@}[$__rate_interval]))",
            "{{scope}}: {{cause}}",
        )],
        "",
    ),
    graph(
        "Alerts of limits",
        "none",
        &[
            ("sum by (event) (increase(turnpike_alerts_total{@}[$__rate_interval]))", "{{event}}"),
            (
                "sum by (channel, outcome) (increase(turnpike_alert_deliveries_total{@}[$__rate_interval]))",
                "{{channel}}: {{outcome}}",
            ),
        ],
        "Limits that reached their threshold or are exhausted, and the messages about them.",
    ),
    graph(
        "Buckets of limits",
        "none",
        &[("sum by (instance) (turnpike_limit_buckets{@})", "{{instance}}")],
        "",
    ),
    graph(
        "Counters of limits: failures",
        "none",
        &[
            (
                "sum(increase(turnpike_limit_counters_failures_total{@}[$__rate_interval]))",
                "failed calls and writes",
            ),
            (
                "sum(increase(turnpike_limit_overflowed_total{@}[$__rate_interval]))",
                "counted in the bucket for the rest",
            ),
            (
                "sum by (what) (increase(turnpike_limit_given_up_total{@}[$__rate_interval]))",
                "given up: {{what}}",
            ),
            ("max(turnpike_limit_counters_evicted{@})", "server may evict"),
        ],
        "",
    ),
    graph(
        "Leases of shared counters",
        "none",
        &[
            ("sum(turnpike_limit_leases{@})", "leased buckets"),
            (
                "sum(rate(turnpike_limit_leased_requests_total{@}[$__rate_interval]))",
                "requests without a call, a second",
            ),
        ],
        "",
    ),
    table(
        "Prices in force",
        &[("count by (source, version) (turnpike_prices_info{@})", "")],
        "How many gateways have which catalogue.",
    ),
    graph(
        "Catalogues of prices that were read",
        "none",
        &[("sum by (outcome) (increase(turnpike_prices_refreshes_total{@}[1h]))", "{{outcome}}")],
        "In an hour.",
    ),
];
