//! `guardrails`: what holds for all hooks and guardrails, whatever their config.
//!
//! Not here: hooks of configs (`config::hooks`), and what checks there are (`guard`).

use crate::config::members::{FLAG, MemberTable, Time};
use std::time::Duration;

/// `guardrails`; all of it may be absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardrailSettings {
    /// Whether a check that could not decide fails, where its parameters do not say.
    pub fail_on_error: bool,
    /// For each check that has no time limit of its own.
    pub check_timeout: Duration,
    /// Whether logs, spans and webhooks get what was denied.
    pub keep_denied: bool,
}

impl Default for GuardrailSettings {
    fn default() -> Self {
        Self { fail_on_error: false, check_timeout: Duration::from_secs(10), keep_denied: false }
    }
}

impl GuardrailSettings {
    pub(super) const DOC: &str = "What holds for all hooks and guardrails (docs/guardrails.md).";

    pub(super) fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let default = Self::default();
        Some(Self {
            fail_on_error: table.or(
                "fail_on_error",
                FLAG,
                default.fail_on_error,
                "Whether a check that could not decide fails, where its parameters do not say.",
            ),
            check_timeout: table.or(
                "check_timeout_ms",
                Time::new(1, 1, 120_000),
                default.check_timeout,
                "For each check that has no `timeout` of its own, milliseconds.",
            ),
            keep_denied: table.or(
                "keep_denied",
                FLAG,
                default.keep_denied,
                "Whether logs, spans and webhooks get what was denied.",
            ),
        })
    }
}
