//! Tests of one lease, with a clock and a store of their own: orders and replies are values, so any of them can be lost or come late.

use super::*;
use crate::limits::limit::{LimitKind, RateUnit};
use crate::limits::shared::claim::{Rule, Verdict};
use crate::limits::tests::{policy, rate};
use crate::limits::window::{Calendar, Window};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};

const START: i64 = 1_800_000_000_000;
const HELD_FOR: Duration = Duration::from_secs(600);

fn minutely(value: i64) -> Arc<Limit> {
    Arc::new(policy(1, rate(RateOf::Requests, RateUnit::Minute, value)))
}

fn window(limit: &Limit, now: i64) -> Window {
    Calendar::default().window(&limit.kind, now)
}

fn claim(limit: &Arc<Limit>, amount: i64, now: i64) -> Claim {
    let window = window(limit, now);
    let limit = Arc::clone(limit);
    let value_key: Arc<str> = "".into();
    let rule = Rule::Requests;
    let is_overflow = false;
    Claim { limit, entity: 7, value_key, window, amount, likely: 0, rule, is_overflow }
}

fn moment(now: i64) -> Moment {
    Moment { now, theirs: now, gateways: 1, is_on: true }
}

/// The bucket in the store, as the scripts keep it.
#[derive(Debug)]
struct Store {
    window: Window,
    epoch: i64,
    generation: u32,
    resets: u32,
    spent: i64,
    holds: HashMap<Uuid, i64>,
}

impl Store {
    fn new(limit: &Limit, now: i64) -> Self {
        let window = window(limit, now);
        Self { window, epoch: now, generation: 0, resets: 0, spent: 0, holds: HashMap::new() }
    }

    fn held(&self) -> i64 {
        self.holds.values().sum()
    }

    fn state(&self) -> State {
        State::reported(self.window, self.spent, self.held(), 0)
    }

    /// Holds an amount if there is room for all of it.
    fn reserve(&mut self, limit: &Limit, amount: i64, now: i64) -> Option<(Uuid, BucketReply)> {
        if window(limit, now) != self.window {
            self.window = window(limit, now);
            self.epoch = now.max(self.epoch + 1);
            self.spent = 0;
            self.holds.clear();
        }
        if limit.generation > self.generation {
            (self.generation, self.spent) = (limit.generation, 0);
        }
        if self.spent + self.held() + amount > limit.value() {
            return None;
        }
        let hold = Uuid::now_v7();
        self.holds.insert(hold, amount);
        let verdict = Verdict::Room;
        let is_clamped = false;
        let is_exhausted_now = false;
        let state = self.state();
        let Key { epoch, generation, resets } = self.key();
        let reply =
            BucketReply { verdict, state, epoch, resets, amount, is_clamped, is_exhausted_now, generation };
        Some((hold, reply))
    }

    /// False: the hold is not there.
    fn settle(&mut self, hold: Uuid, key: Key, actual: i64) -> bool {
        let is_there = self.holds.remove(&hold).is_some();
        if is_there && key == self.key() {
            self.spent += actual;
        }
        is_there
    }

    fn key(&self) -> Key {
        Key { epoch: self.epoch, generation: self.generation, resets: self.resets }
    }

    fn lease(&mut self, order: &LeaseOrder, now: i64) -> LeaseReply {
        let reply = |store: &Self, amount, room| LeaseReply {
            state: store.state(),
            epoch: store.epoch,
            resets: store.resets,
            amount,
            room,
            is_threshold_now: false,
            is_exhausted_now: false,
        };
        let key = Key { epoch: order.epoch, generation: order.limit.generation, resets: order.resets };
        let is_same = self.window == order.window && self.generation == order.limit.generation;
        let is_same = is_same && now <= order.not_after && self.window.contains(now);
        let is_there = match order.before {
            Some((before, _)) => self.settle(before, key, order.actual),
            None => is_same || (order.kept == 0 && order.actual == 0),
        };
        if let Some(amount) = self.holds.get(&order.next).copied() {
            return reply(self, amount, order.room + amount - order.kept);
        }
        if !is_there {
            return reply(self, 0, 0);
        }
        if order.before.is_none() && order.resets == self.resets {
            self.spent += order.actual;
        }
        let mut room = 0;
        if order.wanted > 0 && is_same {
            let rest = order.limit.value() - self.spent - self.held() - order.kept + order.room;
            room = order.wanted.min(rest.div_euclid(order.share));
            room = if room < order.least { 0 } else { room };
        }
        let amount = order.kept + (room - order.room).max(0);
        if amount > 0 {
            self.holds.insert(order.next, amount);
        }
        reply(self, amount, room)
    }
}

/// What usage is of: a window, and the resets of its limit and its bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    epoch: i64,
    generation: u32,
    resets: u32,
}

#[test]
fn a_hot_bucket_is_leased_renewed_and_returned() {
    let limit = minutely(10_000);
    let mut now = START;
    let mut store = Store::new(&limit, START);
    let mut lease = Lease::new(&claim(&limit, 1, now));
    for count in 1..=10 {
        let (hold, reply) = store.reserve(&limit, 1, now).unwrap();
        let is_due = lease.note(&claim(&limit, 1, now), &reply, &moment(now));
        assert_eq!(is_due, count >= LEAST_REQUESTS, "{count}");
        let key = store.key();
        store.settle(hold, key, 1);
    }
    assert!(lease.take(&limit, 1, &moment(now)).is_none());
    // As many as were used.
    let order = lease.due(&moment(now), HELD_FOR).unwrap();
    assert_eq!((order.wanted, order.least, order.kept, order.before), (10, 4, 0, None));
    lease.apply(&store.lease(&order, now));
    assert_eq!((lease.room(), store.held()), (10, 10));
    assert!(lease.due(&moment(now + 1), HELD_FOR).is_none());
    let taken: Vec<_> = (0..6).map(|_| lease.take(&limit, 1, &moment(now)).unwrap()).collect();
    assert!(lease.is_low(), "before it is used up");
    let (of, remaining) = lease.remaining(now).unwrap();
    assert_eq!((of, remaining.limit, remaining.remaining), (RateOf::Requests, 10_000, 10_000 - 16));
    now += LEAST_PAUSE;
    let order = lease.due(&moment(now), HELD_FOR).unwrap();
    assert_eq!((order.actual, order.kept, order.room, order.wanted), (0, 10, 4, 16));
    // Requests go on while it is on its way.
    lease.settle(taken[0], 1);
    let during = lease.take(&limit, 1, &moment(now)).unwrap();
    let reply = store.lease(&order, now);
    lease.apply(&reply);
    assert_eq!((lease.room(), lease.held, lease.spent, store.held()), (15, 6, 1, 22));
    // Sent again, it changes nothing.
    let again = store.lease(&order, now);
    assert_eq!((again.amount, again.room, store.held()), (reply.amount, reply.room, 22));
    // Nobody uses it any more: what is lent goes back, and what requests hold stays held.
    now += 2_300;
    let order = lease.due(&moment(now), HELD_FOR).unwrap();
    assert_eq!((order.actual, order.kept, order.room, order.wanted), (1, 6, 0, 0));
    lease.apply(&store.lease(&order, now));
    assert_eq!((store.spent, store.held(), lease.take(&limit, 1, &moment(now)).is_none()), (11, 6, true));
    assert!(!lease.is_idle(now) && lease.due(&moment(now), HELD_FOR).is_none());
    // Those end, one that used nothing among them.
    lease.settle(during, 0);
    taken.into_iter().skip(1).for_each(|hold| lease.settle(hold, 1));
    let order = lease.due(&moment(now), HELD_FOR).unwrap();
    lease.apply(&store.lease(&order, now));
    assert_eq!((store.spent, store.held(), lease.is_idle(now)), (16, 0, true));
}

/// A lease of a bucket that eight requests have made hot.
fn lent(limit: &Arc<Limit>, store: &mut Store, now: i64) -> Lease {
    let mut lease = Lease::new(&claim(limit, 1, now));
    for _ in 0..8 {
        let (hold, reply) = store.reserve(limit, 1, now).unwrap();
        lease.note(&claim(limit, 1, now), &reply, &moment(now));
        let key = store.key();
        store.settle(hold, key, 1);
    }
    let order = lease.due(&moment(now), HELD_FOR).unwrap();
    lease.apply(&store.lease(&order, now));
    lease
}

/// A crash of the store loses what it has committed last.
#[test]
fn what_requests_have_taken_is_held_again_if_the_store_has_lost_it() {
    let limit = minutely(10_000);
    let mut store = Store::new(&limit, START);
    let mut lease = lent(&limit, &mut store, START);
    let mut taken: Vec<_> = (0..5).map(|_| lease.take(&limit, 1, &moment(START)).unwrap()).collect();
    lease.settle(taken.remove(0), 1);
    let spent = store.spent;
    let mut now = START + RENEWED_AFTER;
    store.holds.clear();
    let order = lease.due(&moment(now), HELD_FOR).unwrap();
    assert_eq!((order.actual, order.kept), (1, 7));
    lease.apply(&store.lease(&order, now));
    assert_eq!((store.spent, store.held(), lease.is_settled()), (spent, 0, false));
    now += LEAST_PAUSE;
    let again = lease.due(&moment(now), HELD_FOR).unwrap();
    assert_eq!((again.before, again.actual, again.kept, again.room), (None, 1, 4, 0));
    // One that was sent twice, and comes late, holds nothing.
    let late = store.lease(&again, again.not_after + 1);
    assert_eq!((late.amount, store.spent, store.held()), (0, spent, 0));
    lease.apply(&store.lease(&again, now));
    assert_eq!((store.spent, store.held(), lease.held), (spent + 1, 4, 4));
    taken.into_iter().for_each(|hold| lease.settle(hold, 1));
    lease.end(now, false);
    let order = lease.due(&moment(now), HELD_FOR).unwrap();
    lease.apply(&store.lease(&order, now));
    assert_eq!((store.spent, store.held(), lease.is_settled()), (spent + 5, 0, true));
}

#[test]
fn a_lease_is_a_small_part_of_the_limit_and_of_what_is_left() {
    let small = minutely(199);
    let mut store = Store::new(&small, START);
    let mut lease = Lease::new(&claim(&small, 1, START));
    for _ in 0..50 {
        let (_, reply) = store.reserve(&small, 1, START).unwrap();
        assert!(!lease.note(&claim(&small, 1, START), &reply, &moment(START)), "less than it takes");
    }
    assert!(lease.due(&moment(START), HELD_FOR).is_none());
    let limit = minutely(250);
    let mut store = Store::new(&limit, START);
    store.spent = 150;
    assert_eq!(lent(&limit, &mut store, START).room(), 5, "2 % of the limit");
    // Of 32 that are left, one gateway gets a quarter, and two an eighth each.
    for (gateways, wanted) in [(1, 5), (2, 4), (3, 0)] {
        let mut store = Store::new(&limit, START);
        store.spent = 210;
        let mut lease = Lease::new(&claim(&limit, 1, START));
        let moment = Moment { gateways, ..moment(START) };
        for _ in 0..8 {
            let (_, reply) = store.reserve(&limit, 1, START).unwrap();
            lease.note(&claim(&limit, 1, START), &reply, &moment);
        }
        let order = lease.due(&moment, HELD_FOR).unwrap();
        lease.apply(&store.lease(&order, START));
        assert_eq!(lease.room(), wanted, "{gateways}");
        if wanted == 0 {
            let later = Moment { now: START + LEAST_PAUSE, theirs: START + LEAST_PAUSE, ..moment };
            assert!(lease.due(&later, HELD_FOR).is_none(), "the store is not bothered again at once");
        }
    }
}

#[test]
fn a_lease_is_not_used_when_time_or_limit_are_others() {
    let limit = minutely(10_000);
    let mut lease = lent(&limit, &mut Store::new(&limit, START), START);
    assert_eq!(lease.room(), 8);
    assert!(lease.take(&limit, 9, &moment(START)).is_none(), "more than there is");
    assert!(lease.take(&limit, 1, &moment(START + LIFETIME)).is_none(), "it has ended");
    let end = window(&limit, START).end;
    let theirs = |theirs| Moment { theirs, ..moment(START + 1) };
    assert!(lease.take(&limit, 1, &theirs(end)).is_none(), "the store has another window");
    assert!(lease.take(&limit, 1, &theirs(end - MARGIN)).is_none(), "or may have");
    let equal = minutely(10_000);
    assert!(lease.take(&equal, 1, &moment(START)).is_some(), "limits that were compiled again are the same");
    let edited = minutely(9_999);
    assert!(lease.take(&edited, 1, &moment(START)).is_none());
    lease.end(START, true);
    assert!(lease.take(&equal, 1, &moment(START)).is_none());
    let order = lease.due(&moment(START), HELD_FOR).unwrap();
    assert_eq!((order.kept, order.wanted), (1, 0));
    // Turned off, one is returned as well.
    let mut lease = lent(&limit, &mut Store::new(&limit, START), START);
    assert_eq!(lease.due(&Moment { is_on: false, ..moment(START) }, HELD_FOR).unwrap().kept, 0);
}

/// One thing that happens.
#[derive(Debug, Clone)]
enum Step {
    /// `is_late`: of a request that has the limits of before the last edit.
    Reserve {
        gateway: usize,
        amount: i64,
        is_late: bool,
    },
    Settle {
        which: usize,
        percent: i64,
    },
    /// Sends what is due. It arrives and is replied to, or its reply is lost, or it is lost itself.
    Send {
        gateway: usize,
        fate: u8,
    },
    /// An order that was given up long ago arrives at last.
    Repeat {
        which: usize,
    },
    Wait {
        millis: i64,
    },
    Reset,
    Edit {
        value: i64,
        anew: bool,
    },
    End {
        gateway: usize,
    },
    Kill {
        gateway: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let gateway = 0..2usize;
    prop_oneof![
        30 => (gateway.clone(), 1..6i64, prop::bool::weighted(0.1))
            .prop_map(|(gateway, amount, is_late)| Step::Reserve { gateway, amount, is_late }),
        20 => (0..20usize, 0..=100i64).prop_map(|(which, percent)| Step::Settle { which, percent }),
        16 => (gateway.clone(), prop_oneof![4 => Just(0u8), 1 => 1..3u8])
            .prop_map(|(gateway, fate)| Step::Send { gateway, fate }),
        2 => (0..20usize).prop_map(|which| Step::Repeat { which }),
        8 => prop_oneof![5 => 1..400i64, 1 => 400..30_000i64].prop_map(|millis| Step::Wait { millis }),
        1 => Just(Step::Reset),
        1 => (300..2_000i64, any::<bool>()).prop_map(|(value, anew)| Step::Edit { value, anew }),
        1 => gateway.clone().prop_map(|gateway| Step::End { gateway }),
        1 => gateway.prop_map(|gateway| Step::Kill { gateway }),
    ]
}

/// What a request under way holds.
enum Held {
    Leased(LeaseHold),
    Stored(Uuid),
}

struct Request {
    gateway: usize,
    held: Held,
    amount: i64,
    key: Key,
}

struct History {
    now: i64,
    limit: Arc<Limit>,
    /// The one before the last edit.
    before: Arc<Limit>,
    store: Store,
    gateways: [Option<Lease>; 2],
    requests: Vec<Request>,
    /// What requests that are over have used, and what of it a killed gateway had not settled.
    ledger: HashMap<Key, i64>,
    orders: Vec<LeaseOrder>,
    /// Of gateways that were killed: they expire.
    orphans: HashSet<Uuid>,
    highest: i64,
    served: usize,
}

impl History {
    fn new(value: i64) -> Self {
        let limit = minutely(value);
        Self {
            now: START,
            store: Store::new(&limit, START),
            before: Arc::clone(&limit),
            limit,
            gateways: [None, None],
            requests: Vec::new(),
            ledger: HashMap::new(),
            orders: Vec::new(),
            orphans: HashSet::new(),
            highest: value,
            served: 0,
        }
    }

    fn moment(&self) -> Moment {
        Moment { gateways: 2, ..moment(self.now) }
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Reserve { gateway, amount, is_late } => self.reserve(gateway, amount, is_late),
            Step::Settle { which, percent } => self.settle(which, percent),
            Step::Send { gateway, fate } => self.send(gateway, fate),
            Step::Repeat { which } => {
                let late: Vec<_> = self.orders.iter().filter(|order| order.not_after < self.now).collect();
                if let Some(order) = late.get(which % late.len().max(1)) {
                    self.store.lease(order, self.now);
                }
            }
            Step::Wait { millis } => self.now += millis,
            Step::Reset => {
                self.store.spent = 0;
                self.store.resets += 1;
            }
            Step::Edit { value, anew } => {
                let generation = self.limit.generation + u32::from(anew);
                let LimitKind::Rate { of, unit, .. } = self.limit.kind else { unreachable!() };
                let kind = LimitKind::Rate { of, unit, value };
                let edited = Arc::new(Limit { kind, generation, ..(*self.limit).clone() });
                self.before = std::mem::replace(&mut self.limit, edited);
                self.highest = self.highest.max(value);
            }
            Step::End { gateway } => {
                let now = self.now;
                if let Some(lease) = &mut self.gateways[gateway] {
                    lease.end(now, false);
                }
            }
            Step::Kill { gateway } => self.kill(gateway),
        }
    }

    fn reserve(&mut self, gateway: usize, amount: i64, is_late: bool) {
        let moment = self.moment();
        let limit = Arc::clone(if is_late { &self.before } else { &self.limit });
        let claim = claim(&limit, amount, self.now);
        let lease = self.gateways[gateway].get_or_insert_with(|| Lease::new(&claim));
        if let Some(hold) = lease.take(&limit, amount, &moment) {
            let key = Key { epoch: lease.epoch, generation: limit.generation, resets: lease.resets };
            self.requests.push(Request { gateway, held: Held::Leased(hold), amount, key });
            self.served += 1;
        } else if let Some((hold, reply)) = self.store.reserve(&limit, amount, self.now) {
            lease.note(&claim, &reply, &moment);
            let key = self.store.key();
            self.requests.push(Request { gateway, held: Held::Stored(hold), amount, key });
        }
    }

    fn settle(&mut self, which: usize, percent: i64) {
        if self.requests.is_empty() {
            return;
        }
        let request = self.requests.swap_remove(which % self.requests.len());
        let actual = request.amount * percent / 100;
        match request.held {
            Held::Leased(hold) => {
                let lease = self.gateways[request.gateway].as_mut().unwrap();
                lease.settle(hold, actual);
            }
            Held::Stored(hold) => {
                self.store.settle(hold, request.key, actual);
            }
        }
        *self.ledger.entry(request.key).or_default() += actual;
    }

    fn send(&mut self, gateway: usize, fate: u8) {
        let moment = self.moment();
        let Some(lease) = &mut self.gateways[gateway] else { return };
        let Some(order) = lease.due(&moment, HELD_FOR) else { return };
        if fate < 2 {
            let reply = self.store.lease(&order, self.now);
            if fate == 0 {
                lease.apply(&reply);
            }
        }
        self.orders.push(order);
    }

    /// What it has not settled is lost, and what it holds expires.
    fn kill(&mut self, gateway: usize) {
        let Some(lease) = self.gateways[gateway].take() else { return };
        let key = Key { epoch: lease.epoch, generation: lease.limit.generation, resets: lease.resets };
        *self.ledger.entry(key).or_default() -= lease.spent;
        self.orphans.extend(lease.hold.map(|(hold, _)| hold));
        if let Some(Sent { order, windows, .. }) = &lease.order {
            self.orphans.insert(order.next);
            let before = order.before.filter(|(before, _)| self.store.holds.contains_key(before));
            if *windows == lease.windows && before.is_some() {
                // Perhaps of the time before a reset that the lease has noticed since.
                let key =
                    Key { epoch: order.epoch, generation: order.limit.generation, resets: order.resets };
                *self.ledger.entry(key).or_default() -= order.actual;
                // Else it would not be lost.
                self.orders.retain(|sent| sent.next != order.next);
            }
        }
        let (gone, left) = std::mem::take(&mut self.requests)
            .into_iter()
            .partition::<Vec<_>, _>(|request| request.gateway == gateway);
        self.requests = left;
        for request in gone {
            if let Held::Stored(hold) = request.held {
                self.orphans.insert(hold);
            }
        }
    }

    fn check(&self) {
        assert!(self.store.spent + self.store.held() <= self.highest, "{:?}", self.store);
        for (gateway, lease) in self.gateways.iter().enumerate() {
            let Some(lease) = lease else { continue };
            assert!(lease.room >= 0 && lease.spent >= 0, "{lease:?}");
            let of_lease = self.requests.iter().filter(|request| request.gateway == gateway);
            let taken: i64 = of_lease
                .filter_map(|request| match request.held {
                    Held::Leased(hold) if hold.windows == lease.windows => Some(hold.amount),
                    _ => None,
                })
                .sum();
            assert_eq!(lease.held, taken, "{lease:?}");
            let in_store = lease.hold.filter(|(hold, _)| self.store.holds.contains_key(hold));
            if let (Some((_, amount)), None) = (in_store, &lease.order) {
                assert!(lease.held + lease.room + lease.spent <= amount, "{lease:?}");
            }
        }
    }

    /// Everything ends, and everything arrives.
    fn quiesce(&mut self) {
        while !self.requests.is_empty() {
            self.settle(0, 100);
        }
        for gateway in 0..2 {
            for _ in 0..4 {
                self.run(&Step::End { gateway });
                self.send(gateway, 0);
            }
            let lease = self.gateways[gateway].as_ref();
            assert!(lease.is_none_or(|lease| lease.is_settled() && !lease.is_held()), "{lease:?}");
        }
        let left: HashSet<Uuid> = self.store.holds.keys().copied().collect();
        assert!(left.is_subset(&self.orphans), "{left:?} are held by nobody");
        let spent = self.ledger.get(&self.store.key()).copied().unwrap_or(0);
        assert_eq!(self.store.spent, spent, "what is settled is what was used");
    }
}

proptest! {
    #[test]
    fn nothing_is_lost_or_counted_twice(value in 250..2_000i64, steps in prop::collection::vec(step(), 1..400)) {
        let mut history = History::new(value);
        for step in &steps {
            history.run(step);
            history.check();
        }
        history.quiesce();
        history.check();
    }
}

#[test]
fn most_requests_of_a_busy_bucket_are_served_from_leases_and_all_of_the_limit_is_used() {
    // A limit, and three times as many requests. Ten times the length with `make test-all`.
    let limit: i64 = if std::env::var_os("TEST_ALL").is_some() { 20_000 } else { 2_000 };
    let mut history = History::new(limit);
    let mut passed = 0;
    let mut refused = 0;
    for step in 0..3 * limit as usize {
        let before = history.requests.len();
        history.run(&Step::Reserve { gateway: step % 2, amount: 1, is_late: false });
        let is_passed = history.requests.len() > before;
        passed += i64::from(is_passed);
        refused += i64::from(!is_passed);
        if step % 10 == 9 {
            (0..10).for_each(|_| history.run(&Step::Settle { which: 0, percent: 100 }));
            history.run(&Step::Send { gateway: step % 2, fate: 0 });
            history.run(&Step::Send { gateway: (step + 1) % 2, fate: 0 });
            history.run(&Step::Wait { millis: 5 });
        }
        history.check();
    }
    assert_eq!((passed, history.store.spent), (limit, limit), "{refused}");
    assert!(history.served as i64 > limit * 9 / 10, "{}", history.served);
    history.quiesce();
}
