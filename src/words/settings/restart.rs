//! Which settings a reload takes over, and which are read once, at the start: one table of all members.
//!
//! A test compares it with the schema, so that a new member must stand here, and with docs/commands.md. Not here: reloading (`main`).

use super::Settings;

/// A member that is read once.
pub struct StartOnly {
    /// As in the file, such as `limits.shared`.
    pub path: &'static str,
    /// What of it is read once; empty where all of it is.
    pub part: &'static str,
    differs: fn(&Settings, &Settings) -> bool,
}

const fn all_of(path: &'static str, differs: fn(&Settings, &Settings) -> bool) -> StartOnly {
    StartOnly { path, part: "", differs }
}

/// The members that are read at the start, as a whole or in part.
pub const START_ONLY: &[StartOnly] = &[
    all_of("server.node", |a, b| a.server.node != b.server.node),
    all_of("server.threads", |a, b| a.server.threads != b.server.threads),
    all_of("server.work_stealing", |a, b| a.server.work_stealing != b.server.work_stealing),
    all_of("server.pid_file", |a, b| a.server.pid_file != b.server.pid_file),
    all_of("server.state_dir", |a, b| a.server.state_dir != b.server.state_dir),
    all_of("server.grace_period_seconds", |a, b| a.server.grace_period != b.server.grace_period),
    all_of("server.drain_seconds", |a, b| a.server.drain != b.server.drain),
    all_of("server.drain_delay_seconds", |a, b| a.server.drain_delay != b.server.drain_delay),
    all_of("server.upstream_pool_size", |a, b| a.server.upstream_pool_size != b.server.upstream_pool_size),
    all_of("listen.data", |a, b| a.listen.data != b.listen.data),
    all_of("listen.control", |a, b| a.listen.control != b.listen.control),
    all_of("listen.control_on_data", |a, b| a.listen.control_on_data != b.listen.control_on_data),
    all_of("console.enabled", |a, b| a.console.is_enabled != b.console.is_enabled),
    all_of("acme.directory", |a, b| a.acme.directory != b.acme.directory),
    all_of("acme.contact", |a, b| a.acme.contact != b.acme.contact),
    all_of("acme.terms_of_service_agreed", |a, b| {
        a.acme.terms_of_service_agreed != b.acme.terms_of_service_agreed
    }),
    all_of("acme.challenge", |a, b| a.acme.challenge != b.acme.challenge),
    all_of("acme.http_listen", |a, b| a.acme.http_listen != b.acme.http_listen),
    all_of("acme.redirect_http", |a, b| a.acme.redirect_http != b.acme.redirect_http),
    all_of("acme.ca_file", |a, b| a.acme.ca_file != b.acme.ca_file),
    all_of("acme.external_account", |a, b| a.acme.external_account != b.acme.external_account),
    all_of("emulator.listen", |a, b| a.emulator != b.emulator),
    StartOnly {
        path: "limits.idle_timeout_ms",
        part: "of HTTP/2 connections",
        differs: |a, b| a.limits.idle_timeout != b.limits.idle_timeout && serves_h2(a),
    },
    all_of("limits.max_kept_items_bytes", |a, b| {
        a.limits.max_kept_items_bytes != b.limits.max_kept_items_bytes
    }),
    all_of("limits.shared", |a, b| a.limits.counting.shared != b.limits.counting.shared),
    all_of("store.url", |a, b| a.store.url != b.store.url),
    all_of("control.role", |a, b| a.control.role != b.control.role),
    all_of("cache.url", |a, b| a.cache.url != b.cache.url),
    all_of("cache.max_bytes", |a, b| a.cache.max_bytes != b.cache.max_bytes),
    all_of("cache.max_entry_bytes", |a, b| a.cache.max_entry_bytes != b.cache.max_entry_bytes),
    all_of("cache.timeout_ms", |a, b| a.cache.timeout != b.cache.timeout),
    all_of("batches.directory", |a, b| a.batches.directory != b.batches.directory),
    all_of("batches.s3", |a, b| a.batches.s3 != b.batches.s3),
    all_of("batches.concurrency", |a, b| a.batches.concurrency != b.batches.concurrency),
    all_of("logs.enabled", |a, b| a.logs.enabled != b.logs.enabled),
    all_of("logs.url", |a, b| a.logs.url != b.logs.url),
    all_of("logs.queue_max_bytes", |a, b| a.logs.queue_max_bytes != b.logs.queue_max_bytes),
    all_of("logs.spool_dir", |a, b| a.logs.spool_dir != b.logs.spool_dir),
    all_of("logs.spool_max_bytes", |a, b| a.logs.spool_max_bytes != b.logs.spool_max_bytes),
    StartOnly {
        path: "outbound",
        part: "for telemetry.otlp and batches.s3",
        differs: |a, b| a.outbound != b.outbound && has_fixed_clients(a),
    },
    all_of("tls.ca_file", |a, b| a.tls.ca_file != b.tls.ca_file),
    all_of("telemetry.otlp", |a, b| a.telemetry != b.telemetry),
];

/// The members that a reload takes over, each below its section; a section without members is taken over as a whole.
pub const RELOADED: &[(&str, &[&str])] = &[
    ("server", &["public_url", "upgrade_sock"]),
    ("listen", &["control_names", "metrics", "trusted_proxies"]),
    (
        "limits",
        &[
            "assume_output_tokens",
            "body_timeout_ms",
            "connect_timeout_ms",
            "header_timeout_ms",
            "idle_timeout_ms",
            "leases",
            "max_body_bytes",
            "max_bucket_bytes",
            "max_connections",
            "max_header_bytes",
            "max_held_bytes",
            "min_body_rate",
            "on_store_error",
            "request_timeout_ms",
            "timezone",
            "upstream_idle_timeout_ms",
            "upstream_read_timeout_ms",
            "week_start",
            "write_timeout_ms",
        ],
    ),
    ("time_limits", &[]),
    ("console", &["sign_in"]),
    ("auth", &["client_certificates", "jwt", "keys", "saved_only", "separate_logs_write"]),
    ("store", &["encryption_key", "previous_encryption_keys"]),
    ("usage", &["on_disconnect", "stream_usage", "tokenizer"]),
    ("guardrails", &["check_timeout_ms", "fail_on_error", "keep_denied"]),
    ("mcp", &["max_rounds", "search_above"]),
    ("realtime", &["unjudged", "webrtc"]),
    ("cache", &["max_age"]),
    ("semantic_cache", &["dimensions", "max_bytes", "model", "provider", "threshold", "timeout_ms"]),
    ("batches", &["max_file_bytes", "max_line_bytes", "max_lines", "max_workspace_bytes", "retention_days"]),
    ("prices", &["file", "overlay", "refresh_hours", "sha256", "url"]),
    ("alerts", &["smtp", "webhooks"]),
    ("logs", &["allow_ignore", "export_denied_fields", "max_payload_bytes", "payloads", "retention"]),
    ("metrics", &["labels", "max_clients"]),
    ("providers", &[]),
    ("configs", &[]),
    ("default_config", &[]),
    ("models", &[]),
    ("custom_hosts", &["allow", "allow_private"]),
    ("outbound", &["dns", "ip", "no_proxy", "proxy", "source_address"]),
    ("header_prefixes", &[]),
    ("cors", &["max_age_seconds", "origins"]),
    ("access_log", &["output", "path"]),
    ("log", &["format", "level"]),
];

/// What has changed since the start and waits for a restart: the paths of members, each with what of it waits where that is a part.
pub fn waiting(started: &Settings, now: &Settings) -> Vec<String> {
    let changed = START_ONLY.iter().filter(|member| (member.differs)(started, now));
    changed.map(|member| format!("{} {}", member.path, member.part).trim_end().to_owned()).collect()
}

/// Whether clients may speak HTTP/2 at all.
fn serves_h2(settings: &Settings) -> bool {
    settings.listen.data.iter().any(|listener| listener.h2)
}

/// Whether there are clients that are made once, at the start.
fn has_fixed_clients(settings: &Settings) -> bool {
    settings.telemetry.otlp.is_some() || settings.batches.s3.is_some()
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;
    use crate::config::Checks;
    use crate::settings::SecretSources;
    use serde_json::Value;
    use std::collections::BTreeSet;

    const PAGE: &str = include_str!("../../../docs/commands.md");

    /// Every member of the file: `section.member`, or the section where its members have names of their own.
    fn members() -> BTreeSet<String> {
        let schema = schema::build(&[]);
        let definition = |value: &Value| match value["$ref"].as_str() {
            Some(name) => schema["$defs"][name.rsplit('/').next().unwrap()].clone(),
            None => value.clone(),
        };
        let mut all = BTreeSet::new();
        for (section, value) in schema["properties"].as_object().unwrap() {
            let whole = RELOADED.iter().any(|(name, members)| name == section && members.is_empty());
            match definition(value)["properties"].as_object().filter(|_| !whole) {
                Some(below) => all.extend(below.keys().map(|member| format!("{section}.{member}"))),
                None => {
                    all.insert(section.clone());
                }
            }
        }
        all
    }

    #[test]
    fn every_member_has_its_place_in_the_table() {
        let mut stated = BTreeSet::new();
        for (section, members) in RELOADED {
            match members {
                [] => drop(stated.insert((*section).to_owned())),
                members => stated.extend(members.iter().map(|member| format!("{section}.{member}"))),
            }
        }
        for member in START_ONLY {
            let is_new = member.path == "outbound" || stated.insert(member.path.to_owned());
            assert_eq!(
                is_new,
                member.part.is_empty() || member.path == "outbound",
                "{} stands twice",
                member.path
            );
        }
        assert_eq!(stated, members(), "src/words/settings/restart.rs against the members of the settings");
    }

    #[test]
    fn the_page_has_the_same_table() {
        let (_, section) = PAGE.split_once("### What needs a restart").unwrap();
        let rows: Vec<&str> = section.lines().take_while(|line| !line.starts_with("## ")).collect();
        let rows = rows.iter().filter(|line| line.starts_with("| `")).map(|line| (*line).to_owned());
        let table = START_ONLY
            .iter()
            .map(|member| format!("| `{}` | {} |", member.path, member.part).replace("|  |", "| |"));
        let table: Vec<String> = table.collect();
        assert_eq!(rows.collect::<Vec<_>>(), table, "docs/commands.md should have:\n{}", table.join("\n"));
    }

    #[test]
    fn what_waits_is_named() {
        let parse = |text: &str| {
            let sources = SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
            let checks = Checks::NONE;
            Settings::parse(text, &sources, &checks).unwrap()
        };
        let paths = |before: &str, after: &str| waiting(&parse(before), &parse(after));
        let none: [&str; 0] = [];
        assert_eq!(paths("", ""), none);
        assert_eq!(
            paths(
                "",
                "log: {level: debug}\nsemantic_cache: {provider: '@a', model: m}\nbatches: {max_lines: 1}"
            ),
            none
        );
        let after = "limits: {shared: 'redis://h:1', timezone: Europe/Berlin}\ncache: {url: 'redis://h:1'}\nserver: {threads: 3}";
        assert_eq!(paths("", after), ["server.threads", "limits.shared", "cache.url"]);
        let otlp = "telemetry: {otlp: {endpoint: 'http://127.0.0.1:4318'}}\n";
        assert_eq!(paths("", "outbound: {ip: v4}"), none);
        assert_eq!(
            paths(otlp, &format!("{otlp}outbound: {{ip: v4}}")),
            ["outbound for telemetry.otlp and batches.s3"]
        );
        let plain = "listen: {data: [{address: '127.0.0.1:1', h2: false}]}\n";
        assert_eq!(
            paths("", "limits: {idle_timeout_ms: 1}"),
            ["limits.idle_timeout_ms of HTTP/2 connections"]
        );
        assert_eq!(paths(plain, &format!("{plain}limits: {{idle_timeout_ms: 1}}")), none);
    }
}
