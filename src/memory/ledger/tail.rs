//! The rows of requests at the moment they are made, for those who follow them: before they are written, and without the log store.
//!
//! A reader has a short queue. Rows for which it has no room are left out and counted, so that neither a request nor the ledger's own
//! thread waits for a reader. Without readers a batch costs one look at an empty list. Rows of another process are not here, and
//! nothing is kept: whoever wants what was before asks the log store.

use super::Row;
use super::entry::Entry;
use super::filter::Filter;
use super::matching::{Candidate, Matcher};
use crate::net::inbound::places::{Place, PlaceBounds, Places};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use uuid::Uuid;

/// The most readers at a time.
const READERS: PlaceBounds = PlaceBounds { running: 16, waiting: 0, wait: Duration::ZERO };
/// Rows that wait for one reader; they are shared with the other readers.
const MAX_WAITING: usize = 512;

/// Who follows the rows of this process.
pub struct Tail {
    places: Places,
    followers: Mutex<Vec<Arc<Follower>>>,
    dropped: AtomicU64,
}

/// The ledger's side of a reader.
struct Follower {
    filter: Matcher,
    rows: mpsc::Sender<Arc<Row>>,
    dropped: Arc<AtomicU64>,
}

/// Follows the rows that match its filter, until it is dropped.
pub struct TailReader {
    rows: mpsc::Receiver<Arc<Row>>,
    dropped: Arc<AtomicU64>,
    _place: Place,
}

impl Default for Tail {
    fn default() -> Self {
        Self { places: Places::new(READERS), followers: Mutex::default(), dropped: AtomicU64::new(0) }
    }
}

impl Tail {
    /// A reader of the rows that are made from now on. `None`: there are as many as may be. `whose`: the workspace that reads; `None`:
    /// the organisation.
    pub fn follow(&self, whose: Option<Uuid>, filter: Filter) -> Option<TailReader> {
        let place = self.places.take_at_once(whose)?;
        let (sender, rows) = mpsc::channel(MAX_WAITING);
        let dropped = Arc::new(AtomicU64::new(0));
        let filter = Matcher::new(filter);
        let follower = Arc::new(Follower { filter, rows: sender, dropped: Arc::clone(&dropped) });
        let mut followers = self.followers.lock();
        followers.retain(|follower| !follower.rows.is_closed());
        followers.push(follower);
        Some(TailReader { rows, dropped, _place: place })
    }

    /// Hands new entries to the readers that want them. Waits for none.
    pub(super) fn publish(&self, entries: &[Entry]) {
        // Who begins to read does not wait for those who read.
        let followers = {
            let mut followers = self.followers.lock();
            followers.retain(|follower| !follower.rows.is_closed());
            followers.clone()
        };
        if followers.is_empty() {
            return;
        }
        for Entry { row, .. } in entries {
            let mut shared = None;
            let candidate = Candidate::new(row);
            for follower in followers.iter().filter(|follower| follower.filter.matches(&candidate)) {
                let row = shared.get_or_insert_with(|| Arc::new(row.clone()));
                if let Err(mpsc::error::TrySendError::Full(_)) = follower.rows.try_send(Arc::clone(row)) {
                    follower.dropped.fetch_add(1, Ordering::Relaxed);
                    self.dropped.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// How many read now.
    pub fn readers(&self) -> usize {
        self.places.running()
    }

    /// How many rows readers were too slow for, since the start.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl TailReader {
    /// Waits for the next row. `None`: no more will come.
    pub async fn next(&mut self) -> Option<Arc<Row>> {
        self.rows.recv().await
    }

    /// The next row, if it is there.
    pub fn next_at_once(&mut self) -> Option<Arc<Row>> {
        self.rows.try_recv().ok()
    }

    /// How many rows were left out since it began.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::row::sample;

    fn entries(rows: impl IntoIterator<Item = u16>) -> Vec<Entry> {
        rows.into_iter().map(|number| Entry::from(sample(number))).collect()
    }

    #[test]
    fn a_reader_gets_what_matches_and_a_slow_one_loses_the_newest_and_knows_how_many() {
        let tail = Tail::default();
        tail.publish(&entries(0..3));
        let filter = Filter { status_codes: vec!["7".to_owned()], ..Filter::default() };
        let mut one = tail.follow(None, filter).unwrap();
        let mut all = tail.follow(None, Filter::default()).unwrap();
        let most = u16::try_from(MAX_WAITING).unwrap();
        tail.publish(&entries(0..most + 5));
        assert_eq!((one.next_at_once().unwrap().status, one.next_at_once()), (7, None));
        let read: Vec<u16> = std::iter::from_fn(|| all.next_at_once()).map(|row| row.status).collect();
        assert_eq!(read, (0..most).collect::<Vec<_>>());
        assert_eq!((one.dropped(), all.dropped(), tail.dropped()), (0, 5, 5));
        tail.publish(&entries([9]));
        assert_eq!(all.next_at_once().unwrap().status, 9, "it goes on");
    }

    #[test]
    fn readers_are_bounded_and_who_leaves_makes_room() {
        let tail = Tail::default();
        let mut readers = Vec::new();
        for whose in [None, Some(Uuid::from_u128(1))] {
            for _ in 0..READERS.running / 2 {
                readers.push(tail.follow(whose, Filter::default()).unwrap());
            }
        }
        assert!(tail.follow(None, Filter::default()).is_none());
        assert!(tail.follow(Some(Uuid::from_u128(2)), Filter::default()).is_none());
        readers.pop();
        assert_eq!(tail.readers(), READERS.running - 1);
        assert!(tail.follow(Some(Uuid::from_u128(2)), Filter::default()).is_some());
        drop(readers);
        tail.publish(&entries([1]));
        assert!(tail.followers.lock().is_empty() && tail.readers() == 0);
    }
}
