//! Remembers the target chosen for a client, so that its later requests go there, too.
//!
//! The key is a hash that `route` computes from what identifies the client. If the stored index no longer exists,
//! `route` chooses again and stores that.

use super::handed_over::age;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Maximum number of choices, about 100 bytes each. When full, the least recently used one is evicted.
const MAX_CHOICES: u64 = 100_000;
/// How often choices that no longer hold are looked for: it reads all of them.
const EXPIRY_CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// The choices of all sticky configs.
#[derive(Debug)]
pub struct StickySessions {
    choices: Cache<[u8; 32], Choice>,
    /// When choices that no longer hold were last looked for.
    last_expiry_check: Mutex<Option<Instant>>,
}

#[derive(Debug, Clone, Copy)]
struct Choice {
    index: u32,
    until: Instant,
}

/// A choice as another process gets it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StickyChoice {
    pub key: [u8; 32],
    pub index: u32,
    /// How much longer it holds, milliseconds.
    pub holds_for: u64,
}

impl Default for StickySessions {
    fn default() -> Self {
        Self::with_capacity(MAX_CHOICES)
    }
}

impl StickySessions {
    fn with_capacity(max_choices: u64) -> Self {
        // LRU, not the default of evicting by frequency, which would reject a new client's choice while old ones
        // are in use.
        let builder = Cache::builder().max_capacity(max_choices).eviction_policy(EvictionPolicy::lru());
        Self { choices: builder.build(), last_expiry_check: Mutex::default() }
    }

    /// Drops the choices that no longer hold, once a minute.
    pub fn drop_expired(&self, now: Instant) {
        let last = *self.last_expiry_check.lock();
        if last.is_some_and(|last| now.saturating_duration_since(last) < EXPIRY_CHECK_INTERVAL) {
            return;
        }
        *self.last_expiry_check.lock() = Some(now);
        for (key, choice) in &self.choices {
            if choice.until <= now {
                self.choices.invalidate(&*key);
            }
        }
        self.choices.run_pending_tasks();
    }

    /// The target index chosen for this key, until it expires.
    pub fn get(&self, key: &[u8; 32], now: Instant) -> Option<u32> {
        self.choices.get(key).filter(|choice| now < choice.until).map(|choice| choice.index)
    }

    /// The choices that hold at `now`.
    pub fn choices(&self, now: Instant) -> Vec<StickyChoice> {
        let held = self.choices.iter().filter(|(_, choice)| now < choice.until);
        held.map(|(key, choice)| StickyChoice {
            key: *key,
            index: choice.index,
            holds_for: age(now, choice.until),
        })
        .collect()
    }

    /// Takes the choices of another process.
    pub fn remember(&self, choices: &[StickyChoice], now: Instant) {
        for choice in choices {
            self.insert(&choice.key, choice.index, Duration::from_millis(choice.holds_for), now);
        }
    }

    /// Stores a choice for `ttl` and replaces an earlier one.
    pub fn insert(&self, key: &[u8; 32], index: u32, ttl: Duration, now: Instant) {
        let until = now.checked_add(ttl).unwrap_or(now);
        self.choices.insert(*key, Choice { index, until });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_holds_for_its_ttl_and_the_last_one_counts() {
        let sticky = StickySessions::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let a = [1; 32];
        let b = [2; 32];
        assert_eq!(sticky.get(&a, at(0)), None);
        sticky.insert(&a, 1, Duration::from_secs(300), at(0));
        sticky.insert(&b, 2, Duration::from_secs(10), at(0));
        assert_eq!((sticky.get(&a, at(299)), sticky.get(&b, at(9))), (Some(1), Some(2)));
        assert_eq!((sticky.get(&a, at(300)), sticky.get(&b, at(10))), (None, None));
        sticky.insert(&a, 3, Duration::from_secs(5), at(300));
        assert_eq!((sticky.get(&a, at(304)), sticky.get(&a, at(305))), (Some(3), None));
    }

    #[test]
    fn choices_that_no_longer_hold_are_dropped_while_no_request_comes() {
        let sticky = StickySessions::default();
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        for number in 0..100 {
            sticky.insert(&[number; 32], 1, Duration::from_secs(300), start);
        }
        // A later choice replaces the time of the one before.
        sticky.insert(&[0; 32], 2, Duration::from_secs(600), start);
        for (now, left) in
            [(after(0), 100), (after(299), 100), (after(300), 100), (after(359), 1), (after(600), 0)]
        {
            sticky.drop_expired(now);
            assert_eq!(sticky.choices.entry_count(), left, "after {:?}", now - start);
        }
    }

    #[test]
    fn it_is_bounded_and_new_choices_are_always_kept() {
        let sticky = StickySessions::with_capacity(100);
        let now = Instant::now();
        let key = |number: u32| {
            let mut key = [0; 32];
            key[..4].copy_from_slice(&number.to_le_bytes());
            key
        };
        for number in 0..10_000 {
            sticky.insert(&key(number), number, Duration::from_secs(60), now);
        }
        sticky.choices.run_pending_tasks();
        assert!(sticky.choices.entry_count() <= 100);
        assert_eq!(sticky.get(&key(9_999), now), Some(9_999));
        assert_eq!(sticky.get(&key(0), now), None);
    }
}
