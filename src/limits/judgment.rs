//! Admission: whether all limits of a request have room for it, and what is then held of each (reference 2.4, "Admission rule").
//!
//! All or nothing: the buckets of a request are locked together, in one order for all requests, judged, and only then changed.

use super::amount::Estimate;
use super::buckets::{Buckets, Sink};
use super::entity::{Entity, State};
use super::limit::{Counted, Limit, LimitKind};
use super::limit_set::Selection;
use super::refusal::{Cause, Refusal};
use super::reservation::{Held, Reservation};
use super::tightest::Tightest;
use super::window::Calendar;
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

/// Why one limit refuses.
struct Objection {
    index: usize,
    cause: Cause,
}

impl Judgment<'_> {
    /// Holds what the request needs of all its limits.
    ///
    /// # Errors
    /// The refusal; nothing is held then.
    pub(super) fn reserve(
        &self,
        buckets: &Buckets,
        selection: &Selection<'_>,
    ) -> Result<Reservation, Box<Refusal>> {
        let mut candidates: SmallVec<[Candidate<'_>; 4]> = SmallVec::new();
        for item in &selection.items {
            if self.estimate.concerns(item.limit) {
                let entity = buckets.entity(item, selection.facts, (self.calendar, self.now));
                candidates.push(Candidate { limit: item.limit, entity });
            }
        }
        // One order for all requests, so that no two wait for each other.
        candidates.sort_unstable_by_key(|candidate| candidate.entity.id);
        let mut states: SmallVec<[MutexGuard<'_, State>; 4]> = SmallVec::new();
        for Candidate { limit, entity } in &candidates {
            let mut state = entity.state.lock();
            let past = state.bring_up_to(limit, self.calendar, self.now);
            buckets.sink.past(limit, entity, &mut state, past);
            states.push(state);
        }
        let fitted = self.fitted(&candidates, &states);
        let objections = self.objections(&candidates, &states, fitted);
        if let Some(refusal) = self.refusal(&candidates, &mut states, &objections, &buckets.sink) {
            return Err(Box::new(refusal));
        }
        let mut held = SmallVec::new();
        for (Candidate { limit, entity }, state) in candidates.iter().zip(&mut states) {
            let (amount, is_clamped) = self.amount(limit, state, fitted);
            let hold = state.take(amount, is_clamped);
            if limit.is_rate() {
                buckets.sink.changed(limit, entity, state);
            }
            held.push(Held { limit: Arc::clone(limit), entity: Arc::clone(entity), hold });
        }
        let tightest = self.tightest(&candidates, &states);
        let sink = Arc::clone(&buckets.sink);
        let lowered =
            fitted.filter(|fitted| self.estimate.max_output_tokens.is_none_or(|most| *fitted < most));
        Ok(Reservation::new(held, tightest, lowered, sink))
    }

    /// The output for which all limits that fit have room, or one token if one has none. `None`: no limit fits.
    fn fitted(&self, candidates: &[Candidate<'_>], states: &[MutexGuard<'_, State>]) -> Option<u64> {
        let mut estimate = *self.estimate;
        estimate.max_output_tokens = estimate.max_output_tokens.or(Some(self.assume_output));
        let mut lowest = None;
        for (Candidate { limit, .. }, state) in candidates.iter().zip(states) {
            if limit.hard && limit.fit && limit.counts() != Counted::Requests {
                let headroom = limit.value().saturating_sub(state.used(limit, self.now));
                let fitting = estimate.fitting(limit.counts(), headroom).unwrap_or(1);
                lowest = Some(lowest.map_or(fitting, |lowest: u64| lowest.min(fitting)));
            }
        }
        lowest
    }

    /// What refuses: rate limits, and usage limits where no rate limit does.
    fn objections(
        &self,
        candidates: &[Candidate<'_>],
        states: &[MutexGuard<'_, State>],
        fitted: Option<u64>,
    ) -> SmallVec<[Objection; 4]> {
        for is_rate in [true, false] {
            let mut objections = SmallVec::new();
            for (index, (Candidate { limit, .. }, state)) in candidates.iter().zip(states).enumerate() {
                if limit.is_rate() == is_rate
                    && let Some(cause) = self.objection(limit, state, fitted)
                {
                    objections.push(Objection { index, cause });
                }
            }
            if !objections.is_empty() {
                return objections;
            }
        }
        SmallVec::new()
    }

    fn objection(&self, limit: &Limit, state: &State, fitted: Option<u64>) -> Option<Cause> {
        let value = limit.value();
        let used = state.used(limit, self.now);
        let is_rate = limit.is_rate();
        if !is_rate && state.spent >= value {
            return Some(Cause::Spent);
        }
        if limit.hard {
            return self.hard_objection(limit, state, fitted);
        }
        let (amount, is_clamped) = self.amount(limit, state, None);
        let is_full = match (limit.counts(), is_rate) {
            // Each request is one that fits, or one too many.
            (Counted::Requests, true) => used.saturating_add(amount) > value,
            // One at a time may hold less than it may use, so that no more than one can exceed the limit.
            _ => used >= value || (is_clamped && state.clamped > 0),
        };
        is_full.then_some(if is_rate { Cause::Rate } else { Cause::Reserved })
    }

    fn hard_objection(&self, limit: &Limit, state: &State, fitted: Option<u64>) -> Option<Cause> {
        let most = match self.estimate.hard_amount(limit, fitted) {
            Ok(most) => most,
            Err(cause) => return Some(cause),
        };
        let fits = |used: i64| used.saturating_add(most) <= limit.value();
        if fits(state.used(limit, self.now)) {
            return None;
        }
        Some(match limit.kind {
            LimitKind::Rate { .. } => Cause::Rate,
            LimitKind::Usage { .. } if fits(state.spent) => Cause::Reserved,
            LimitKind::Usage { .. } => Cause::Spent,
        })
    }

    /// What is held of a limit that has room, and whether that is less than the estimate.
    fn amount(&self, limit: &Limit, state: &State, fitted: Option<u64>) -> (i64, bool) {
        let counted = limit.counts();
        if limit.hard {
            return (self.estimate.most(counted, fitted).unwrap_or(0), false);
        }
        let likely = self.estimate.likely(counted).unwrap_or(0);
        if counted == Counted::Requests {
            return (likely, false);
        }
        let headroom = limit.value().saturating_sub(state.used(limit, self.now)).max(0);
        (likely.min(headroom), likely > headroom)
    }

    fn tightest(&self, candidates: &[Candidate<'_>], states: &[MutexGuard<'_, State>]) -> Tightest {
        let mut tightest = Tightest::default();
        for (Candidate { limit, .. }, state) in candidates.iter().zip(states) {
            if let Some((of, remaining)) = state.remaining(limit, self.now) {
                tightest.add(of, remaining);
            }
        }
        tightest
    }

    /// The refusal to report; `None` without objections.
    fn refusal(
        &self,
        candidates: &[Candidate<'_>],
        states: &mut [MutexGuard<'_, State>],
        objections: &[Objection],
        sink: &Sink,
    ) -> Option<Refusal> {
        if objections.is_empty() {
            return None;
        }
        let mut refusals = Vec::with_capacity(objections.len());
        for objection in objections {
            let Candidate { limit, entity } = candidates.get(objection.index)?;
            let state = states.get_mut(objection.index)?;
            if objection.cause == Cause::Spent {
                sink.exhausted(limit, entity, state, self.now);
            }
            let wanted = self.estimate.least(limit);
            refusals.push(Refusal::by(
                limit,
                (state, &entity.value_key),
                objection.cause,
                (wanted, self.now),
            ));
        }
        Refusal::reported(refusals, self.tightest(candidates, states))
    }
}
