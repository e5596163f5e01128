//! What the process remembers of the targets of configs: breaker, latency, attempts under way.
//!
//! A target is known by its config, its index path and a hash over what the config was compiled from: a config
//! compiled anew finds its targets as they were, a changed one starts afresh, and no tenant meets another's.
//! Not here: which target is chosen (`route`), and what an attempt came to (`proxy`).

mod breaker;
mod eviction;
mod latency;

pub use breaker::{Phase, Standing};

use breaker::{Breaker, Pass};
use latency::Latency;
use parking_lot::Mutex;
use prometheus::{IntCounter, IntCounterVec};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Targets remembered at most.
const MOST: usize = 10_000;

/// Who a target is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
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

impl Identity {
    /// Of a config that came with a request, not a saved one: any caller can make as many as it likes.
    pub fn is_inline(&self) -> bool {
        self.config.starts_with("inline-")
    }
}

/// When its breaker opens, and for how long (spec "Circuit breaker").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Failures within one cooldown from the first of them.
    pub threshold: u32,
    /// How long it stays open, and how long failures are added up.
    pub cooldown: Duration,
    /// Statuses that are failures; `None`: those above 500.
    pub statuses: Option<Vec<u16>>,
}

impl Rules {
    /// Whether an answer of this status is the target's failure. Without a list those above 500: the spec says
    /// so, 500 itself is none (reference section 6 counts it; section 17: the spec wins).
    pub fn blames(&self, status: u16) -> bool {
        self.statuses.as_ref().map_or(status > 500, |listed| listed.contains(&status))
    }
}

/// All targets that are remembered.
#[derive(Debug, Default)]
pub struct Targets {
    known: Mutex<HashMap<Key, Arc<Target>>>,
    /// Counts what breakers turned to, by provider and `to`.
    turns: Option<IntCounterVec>,
}

/// Config, index, hash.
type Key = (String, String, u64);

/// One target's memory; shared by all requests that may go there.
#[derive(Debug)]
pub struct Target {
    identity: Identity,
    rules: Option<Rules>,
    in_flight: AtomicU32,
    memory: Mutex<Memory>,
    turns: Option<Turns>,
}

/// What its lock protects.
#[derive(Debug, Default)]
struct Memory {
    breaker: Breaker,
    latency: Latency,
    /// When the last visit began.
    used: Option<Instant>,
}

/// What its breaker turned to, counted.
#[derive(Debug)]
struct Turns {
    closed: IntCounter,
    half_open: IntCounter,
    open: IntCounter,
}

/// A target as an operator sees it.
#[derive(Debug, Clone)]
pub struct Shown {
    pub identity: Identity,
    /// `None`: it has no breaker.
    pub phase: Option<Phase>,
    /// Of the window while closed, else those that opened the breaker.
    pub failures: u32,
    /// When the breaker opened; while it is not closed.
    pub since: Option<Instant>,
    /// Until a probe may go; while the breaker is open.
    pub next_try: Option<Duration>,
    pub in_flight: u32,
    /// Average time to the first token, of late.
    pub latency: Option<Duration>,
}

impl Targets {
    /// Counts what breakers turn to in `turns`, whose labels are provider and `to`.
    pub fn counted(turns: IntCounterVec) -> Self {
        Self { turns: Some(turns), ..Self::default() }
    }

    /// The target of this identity, as it is remembered or new. Called once per compiled config, not per
    /// request.
    pub fn find(&self, identity: &Identity, rules: Option<&Rules>) -> Arc<Target> {
        let mut known = self.known.lock();
        if let Entry::Occupied(found) = known.entry(key(identity)) {
            return Arc::clone(found.get());
        }
        if known.len() >= MOST {
            eviction::make_room(&mut known);
        }
        let turns = rules.and(self.turns.as_ref()).map(|turns| Turns::of(turns, identity.provider));
        let target = Arc::new(Target {
            identity: identity.clone(),
            rules: rules.cloned(),
            in_flight: AtomicU32::new(0),
            memory: Mutex::default(),
            turns,
        });
        known.insert(key(identity), Arc::clone(&target));
        target
    }

    /// The target of this identity, if it is remembered. Changes nothing.
    pub fn look(&self, identity: &Identity) -> Option<Arc<Target>> {
        self.known.lock().get(&key(identity)).map(Arc::clone)
    }

    /// All targets, by config and index. Those that no compiled config holds any more and nobody used for an
    /// hour are forgotten here.
    pub fn list(&self, now: Instant) -> Vec<Shown> {
        let targets: Vec<_> = {
            let mut known = self.known.lock();
            known.retain(|_, target| !eviction::is_stale(target, now));
            known.values().cloned().collect()
        };
        let mut shown: Vec<Shown> = targets.iter().map(|target| target.shown(now)).collect();
        shown.sort_by_cached_key(|shown| key(&shown.identity));
        shown
    }

    /// Closes the breakers of this config, this index, or of all, and forgets their failures. Tells how many
    /// were open or half-open.
    pub fn reset(&self, config: Option<&str>, index: Option<&str>) -> usize {
        let matches = |target: &&Arc<Target>| {
            let Identity { config: of, index: at, .. } = &target.identity;
            config.is_none_or(|config| config == of) && index.is_none_or(|index| index == at)
        };
        let matching: Vec<_> = self.known.lock().values().filter(matches).cloned().collect();
        matching.iter().filter(|target| target.reset()).count()
    }
}

impl Target {
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    pub fn rules(&self) -> Option<&Rules> {
        self.rules.as_ref()
    }

    /// Whether a request should go there. Changes nothing.
    pub fn standing(&self, now: Instant) -> Standing {
        self.rules.as_ref().map_or(Standing::Closed, |rules| self.memory.lock().breaker.standing(rules, now))
    }

    /// An attempt at it begins: counted until the visit ends, and one of the probes when half-open. It may
    /// begin while the breaker is open, as when every target's is; it is no probe then.
    pub fn enter(self: &Arc<Self>, now: Instant) -> Visit {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        let mut memory = self.memory.lock();
        memory.used = memory.used.max(Some(now));
        let entered = self.rules.as_ref().map(|rules| memory.breaker.enter(rules, now));
        drop(memory);
        let (pass, turned) = entered.unzip();
        self.turned(turned.flatten());
        Visit { target: Arc::clone(self), pass }
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
        let reset = self.rules.is_some() && self.memory.lock().breaker.reset();
        self.turned(reset.then_some(Phase::Closed));
        reset
    }

    fn turned(&self, to: Option<Phase>) {
        let Some(to) = to else { return };
        let Identity { config, index, provider, .. } = &self.identity;
        log::warn!(target: "turnpike", "circuit of {config} {index} ({provider}): {}", to.word());
        let Some(turns) = &self.turns else { return };
        match to {
            Phase::Closed => turns.closed.inc(),
            Phase::HalfOpen => turns.half_open.inc(),
            Phase::Open => turns.open.inc(),
        }
    }

    fn shown(&self, now: Instant) -> Shown {
        let memory = self.memory.lock();
        let breaker = &memory.breaker;
        let phase = self.rules.as_ref().map(|rules| breaker.phase(rules, now));
        let waits = |rules: &Rules| {
            let open = breaker.since().filter(|_| phase == Some(Phase::Open))?;
            Some(rules.cooldown.saturating_sub(now.saturating_duration_since(open)))
        };
        Shown {
            identity: self.identity.clone(),
            phase,
            failures: self.rules.as_ref().map_or(0, |rules| breaker.failures(rules, now)),
            since: breaker.since(),
            next_try: self.rules.as_ref().and_then(waits),
            in_flight: self.in_flight(),
            latency: memory.latency.mean(now),
        }
    }
}

impl Turns {
    fn of(turns: &IntCounterVec, provider: &str) -> Self {
        let to = |phase: Phase| turns.with_label_values(&[provider, phase.word()]);
        Self { closed: to(Phase::Closed), half_open: to(Phase::HalfOpen), open: to(Phase::Open) }
    }
}

impl Phase {
    /// As metrics and the control port say it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::HalfOpen => "half_open",
            Self::Open => "open",
        }
    }
}

/// How a visit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The target did what it is for.
    Well,
    /// The target is to blame: a status that [`Rules::blames`], a time-out, a reset, a broken stream.
    Badly,
    /// Says nothing about the target: our own limits, the caller left, a 4xx.
    Neither,
}

/// One attempt at a target, from its beginning to its end. Dropped without a word it says nothing about the
/// target.
#[derive(Debug)]
#[must_use = "the visit ends when this is dropped"]
pub struct Visit {
    target: Arc<Target>,
    /// There until the end was told; `None` also where there is no breaker.
    pass: Option<Pass>,
}

impl Visit {
    pub fn target(&self) -> &Arc<Target> {
        &self.target
    }

    /// Says how it ended.
    pub fn ended(mut self, how: Ended, now: Instant) {
        let well = match how {
            Ended::Well => true,
            Ended::Badly => false,
            Ended::Neither => return,
        };
        let (Some(pass), Some(rules)) = (self.pass.take(), &self.target.rules) else { return };
        let turned = self.target.memory.lock().breaker.leave(rules, pass, well, now);
        self.target.turned(turned);
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.target.in_flight.fetch_sub(1, Ordering::Relaxed);
        if let Some(pass) = self.pass.take() {
            self.target.memory.lock().breaker.give_back(pass);
        }
    }
}

fn key(identity: &Identity) -> Key {
    (identity.config.clone(), identity.index.clone(), identity.hash)
}

#[cfg(test)]
mod tests;
