//! Hooks and checks.
//!
//! Only panels; how they are written is in `board_list`.

use super::{Panel, graph, number};

pub(super) const GUARDRAILS: &[Panel] = &[
    number(
        "Denied",
        "percentunit",
        &[(
            r#"sum(rate(turnpike_guardrail_hooks_total{@,outcome="denied"}[$__rate_interval])) / sum(rate(turnpike_guardrail_hooks_total{@}[$__rate_interval]))"#,
            "",
        )],
    ),
    number(
        "Checks that cannot decide",
        "percentunit",
        &[(
            r#"1 - sum(rate(turnpike_guardrail_checks_total{@,verdict!="error"}[$__rate_interval])) / sum(rate(turnpike_guardrail_checks_total{@}[$__rate_interval]))"#,
            "",
        )],
    ),
    graph(
        "Hooks by outcome",
        "none",
        &[("sum by (outcome) (rate(turnpike_guardrail_hooks_total{@}[$__rate_interval]))", "{{outcome}}")],
        "A second.",
    ),
    graph(
        "Requests that were denied",
        "reqps",
        &[(r#"sum(rate(turnpike_errors_total{@,code="hooks_failed"}[$__rate_interval]))"#, "446")],
        "",
    ),
    graph(
        "Checks that fail",
        "none",
        &[(
            r#"sum by (check) (rate(turnpike_guardrail_checks_total{@,verdict="failed"}[$__rate_interval]))"#,
            "{{check}}",
        )],
        "A second, by check.",
    ),
    graph(
        "Checks",
        "none",
        &[(
            "sum by (check, verdict) (rate(turnpike_guardrail_checks_total{@}[$__rate_interval]))",
            "{{check}}: {{verdict}}",
        )],
        "A second. error: it could not decide, and passed unless it has failOnError.",
    ),
    graph(
        "Duration of checks, p95",
        "s",
        &[(
            "histogram_quantile(0.95, sum by (le, check) (rate(turnpike_guardrail_check_duration_seconds_bucket{@}[$__rate_interval])))",
            "{{check}}",
        )],
        "",
    ),
    graph(
        "Left out",
        "none",
        &[(
            "sum by (instance) (increase(turnpike_guardrail_left_out_total{@}[$__rate_interval]))",
            "{{instance}}",
        )],
        "Hooks and feedback in the background.",
    ),
];
