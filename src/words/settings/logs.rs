//! `logs`: what is kept of requests, where, and for how long.
//!
//! Not here: opening the log store (`main`), and what a row holds (`ledger`).

use super::store_settings;
use crate::config::members::{Choice, FILE, FLAG, Form, MemberTable, OneOf, form, list, object, whole};
use crate::config::read::Cursor;
use crate::config::secret::Secret;
use crate::json::schema::pattern;
use serde_json::json;
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
    /// Whether clients may have no log kept of a request, by `x-gateway-ignore-service-log`.
    pub allow_ignore: bool,
    /// Of [`EXPORT_FIELDS`], those that no export may have.
    pub export_denied_fields: Vec<&'static str>,
}

/// The members of a log that exports may have.
pub const EXPORT_FIELDS: [&str; 48] = [
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
    "guardrails",
    "prompt_cache_miss",
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
            allow_ignore: true,
            export_denied_fields: Vec::new(),
        }
    }
}

const URL: Form<Secret> = form(store_settings::url, |doc| {
    let examples = ["sqlite:///var/lib/turnpike/logs.db", "postgres://turnpike@db.internal/turnpike"];
    pattern(doc, store_settings::URL_PATTERN, &examples)
});

/// Whose bodies are kept.
pub(super) const PAYLOADS: Choice<Payloads> = Choice(&Payloads::ALL);

const AGE: Form<Option<Duration>> =
    form(age, |doc| pattern(doc, "^[1-9][0-9]*[hdw]$|^forever$", &["36h", "30d", "4w", "forever"]))
        .written(|age| Some(format!("{}d", (*age)?.as_secs() / DAY).into()));

const TIME_OF_DAY: Form<u16> =
    form(time_of_day, |doc| pattern(doc, "^([01][0-9]|2[0-3]):[0-5][0-9]$", &["03:00"]))
        .written(|minute| Some(format!("{:02}:{:02}", minute / 60, minute % 60).into()));

impl Logs {
    pub(super) const DOC: &str = "What is kept of requests for logs, analytics and bills (docs/logs.md).";

    pub(super) fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let default = Self::default();
        let url = "sqlite:///PATH, or postgres://USER:PASSWORD@HOST/DATABASE. Default: the store's where that is PostgreSQL, else \
                   logs.db in server.state_dir.";
        let payloads = "Whose bodies are kept: of no request, of failed ones, of all.";
        let spool_dir = "Default: spool in server.state_dir.";
        let retention = "How long things are kept: hours (36h), days (30d), weeks (4w) or forever. Deletion is by whole days.";
        let ignore = "Whether clients may have no log kept of a request (x-gateway-ignore-service-log).";
        let denied = list(OneOf(&EXPORT_FIELDS), "A member.");
        let denied = table.get("export_denied_fields", denied, "Members of a log that no export may have.");
        Some(Self {
            enabled: table.or("enabled", FLAG, default.enabled, "Whether rows are written at all."),
            url: table.get("url", URL, url),
            payloads: table.or("payloads", PAYLOADS, default.payloads, payloads),
            max_payload_bytes: table.or(
                "max_payload_bytes",
                whole(1024, 16 << 20),
                default.max_payload_bytes,
                "Of each body; what is longer is cut.",
            ),
            queue_max_bytes: table.or(
                "queue_max_bytes",
                whole(1 << 20, 1 << 40),
                default.queue_max_bytes,
                "What may wait in memory for the log store.",
            ),
            spool_max_bytes: table.or(
                "spool_max_bytes",
                whole(0, 1 << 50),
                default.spool_max_bytes,
                "What may wait on disk while the log store is away.",
            ),
            spool_dir: table.get("spool_dir", FILE, spool_dir),
            retention: table.get("retention", object(Retention::members), retention).unwrap_or_default(),
            allow_ignore: table.or("allow_ignore", FLAG, default.allow_ignore, ignore),
            export_denied_fields: denied.unwrap_or_default(),
        })
    }
}

impl Retention {
    fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let default = Self::default();
        let mut retention = Self {
            payloads: table.or("payloads", AGE, default.payloads, "Bodies."),
            rows: table.or("rows", AGE, default.rows, "Rows of requests and attempts, and feedback."),
            metrics: table.or("metrics", AGE, default.metrics, "Sums by the hour, which analytics reads."),
            audit: table.or("audit", AGE, default.audit, "The audit log, in the store."),
            at_minute: table.or(
                "at",
                TIME_OF_DAY,
                default.at_minute,
                "When what has expired is deleted, UTC.",
            ),
        };
        table.keyword("examples", || json!([{"payloads": "7d", "rows": "90d", "metrics": "365d"}]));
        if let Some(rows) = retention.rows {
            if retention.payloads.is_none_or(|payloads| payloads > rows) {
                let why = "must not be longer than rows: the payload of a row that is gone cannot be found";
                table.problem("payloads", why);
            }
            retention.payloads = Some(retention.payloads.map_or(rows, |payloads| payloads.min(rows)));
        }
        Some(retention)
    }
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
