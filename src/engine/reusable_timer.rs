//! One timer for all the waits of a connection, or of an answer.
//!
//! A timer of its own for each wait would be armed and taken back each time, under a lock; this one is armed once, and
//! moved on when it goes off too early.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// The timer. Made when it is first needed.
#[derive(Debug, Default)]
pub struct ReusableTimer {
    timer: Option<Pin<Box<Sleep>>>,
}

impl ReusableTimer {
    /// Waits for `work`, at most so long; `None` when that was not enough. Work that is done costs no timer.
    pub async fn timeout<T>(&mut self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        let mut deadline = None;
        poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(Some(done));
            }
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + limit);
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
            // Armed by a wait before this one, it goes off early; never late, unless the limit was lowered.
            if timer.deadline() > deadline {
                timer.as_mut().reset(deadline);
            }
            while timer.as_mut().poll(cx).is_ready() {
                if timer.deadline() >= deadline {
                    return Poll::Ready(None);
                }
                timer.as_mut().reset(deadline);
            }
            Poll::Pending
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use tokio::task::yield_now;

    #[tokio::test]
    async fn every_timeout_has_its_full_duration() {
        let (short, long) = (Duration::from_millis(1), Duration::from_millis(20));
        let mut timer = ReusableTimer::default();
        assert_eq!(timer.timeout(short, async { 1 }).await, Some(1));
        assert_eq!(timer.timeout(short, yield_now()).await, Some(()));
        // The timer of the wait before goes off while this one lasts.
        let started = Instant::now();
        assert_eq!(timer.timeout(long, pending::<()>()).await, None);
        assert!(started.elapsed() >= long);
    }

    #[tokio::test]
    async fn a_shorter_timeout_takes_effect_immediately() {
        let mut timer = ReusableTimer::default();
        assert_eq!(timer.timeout(Duration::from_secs(3600), yield_now()).await, Some(()));
        assert_eq!(timer.timeout(Duration::from_millis(1), pending::<()>()).await, None);
    }
}
