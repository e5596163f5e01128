//! What this gateway has borrowed of one bucket of shared counters, and what requests have taken of it.
//!
//! In the store it is a hold like any other: what is lent here is held there, so nothing is overspent. Pure: times are arguments, and what
//! the store is to do is a value. Not here: the leases of a gateway together, and sending (`leases`).

use super::claim::{BucketReply, Claim, LeaseOrder, LeaseReply};
use super::recent_use::RecentUse;
use crate::limits::entity::State;
use crate::limits::limit::{Limit, RateOf};
use crate::limits::tightest::Remaining;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// How long what was lent may be taken, milliseconds.
const LIFETIME: i64 = 2_000;
/// After so long what was used is settled, and the lease renewed.
const RENEWED_AFTER: i64 = 1_000;
/// No order comes sooner after another one.
const LEAST_PAUSE: i64 = 20;
/// How long nothing is borrowed after the store had too little left.
const REFUSED_PAUSE: i64 = 1_000;
/// A bucket with this many requests in two seconds is hot, and a lease must have room for as many.
const LEAST_REQUESTS: i64 = 4;
/// A lease is at most one of this many parts of a limit, and one of this many parts (for each gateway) of what is left of it.
const PARTS_OF_LIMIT: i64 = 50;
const PARTS_OF_REST: i64 = 4;
/// A lease is not used in the last milliseconds of its window, because the store's clock is known only roughly.
const MARGIN: i64 = 50;
/// Nothing is borrowed for less than this.
const BORROW_MARGIN: i64 = 200;

/// The present, as orders depend on it. Times are milliseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub now: i64,
    /// By the store's clock.
    pub theirs: i64,
    pub gateways: usize,
    /// Whether leases are used (`limits.leases`).
    pub is_on: bool,
}

/// The lease of one bucket; empty while nothing is borrowed of it.
#[derive(Debug)]
pub(super) struct Lease {
    limit: Arc<Limit>,
    entity: u128,
    value_key: Arc<str>,
    /// As the store has replied last. `epoch` counts its windows, `resets` its manual resets.
    state: State,
    epoch: i64,
    resets: u32,
    /// What requests have taken in the store since the last order was sent: its reply may not have it.
    noted: i64,
    /// What the store holds for it: `room`, `held` and `spent` together.
    hold: Option<(Uuid, i64)>,
    /// For requests to come.
    room: i64,
    /// By requests under way.
    held: i64,
    /// By requests that are over, and not settled in the store.
    spent: i64,
    /// The room when it was lent.
    lent: i64,
    /// When requests may take of it no more.
    until: i64,
    /// When nothing is borrowed before.
    not_before: i64,
    is_ending: bool,
    recent: RecentUse,
    /// Windows and resets that were noticed, so that what was taken in one is not settled in another.
    windows: u32,
    noticed_resets: u32,
    sent_at: i64,
    /// Sent, and not replied to.
    order: Option<Sent>,
    /// How many were replied to.
    replies: u64,
}

#[derive(Debug)]
struct Sent {
    order: LeaseOrder,
    /// In which window.
    windows: u32,
    at: i64,
}

/// What a request has taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeaseHold {
    pub amount: i64,
    windows: u32,
    resets: u32,
}

/// What a reply has reached: the limit, and what alerts show.
pub(super) struct Marks {
    pub limit: Arc<Limit>,
    pub value_key: Arc<str>,
    pub state: State,
}

impl Lease {
    /// Of a bucket that was used.
    pub(super) fn new(claim: &Claim) -> Self {
        Self {
            limit: Arc::clone(&claim.limit),
            entity: claim.entity,
            value_key: Arc::clone(&claim.value_key),
            state: State::reported(claim.window, 0, 0, 0),
            epoch: 0,
            resets: 0,
            noted: 0,
            hold: None,
            room: 0,
            held: 0,
            spent: 0,
            lent: 0,
            until: 0,
            not_before: 0,
            is_ending: false,
            recent: RecentUse::default(),
            windows: 0,
            noticed_resets: 0,
            sent_at: 0,
            order: None,
            replies: 0,
        }
    }

    /// Whether it is of this limit, whatever its value is.
    pub(super) fn is_of(&self, limit: &Limit) -> bool {
        (self.limit.id, self.limit.index) == (limit.id, limit.index)
    }

    /// Whether something is borrowed.
    pub(super) fn is_held(&self) -> bool {
        self.hold.is_some()
    }

    /// How many orders were replied to, and how many will have been when one of now is.
    pub(super) fn replies(&self) -> u64 {
        self.replies
    }

    pub(super) fn replies_to_come(&self) -> u64 {
        self.replies.saturating_add(1).saturating_add(u64::from(self.order.is_some()))
    }

    /// Whether the store has all of it: nothing is lent, and nothing was used that is not settled.
    pub(super) fn is_settled(&self) -> bool {
        self.order.is_none() && self.spent == 0 && self.hold.map_or(0, |(_, amount)| amount) == self.held
    }

    /// Whether it may be removed without losing a count.
    pub(super) fn is_idle(&mut self, now: i64) -> bool {
        self.is_settled() && self.hold.is_none() && self.recent.sum(now).requests == 0
    }

    /// What is lent, and no request has taken: requests do not get it at the store.
    pub(super) fn room(&self) -> i64 {
        self.room
    }

    /// A request has taken of the bucket in the store, which replied so. True: it is time to borrow.
    pub(super) fn note(&mut self, claim: &Claim, reply: &BucketReply, moment: &Moment) -> bool {
        self.recent.add(claim.amount, moment.now);
        // One that came earlier may be read later.
        if reply.epoch >= self.epoch && claim.limit.generation >= self.limit.generation {
            if reply.epoch > self.epoch {
                self.begin(reply.epoch);
            }
            self.note_resets(reply.resets);
            self.change(&claim.limit);
            if self.hold.is_none() && self.order.is_none() {
                self.state = reply.state.clone();
            } else {
                // The reply may be older than the last one about the lease: what was taken is all that is certain.
                self.state.window = reply.state.window;
                self.state.held = self.state.held.saturating_add(reply.amount);
                self.noted = self.noted.saturating_add(reply.amount);
            }
        }
        self.is_wanting(moment)
    }

    /// The room that a request needs; `None`: it has not got it.
    pub(super) fn take(&mut self, limit: &Arc<Limit>, amount: i64, moment: &Moment) -> Option<LeaseHold> {
        let Moment { now, theirs, .. } = *moment;
        let is_lent = now < self.until && self.until.saturating_sub(now) <= 2 * LIFETIME;
        let is_in_window = self.state.window.contains(theirs.saturating_add(MARGIN));
        if !(is_lent && is_in_window && self.room >= amount.max(1) && limit.is_same(&mut self.limit)) {
            return None;
        }
        self.recent.add(amount, now);
        self.room -= amount;
        self.held = self.held.saturating_add(amount);
        Some(LeaseHold { amount, windows: self.windows, resets: self.noticed_resets })
    }

    /// Whether it is to be renewed, before it is used up.
    pub(super) fn is_low(&self) -> bool {
        self.order.is_none() && self.room.saturating_mul(2) < self.lent
    }

    /// What is left of a rate for requests of this gateway: of what the store had, and of what it lent.
    pub(super) fn remaining(&self, theirs: i64) -> Option<(RateOf, Remaining)> {
        let (of, mut remaining) = self.state.remaining(&self.limit, theirs)?;
        remaining.remaining = remaining.remaining.saturating_add(self.room);
        Some((of, remaining))
    }

    /// A request is over, and has used this instead of what it took.
    pub(super) fn settle(&mut self, hold: LeaseHold, actual: i64) {
        if hold.windows != self.windows {
            return;
        }
        self.held = self.held.saturating_sub(hold.amount);
        // What was taken before a reset counts for the time before it.
        let actual = if hold.resets == self.noticed_resets { actual } else { 0 };
        self.spent = self.spent.saturating_add(actual);
        self.room = self.room.saturating_add(hold.amount.saturating_sub(actual)).max(0);
    }

    /// Lends nothing any more, and is settled at once. `pause`: nothing is borrowed for a while.
    pub(super) fn end(&mut self, now: i64, pause: bool) {
        self.until = 0;
        self.is_ending = !self.is_settled();
        if pause {
            self.not_before = now.saturating_add(REFUSED_PAUSE);
        }
    }

    /// The order that is to be sent now: once more the last one, if it was not replied to.
    pub(super) fn due(&mut self, moment: &Moment, lifetime: Duration) -> Option<LeaseOrder> {
        if let Some(sent) = &self.order {
            return Some(sent.order.clone());
        }
        self.is_ending &= !self.is_settled();
        let (wanted, least) = self.wanted(moment);
        if !self.is_due(moment.now, wanted, lifetime) {
            return None;
        }
        if wanted == 0 {
            (self.room, self.until) = (0, 0);
        }
        let gateways = i64::try_from(moment.gateways).unwrap_or(i64::MAX).max(1);
        let order = LeaseOrder {
            limit: Arc::clone(&self.limit),
            entity: self.entity,
            value_key: Arc::clone(&self.value_key),
            window: self.state.window,
            before: self.hold,
            epoch: self.epoch,
            resets: self.resets,
            actual: std::mem::take(&mut self.spent),
            next: Uuid::now_v7(),
            kept: self.held.saturating_add(self.room),
            room: self.room,
            wanted,
            least,
            share: gateways.saturating_mul(PARTS_OF_REST),
            not_after: moment.theirs.saturating_add(LIFETIME),
            lifetime,
        };
        self.is_ending = false;
        self.noted = 0;
        self.sent_at = moment.now;
        self.order = Some(Sent { order: order.clone(), windows: self.windows, at: moment.now });
        Some(order)
    }

    /// What the store has made of the last order.
    pub(super) fn apply(&mut self, reply: &LeaseReply) -> Option<Marks> {
        let Sent { order, windows, at } = self.order.take()?;
        let is_gone = reply.amount < order.kept;
        let is_lost = is_gone && reply.epoch == self.epoch && order.before.is_some();
        // A request that waits for it waits for the next order.
        self.replies = self.replies.saturating_add(u64::from(!is_lost));
        let marks = Marks { limit: order.limit, value_key: order.value_key, state: reply.state.clone() };
        if windows != self.windows {
            return Some(marks);
        }
        if is_lost {
            // What was used before a reset counts for the time before it.
            let generation = marks.limit.generation;
            let is_present = (generation, order.resets) == (self.limit.generation, self.resets);
            self.lose(if is_present { order.actual } else { 0 });
        } else if is_gone || reply.epoch != self.epoch {
            self.begin(reply.epoch);
        }
        self.note_resets(reply.resets);
        self.state = reply.state.clone();
        self.state.held = self.state.held.saturating_add(self.noted);
        if is_gone {
            return Some(marks);
        }
        self.hold = (reply.amount > 0).then_some((order.next, reply.amount));
        let more = reply.amount.saturating_sub(order.kept);
        let less = order.room.saturating_sub(reply.room).max(0);
        self.room = self.room.saturating_add(more).saturating_sub(less).max(0);
        self.lent = self.room;
        let is_lent = order.wanted > 0 && reply.room > 0;
        if order.wanted > 0 && !is_lent {
            self.not_before = self.not_before.max(at.saturating_add(REFUSED_PAUSE));
        }
        self.until = if is_lent && !self.is_ending { at.saturating_add(LIFETIME) } else { 0 };
        Some(marks)
    }

    /// Another window: what was held in the one before is held no more.
    fn begin(&mut self, epoch: i64) {
        self.windows = self.windows.wrapping_add(1);
        (self.hold, self.room, self.held, self.spent, self.lent) = (None, 0, 0, 0, 0);
        (self.until, self.is_ending) = (0, false);
        (self.epoch, self.resets) = (epoch, 0);
    }

    /// The store has lost the hold, in a crash or a fail-over: the next order has what was used and what is under way held again.
    fn lose(&mut self, actual: i64) {
        (self.hold, self.room, self.lent) = (None, 0, 0);
        (self.until, self.is_ending) = (0, true);
        self.spent = self.spent.saturating_add(actual);
    }

    /// The usage was reset: what was used so far is of the time before.
    fn note_resets(&mut self, resets: u32) {
        if resets > self.resets {
            self.resets = resets;
            self.forget_spent();
        }
    }

    fn forget_spent(&mut self) {
        self.noticed_resets = self.noticed_resets.wrapping_add(1);
        self.spent = 0;
    }

    /// The limit was edited, perhaps: what was lent was a part of the one before.
    fn change(&mut self, limit: &Arc<Limit>) {
        if limit.is_same(&mut self.limit) {
            return;
        }
        if limit.generation != self.limit.generation {
            self.forget_spent();
        }
        self.limit = Arc::clone(limit);
        self.until = 0;
        self.is_ending = !self.is_settled();
    }

    fn is_wanting(&mut self, moment: &Moment) -> bool {
        let (wanted, _) = self.wanted(moment);
        wanted > 0 && self.order.is_none() && self.is_short(moment.now)
    }

    /// The room that a lease should have now, and the least that is worth it. 0: none.
    fn wanted(&mut self, moment: &Moment) -> (i64, i64) {
        let Moment { now, theirs, is_on, .. } = *moment;
        let recent = self.recent.sum(now);
        let is_in_window = self.state.window.contains(theirs.saturating_add(BORROW_MARGIN));
        let is_paused = self.is_ending || !is_on || now < self.not_before;
        if is_paused || !is_in_window || recent.requests < LEAST_REQUESTS {
            return (0, 1);
        }
        let least = (recent.amount / recent.requests).max(1).saturating_mul(LEAST_REQUESTS);
        let wanted = recent.amount.min(self.limit.value() / PARTS_OF_LIMIT);
        if wanted < least { (0, 1) } else { (wanted, least) }
    }

    /// Whether there is less room than requests may need soon.
    fn is_short(&self, now: i64) -> bool {
        let is_low = self.until == 0 || self.room.saturating_mul(2) < self.lent;
        is_low && now.saturating_sub(self.sent_at) >= LEAST_PAUSE
    }

    fn is_due(&self, now: i64, wanted: i64, lifetime: Duration) -> bool {
        let age = now.saturating_sub(self.sent_at);
        let lifetime = i64::try_from(lifetime.as_millis()).unwrap_or(i64::MAX);
        match self.hold {
            _ if wanted > 0 && self.is_short(now) => true,
            None => !self.is_settled(),
            Some(_) if self.is_ending || (wanted == 0 && self.room > 0) => true,
            // What requests hold for long would expire.
            Some(_) if self.is_settled() => age >= lifetime / 2,
            Some(_) => !(0..RENEWED_AFTER).contains(&age),
        }
    }
}

#[cfg(test)]
mod tests;
