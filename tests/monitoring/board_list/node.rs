//! One process.
//!
//! Only panels; how they are written is in `board_list`.

use super::{Panel, TIME_IN_GATEWAY, graph, number, table};

pub(super) const NODE: &[Panel] = &[
    number("Up since", "s", &[("time() - process_start_time_seconds{@}", "")]),
    number("Requests", "reqps", &[("sum(rate(turnpike_requests_total{@}[$__rate_interval]))", "")]),
    number("In flight", "none", &[("turnpike_requests_in_flight{@}", "")]),
    number("Settings accepted", "none", &[("turnpike_settings_last_reload_successful{@}", "")]),
    number("Control plane's database", "none", &[("turnpike_store_available{@}", "")]),
    number("Log store", "none", &[("turnpike_ledger_available{@}", "")]),
    graph(
        "CPU",
        "none",
        &[("rate(process_cpu_seconds_total{@}[$__rate_interval])", "cores")],
        "Cores in use.",
    ),
    graph(
        "Memory",
        "bytes",
        &[
            ("process_resident_memory_bytes{@}", "resident"),
            ("turnpike_held_bytes{@}", "bodies held"),
            ("turnpike_held_bytes_limit{@}", "most that may be held"),
            ("turnpike_cache_bytes{@}", "cache"),
            ("turnpike_limit_bucket_bytes{@}", "buckets of limits"),
        ],
        "",
    ),
    graph(
        "Files and sockets",
        "none",
        &[("process_open_fds{@}", "open"), ("process_max_fds{@}", "limit")],
        "",
    ),
    graph("Threads", "none", &[("process_threads{@}", "threads")], ""),
    graph(
        "Requests by status",
        "reqps",
        &[("sum by (status) (rate(turnpike_requests_total{@}[$__rate_interval]))", "{{status}}")],
        "",
    ),
    TIME_IN_GATEWAY,
    graph(
        "Rows of the log",
        "none",
        &[
            ("rate(turnpike_ledger_rows_written_total{@}[$__rate_interval])", "written a second"),
            ("rate(turnpike_ledger_rows_spooled_total{@}[$__rate_interval])", "to the spool a second"),
            ("rate(turnpike_ledger_rows_dropped_total{@}[$__rate_interval])", "lost a second: {{reason}}"),
        ],
        "",
    ),
    graph(
        "Rows that wait",
        "bytes",
        &[
            ("turnpike_ledger_queue_bytes{@}", "in memory"),
            ("turnpike_ledger_spool_bytes{@}", "in the spool"),
        ],
        "",
    ),
    graph(
        "Questions to the log",
        "none",
        &[
            ("turnpike_ledger_questions{@}", "{{kind}} {{state}}"),
            ("increase(turnpike_ledger_questions_refused_total{@}[$__rate_interval])", "{{kind}} refused"),
            ("turnpike_ledger_tail_readers{@}", "clients that follow"),
            ("increase(turnpike_ledger_tail_dropped_total{@}[$__rate_interval])", "left out for them"),
        ],
        "",
    ),
    graph(
        "Lost lines and traces",
        "none",
        &[
            ("increase(turnpike_access_lines_dropped_total{@}[$__rate_interval])", "access lines"),
            ("increase(turnpike_log_lines_dropped_total{@}[$__rate_interval])", "lines of the log"),
            (r#"increase(turnpike_traces_total{@,outcome!="sent"}[$__rate_interval])"#, "traces {{outcome}}"),
        ],
        "",
    ),
    graph(
        "Readings of the settings",
        "none",
        &[("increase(turnpike_settings_reloads_total{@}[1h])", "{{result}}")],
        "In an hour.",
    ),
    graph("Objects of the control plane", "none", &[("turnpike_store_records{@}", "objects in memory")], ""),
    graph(
        "Revision of the store in force",
        "none",
        &[("turnpike_config_revision{@}", "revision")],
        "The number of the last change. Gateways of one store have the same.",
    ),
    graph(
        "Uploaded files",
        "Bps",
        &[("rate(turnpike_file_upload_bytes_total{@}[$__rate_interval])", "bytes")],
        "",
    ),
    table(
        "Certificates",
        &[("turnpike_certificate_expiry_timestamp_seconds{@} - time()", "")],
        "Seconds until each expires.",
    ),
    graph(
        "Certificates ordered",
        "none",
        &[("increase(turnpike_certificate_orders_total{@}[1h])", "{{outcome}}")],
        "Of an authority (ACME), in an hour.",
    ),
    table("Version", &[("turnpike_build_info{@}", "")], ""),
    table(
        "Settings in force",
        &[
            ("turnpike_settings_info{@}", ""),
            ("time() - turnpike_settings_last_reload_success_timestamp_seconds{@}", ""),
        ],
        "By the beginning of the file's SHA-256, and seconds since they are in force.",
    ),
];
