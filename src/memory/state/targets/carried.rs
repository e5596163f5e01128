//! What is learned of targets, as a process hands it to its successor, and what that one makes of it.
//!
//! The successor has no target before a config is compiled: until then what came is kept by the target's identity.

use super::breaker::BreakerMemory;
use super::ewma::LatencyMemory;
use super::{MAX_TARGETS, Memory, TargetRegistry};
use crate::state::handed_over::{age, instant};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// What is learned of one target.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TargetMemory {
    config: String,
    index: String,
    hash: u64,
    /// How long ago the last attempt started, milliseconds.
    used: Option<u64>,
    breaker: BreakerMemory,
    latency: Option<LatencyMemory>,
}

impl TargetRegistry {
    /// What is learned of all targets.
    pub fn memories(&self, now: Instant) -> Vec<TargetMemory> {
        let targets: Vec<_> = self.entries.lock().values().cloned().collect();
        let memory = |memory: &Memory, config: &str, index: &str, hash| TargetMemory {
            config: config.to_owned(),
            index: index.to_owned(),
            hash,
            used: memory.used.map(|used| age(used, now)),
            breaker: memory.breaker.carried(now),
            latency: memory.latency.carried(now),
        };
        let of_targets = targets
            .iter()
            .map(|target| memory(&target.memory.lock(), &target.id.config, &target.id.index, target.id.hash));
        let mut memories: Vec<_> = of_targets.collect();
        // A process that hands over soon after it took over.
        let carried = self.carried.lock();
        memories
            .extend(carried.iter().map(|((config, index, hash), kept)| memory(kept, config, index, *hash)));
        memories
    }

    /// Keeps what another process has learned, for when these targets exist.
    pub fn remember(&self, memories: Vec<TargetMemory>, now: Instant) {
        let kept = memories.into_iter().take(MAX_TARGETS).map(|carried| {
            let memory = Memory {
                breaker: carried.breaker.restored(now),
                latency: carried.latency.map(|latency| latency.restored(now)).unwrap_or_default(),
                used: carried.used.map(|used| instant(used, now)),
            };
            ((carried.config, carried.index, carried.hash), memory)
        });
        *self.carried.lock() = kept.collect();
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BreakerSignal, CircuitStatus, TargetId};
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;
    use words::config::policies::BreakerPolicy;

    fn id(index: &str) -> TargetId {
        TargetId {
            config: "c".to_owned(),
            index: index.to_owned(),
            provider: "openai",
            slug: None,
            model: None,
            hash: 7,
        }
    }

    #[test]
    fn breakers_and_latencies_go_on_in_another_process() {
        let start = Instant::now() + Duration::from_secs(3_600);
        let policy = BreakerPolicy { threshold: 2, cooldown: Duration::from_secs(60), statuses: None };
        let old = TargetRegistry::default();
        let broken = old.find_or_insert(&id("broken"), Some(&policy));
        let slow = old.find_or_insert(&id("slow"), Some(&policy));
        for _ in 0..2 {
            broken.enter(start).finish(BreakerSignal::Failure, start);
        }
        slow.enter(start).finish(BreakerSignal::Failure, start);
        slow.first_token(Duration::from_millis(400), start);

        // Twice: the first successor knows no config yet when it hands over itself.
        let after = |seconds| start + Duration::from_secs(seconds);
        let through = TargetRegistry::default();
        through.remember(old.memories(after(10)), after(10));
        let text = serde_json::to_string(&through.memories(after(20))).unwrap();
        let new = TargetRegistry::default();
        new.remember(serde_json::from_str(&text).unwrap(), after(20));

        let broken = new.find_or_insert(&id("broken"), Some(&policy));
        assert!(matches!(broken.circuit(after(59)), CircuitStatus::Open { .. }));
        assert_eq!(broken.circuit(after(60)), CircuitStatus::HalfOpen);
        let slow = new.find_or_insert(&id("slow"), Some(&policy));
        assert_eq!(slow.latency(after(20)), Some(Duration::from_millis(400)));
        slow.enter(after(30)).finish(BreakerSignal::Failure, after(30));
        assert!(matches!(slow.circuit(after(30)), CircuitStatus::Open { .. }), "the second failure of two");
        let other = new.find_or_insert(&id("other"), Some(&policy));
        assert_eq!(other.circuit(after(30)), CircuitStatus::Closed);
        drop(Arc::clone(&other));
        assert!(new.carried.lock().is_empty());
    }
}
