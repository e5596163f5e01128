//! What the store of shared counters keeps: it forgets buckets of long ago, and should drop no other. A server that evicts keys makes a
//! spent budget whole again.
//!
//! Looked at when the gateway starts, and every minute after. Nothing is refused for it: the log and `GET /readyz` say it.

use super::Inner;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

/// How often the store is asked, and how soon again where it could not be reached.
const INTERVAL: Duration = Duration::from_secs(60);
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// How often it is to forget buckets of long ago.
const FORGET_INTERVAL: Duration = Duration::from_secs(60);

/// What a store does with counters where memory runs short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::limits) enum Keeping {
    Keeps,
    /// By this policy it may drop them.
    Evicts(String),
    /// It does not say, and why.
    Unknown(String),
}

impl Keeping {
    /// By the `maxmemory-policy` of a server of Redis.
    pub(super) fn of_policy(policy: &str) -> Self {
        if policy == "noeviction" { Self::Keeps } else { Self::Evicts(policy.to_owned()) }
    }

    const fn as_str(&self) -> &'static str {
        match self {
            Self::Keeps => NAMES[1],
            Self::Evicts(_) => NAMES[2],
            Self::Unknown(_) => NAMES[0],
        }
    }
}

const NAMES: [&str; 3] = ["unknown", "kept", "evicted"];

/// What was found out last.
#[derive(Debug)]
pub(super) struct LastKeeping(AtomicU8);

/// Nothing was found out.
const NOT_NOTED: u8 = u8::MAX;

impl Default for LastKeeping {
    fn default() -> Self {
        Self(AtomicU8::new(NOT_NOTED))
    }
}

impl LastKeeping {
    /// `kept`, `evicted`, or `unknown`.
    pub(super) fn as_str(&self) -> &'static str {
        NAMES.get(usize::from(self.0.load(Ordering::Relaxed))).copied().unwrap_or(NAMES[0])
    }

    /// Whether the store has said something.
    #[cfg(test)]
    pub(super) fn is_noted(&self) -> bool {
        self.0.load(Ordering::Relaxed) != NOT_NOTED
    }

    /// Says in the log what is new.
    fn note(&self, keeping: &Keeping) {
        let place = NAMES.iter().position(|name| *name == keeping.as_str()).unwrap_or_default();
        let place = u8::try_from(place).unwrap_or_default();
        let before = self.0.swap(place, Ordering::Relaxed);
        if before == place {
            return;
        }
        match keeping {
            Keeping::Keeps if before == NOT_NOTED => {}
            Keeping::Keeps => {
                log::info!(target: "turnpike", "limits.shared: the server does not evict keys any more");
            }
            Keeping::Evicts(policy) => log::error!(
                target: "turnpike",
                "limits.shared: the server evicts keys when its memory is full (maxmemory-policy {policy}), and a budget that is evicted can \
                 be spent again. Set maxmemory-policy noeviction there, and keep the cache on another server."
            ),
            Keeping::Unknown(why) => log::warn!(
                target: "turnpike",
                "limits.shared: the server does not tell whether it evicts keys, with which a budget could be spent again ({why}). See to \
                 it that its maxmemory-policy is noeviction, or let the user call INFO or CONFIG GET."
            ),
        }
    }
}

/// Finds out now and then, for as long as the gateway runs.
pub(super) async fn watch(inner: Arc<Inner>) {
    loop {
        let found = inner.store.keeping().await;
        if let Ok(keeping) = &found {
            inner.keeping.note(keeping);
        }
        tokio::time::sleep(if found.is_ok() { INTERVAL } else { RETRY_INTERVAL }).await;
    }
}

/// Deletes buckets whose windows are long over from the store. A failure is only logged: such buckets take room, and do no other harm.
pub(super) async fn forget(inner: Arc<Inner>) {
    loop {
        if let Err(why) = inner.store.forget().await
            && !inner.health.is_failing()
        {
            log::warn!(target: "turnpike", "counters of windows long over cannot be dropped: {why}");
        }
        tokio::time::sleep(FORGET_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_policy_keeps_counters() {
        let last = LastKeeping::default();
        assert_eq!(last.as_str(), "unknown");
        for (policy, wanted) in [
            ("noeviction", "kept"),
            ("allkeys-lfu", "evicted"),
            ("volatile-ttl", "evicted"),
            ("noeviction", "kept"),
            ("", "evicted"),
        ] {
            last.note(&Keeping::of_policy(policy));
            assert_eq!(last.as_str(), wanted, "{policy}");
        }
        last.note(&Keeping::Unknown("no permission".to_owned()));
        assert_eq!(last.as_str(), "unknown");
    }
}
