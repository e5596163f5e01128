//! `logs`: what is kept of requests, where, and for how long.
//!
//! Not here: opening the log store (`main`), and what a row holds (`ledger`).

use super::values::{count, file};
use crate::config::read::{Cursor, ObjectReader};
use crate::config::secret::Secret;
use std::path::PathBuf;
use std::time::Duration;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// `logs`; all of it may be absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logs {
    /// Whether rows are written at all.
    pub enabled: bool,
    /// May hold a password. `None`: that of the store, where it is PostgreSQL, else a file in the state directory.
    pub url: Option<Secret>,
    pub payloads: Payloads,
    /// Of each body; what is longer is cut.
    pub max_payload_bytes: usize,
    /// What waits in memory for the log store.
    pub queue_max_bytes: usize,
    /// What waits on disk.
    pub spool_max_bytes: u64,
    /// `None`: `spool` in the state directory.
    pub spool_dir: Option<PathBuf>,
    pub retention: Retention,
    /// Of [`EXPORT_FIELDS`], those that no export may have.
    pub export_denied_fields: Vec<&'static str>,
}

/// The members of a log that exports may have.
pub const EXPORT_FIELDS: [&str; 46] = [
    "id",
    "trace_id",
    "created_at",
    "request",
    "response",
    "is_success",
    "ai_org",
    "ai_model",
    "req_units",
    "res_units",
    "total_units",
    "request_url",
    "cost",
    "cost_currency",
    "response_time",
    "response_status_code",
    "mode",
    "config",
    "prompt_slug",
    "metadata",
    "span_id",
    "parent_span_id",
    "span_name",
    "workspace_id",
    "workspace_slug",
    "api_key_id",
    "api_key_name",
    "user",
    "operation",
    "request_method",
    "virtual_key",
    "response_model",
    "prompt_version_id",
    "error_code",
    "stream_mode",
    "cache_status",
    "cached_units",
    "cache_write_units",
    "reasoning_units",
    "usage_source",
    "cost_status",
    "price_version",
    "time_to_first_token",
    "retry_success_count",
    "last_used_option_index",
    "is_custom",
];

/// Which requests' bodies are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Payloads {
    #[default]
    Off,
    /// Of failed requests.
    Errors,
    All,
}

impl Payloads {
    pub const ALL: [(&'static str, Self); 3] =
        [("off", Self::Off), ("errors", Self::Errors), ("all", Self::All)];
    pub const NAMES: [&str; 3] = ["off", "errors", "all"];

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find_map(|(of, payloads)| (of == name).then_some(payloads))
    }
}

/// How long things are kept. `None`: for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    pub payloads: Option<Duration>,
    pub rows: Option<Duration>,
    pub metrics: Option<Duration>,
    /// The audit log, in the store.
    pub audit: Option<Duration>,
    /// When what has expired is deleted, minutes after midnight, UTC.
    pub at_minute: u16,
}

impl Default for Retention {
    fn default() -> Self {
        let days = |days: u64| Some(Duration::from_secs(days * DAY));
        Self { payloads: days(30), rows: days(90), metrics: days(365), audit: days(365), at_minute: 180 }
    }
}

impl Default for Logs {
    fn default() -> Self {
        Self {
            enabled: true,
            url: None,
            payloads: Payloads::Off,
            max_payload_bytes: 256 << 10,
            queue_max_bytes: 64 << 20,
            spool_max_bytes: 1 << 30,
            spool_dir: None,
            retention: Retention::default(),
            export_denied_fields: Vec::new(),
        }
    }
}

impl Logs {
    pub(super) fn read(mut fields: ObjectReader<'_>) -> Self {
        let f = &mut fields;
        let defaults = Self::default();
        let logs = Self {
            enabled: f.flag(&["enabled"]).unwrap_or(defaults.enabled),
            url: f.get(&["url"]).and_then(|at| super::store_settings::url(&at)),
            payloads: f.get(&["payloads"]).and_then(|at| at.one_of(&Payloads::ALL)).unwrap_or_default(),
            max_payload_bytes: count(f, "max_payload_bytes", 1024, 16 << 20)
                .unwrap_or(defaults.max_payload_bytes),
            queue_max_bytes: count(f, "queue_max_bytes", 1 << 20, 1 << 40)
                .unwrap_or(defaults.queue_max_bytes),
            spool_max_bytes: count(f, "spool_max_bytes", 0, 1 << 50)
                .map_or(defaults.spool_max_bytes, |bytes| bytes as u64),
            spool_dir: file(f, "spool_dir"),
            retention: f
                .get(&["retention"])
                .and_then(|at| at.fields())
                .map(Retention::read)
                .unwrap_or_default(),
            export_denied_fields: f
                .get(&["export_denied_fields"])
                .and_then(|at| at.list())
                .map(|items| items.iter().filter_map(export_field).collect())
                .unwrap_or_default(),
        };
        fields.reject_unknown(&[
            "enabled",
            "url",
            "payloads",
            "max_payload_bytes",
            "queue_max_bytes",
            "spool_max_bytes",
            "spool_dir",
            "retention",
            "export_denied_fields",
        ]);
        logs
    }
}

impl Retention {
    fn read(mut fields: ObjectReader<'_>) -> Self {
        let defaults = Self::default();
        let mut age = |name: &str, default: Option<Duration>| {
            fields.get(&[name]).and_then(|at| age(&at)).unwrap_or(default)
        };
        let mut retention = Self {
            payloads: age("payloads", defaults.payloads),
            rows: age("rows", defaults.rows),
            metrics: age("metrics", defaults.metrics),
            audit: age("audit", defaults.audit),
            at_minute: defaults.at_minute,
        };
        if let Some(minute) = fields.get(&["at"]).and_then(|at| time_of_day(&at)) {
            retention.at_minute = minute;
        }
        if let (Some(rows), Some(at)) = (retention.rows, fields.peek(&["payloads"]))
            && retention.payloads.is_none_or(|payloads| payloads > rows)
        {
            at.problem("must not be longer than rows: the payload of a row that is gone cannot be found");
        }
        retention.payloads = match (retention.payloads, retention.rows) {
            (Some(payloads), Some(rows)) => Some(payloads.min(rows)),
            (payloads, rows) => payloads.or(rows),
        };
        fields.reject_unknown(&["payloads", "rows", "metrics", "audit", "at"]);
        retention
    }
}

fn export_field(at: &Cursor<'_>) -> Option<&'static str> {
    at.one_of(&EXPORT_FIELDS.map(|name| (name, name)))
}

/// A number with a unit, or `forever`. Deletion is by whole days.
fn age(at: &Cursor<'_>) -> Option<Option<Duration>> {
    const WRONG: &str =
        "must be a number with a unit: hours (36h), days (30d) or weeks (4w), at least 1h; or forever";
    // A bare number would be days for one reader and seconds for another.
    if at.node.as_text().is_none() {
        at.problem(WRONG);
        return None;
    }
    let text = at.text()?;
    if text == "forever" {
        return Some(None);
    }
    let units = [('h', HOUR), ('d', DAY), ('w', 7 * DAY)];
    let found = units.into_iter().find_map(|(unit, seconds)| {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        Some(Duration::from_secs(
            number.checked_mul(seconds).filter(|all| (HOUR..=36_500 * DAY).contains(all))?,
        ))
    });
    if found.is_none() {
        at.problem(WRONG);
    }
    found.map(Some)
}

/// `HH:MM`, as minutes.
fn time_of_day(at: &Cursor<'_>) -> Option<u16> {
    let text = at.text()?;
    let digits = |text: &str, max: u16| {
        let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u16>().ok().filter(|number| is_number && *number < max)
    };
    let found =
        text.split_once(':').and_then(|(hour, minute)| Some(digits(hour, 24)? * 60 + digits(minute, 60)?));
    if found.is_none() {
        at.problem("must be a time of day in UTC, HH:MM, such as \"03:00\"");
    }
    found
}
