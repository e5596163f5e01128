//! What a request holds as a whole, and for which request that is.
//!
//! It bounds what one attempt at one target may use, as long as that sends the request it is held for. For any other attempt the request is
//! held anew, and where one before it is under way or charged, by itself.

use super::Settlement;
use bytes::Bytes;
use jiff::Timestamp;
use judgment::route::attempt::Request;
use judgment::route::target::Target;
use memory::limits::Reservation;
use std::sync::Arc;

pub(super) struct RequestHold {
    /// As it was admitted. Once it is held for another request or target, it has only what counts requests: that is counted once.
    reservation: Reservation,
    /// What is held of tokens and costs for another request or target than at first.
    renewed: Option<Reservation>,
    /// What was held of tokens and costs was given up for an attempt that was refused.
    is_lost: bool,
    target: Arc<Target>,
    /// The body of the request that it is held for.
    body: Option<Bytes>,
    /// What the output of that request must be bounded to, in tokens, where it is not bounded yet.
    output: Option<u64>,
    /// Whether an attempt is made with it, or was, and may be charged.
    is_taken: bool,
    /// Attempts beside and after that one which may be charged and are settled with it, with what they hold by themselves.
    further: Vec<(Arc<Target>, Option<Reservation>)>,
}

/// What bounds an attempt.
pub(super) enum Bound {
    /// What the request holds. Its output must be bounded to so much, in tokens.
    ByRequest(Option<u64>),
    /// Nothing yet: the request has to be held anew.
    Anew,
    /// Nothing yet: it has to be held by itself.
    Further,
}

impl RequestHold {
    pub fn new(reservation: Reservation, target: &Arc<Target>, request: &Request) -> Self {
        Self {
            reservation,
            renewed: None,
            is_lost: false,
            target: Arc::clone(target),
            body: body(request).cloned(),
            output: None,
            is_taken: false,
            further: Vec::new(),
        }
    }

    /// Of a turn of a realtime session, which has one attempt.
    pub fn of_turn(reservation: Reservation, target: &Arc<Target>) -> Self {
        Self {
            reservation,
            renewed: None,
            is_lost: false,
            target: Arc::clone(target),
            body: None,
            output: None,
            is_taken: true,
            further: Vec::new(),
        }
    }

    /// Whether it is held for what this request sends.
    fn is_for(&self, request: &Request) -> bool {
        let is_same = match (&self.body, body(request)) {
            (Some(one), Some(other)) => {
                one.len() == other.len() && (one.as_ptr() == other.as_ptr() || one == other)
            }
            (one, other) => one.is_none() && other.is_none(),
        };
        !self.is_lost && is_same
    }

    /// Whether no attempt is under way, or was, that may be charged. `is_charged`: an attempt is charged for something, and will be settled
    /// with this.
    fn is_idle(&self, is_charged: bool) -> bool {
        !self.is_taken && !is_charged && self.further.is_empty()
    }

    /// Whether what is held bounds an attempt at this target, as it is.
    pub fn bounds(&self, target: &Arc<Target>, request: &Request, is_charged: bool) -> bool {
        self.is_idle(is_charged) && Arc::ptr_eq(&self.target, target) && self.is_for(request)
    }

    /// What bounds an attempt at this target, which takes it.
    pub fn take(&mut self, target: &Arc<Target>, request: &Request, is_charged: bool) -> Bound {
        if self.bounds(target, request, is_charged) {
            self.is_taken = true;
            return Bound::ByRequest(self.output);
        }
        // Nothing is paid with what is held, or nothing is held any more.
        if self.is_lost || self.is_idle(is_charged) { Bound::Anew } else { Bound::Further }
    }

    /// What is to be given up, to hold it for another attempt.
    pub fn replaced(&mut self) -> &mut Reservation {
        self.is_lost = true;
        self.renewed.as_mut().unwrap_or(&mut self.reservation)
    }

    /// Holds an attempt at this target, which takes it. Returns what its output must be bounded to, in tokens.
    pub fn renew(
        &mut self,
        reservation: Option<Reservation>,
        target: &Arc<Target>,
        request: &Request,
    ) -> Option<u64> {
        self.is_lost = false;
        self.output = reservation.as_ref().and_then(Reservation::fitted_output);
        self.body = body(request).cloned();
        self.target = Arc::clone(target);
        self.renewed = reservation.or(self.renewed.take());
        self.is_taken = true;
        self.output
    }

    /// `reservation`: what an attempt beside or after the first holds by itself; `None`: no limit is for it.
    pub(crate) fn add_further(&mut self, target: &Arc<Target>, reservation: Option<Reservation>) {
        self.further.push((Arc::clone(target), reservation));
    }

    /// All that is held.
    pub fn reservations(&self) -> impl Iterator<Item = &Reservation> {
        let further = self.further.iter().filter_map(|(_, reservation)| reservation.as_ref());
        std::iter::once(&self.reservation).chain(&self.renewed).chain(further)
    }

    /// An attempt at this target failed, and nothing is charged for it.
    pub(crate) fn release_attempt(&mut self, target: &Arc<Target>) {
        match self.further.iter().rposition(|(of, _)| Arc::ptr_eq(of, target)) {
            Some(at) => {
                if let Some(reservation) = self.further.remove(at).1 {
                    reservation.release(Timestamp::now());
                }
            }
            None if Arc::ptr_eq(&self.target, target) => self.is_taken = false,
            None => {}
        }
    }

    /// The request counts nowhere.
    pub fn cancel(self, now: Timestamp) {
        let further = self.further.into_iter().filter_map(|(_, reservation)| reservation);
        let held = std::iter::once(self.reservation).chain(self.renewed).chain(further);
        held.for_each(|reservation| reservation.cancel(now));
    }

    /// Settles it with what all attempts used. Before what further attempts hold is released: never is less counted than was used. `open`: the
    /// targets of attempts that were sent and ended without a report; hard limits keep what is held for each.
    pub fn settle(self, settlement: &Settlement, open: &[&Arc<Target>], now: Timestamp) {
        let mut open = open.to_vec();
        let own = open.iter().position(|target| Arc::ptr_eq(target, &self.target));
        let is_open = own.map(|at| open.swap_remove(at)).is_some();
        let mut further = Vec::with_capacity(self.further.len());
        for (target, reservation) in self.further {
            let at = open.iter().position(|open| Arc::ptr_eq(open, &target));
            let is_open = at.map(|at| open.swap_remove(at)).is_some();
            further.extend(reservation.map(|reservation| (reservation, is_open)));
        }
        // One that is left had what is held for the request as a whole.
        let of_request = Settlement { is_open: is_open || !open.is_empty(), ..*settlement };
        // Of the two the second holds what is used, and the first only that there is a request.
        let is_renewed = self.renewed.is_some();
        let of_first = Settlement { is_open: of_request.is_open && !is_renewed, ..of_request };
        settle(self.reservation, &of_first, now);
        self.renewed.into_iter().for_each(|renewed| settle(renewed, &of_request, now));
        for (reservation, is_open) in further {
            settle(reservation, &Settlement { used: None, reported: None, is_open }, now);
        }
    }
}

fn body(request: &Request) -> Option<&Bytes> {
    request.body.as_ref().map(|body| body.bytes())
}

pub(super) fn settle(reservation: Reservation, settlement: &Settlement, now: Timestamp) {
    match settlement.used {
        _ if settlement.is_open && reservation.holds_hard() => {
            reservation.settle_open(settlement.used, settlement.reported, now);
        }
        Some(actual) => reservation.settle(actual, now),
        None => reservation.release(now),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Metadata;
    use super::*;
    use futures_util::FutureExt;
    use http::{Method, Uri};
    use judgment::route::admission::Endpoint;
    use judgment::route::compile::{Sources, compile};
    use memory::limits::{
        Actual, Calendar, Estimate, Facts, Limit, LimitKind, LimitScope, LimitSet, Limits, Phase, Reset,
        UsageOf,
    };
    use memory::state::snapshot::SettingsSnapshot;
    use uuid::Uuid;
    use words::api::body::Body;
    use words::config::Checks;
    use words::config::headers::GatewayHeaders;
    use words::settings::{SecretSources, Settings};

    fn request(text: &str) -> Request {
        let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{text}"}}]}}"#);
        let uri = Uri::from_static("/v1/chat/completions");
        let endpoint = Endpoint::find(&Method::POST, uri.path());
        Request::new(endpoint, Method::POST, uri, Some(Body::parse(Bytes::from(body)).unwrap()))
    }

    fn target() -> Arc<Target> {
        let checks = Checks::NONE;
        let secrets = SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
        let settings = Settings::parse("custom_hosts: {allow_private: true}", &secrets, &checks).unwrap();
        let snapshot = SettingsSnapshot::new(settings, 0);
        let headers = GatewayHeaders { provider: Some("openai"), ..GatewayHeaders::default() };
        let config = compile(&Sources::new(&snapshot, &headers, Some("k"), &request("a"), None)).unwrap();
        Arc::clone(&config.targets()[0])
    }

    /// A budget of tokens, and what a request holds of it.
    fn held(request: &Request, target: &Arc<Target>) -> (Limits, Limit, RequestHold) {
        let limits = Limits::in_memory(Calendar::default());
        let kind =
            LimitKind::Usage { of: UsageOf::Tokens, credit: 1000, alert_at: None, reset: Reset::Never };
        let limit = Limit::new(Uuid::from_u128(1), LimitScope::Policy, kind);
        let set = LimitSet::new(vec![limit.clone()], limits.hash());
        let metadata = Metadata::default();
        let facts = Facts {
            organisation: None,
            workspace: None,
            api_key: None,
            config: None,
            prompt: None,
            endpoint_type: None,
            metadata: &metadata,
            target: None,
        };
        let selection = set.select(&facts, Phase::Request).unwrap();
        let estimate = Estimate { requests: 1, input_tokens: 100, ..Estimate::default() };
        let reserving = limits.reserve(&selection, &estimate, None, Timestamp::now());
        let hold = RequestHold::new(reserving.now_or_never().unwrap().unwrap(), target, request);
        (limits, limit, hold)
    }

    fn reported(tokens: u64) -> Settlement {
        let used = Some(Actual { requests: 1, tokens: Some(tokens), cost: None });
        Settlement { used, reported: used, is_open: false }
    }

    /// Tokens spent and held.
    fn totals(limits: &Limits, limit: &Limit) -> (i64, i64) {
        let views = limits.peek(limit, Timestamp::now()).now_or_never().unwrap().unwrap();
        (views.iter().map(|view| view.spent).sum(), views.iter().map(|view| view.held).sum())
    }

    #[test]
    fn an_attempt_with_another_request_is_held_anew_only_before_anything_is_charged() {
        let target = target();
        let (limits, limit, mut hold) = held(&request("a"), &target);
        assert!(matches!(hold.take(&target, &request("b"), false), Bound::Anew));
        // An attempt before it read along with another request's call, and has to pay for that.
        assert!(matches!(hold.take(&target, &request("b"), true), Bound::Further));
        assert!(matches!(hold.take(&target, &request("a"), true), Bound::Further));
        assert_eq!(totals(&limits, &limit), (0, 100));
        hold.settle(&reported(30), &[], Timestamp::now());
        assert_eq!(totals(&limits, &limit), (30, 0));
    }

    #[test]
    fn another_target_is_held_anew_and_by_itself_while_an_attempt_is_under_way() {
        let first = target();
        let second = target();
        let (limits, limit, mut hold) = held(&request("a"), &first);
        assert!(matches!(hold.take(&second, &request("a"), false), Bound::Anew));
        assert!(matches!(hold.take(&first, &request("a"), false), Bound::ByRequest(None)));
        assert!(matches!(hold.take(&second, &request("a"), false), Bound::Further));
        hold.add_further(&second, None);
        // The first has failed, and the one beside it is under way.
        hold.release_attempt(&first);
        assert!(matches!(hold.take(&first, &request("a"), false), Bound::Further));
        hold.release_attempt(&second);
        assert!(matches!(hold.take(&first, &request("a"), false), Bound::ByRequest(None)));
        hold.cancel(Timestamp::now());
        assert_eq!(totals(&limits, &limit), (0, 0));
    }

    #[test]
    fn what_was_given_up_for_an_attempt_that_is_refused_is_held_again_for_the_next() {
        let target = target();
        let (limits, limit, mut hold) = held(&request("a"), &target);
        assert!(matches!(hold.take(&target, &request("b"), false), Bound::Anew));
        let _ = hold.replaced();
        assert!(matches!(hold.take(&target, &request("a"), false), Bound::Anew));
        assert_eq!(hold.renew(None, &target, &request("a")), None);
        hold.release_attempt(&target);
        assert!(matches!(hold.take(&target, &request("a"), false), Bound::ByRequest(None)));
        hold.settle(&Settlement::of(&[]), &[], Timestamp::now());
        assert_eq!(totals(&limits, &limit), (0, 0));
    }

    #[test]
    fn an_attempt_that_is_not_sent_leaves_the_hold_to_the_next() {
        let target = target();
        let (limits, limit, mut hold) = held(&request("a"), &target);
        assert!(matches!(hold.take(&target, &request("a"), false), Bound::ByRequest(None)));
        hold.release_attempt(&target);
        assert!(matches!(hold.take(&target, &request("a"), false), Bound::ByRequest(None)));
        assert_eq!(totals(&limits, &limit), (0, 100));
        hold.settle(&Settlement::of(&[]), &[], Timestamp::now());
        assert_eq!(totals(&limits, &limit), (0, 0));
    }
}
