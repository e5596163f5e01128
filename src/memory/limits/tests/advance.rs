//! What batches hold in advance: their requests take it, others cannot.

use super::*;
use proptest::prelude::*;

const NOON: &str = "2026-11-22T12:00:00Z";

fn sum(
    it: &Fixture,
    user: Option<&'static str>,
    estimate: &Estimate<'_>,
    requests: usize,
) -> AdvanceEstimate {
    let mut sum = AdvanceEstimate::default();
    add(it, &mut sum, user, estimate, requests);
    sum
}

fn add(
    it: &Fixture,
    sum: &mut AdvanceEstimate,
    user: Option<&'static str>,
    estimate: &Estimate<'_>,
    requests: usize,
) {
    let user = user.map(|user| ("_user", user));
    let metadata = user.as_slice();
    let facts = facts(&metadata);
    for _ in 0..requests {
        let selection = it.set.select(&facts, Phase::Request).unwrap();
        it.limits.add_to_advance(sum, &selection, estimate, at(NOON));
    }
}

fn line(it: &Fixture, estimate: &Estimate<'_>, advance: &Advance) -> Result<Reservation, Box<Refusal>> {
    let metadata: &[(&str, &str)] = &[];
    let facts = facts(&metadata);
    let selection = it.set.select(&facts, Phase::Request).unwrap();
    it.limits.reserve(&selection, estimate, Some(advance), at(NOON)).now_or_never().unwrap()
}

fn hard(credit: i64) -> Limit {
    Limit { hard: true, ..policy(1, usage(UsageOf::Cost, credit, Reset::Never)) }
}

#[test]
fn what_was_made_already_counts_beyond_every_budget() {
    for limit in [hard(100), Limit { hard: false, ..hard(100) }, Limit { fit: true, ..hard(100) }] {
        let it = Fixture::new(vec![limit.clone()]);
        let advance = it.limits.advance(&sum(&it, None, &priced(30), 3), at(NOON)).unwrap();
        let made = Estimate { is_made: true, ..priced(60) };
        let results: Vec<Reservation> = (0..3).map(|_| line(&it, &made, &advance).unwrap()).collect();
        for result in results {
            assert_eq!(result.fitted_output(), None);
            result.settle(used(0, 50), at(NOON));
        }
        drop(advance);
        assert_eq!(it.totals(&limit, at(NOON)), (150, 0));
        assert_eq!(it.reserve(None, &priced(1), at(NOON)).unwrap_err().cause, Cause::Spent);
    }
}

#[test]
fn requests_take_from_it_what_others_cannot_have() {
    let it = Fixture::new(vec![hard(100)]);
    let advance = it.limits.advance(&sum(&it, None, &priced(30), 3), at(NOON)).unwrap();
    assert_eq!(it.totals(&hard(100), at(NOON)), (0, 90));
    assert_eq!(it.reserve(None, &priced(30), at(NOON)).unwrap_err().cause, Cause::Reserved);
    it.reserve(None, &priced(10), at(NOON)).unwrap().settle(used(0, 10), at(NOON));
    for spent in [20, 25, 30] {
        let request = line(&it, &priced(30), &advance).unwrap();
        request.settle(used(0, spent), at(NOON));
    }
    // What was held and not used is free at once, also for further requests of the batch.
    assert_eq!(it.totals(&hard(100), at(NOON)), (85, 0));
    line(&it, &priced(15), &advance).unwrap().settle(used(0, 15), at(NOON));
    assert_eq!(line(&it, &priced(1), &advance).unwrap_err().cause, Cause::Spent);
}

#[test]
fn a_request_that_is_refused_leaves_it_as_it_was_and_its_end_frees_the_rest() {
    let it = Fixture::new(vec![hard(100)]);
    let advance = it.limits.advance(&sum(&it, None, &priced(30), 3), at(NOON)).unwrap();
    assert_eq!(line(&it, &priced(101), &advance).unwrap_err().cause, Cause::DoesNotFit);
    assert_eq!(it.totals(&hard(100), at(NOON)), (0, 90));
    let request = line(&it, &priced(30), &advance).unwrap();
    drop(advance);
    assert_eq!(it.totals(&hard(100), at(NOON)), (0, 30));
    request.settle(used(0, 5), at(NOON));
    assert_eq!(it.totals(&hard(100), at(NOON)), (5, 0));
}

/// As a line does whose hooks have changed it: what was held for the first request is given up, and the other one is held.
#[test]
fn a_request_that_counts_nowhere_gives_back_what_it_has_taken() {
    let it = Fixture::new(vec![hard(100)]);
    let advance = it.limits.advance(&sum(&it, None, &priced(30), 3), at(NOON)).unwrap();
    let kept = line(&it, &priced(25), &advance).unwrap();
    for cost in [30, 40, 70] {
        let request = line(&it, &priced(cost), &advance).unwrap();
        request.cancel(at(NOON));
        assert_eq!(it.totals(&hard(100), at(NOON)), (0, 90), "{cost}");
        assert_eq!(it.reserve(None, &priced(11), at(NOON)).unwrap_err().cause, Cause::Reserved);
    }
    // Nothing is charged for it: its line may be sent again, and has what it had.
    line(&it, &priced(30), &advance).unwrap().release(at(NOON));
    assert_eq!(it.totals(&hard(100), at(NOON)), (0, 90));
    let request = line(&it, &priced(30), &advance).unwrap();
    drop(advance);
    request.cancel(at(NOON));
    assert_eq!(it.totals(&hard(100), at(NOON)), (0, 25), "the batch has ended");
    kept.settle(used(0, 25), at(NOON));
    assert_eq!(it.totals(&hard(100), at(NOON)), (25, 0));
}

#[test]
fn a_hard_budget_has_room_for_all_or_holds_nothing() {
    let it = Fixture::new(vec![hard(100)]);
    let too_much = sum(&it, None, &priced(30), 4);
    assert_eq!(it.limits.advance(&too_much, at(NOON)).unwrap_err().cause, Cause::DoesNotFit);
    let under_way = it.reserve(None, &priced(50), at(NOON)).unwrap();
    let three = sum(&it, None, &priced(30), 3);
    assert_eq!(it.limits.advance(&three, at(NOON)).unwrap_err().cause, Cause::Reserved);
    under_way.settle(used(0, 10), at(NOON));
    let advance = it.limits.advance(&three, at(NOON)).unwrap();
    assert_eq!(it.totals(&hard(100), at(NOON)), (10, 90));
    drop(advance);
}

#[test]
fn of_any_other_budget_it_holds_what_there_is() {
    let soft = policy(1, usage(UsageOf::Cost, 100, Reset::Never));
    let it = Fixture::new(vec![soft.clone()]);
    let advance = it.limits.advance(&sum(&it, None, &priced(30), 9), at(NOON)).unwrap();
    assert_eq!(it.totals(&soft, at(NOON)), (0, 100));
    assert_eq!(it.reserve(None, &priced(1), at(NOON)).unwrap_err().cause, Cause::Reserved);
    for _ in 0..4 {
        line(&it, &priced(30), &advance).unwrap().settle(used(0, 30), at(NOON));
    }
    assert_eq!(line(&it, &priced(30), &advance).unwrap_err().cause, Cause::Spent);
    drop(advance);
    let spent = it.limits.advance(&sum(&it, None, &priced(1), 1), at(NOON));
    assert_eq!(spent.unwrap_err().cause, Cause::Spent);
}

#[test]
fn rates_and_what_a_limit_refuses_anyway_are_not_held() {
    let it = Fixture::new(vec![policy(1, rate(RateOf::Requests, RateUnit::Minute, 2))]);
    assert!(sum(&it, None, &priced(30), 9).is_empty());
    let it = Fixture::new(vec![hard(100)]);
    let unbounded = Estimate { max_output_tokens: None, ..priced(30) };
    drop(it.limits.advance(&sum(&it, None, &unbounded, 9), at(NOON)).unwrap());
}

#[test]
fn each_bucket_is_held_by_itself() {
    let key = FactKey::parse("metadata._user").unwrap();
    let it = Fixture::new(vec![Limit { group_by: vec![key], ..hard(100) }]);
    let mut both = sum(&it, Some("ann"), &priced(30), 3);
    add(&it, &mut both, Some("bob"), &priced(30), 2);
    let advance = it.limits.advance(&both, at(NOON)).unwrap();
    assert_eq!(it.reserve(Some("ann"), &priced(20), at(NOON)).unwrap_err().cause, Cause::Reserved);
    drop(it.reserve(Some("bob"), &priced(40), at(NOON)).unwrap());
    drop(advance);
}

#[test]
fn a_window_that_ends_ends_it() {
    let daily = Limit { hard: true, ..policy(1, usage(UsageOf::Cost, 100, Reset::Weekly)) };
    let it = Fixture::new(vec![daily.clone()]);
    let advance = it.limits.advance(&sum(&it, None, &priced(30), 3), at(NOON)).unwrap();
    let later = at("2026-12-22T12:00:00Z");
    it.reserve(None, &priced(100), later).unwrap().settle(used(0, 1), later);
    drop(advance);
    assert_eq!(it.totals(&daily, later), (1, 0));
}

proptest! {
    #[test]
    fn a_hard_budget_is_never_exceeded(
        batches in prop::collection::vec((1..40i64, 1..6usize), 1..4),
        steps in prop::collection::vec((0..5usize, 1..40i64, 0..=100i64), 0..60),
    ) {
        let it = Fixture::new(vec![hard(300)]);
        let now = at(NOON);
        let held: Vec<(i64, Advance)> = batches
            .iter()
            .filter_map(|(cost, count)| {
                let advance = it.limits.advance(&sum(&it, None, &priced(*cost), *count), now).ok()?;
                Some((*cost, advance))
            })
            .collect();
        let mut left: Vec<usize> = batches.iter().map(|(_, count)| *count).collect();
        let mut under_way = Vec::new();
        for (which, cost, percent) in steps {
            let reserved = match held.get(which) {
                Some((each, advance)) => {
                    let found = line(&it, &priced(*each), advance);
                    if let Some(count @ 1..) = left.get_mut(which).filter(|_| held.len() == batches.len()) {
                        // There was room for as many as it was held for, whatever others did.
                        prop_assert!(found.is_ok());
                        *count -= 1;
                    }
                    found.ok().map(|reservation| (*each, reservation))
                }
                None => it.reserve(None, &priced(cost), now).ok().map(|reservation| (cost, reservation)),
            };
            under_way.extend(reserved);
            if under_way.len() > 3 {
                let (cost, reservation) = under_way.remove(0);
                reservation.settle(used(0, cost * percent / 100), now);
            }
            let (spent, held) = it.totals(&hard(300), now);
            prop_assert!(spent + held <= 300, "{spent} {held}");
        }
        drop((under_way, held));
        prop_assert_eq!(it.totals(&hard(300), now).1, 0);
    }
}
