//! Which targets are removed when the registry is full.
//!
//! A compiled config that holds a removed target continues to use it. It is only no longer listed, and compiling the
//! same config again does not find it.

use super::{Key, TargetState};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One in this many targets is evicted at once, so that the cost of ranking is shared by as many insertions.
const EVICTED_SHARE: usize = 16;
/// A target is stale after this long without use, if no compiled config holds it.
const STALE_AFTER: Duration = Duration::from_secs(3600);

/// How valuable a target's state is; the lowest rank is evicted first.
type Rank = (bool, bool, bool, Option<Instant>);

pub(super) fn make_room(entries: &mut HashMap<Key, Arc<TargetState>>) {
    let mut ranked: Vec<(Rank, Key)> =
        entries.iter().map(|(key, target)| (rank(target), key.clone())).collect();
    let evicted = (ranked.len() / EVICTED_SHARE).max(1).min(ranked.len());
    if evicted < ranked.len() {
        ranked.select_nth_unstable(evicted);
    }
    for (_, key) in ranked.iter().take(evicted) {
        entries.remove(key);
    }
}

/// Evicts idle targets without an open breaker first; among those, targets of inline configs before those of saved
/// ones (so that no client can evict an operator's by inventing configs), then targets that no compiled config holds,
/// then the least recently used.
fn rank(target: &Arc<TargetState>) -> Rank {
    let memory = target.memory.lock();
    let busy = target.in_flight() > 0 || memory.breaker.since().is_some();
    (busy, !target.id.is_inline(), is_held(target), memory.used)
}

/// Whether no compiled config holds it and it was not used for an hour.
pub(super) fn is_stale(target: &Arc<TargetState>, now: Instant) -> bool {
    let used = || target.memory.lock().used;
    !is_held(target) && used().is_none_or(|used| now.saturating_duration_since(used) > STALE_AFTER)
}

/// Whether a compiled config or a permit holds it, in addition to the registry.
fn is_held(target: &Arc<TargetState>) -> bool {
    Arc::strong_count(target) > 1
}
