//! Which beginnings of prompts were sent to which target, and when: to tell why a provider's cache has read nothing.
//!
//! A beginning is a chain of hashes, as in `prefix_tables`. Of fixed size, 512 KiB for 32,768 pairs of hash and target, and made at the
//! first request that needs it. In each set of eight pairs the one that was used longest ago makes room. Turns of conversations are kept in
//! the same way. Not here: the hashes
//! (`route`), and what follows from what was seen (`engine`).

use parking_lot::Mutex;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Pairs that share a set: in two lines of the processor's cache.
const WAYS: usize = 8;
const SETS: usize = 4096;

/// In the place of a target: the last turn of a conversation, and its last one after a pause.
const TURN: u32 = 1;
const PAUSED: u32 = 2;
/// The two times that providers keep prompts for.
const SHORT: Duration = Duration::from_secs(300);
const LONG: Duration = Duration::from_secs(3600);

/// A unit of the times, milliseconds.
const TICK_MS: u32 = 100;

/// The beginnings that were sent, of the whole process.
#[derive(Debug, Default)]
pub struct SentPrompts(OnceLock<Table>);

#[derive(Debug)]
struct Table {
    started: Instant,
    sets: Mutex<Box<[[Pair; WAYS]]>>,
}

/// A hash and a target that got what it stands for.
#[derive(Debug, Clone, Copy, Default)]
struct Pair {
    hash: u64,
    target: u32,
    /// When it was last sent, ticks since the table was made and one more; 0: there is no pair.
    used: u32,
}

/// What is known of a beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SentBefore {
    /// How many of its blocks the target got.
    pub blocks: usize,
    /// How long ago it got the last of these.
    pub age: Duration,
    /// How many of its blocks another target got.
    pub blocks_elsewhere: usize,
}

impl SentPrompts {
    /// What is known of a chain, for a target. What nobody got ends the search.
    pub fn find(&self, chain: &[u64], target: u32, now: Instant) -> SentBefore {
        let mut sent = SentBefore::default();
        let Some(table) = self.0.get() else { return sent };
        let now = table.ticks(now);
        let sets = table.sets.lock();
        for (hash, count) in chain.iter().zip(1..) {
            let pairs = sets.get(set_of(*hash)).into_iter().flatten();
            for pair in pairs.filter(|pair| pair.hash == *hash && pair.used != 0) {
                if pair.target == target {
                    let ticks = now.saturating_sub(pair.used);
                    (sent.blocks, sent.age) =
                        (count, Duration::from_millis(u64::from(TICK_MS) * u64::from(ticks)));
                } else {
                    sent.blocks_elsewhere = count;
                }
            }
            if sent.blocks.max(sent.blocks_elsewhere) < count {
                break;
            }
        }
        sent
    }

    /// Notes a turn of a conversation. Returns whether the conversation pauses: two of its turns were more than five minutes apart, and
    /// none since more than an hour. What is kept for five minutes is gone then, and what is kept for an hour is not.
    pub fn note_turn(&self, conversation: u64, now: Instant) -> bool {
        let chain = [conversation];
        let last = self.find(&chain, TURN, now);
        let paused = self.find(&chain, PAUSED, now);
        let is_pause = last.blocks > 0 && last.age > SHORT && last.age <= LONG;
        let pauses = is_pause || (paused.blocks > 0 && paused.age <= LONG);
        self.insert(&chain, TURN, now);
        if pauses {
            self.insert(&chain, PAUSED, now);
        }
        pauses
    }

    /// Remembers that a target got a chain.
    pub fn insert(&self, chain: &[u64], target: u32, now: Instant) {
        let table = self.0.get_or_init(|| Table::new(now));
        let now = table.ticks(now);
        let mut sets = table.sets.lock();
        for hash in chain {
            let Some(pairs) = sets.get_mut(set_of(*hash)) else { continue };
            let is_same = |pair: &Pair| pair.used != 0 && pair.hash == *hash && pair.target == target;
            let oldest = |pair: &&mut Pair| if is_same(pair) { (0, 0) } else { (1, pair.used) };
            if let Some(pair) = pairs.iter_mut().min_by_key(oldest) {
                *pair = Pair { hash: *hash, target, used: now };
            }
        }
    }
}

impl Table {
    fn new(now: Instant) -> Self {
        let sets = vec![[Pair::default(); WAYS]; SETS];
        Self { started: now, sets: Mutex::new(sets.into_boxed_slice()) }
    }

    fn ticks(&self, now: Instant) -> u32 {
        let ticks = now.saturating_duration_since(self.started).as_millis() / u128::from(TICK_MS) + 1;
        u32::try_from(ticks).unwrap_or(u32::MAX)
    }
}

fn set_of(hash: u64) -> usize {
    usize::try_from(hash % SETS as u64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_found_with_the_time_and_others_without() {
        let sent = SentPrompts::default();
        let start = Instant::now();
        assert_eq!(sent.find(&[1, 2], 7, start), SentBefore::default());
        sent.insert(&[1, 2, 3], 7, start);
        let later = start + Duration::from_secs(60);
        sent.insert(&[1, 2], 8, later);
        let end = later + Duration::from_secs(5);
        let before = |blocks, seconds, blocks_elsewhere| SentBefore {
            blocks,
            age: Duration::from_secs(seconds),
            blocks_elsewhere,
        };
        assert_eq!(sent.find(&[1, 2, 3, 4], 7, end), before(3, 65, 2));
        assert_eq!(sent.find(&[1, 2, 3, 4], 8, end), before(2, 5, 3));
        assert_eq!(sent.find(&[1, 2, 3, 4], 9, end), before(0, 0, 3));
        assert_eq!(sent.find(&[9, 2, 3], 7, end), SentBefore::default());
        sent.insert(&[1], 7, end);
        assert_eq!(sent.find(&[1], 7, end).age, Duration::ZERO);
    }

    #[test]
    fn a_conversation_pauses_after_five_minutes_and_until_an_hour() {
        let start = Instant::now();
        for (turns, wanted) in [
            (vec![0, 60, 120, 420], vec![false; 4]),
            (vec![0, 299, 600], vec![false, false, true]),
            // Once it has paused, it may do so again.
            (vec![0, 400, 410, 3000, 6500], vec![false, true, true, true, true]),
            // After more than an hour both kinds are gone: the dearer one has brought nothing.
            (vec![0, 400, 4100, 4200], vec![false, true, false, false]),
            (vec![0, 3600, 7300, 7400], vec![false, true, false, false]),
            (vec![0, 3700], vec![false, false]),
        ] {
            let sent = SentPrompts::default();
            let found: Vec<bool> =
                turns.iter().map(|at| sent.note_turn(7, start + Duration::from_secs(*at))).collect();
            assert_eq!(found, wanted, "{turns:?}");
            assert!(!sent.note_turn(8, start + Duration::from_secs(9000)), "another conversation");
        }
    }

    #[test]
    fn what_was_used_longest_ago_makes_room() {
        let sent = SentPrompts::default();
        let start = Instant::now();
        for index in 0..=WAYS as u64 {
            sent.insert(&[index * SETS as u64], 1, start + Duration::from_secs(index));
        }
        let blocks = |index: u64| sent.find(&[index * SETS as u64], 1, start).blocks;
        assert_eq!((blocks(0), blocks(1), blocks(WAYS as u64)), (0, 1, 1));
    }
}
