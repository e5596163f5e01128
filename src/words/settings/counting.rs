//! `limits`: how usage and rates are counted: where days and weeks begin, what is assumed.
//!
//! Not here: the limits themselves, which are objects of the store.

use super::values::{count, non_empty};
use crate::config::read::{Cursor, ObjectReader};
use crate::config::secret::Secret;
use jiff::civil::Weekday;
use jiff::tz::TimeZone;

/// The keys that are read here.
pub(super) const KEYS: [&str; 6] =
    ["timezone", "week_start", "assume_output_tokens", "shared", "leases", "on_store_error"];
const LEASES: [(&str, bool); 2] = [("on", true), ("off", false)];
const ON_STORE_ERROR: [(&str, OnStoreError); 2] =
    [("allow", OnStoreError::Allow), ("deny", OnStoreError::Deny)];
const WEEKDAYS: [(&str, Weekday); 7] = [
    ("monday", Weekday::Monday),
    ("tuesday", Weekday::Tuesday),
    ("wednesday", Weekday::Wednesday),
    ("thursday", Weekday::Thursday),
    ("friday", Weekday::Friday),
    ("saturday", Weekday::Saturday),
    ("sunday", Weekday::Sunday),
];

/// How usage is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counting {
    /// In which days, weeks and months begin at midnight.
    pub timezone: TimeZone,
    pub week_start: Weekday,
    /// Output of a request that sets no bound, in tokens.
    pub assume_output_tokens: usize,
    /// Counters that several gateways share. `None`: each gateway counts alone.
    pub shared: Option<SharedCounters>,
    /// Whether an amount is borrowed ahead of hot buckets of such counters.
    pub leases: bool,
    pub on_store_error: OnStoreError,
}

/// Where gateways count together. A URL may hold a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SharedCounters {
    /// In the store, which is PostgreSQL then.
    Store,
    Redis(Secret),
    Postgres(Secret),
}

/// What is wrong with counters in a store that is not PostgreSQL.
pub const NEEDS_POSTGRES: &str = "store needs a store in PostgreSQL (store.url), and this one is SQLite: one gateway alone counts without \
     `shared`; several share counters at a redis:// or postgres:// URL";

/// What budgets do while the shared counters are away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnStoreError {
    /// Requests pass. Limits that are `hard` refuse all the same.
    Allow,
    Deny,
}

impl Default for Counting {
    fn default() -> Self {
        Self {
            timezone: TimeZone::UTC,
            week_start: Weekday::Monday,
            assume_output_tokens: 4096,
            shared: None,
            leases: true,
            on_store_error: OnStoreError::Allow,
        }
    }
}

impl Counting {
    pub(super) fn read(f: &mut ObjectReader<'_>) -> Self {
        let defaults = Self::default();
        let timezone = f.get(&["timezone"]).and_then(|at| {
            let zone = TimeZone::get(non_empty(&at)?).ok();
            if zone.is_none() {
                at.problem("must be a time zone of the IANA database, such as UTC or Europe/Berlin");
            }
            zone
        });
        let week_start = f.get(&["week_start"]).and_then(|at| at.one_of(&WEEKDAYS));
        let assume = count(f, "assume_output_tokens", 1, 10_000_000);
        Self {
            timezone: timezone.unwrap_or(defaults.timezone),
            week_start: week_start.unwrap_or(defaults.week_start),
            assume_output_tokens: assume.unwrap_or(defaults.assume_output_tokens),
            shared: f.get(&["shared"]).and_then(|at| shared(&at)),
            leases: f.get(&["leases"]).and_then(|at| at.one_of(&LEASES)).unwrap_or(defaults.leases),
            on_store_error: f
                .get(&["on_store_error"])
                .and_then(|at| at.one_of(&ON_STORE_ERROR))
                .unwrap_or(defaults.on_store_error),
        }
    }

    /// The names of the days, for the schema.
    pub(super) fn weekdays() -> impl Iterator<Item = &'static str> {
        WEEKDAYS.into_iter().map(|(name, _)| name)
    }
}

fn shared(at: &Cursor<'_>) -> Option<SharedCounters> {
    let text = at.text()?;
    let url = url::Url::parse(text).ok().filter(url::Url::has_host);
    match url.as_ref().map(url::Url::scheme) {
        _ if text == "store" => Some(SharedCounters::Store),
        Some("redis" | "rediss") => Some(SharedCounters::Redis(Secret::new(text))),
        Some("postgres" | "postgresql") => Some(SharedCounters::Postgres(Secret::new(text))),
        _ => {
            at.problem(
                "must be store (the store's PostgreSQL), postgres://USER:PASSWORD@HOST/DATABASE, redis://HOST:PORT, or rediss://HOST:PORT \
                 with TLS",
            );
            None
        }
    }
}
