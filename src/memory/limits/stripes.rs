//! What threads have borrowed of hot buckets, so that their requests judge no limit and wait for no other thread.
//!
//! A bucket that many requests use is striped: each thread borrows a portion of what is left of it, and its requests take of that. To the
//! bucket a portion is held, so nothing is overspent. Near the limit or its alert nothing is lent, and whoever wants to know what was
//! used recalls the portions first. Not here: hard and smooth limits, which judge each request in the bucket itself, and counters that
//! gateways share (`shared::leases`).

use super::amount::Estimate;
use super::buckets::{Buckets, IsHash, Sink};
use super::entity::{Entity, Hold, State};
use super::limit::{Limit, RateOf};
use super::limit_set::Selection;
use super::reservation::{Held, Reservation};
use super::tightest::{Remaining, Tightest};
use super::window::Window;
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// Threads get one in turn.
const STRIPES: usize = 32;
/// The most buckets that one stripe borrows from at a time. Requests of further buckets are judged in the bucket, as they are without
/// stripes.
const MAX_PORTIONS: usize = 1_024;
/// A portion is at most one of this many parts of what is left. All stripes together borrow at most a sixteenth of it, so what is
/// left can look smaller by that.
const PARTS_OF_REST: i64 = 16 * STRIPES as i64;
/// The most and the fewest requests for which a portion has room.
const MOST_REQUESTS: i64 = 256;
const LEAST_REQUESTS: i64 = 8;
/// A portion may be used for this many milliseconds without looking at the bucket, from which others take what is left.
const MAX_AGE: i64 = 500;
/// The number of requests in half a second that makes a bucket hot.
const HOT: u16 = 16;

/// The stripes of all threads.
#[derive(Debug)]
pub(super) struct Stripes {
    stripes: Box<[Arc<Stripe>]>,
    /// For the next thread.
    next_number: AtomicUsize,
    /// Whether anything is lent: requests look no further if not.
    is_used: AtomicBool,
    /// How many requests make a bucket hot.
    hot: u16,
}

/// What one thread has borrowed. Others touch it only to recall portions. On cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Stripe {
    portions: Mutex<Portions>,
    buckets: Weak<Buckets>,
}

#[derive(Debug, Default)]
struct Portions {
    present: HashMap<u128, Portion, IsHash>,
    /// Portions of windows, and of generations before a reset, that have ended, for requests under way that used them.
    past: HashMap<(u128, Period), Portion>,
}

/// What is borrowed of one bucket. The bucket holds `room`, `spent` and what requests under way have taken.
#[derive(Debug)]
struct Portion {
    limit: Arc<Limit>,
    entity: Arc<Entity>,
    period: Period,
    window: Window,
    /// `false` once it was recalled: what requests under way have taken is settled in the bucket. Its period may be over then, not before.
    is_lent: bool,
    /// For requests to come.
    room: i64,
    /// By requests that are over; the bucket does not count it as spent yet.
    spent: i64,
    under_way: u32,
    /// What was left of the limit beside the room when it was lent last.
    rest: i64,
    /// When that was, milliseconds since 1970.
    lent_at: i64,
}

/// Usage is counted together within one: the bucket's window and generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Period {
    epoch: u32,
    generation: u64,
}

impl Period {
    fn of(state: &State) -> Self {
        Self { epoch: state.epoch, generation: state.generation() }
    }
}

/// What a request has taken of one portion.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    bucket: u128,
    period: Period,
    amount: i64,
}

impl Stripes {
    pub(super) fn new(buckets: &Weak<Buckets>) -> Self {
        let stripe = |_| Arc::new(Stripe { portions: Mutex::default(), buckets: Weak::clone(buckets) });
        Self {
            stripes: (0..STRIPES).map(stripe).collect(),
            next_number: AtomicUsize::new(0),
            is_used: AtomicBool::new(false),
            hot: HOT,
        }
    }

    /// Stripes every bucket that may be.
    #[cfg(test)]
    pub(super) fn always(buckets: &Weak<Buckets>) -> Self {
        Self { hot: 0, ..Self::new(buckets) }
    }

    /// How many portions there are, lent or with requests under way.
    #[cfg(test)]
    pub(super) fn portions(&self) -> usize {
        let count = |portions: &Portions| portions.present.len() + portions.past.len();
        self.stripes.iter().map(|stripe| count(&stripe.portions.lock())).sum()
    }

    /// The stripe of this thread.
    fn own(&self) -> Option<&Arc<Stripe>> {
        let number = NUMBER.get().unwrap_or_else(|| {
            let number = self.next_number.fetch_add(1, Ordering::Relaxed);
            NUMBER.set(Some(number));
            number
        });
        self.stripes.get(number % STRIPES)
    }

    /// Holds what a request needs in this thread's portions. `None`: one of the portions has too little, and nothing is held.
    pub(super) fn reserve(
        &self,
        selection: &Selection<'_>,
        estimate: &Estimate<'_>,
        now: i64,
    ) -> Option<Reservation> {
        if !self.is_used.load(Ordering::Relaxed) || estimate.is_made {
            return None;
        }
        let stripe = self.own()?;
        let mut all_taken = Vec::with_capacity(selection.items.len());
        let mut tightest = Tightest::default();
        let mut portions = stripe.portions.lock();
        for item in selection.items.iter().filter(|item| estimate.concerns(item.limit)) {
            let amount = estimate.likely(item.limit.counts()).unwrap_or(0);
            let portion = portions.present.get_mut(&item.bucket);
            let Some((taken, rate)) = portion.and_then(|portion| portion.take(item.limit, amount, now))
            else {
                portions.give_back(&all_taken);
                return None;
            };
            all_taken.push(taken);
            tightest.add(rate);
        }
        drop(portions);
        (!all_taken.is_empty()).then(|| Reservation::striped(Arc::clone(stripe), all_taken, tightest))
    }

    /// Whether the portions that are lent of a bucket would change the judgment of a request that needs this amount: then they are to be
    /// [`recall`](Self::recall)ed.
    #[inline]
    pub(super) fn is_near(limit: &Limit, state: &State, amount: i64, now: i64) -> bool {
        if !state.is_striped {
            return false;
        }
        // A request that began before the limit was edited has the limit of then.
        let mark = mark_of(limit, state).min(state.lent_up_to);
        let is_near = portion_of(mark, state.used(limit, now), amount) == 0;
        is_near || !may_lend(limit) || !state.is_current(limit, now)
    }

    /// Whether many requests use a bucket. Counts the one that asks.
    #[inline]
    pub(super) fn is_hot(&self, state: &mut State, now: i64) -> bool {
        state.note_use(now) >= self.hot || state.is_striped
    }

    /// Whether a portion of a bucket may be lent for requests like one of this amount.
    pub(super) fn may_lend(limit: &Limit, state: &State, amount: i64, now: i64) -> bool {
        let mark = mark_of(limit, state).min(state.lent_up_to);
        may_lend(limit) && portion_of(mark, state.used(limit, now), amount) > 0
    }

    /// Lends this thread a portion of a bucket, for requests like this one, which has been judged.
    pub(super) fn lend(
        &self,
        limit: &Arc<Limit>,
        entity: &Arc<Entity>,
        state: &mut State,
        amount: i64,
        now: i64,
    ) {
        let mark = mark_of(limit, state).min(state.lent_up_to);
        let wanted = portion_of(mark, state.used(limit, now), amount);
        let Some(stripe) = self.own().filter(|_| wanted > 0) else { return };
        let mut portions = stripe.portions.lock();
        let Some(portion) = portions.place(limit, entity, state) else { return };
        (state.is_striped, state.lent_up_to) = (true, mark);
        let more = wanted.saturating_sub(portion.room).max(0);
        portion.room = portion.room.saturating_add(more);
        state.held = state.held.saturating_add(more);
        (portion.rest, portion.lent_at) = (limit.value().saturating_sub(state.used(limit, now)), now);
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
    }

    /// Takes back what is lent of a bucket, and counts what was used of it. `state` is the bucket's, locked.
    pub(super) fn recall(&self, entity: &Entity, state: &mut State, sink: &Sink, now: i64) {
        if !state.is_striped {
            return;
        }
        (state.is_striped, state.lent_up_to) = (false, i64::MAX);
        let mut used = None;
        for stripe in &self.stripes {
            let mut portions = stripe.portions.lock();
            let Some(portion) = portions.present.get_mut(&entity.id) else { continue };
            state.held = state.held.saturating_sub(portion.room).saturating_sub(portion.spent);
            state.spent = state.spent.saturating_add(portion.spent);
            if portion.spent != 0 {
                used = Some((Arc::clone(&portion.limit), Arc::clone(&portion.entity)));
            }
            (portion.room, portion.spent, portion.is_lent) = (0, 0, false);
            if portion.under_way == 0 {
                portions.present.remove(&entity.id);
            }
        }
        if let Some((limit, entity)) = used {
            sink.marks(&limit, &entity, state, now);
            sink.changed(&limit, &entity, state);
        }
    }

    /// Takes back all that is lent: so that the journal gets it, and what is no longer used does not stay lent.
    pub(super) fn recall_all(&self, sink: &Sink, now: i64) {
        let mut lent = HashMap::new();
        for stripe in &self.stripes {
            let portions = stripe.portions.lock();
            let of_stripe = portions.present.iter().filter(|(_, portion)| portion.is_lent);
            lent.extend(of_stripe.map(|(id, portion)| (*id, Arc::clone(&portion.entity))));
        }
        self.is_used.store(!lent.is_empty(), Ordering::Relaxed);
        for entity in lent.into_values() {
            self.recall(&entity, &mut entity.state.lock(), sink, now);
        }
    }
}

impl Portions {
    /// The portion of a bucket, in its present period; empty where nothing is lent. `None`: there is no room for another one.
    fn place(&mut self, limit: &Arc<Limit>, entity: &Arc<Entity>, state: &State) -> Option<&mut Portion> {
        let period = Period::of(state);
        let before = self.present.get(&entity.id).map(|portion| portion.period);
        if before.is_some_and(|before| before != period)
            && let Some(past) = self.present.remove(&entity.id)
            && past.under_way > 0
        {
            self.past.insert((entity.id, past.period), past);
        }
        if before.is_none() && self.present.len() >= MAX_PORTIONS {
            return None;
        }
        let portion = self.present.entry(entity.id).or_insert_with(|| Portion {
            limit: Arc::clone(limit),
            entity: Arc::clone(entity),
            period,
            window: state.window,
            is_lent: true,
            room: 0,
            spent: 0,
            under_way: 0,
            rest: 0,
            lent_at: 0,
        });
        (portion.window, portion.is_lent) = (state.window, true);
        if !limit.is_same(&mut portion.limit) {
            portion.limit = Arc::clone(limit);
        }
        Some(portion)
    }

    /// As if it had not been taken.
    fn give_back(&mut self, taken: &[Taken]) {
        for taken in taken {
            if let Some(portion) = self.present.get_mut(&taken.bucket) {
                portion.room = portion.room.saturating_add(taken.amount);
                portion.under_way = portion.under_way.saturating_sub(1);
            }
        }
    }

    /// Ends what a request has taken. What is not the portion's business is returned, to be settled in the bucket.
    fn settle(&mut self, taken: Taken, actual: &impl Fn(&Limit, i64) -> i64) -> Option<Held> {
        let Taken { bucket, period, amount } = taken;
        let is_present = self.present.get(&bucket).is_some_and(|portion| portion.period == period);
        let portion =
            if is_present { self.present.get_mut(&bucket)? } else { self.past.get_mut(&(bucket, period))? };
        portion.under_way = portion.under_way.saturating_sub(1);
        let actual = actual(&portion.limit, amount);
        let room = portion.room.saturating_add(amount).saturating_sub(actual);
        if portion.is_lent && room >= 0 {
            portion.room = room;
            portion.spent = portion.spent.saturating_add(actual);
            return None;
        }
        let held = portion.held(amount);
        if !portion.is_lent && portion.under_way == 0 {
            if is_present {
                self.present.remove(&bucket);
            } else {
                self.past.remove(&(bucket, period));
            };
        }
        Some(held)
    }
}

impl Portion {
    /// What a request takes, and what is left of a rate then. `None`: there is too little, it was lent too long ago to tell what is left,
    /// or it is another window or limit.
    fn take(
        &mut self,
        limit: &Arc<Limit>,
        amount: i64,
        now: i64,
    ) -> Option<(Taken, Option<(RateOf, Remaining)>)> {
        let is_new = now < self.lent_at.saturating_add(MAX_AGE);
        let is_valid = is_new && self.window.contains(now) && limit.is_same(&mut self.limit);
        if !is_valid || self.room < amount.max(1) {
            return None;
        }
        self.room -= amount;
        self.under_way += 1;
        let left = self.rest.saturating_add(self.room);
        let taken = Taken { bucket: self.entity.id, period: self.period, amount };
        Some((taken, Remaining::of(limit, left, self.window, now)))
    }

    fn held(&self, amount: i64) -> Held {
        let Period { epoch, generation } = self.period;
        let hold = Hold { amount, is_clamped: false, epoch, generation, window: self.window };
        Held { limit: Arc::clone(&self.limit), entity: Arc::clone(&self.entity), hold }
    }
}

impl Stripe {
    /// `None` when the limits have ended.
    pub(super) fn buckets(&self) -> Option<Arc<Buckets>> {
        self.buckets.upgrade()
    }

    /// Ends what a request has taken; `actual` is what was used of a limit of which so much was taken. What is returned is settled in its
    /// bucket: there is no room for it here, or its period is over.
    pub(super) fn settle(&self, taken: &mut Vec<Taken>, actual: impl Fn(&Limit, i64) -> i64) -> Vec<Held> {
        let mut portions = self.portions.lock();
        taken.drain(..).filter_map(|taken| portions.settle(taken, &actual)).collect()
    }
}

/// Whether portions of it may be lent.
fn may_lend(limit: &Limit) -> bool {
    !limit.hard && !limit.smooth
}

/// The usage that must be noticed at once: that of the limit, or of its alert.
fn mark_of(limit: &Limit, state: &State) -> i64 {
    let alert_at = limit.alert_at().filter(|_| !state.is_threshold_sent(limit));
    limit.value().min(alert_at.unwrap_or(i64::MAX))
}

/// How much a stripe may borrow of a bucket of which so much is used, for requests like one of this amount. 0: the mark is too near.
fn portion_of(mark: i64, used: i64, amount: i64) -> i64 {
    let amount = amount.max(1);
    let portion = (mark.saturating_sub(used) / PARTS_OF_REST).min(amount.saturating_mul(MOST_REQUESTS));
    if portion < amount.saturating_mul(LEAST_REQUESTS) { 0 } else { portion }
}

/// From here on this thread has the stripe of this number.
#[cfg(test)]
pub(super) fn become_thread(number: usize) {
    NUMBER.set(Some(number));
}

thread_local! {
    /// Which stripe the thread has.
    static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
}
