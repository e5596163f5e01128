//! `concurrency`: how many attempts are at a target at a time, and how many may wait for a place there.
//!
//! A stored provider's bounds all that goes there, whichever config sends it; a config's bounds each of its targets. Both hold: a config does
//! not replace what the operator says of a provider. Not the places themselves (`state::slots`), nor who goes first (`priority`).

use super::{DescribeContext, Policies, PolicyKey, inherit_value, millis};
use crate::config::members::{self, Form, MILLIS, MemberTable, default_shown, form, object, see, whole};
use crate::config::read::Cursor;
use serde_json::{Value, json};
use std::time::Duration;

pub(super) const KEY: PolicyKey = PolicyKey {
    members: |policies, table| policies.concurrency.of_target = member(table, "a target"),
    definitions: &[
        ("concurrency", || members::schema(DOC, SlotPolicy::members)),
        ("concurrency_queue", || members::schema("The attempts that wait for a place.", Queue::members)),
    ],
    in_provider: Some(|policies, table| policies.concurrency.of_provider = member(table, "the provider")),
    inherit: |policies, above| {
        inherit_value(&mut policies.concurrency.of_target, &above.concurrency.of_target);
        inherit_value(&mut policies.concurrency.of_provider, &above.concurrency.of_provider);
    },
    describe: Some(describe),
    ..PolicyKey::NONE
};

const DOC: &str = "How many attempts are under way at a time, and how many wait for a place.";
/// The most places, and the most attempts that wait for one.
const MAX_PLACES: i64 = 1_000_000;
const DEFAULT_QUEUE: u32 = 100;
const DEFAULT_WAIT: Duration = Duration::from_secs(10);

/// `concurrency` of a target, and that of its stored provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Concurrency {
    pub of_target: Option<SlotPolicy>,
    pub of_provider: Option<SlotPolicy>,
}

/// How many places there are, and how many attempts wait for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotPolicy {
    /// Attempts that are under way at a time, from when they are sent to their last byte.
    pub max: MaxSlots,
    /// Attempts that wait for a place; 0: none does.
    pub queue: u32,
    /// The longest wait.
    pub wait: Duration,
    /// A request goes to the next target at once where its place is expected later; `None`: whatever is expected.
    pub overflow: Option<Duration>,
}

/// How many places there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxSlots {
    /// At least 1.
    Fixed(u32),
    /// As many as are learned from the times to the first byte.
    Learned,
}

impl SlotPolicy {
    fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let max = "Attempts that are under way at a time, from when they are sent to their last byte; auto: as many as are learned from the times to the first token.";
        let max = table.needed("max", MAX_SLOTS, max);
        let queue = see("concurrency_queue", object(Queue::members));
        let queue = table.get("queue", queue, "The attempts that wait for a place.").unwrap_or_default();
        Some(Self { max: max?, queue: queue.max, wait: queue.wait, overflow: queue.overflow })
    }
}

const MAX_SLOTS: Form<MaxSlots> = form(
    max_slots,
    |doc| json!({"anyOf": [{"type": "integer", "minimum": 1, "maximum": MAX_PLACES}, {"enum": ["auto"]}], "description": doc}),
);

fn max_slots(at: &Cursor<'_>) -> Option<MaxSlots> {
    match at.node.as_text() {
        Some("auto") => Some(MaxSlots::Learned),
        Some(_) => {
            at.problem(format!("must be a whole number from 1 to {MAX_PLACES}, or auto"));
            None
        }
        None => u32::try_from(at.integer_within(1, MAX_PLACES)?).ok().map(MaxSlots::Fixed),
    }
}

/// `queue`.
struct Queue {
    max: u32,
    wait: Duration,
    overflow: Option<Duration>,
}

impl Default for Queue {
    fn default() -> Self {
        Self { max: DEFAULT_QUEUE, wait: DEFAULT_WAIT, overflow: None }
    }
}

impl Queue {
    fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let max = "How many may wait. With 0 none waits.";
        let wait = "The longest wait for a place, in milliseconds.";
        let max = table.get("max", default_shown(whole(0, MAX_PLACES), DEFAULT_QUEUE), max);
        let wait = table.get("timeout_ms", default_shown(MILLIS, DEFAULT_WAIT), wait);
        let overflow = "Milliseconds. A request goes to the next target at once where its place is expected later, until the wait that is expected is half of it. Default: it waits.";
        let overflow = table.get("overflow_ms", MILLIS, overflow);
        Some(Self { max: max.unwrap_or(DEFAULT_QUEUE), wait: wait.unwrap_or(DEFAULT_WAIT), overflow })
    }
}

fn member(table: &mut MemberTable<'_>, whose: &str) -> Option<SlotPolicy> {
    let doc = format!("How many attempts are at {whose} at a time, and how many wait for a place.");
    table.get("concurrency", see("concurrency", object(SlotPolicy::members)), &doc)
}

fn describe(policies: &Policies, _: &DescribeContext) -> (&'static str, Value) {
    let view = |policy: SlotPolicy| {
        let max = match policy.max {
            MaxSlots::Fixed(max) => json!(max),
            MaxSlots::Learned => json!("auto"),
        };
        let overflow = policy.overflow.map(millis);
        json!({"max": max, "queue": {"max": policy.queue, "timeout_ms": millis(policy.wait), "overflow_ms": overflow}})
    };
    let Concurrency { of_target, of_provider } = policies.concurrency;
    ("concurrency", json!({"target": of_target.map(view), "provider": of_provider.map(view)}))
}
