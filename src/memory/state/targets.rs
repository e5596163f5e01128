//! The state of the targets of configs: circuit breaker, latency, attempts in flight.
//!
//! A target is identified by its config, its index path and a hash over the source of the config: compiling a config
//! again finds the same targets, a changed config gets new ones, and tenants never share one.
//! Not here: which target is chosen (`route`), and the outcome of an attempt (`engine`).
//!
//! Example of an attempt: `let permit = target.enter(now)`, later `permit.finish(BreakerSignal::Failure, now)`. If the
//! permit is dropped instead, the attempt counts as `Ignored`.

mod breaker;
mod carried;
mod eviction;
mod ewma;

pub use breaker::{CircuitState, CircuitStatus};
pub use carried::TargetMemory;

use breaker::{Breaker, Ticket};
use ewma::LatencyEwma;
use parking_lot::Mutex;
use prometheus::{IntCounter, IntCounterVec};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use words::config::policies::BreakerPolicy;

/// Maximum number of targets in the registry.
const MAX_TARGETS: usize = 10_000;

/// What a failure adds to a target's measured latency.
const FAILURE_LATENCY_PENALTY: Duration = Duration::from_secs(10);

/// The identity of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetId {
    /// A saved config's id, or `inline-` and eight hex digits.
    pub config: String,
    /// Its path in the config: `config.targets[1]`.
    pub index: String,
    pub provider: &'static str,
    /// The slug of the stored provider, without the `@`.
    pub slug: Option<String>,
    pub model: Option<String>,
    /// A hash over the source of the config; separates tenants.
    pub hash: u64,
}

impl TargetId {
    /// Whether the config came with a request and is not a saved one. Clients can create any number of these.
    pub fn is_inline(&self) -> bool {
        self.config.starts_with("inline-")
    }
}

/// All targets of the process.
#[derive(Debug, Default)]
pub struct TargetRegistry {
    entries: Mutex<HashMap<Key, Arc<TargetState>>>,
    /// What another process has learned of targets that no config has here yet.
    carried: Mutex<HashMap<Key, Memory>>,
    /// Counts breaker transitions, by provider and `to`.
    transitions: Option<IntCounterVec>,
}

/// Config, index, hash.
type Key = (String, String, u64);

/// The state of one target; shared by all requests that may go there.
#[derive(Debug)]
pub struct TargetState {
    id: TargetId,
    policy: Option<BreakerPolicy>,
    in_flight: AtomicU32,
    memory: Mutex<Memory>,
    transitions: Option<TransitionCounters>,
}

/// The part of the state that is behind the lock.
#[derive(Debug, Default)]
struct Memory {
    breaker: Breaker,
    latency: LatencyEwma,
    /// When the last attempt started.
    used: Option<Instant>,
}

/// The transition counters of one target's provider.
#[derive(Debug)]
struct TransitionCounters {
    closed: IntCounter,
    half_open: IntCounter,
    open: IntCounter,
}

/// A target's state as operators see it.
#[derive(Debug, Clone)]
pub struct TargetView {
    pub id: TargetId,
    /// `None` when it has no breaker.
    pub circuit: Option<CircuitState>,
    /// Failures in the window while the breaker is closed, otherwise the failures that opened it.
    pub failures: u32,
    /// When the breaker opened; `None` while it is closed.
    pub since: Option<Instant>,
    /// The time until a probe is allowed, while the breaker is open.
    pub next_probe_in: Option<Duration>,
    pub in_flight: u32,
    /// Recent average time to the first token.
    pub latency: Option<Duration>,
}

impl TargetRegistry {
    /// Counts breaker transitions in `transitions`, whose labels are provider and `to`.
    pub(crate) fn with_counter(transitions: IntCounterVec) -> Self {
        Self { transitions: Some(transitions), ..Self::default() }
    }

    /// The target with this identity, created if it does not exist. Called once per target of a compiled config, not
    /// per request.
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
            memory: Mutex::new(self.carried.lock().remove(&key(id)).unwrap_or_default()),
            transitions,
        });
        entries.insert(key(id), Arc::clone(&target));
        target
    }

    /// The target with this identity, if it exists. Changes nothing.
    pub fn get(&self, id: &TargetId) -> Option<Arc<TargetState>> {
        self.entries.lock().get(&key(id)).map(Arc::clone)
    }

    /// All targets, sorted by config and index. First removes those that no compiled config holds and that were not
    /// used for an hour.
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

    /// Closes the breakers of all targets that match `config` and `index` (`None` matches any) and clears their
    /// failures. Returns how many were open or half-open.
    pub fn reset(&self, config: Option<&str>, index: Option<&str>) -> usize {
        let is_meant = |of_config: &str, at: &str| {
            config.is_none_or(|config| config == of_config) && index.is_none_or(|index| index == at)
        };
        let matches = |target: &&Arc<TargetState>| is_meant(&target.id.config, &target.id.index);
        let matching: Vec<_> = self.entries.lock().values().filter(matches).cloned().collect();
        let of_targets = matching.iter().filter(|target| target.reset()).count();
        // Those that another process has handed over, and that no config has here yet.
        let mut carried = self.carried.lock();
        let kept = carried.iter_mut().filter(|((of_config, at, _), _)| is_meant(of_config, at));
        of_targets + kept.filter_map(|(_, memory)| memory.breaker.reset().then_some(())).count()
    }
}

impl TargetState {
    pub fn id(&self) -> &TargetId {
        &self.id
    }

    pub fn policy(&self) -> Option<&BreakerPolicy> {
        self.policy.as_ref()
    }

    /// Whether a request should go to this target. Changes nothing.
    pub fn circuit(&self, now: Instant) -> CircuitStatus {
        self.policy
            .as_ref()
            .map_or(CircuitStatus::Closed, |policy| self.memory.lock().breaker.status(policy, now))
    }

    /// Starts an attempt. It counts as in flight until its permit ends, and as a probe when the breaker is half-open.
    /// An attempt may start while the breaker is open, as when all breakers are open; then it is not a probe.
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

    /// Records that an attempt's first token arrived `spent` after the request was sent.
    pub fn first_token(&self, spent: Duration, now: Instant) {
        self.memory.lock().latency.add(spent, now);
    }

    /// Records that an attempt failed after `spent`. It counts as a slow one, or a target that only fails would seem
    /// faster than one that responds.
    pub fn attempt_failed(&self, spent: Duration, now: Instant) {
        self.memory.lock().latency.add(spent + FAILURE_LATENCY_PENALTY, now);
    }

    /// The average time to the first token, in which old values decay (half-life 10 s). `None` when nothing was
    /// measured for a minute.
    pub fn latency(&self, now: Instant) -> Option<Duration> {
        self.memory.lock().latency.mean(now)
    }

    /// The number of attempts in flight.
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
        log::warn!(target: "turnpike", "circuit breaker of {config} {index} ({provider}) is now {}", to.as_str());
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
    /// The name in metrics and on the control port.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::HalfOpen => "half_open",
            Self::Open => "open",
        }
    }
}

/// What the outcome of an attempt means for the breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerSignal {
    /// The target worked.
    Success,
    /// The target failed: a status for which [`BreakerPolicy::is_failure`] holds, a timeout, a reset, a broken stream.
    Failure,
    /// Unrelated to the target: our own limits, a client that left, a 4xx.
    Ignored,
}

/// The right to one attempt at a target, held until it ends. Dropping it without [`Permit::finish`] counts as
/// [`BreakerSignal::Ignored`].
#[derive(Debug)]
#[must_use = "the attempt ends when this is dropped"]
pub struct Permit {
    target: Arc<TargetState>,
    /// `None` once the attempt is reported, and for a target without a breaker.
    ticket: Option<Ticket>,
}

impl Permit {
    pub fn target(&self) -> &Arc<TargetState> {
        &self.target
    }

    /// Ends the attempt and reports it to the breaker.
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
