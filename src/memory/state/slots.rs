//! The places at targets: how many attempts are under way at a time, and who waits for a place (`concurrency`).
//!
//! A place is held from before an attempt is sent until it is dropped. A change of the settings changes how many there are, not who has one.
//! A pause gives no place to anybody until it is over.
//! Not here: which attempts need a place (`engine::places`), who is next (`queue`), how many places are learned (`learner`), and what
//! wait is expected (`expected_wait`).

mod expected_wait;
mod learner;
mod queue;

use expected_wait::ExpectedWait;
use learner::Learner;
use parking_lot::Mutex;
use queue::{Queue, Ticket};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};
use uuid::Uuid;
use words::config::policies::{MaxSlots, Priority, SlotPolicy};

/// The most groups of places that are remembered. Those in use are never forgotten.
const MAX_GROUPS: usize = 10_000;

/// What shares places.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SlotOwner {
    /// A stored provider, by its id and its slug. Those of the settings have the id nil.
    Provider(Uuid, Arc<str>),
    /// A target of a config, for the clients of one workspace.
    Target {
        workspace: Uuid,
        config: Arc<str>,
        /// Its path in the config.
        index: Arc<str>,
        /// The hash of what it was compiled from, of a config that came with a request; 0 of a saved one.
        source: u64,
    },
}

/// All places of the process.
#[derive(Debug, Default)]
pub struct SlotRegistry(Mutex<HashMap<SlotOwner, Arc<Slots>>>);

/// The places of one owner.
#[derive(Debug)]
pub struct Slots {
    state: Mutex<State>,
    /// A pause has begun or has become longer.
    paused: Notify,
    of_provider: bool,
    /// As metrics name it.
    provider: Arc<str>,
}

#[derive(Debug)]
struct State {
    max: u32,
    /// Where `max` is learned.
    learner: Option<Learner>,
    in_use: u32,
    expected: ExpectedWait,
    /// Nobody gets a place before.
    paused_until: Option<Instant>,
    queue: Queue<oneshot::Sender<Slot>>,
}

/// By the clock of the timers here.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// A place, until it is dropped.
#[derive(Debug)]
#[must_use = "the place is free again when this is dropped"]
pub struct Slot {
    /// `None`: it was given to another.
    slots: Option<Arc<Slots>>,
    since: Instant,
    /// Its attempt has a response with content.
    is_success: bool,
}

/// Who wants a place.
#[derive(Debug, Clone, Copy)]
pub struct Applicant {
    pub priority: Priority,
    pub workspace: Uuid,
    /// When it is too late to be sent; `None`: it waits as long as the policy lets it.
    pub deadline: Option<Instant>,
    /// Another target follows: it does not wait where its place is expected later than the policy's `overflow`.
    pub has_other: bool,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoSlot {
    /// As many wait as may.
    Full,
    /// None was free in time.
    Late,
    /// None is expected to be free in time, and there is another target.
    TooLong,
}

/// The places of one owner as operators see them.
#[derive(Debug, Clone)]
pub struct SlotsView {
    /// Whether they are those of a provider, not of a target.
    pub of_provider: bool,
    pub provider: Arc<str>,
    pub max: u32,
    pub in_use: u32,
    pub waiting: usize,
    /// The provider wants no more for a while.
    pub is_paused: bool,
    /// How long one that comes now would wait, by how long places were held; zero where that is not known, or one is free.
    pub expected_wait: Duration,
}

impl SlotsView {
    /// Whether another attempt would have to wait.
    pub fn is_full(&self) -> bool {
        self.is_paused || self.in_use >= self.max || self.waiting > 0
    }
}

impl SlotRegistry {
    /// The places of an owner. `provider`: as metrics name it.
    pub fn find_or_insert(&self, owner: &SlotOwner, provider: &str) -> Arc<Slots> {
        let mut groups = self.0.lock();
        if let Some(found) = groups.get(owner) {
            return Arc::clone(found);
        }
        if groups.len() >= MAX_GROUPS {
            // One that nobody else holds has no place in use, and nobody waits for one.
            groups.retain(|_, slots| Arc::strong_count(slots) > 1);
        }
        let slots = Arc::new(Slots::new(provider, matches!(owner, SlotOwner::Provider(..))));
        groups.insert(owner.clone(), Arc::clone(&slots));
        slots
    }

    /// The places of an owner that has some.
    pub fn get(&self, owner: &SlotOwner) -> Option<SlotsView> {
        let slots = self.0.lock().get(owner).cloned();
        slots.map(|slots| slots.view())
    }

    /// All of them.
    pub fn list(&self) -> Vec<SlotsView> {
        let all: Vec<Arc<Slots>> = self.0.lock().values().cloned().collect();
        all.iter().map(|slots| slots.view()).collect()
    }
}

impl Slots {
    fn new(provider: &str, of_provider: bool) -> Self {
        Self {
            state: Mutex::new(State {
                max: 0,
                learner: None,
                in_use: 0,
                expected: ExpectedWait::default(),
                paused_until: None,
                queue: Queue::default(),
            }),
            paused: Notify::new(),
            of_provider,
            provider: provider.into(),
        }
    }

    /// A place, if one is free and nobody waits for it.
    pub fn try_enter(self: &Arc<Self>, policy: SlotPolicy) -> Option<Slot> {
        self.set_max(policy.max);
        let now = now();
        let is_taken = self.state.lock().take(now);
        is_taken.then(|| self.slot(now))
    }

    /// A place, as soon as one is free. The future may be dropped: it leaves the queue at once.
    ///
    /// # Errors
    /// As many wait as may, or it took too long.
    pub async fn enter(self: &Arc<Self>, policy: SlotPolicy, who: Applicant) -> Result<Slot, NoSlot> {
        self.set_max(policy.max);
        let overflow = policy.overflow.filter(|_| who.has_other);
        // Who has another target waits no longer than it may be expected to.
        let latest = now() + overflow.map_or(policy.wait, |overflow| overflow.min(policy.wait));
        let deadline = who.deadline.map_or(latest, |deadline| deadline.min(latest));
        let mut waiting = {
            let now = now();
            let mut state = self.state.lock();
            if state.take(now) {
                return Ok(self.slot(now));
            }
            if overflow.is_some_and(|bound| state.is_too_long(who.priority, bound, now)) {
                return Err(NoSlot::TooLong);
            }
            let room = usize::try_from(policy.queue).unwrap_or(usize::MAX);
            if room == 0 {
                return Err(NoSlot::Full);
            }
            if state.queue.len() >= room {
                // Who is displaced hears of it by its sender, which is dropped.
                state.queue.displace(who.priority, who.workspace).ok_or(NoSlot::Full)?;
            }
            let (sender, receiver) = oneshot::channel();
            let ticket = state.queue.push(who.priority, who.workspace, deadline, sender);
            Waiting { slots: self, ticket, receiver }
        };
        loop {
            let change = self.paused.notified();
            let end = self.pause_end();
            let wake = end.map_or(deadline, |end| end.min(deadline));
            tokio::select! {
                biased;
                given = &mut waiting.receiver => return given.map_err(|_| NoSlot::Full),
                () = change => {}
                () = tokio::time::sleep_until(wake.into()) => {
                    if end.is_none_or(|end| end > deadline) {
                        return Err(if overflow.is_some() { NoSlot::TooLong } else { NoSlot::Late });
                    }
                    self.end_pause();
                }
            }
        }
    }

    /// Gives no place to anybody before `until`: a provider has said so. Who has one keeps it.
    pub fn pause(&self, until: Instant) {
        let is_longer = {
            let mut state = self.state.lock();
            let is_longer = state.paused_until.is_none_or(|end| end < until);
            if is_longer {
                state.paused_until = Some(until);
            }
            is_longer
        };
        if is_longer {
            self.paused.notify_waiters();
        }
    }

    fn pause_end(&self) -> Option<Instant> {
        self.state.lock().paused_until
    }

    /// Gives the free places to those who wait, if the pause is over.
    fn end_pause(self: &Arc<Self>) {
        self.state.lock().unless_paused(now());
        while self.grant_free() {}
    }

    /// How many places there are from here on. Where there are more than before, those who wait get them.
    fn set_max(self: &Arc<Self>, max: MaxSlots) {
        let is_more = {
            let mut state = self.state.lock();
            match max {
                MaxSlots::Fixed(max) => {
                    state.learner = None;
                    state.set_max(max)
                }
                MaxSlots::Learned => {
                    let learned = state.learner.get_or_insert_default().places();
                    state.set_max(learned)
                }
            }
        };
        while is_more && self.grant_free() {}
    }

    /// Notes what an attempt showed, where places are learned from that.
    fn learn(self: &Arc<Self>, note: impl FnOnce(&mut Learner)) {
        let is_more = {
            let mut state = self.state.lock();
            let is_full = state.is_full();
            let Some(learner) = &mut state.learner else { return };
            if is_full {
                learner.note_full();
            }
            note(learner);
            let learned = learner.places();
            state.set_max(learned)
        };
        while is_more && self.grant_free() {}
    }

    fn slot(self: &Arc<Self>, since: Instant) -> Slot {
        Slot { slots: Some(Arc::clone(self)), since, is_success: false }
    }

    /// Gives a free place to the next one who waits; whether there were both.
    fn grant_free(self: &Arc<Self>) -> bool {
        let now = now();
        let next = {
            let mut state = self.state.lock();
            let may_enter = state.in_use < state.max && state.unless_paused(now);
            let next = if may_enter { state.queue.pop() } else { None };
            if next.is_some() {
                state.in_use += 1;
                state.expected.note_taken(now);
            }
            next
        };
        let Some(next) = next else { return false };
        // Of one who has left meanwhile it is dropped, and goes to the one after.
        drop(next.send(self.slot(now)));
        true
    }

    /// A place is free again: the next one gets it, unless there are fewer than before. `since`: when it was taken.
    fn leave(self: Arc<Self>, since: Instant, is_success: bool) {
        let now = now();
        self.state.lock().expected.note_left(since, now, is_success);
        loop {
            let next = {
                let mut state = self.state.lock();
                let may_enter = state.in_use <= state.max && state.unless_paused(now);
                let next = if may_enter { state.queue.pop() } else { None };
                match next {
                    Some(_) => state.expected.note_taken(now),
                    None => state.in_use -= 1,
                }
                next
            };
            let Some(next) = next else { return };
            match next.send(self.slot(now)) {
                Ok(()) => return,
                // It has left: the place is still to be given, and this is not dropped as one.
                Err(mut slot) => {
                    drop(slot.slots.take());
                    self.state.lock().expected.note_left(now, now, false);
                }
            }
        }
    }

    fn view(&self) -> SlotsView {
        let now = now();
        let mut state = self.state.lock();
        let expected = if state.has_room(now) { None } else { state.expected_wait(Priority::Normal, now) };
        SlotsView {
            expected_wait: expected.unwrap_or_default(),
            is_paused: !state.unless_paused(now),
            of_provider: self.of_provider,
            provider: Arc::clone(&self.provider),
            max: state.max,
            in_use: state.in_use,
            waiting: state.queue.len(),
        }
    }
}

impl State {
    /// Takes a place, if one is free and nobody waits for it.
    fn take(&mut self, now: Instant) -> bool {
        let is_free = self.has_room(now);
        if is_free {
            self.in_use += 1;
            self.expected.note_taken(now);
            self.expected.note_free();
        }
        if self.is_full()
            && let Some(learner) = &mut self.learner
        {
            learner.note_full();
        }
        is_free
    }

    /// Whether all places are taken, or somebody waits for one.
    fn is_full(&self) -> bool {
        self.in_use >= self.max || self.queue.len() > 0
    }

    /// How long one that comes now would wait. `None`: that is not known.
    fn expected_wait(&self, priority: Priority, now: Instant) -> Option<Duration> {
        let paused = self.paused_until.map_or(Duration::ZERO, |end| end.saturating_duration_since(now));
        let ahead = self.queue.ahead(priority);
        // In a pause there may be places enough.
        let free = usize::try_from(self.max.saturating_sub(self.in_use)).unwrap_or(usize::MAX);
        let in_turn = match ahead.checked_sub(free) {
            Some(ahead) => self.expected.after(ahead, self.max, self.in_use, now)?,
            None => Duration::ZERO,
        };
        Some(in_turn.saturating_add(paused))
    }

    fn is_too_long(&mut self, priority: Priority, bound: Duration, now: Instant) -> bool {
        let expected = self.expected_wait(priority, now);
        expected.is_some_and(|expected| self.expected.is_too_long(priority, expected, bound))
    }

    /// Whether there are more places than before.
    fn set_max(&mut self, max: u32) -> bool {
        let is_more = max > self.max;
        self.max = max;
        is_more
    }

    /// Whether a place is free, and nobody waits for it.
    fn has_room(&mut self, now: Instant) -> bool {
        self.in_use < self.max && self.queue.len() == 0 && self.unless_paused(now)
    }

    /// Whether no pause lasts at `now`. One that is over is forgotten.
    fn unless_paused(&mut self, now: Instant) -> bool {
        if self.paused_until.is_some_and(|end| end <= now) {
            self.paused_until = None;
        }
        self.paused_until.is_none()
    }
}

impl Slot {
    /// Gives no place of its kind to anybody before `until`.
    pub fn pause(&self, until: Instant) {
        self.slots.iter().for_each(|slots| slots.pause(until));
    }

    /// The attempt's response has its first content. `is_streamed`: the rest follows as it is made; else it is complete.
    pub fn note_content(&mut self, is_streamed: bool) {
        self.is_success = true;
        let now = now();
        let spent = now.saturating_duration_since(self.since);
        self.learn(|learner| learner.note_content(is_streamed, spent, now));
    }

    /// The attempt ends, and its response had no content.
    pub fn note_unanswered(&self, is_streamed: bool) {
        let now = now();
        let spent = now.saturating_duration_since(self.since);
        self.learn(|learner| learner.note_unanswered(is_streamed, spent, now));
    }

    /// The provider has said that it has too much to do.
    pub fn note_overload(&self) {
        self.learn(|learner| learner.note_overload(now()));
    }

    fn learn(&self, note: impl FnOnce(&mut Learner)) {
        if let Some(slots) = &self.slots {
            slots.learn(note);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(slots) = self.slots.take() {
            slots.leave(self.since, self.is_success);
        }
    }
}

/// One who waits. Dropped, it leaves the queue; a place that was on its way to it goes to the next.
#[derive(Debug)]
struct Waiting<'s> {
    slots: &'s Slots,
    ticket: Ticket,
    receiver: oneshot::Receiver<Slot>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.slots.state.lock().queue.remove(&self.ticket);
    }
}

#[cfg(test)]
mod tests;
