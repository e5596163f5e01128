//! How many calls may do one kind of work at a time: the others wait in short queues, and beyond them a call is refused.
//!
//! A bound for one call does not bound them all: a hundred questions of a few MiB each end a process. Places are shared among whoever
//! asks (a workspace, or the organisation): each has half of the places and half of the queue at most, and whoever waits gets a place
//! by turns, so that one with many calls keeps nobody else waiting. Not here: what is counted, and what a refused client is told.

use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;
use uuid::Uuid;

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
    wait: Duration,
    queues: Arc<Mutex<Queues>>,
    refused: AtomicUsize,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub struct Place {
    queues: Arc<Mutex<Queues>>,
    whose: Option<Uuid>,
}

/// There was no place in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoPlace;

/// Who works and who waits.
#[derive(Debug)]
struct Queues {
    bounds: PlaceBounds,
    running: usize,
    waiting: usize,
    /// Those that work or wait.
    askers: HashMap<Option<Uuid>, Asker>,
    /// The tickets that were called and whose callers have not come yet.
    called: Vec<u64>,
    next_ticket: u64,
    turns: u64,
}

/// A workspace, or the organisation.
#[derive(Debug, Default)]
struct Asker {
    running: usize,
    tickets: VecDeque<Ticket>,
    /// The last turn that was its own.
    turn: u64,
}

#[derive(Debug)]
struct Ticket {
    number: u64,
    call: oneshot::Sender<()>,
}

/// One that waits, until it is dropped: also where its client leaves.
struct Waiting<'a> {
    queues: &'a Arc<Mutex<Queues>>,
    whose: Option<Uuid>,
    number: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.queues.lock().leave(self.whose, self.number);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.queues.lock().end(self.whose);
    }
}

impl Queues {
    /// Whether a call gets its place at once; it is counted then.
    fn begin(&mut self, whose: Option<Uuid>) -> bool {
        let has_room = self.running < self.bounds.running;
        let asker = self.askers.entry(whose).or_default();
        let begins = has_room && asker.running < half(self.bounds.running) && asker.tickets.is_empty();
        if begins {
            asker.running += 1;
            self.running += 1;
        }
        self.tidy();
        begins
    }

    /// The number under which a call waits, and what tells it that its turn has come; `None`: as many wait as may.
    fn wait(&mut self, whose: Option<Uuid>) -> Option<(u64, oneshot::Receiver<()>)> {
        let has_room = self.waiting < self.bounds.waiting;
        let number = self.next_ticket;
        let (call, called) = oneshot::channel();
        let asker = self.askers.entry(whose).or_default();
        let waits = has_room && asker.tickets.len() < half(self.bounds.waiting);
        if waits {
            asker.tickets.push_back(Ticket { number, call });
            self.waiting += 1;
            self.next_ticket += 1;
        }
        self.tidy();
        waits.then_some((number, called))
    }

    /// One that waited has come for its place. `false`: it was not called.
    fn come(&mut self, number: u64) -> bool {
        let at = self.called.iter().position(|called| *called == number);
        at.map(|at| self.called.swap_remove(at)).is_some()
    }

    /// One does not wait any more. Where it was called and has not come, its place is free again.
    fn leave(&mut self, whose: Option<Uuid>, number: u64) {
        if self.come(number) {
            self.end(whose);
            return;
        }
        if let Some(asker) = self.askers.get_mut(&whose) {
            let before = asker.tickets.len();
            asker.tickets.retain(|ticket| ticket.number != number);
            self.waiting = self.waiting.saturating_sub(before - asker.tickets.len());
        }
        self.tidy();
    }

    /// A place is free again, and goes to whoever waits and had its turn the longest ago.
    fn end(&mut self, whose: Option<Uuid>) {
        self.running = self.running.saturating_sub(1);
        if let Some(asker) = self.askers.get_mut(&whose) {
            asker.running = asker.running.saturating_sub(1);
        }
        let most = half(self.bounds.running);
        while self.running < self.bounds.running {
            let waiting = self.askers.values_mut().filter(|asker| asker.running < most);
            let waiting = waiting.filter_map(|asker| Some((asker.tickets.front()?.number, asker)));
            let Some((_, next)) = waiting.min_by_key(|(first, asker)| (asker.turn, *first)) else { break };
            let Some(Ticket { number, call }) = next.tickets.pop_front() else { break };
            self.turns += 1;
            next.turn = self.turns;
            next.running += 1;
            self.running += 1;
            self.waiting = self.waiting.saturating_sub(1);
            self.called.push(number);
            // Where nobody listens, the one that waited is about to leave, and gives the place back.
            let _ = call.send(());
        }
        self.tidy();
    }

    fn tidy(&mut self) {
        self.askers.retain(|_, asker| asker.running > 0 || !asker.tickets.is_empty());
    }
}

/// What one may have of so many.
const fn half(all: usize) -> usize {
    all.div_ceil(2)
}

impl Places {
    pub fn new(bounds: PlaceBounds) -> Self {
        let queues = Queues {
            bounds,
            running: 0,
            waiting: 0,
            askers: HashMap::new(),
            called: Vec::new(),
            next_ticket: 0,
            turns: 0,
        };
        Self { wait: bounds.wait, queues: Arc::new(Mutex::new(queues)), refused: AtomicUsize::new(0) }
    }

    /// Waits for a place. `whose`: the workspace that asks; `None`: the organisation.
    ///
    /// # Errors
    /// `NoPlace`: as many wait as may, or it took too long.
    pub async fn take(&self, whose: Option<Uuid>) -> Result<Place, NoPlace> {
        if let Some(place) = self.take_at_once(whose) {
            return Ok(place);
        }
        let place = self.wait(whose).await;
        place.ok_or_else(|| {
            self.refused.fetch_add(1, Ordering::Relaxed);
            NoPlace
        })
    }

    /// A place, if there is one now.
    pub fn take_at_once(&self, whose: Option<Uuid>) -> Option<Place> {
        self.queues.lock().begin(whose).then(|| Place { queues: Arc::clone(&self.queues), whose })
    }

    async fn wait(&self, whose: Option<Uuid>) -> Option<Place> {
        let waits = self.queues.lock().wait(whose);
        let (number, called) = waits?;
        let _waiting = Waiting { queues: &self.queues, whose, number };
        // Called at the last moment counts, too.
        let _ = tokio::time::timeout(self.wait, called).await;
        let has_come = self.queues.lock().come(number);
        has_come.then(|| Place { queues: Arc::clone(&self.queues), whose })
    }

    /// How many work now.
    pub fn running(&self) -> usize {
        self.queues.lock().running
    }

    /// How many wait now.
    pub fn waiting(&self) -> usize {
        self.queues.lock().waiting
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

    fn workspace(number: u128) -> Option<Uuid> {
        Some(Uuid::from_u128(number))
    }

    #[tokio::test(start_paused = true)]
    async fn some_work_some_wait_and_the_others_are_refused() {
        let places = places(2, 1);
        let first = places.take(workspace(1)).await.unwrap();
        let _second = places.take(workspace(2)).await.unwrap();
        let of_third = Arc::clone(&places);
        let third = tokio::spawn(async move { of_third.take(None).await.map(drop).is_ok() });
        tokio::task::yield_now().await;
        assert_eq!((places.running(), places.waiting()), (2, 1));
        assert!(places.take(None).await.is_err());
        assert_eq!((places.waiting(), places.refused()), (1, 1));
        drop(first);
        assert!(third.await.unwrap());
        assert_eq!((places.running(), places.waiting()), (1, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_in_time_and_who_leaves_makes_room() {
        let places = places(1, 1);
        let first = places.take(None).await.unwrap();
        assert!(places.take(None).await.is_err(), "it took too long");
        let of_leaver = Arc::clone(&places);
        let leaver = tokio::spawn(async move { of_leaver.take(None).await.is_ok() });
        tokio::task::yield_now().await;
        assert_eq!(places.waiting(), 1);
        // It is called, and leaves before it comes.
        drop(first);
        assert_eq!((places.running(), places.waiting()), (1, 0));
        leaver.abort();
        let _ = leaver.await;
        assert_eq!((places.running(), places.waiting()), (0, 0));
        assert!(places.queues.lock().askers.is_empty() && places.queues.lock().called.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn one_with_many_calls_leaves_half_to_others() {
        let places = places(4, 16);
        let mut held = Vec::new();
        let mut tasks = Vec::new();
        for _ in 0..2 {
            held.push(places.take(workspace(1)).await.unwrap());
        }
        for _ in 0..40 {
            let places = Arc::clone(&places);
            tasks.push(tokio::spawn(async move { places.take(workspace(1)).await.is_ok() }));
        }
        while places.refused() < 32 {
            tokio::task::yield_now().await;
        }
        assert_eq!((places.running(), places.waiting()), (2, 8), "half of the places, half of the queue");
        held.push(places.take(workspace(2)).await.unwrap());
        held.push(places.take(None).await.unwrap());
        assert_eq!(places.running(), 4);
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_wait_get_places_by_turns() {
        let places = places(2, 16);
        let order = Arc::new(Mutex::new(Vec::new()));
        let first = [places.take(workspace(8)).await.unwrap(), places.take(workspace(9)).await.unwrap()];
        let mut tasks = Vec::new();
        for number in [1, 1, 1, 1, 2, 2, 3] {
            let places = Arc::clone(&places);
            let order = Arc::clone(&order);
            tasks.push(tokio::spawn(async move {
                let place = places.take(workspace(number)).await.unwrap();
                order.lock().push(number);
                tokio::time::sleep(Duration::from_millis(10)).await;
                drop(place);
            }));
            tokio::task::yield_now().await;
        }
        assert_eq!(places.waiting(), 7);
        drop(first);
        for task in tasks {
            task.await.unwrap();
        }
        let mut found = order.lock().clone();
        assert_eq!(found.split_off(5), [1, 1], "who asked most is last");
        found.sort_unstable();
        assert_eq!(found, [1, 1, 2, 2, 3]);
        assert_eq!((places.running(), places.waiting()), (0, 0));
    }
}
