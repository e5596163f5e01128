//! What the process remembers of the targets of configs: breaker, latency, attempts under way.
//!
//! A target is known by its config, its index path and a hash over what the config was compiled from: a config
//! compiled anew finds its targets as they were, a changed one starts afresh, and no tenant meets another's.
//! Not here: which target is chosen (`route`), and what an attempt came to (`proxy`).

mod breaker;
mod eviction;
mod ewma;

pub use breaker::{CircuitState, CircuitStatus};

use breaker::{Breaker, Ticket};
use ewma::LatencyEwma;
use parking_lot::Mutex;
use prometheus::{IntCounter, IntCounterVec};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Targets remembered at most.
const MAX_TARGETS: usize = 10_000;

/// Who a target is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetId {
    /// A saved config's id, or `inline-` and eight hex digits.
    pub config: String,
    /// Its path in the config: `config.targets[1]` (reference 4.3).
    pub index: String,
    pub provider: &'static str,
    /// The stored provider it is named by, without the `@`.
    pub slug: Option<String>,
    pub model: Option<String>,
    /// Keeps tenants apart: a hash over what the config was compiled from.
    pub hash: u64,
}

impl TargetId {
    /// Of a config that came with a request, not a saved one: any caller can make as many as it likes.
    pub fn is_inline(&self) -> bool {
        self.config.starts_with("inline-")
    }
}

/// When its breaker opens, and for how long (spec "Circuit breaker").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakerPolicy {
    /// Failures within one cooldown from the first of them.
    pub threshold: u32,
    /// How long it stays open, and how long failures are added up.
    pub cooldown: Duration,
    /// Statuses that are failures; `None`: those above 500.
    pub statuses: Option<Vec<u16>>,
}

impl BreakerPolicy {
    /// Whether an answer of this status is the target's failure. Without a list those above 500: the spec says
    /// so, 500 itself is none (reference section 6 counts it; section 17: the spec wins).
    pub fn is_failure(&self, status: u16) -> bool {
        self.statuses.as_ref().map_or(status > 500, |listed| listed.contains(&status))
    }
}

/// All targets that are remembered.
#[derive(Debug, Default)]
pub struct TargetRegistry {
    entries: Mutex<HashMap<Key, Arc<TargetState>>>,
    /// Counts what breakers turned to, by provider and `to`.
    transitions: Option<IntCounterVec>,
}

/// Config, index, hash.
type Key = (String, String, u64);

/// One target's memory; shared by all requests that may go there.
#[derive(Debug)]
pub struct TargetState {
    id: TargetId,
    policy: Option<BreakerPolicy>,
    in_flight: AtomicU32,
    memory: Mutex<Memory>,
    transitions: Option<TransitionCounters>,
}

/// What its lock protects.
#[derive(Debug, Default)]
struct Memory {
    breaker: Breaker,
    latency: LatencyEwma,
    /// When the last visit began.
    used: Option<Instant>,
}

/// What its breaker turned to, counted.
#[derive(Debug)]
struct TransitionCounters {
    closed: IntCounter,
    half_open: IntCounter,
    open: IntCounter,
}

/// A target as an operator sees it.
#[derive(Debug, Clone)]
pub struct TargetView {
    pub id: TargetId,
    /// `None`: it has no breaker.
    pub circuit: Option<CircuitState>,
    /// Of the window while closed, else those that opened the breaker.
    pub failures: u32,
    /// When the breaker opened; while it is not closed.
    pub since: Option<Instant>,
    /// Until a probe may go; while the breaker is open.
    pub next_probe_in: Option<Duration>,
    pub in_flight: u32,
    /// Average time to the first token, of late.
    pub latency: Option<Duration>,
}

impl TargetRegistry {
    /// Counts what breakers turn to in `turns`, whose labels are provider and `to`.
    pub fn with_counter(transitions: IntCounterVec) -> Self {
        Self { transitions: Some(transitions), ..Self::default() }
    }

    /// The target of this identity, as it is remembered or new. Called once per compiled config, not per
    /// request.
    pub fn find_or_insert(&self, id: &TargetId, policy: Option<&BreakerPolicy>) -> Arc<TargetState> {
        let mut entries = self.entries.lock();
        if let Entry::Occupied(found) = entries.entry(key(id)) {
            return Arc::clone(found.get());
        }
        if entries.len() >= MAX_TARGETS {
            eviction::make_room(&mut entries);
        }
        let transitions = policy
            .and(self.transitions.as_ref())
            .map(|transitions| TransitionCounters::new(transitions, id.provider));
        let target = Arc::new(TargetState {
            id: id.clone(),
            policy: policy.cloned(),
            in_flight: AtomicU32::new(0),
            memory: Mutex::default(),
            transitions,
        });
        entries.insert(key(id), Arc::clone(&target));
        target
    }

    /// The target of this identity, if it is remembered. Changes nothing.
    pub fn get(&self, id: &TargetId) -> Option<Arc<TargetState>> {
        self.entries.lock().get(&key(id)).map(Arc::clone)
    }

    /// All targets, by config and index. Those that no compiled config holds any more and nobody used for an
    /// hour are forgotten here.
    pub fn list(&self, now: Instant) -> Vec<TargetView> {
        let targets: Vec<_> = {
            let mut entries = self.entries.lock();
            entries.retain(|_, target| !eviction::is_stale(target, now));
            entries.values().cloned().collect()
        };
        let mut view: Vec<TargetView> = targets.iter().map(|target| target.view(now)).collect();
        view.sort_by_cached_key(|view| key(&view.id));
        view
    }

    /// Closes the breakers of this config, this index, or of all, and forgets their failures. Tells how many
    /// were open or half-open.
    pub fn reset(&self, config: Option<&str>, index: Option<&str>) -> usize {
        let matches = |target: &&Arc<TargetState>| {
            let TargetId { config: of_config, index: at, .. } = &target.id;
            config.is_none_or(|config| config == of_config) && index.is_none_or(|index| index == at)
        };
        let matching: Vec<_> = self.entries.lock().values().filter(matches).cloned().collect();
        matching.iter().filter(|target| target.reset()).count()
    }
}

impl TargetState {
    pub fn id(&self) -> &TargetId {
        &self.id
    }

    pub fn policy(&self) -> Option<&BreakerPolicy> {
        self.policy.as_ref()
    }

    /// Whether a request should go there. Changes nothing.
    pub fn circuit(&self, now: Instant) -> CircuitStatus {
        self.policy
            .as_ref()
            .map_or(CircuitStatus::Closed, |policy| self.memory.lock().breaker.status(policy, now))
    }

    /// An attempt at it begins: counted until the visit ends, and one of the probes when half-open. It may
    /// begin while the breaker is open, as when every target's is; it is no probe then.
    pub fn enter(self: &Arc<Self>, now: Instant) -> Permit {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        let mut memory = self.memory.lock();
        memory.used = memory.used.max(Some(now));
        let entry = self.policy.as_ref().map(|policy| memory.breaker.enter(policy, now));
        drop(memory);
        let (ticket, transition) = entry.unzip();
        self.record_transition(transition.flatten());
        Permit { target: Arc::clone(self), ticket }
    }

    /// An attempt's first token came `spent` after it was sent.
    pub fn first_token(&self, spent: Duration, now: Instant) {
        self.memory.lock().latency.add(spent, now);
    }

    /// Average time to the first token, in which old values fade (half-life 10 s). `None` when nothing was
    /// measured for a minute.
    pub fn latency(&self, now: Instant) -> Option<Duration> {
        self.memory.lock().latency.mean(now)
    }

    /// Visits under way.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    fn reset(&self) -> bool {
        let reset = self.policy.is_some() && self.memory.lock().breaker.reset();
        self.record_transition(reset.then_some(CircuitState::Closed));
        reset
    }

    fn record_transition(&self, to: Option<CircuitState>) {
        let Some(to) = to else { return };
        let TargetId { config, index, provider, .. } = &self.id;
        log::warn!(target: "turnpike", "circuit of {config} {index} ({provider}): {}", to.as_str());
        let Some(transitions) = &self.transitions else { return };
        match to {
            CircuitState::Closed => transitions.closed.inc(),
            CircuitState::HalfOpen => transitions.half_open.inc(),
            CircuitState::Open => transitions.open.inc(),
        }
    }

    fn view(&self, now: Instant) -> TargetView {
        let memory = self.memory.lock();
        let breaker = &memory.breaker;
        let circuit = self.policy.as_ref().map(|policy| breaker.circuit_state(policy, now));
        let time_left = |policy: &BreakerPolicy| {
            let open = breaker.since().filter(|_| circuit == Some(CircuitState::Open))?;
            Some(policy.cooldown.saturating_sub(now.saturating_duration_since(open)))
        };
        TargetView {
            id: self.id.clone(),
            circuit,
            failures: self.policy.as_ref().map_or(0, |policy| breaker.failures(policy, now)),
            since: breaker.since(),
            next_probe_in: self.policy.as_ref().and_then(time_left),
            in_flight: self.in_flight(),
            latency: memory.latency.mean(now),
        }
    }
}

impl TransitionCounters {
    fn new(transitions: &IntCounterVec, provider: &str) -> Self {
        let counter = |circuit: CircuitState| transitions.with_label_values(&[provider, circuit.as_str()]);
        Self {
            closed: counter(CircuitState::Closed),
            half_open: counter(CircuitState::HalfOpen),
            open: counter(CircuitState::Open),
        }
    }
}

impl CircuitState {
    /// As metrics and the control port say it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::HalfOpen => "half_open",
            Self::Open => "open",
        }
    }
}

/// How a visit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerSignal {
    /// The target did what it is for.
    Success,
    /// The target is to blame: a status that [`Rules::blames`], a time-out, a reset, a broken stream.
    Failure,
    /// Says nothing about the target: our own limits, the caller left, a 4xx.
    Ignored,
}

/// One attempt at a target, from its beginning to its end. Dropped without a word it says nothing about the
/// target.
#[derive(Debug)]
#[must_use = "the visit ends when this is dropped"]
pub struct Permit {
    target: Arc<TargetState>,
    /// There until the end was told; `None` also where there is no breaker.
    ticket: Option<Ticket>,
}

impl Permit {
    pub fn target(&self) -> &Arc<TargetState> {
        &self.target
    }

    /// Says how it ended.
    pub fn finish(mut self, signal: BreakerSignal, now: Instant) {
        let success = match signal {
            BreakerSignal::Success => true,
            BreakerSignal::Failure => false,
            BreakerSignal::Ignored => return,
        };
        let (Some(ticket), Some(policy)) = (self.ticket.take(), &self.target.policy) else { return };
        let transition = self.target.memory.lock().breaker.report(policy, ticket, success, now);
        self.target.record_transition(transition);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.target.in_flight.fetch_sub(1, Ordering::Relaxed);
        if let Some(ticket) = self.ticket.take() {
            self.target.memory.lock().breaker.release(ticket);
        }
    }
}

fn key(id: &TargetId) -> Key {
    (id.config.clone(), id.index.clone(), id.hash)
}

#[cfg(test)]
mod tests;
