//! What threads have borrowed of buckets changes no decision, no usage and no alert: random histories are run with it and without, and
//! compared.

use super::*;
use crate::limits::stripes::become_thread;
use proptest::prelude::*;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

const USERS: [&str; 2] = ["ann", "bob"];
const THREADS: usize = 3;
/// Per cent of its estimate that a request may use which was badly estimated.
const OVERRUN: i64 = 1_000_000;
const START: &str = "2026-11-22T23:58:00Z";

/// One thing that happens.
#[derive(Debug, Clone)]
enum Step {
    Reserve {
        thread: usize,
        user: usize,
        estimate: i64,
    },
    /// One of the reservations: it used so much of its estimate, in per cent.
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
    /// The credit, when an alert is sent, and how often all usage was reset.
    Edit {
        credit: i64,
        alert_at: Option<i64>,
        generation: u32,
    },
    Wait {
        milliseconds: i64,
    },
    /// As the journal does twice a second.
    RecallAll,
    Look,
}

fn step() -> impl Strategy<Value = Step> {
    let credit = prop_oneof![0..300i64, 20_000..600_000i64];
    prop_oneof![
        24 => (0..THREADS, 0..USERS.len(), 0..12i64)
            .prop_map(|(thread, user, estimate)| Step::Reserve { thread, user, estimate }),
        16 => (0..40usize, 0..=120i64).prop_map(|(which, percent)| Step::Settle { which, percent }),
        1 => (0..40usize).prop_map(|which| Step::Settle { which, percent: OVERRUN }),
        2 => (0..40usize).prop_map(|which| Step::Release { which }),
        2 => (0..40usize).prop_map(|which| Step::Cancel { which }),
        1 => (0..USERS.len()).prop_map(|user| Step::Reset { user }),
        1 => (credit, prop::option::of(0..400_000i64), 0..3u32)
            .prop_map(|(credit, alert_at, generation)| Step::Edit { credit, alert_at, generation }),
        1 => prop_oneof![1..499i64, 500..70_000i64].prop_map(|milliseconds| Step::Wait { milliseconds }),
        1 => Just(Step::RecallAll),
        1 => Just(Step::Look),
    ]
}

/// The same history twice: with stripes and without.
struct Twice {
    them: [Fixture; 2],
    events: [mpsc::Receiver<LimitEvent>; 2],
    limits: Vec<Limit>,
    now: Timestamp,
    under_way: Vec<([Reservation; 2], i64)>,
    /// Usage is compared with the limit of requests when they are over, and with the present one when it is recalled.
    has_edits: bool,
    /// Requests that took all they needed of what their thread had borrowed.
    from_stripes: usize,
}

impl Twice {
    fn new() -> Self {
        let by_user = vec![FactKey::Metadata("_user".into())];
        let kind = LimitKind::Usage {
            of: UsageOf::Cost,
            credit: 400_000,
            alert_at: Some(200_000),
            reset: Reset::Weekly,
        };
        let limits = vec![
            Limit { group_by: by_user.clone(), ..policy(1, kind) },
            policy(2, usage(UsageOf::Tokens, 10_000_000, Reset::Never)),
            Limit { group_by: by_user, ..policy(3, rate(RateOf::Requests, RateUnit::Minute, 20_000)) },
            policy(4, rate(RateOf::Tokens, RateUnit::Minute, 300_000)),
        ];
        let them = [Fixture::striped(limits.clone()), Fixture::new(limits.clone())];
        let events = them.each_ref().map(|it| it.limits.events().unwrap());
        Self {
            them,
            events,
            limits,
            now: at(START),
            under_way: Vec::new(),
            has_edits: false,
            from_stripes: 0,
        }
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Reserve { thread, user, estimate } => {
                become_thread(thread);
                self.reserve(user, estimate);
            }
            Step::Settle { which, percent } => {
                let Some((both, estimate)) = self.take(which) else { return };
                let cost = estimate * percent / 100;
                both.into_iter().for_each(|one| one.settle(used(cost.unsigned_abs(), cost), self.now));
            }
            Step::Release { which } => {
                if let Some((both, _)) = self.take(which) {
                    both.into_iter().for_each(|one| one.release(self.now));
                }
            }
            Step::Cancel { which } => {
                if let Some((both, _)) = self.take(which) {
                    both.into_iter().for_each(|one| one.cancel(self.now));
                }
            }
            Step::Reset { user } => {
                let wanted = format!("metadata._user:{}", USERS[user]);
                for it in &self.them {
                    let views = it.peek(&self.limits[0], self.now);
                    if let Some(view) = views.iter().find(|view| *view.value_key == *wanted) {
                        assert!(it.reset(&self.limits[0], view.entity, self.now));
                    }
                }
            }
            Step::Edit { credit, alert_at, generation } => {
                self.has_edits = true;
                let limit = &mut self.limits[0];
                limit.kind = LimitKind::Usage { of: UsageOf::Cost, credit, alert_at, reset: Reset::Weekly };
                limit.generation = limit.generation.max(generation);
                self.them.iter_mut().for_each(|it| it.change(self.limits.clone()));
            }
            Step::Wait { milliseconds } => {
                self.now = self.now.checked_add(jiff::SignedDuration::from_millis(milliseconds)).unwrap();
            }
            Step::RecallAll => self.them.iter().for_each(|it| it.limits.drop_expired(self.now)),
            Step::Look => self.compare(),
        }
    }

    fn take(&mut self, which: usize) -> Option<([Reservation; 2], i64)> {
        (!self.under_way.is_empty()).then(|| self.under_way.swap_remove(which % self.under_way.len()))
    }

    fn reserve(&mut self, user: usize, estimate: i64) {
        let wanted = Estimate { input_tokens: estimate.unsigned_abs(), ..priced(estimate) };
        let both = self.them.each_ref().map(|it| it.reserve(Some(USERS[user]), &wanted, self.now));
        match both {
            [Ok(striped), Ok(plain)] => {
                self.from_stripes += usize::from(striped.is_striped());
                self.under_way.push(([striped, plain], estimate));
            }
            [Err(striped), Err(plain)] => {
                let parts_of = |refusal: &Refusal| {
                    let others: Vec<Uuid> = refusal.all.iter().map(|limit| limit.id).collect();
                    let amounts = (refusal.spent, refusal.held, refusal.retry_after, refusal.reset_at);
                    (refusal.cause, refusal.limit.id, others, amounts)
                };
                assert_eq!(parts_of(&striped), parts_of(&plain));
            }
            [striped, plain] => {
                panic!("with stripes {:?}, without {:?}", striped.map(drop), plain.map(drop));
            }
        }
    }

    /// Looks at all usage, which ends what is lent.
    fn compare(&mut self) {
        let views = self.them.each_ref().map(|it| {
            let views = self
                .limits
                .iter()
                .flat_map(|limit| it.peek(limit, self.now).into_iter().map(|view| (limit.id, view)));
            let mut all: Vec<_> = views
                .map(|(limit, view)| {
                    let alerts = (view.is_threshold_alert_sent, view.is_exhausted_alert_sent);
                    let alerts = (!self.has_edits).then_some(alerts);
                    (limit, view.value_key, view.spent, view.held, view.window, alerts)
                })
                .collect();
            all.sort_by_key(|view| (view.0, std::sync::Arc::clone(&view.1)));
            all
        });
        assert_eq!(views[0], views[1]);
        let events = self.events.each_mut().map(|events| {
            let mut all: Vec<_> = std::iter::from_fn(|| events.try_recv().ok())
                .map(|event| (event.limit.id, event.value_key, event.kind.as_str(), event.reset_at))
                .collect();
            all.sort();
            all
        });
        assert!(self.has_edits || events[0] == events[1], "{events:?}");
    }

    fn end(&mut self) {
        self.compare();
        while let Some((both, _)) = self.take(0) {
            both.into_iter().for_each(|one| one.release(self.now));
        }
        self.compare();
        let portions = self.them[0].limits.buckets.stripes.portions();
        assert_eq!(
            portions, 0,
            "nothing is lent, and no portion is left, when all was looked at and is over"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn with_stripes_all_is_as_without(steps in prop::collection::vec(step(), 1..400)) {
        let mut twice = Twice::new();
        for step in &steps {
            twice.run(step);
        }
        twice.end();
        let requests = steps.iter().filter(|step| matches!(step, Step::Reserve { .. })).count();
        let is_quiet = !steps.iter().any(|step| matches!(step, Step::Edit { .. } | Step::Settle { percent: OVERRUN, .. }));
        // Far from every mark the most part is taken from what threads have.
        prop_assert!(!is_quiet || requests < 100 || twice.from_stripes > requests / 2, "{} of {requests}", twice.from_stripes);
    }
}

/// A budget that may be exceeded is so by one request at most, whichever threads they come from.
#[test]
fn threads_that_have_borrowed_exceed_a_budget_by_no_more_than_one_request() {
    const CREDIT: i64 = 5_000_000;
    let limit = policy(1, usage(UsageOf::Cost, CREDIT, Reset::Never));
    let everybody = policy(2, rate(RateOf::Requests, RateUnit::Minute, 1 << 40));
    let it = Fixture::striped(vec![limit.clone(), everybody]);
    let billed = AtomicI64::new(0);
    let striped = AtomicUsize::new(0);
    let next = AtomicUsize::new(0);
    let client = || {
        become_thread(next.fetch_add(1, Ordering::Relaxed));
        let mut random = fastrand::Rng::new();
        loop {
            let most = random.i64(1..200);
            match it.reserve(None, &priced(most), at(START)) {
                Ok(reservation) => {
                    let cost = random.i64(0..=most);
                    striped.fetch_add(usize::from(reservation.is_striped()), Ordering::Relaxed);
                    billed.fetch_add(cost, Ordering::Relaxed);
                    reservation.settle(used(1, cost), at(START));
                }
                Err(refusal) if refusal.cause == Cause::Reserved => std::thread::yield_now(),
                Err(_) => break,
            }
        }
    };
    std::thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(client))));
    let (spent, held) = it.totals(&limit, at(START));
    assert_eq!((spent, held), (billed.into_inner(), 0));
    assert!((CREDIT..CREDIT + 200).contains(&spent), "{spent}");
    assert!(striped.into_inner() > 1_000);
}

/// Portions are for buckets that many requests use at the same time.
#[test]
fn a_bucket_is_striped_when_it_is_hot() {
    let limit = policy(1, usage(UsageOf::Tokens, 1 << 50, Reset::Never));
    let it = Fixture::new(vec![limit.clone()]);
    become_thread(1);
    let mut now = at(START);
    let request = |now| {
        let reservation = it.reserve(None, &tokens(3), now).unwrap();
        let is_striped = reservation.is_striped();
        reservation.settle(used(2, 0), now);
        is_striped
    };
    for _ in 0..200 {
        assert!(!request(now));
        now = now.checked_add(jiff::SignedDuration::from_millis(200)).unwrap();
    }
    let striped = (0..200).filter(|_| request(now)).count();
    assert!((150..200).contains(&striped), "{striped}");
    assert_eq!(it.totals(&limit, now), (800, 0));
}

/// A hard or smooth limit keeps all limits of a request from being striped.
#[test]
fn hard_and_smooth_limits_lend_nothing() {
    let soft = policy(1, usage(UsageOf::Cost, 1 << 50, Reset::Never));
    let hard = Limit { hard: true, ..policy(2, usage(UsageOf::Cost, 1 << 50, Reset::Never)) };
    let smooth = Limit { smooth: true, ..policy(3, rate(RateOf::Requests, RateUnit::Hour, 1 << 50)) };
    for (limits, lends) in [
        (vec![soft.clone()], true),
        (vec![hard.clone()], false),
        (vec![smooth.clone()], false),
        (vec![soft.clone(), hard], false),
        (vec![smooth, soft], false),
    ] {
        let it = Fixture::striped(limits);
        for _ in 0..3 {
            it.reserve(None, &priced(1), at(START)).unwrap().settle(used(2, 0), at(START));
        }
        assert_eq!(it.reserve(None, &priced(1), at(START)).unwrap().is_striped(), lends);
    }
}

/// Of a limit that becomes hard all that is lent counts as held, so it is recalled.
#[test]
fn a_limit_that_becomes_hard_has_the_room_of_its_stripes() {
    let soft = policy(1, usage(UsageOf::Cost, 10_000_000, Reset::Never));
    let mut it = Fixture::striped(vec![soft.clone()]);
    for thread in [0, 1] {
        become_thread(thread);
        it.reserve(None, &priced(10), at(START)).unwrap().settle(used(0, 10), at(START));
    }
    assert_eq!(it.limits.buckets.stripes.portions(), 2);
    it.change(vec![Limit { hard: true, ..soft }]);
    let most = Estimate { max_cost: Some(9_999_980), ..priced(10) };
    it.reserve(None, &most, at(START)).unwrap().cancel(at(START));
}

/// Where one limit of a request is too small to lend, the others lend nothing for nothing.
#[test]
fn all_limits_of_a_request_lend_or_none() {
    let large = policy(1, usage(UsageOf::Cost, 10_000_000, Reset::Never));
    let small = policy(2, rate(RateOf::Requests, RateUnit::Minute, 2_000));
    let it = Fixture::striped(vec![large, small]);
    it.reserve(None, &priced(1), at(START)).unwrap().settle(used(0, 1), at(START));
    assert_eq!(it.limits.buckets.stripes.portions(), 0);
}

/// What is left for other threads is not taken for what it was long ago.
#[test]
fn a_thread_looks_at_the_bucket_twice_a_second() {
    let limit = policy(1, rate(RateOf::Requests, RateUnit::Minute, 60_000));
    let it = Fixture::striped(vec![limit]);
    let request = |thread, now| {
        become_thread(thread);
        let reservation = it.reserve(None, &tokens(0), now).unwrap();
        let left = reservation.tightest().requests.unwrap().remaining;
        reservation.settle(used(0, 0), now);
        left
    };
    for _ in 0..2_000 {
        request(1, at(START));
        request(0, at(START));
    }
    let far = request(0, at(START));
    for _ in 0..5_000 {
        request(1, at(START));
    }
    assert!(request(0, at("2026-11-22T23:58:00.499Z")) >= far - 1_000);
    let true_rest = 60_000 - 4_000 - 5_000 - 3;
    let shown = request(0, at("2026-11-22T23:58:00.500Z"));
    assert!((true_rest - 256..=true_rest).contains(&shown), "{shown}");
}

/// What was used of portions is in the journal when all is flushed, and what was lent and not used is not.
#[test]
fn what_threads_have_used_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let options =
        LimitsOptions { journal: Some(folder.path().join("limits.db")), ..LimitsOptions::default() };
    let limit = policy(1, usage(UsageOf::Tokens, 1 << 50, Reset::Never));
    let start = || Fixture::of(Limits::open(&options, at(START)).unwrap(), vec![limit.clone()]);
    let it = start();
    it.reserve(None, &tokens(3), at(START)).unwrap().settle(used(2, 0), at(START));
    it.limits.buckets.get(it.limits.hash().only(&limit)).unwrap().state.lock().uses = u16::MAX - 1;
    for thread in [0, 1, 0, 1] {
        become_thread(thread);
        let reservation = it.reserve(None, &tokens(3), at(START)).unwrap();
        reservation.settle(used(2, 0), at(START));
    }
    let under_way = it.reserve(None, &tokens(3), at(START)).unwrap();
    assert!(under_way.is_striped());
    drop(it);
    drop(under_way);
    let it = start();
    assert_eq!(it.totals(&limit, at(START)), (10, 0));
}
