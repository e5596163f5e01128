//! How many calls may do one kind of work at a time: the others wait in a short queue, in their order, and beyond it a call is refused.
//!
//! A bound for one call does not bound them all: a hundred questions of a few MiB each end a process. Not here: what is counted, and
//! what a refused client is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The bounds of one kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaceBounds {
    /// So many at a time.
    pub running: usize,
    /// So many wait for them.
    pub waiting: usize,
    /// For so long at most.
    pub wait: Duration,
}

/// The places of one kind of work.
#[derive(Debug)]
pub struct Places {
    bounds: PlaceBounds,
    free: Arc<Semaphore>,
    waiting: AtomicUsize,
    refused: AtomicUsize,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub struct Place {
    _permit: OwnedSemaphorePermit,
}

/// There was no place in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoPlace;

/// One that waits, until it is dropped: also where its client leaves.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Places {
    pub fn new(bounds: PlaceBounds) -> Self {
        Self {
            bounds,
            free: Arc::new(Semaphore::new(bounds.running)),
            waiting: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
        }
    }

    /// Waits for a place; first come, first served.
    ///
    /// # Errors
    /// `NoPlace`: as many wait as may, or it took too long.
    pub async fn take(&self) -> Result<Place, NoPlace> {
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
            return Ok(Place { _permit: permit });
        }
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = Waiting(&self.waiting);
        let permit = if before < self.bounds.waiting {
            let permit = Arc::clone(&self.free).acquire_owned();
            tokio::time::timeout(self.bounds.wait, permit).await.ok().and_then(Result::ok)
        } else {
            None
        };
        drop(waiting);
        permit.map(|permit| Place { _permit: permit }).ok_or_else(|| {
            self.refused.fetch_add(1, Ordering::Relaxed);
            NoPlace
        })
    }

    /// How many work now.
    pub fn running(&self) -> usize {
        self.bounds.running.saturating_sub(self.free.available_permits())
    }

    /// How many wait now.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// How many were refused since the start.
    pub fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(running: usize, waiting: usize) -> Arc<Places> {
        Arc::new(Places::new(PlaceBounds { running, waiting, wait: Duration::from_secs(5) }))
    }

    #[tokio::test(start_paused = true)]
    async fn some_work_some_wait_and_the_others_are_refused() {
        let places = places(2, 1);
        let first = places.take().await.unwrap();
        let _second = places.take().await.unwrap();
        let of_third = Arc::clone(&places);
        let third = tokio::spawn(async move { of_third.take().await.is_ok() });
        tokio::task::yield_now().await;
        assert_eq!((places.running(), places.waiting()), (2, 1));
        assert!(places.take().await.is_err());
        assert_eq!((places.waiting(), places.refused()), (1, 1));
        drop(first);
        assert!(third.await.unwrap());
        assert_eq!((places.running(), places.waiting()), (1, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_in_time_and_who_leaves_makes_room() {
        let places = places(1, 1);
        let _first = places.take().await.unwrap();
        assert!(places.take().await.is_err(), "it took too long");
        let of_leaver = Arc::clone(&places);
        let leaver = tokio::spawn(async move { of_leaver.take().await.is_ok() });
        tokio::task::yield_now().await;
        assert_eq!(places.waiting(), 1);
        leaver.abort();
        let _ = leaver.await;
        assert_eq!(places.waiting(), 0);
    }
}
