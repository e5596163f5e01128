//! Series that the alert rules are tried on: a healthy load, and what each failure changes.
//!
//! In a name, `@` stands for the labels of the scraped gateway. Numbers are per scrape.

/// One series.
#[derive(Debug)]
pub(super) enum Series {
    /// A counter that grows by so much with each scrape, before and from the failure on.
    Counter {
        name: &'static str,
        before: u64,
        then: u64,
    },
    /// A counter that is there from the failure on.
    New {
        name: &'static str,
        then: u64,
    },
    Gauge {
        name: &'static str,
        before: f64,
        then: f64,
    },
    /// In promtool's notation.
    Samples {
        name: &'static str,
        samples: &'static str,
    },
}

use Series::Samples;

impl Series {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Series::Counter { name, .. }
            | Series::New { name, .. }
            | Series::Gauge { name, .. }
            | Series::Samples { name, .. } => name,
        }
    }
}

/// A failure: the alert that must fire at its second scrape.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) alert: &'static str,
    pub(super) failing: &'static [Series],
    /// For a failure that takes so many hours to be one: its test has a scrape every ten minutes, and no load.
    pub(super) hours: Option<u64>,
}

const fn case(alert: &'static str, failing: &'static [Series]) -> Case {
    Case { alert, failing, hours: None }
}

const fn counter(name: &'static str, before: u64, then: u64) -> Series {
    Series::Counter { name, before, then }
}

const fn new(name: &'static str, then: u64) -> Series {
    Series::New { name, then }
}

const fn gauge(name: &'static str, before: f64, then: f64) -> Series {
    Series::Gauge { name, before, then }
}

const fn steady(name: &'static str, value: f64) -> Series {
    gauge(name, value, value)
}

const fn load(name: &'static str, each: u64) -> Series {
    counter(name, each, each)
}

/// A load with the few failures that every day has.
pub(super) const HEALTHY: &[Series] = &[
    steady("up{@}", 1.0),
    steady("process_start_time_seconds{@}", 1000.0),
    steady("process_open_fds{@}", 300.0),
    steady("process_max_fds{@}", 65_536.0),
    load(r#"turnpike_requests_total{@,operation="chat",provider="openai",status="200"}"#, 100),
    load(r#"turnpike_requests_total{@,operation="chat",provider="openai",status="429"}"#, 5),
    load(r#"turnpike_requests_total{@,operation="chat",provider="",status="401"}"#, 3),
    load(r#"turnpike_requests_total{@,operation="chat",provider="openai",status="502"}"#, 1),
    load(r#"turnpike_errors_total{@,code="invalid_api_key"}"#, 3),
    load(r#"turnpike_errors_total{@,code="upstream_unreachable"}"#, 1),
    load(r#"turnpike_attempts_total{@,provider="openai",target="config",outcome="answered"}"#, 100),
    load(r#"turnpike_attempts_total{@,provider="openai",target="config",outcome="429"}"#, 5),
    load(r#"turnpike_attempts_total{@,provider="openai",target="config",outcome="503"}"#, 3),
    load(r#"turnpike_attempts_total{@,provider="openai",target="config",outcome="400"}"#, 5),
    load(r#"turnpike_attempts_total{@,provider="openai",target="config",outcome="401"}"#, 1),
    load(r#"turnpike_attempts_total{@,provider="openai",target="config",outcome="request_timeout"}"#, 3),
    load(r#"turnpike_attempts_total{@,provider="openai",target="config",outcome="upstream_unreachable"}"#, 2),
    load(
        r#"turnpike_attempts_total{@,provider="openai",target="config",outcome="upstream_invalid_answer"}"#,
        1,
    ),
    load(r#"turnpike_attempts_total{@,provider="openai",target="config",outcome="outrun"}"#, 40),
    load(r#"turnpike_attempts_total{@,provider="openai",target="config",outcome="caller_left"}"#, 40),
    load(r#"turnpike_overhead_seconds_bucket{@,operation="chat",le="0.0004"}"#, 90),
    load(r#"turnpike_overhead_seconds_bucket{@,operation="chat",le="0.1"}"#, 98),
    load(r#"turnpike_overhead_seconds_bucket{@,operation="chat",le="1"}"#, 100),
    load(r#"turnpike_overhead_seconds_bucket{@,operation="chat",le="+Inf"}"#, 100),
    load(r#"turnpike_overhead_seconds_count{@,operation="chat"}"#, 100),
    // A websocket is open for hours.
    load(r#"turnpike_overhead_seconds_bucket{@,operation="realtime",le="1"}"#, 0),
    load(r#"turnpike_overhead_seconds_bucket{@,operation="realtime",le="+Inf"}"#, 9),
    load(r#"turnpike_overhead_seconds_count{@,operation="realtime"}"#, 9),
    steady("turnpike_held_bytes{@}", 5e6),
    steady("turnpike_held_bytes_limit{@}", 1e9),
    steady("turnpike_settings_last_reload_successful{@}", 1.0),
    steady(r#"turnpike_certificate_expiry_timestamp_seconds{@,file="/etc/turnpike/cert.pem"}"#, 1e9),
    // Of an authority, good for six days in all.
    steady(
        r#"turnpike_certificate_expiry_timestamp_seconds{@,file="/s/acme/ca-1f0c/a.example-9a41.pem"}"#,
        500_000.0,
    ),
    // The authority was away for ten minutes.
    Samples { name: "turnpike_certificate_failed_orders{@}", samples: "0+0x3 3+0x39 0+0x400" },
    load("turnpike_access_lines_dropped_total{@}", 0),
    load("turnpike_log_lines_dropped_total{@}", 0),
    load(r#"turnpike_traces_total{@,outcome="sent"}"#, 100),
    load(r#"turnpike_traces_total{@,outcome="failed"}"#, 0),
    load(r#"turnpike_traces_total{@,outcome="dropped"}"#, 0),
    load(r#"turnpike_grants_total{@,outcome="renewed"}"#, 1),
    load(r#"turnpike_grants_total{@,outcome="failed"}"#, 0),
    steady(r#"turnpike_target_open{@,config="cf",target="config.targets[0]",provider="openai"}"#, 0.0),
    // Half-open for a moment: no failure.
    steady(r#"turnpike_target_open{@,config="cf",target="config.targets[1]",provider="openai"}"#, 0.5),
    load(r#"turnpike_rescues_total{@,outcome="resumed"}"#, 1),
    load(r#"turnpike_rescues_total{@,outcome="failed"}"#, 0),
    steady("turnpike_store_available{@}", 1.0),
    steady("turnpike_ledger_available{@}", 1.0),
    load("turnpike_ledger_rows_spooled_total{@}", 0),
    load(r#"turnpike_ledger_rows_dropped_total{@,reason="queue_full"}"#, 0),
    load(r#"turnpike_ledger_questions_refused_total{@,kind="sums"}"#, 0),
    steady(r#"turnpike_cache_store_up{@,store="redis"}"#, 1.0),
    load(r#"turnpike_cache_store_errors_total{@,store="redis",reason="timeout"}"#, 1),
    load(r#"turnpike_cache_store_errors_total{@,store="redis",reason="full"}"#, 0),
    load(r#"turnpike_cache_embeddings_total{@,result="ok"}"#, 50),
    load(r#"turnpike_cache_embeddings_total{@,result="timeout"}"#, 3),
    steady("turnpike_limit_counters_available{@}", 1.0),
    steady("turnpike_limit_counters_evicted{@}", 0.0),
    load(r#"turnpike_limit_given_up_total{@,what="usage"}"#, 0),
    load(r#"turnpike_limit_given_up_total{@,what="alert"}"#, 0),
    load("turnpike_limit_overflowed_total{@}", 0),
    load(r#"turnpike_limit_refusals_total{@,scope="key",cause="rate"}"#, 20),
    load(r#"turnpike_limit_refusals_total{@,scope="key",cause="spent"}"#, 20),
    load(r#"turnpike_alerts_total{@,event="exhausted"}"#, 0),
    load(r#"turnpike_alerts_total{@,event="threshold"}"#, 0),
    load(r#"turnpike_alert_deliveries_total{@,channel="email",outcome="delivered"}"#, 1),
    load(r#"turnpike_alert_deliveries_total{@,channel="email",outcome="failed"}"#, 0),
    load(r#"turnpike_unpriced_attempts_total{@,provider="openai"}"#, 5),
    load(r#"turnpike_prices_refreshes_total{@,outcome="same"}"#, 1),
    load(r#"turnpike_prices_refreshes_total{@,outcome="refused"}"#, 0),
    steady("turnpike_prices_age_seconds{@}", 90_000.0),
    steady(r#"turnpike_prices_info{@,source="url",version="sha256-00"}"#, 1.0),
    load(r#"turnpike_guardrail_checks_total{@,check="default.contains",verdict="passed"}"#, 100),
    load(r#"turnpike_guardrail_checks_total{@,check="default.contains",verdict="failed"}"#, 10),
    load(r#"turnpike_guardrail_checks_total{@,check="default.webhook",verdict="passed"}"#, 100),
    load(r#"turnpike_guardrail_checks_total{@,check="default.webhook",verdict="error"}"#, 2),
    load(r#"turnpike_guardrail_hooks_total{@,outcome="passed"}"#, 100),
    load(r#"turnpike_guardrail_hooks_total{@,outcome="denied"}"#, 10),
    load("turnpike_guardrail_left_out_total{@}", 0),
    load(r#"turnpike_batch_lines_total{@,result="completed"}"#, 50),
    load(r#"turnpike_batch_lines_total{@,result="failed"}"#, 2),
    load(r#"turnpike_batch_lines_total{@,result="repeated"}"#, 20),
    steady("turnpike_batches_open{@}", 3.0),
];

/// Each failure at a provider that was healthy, and at one that was never called before.
pub(super) const CASES: &[Case] = &[
    case("TurnpikeDown", &[gauge("up{@}", 1.0, 0.0)]),
    case(
        "TurnpikeRestarts",
        &[Samples { name: "process_start_time_seconds{@}", samples: "1000+0x9 2000+0x7 3000+0x5 4000+0x9" }],
    ),
    case(
        "TurnpikeErrors",
        &[new(r#"turnpike_requests_total{@,operation="chat",provider="openai",status="503"}"#, 30)],
    ),
    case("TurnpikeInternalErrors", &[new(r#"turnpike_errors_total{@,code="internal_error"}"#, 1)]),
    case("TurnpikeTurnsRequestsAway", &[new(r#"turnpike_errors_total{@,code="memory_limit"}"#, 1)]),
    case("TurnpikeTurnsRequestsAway", &[new(r#"turnpike_errors_total{@,code="too_many_connections"}"#, 1)]),
    case("TurnpikeHeldBytesNearLimit", &[gauge("turnpike_held_bytes{@}", 5e6, 9e8)]),
    case("TurnpikeFilesNearLimit", &[gauge("process_open_fds{@}", 300.0, 60_000.0)]),
    case(
        "TurnpikeOverhead",
        &[
            counter(r#"turnpike_overhead_seconds_bucket{@,operation="chat",le="0.0004"}"#, 90, 0),
            counter(r#"turnpike_overhead_seconds_bucket{@,operation="chat",le="0.1"}"#, 98, 0),
        ],
    ),
    case("TurnpikeSettingsRefused", &[gauge("turnpike_settings_last_reload_successful{@}", 1.0, 0.0)]),
    // Promtool's clock begins at 0: fourteen days are left when the failure begins.
    case(
        "TurnpikeCertificateExpires",
        &[steady(
            r#"turnpike_certificate_expiry_timestamp_seconds{@,file="/etc/turnpike/cert.pem"}"#,
            1_209_960.0,
        )],
    ),
    case(
        "TurnpikeCertificateExpires",
        &[gauge(
            r#"turnpike_certificate_expiry_timestamp_seconds{@,file="/s/acme/ca-1f0c/a.example-9a41.pem"}"#,
            500_000.0,
            3_600.0,
        )],
    ),
    // Scrapes are ten minutes apart: half an hour after the first failed order.
    Case {
        hours: Some(1),
        ..case(
            "TurnpikeCertificateNotIssued",
            &[Samples { name: "turnpike_certificate_failed_orders{@}", samples: "0+0x3 1+0x20" }],
        )
    },
    case("TurnpikeAccessLinesDropped", &[counter("turnpike_access_lines_dropped_total{@}", 0, 5)]),
    case("TurnpikeLogLinesDropped", &[counter("turnpike_log_lines_dropped_total{@}", 0, 5)]),
    case("TurnpikeTracesLost", &[counter(r#"turnpike_traces_total{@,outcome="failed"}"#, 0, 5)]),
    case("TurnpikeTracesLost", &[counter(r#"turnpike_traces_total{@,outcome="dropped"}"#, 0, 5)]),
    case(
        "TurnpikeProviderErrors",
        &[
            counter(
                r#"turnpike_attempts_total{@,provider="openai",target="config",outcome="answered"}"#,
                100,
                0,
            ),
            counter(r#"turnpike_attempts_total{@,provider="openai",target="config",outcome="503"}"#, 3, 100),
        ],
    ),
    // One failure for each response, as when a retry helps.
    case(
        "TurnpikeProviderErrors",
        &[counter(r#"turnpike_attempts_total{@,provider="openai",target="config",outcome="503"}"#, 3, 100)],
    ),
    case(
        "TurnpikeProviderErrors",
        &[new(r#"turnpike_attempts_total{@,provider="groq",target="config",outcome="5xx"}"#, 3)],
    ),
    case(
        "TurnpikeProviderRateLimits",
        &[counter(r#"turnpike_attempts_total{@,provider="openai",target="config",outcome="429"}"#, 5, 100)],
    ),
    case(
        "TurnpikeProviderRateLimits",
        &[new(r#"turnpike_attempts_total{@,provider="groq",target="config",outcome="429"}"#, 3)],
    ),
    case(
        "TurnpikeProviderRefusesKey",
        &[
            counter(
                r#"turnpike_attempts_total{@,provider="openai",target="config",outcome="answered"}"#,
                100,
                0,
            ),
            counter(r#"turnpike_attempts_total{@,provider="openai",target="config",outcome="401"}"#, 1, 100),
        ],
    ),
    case(
        "TurnpikeProviderRefusesKey",
        &[new(r#"turnpike_attempts_total{@,provider="groq",target="config",outcome="403"}"#, 3)],
    ),
    case(
        "TurnpikeProviderRefusesRequests",
        &[new(r#"turnpike_attempts_total{@,provider="groq",target="config",outcome="400"}"#, 3)],
    ),
    case(
        "TurnpikeProviderRefusesRequests",
        &[new(r#"turnpike_attempts_total{@,provider="openai",target="config",outcome="404"}"#, 100)],
    ),
    case(
        "TurnpikeProviderUnreachable",
        &[
            counter(
                r#"turnpike_attempts_total{@,provider="openai",target="config",outcome="answered"}"#,
                100,
                0,
            ),
            counter(
                r#"turnpike_attempts_total{@,provider="openai",target="config",outcome="upstream_unreachable"}"#,
                2,
                100,
            ),
        ],
    ),
    case(
        "TurnpikeProviderTimeouts",
        &[counter(
            r#"turnpike_attempts_total{@,provider="openai",target="config",outcome="request_timeout"}"#,
            3,
            100,
        )],
    ),
    case(
        "TurnpikeProviderTimeouts",
        &[new(r#"turnpike_attempts_total{@,provider="groq",target="config",outcome="upstream_timeout"}"#, 3)],
    ),
    case(
        "TurnpikeProviderInvalidResponses",
        &[counter(
            r#"turnpike_attempts_total{@,provider="openai",target="config",outcome="upstream_invalid_answer"}"#,
            1,
            100,
        )],
    ),
    case(
        "TurnpikeOutboundProxyFails",
        &[new(
            r#"turnpike_attempts_total{@,provider="groq",target="config",outcome="proxy_unreachable"}"#,
            3,
        )],
    ),
    case("TurnpikeCredentialsFail", &[counter(r#"turnpike_grants_total{@,outcome="failed"}"#, 0, 1)]),
    case(
        "TurnpikeCircuitOpen",
        &[gauge(
            r#"turnpike_target_open{@,config="cf",target="config.targets[0]",provider="openai"}"#,
            0.0,
            1.0,
        )],
    ),
    case("TurnpikeStreamsBreak", &[counter(r#"turnpike_rescues_total{@,outcome="failed"}"#, 0, 1)]),
    case("TurnpikeStoreUnavailable", &[gauge("turnpike_store_available{@}", 1.0, 0.0)]),
    case("TurnpikeLogStoreUnavailable", &[gauge("turnpike_ledger_available{@}", 1.0, 0.0)]),
    case("TurnpikeLogRowsSpooled", &[counter("turnpike_ledger_rows_spooled_total{@}", 0, 10)]),
    case(
        "TurnpikeLogRowsDropped",
        &[counter(r#"turnpike_ledger_rows_dropped_total{@,reason="queue_full"}"#, 0, 1)],
    ),
    case(
        "TurnpikeLogQuestionsRefused",
        &[counter(r#"turnpike_ledger_questions_refused_total{@,kind="sums"}"#, 0, 1)],
    ),
    case("TurnpikeCacheStoreDown", &[gauge(r#"turnpike_cache_store_up{@,store="redis"}"#, 1.0, 0.0)]),
    case(
        "TurnpikeCacheStoreErrors",
        &[counter(r#"turnpike_cache_store_errors_total{@,store="redis",reason="full"}"#, 0, 1)],
    ),
    case("TurnpikeCacheEmbeddingsFail", &[new(r#"turnpike_cache_embeddings_total{@,result="failed"}"#, 50)]),
    case("TurnpikeLimitCountersUnavailable", &[gauge("turnpike_limit_counters_available{@}", 1.0, 0.0)]),
    case("TurnpikeLimitCountersEvicted", &[gauge("turnpike_limit_counters_evicted{@}", 0.0, 1.0)]),
    case("TurnpikeUsageLost", &[counter(r#"turnpike_limit_given_up_total{@,what="usage"}"#, 0, 1)]),
    case("TurnpikeLimitOverflows", &[counter("turnpike_limit_overflowed_total{@}", 0, 1)]),
    case(
        "TurnpikeLimitsCannotJudge",
        &[new(r#"turnpike_limit_refusals_total{@,scope="policy",cause="unknown_price"}"#, 1)],
    ),
    case("TurnpikeBudgetExhausted", &[counter(r#"turnpike_alerts_total{@,event="exhausted"}"#, 0, 1)]),
    case("TurnpikeBudgetNearlySpent", &[counter(r#"turnpike_alerts_total{@,event="threshold"}"#, 0, 1)]),
    case(
        "TurnpikeAlertDeliveriesFail",
        &[counter(r#"turnpike_alert_deliveries_total{@,channel="email",outcome="failed"}"#, 0, 1)],
    ),
    case(
        "TurnpikeAttemptsWithoutPrice",
        &[counter(r#"turnpike_unpriced_attempts_total{@,provider="openai"}"#, 5, 100)],
    ),
    case(
        "TurnpikePricesRefused",
        &[counter(r#"turnpike_prices_refreshes_total{@,outcome="refused"}"#, 0, 1)],
    ),
    case("TurnpikePricesStale", &[gauge("turnpike_prices_age_seconds{@}", 90_000.0, 360_000.0)]),
    case(
        "TurnpikeGuardrailChecksFail",
        &[
            counter(r#"turnpike_guardrail_checks_total{@,check="default.webhook",verdict="passed"}"#, 100, 0),
            counter(r#"turnpike_guardrail_checks_total{@,check="default.webhook",verdict="error"}"#, 2, 100),
        ],
    ),
    case(
        "TurnpikeGuardrailsDenyMuch",
        &[counter(r#"turnpike_guardrail_hooks_total{@,outcome="denied"}"#, 10, 200)],
    ),
    case("TurnpikeGuardrailsLeftOut", &[counter("turnpike_guardrail_left_out_total{@}", 0, 1)]),
    case("TurnpikeBatchLinesFail", &[counter(r#"turnpike_batch_lines_total{@,result="failed"}"#, 2, 60)]),
    // A batch that is open from the first scrape on, and no line for 26 hours.
    Case {
        hours: Some(26),
        ..case(
            "TurnpikeBatchesStuck",
            &[
                steady("turnpike_batches_open{@}", 3.0),
                load(r#"turnpike_batch_lines_total{@,result="completed"}"#, 0),
                load(r#"turnpike_batch_lines_total{@,result="failed"}"#, 0),
                load(r#"turnpike_batch_lines_total{@,result="repeated"}"#, 0),
            ],
        )
    },
];
