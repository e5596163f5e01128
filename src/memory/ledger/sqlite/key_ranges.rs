//! Ranges of the keys of a day's rows, among which rows are looked for.
//!
//! A list of them has the last one first, and no key twice. What leads to them: `marks`, `pairs`.

use std::ops::RangeInclusive;

/// Keys from the first to the last.
pub(super) type KeyRange = RangeInclusive<i64>;

/// A list of these ranges, which may overlap and be in any order. Neighbours become one, so that they are read in one go.
pub(super) fn in_order(mut ranges: Vec<KeyRange>) -> Vec<KeyRange> {
    ranges.sort_unstable_by_key(|range| std::cmp::Reverse(*range.end()));
    let mut list: Vec<KeyRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match list.last_mut() {
            Some(later) if range.end().saturating_add(1) >= *later.start() => {
                *later = *later.start().min(range.start())..=*later.end();
            }
            _ => list.push(range),
        }
    }
    list
}

/// The keys that are in both lists.
pub(super) fn common(one: &[KeyRange], other: &[KeyRange]) -> Vec<KeyRange> {
    let mut list = Vec::new();
    let mut one = one.iter().peekable();
    let mut other = other.iter().peekable();
    while let (Some(a), Some(b)) = (one.peek(), other.peek()) {
        let both = *a.start().max(b.start())..=*a.end().min(b.end());
        if !both.is_empty() {
            list.push(both);
        }
        // The one that begins later has no more in common with what follows.
        let _ = if a.start() >= b.start() { one.next() } else { other.next() };
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_in_order_and_apart() {
        assert_eq!(in_order(vec![1..=3, 10..=12, 4..=5, 11..=20, 7..=8]), [10..=20, 7..=8, 1..=5]);
        assert_eq!(in_order(vec![5..=20, 6..=7]), [5..=20]);
        assert_eq!(in_order(vec![i64::MAX..=i64::MAX, 0..=0]), [i64::MAX..=i64::MAX, 0..=0]);
    }

    #[test]
    fn common_keys_are_those_of_both() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..2_000 {
            let mut list = || {
                let ranges = (0..random.usize(0..5)).map(|_| random.i64(0..30)).collect::<Vec<i64>>();
                in_order(ranges.into_iter().map(|first| first..=first + random.i64(0..9)).collect())
            };
            let one = list();
            let other = list();
            let has = |list: &[KeyRange], key: i64| list.iter().any(|range| range.contains(&key));
            let both = common(&one, &other);
            for key in -1..45 {
                assert_eq!(has(&both, key), has(&one, key) && has(&other, key), "{one:?} {other:?} {key}");
            }
            assert!(both.windows(2).all(|pair| pair[1].end() < pair[0].start()), "{both:?}");
        }
    }
}
