//! `limits`: how usage and rates are counted: where days and weeks begin, what is assumed.
//!
//! Not here: the limits themselves, which are objects of the store.

use crate::config::members::{Choice, Form, MemberTable, form, non_empty, whole};
use crate::config::read::Cursor;
use crate::config::secret::Secret;
use crate::json::schema;
use jiff::civil::Weekday;
use jiff::tz::TimeZone;

const LEASES: Choice<bool> = Choice(&[("on", true), ("off", false)]);
const ON_STORE_ERROR: Choice<OnStoreError> =
    Choice(&[("allow", OnStoreError::Allow), ("deny", OnStoreError::Deny)]);
const WEEKDAYS: Choice<Weekday> = Choice(&[
    ("monday", Weekday::Monday),
    ("tuesday", Weekday::Tuesday),
    ("wednesday", Weekday::Wednesday),
    ("thursday", Weekday::Thursday),
    ("friday", Weekday::Friday),
    ("saturday", Weekday::Saturday),
    ("sunday", Weekday::Sunday),
]);
const TIMEZONE: Form<TimeZone> = form(
    |at| {
        let zone = TimeZone::get(non_empty(at)?).ok();
        if zone.is_none() {
            at.problem("must be a time zone of the IANA database, such as UTC or Europe/Berlin");
        }
        zone
    },
    schema::non_empty,
)
.written(|zone| Some(zone.iana_name()?.into()));
const SHARED: Form<SharedCounters> = form(shared, |doc| {
    schema::pattern(doc, "^(store$|rediss?://.|postgres(ql)?://.)", &["store", "redis://127.0.0.1:6379"])
});

/// How usage is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counting {
    /// In which days, weeks and months begin at midnight.
    pub timezone: TimeZone,
    pub week_start: Weekday,
    /// Output of a request that sets no bound, in tokens.
    pub assume_output_tokens: usize,
    /// What the buckets of all limits may take in memory.
    pub max_bucket_bytes: usize,
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
            max_bucket_bytes: 1 << 30,
            shared: None,
            leases: true,
            on_store_error: OnStoreError::Allow,
        }
    }
}

impl Counting {
    /// Adds its members to those of `limits`.
    pub(super) fn members(table: &mut MemberTable<'_>) -> Self {
        let default = Self::default();
        let timezone =
            "Where the days, weeks and months of rate limits and budgets begin: a zone of the IANA database.";
        let assumed = "Output that is reserved for a request without a bound of its own, in tokens, until enough of its kind were \
                       counted.";
        let bucket_bytes = "Buckets of all limits in memory, in bytes. For more values there is one bucket of each limit together.";
        let shared = "Counters that several gateways share: in the store, if it is PostgreSQL, or at a URL of PostgreSQL, Redis or \
                      Valkey; without it each counts alone. Read at the start.";
        let leases = "Whether a gateway borrows an amount ahead of hot buckets of shared counters, for two seconds, so that most \
                      requests need no call to the store. Never of hard limits.";
        let on_store_error = "What budgets do while the shared counters are away; hard ones refuse.";
        Self {
            timezone: table.or("timezone", TIMEZONE, default.timezone, timezone),
            week_start: table.or("week_start", WEEKDAYS, default.week_start, "The day on which weeks begin."),
            assume_output_tokens: table.or(
                "assume_output_tokens",
                whole(1, 10_000_000),
                default.assume_output_tokens,
                assumed,
            ),
            max_bucket_bytes: table.or(
                "max_bucket_bytes",
                whole(1 << 20, 1 << 50),
                default.max_bucket_bytes,
                bucket_bytes,
            ),
            shared: table.get("shared", SHARED, shared),
            leases: table.or("leases", LEASES, default.leases, leases),
            on_store_error: table.or(
                "on_store_error",
                ON_STORE_ERROR,
                default.on_store_error,
                on_store_error,
            ),
        }
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
