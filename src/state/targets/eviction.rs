//! Who is forgotten when there is no room for another target.
//!
//! A compiled config that still holds a forgotten target goes on using it; it is only no longer listed, and
//! not found by the same config compiled anew.

use super::{Key, Target};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The part that goes at once, so that the search for it is paid for by as many newcomers: one in so many.
const PART: usize = 16;
/// Unheld and unused for so long: stale.
const STALE: Duration = Duration::from_secs(3600);

/// How much is lost with a target; the least goes first.
type Worth = (bool, bool, bool, Option<Instant>);

pub(super) fn make_room(known: &mut HashMap<Key, Arc<Target>>) {
    let mut ranked: Vec<(Worth, Key)> =
        known.iter().map(|(key, target)| (worth(target), key.clone())).collect();
    let leaving = (ranked.len() / PART).max(1).min(ranked.len());
    if leaving < ranked.len() {
        ranked.select_nth_unstable(leaving);
    }
    for (_, key) in ranked.iter().take(leaving) {
        known.remove(key);
    }
}

/// Idle ones without an open breaker go first; among those, what callers wrote before what operators saved
/// (no caller can push an operator's out by inventing configs), then what no compiled config holds, then what
/// was not used for the longest time.
fn worth(target: &Arc<Target>) -> Worth {
    let memory = target.memory.lock();
    let busy = target.in_flight() > 0 || memory.breaker.since().is_some();
    (busy, !target.identity.is_inline(), is_held(target), memory.used)
}

/// Nobody holds it and nobody used it for an hour.
pub(super) fn is_stale(target: &Arc<Target>, now: Instant) -> bool {
    let used = || target.memory.lock().used;
    !is_held(target) && used().is_none_or(|used| now.saturating_duration_since(used) > STALE)
}

/// By a compiled config or a visit, beside the map itself.
fn is_held(target: &Arc<Target>) -> bool {
    Arc::strong_count(target) > 1
}
