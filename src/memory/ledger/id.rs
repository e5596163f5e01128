//! Ids of rows: version 7 UUIDs that begin with the time of the row, and the row's key within its day.
//!
//! Knows no clock: the time is an argument.

use super::row::MS_A_DAY;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use uuid::Uuid;

/// Bits of a key below the milliseconds of the day.
const TAIL_BITS: u32 = 36;
const TAIL_MASK: u64 = (1 << TAIL_BITS) - 1;

/// The bits of an id below its counter: random, of an attempt in its request's row what leads to that row.
const REST_MASK: u64 = 0x3F_FFFF_FFFF;
/// Above them in an attempt's: the milliseconds since its request began, up to 37 hours.
const SINCE_SHIFT: u32 = 11;
const NUMBER_SHIFT: u32 = 4;
const NUMBER_MASK: u64 = 0x7F;
/// The lowest bits of an attempt's id.
const OF_ATTEMPT: u64 = 0b1010;

/// Makes the ids of one process. No two are equal. No two of one day have the same key either, unless two processes use the same
/// counter value within the same millisecond; counters begin at random.
#[derive(Debug)]
pub struct RowIds {
    next: AtomicU64,
    random: u64,
}

impl Default for RowIds {
    fn default() -> Self {
        Self { next: AtomicU64::new(fastrand::u64(..)), random: fastrand::u64(..) }
    }
}

impl RowIds {
    /// An id for a row of this time.
    pub fn new_id(&self, created_ms: i64) -> Uuid {
        // A counter of 36 bits, then 38 random bits that are the same for the whole process.
        let tail = self.next.fetch_add(1, Ordering::Relaxed) & TAIL_MASK;
        let ms = created_ms.max(0).cast_unsigned() & 0xFFFF_FFFF_FFFF;
        let high = (ms << 16) | 0x7000 | (tail >> 24);
        let low = (0b10 << 62) | ((tail & 0xFF_FFFF) << 38) | (self.random & REST_MASK);
        Uuid::from_u64_pair(high, low)
    }
}

/// The id of an attempt that is kept in the row of its request: its time, the request's counter, and the way from the one to the other.
pub(crate) fn of_attempt(request: Uuid, began_ms: i64, number: u32) -> Uuid {
    let (high, low) = request.as_u64_pair();
    let longest = (REST_MASK >> SINCE_SHIFT).cast_signed();
    let since = began_ms.saturating_sub(created_ms(request)).clamp(0, longest).cast_unsigned();
    let rest = (since << SINCE_SHIFT) | ((u64::from(number) & NUMBER_MASK) << NUMBER_SHIFT) | OF_ATTEMPT;
    Uuid::from_u64_pair(high + (since << 16), (low & !REST_MASK) | rest)
}

/// The ids that the request may have in whose row the attempt with this id is kept. All of them have one key.
pub(crate) fn requests_of(attempt: Uuid) -> RangeInclusive<Uuid> {
    let (high, low) = attempt.as_u64_pair();
    let since = (low & REST_MASK) >> SINCE_SHIFT;
    let high = high.saturating_sub(since << 16);
    let first = low & !REST_MASK;
    Uuid::from_u64_pair(high, first)..=Uuid::from_u64_pair(high, first | REST_MASK)
}

/// When the row with this id began, milliseconds since 1970.
pub fn created_ms(id: Uuid) -> i64 {
    (id.as_u64_pair().0 >> 16).cast_signed()
}

/// The key of the row within its day: milliseconds of the day, then the counting bits of its id. In order of time.
pub(crate) fn day_key(id: Uuid) -> i64 {
    let (high, low) = id.as_u64_pair();
    let tail = ((high & 0xFFF) << 24) | ((low >> 38) & 0xFF_FFFF);
    ms_key(created_ms(id)) | tail.cast_signed()
}

/// The lowest key of rows that began at this time, within its day.
pub(crate) fn ms_key(created_ms: i64) -> i64 {
    created_ms.rem_euclid(MS_A_DAY) << TAIL_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_gives_back_its_time_and_a_key_in_order_of_time() {
        let ids = RowIds::default();
        let now = 1_795_000_000_123;
        let id = ids.new_id(now);
        assert_eq!(id.get_version_num(), 7);
        assert_eq!(created_ms(id), now);
        assert!(day_key(id) >= 0 && day_key(id) < day_key(ids.new_id(now + 1)));
        let attempt = of_attempt(id, now + 70, 2);
        assert_eq!((attempt.get_version_num(), created_ms(attempt)), (7, now + 70));
        let requests = requests_of(attempt);
        assert!(requests.contains(&id) && day_key(*requests.start()) == day_key(id));
        assert_ne!(of_attempt(id, now, 1), of_attempt(id, now, 2));
        let mut keys: Vec<i64> = (0..100_000).map(|_| day_key(ids.new_id(now))).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 100_000);
    }
}
