//! `retry`: how often a target is tried again, and how long to wait in between.
//!
//! A level's object replaces the whole object of the level above. Not here: whether a given outcome is retried
//! (`route::retry`).

use super::{DescribeContext, Policies, PolicyKey, inherit_value, millis};
use crate::config::read::Cursor;
use crate::config::values::{status_codes, timeout_ms};
use crate::json::schema::{flag, integer, object, or, see, statuses};
use serde_json::{Value, json};
use std::time::Duration;

pub(super) const KEY: PolicyKey = PolicyKey {
    names: &["retry"],
    is_enough: true,
    read: |policies, fields| policies.retry = fields.get(&["retry"]).and_then(|at| RetryPolicy::read(&at)),
    schema: |_| see("retry", "How often a target is tried again."),
    definitions: &[("retry", schema)],
    inherit: |policies, above| inherit_value(&mut policies.retry, &above.retry),
    describe: Some(describe),
    ..PolicyKey::NONE
};

/// Statuses that are retried when the config has no list (529 is Anthropic's form of 503).
pub const DEFAULT_STATUSES: [u16; 6] = [429, 500, 502, 503, 504, 529];

/// A target's retry policy, defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Retries after the first attempt.
    pub attempts: u32,
    /// `None`: [`DEFAULT_STATUSES`]. Empty: no status is retried.
    pub statuses: Option<Vec<u16>>,
    /// `use_retry_after_headers`.
    pub honours_retry_after: bool,
    /// A key of our own: upper bound of the first backoff.
    pub backoff: Duration,
    /// A key of our own: upper bound of any backoff.
    pub max_backoff: Duration,
    /// A key of our own: upper bound of all backoffs together.
    pub budget: Duration,
}

impl RetryPolicy {
    /// No retries: what applies without a `retry` in the config.
    pub const NONE: Self = Self {
        attempts: 0,
        statuses: None,
        honours_retry_after: false,
        backoff: Duration::from_secs(1),
        max_backoff: Duration::from_secs(8),
        budget: Duration::from_secs(60),
    };

    fn read(at: &Cursor<'_>) -> Option<Self> {
        const RETRY_AFTER: [&str; 2] = ["use_retry_after_headers", "use_retry_after_header"];
        let mut fields = at.fields()?;
        let attempts = fields.required(&["attempts"]).and_then(|at| at.integer_within(0, u32::MAX.into()));
        let statuses = fields.get(&["on_status_codes"]).and_then(|at| status_codes(&at));
        let honours_retry_after = fields.flag(&RETRY_AFTER).unwrap_or_default();
        let mut time = |name: &str, default: Duration| {
            let ms = fields.get(&[name]).and_then(|at| timeout_ms(&at));
            ms.map_or(default, Duration::from_millis)
        };
        let backoff = time("backoff_ms", Self::NONE.backoff);
        let max_backoff = time("max_backoff_ms", Self::NONE.max_backoff);
        let budget = time("budget_ms", Self::NONE.budget);
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
        Some(Self { attempts, statuses, honours_retry_after, backoff, max_backoff, budget })
    }
}

impl Policies {
    /// The retry policy in force.
    pub fn retry(&self) -> &RetryPolicy {
        const NONE: &RetryPolicy = &RetryPolicy::NONE;
        self.retry.as_ref().unwrap_or(NONE)
    }
}

fn schema() -> Value {
    let time = |description: &str, default: Duration| or(integer(description, 1, None), millis(default));
    let none = RetryPolicy::NONE;
    let retry_after = "Whether Retry-After headers are obeyed.";
    object(
        "How often a target is tried again.",
        &["attempts"],
        vec![
            ("attempts", integer("Attempts after the first.", 0, Some(u32::MAX.into()))),
            (
                "on_status_codes",
                or(statuses("Statuses that are retried; empty: none."), DEFAULT_STATUSES.to_vec()),
            ),
            ("use_retry_after_headers", or(flag(retry_after), none.honours_retry_after)),
            ("use_retry_after_header", or(flag(retry_after), none.honours_retry_after)),
            (
                "backoff_ms",
                time("Upper bound of the first wait, doubled for each further one.", none.backoff),
            ),
            ("max_backoff_ms", time("Upper bound of every wait.", none.max_backoff)),
            ("budget_ms", time("Upper bound of all waits together.", none.budget)),
        ],
    )
}

fn describe(policies: &Policies, _: &DescribeContext) -> (&'static str, Value) {
    let policy = policies.retry();
    let view = json!({
        "attempts": policy.attempts,
        "on_status_codes": policy.statuses.as_deref().unwrap_or(&DEFAULT_STATUSES),
        "use_retry_after_headers": policy.honours_retry_after,
        "backoff_ms": millis(policy.backoff),
        "max_backoff_ms": millis(policy.max_backoff),
        "budget_ms": millis(policy.budget),
    });
    ("retry", view)
}
