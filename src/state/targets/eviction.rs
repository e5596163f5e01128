//! Who is forgotten when there is no room for another target.
//!
//! A compiled config that still holds a forgotten target goes on using it; it is only no longer listed, and
//! not found by the same config compiled anew.

use super::{Key, TargetState};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The part that goes at once, so that the search for it is paid for by as many newcomers: one in so many.
const EVICTED_SHARE: usize = 16;
/// Unheld and unused for so long: stale.
const STALE_AFTER: Duration = Duration::from_secs(3600);

/// How much is lost with a target; the least goes first.
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

/// Idle ones without an open breaker go first; among those, what callers wrote before what operators saved
/// (no caller can push an operator's out by inventing configs), then what no compiled config holds, then what
/// was not used for the longest time.
fn rank(target: &Arc<TargetState>) -> Rank {
    let memory = target.memory.lock();
    let busy = target.in_flight() > 0 || memory.breaker.since().is_some();
    (busy, !target.id.is_inline(), is_held(target), memory.used)
}

/// Nobody holds it and nobody used it for an hour.
pub(super) fn is_stale(target: &Arc<TargetState>, now: Instant) -> bool {
    let used = || target.memory.lock().used;
    !is_held(target) && used().is_none_or(|used| now.saturating_duration_since(used) > STALE_AFTER)
}

/// By a compiled config or a visit, beside the map itself.
fn is_held(target: &Arc<TargetState>) -> bool {
    Arc::strong_count(target) > 1
}
