//! `retry`: how often a target is tried again, and how long to wait in between.
//!
//! A level's object replaces the whole object of the level above. Not here: whether a given outcome is retried
//! (`route::retry`).

use super::{DescribeContext, Policies, PolicyKey, inherit_value, millis};
use crate::config::members::{self, FLAG, MemberTable, STATUSES, Time, default_shown, object, see, whole};
use serde_json::{Value, json};
use std::time::Duration;

pub(super) const KEY: PolicyKey = PolicyKey {
    enough: &["retry"],
    members: |policies, table| {
        policies.retry = table.get("retry", see("retry", object(RetryPolicy::members)), DOC);
    },
    definitions: &[("retry", || members::schema(DOC, RetryPolicy::members))],
    inherit: |policies, above| inherit_value(&mut policies.retry, &above.retry),
    describe: Some(describe),
    ..PolicyKey::NONE
};

const DOC: &str = "How often a target is tried again.";

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

    fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        const RETRY_AFTER: &[&str] = &["use_retry_after_headers", "use_retry_after_header"];
        const TIME: Time = Time::new(1, 1, i64::MAX);
        let statuses = default_shown(STATUSES, DEFAULT_STATUSES.to_vec());
        let none = Self::NONE;
        let backoff = "Upper bound of the first wait, doubled for each further one.";
        let attempts = table.needed("attempts", whole(0, u32::MAX.into()), "Attempts after the first.");
        let policy = Self {
            attempts: attempts.unwrap_or_default(),
            statuses: table.get("on_status_codes", statuses, "Statuses that are retried; empty: none."),
            honours_retry_after: table.or(
                RETRY_AFTER,
                FLAG,
                none.honours_retry_after,
                "Whether Retry-After headers are obeyed.",
            ),
            backoff: table.or("backoff_ms", TIME, none.backoff, backoff),
            max_backoff: table.or("max_backoff_ms", TIME, none.max_backoff, "Upper bound of every wait."),
            budget: table.or("budget_ms", TIME, none.budget, "Upper bound of all waits together."),
        };
        attempts.map(|_| policy)
    }
}

impl Policies {
    /// The retry policy in force.
    pub fn retry(&self) -> &RetryPolicy {
        const NONE: &RetryPolicy = &RetryPolicy::NONE;
        self.retry.as_ref().unwrap_or(NONE)
    }
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
