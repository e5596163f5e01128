//! `guardrails`: what holds for all hooks and guardrails, whatever their config.
//!
//! Not here: hooks of configs (`config::hooks`), and what checks there are (`guard`).

use crate::config::read::ObjectReader;
use std::time::Duration;

/// `guardrails`; all of it may be absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardrailSettings {
    /// Whether a check that could not decide fails, where its parameters do not say.
    pub fail_on_error: bool,
    /// For each check that has no time limit of its own.
    pub check_timeout: Duration,
}

impl Default for GuardrailSettings {
    fn default() -> Self {
        Self { fail_on_error: false, check_timeout: Duration::from_secs(10) }
    }
}

impl GuardrailSettings {
    pub(super) fn read(mut fields: ObjectReader<'_>) -> Self {
        let default = Self::default();
        let fail_on_error = fields.flag(&["fail_on_error"]);
        let check_timeout = fields.get(&["check_timeout_ms"]).and_then(|at| at.integer_within(1, 120_000));
        fields.reject_unknown(&["fail_on_error", "check_timeout_ms"]);
        Self {
            fail_on_error: fail_on_error.unwrap_or(default.fail_on_error),
            check_timeout: check_timeout
                .and_then(|limit| u64::try_from(limit).ok())
                .map_or(default.check_timeout, Duration::from_millis),
        }
    }
}
