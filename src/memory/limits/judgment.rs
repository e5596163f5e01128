//! Admission: whether all limits of a request have room for it, and what is then held of each.
//!
//! All or nothing: the buckets of a request are locked together, in one order for all requests, judged, and only then changed.

use super::advance::Advance;
use super::amount::Estimate;
use super::buckets::{Buckets, Sink};
use super::entity::{Entity, State};
use super::limit::{Counted, Limit, LimitKind};
use super::limit_set::Selection;
use super::preview::{Decision, Preview};
use super::refusal::{Cause, Refusal};
use super::reservation::{Held, Reservation};
use super::tightest::Tightest;
use super::window::{Calendar, Clock};
use parking_lot::MutexGuard;
use smallvec::SmallVec;
use std::sync::Arc;

/// What all judgments of a request share.
pub(super) struct Judgment<'a> {
    pub estimate: &'a Estimate<'a>,
    /// Output of a request without a bound, for limits that `fit`.
    pub assume_output: u64,
    pub calendar: &'a Calendar,
    /// Milliseconds since 1970.
    pub now: i64,
}

/// A limit of the request, and its bucket.
struct Candidate<'a> {
    limit: &'a Arc<Limit>,
    entity: Arc<Entity>,
}

/// The bucket of a candidate, locked.
struct Locked<'a> {
    state: MutexGuard<'a, State>,
    /// What counts against the limit before this request.
    used: i64,
}

/// Why one limit refuses.
struct Objection {
    index: usize,
    cause: Cause,
    is_rate: bool,
}

impl Judgment<'_> {
    /// Holds what the request needs of all its limits.
    ///
    /// # Errors
    /// The refusal; nothing is held then.
    pub(super) fn reserve(
        &self,
        buckets: &Arc<Buckets>,
        selection: &Selection<'_>,
        advance: Option<&Advance>,
    ) -> Result<Reservation, Box<Refusal>> {
        let mut candidates: SmallVec<[Candidate<'_>; 4]> = SmallVec::new();
        let clock = Clock { calendar: self.calendar, now: self.now };
        for item in &selection.items {
            if self.estimate.concerns(item.limit) {
                let entity = buckets.entity(item, selection.facts, clock);
                candidates.push(Candidate { limit: item.limit, entity });
            }
        }
        // One order for all requests, so that no two wait for each other.
        candidates.sort_unstable_by_key(|candidate| candidate.entity.id);
        let mut lending = advance.map(Advance::lend);
        let mut locked: SmallVec<[Locked<'_>; 4]> = SmallVec::new();
        for Candidate { limit, entity } in &candidates {
            let mut state = entity.state.lock();
            let past = state.bring_up_to(limit, self.calendar, self.now);
            buckets.sink.past(limit, entity, &mut state, past);
            if state.touch(limit, self.now) {
                buckets.sink.changed(limit, entity, &mut state);
            }
            if let Some(lending) = &mut lending {
                lending.take_out(entity, &mut state);
            }
            locked.push(Locked { used: state.used(limit, self.now), state });
        }
        let fitted = self.fitted(&candidates, &locked);
        let objections = self.objections(&candidates, &locked, fitted);
        let refusal = self.refusal(&candidates, &mut locked, &objections, &buckets.sink);
        if let Some(refusal) = refusal {
            if let Some(lending) = &mut lending {
                let of = candidates.iter().zip(&mut locked);
                of.for_each(|(candidate, locked)| {
                    let _ = lending.give_back(&candidate.entity, &mut locked.state, 0);
                });
            }
            return Err(Box::new(refusal));
        }
        let mut held = Vec::with_capacity(candidates.len());
        let mut lent = Vec::new();
        let mut tightest = Tightest::default();
        for (Candidate { limit, entity }, Locked { state, used }) in candidates.iter().zip(&mut locked) {
            let (amount, is_clamped) = self.amount(limit, *used, fitted);
            let hold = state.take(amount, is_clamped);
            if let Some(lending) = &mut lending {
                lent.push(lending.give_back(entity, state, amount));
            }
            if limit.is_rate() {
                buckets.sink.changed(limit, entity, state);
            }
            tightest.add(state.remaining(limit, self.now));
            held.push(Held { limit: Arc::clone(limit), entity: Arc::clone(entity), hold });
        }
        let lowered =
            fitted.filter(|fitted| self.estimate.max_output_tokens.is_none_or(|most| *fitted < most));
        let loan = advance.map(|advance| advance.loan(lent));
        Ok(Reservation::new(held, tightest, lowered, Arc::clone(buckets)).with_loan(loan))
    }

    /// What each limit would decide by itself, and the decision of all together. The buckets are copies.
    pub(super) fn preview(&self, buckets: Vec<(&Arc<Limit>, Entity)>) -> Preview {
        let candidates: Vec<Candidate<'_>> = buckets
            .into_iter()
            .map(|(limit, entity)| Candidate { limit, entity: Arc::new(entity) })
            .collect();
        let mut all_locked: Vec<Locked<'_>> = Vec::with_capacity(candidates.len());
        for Candidate { limit, entity } in &candidates {
            let mut state = entity.state.lock();
            let _ = state.bring_up_to(limit, self.calendar, self.now);
            all_locked.push(Locked { used: state.used(limit, self.now), state });
        }
        let fitted = self.fitted(&candidates, &all_locked);
        let decisions = candidates.iter().zip(&all_locked);
        let decisions = decisions.map(|(Candidate { limit, entity }, locked)| Decision {
            limit: Arc::clone(limit),
            value_key: Arc::clone(&entity.value_key),
            spent: locked.state.spent,
            held: locked.state.all_held(),
            wanted: self.amount(limit, locked.used, fitted).0,
            cause: self.objection(limit, locked, fitted),
            reset_at: locked.state.window.reset_at(),
        });
        let decisions = decisions.collect();
        let objections = self.objections(&candidates, &all_locked, fitted);
        let refusal = self.refusal(&candidates, &mut all_locked, &objections, &Sink::default());
        Preview { decisions, refusal: refusal.map(Box::new) }
    }

    /// The output for which all limits that fit have room, or the least one if one has none. `None`: no limit fits.
    fn fitted(&self, candidates: &[Candidate<'_>], locked: &[Locked<'_>]) -> Option<u64> {
        if self.estimate.is_made || !self.estimate.can_be_bounded {
            return None;
        }
        let mut lowest = None;
        for (Candidate { limit, .. }, Locked { used, .. }) in candidates.iter().zip(locked) {
            if limit.hard && limit.fit && limit.counts() != Counted::Requests {
                let max_output_tokens = self.estimate.max_output_tokens.or(Some(self.assume_output));
                let estimate = Estimate { max_output_tokens, ..*self.estimate };
                let headroom = limit.value().saturating_sub(*used);
                let fitting = estimate.fitting(limit.counts(), headroom);
                let fitting = fitting.unwrap_or_else(|| estimate.least_output());
                lowest = Some(lowest.map_or(fitting, |lowest: u64| lowest.min(fitting)));
            }
        }
        lowest
    }

    /// What refuses: rate limits, and usage limits where no rate limit does.
    fn objections(
        &self,
        candidates: &[Candidate<'_>],
        locked: &[Locked<'_>],
        fitted: Option<u64>,
    ) -> SmallVec<[Objection; 4]> {
        let mut objections: SmallVec<[Objection; 4]> = SmallVec::new();
        for (index, (Candidate { limit, .. }, locked)) in candidates.iter().zip(locked).enumerate() {
            if let Some(cause) = self.objection(limit, locked, fitted) {
                objections.push(Objection { index, cause, is_rate: limit.is_rate() });
            }
        }
        if objections.iter().any(|objection| objection.is_rate) {
            objections.retain(|objection| objection.is_rate);
        }
        objections
    }

    fn objection(&self, limit: &Limit, locked: &Locked<'_>, fitted: Option<u64>) -> Option<Cause> {
        if self.estimate.is_made {
            return None;
        }
        let value = limit.value();
        let is_rate = limit.is_rate();
        let Locked { state, used } = locked;
        if !is_rate && state.spent >= value {
            return Some(Cause::Spent);
        }
        if limit.hard {
            return self.hard_objection(limit, locked, fitted);
        }
        let (amount, is_clamped) = self.amount(limit, *used, None);
        let is_full = match (limit.counts(), is_rate) {
            // A limit on requests has room for this one, or not.
            (Counted::Requests, true) => used.saturating_add(amount) > value,
            // Only one request at a time may hold less than its estimate, so that only one can exceed the limit.
            _ => *used >= value || (is_clamped && state.clamped > 0),
        };
        is_full.then_some(if is_rate { Cause::Rate } else { Cause::Reserved })
    }

    fn hard_objection(&self, limit: &Limit, locked: &Locked<'_>, fitted: Option<u64>) -> Option<Cause> {
        let most = match self.estimate.hard_amount(limit, fitted) {
            Ok(most) => most,
            Err(cause) => return Some(cause),
        };
        let fits = |used: i64| used.saturating_add(most) <= limit.value();
        if fits(locked.used) {
            return None;
        }
        Some(match limit.kind {
            LimitKind::Rate { .. } => Cause::Rate,
            LimitKind::Usage { .. } if fits(locked.state.spent) => Cause::Reserved,
            LimitKind::Usage { .. } => Cause::DoesNotFit,
        })
    }

    /// Whether a hard limit counts as used up: less than a tenth of it is left, and that does not pay for the likely
    /// use of such a request. A single request that is too large is not a reason to report the limit.
    fn leaves_nothing(&self, limit: &Limit, state: &State, cause: Cause) -> bool {
        let left = limit.value().saturating_sub(state.spent);
        let likely = self.likely(limit);
        cause == Cause::DoesNotFit && left < limit.value() / 10 && likely > left
    }

    fn likely(&self, limit: &Limit) -> i64 {
        self.estimate.likely(limit.counts()).unwrap_or(0)
    }

    /// What is held of a limit that has room, and whether that is less than the estimate.
    fn amount(&self, limit: &Limit, used: i64, fitted: Option<u64>) -> (i64, bool) {
        let counted = limit.counts();
        if limit.hard {
            return (self.estimate.most(counted, fitted).unwrap_or(0), false);
        }
        let likely = self.likely(limit);
        if counted == Counted::Requests {
            return (likely, false);
        }
        let headroom = limit.value().saturating_sub(used).max(0);
        (likely.min(headroom), likely > headroom)
    }

    fn tightest(&self, candidates: &[Candidate<'_>], locked: &[Locked<'_>]) -> Tightest {
        let mut tightest = Tightest::default();
        for (Candidate { limit, .. }, Locked { state, .. }) in candidates.iter().zip(locked) {
            tightest.add(state.remaining(limit, self.now));
        }
        tightest
    }

    /// The refusal to report; `None` without objections.
    fn refusal(
        &self,
        candidates: &[Candidate<'_>],
        locked: &mut [Locked<'_>],
        objections: &[Objection],
        sink: &Sink,
    ) -> Option<Refusal> {
        if objections.is_empty() {
            return None;
        }
        let mut refusals = Vec::with_capacity(objections.len());
        for objection in objections {
            let Candidate { limit, entity } = candidates.get(objection.index)?;
            let state = &mut locked.get_mut(objection.index)?.state;
            if objection.cause == Cause::Spent || self.leaves_nothing(limit, state, objection.cause) {
                sink.exhausted(limit, entity, state, self.now);
            }
            let wanted = self.estimate.least(limit);
            let value_key = &entity.value_key;
            refusals.push(Refusal::by(limit, state, value_key, objection.cause, wanted, self.now));
        }
        Refusal::reported(refusals, self.tightest(candidates, locked))
    }
}
