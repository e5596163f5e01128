//! `cb_config`: when a target's circuit breaker opens, and for how long.
//!
//! Portkey's libraries write it in `strategy`, its documentation on the config: both are accepted, and the one in
//! `strategy` takes precedence. Not here: the breaker's state machine (`state::targets`).

use super::{DescribeContext, Policies, PolicyKey, inherit_value, millis};
use crate::config::members::{self, AtLeast, MemberTable, STATUSES, object, see};
use crate::config::values::MAX_MS;
use serde_json::{Value, json};
use std::time::Duration;

pub(super) const KEY: PolicyKey = PolicyKey {
    members,
    definitions: &[("breaker", || members::schema("A circuit breaker.", BreakerPolicy::members))],
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

    fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let threshold = "Failures within one cooldown_interval that open it.";
        let statuses = "Statuses that count as failures. Default: those above 500.";
        let threshold = table.needed("failure_threshold", AtLeast(1.0), threshold);
        let cooldown =
            table.needed("cooldown_interval", AtLeast(30_000.0), "Milliseconds that it stays open.");
        let statuses = table.get("failure_status_codes", STATUSES, statuses);
        let cooldown = Duration::from_millis((cooldown?.ceil() as u64).min(MAX_MS));
        Some(Self { threshold: threshold?.ceil() as u32, cooldown, statuses })
    }
}

fn members(policies: &mut Policies, table: &mut MemberTable<'_>) {
    let in_strategy = table.at("strategy").and_then(|at| at.member("cb_config"));
    let in_strategy = in_strategy.and_then(|at| members::read(&at, BreakerPolicy::members));
    let breaker = see("breaker", object(BreakerPolicy::members));
    let own = table.get("cb_config", breaker, "The circuit breaker of a target.");
    policies.breaker = in_strategy.or(own);
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
