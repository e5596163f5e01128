//! Lets other connections have their turn while a fast one is served.
//!
//! A task that never has to wait is not interrupted by the runtime before 128 reads, which are up to 8 MiB: a dozen
//! milliseconds during which the worker serves no other connection. Not for work between two reads: `state::large_work`.

use tokio::task::yield_now;

/// The bytes of one turn; reading and forwarding them takes less than a millisecond.
const BYTES: usize = 256 << 10;

/// What one task has handled since it last let others run.
#[derive(Debug, Default)]
pub struct Turn {
    bytes: usize,
}

impl Turn {
    /// Notes that `bytes` bytes were handled.
    pub fn count(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    pub fn is_over(&self) -> bool {
        self.bytes >= BYTES
    }

    /// Lets other tasks run if the turn is over. The future may be dropped while it waits.
    pub async fn give_up(&mut self) {
        if self.is_over() {
            self.bytes = 0;
            yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;
    use tokio::task::{LocalSet, spawn_local};

    #[tokio::test]
    async fn others_run_between_turns_and_not_within_one() {
        let others = Rc::new(Cell::new(0));
        let count = Rc::clone(&others);
        let other = async move {
            loop {
                count.set(count.get() + 1);
                yield_now().await;
            }
        };
        let turns = async {
            spawn_local(other);
            let mut turn = Turn::default();
            turn.count(BYTES - 1);
            turn.give_up().await;
            assert_eq!(others.get(), 0);
            for done in 1..4 {
                turn.count(BYTES);
                turn.give_up().await;
                assert_eq!(others.get(), done);
                assert!(!turn.is_over());
            }
        };
        LocalSet::new().run_until(turns).await;
    }
}
