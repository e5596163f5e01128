//! What a batch holds of budgets before its lines are sent. Each line takes what it holds out of it, so that nobody else can use up a
//! budget that was sufficient when the batch began.
//!
//! In memory only, and of budgets that this process counts alone: nobody is paid for it. A process that goes on with the batch holds
//! the rest anew. Rate limits are not held: they bound how fast lines are sent.

use super::amount::Estimate;
use super::buckets::{Buckets, Sink};
use super::entity::{Entity, State};
use super::limit::Limit;
use super::limit_set::Selection;
use super::refusal::{Cause, Refusal};
use super::reservation::Held;
use super::tightest::Tightest;
use super::window::Clock;
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// The most buckets that one batch may hold. Lines of further ones, by users for example, hold their own.
const MAX_BUCKETS: usize = 10_000;

/// What many requests are expected to use together.
#[derive(Debug, Default)]
pub struct AdvanceEstimate {
    parts: HashMap<u128, Part>,
}

/// Of one bucket.
#[derive(Debug)]
struct Part {
    limit: Arc<Limit>,
    entity: Arc<Entity>,
    /// The sum for those requests that the limit would let pass.
    amount: i64,
}

impl AdvanceEstimate {
    /// Whether no budget applies to any of the requests.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Adds a request. A request that a hard limit refuses in any case, because it has no bound or no price, adds
    /// nothing.
    pub(super) fn add(
        &mut self,
        buckets: &Buckets,
        selection: &Selection<'_>,
        estimate: &Estimate<'_>,
        clock: Clock<'_>,
    ) {
        let budgets = selection.items.iter().filter(|item| !item.limit.is_rate());
        for item in budgets.filter(|item| estimate.concerns(item.limit)) {
            let counted = item.limit.counts();
            let amount = if item.limit.hard && !item.limit.fit {
                estimate.hard_amount(item.limit, None).unwrap_or(0)
            } else {
                estimate.likely(counted).unwrap_or(0)
            };
            if let Some(part) = self.parts.get_mut(&item.bucket) {
                part.amount = part.amount.saturating_add(amount);
            } else if self.parts.len() < MAX_BUCKETS {
                let entity = buckets.entity(item, selection.facts, clock);
                self.parts.insert(item.bucket, Part { limit: Arc::clone(item.limit), entity, amount });
            }
        }
    }

    /// Holds for all limits, or for none. A hard limit must have room for the whole sum; of any other limit what is
    /// left is held.
    ///
    /// # Errors
    /// The refusal of the limit that has no room.
    pub(super) fn hold(
        &self,
        buckets: &Buckets,
        Clock { calendar, now }: Clock<'_>,
    ) -> Result<Advance, Box<Refusal>> {
        let mut parts: Vec<&Part> = self.parts.values().collect();
        // One order for all, so that no two wait for each other.
        parts.sort_unstable_by_key(|part| part.entity.id);
        let mut locked: Vec<(&Part, MutexGuard<'_, State>, i64)> = Vec::with_capacity(parts.len());
        for part in parts {
            let mut state = part.entity.state.lock();
            let past = state.bring_up_to(&part.limit, calendar, now);
            buckets.sink.past(&part.limit, &part.entity, &mut state, past);
            let used = state.used(&part.limit, now);
            locked.push((part, state, used));
        }
        let mut refusals = Vec::new();
        for (part, state, used) in &locked {
            if let Some(cause) = part.objection(state, *used) {
                let value_key = &part.entity.value_key;
                refusals.push(Refusal::by(&part.limit, state, value_key, cause, part.amount, now));
            }
        }
        if let Some(refusal) = Refusal::reported(refusals, Tightest::default()) {
            return Err(Box::new(refusal));
        }
        let hold = |(part, mut state, used): (&Part, MutexGuard<'_, State>, i64)| {
            let room = part.limit.value().saturating_sub(used).max(0);
            let hold = state.take(part.amount.min(room), false);
            Held { limit: Arc::clone(&part.limit), entity: Arc::clone(&part.entity), hold }
        };
        let parts = locked.into_iter().map(hold).collect();
        Ok(Advance { parts: Arc::new(Mutex::new(parts)), sink: Arc::clone(&buckets.sink) })
    }
}

impl Part {
    fn objection(&self, state: &State, used: i64) -> Option<Cause> {
        let value = self.limit.value();
        let most = if self.limit.hard && !self.limit.fit { self.amount } else { 0 };
        if state.spent >= value {
            return Some(Cause::Spent);
        }
        if state.spent.saturating_add(most) > value {
            return Some(Cause::DoesNotFit);
        }
        (used >= value || used.saturating_add(most) > value).then_some(Cause::Reserved)
    }
}

/// The rest of what a batch holds. Ends when it is dropped.
#[derive(Debug)]
pub struct Advance {
    parts: Arc<Mutex<Vec<Held>>>,
    sink: Arc<Sink>,
}

/// How much of what one request holds was its batch's: for each of its holds, in their order. The batch has again what the request did not
/// use because nothing was charged for it: its line may be sent again.
#[derive(Debug)]
pub(super) struct Loan {
    parts: Weak<Mutex<Vec<Held>>>,
    amounts: Vec<i64>,
}

/// What is left of a batch's hold, while one request is judged: the buckets do not count what is lent to that request.
pub(super) struct Lending<'a>(MutexGuard<'a, Vec<Held>>);

impl Advance {
    /// Before any bucket is locked, so that there is one order for all.
    pub(super) fn lend(&self) -> Lending<'_> {
        Lending::new(&self.parts)
    }

    /// Kept with the holds of a request, which end with these amounts given back if nothing is charged for it.
    pub(super) fn loan(&self, amounts: Vec<i64>) -> Loan {
        Loan { parts: Arc::downgrade(&self.parts), amounts }
    }
}

impl Loan {
    /// What is left of the batch's hold. To be locked before any bucket, as [`Advance::lend`] does.
    pub(super) fn parts(&self) -> Option<Arc<Mutex<Vec<Held>>>> {
        self.parts.upgrade()
    }

    /// What to give back if nothing is charged for the request.
    pub(super) fn into_amounts(self) -> Vec<i64> {
        self.amounts
    }

    /// Takes out those of its amounts, in the order of the holds.
    pub(super) fn take_those(&mut self, are_taken: impl Iterator<Item = bool>) -> Self {
        let all = std::mem::take(&mut self.amounts).into_iter().zip(are_taken);
        let (taken, kept): (Vec<_>, Vec<_>) = all.partition(|(_, is_taken)| *is_taken);
        let amounts = |part: Vec<(i64, bool)>| part.into_iter().map(|(amount, _)| amount).collect();
        self.amounts = amounts(kept);
        Self { parts: Weak::clone(&self.parts), amounts: amounts(taken) }
    }
}

impl<'a> Lending<'a> {
    pub(super) fn new(parts: &'a Mutex<Vec<Held>>) -> Self {
        Self(parts.lock())
    }

    fn part(&mut self, entity: &Arc<Entity>, state: &State) -> Option<&mut Held> {
        let epoch = state.epoch;
        self.0.iter_mut().find(|part| Arc::ptr_eq(&part.entity, entity) && part.hold.epoch == epoch)
    }

    /// Takes the batch's hold out of this bucket, until [`Lending::give_back`].
    pub(super) fn take_out(&mut self, entity: &Arc<Entity>, state: &mut State) {
        if let Some(part) = self.part(entity, state) {
            state.held = state.held.saturating_sub(part.hold.amount);
        }
    }

    /// Holds what the request has not taken. Returns how much of what it has taken was the batch's.
    pub(super) fn give_back(&mut self, entity: &Arc<Entity>, state: &mut State, taken: i64) -> i64 {
        let Some(part) = self.part(entity, state) else { return 0 };
        let lent = part.hold.amount.min(taken);
        part.hold.amount = part.hold.amount.saturating_sub(lent);
        state.held = state.held.saturating_add(part.hold.amount);
        lent
    }

    /// Holds again what was lent to a request that has not used it.
    pub(super) fn take_back(&mut self, entity: &Arc<Entity>, state: &mut State, lent: i64) {
        if let Some(part) = self.part(entity, state) {
            part.hold.amount = part.hold.amount.saturating_add(lent);
            state.held = state.held.saturating_add(lent);
        }
    }
}

impl Drop for Advance {
    fn drop(&mut self) {
        for Held { limit, entity, hold } in self.parts.lock().drain(..) {
            let mut state = entity.state.lock();
            let past = state.settle(&hold, 0);
            self.sink.past(&limit, &entity, &mut state, past);
        }
    }
}
