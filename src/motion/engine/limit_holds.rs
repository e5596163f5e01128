//! The limits of one request: holds what it and its attempts may use, and settles it with what they did use.
//!
//! Which limits there are and what they hold is the room `limits`; what a request is expected to use, `usage_estimate`.
//!
//! A request is judged when its first target is chosen, each attempt by the limits of its target. What they hold is settled when
//! the record is made, with what the attempts used. A refused target is `Outcome::Limited`: fallback and balance go on to another
//! one, breakers and retries do not see it. A process without limits compares one pointer.

mod attempt_hold;
mod behalf;
mod facts;
mod held_attempt;
mod layer;
mod metadata;
mod request_hold;
mod reserving;
mod turn_hold;

pub(super) use attempt_hold::{NotHeldAttempt, hold_attempt};
pub(super) use behalf::Behalf;
pub(super) use facts::{RequestFacts, key, only_reads, target_facts};
pub use held_attempt::HeldAttempt;
pub(crate) use held_attempt::SealedAttempt;
pub(super) use layer::compile;
pub(super) use metadata::Metadata;
pub(super) use reserving::reserve_request;
pub(super) use turn_hold::{HeldTurn, hold_turn, only_transcribes};

use super::limit_headers;
use super::record::{AttemptRecord, RequestRecord};
use http::HeaderMap;
use jiff::Timestamp;
use judgment::route::attempt::Request;
use judgment::route::target::Target;
use memory::limits::{Actual, Advance, LimitSet, Limits, Remaining, Reservation, Tightest};
use memory::state::directory::SavedName;
use request_hold::{RequestHold, settle};
use std::sync::Arc;
use words::error::{Error, Kind};

/// What one request holds of its limits. Empty where no limit is for it.
#[derive(Default)]
pub struct LimitHolds {
    /// The limits it is judged by, to its end; `None`: there are none at all.
    set: Option<Arc<LimitSet>>,
    /// Of a request of the gateway's own: for whom it is sent.
    pub(super) behalf: Option<Box<Behalf>>,
    metadata: Metadata,
    config: Option<SavedName>,
    request: Option<RequestHold>,
    /// What is held for it, and other lines of its batch, already.
    pub advance: Option<Arc<Advance>>,
    /// How many choices the request has.
    choices: u64,
    /// Of the attempts that are not settled yet.
    attempts: Vec<HeldOfTarget>,
    tightest: Tightest,
    /// Of the limits that refused the request, or the last target.
    refused: Tightest,
}

/// What an attempt holds of the limits of its target.
struct HeldOfTarget {
    target: Arc<Target>,
    /// How many attempts the request's record had before it: its own is the next one at this target.
    before: usize,
    reservation: Reservation,
}

impl LimitHolds {
    /// Whether an attempt at this target that sends this request is judged: by limits of its target, or because what is held of the request
    /// does not bound it. `is_charged`: something is charged for the request already.
    pub fn judge(&self, target: &Arc<Target>, request: &Request, is_charged: bool) -> bool {
        let Some(set) = &self.set else { return false };
        set.has_target_limits() || self.holds_another(target, request, is_charged)
    }

    /// Whether any limit is for targets.
    pub(crate) fn has_target_limits(&self) -> bool {
        self.set.as_ref().is_some_and(|set| set.has_target_limits())
    }

    /// Whether what is held of the request is for another attempt than this.
    pub(crate) fn holds_another(&self, target: &Arc<Target>, request: &Request, is_charged: bool) -> bool {
        self.request.as_ref().is_some_and(|held| !held.bounds(target, request, is_charged))
    }

    /// Keeps the rate limits of a judgment for the response's headers.
    ///
    /// # Errors
    /// The refusal's.
    fn note(
        &mut self,
        held: Result<Option<Reservation>, Box<Refused>>,
    ) -> Result<Option<Reservation>, Error> {
        match held {
            Ok(held) => {
                if let Some(held) = &held {
                    self.tightest = tighter(self.tightest, held.tightest());
                }
                Ok(held)
            }
            Err(refused) => {
                self.refused = refused.tightest;
                Err(refused.error)
            }
        }
    }

    /// Adds what is left of the tightest rate limits to a response's headers, in the place of the provider's own.
    pub(crate) fn add_headers(&self, headers: &mut HeaderMap) {
        limit_headers::write(headers, self.tightest);
    }

    /// As [`LimitHolds::add_headers`], for an error: a limit that refused the last target is the tightest.
    pub(crate) fn add_refusal_headers(&self, headers: &mut HeaderMap) {
        limit_headers::write(headers, tighter(self.tightest, self.refused));
    }

    /// An attempt failed, and nothing is charged for it.
    pub(crate) fn release_attempt(&mut self, target: &Arc<Target>) {
        self.release_further(target);
        if let Some(at) = self.attempts.iter().rposition(|held| Arc::ptr_eq(&held.target, target)) {
            self.attempts.remove(at).reservation.release(Timestamp::now());
        }
    }

    /// An attempt is not made, or nothing is charged for it: what the request holds for it is free for another.
    fn release_further(&mut self, target: &Arc<Target>) {
        if let Some(request) = &mut self.request {
            request.release_attempt(target);
        }
    }

    /// Whether a hard budget holds a part of it: its provider may be paid without a report.
    pub(super) fn holds_hard(&self) -> bool {
        let of_request = self.request.iter().flat_map(RequestHold::reservations);
        let of_targets = self.attempts.iter().map(|held| &held.reservation);
        of_request.chain(of_targets).any(Reservation::holds_hard)
    }

    /// Gives up all that is held: as if it had never been.
    pub(super) fn cancel(&mut self) {
        let now = Timestamp::now();
        if let Some(request) = self.request.take() {
            request.cancel(now);
        }
        self.attempts.drain(..).for_each(|held| held.reservation.cancel(now));
    }

    /// Settles what is held with what the request used, which the estimates of the next ones follow.
    pub fn settle(&mut self, record: &RequestRecord, limits: &Limits) {
        if self.request.is_none() && self.attempts.is_empty() {
            return;
        }
        for attempt in &record.routed.attempts {
            if let Some(used) = &attempt.used {
                let model = attempt.model.as_deref().unwrap_or_default();
                limits.note_output(key(record.client.as_ref()), model, used.usage.output, self.choices);
            }
        }
        let now = Timestamp::now();
        for HeldOfTarget { target, before, reservation } in self.attempts.drain(..) {
            let mut later = record.routed.attempts.iter().skip(before);
            let own = later.find(|attempt| Arc::ptr_eq(&attempt.target, &target));
            if own.is_some_and(|own| own.is_from_cache && own.used.is_none()) {
                // It has read along with another's call, which pays: its target was not called for it.
                reservation.cancel(now);
            } else {
                settle(reservation, &Settlement::of(own), now);
            }
        }
        let Some(request) = self.request.take() else { return };
        let is_refused = |error: &Error| error.limit.is_some() || error.kind == Kind::TargetBusy;
        let is_limited = record.response.error.as_ref().is_some_and(is_refused);
        // The limits of all its targets refused it, or none had a place for it: it counts nowhere.
        if is_limited && record.routed.attempts.iter().all(|attempt| attempt.time.started.is_none()) {
            return request.cancel(now);
        }
        let open = record.routed.attempts.iter().filter(|attempt| attempt.time.is_open);
        let open: Vec<&Arc<Target>> = open.map(|attempt| &attempt.target).collect();
        request.settle(&Settlement::of(&record.routed.attempts), &open, now);
    }
}

/// What is charged for attempts. Soft limits count what was used, hard ones what was reported and what is held for the attempts that were
/// sent and ended without a report.
struct Settlement {
    used: Option<Actual>,
    /// The same without the attempts that ended without a report.
    reported: Option<Actual>,
    /// There are such.
    is_open: bool,
}

impl Settlement {
    fn of<'a>(attempts: impl IntoIterator<Item = &'a AttemptRecord> + Clone) -> Self {
        Self {
            used: used(attempts.clone()),
            reported: used(attempts.clone().into_iter().filter(|attempt| !attempt.time.is_open)),
            is_open: attempts.into_iter().any(|attempt| attempt.time.is_open),
        }
    }
}

/// A refusal, and the rate limits for the headers of its response.
struct Refused {
    error: Error,
    tightest: Tightest,
}

/// Of each kind the limit with less left.
fn tighter(one: Tightest, other: Tightest) -> Tightest {
    let less = |one: Option<Remaining>, other: Option<Remaining>| match (one, other) {
        (Some(one), Some(other)) => Some(if other.remaining < one.remaining { other } else { one }),
        (one, other) => one.or(other),
    };
    Tightest { requests: less(one.requests, other.requests), tokens: less(one.tokens, other.tokens) }
}

/// What attempts used together; `None`: nothing is charged for any.
fn used<'a>(attempts: impl IntoIterator<Item = &'a AttemptRecord>) -> Option<Actual> {
    let mut sum: Option<Actual> = None;
    for attempt in attempts {
        let Some(used) = &attempt.used else { continue };
        let before = sum.unwrap_or(Actual { requests: 1, tokens: Some(0), cost: None });
        let tokens = used.is_measured().then(|| used.usage.input.saturating_add(used.usage.output));
        let cost = attempt.cost().and_then(|cost| cost.nanodollars);
        sum = Some(Actual {
            requests: 1,
            tokens: before.tokens.zip(tokens).map(|(one, other)| one.saturating_add(other)),
            cost: match (before.cost, cost) {
                (Some(one), Some(other)) => Some(one.saturating_add(other)),
                (one, other) => one.or(other),
            },
        });
    }
    sum
}
