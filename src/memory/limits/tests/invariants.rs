//! The invariants of limits, on random histories with a clock of their own: what is counted is compared with a ledger that
//! is kept beside it.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const USERS: [&str; 3] = ["ann", "bob", "cid"];
const START: &str = "2026-11-22T23:58:00Z";

/// One thing that happens.
#[derive(Debug, Clone)]
enum Step {
    Reserve {
        user: usize,
        estimate: i64,
    },
    /// The oldest reservation of these: it used a part of its estimate, in per cent.
    Settle {
        which: usize,
        percent: i64,
    },
    Release {
        which: usize,
    },
    Cancel {
        which: usize,
    },
    Reset {
        user: usize,
    },
    Edit {
        credit: i64,
    },
    Wait {
        seconds: i64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..USERS.len(), 0..60i64).prop_map(|(user, estimate)| Step::Reserve { user, estimate }),
        4 => (0..20usize, 0..=100i64).prop_map(|(which, percent)| Step::Settle { which, percent }),
        1 => (0..20usize).prop_map(|which| Step::Release { which }),
        1 => (0..20usize).prop_map(|which| Step::Cancel { which }),
        1 => (0..USERS.len()).prop_map(|user| Step::Reset { user }),
        1 => (0..200i64).prop_map(|credit| Step::Edit { credit }),
        1 => (1..90i64).prop_map(|seconds| Step::Wait { seconds }),
    ]
}

/// What is under way: a reservation and what it was estimated at, by whom, and in which window and generation.
struct UnderWay {
    reservation: Reservation,
    estimate: i64,
    user: usize,
    window: i64,
    generation: u32,
}

struct History {
    it: Fixture,
    limits: [Limit; 4],
    now: Timestamp,
    under_way: Vec<UnderWay>,
    /// What was settled: nanodollars by user, window and generation of the budget.
    ledger: HashMap<(usize, i64, u32), i64>,
    generations: [u32; 3],
    credit: i64,
    hard: bool,
    /// The highest credit and the highest estimate so far.
    highest: (i64, i64),
}

impl History {
    fn new(hard: bool) -> Self {
        let by_user = vec![FactKey::Metadata("_user".into())];
        let mut budget = policy(1, usage(UsageOf::Cost, 100, Reset::Weekly));
        budget.group_by.clone_from(&by_user);
        budget.hard = hard;
        let everybody = policy(2, usage(UsageOf::Tokens, 1_000, Reset::Never));
        let mut requests = policy(3, rate(RateOf::Requests, RateUnit::Minute, 9));
        requests.group_by = by_user;
        let tokens = Limit { smooth: true, ..policy(4, rate(RateOf::Tokens, RateUnit::Minute, 300)) };
        let limits = [budget, everybody, requests, tokens];
        Self {
            it: Fixture::new(limits.to_vec()),
            limits,
            now: at(START),
            under_way: Vec::new(),
            ledger: HashMap::new(),
            generations: [0; 3],
            credit: 100,
            hard,
            highest: (100, 0),
        }
    }

    fn budget_window(&self) -> i64 {
        Calendar::default().window(&self.limits[0].kind, self.now.as_millisecond()).start
    }

    /// Spent and held of every bucket of every limit.
    fn picture(&self) -> Vec<(Arc<str>, i64, i64)> {
        let views = self.limits.iter().flat_map(|limit| self.it.peek(limit, self.now));
        let mut all: Vec<_> = views.map(|view| (view.value_key, view.spent, view.held)).collect();
        all.retain(|(_, spent, held)| (*spent, *held) != (0, 0));
        all.sort();
        all
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Reserve { user, estimate } => self.reserve(user, estimate),
            Step::Settle { which, percent } => {
                let Some(one) = self.take(which) else { return };
                let cost = one.estimate * percent / 100;
                *self.ledger.entry((one.user, one.window, one.generation)).or_default() += cost;
                one.reservation.settle(used(cost.unsigned_abs(), cost), self.now);
            }
            Step::Release { which } => {
                if let Some(one) = self.take(which) {
                    one.reservation.release(self.now);
                }
            }
            Step::Cancel { which } => {
                if let Some(one) = self.take(which) {
                    one.reservation.cancel(self.now);
                }
            }
            Step::Reset { user } => {
                let wanted = format!("metadata._user:{}", USERS[user]);
                let views = self.it.peek(&self.limits[0], self.now);
                if let Some(view) = views.iter().find(|view| *view.value_key == *wanted) {
                    assert!(self.it.reset(&self.limits[0], view.entity, self.now));
                    self.generations[user] += 1;
                }
            }
            Step::Edit { credit } => {
                self.credit = credit;
                self.highest.0 = self.highest.0.max(credit);
                self.limits[0].kind = usage(UsageOf::Cost, credit, Reset::Weekly);
                self.it.change(self.limits.to_vec());
            }
            Step::Wait { seconds } => {
                self.now = self.now.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap();
            }
        }
    }

    fn take(&mut self, which: usize) -> Option<UnderWay> {
        (!self.under_way.is_empty()).then(|| self.under_way.remove(which % self.under_way.len()))
    }

    fn reserve(&mut self, user: usize, estimate: i64) {
        let before = self.picture();
        let wanted = Estimate {
            input_tokens: estimate.unsigned_abs(),
            max_output_tokens: Some(0),
            ..priced(estimate)
        };
        match self.it.reserve(Some(USERS[user]), &wanted, self.now) {
            Err(refusal) => {
                assert_eq!(self.picture(), before, "a refused request left a trace");
                assert!(refusal.retry_after.as_secs_f64() >= 1.0);
                assert!(refusal.all.iter().any(|limit| limit.id == refusal.limit.id));
            }
            Ok(reservation) => {
                self.highest.1 = self.highest.1.max(estimate);
                let window = self.budget_window();
                let generation = self.generations[user];
                self.under_way.push(UnderWay { reservation, estimate, user, window, generation });
            }
        }
    }

    fn check(&self) {
        for limit in &self.limits {
            for view in self.it.peek(limit, self.now) {
                assert!(view.held >= 0 && view.spent >= 0, "{view:?}");
            }
        }
        let window = self.budget_window();
        for view in self.it.peek(&self.limits[0], self.now) {
            let user = USERS.iter().position(|user| view.value_key.ends_with(user)).unwrap();
            let settled = self.ledger.get(&(user, window, self.generations[user])).copied().unwrap_or(0);
            assert_eq!(view.spent, settled, "spent is the sum of the ledger's rows of its window");
            let others = if self.hard { 0 } else { self.highest.1 };
            assert!(view.spent <= self.highest.0 + others, "exceeded by more than one request");
        }
    }

    /// Ends everything; nothing may be held then.
    fn quiesce(&mut self) {
        while let Some(one) = self.take(0) {
            one.reservation.release(self.now);
        }
        assert!(self.picture().iter().all(|(_, _, held)| *held == 0));
    }
}

proptest! {
    #[test]
    fn counters_agree_with_the_ledger_and_holds_end(
        hard in any::<bool>(),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut history = History::new(hard);
        for step in &steps {
            history.run(step);
            history.check();
        }
        history.quiesce();
        history.check();
    }
}

#[test]
fn of_two_that_race_for_the_last_unit_one_gets_it() {
    let kinds = [
        rate(RateOf::Requests, RateUnit::Week, 1),
        usage(UsageOf::Requests, 1, Reset::Never),
        usage(UsageOf::Cost, 5, Reset::Never),
    ];
    for kind in kinds {
        let limits = Arc::new(Limits::in_memory(Calendar::default()));
        for round in 0..300u128 {
            // Two limits in each: one that all rounds share, and has room.
            let others = policy(1, usage(UsageOf::Tokens, 1 << 40, Reset::Never));
            let set = LimitSet::new(vec![policy(2 + round, kind), others], limits.hash());
            let admitted = AtomicUsize::new(0);
            let gate = std::sync::Barrier::new(2);
            let race = || {
                let none: &[(&str, &str)] = &[];
                let facts = facts(&none);
                let selection = set.select(&facts, Phase::Request).unwrap();
                gate.wait();
                let estimate = priced(5);
                match limits.reserve(&selection, &estimate, None, at(START)).now_or_never().unwrap() {
                    Ok(reservation) => {
                        admitted.fetch_add(1, Ordering::Relaxed);
                        reservation.settle(used(1, 5), at(START));
                    }
                    Err(refusal) => {
                        assert!(
                            [Cause::Rate, Cause::Reserved, Cause::DoesNotFit, Cause::Spent]
                                .contains(&refusal.cause)
                        );
                    }
                }
            };
            std::thread::scope(|scope| {
                scope.spawn(race);
                scope.spawn(race);
            });
            assert_eq!(admitted.into_inner(), 1, "{kind:?}");
        }
    }
}

#[test]
fn many_at_once_never_exceed_a_hard_budget_and_use_it_up() {
    let limit = Limit { hard: true, ..policy(1, usage(UsageOf::Cost, 1_000_000, Reset::Never)) };
    let limits = Limits::in_memory(Calendar::default());
    let set = LimitSet::new(vec![limit.clone()], limits.hash());
    let billed = std::sync::atomic::AtomicI64::new(0);
    let client = || {
        let none: &[(&str, &str)] = &[];
        let facts = facts(&none);
        let mut random = fastrand::Rng::new();
        loop {
            let selection = set.select(&facts, Phase::Request).unwrap();
            let most = random.i64(50..2_000);
            match limits.reserve(&selection, &priced(most), None, at(START)).now_or_never().unwrap() {
                Ok(reservation) => {
                    let cost = random.i64(0..=most);
                    billed.fetch_add(cost, Ordering::Relaxed);
                    reservation.settle(used(1, cost), at(START));
                }
                Err(refusal) if refusal.cause == Cause::Reserved => std::thread::yield_now(),
                Err(_) => break,
            }
        }
    };
    std::thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(client))));
    let view = limits.usage(&limit, at(START)).now_or_never().unwrap().unwrap().unwrap();
    assert_eq!((view.spent, view.held), (billed.load(Ordering::Relaxed), 0));
    assert!((950_000..=1_000_000).contains(&view.spent), "{}", view.spent);
}
