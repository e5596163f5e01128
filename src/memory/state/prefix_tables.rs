//! Where the beginnings of requests were last sent, for groups that choose by them (`strategy.by: prefix`).
//!
//! A beginning is a chain of hashes, each over all blocks up to its own; a table remembers for each hash the members of the group
//! that got it, and since when. Of fixed size: 512 KiB a group, for 32,768 pairs of hash and member, and of so many groups only.
//! In each set of eight pairs the one that was used longest ago makes room. Not here: the hashes and the choice (`route`).

use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pairs that share a set: in one or two lines of the processor's cache.
const WAYS: usize = 8;
const SETS: usize = 4096;

/// Groups of saved configs that have a table. The one used longest ago makes room: 32 MiB at most.
const MAX_SAVED: u64 = 64;
/// The same for configs that come with requests, of which clients can make any number: 8 MiB at most.
const MAX_INLINE: u64 = 16;
/// A table that nobody uses for so long is dropped: the longest time for which a provider keeps a beginning.
const IDLE_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// A unit of the times in a table, milliseconds.
const TICK_MS: u128 = 100;
const TICKS_PER_MINUTE: u32 = 600;

/// Which group a table is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixOwner {
    /// A hash over the config's source and the group's place in it.
    pub key: u64,
    /// Its config came with a request.
    pub is_inline: bool,
}

/// The tables of all groups of the process.
#[derive(Debug)]
pub struct PrefixTables {
    saved: Cache<u64, Arc<PrefixTable>>,
    inline: Cache<u64, Arc<PrefixTable>>,
}

/// What one group remembers.
#[derive(Debug)]
pub struct PrefixTable {
    started: Instant,
    sets: Mutex<Box<[[Pair; WAYS]]>>,
}

/// A hash and a member that got what it stands for.
#[derive(Debug, Clone, Copy, Default)]
struct Pair {
    hash: u64,
    /// When it was last used, ticks since the table was made and one more; 0: there is no pair.
    used: u32,
    member: u16,
    /// How long it holds; 0: as long as there is room.
    minutes: u16,
}

impl Default for PrefixTables {
    fn default() -> Self {
        let tables = |max: u64| {
            let builder = Cache::builder().max_capacity(max).eviction_policy(EvictionPolicy::lru());
            builder.time_to_idle(IDLE_TIMEOUT).build()
        };
        Self { saved: tables(MAX_SAVED), inline: tables(MAX_INLINE) }
    }
}

impl PrefixTables {
    /// The table of a group, if it has one.
    pub fn get(&self, owner: PrefixOwner) -> Option<Arc<PrefixTable>> {
        self.tables(owner).get(&owner.key)
    }

    /// The table of a group, made where it has none.
    pub fn find_or_insert(&self, owner: PrefixOwner, now: Instant) -> Arc<PrefixTable> {
        self.tables(owner).get_with(owner.key, || Arc::new(PrefixTable::new(now)))
    }

    /// Drops the tables that nobody uses.
    pub fn drop_expired(&self) {
        self.saved.run_pending_tasks();
        self.inline.run_pending_tasks();
    }

    fn tables(&self, owner: PrefixOwner) -> &Cache<u64, Arc<PrefixTable>> {
        if owner.is_inline { &self.inline } else { &self.saved }
    }
}

impl PrefixTable {
    /// An empty table.
    pub fn new(now: Instant) -> Self {
        let sets = vec![[Pair::default(); WAYS]; SETS];
        Self { started: now, sets: Mutex::new(sets.into_boxed_slice()) }
    }

    /// How many blocks of a chain each member got: writes the numbers into `blocks_of`, by the members' indexes. What nobody got ends
    /// the search.
    pub fn find(&self, chain: &[u64], now: Instant, blocks_of: &mut [u16]) {
        let now = self.ticks(now);
        let sets = self.sets.lock();
        for (hash, count) in chain.iter().zip(1..) {
            let mut is_found = false;
            let pairs = sets.get(set_of(*hash)).into_iter().flatten();
            for pair in pairs.filter(|pair| pair.hash == *hash && pair.holds(now)) {
                if let Some(blocks) = blocks_of.get_mut(usize::from(pair.member)) {
                    *blocks = count;
                    is_found = true;
                }
            }
            if !is_found {
                break;
            }
        }
    }

    /// Remembers that a member gets the blocks of a chain, which it keeps for `ttl` after each use. `None`: as long as it has room.
    pub fn insert(&self, chain: &[u64], member: usize, ttl: Option<Duration>, now: Instant) {
        let Ok(member) = u16::try_from(member) else { return };
        let now = self.ticks(now);
        let minutes = ttl.map_or(0, |ttl| u16::try_from(ttl.as_secs() / 60).unwrap_or(u16::MAX).max(1));
        let mut sets = self.sets.lock();
        for hash in chain {
            let Some(pairs) = sets.get_mut(set_of(*hash)) else { continue };
            let is_same = |pair: &Pair| pair.used != 0 && pair.hash == *hash && pair.member == member;
            let rank = |pair: &&mut Pair| {
                let is_free = !pair.holds(now);
                if is_same(pair) {
                    (0, 0)
                } else {
                    (2 - u8::from(is_free), if is_free { 0 } else { pair.used })
                }
            };
            if let Some(pair) = pairs.iter_mut().min_by_key(rank) {
                // Whoever asked for the longer time has it until it is over.
                let is_longer = is_same(pair) && pair.holds(now) && pair.minutes > minutes && minutes > 0;
                let minutes = if is_longer { pair.minutes } else { minutes };
                *pair = Pair { hash: *hash, used: now, member, minutes };
            }
        }
    }

    /// Forgets that a member got the blocks of a chain.
    pub fn remove(&self, chain: &[u64], member: usize) {
        let mut sets = self.sets.lock();
        for hash in chain {
            let pairs = sets.get_mut(set_of(*hash)).into_iter().flatten();
            for pair in pairs.filter(|pair| pair.hash == *hash && usize::from(pair.member) == member) {
                *pair = Pair::default();
            }
        }
    }

    fn ticks(&self, now: Instant) -> u32 {
        let ticks = now.saturating_duration_since(self.started).as_millis() / TICK_MS + 1;
        u32::try_from(ticks).unwrap_or(u32::MAX)
    }
}

impl Pair {
    fn holds(&self, now: u32) -> bool {
        let ticks = u32::from(self.minutes) * TICKS_PER_MINUTE;
        self.used != 0 && (ticks == 0 || now.saturating_sub(self.used) < ticks)
    }
}

fn set_of(hash: u64) -> usize {
    usize::try_from(hash % SETS as u64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn found(table: &PrefixTable, chain: &[u64], now: Instant) -> Vec<u16> {
        let mut blocks = vec![0; 4];
        table.find(chain, now, &mut blocks);
        blocks
    }

    #[test]
    fn each_member_is_found_by_its_longest_beginning() {
        let start = Instant::now();
        let table = PrefixTable::new(start);
        assert_eq!(found(&table, &[1, 2, 3], start), [0, 0, 0, 0]);
        table.insert(&[1, 2, 3, 4], 2, None, start);
        table.insert(&[1, 2], 0, None, start);
        table.insert(&[1, 20], 3, None, start);
        assert_eq!(found(&table, &[1, 2, 3, 4, 5], start), [2, 0, 4, 1]);
        assert_eq!(found(&table, &[1, 20, 30], start), [1, 0, 1, 2], "nobody got 30");
        assert_eq!(found(&table, &[2, 3], start), [1, 0, 2, 0]);
        assert_eq!(found(&table, &[9, 2, 3], start), [0, 0, 0, 0]);
        table.remove(&[1, 2, 3, 4], 2);
        assert_eq!(found(&table, &[1, 2, 3, 4], start), [2, 0, 0, 1]);
    }

    #[test]
    fn what_was_sent_holds_for_its_time_after_each_use() {
        let start = Instant::now();
        let table = PrefixTable::new(start);
        table.insert(&[1, 2], 0, Some(5 * MINUTE), start);
        table.insert(&[1], 1, None, start);
        let before = start + 5 * MINUTE - Duration::from_millis(100);
        assert_eq!(found(&table, &[1, 2], before), [2, 1, 0, 0]);
        assert_eq!(found(&table, &[1, 2], start + 5 * MINUTE), [0, 1, 0, 0]);
        table.insert(&[1, 2], 0, Some(5 * MINUTE), before);
        assert_eq!(found(&table, &[1, 2], start + 9 * MINUTE), [2, 1, 0, 0]);
        assert_eq!(found(&table, &[1, 2], start + 1000 * MINUTE), [0, 1, 0, 0]);
        // The longer time of a request is not shortened by another.
        table.insert(&[3], 0, Some(60 * MINUTE), start);
        table.insert(&[3], 0, Some(5 * MINUTE), start);
        assert_eq!(found(&table, &[3], start + 59 * MINUTE), [1, 0, 0, 0]);
    }

    #[test]
    fn the_pair_that_was_used_longest_ago_makes_room() {
        let start = Instant::now();
        let table = PrefixTable::new(start);
        let same_set: Vec<u64> = (1..=9).map(|number| number * SETS as u64).collect();
        for (hash, second) in same_set.iter().take(8).zip(0..) {
            table.insert(&[*hash], 0, None, start + Duration::from_secs(second));
        }
        let later = start + MINUTE;
        table.insert(&same_set[..1], 0, None, later);
        table.insert(&same_set[8..], 1, None, later);
        let left: Vec<bool> =
            same_set.iter().map(|hash| found(&table, &[*hash], later) != [0, 0, 0, 0]).collect();
        assert_eq!(left, [true, false, true, true, true, true, true, true, true]);
        assert_eq!(size_of::<Pair>() * WAYS * SETS, 512 << 10);
    }

    #[test]
    fn groups_have_tables_of_their_own_and_inline_ones_displace_no_saved_one() {
        let tables = PrefixTables::default();
        let now = Instant::now();
        let saved = PrefixOwner { key: 1, is_inline: false };
        tables.find_or_insert(saved, now).insert(&[7], 1, None, now);
        for key in 0..40 {
            tables.find_or_insert(PrefixOwner { key, is_inline: true }, now);
        }
        tables.drop_expired();
        assert_eq!(found(&tables.get(saved).unwrap(), &[7], now), [0, 1, 0, 0]);
        assert_eq!(tables.inline.entry_count(), MAX_INLINE);
        assert!(tables.get(PrefixOwner { key: 2, is_inline: false }).is_none());
    }
}
