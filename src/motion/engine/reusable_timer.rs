//! One timer for all the waits of a connection, or of a response.
//!
//! A separate timer for each wait would be registered and removed each time, under a lock. This one is registered once,
//! and moved to the current deadline when it fires too early.
//!
//! ```text
//! wait 1, deadline 10:05   timer registered for 10:05; the work is done at 10:01
//! wait 2, deadline 10:06   the timer stays at 10:05; it fires, and is moved to 10:06
//!                          it fires again at 10:06: the wait has timed out
//! ```

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// The timer. It is created when it is first needed.
#[derive(Debug, Default)]
pub struct ReusableTimer {
    timer: Option<Pin<Box<Sleep>>>,
}

impl ReusableTimer {
    /// Waits for `work`, at most for `limit`; `None` if that was not enough. Work that is ready at once needs no timer.
    pub async fn timeout<T>(&mut self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        let mut deadline = None;
        poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(Some(done));
            }
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + limit);
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
            // An earlier wait may have set it for too early, which the loop below corrects; for too late only if the
            // limit became shorter.
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
        let short = Duration::from_millis(1);
        let long = Duration::from_millis(20);
        let mut timer = ReusableTimer::default();
        assert_eq!(timer.timeout(short, async { 1 }).await, Some(1));
        assert_eq!(timer.timeout(short, yield_now()).await, Some(()));
        // The timer set by the previous wait fires during this one.
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
