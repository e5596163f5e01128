//! Buckets that begin anew when they are idle: a budget for each session of an agent.

use super::*;
use jiff::SignedDuration;

const NOON: &str = "2026-11-22T12:00:00Z";

fn per_session() -> Limit {
    Limit {
        group_by: vec![FactKey::Metadata("_user".into())],
        ..policy(1, usage(UsageOf::Requests, 3, Reset::Idle { minutes: 30 }))
    }
}

fn minutes(now: Timestamp, minutes: i64) -> Timestamp {
    now.checked_add(SignedDuration::from_mins(minutes)).unwrap()
}

fn one() -> Estimate<'static> {
    Estimate { requests: 1, ..tokens(1) }
}

#[test]
fn a_bucket_begins_anew_after_so_long_without_a_request() {
    let limit = per_session();
    let it = Fixture::new(vec![limit.clone()]);
    let spend = |now| it.reserve(Some("s-1"), &one(), now).map(|held| held.settle(used(1, 0), now));
    let begin = at(NOON);
    // Never idle for half an hour: two hours are one session.
    for after in [0, 25, 50] {
        spend(minutes(begin, after)).unwrap();
    }
    let view = it.peek(&limit, minutes(begin, 51)).pop().unwrap();
    assert_eq!((view.spent, view.window.reset_at()), (3, Some(minutes(begin, 80))));
    // Who is refused is not idle.
    for after in [75, 100, 125] {
        let refusal = spend(minutes(begin, after)).unwrap_err();
        assert_eq!((refusal.cause, refusal.reset_at), (Cause::Spent, Some(minutes(begin, after + 30))));
    }
    assert!(it.reserve(Some("s-2"), &one(), minutes(begin, 125)).is_ok());
    // To look at it is no use.
    it.peek(&limit, minutes(begin, 150));
    spend(minutes(begin, 155)).unwrap();
    assert_eq!(it.peek(&limit, minutes(begin, 155)).iter().map(|view| view.spent).max(), Some(1));
}

#[test]
fn a_long_request_is_no_idleness() {
    let limit = per_session();
    let it = Fixture::new(vec![limit.clone()]);
    let begin = at(NOON);
    let long = it.reserve(Some("s-1"), &one(), begin).unwrap();
    let other = it.reserve(Some("s-1"), &one(), minutes(begin, 29)).unwrap();
    long.settle(used(1, 0), minutes(begin, 50));
    other.settle(used(1, 0), minutes(begin, 51));
    assert_eq!(it.totals(&limit, minutes(begin, 79)), (2, 0));
    assert_eq!(it.totals(&limit, minutes(begin, 82)), (0, 0));
}
