//! What a request holds as a whole, and for which request that is.
//!
//! It bounds what one attempt at its first target may use, as long as that sends the request it is held for. A further attempt may be
//! charged as well, or cost more: hard budgets hold it by itself.

use bytes::Bytes;
use jiff::Timestamp;
use judgment::route::attempt::Request;
use judgment::route::target::Target;
use memory::limits::{Actual, Reservation};
use std::sync::Arc;

pub(super) struct RequestHold {
    /// `None`: it was given up for another request, and that was refused.
    reservation: Option<Reservation>,
    target: Arc<Target>,
    /// The body of the request that it is held for.
    body: Option<Bytes>,
    /// What the output of that request must be bounded to, in tokens, where it is not bounded yet.
    output: Option<u64>,
    /// Whether an attempt is made with it, or was, and may be charged.
    is_taken: bool,
    /// Whether others are made, or were, that may be charged and are settled with it: it is not given up from then on.
    has_others: bool,
    /// What those hold.
    further: Vec<(Arc<Target>, Reservation)>,
}

/// What bounds an attempt.
pub(super) enum Bound {
    /// What the request holds. Its output must be bounded to so much, in tokens.
    ByRequest(Option<u64>),
    /// Nothing yet: the request has to be held anew.
    Anew,
    /// Nothing yet: hard budgets have to hold it by itself.
    Further,
}

impl RequestHold {
    pub fn new(reservation: Reservation, target: &Arc<Target>, request: &Request) -> Self {
        Self {
            reservation: Some(reservation),
            target: Arc::clone(target),
            body: body(request).cloned(),
            output: None,
            is_taken: false,
            has_others: false,
            further: Vec::new(),
        }
    }

    /// Whether it is held for what this request sends.
    pub fn is_for(&self, request: &Request) -> bool {
        let is_same = match (&self.body, body(request)) {
            (Some(one), Some(other)) => {
                one.len() == other.len() && (one.as_ptr() == other.as_ptr() || one == other)
            }
            (one, other) => one.is_none() && other.is_none(),
        };
        self.reservation.is_some() && is_same
    }

    /// What bounds an attempt at this target, which takes it. `is_charged`: an attempt before it is charged for something, and will be
    /// settled with this.
    pub fn take(&mut self, target: &Arc<Target>, request: &Request, is_charged: bool) -> Bound {
        let is_lost = self.reservation.is_none();
        let is_free = !self.is_taken && !is_charged && (is_lost || Arc::ptr_eq(&self.target, target));
        if is_free && self.is_for(request) {
            self.is_taken = true;
            return Bound::ByRequest(self.output);
        }
        if is_lost || (is_free && !self.has_others) {
            return Bound::Anew;
        }
        self.has_others = true;
        Bound::Further
    }

    /// Gives up what is held, to hold it for another request. As if it had never been: that one counts.
    pub fn give_up(&mut self, now: Timestamp) {
        if let Some(reservation) = self.reservation.take() {
            reservation.cancel(now);
        }
    }

    /// Holds an attempt at this target, which takes it. Returns what its output must be bounded to, in tokens.
    pub fn renew(
        &mut self,
        reservation: Reservation,
        target: &Arc<Target>,
        request: &Request,
    ) -> Option<u64> {
        self.output = reservation.fitted_output();
        self.body = body(request).cloned();
        self.target = Arc::clone(target);
        self.reservation = Some(reservation);
        self.is_taken = true;
        self.output
    }

    pub fn add_further(&mut self, target: &Arc<Target>, reservation: Reservation) {
        self.further.push((Arc::clone(target), reservation));
    }

    /// An attempt at this target failed, and nothing is charged for it.
    pub fn release_attempt(&mut self, target: &Arc<Target>) {
        match self.further.iter().rposition(|(of, _)| Arc::ptr_eq(of, target)) {
            Some(at) => self.further.remove(at).1.release(Timestamp::now()),
            None if Arc::ptr_eq(&self.target, target) => self.is_taken = false,
            None => {}
        }
    }

    /// The request counts nowhere.
    pub fn cancel(mut self, now: Timestamp) {
        self.give_up(now);
        self.further.drain(..).for_each(|(_, reservation)| reservation.cancel(now));
    }

    /// Settles it with what all attempts used. Before what further attempts hold is released: never is less counted than was used.
    pub fn settle(self, used: Option<Actual>, now: Timestamp) {
        if let Some(reservation) = self.reservation {
            settle(reservation, used, now);
        }
        for (_, reservation) in self.further {
            reservation.release(now);
        }
    }
}

fn body(request: &Request) -> Option<&Bytes> {
    request.body.as_ref().map(|body| body.bytes())
}

pub(super) fn settle(reservation: Reservation, used: Option<Actual>, now: Timestamp) {
    match used {
        Some(actual) => reservation.settle(actual, now),
        None => reservation.release(now),
    }
}
