//! `cb_config`: when a target's circuit breaker opens, and for how long.
//!
//! Portkey's libraries write it in `strategy`, its documentation on the config: both are accepted, and the one in
//! `strategy` takes precedence. Not here: the breaker's state machine (`state::targets`).

use super::{DescribeContext, Policies, PolicyKey, inherit_value, millis};
use crate::config::read::{Cursor, ObjectReader};
use crate::config::values::{MAX_MS, at_least, status_codes};
use crate::json::schema::{number, object, see, statuses};
use serde_json::{Value, json};
use std::time::Duration;

pub(super) const KEY: PolicyKey = PolicyKey {
    names: &["cb_config"],
    read,
    schema: |_| see("breaker", "The circuit breaker of a target."),
    definitions: &[("breaker", schema)],
    inherit: |policies, above| inherit_value(&mut policies.breaker, &above.breaker),
    describe: Some(describe),
    ..PolicyKey::NONE
};

/// When a target's breaker opens, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakerPolicy {
    /// This many failures open it, if they happen within one cooldown of the first; at least 1. A fraction is rounded up.
    pub threshold: u32,
    /// How long it stays open, and the window in which failures are counted; at least 30 seconds.
    pub cooldown: Duration,
    /// Statuses that count as failures; `None`: those above 500.
    pub statuses: Option<Vec<u16>>,
}

impl BreakerPolicy {
    /// Whether a response with this status counts as a failure. Without a list those above 500 do; 500 itself does
    /// not (`docs/reliability.md`, "Circuit breakers").
    pub fn is_failure(&self, status: u16) -> bool {
        self.statuses.as_ref().map_or(status > 500, |listed| listed.contains(&status))
    }

    fn read(at: &Cursor<'_>) -> Option<Self> {
        let mut fields = at.fields()?;
        let threshold = fields.required(&["failure_threshold"]).and_then(|at| at_least(&at, 1.0));
        let cooldown = fields.required(&["cooldown_interval"]).and_then(|at| at_least(&at, 30_000.0));
        let statuses = fields.get(&["failure_status_codes"]).and_then(|at| status_codes(&at));
        fields.reject_unknown(&["failure_threshold", "cooldown_interval", "failure_status_codes"]);
        let cooldown = Duration::from_millis((cooldown?.ceil() as u64).min(MAX_MS));
        Some(Self { threshold: threshold?.ceil() as u32, cooldown, statuses })
    }
}

fn read(policies: &mut Policies, fields: &mut ObjectReader<'_>) {
    let in_strategy = fields.peek(&["strategy"]).and_then(|at| at.member("cb_config"));
    let in_strategy = in_strategy.and_then(|at| BreakerPolicy::read(&at));
    let own = fields.get(&["cb_config"]).and_then(|at| BreakerPolicy::read(&at));
    policies.breaker = in_strategy.or(own);
}

fn schema() -> Value {
    object(
        "A circuit breaker.",
        &["failure_threshold", "cooldown_interval"],
        vec![
            ("failure_threshold", number("Failures within one cooldown_interval that open it.", 1.0)),
            ("cooldown_interval", number("Milliseconds that it stays open.", 30_000.0)),
            ("failure_status_codes", statuses("Statuses that count as failures. Default: those above 500.")),
        ],
    )
}

fn describe(policies: &Policies, context: &DescribeContext) -> (&'static str, Value) {
    let view = policies.breaker.as_ref().map(|policy| {
        json!({
            "state": context.circuit,
            "failure_threshold": policy.threshold,
            "cooldown_ms": millis(policy.cooldown),
            "failure_status_codes": policy.statuses,
        })
    });
    ("breaker", view.unwrap_or_default())
}
