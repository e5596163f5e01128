//! What all gateways do together.
//!
//! Only panels; how they are written is in `board_list`.

use super::{Panel, TIME_IN_GATEWAY, graph, number, table};

pub(super) const OVERVIEW: &[Panel] = &[
    number("Gateways", "none", &[("sum(up{@})", "")]),
    number("Requests", "reqps", &[("sum(rate(turnpike_requests_total{@}[$__rate_interval]))", "")]),
    number(
        "5xx",
        "percentunit",
        &[(
            r#"1 - sum(rate(turnpike_requests_total{@,status!~"5.."}[$__rate_interval])) / sum(rate(turnpike_requests_total{@}[$__rate_interval]))"#,
            "",
        )],
    ),
    number(
        "Duration, p95",
        "s",
        &[(
            "histogram_quantile(0.95, sum by (le) (rate(gen_ai_client_operation_duration_seconds_bucket{@}[$__rate_interval])))",
            "",
        )],
    ),
    number("In flight", "none", &[("sum(turnpike_requests_in_flight{@})", "")]),
    number("Cost of an hour", "currencyUSD", &[("sum(increase(turnpike_cost_dollars_total{@}[1h]))", "")]),
    graph(
        "Requests by status",
        "reqps",
        &[("sum by (status) (rate(turnpike_requests_total{@}[$__rate_interval]))", "{{status}}")],
        "Finished requests. A stream that broke off later counts with the status that was sent.",
    ),
    graph(
        "Requests by operation",
        "reqps",
        &[("sum by (operation) (rate(turnpike_requests_total{@}[$__rate_interval]))", "{{operation}}")],
        "",
    ),
    graph(
        "Duration",
        "s",
        &[
            (
                "histogram_quantile(0.5, sum by (le) (rate(gen_ai_client_operation_duration_seconds_bucket{@}[$__rate_interval])))",
                "p50",
            ),
            (
                "histogram_quantile(0.95, sum by (le) (rate(gen_ai_client_operation_duration_seconds_bucket{@}[$__rate_interval])))",
                "p95",
            ),
            (
                "histogram_quantile(0.99, sum by (le) (rate(gen_ai_client_operation_duration_seconds_bucket{@}[$__rate_interval])))",
                "p99",
            ),
        ],
        "Requests for which a provider was chosen, to the end of their response. Points are traces of single requests.",
    ),
    graph(
        "Time to the first byte of streams",
        "s",
        &[
            (
                "histogram_quantile(0.5, sum by (le) (rate(gen_ai_client_operation_time_to_first_chunk_seconds_bucket{@}[$__rate_interval])))",
                "p50",
            ),
            (
                "histogram_quantile(0.95, sum by (le) (rate(gen_ai_client_operation_time_to_first_chunk_seconds_bucket{@}[$__rate_interval])))",
                "p95",
            ),
        ],
        "",
    ),
    TIME_IN_GATEWAY,
    graph(
        "Errors of the gateways",
        "reqps",
        &[("sum by (code) (rate(turnpike_errors_total{@}[$__rate_interval]))", "{{code}}")],
        "By code (docs/errors.md). A provider's own errors, which pass through, are not among them.",
    ),
    graph(
        "Tokens",
        "none",
        &[("sum by (kind) (rate(turnpike_tokens_total{@}[$__rate_interval]))", "{{kind}}")],
        "A second. Cached and cache_write are parts of input, reasoning of output.",
    ),
    graph(
        "Bytes of bodies",
        "Bps",
        &[("sum by (direction) (rate(turnpike_body_bytes_total{@}[$__rate_interval]))", "{{direction}}")],
        "",
    ),
    graph(
        "Lines of batches",
        "none",
        &[
            (
                "sum by (result) (rate(turnpike_batch_lines_total{@}[$__rate_interval]))",
                "{{result}} a second",
            ),
            ("sum(turnpike_batch_lines_in_flight{@})", "in flight"),
            ("max(turnpike_batches_open{@})", "open batches"),
        ],
        "",
    ),
    table(
        "Alerts that fire",
        &[(r#"count by (alertname, severity) (ALERTS{job="$job",alertstate="firing"})"#, "")],
        "Each has its section in docs/runbook.md.",
    ),
];
