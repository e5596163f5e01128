//! The small policies of a config: cache, retry, circuit breaker, and lists of status codes.
//!
//! Values as written, checked and typed. Not here: defaults for absent values, and what the numbers do.

use super::read::Cursor;

/// Ten years in milliseconds. Longer than any real timeout, and short enough that adding it to a clock does
/// not overflow. Larger values are reduced to it.
pub const MAX_MS: u64 = 10 * 366 * 24 * 3_600 * 1_000;

/// Spec "Cache".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cache {
    pub mode: CacheMode,
    /// Seconds (reference section 17; the spec leaves the unit open).
    pub max_age: Option<u64>,
}

/// Whether the cache serves only identical requests (`Simple`) or also those of similar meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheMode {
    Simple,
    Semantic,
}

/// Spec "Retry".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Retries after the first attempt.
    pub attempts: u32,
    /// `None`: the default list. Empty: no status is retried.
    pub on_status_codes: Option<Vec<u16>>,
    /// Spec `use_retry_after_headers`, default false.
    pub use_retry_after: bool,
    /// Extension of the spec: upper bound of the first backoff, milliseconds.
    pub backoff_ms: Option<u64>,
    /// Extension of the spec: upper bound of any backoff, milliseconds.
    pub max_backoff_ms: Option<u64>,
    /// Extension of the spec: upper bound of all backoffs together, milliseconds.
    pub budget_ms: Option<u64>,
}

/// Spec "Circuit breaker" (`cb_config`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breaker {
    /// Failures after which the circuit opens; at least 1. A fraction is rounded up.
    pub failure_threshold: u32,
    /// Milliseconds, at least 30,000.
    pub cooldown_ms: u64,
    /// `None`: the default list.
    pub failure_status_codes: Option<Vec<u16>>,
}

impl Cache {
    pub fn read(at: &Cursor<'_>) -> Option<Self> {
        let mut fields = at.fields()?;
        let modes = [("simple", CacheMode::Simple), ("semantic", CacheMode::Semantic)];
        let mode = fields.required(&["mode"]).and_then(|at| at.one_of(&modes));
        let max_age = fields.get(&["max_age"]).and_then(|at| at.integer_within(0, i64::MAX));
        fields.reject_unknown(&["mode", "max_age"]);
        Some(Self { mode: mode?, max_age: max_age.and_then(|seconds| seconds.try_into().ok()) })
    }
}

impl Retry {
    pub fn read(at: &Cursor<'_>) -> Option<Self> {
        const RETRY_AFTER: [&str; 2] = ["use_retry_after_headers", "use_retry_after_header"];
        let mut fields = at.fields()?;
        let attempts = fields.required(&["attempts"]).and_then(|at| at.integer_within(0, u32::MAX.into()));
        let on_status_codes = fields.get(&["on_status_codes"]).and_then(|at| status_codes(&at));
        let use_retry_after = fields.flag(&RETRY_AFTER).unwrap_or_default();
        let mut millis = |name: &str| fields.get(&[name]).and_then(|at| timeout_ms(&at));
        let backoff_ms = millis("backoff_ms");
        let max_backoff_ms = millis("max_backoff_ms");
        let budget_ms = millis("budget_ms");
        fields.reject_unknown(&[
            "attempts",
            "on_status_codes",
            "use_retry_after_headers",
            "use_retry_after_header",
            "backoff_ms",
            "max_backoff_ms",
            "budget_ms",
        ]);
        let attempts = attempts?.try_into().ok()?;
        Some(Self { attempts, on_status_codes, use_retry_after, backoff_ms, max_backoff_ms, budget_ms })
    }
}

impl Breaker {
    pub fn read(at: &Cursor<'_>) -> Option<Self> {
        let mut fields = at.fields()?;
        let threshold = fields.required(&["failure_threshold"]).and_then(|at| at_least(&at, 1.0));
        let cooldown = fields.required(&["cooldown_interval"]).and_then(|at| at_least(&at, 30_000.0));
        let failure_status_codes = fields.get(&["failure_status_codes"]).and_then(|at| status_codes(&at));
        fields.reject_unknown(&["failure_threshold", "cooldown_interval", "failure_status_codes"]);
        Some(Self {
            failure_threshold: threshold?.ceil() as u32,
            cooldown_ms: (cooldown?.ceil() as u64).min(MAX_MS),
            failure_status_codes,
        })
    }
}

/// An array of HTTP status codes; it may be empty.
pub fn status_codes(at: &Cursor<'_>) -> Option<Vec<u16>> {
    let items = at.list()?;
    let code = |item: &Cursor<'_>| item.integer_within(100, 599)?.try_into().ok();
    Some(items.iter().filter_map(code).collect())
}

/// A timeout in milliseconds, at least 1. Values above [`MAX_MS`] are reduced to it.
pub fn timeout_ms(at: &Cursor<'_>) -> Option<u64> {
    let ms: u64 = at.integer_within(1, i64::MAX)?.try_into().ok()?;
    Some(ms.min(MAX_MS))
}

/// A number not less than `min`.
pub fn at_least(at: &Cursor<'_>, min: f64) -> Option<f64> {
    let number = at.number()?;
    if number < min {
        at.problem(format!("must be at least {min}"));
        return None;
    }
    Some(number)
}
