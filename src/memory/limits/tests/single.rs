//! One limit at a time: the rules of admission, windows, resets, edits, alerts.

use super::*;

const NOON: &str = "2026-11-22T12:00:00Z";

#[test]
fn a_bucket_is_full_reserved_and_spent() {
    let limit = policy(1, usage(UsageOf::Cost, 100, Reset::Never));
    let it = Fixture::new(vec![limit.clone()]);
    let now = at(NOON);
    let first = it.reserve(None, &priced(60), now).unwrap();
    // What is left is less than the estimate: it passes, and holds what is left.
    let second = it.reserve(None, &priced(60), now).unwrap();
    assert_eq!(it.totals(&limit, now), (0, 100));
    let refused = it.reserve(None, &priced(1), now).unwrap_err();
    assert_eq!((refused.cause, refused.retry_after.as_secs(), refused.reset_at), (Cause::Reserved, 1, None));
    first.settle(used(0, 50), now);
    second.settle(used(0, 70), now);
    assert_eq!(it.totals(&limit, now), (120, 0));
    let refused = it.reserve(None, &priced(1), now).unwrap_err();
    assert_eq!((refused.cause, refused.spent, refused.held), (Cause::Spent, 120, 0));
}

#[test]
fn one_request_at_a_time_holds_less_than_it_may_use() {
    let it = Fixture::new(vec![policy(1, usage(UsageOf::Cost, 100, Reset::Never))]);
    let now = at(NOON);
    let all = it.reserve(None, &priced(50), now).unwrap();
    let also = it.reserve(None, &priced(50), now).unwrap();
    all.settle(used(0, 49), now);
    let clamped = it.reserve(None, &priced(50), now).unwrap();
    also.settle(used(0, 49), now);
    // One is free again, and is not enough: the request that may exceed the limit is under way.
    assert_eq!(it.reserve(None, &priced(50), now).unwrap_err().cause, Cause::Reserved);
    it.reserve(None, &priced(1), now).unwrap().settle(used(0, 0), now);
    clamped.settle(used(0, 1), now);
    it.reserve(None, &priced(50), now).unwrap().settle(used(0, 50), now);
    assert_eq!(it.reserve(None, &priced(1), now).unwrap_err().cause, Cause::Spent);
}

#[test]
fn a_limit_of_zero_lets_nothing_pass() {
    for kind in [
        usage(UsageOf::Cost, 0, Reset::Never),
        usage(UsageOf::Tokens, 0, Reset::Weekly),
        usage(UsageOf::Requests, 0, Reset::Monthly),
        rate(RateOf::Requests, RateUnit::Minute, 0),
        rate(RateOf::Tokens, RateUnit::Minute, 0),
    ] {
        let it = Fixture::new(vec![policy(1, kind)]);
        assert!(it.reserve(None, &priced(0), at(NOON)).is_err(), "{kind:?}");
    }
}

#[test]
fn a_free_model_passes_a_spent_budget_and_tokens_still_count() {
    let it = Fixture::new(vec![
        policy(1, usage(UsageOf::Cost, 0, Reset::Never)),
        policy(2, usage(UsageOf::Tokens, 20, Reset::Never)),
    ]);
    let free = Estimate { is_free: true, cost: Some(0), ..tokens(15) };
    let now = at(NOON);
    it.reserve(None, &free, now).unwrap().settle(used(20, 0), now);
    assert_eq!(it.reserve(None, &free, now).unwrap_err().limit.id, Uuid::from_u128(2));
}

#[test]
fn an_unknown_price_passes_soft_limits_only() {
    let now = at(NOON);
    let soft = policy(1, usage(UsageOf::Cost, 10, Reset::Never));
    let it = Fixture::new(vec![soft.clone()]);
    let unknown = Estimate { max_output_tokens: Some(9), ..Estimate::default() };
    it.reserve(None, &unknown, now).unwrap().settle(Actual { requests: 1, tokens: Some(9), cost: None }, now);
    assert_eq!(it.totals(&soft, now), (0, 0));
    let it = Fixture::new(vec![Limit { hard: true, ..soft.clone() }]);
    assert_eq!(it.reserve(None, &unknown, now).unwrap_err().cause, Cause::UnknownPrice);
    let unbounded = Estimate { max_output_tokens: None, ..priced(1) };
    assert_eq!(it.reserve(None, &unbounded, now).unwrap_err().cause, Cause::NoBound);
}

/// What an attempt without a report may have cost is kept by hard limits alone; what others reported is added.
#[test]
fn an_attempt_without_a_report_costs_a_hard_limit_what_it_holds() {
    let now = at(NOON);
    let soft = policy(1, usage(UsageOf::Cost, 100, Reset::Never));
    let hard = Limit { hard: true, ..policy(2, usage(UsageOf::Cost, 100, Reset::Never)) };
    let requests = policy(3, usage(UsageOf::Requests, 100, Reset::Never));
    for (delivered, reported, wanted) in
        [(None, None, (0, 20)), (Some(3), None, (3, 20)), (Some(8), Some(5), (8, 25))]
    {
        let it = Fixture::new(vec![soft.clone(), hard.clone(), requests.clone()]);
        let held = it.reserve(None, &priced(20), now).unwrap();
        assert!(held.holds_hard());
        held.settle_open(delivered.map(|cost| used(1, cost)), reported.map(|cost| used(1, cost)), now);
        let spent = |limit: &Limit| it.totals(limit, now);
        assert_eq!((spent(&soft), spent(&hard)), ((wanted.0, 0), (wanted.1, 0)));
        assert_eq!(spent(&requests), (1, 0));
    }
    let it = Fixture::new(vec![soft, requests]);
    assert!(!it.reserve(None, &priced(20), now).unwrap().holds_hard());
}

/// A limit that fits would let pass without a bound what it cannot lower the bound of.
#[test]
fn what_cannot_be_bounded_is_refused_by_hard_limits_whether_they_fit_or_not() {
    let now = at(NOON);
    for of in [UsageOf::Cost, UsageOf::Tokens] {
        for fit in [false, true] {
            let limit = Limit { hard: true, fit, ..policy(1, usage(of, 1000, Reset::Never)) };
            let it = Fixture::new(vec![limit]);
            let unbounded = Estimate { max_output_tokens: None, can_be_bounded: false, ..priced(1) };
            assert_eq!(
                it.reserve(None, &unbounded, now).unwrap_err().cause,
                Cause::Unboundable,
                "{of:?} {fit}"
            );
            let bounded = Estimate { max_output_tokens: Some(0), ..unbounded };
            assert!(it.reserve(None, &bounded, now).is_ok(), "{of:?} {fit}");
        }
    }
}

#[test]
fn a_hard_limit_refuses_what_may_not_fit() {
    let limit = Limit { hard: true, ..policy(1, usage(UsageOf::Cost, 100, Reset::Never)) };
    let it = Fixture::new(vec![limit.clone()]);
    let now = at(NOON);
    let first = it.reserve(None, &priced(60), now).unwrap();
    assert_eq!(it.reserve(None, &priced(60), now).unwrap_err().cause, Cause::Reserved);
    assert_eq!(it.reserve(None, &priced(101), now).unwrap_err().cause, Cause::DoesNotFit);
    first.settle(used(0, 60), now);
    assert_eq!(it.reserve(None, &priced(41), now).unwrap_err().cause, Cause::DoesNotFit);
    it.reserve(None, &priced(40), now).unwrap().settle(used(0, 40), now);
    assert_eq!(it.totals(&limit, now), (100, 0));
}

#[test]
fn a_limit_that_fits_lowers_the_output() {
    let limit = Limit { hard: true, fit: true, ..policy(1, usage(UsageOf::Cost, 1_000, Reset::Never)) };
    let it = Fixture::new(vec![limit.clone()]);
    let now = at(NOON);
    let cost_of = |output: u64| 100 + 10 * i64::try_from(output).unwrap();
    let estimate = Estimate {
        max_output_tokens: Some(500),
        cost: Some(200),
        max_cost: Some(cost_of(500)),
        cost_of: Some(&cost_of),
        ..Estimate::default()
    };
    let first = it.reserve(None, &estimate, now).unwrap();
    assert_eq!((first.fitted_output(), it.totals(&limit, now)), (Some(90), (0, 1_000)));
    assert_eq!(it.reserve(None, &estimate, now).unwrap_err().cause, Cause::Reserved);
    first.settle(used(0, 300), now);
    let small = Estimate { max_output_tokens: Some(5), max_cost: Some(150), ..estimate };
    let second = it.reserve(None, &small, now).unwrap();
    assert_eq!((second.fitted_output(), it.totals(&limit, now)), (None, (300, 150)));
    second.settle(used(0, 595), now);
    assert_eq!(it.reserve(None, &small, now).unwrap_err().cause, Cause::DoesNotFit);
}

#[test]
fn a_limit_that_fits_leaves_each_choice_a_token_or_refuses() {
    let limit = Limit { hard: true, fit: true, ..policy(1, usage(UsageOf::Cost, 1_000, Reset::Never)) };
    let now = at(NOON);
    let cost_of =
        |output: u64| i64::try_from(output).unwrap_or(i64::MAX).saturating_mul(10).saturating_add(100);
    let of = |outputs, max_output_tokens: Option<u64>| Estimate {
        outputs,
        max_output_tokens,
        cost: Some(200),
        max_cost: max_output_tokens.map(cost_of),
        cost_of: Some(&cost_of),
        ..Estimate::default()
    };
    for (outputs, each, fitted) in [
        (1, Some(500), Some(90)),
        // As much for each.
        (4, Some(500), Some(88)),
        (90, Some(500), Some(90)),
        (91, Some(500), None),
        (91, Some(1), None),
        (90, None, Some(90)),
        (u64::MAX, Some(1), None),
        (u64::MAX, None, None),
    ] {
        let it = Fixture::new(vec![limit.clone()]);
        let held = it.reserve(None, &of(outputs, each.map(|each: u64| each.saturating_mul(outputs))), now);
        let found = held.map(|held| held.fitted_output()).map_err(|refusal| refusal.cause);
        assert_eq!(found, fitted.map(Some).ok_or(Cause::DoesNotFit), "{outputs} {each:?}");
    }
}

#[test]
fn a_rate_passes_so_many_a_window_and_refused_ones_do_not_count() {
    let it = Fixture::new(vec![policy(1, rate(RateOf::Requests, RateUnit::Minute, 2))]);
    let now = at("2026-11-22T12:00:30Z");
    let first = it.reserve(None, &tokens(0), now).unwrap();
    assert_eq!(first.tightest().requests.unwrap().remaining, 1);
    // A failed attempt was a request all the same.
    first.release(now);
    it.reserve(None, &tokens(0), now).unwrap().settle(used(0, 0), now);
    for _ in 0..20 {
        let refused = it.reserve(None, &tokens(0), now).unwrap_err();
        assert_eq!((refused.cause, refused.retry_after.as_secs()), (Cause::Rate, 30));
        let left = refused.tightest.requests.unwrap();
        assert_eq!((left.limit, left.remaining, left.reset_in.as_secs()), (2, 0, 30));
    }
    it.reserve(None, &tokens(0), at("2026-11-22T12:01:00Z")).unwrap().cancel(now);
}

/// A request reads its clock before it waits for the bucket: one that read it in the window before may come after one of the next.
#[test]
fn a_request_that_read_its_clock_before_the_window_forgets_nothing_of_it() {
    let before = at("2026-11-30T23:59:59.999Z");
    let after = at("2026-12-01T00:00:00.001Z");
    let minute = |smooth| Limit { smooth, ..policy(1, rate(RateOf::Requests, RateUnit::Minute, 10)) };
    let it = Fixture::new(vec![minute(true)]);
    let pass = |it: &Fixture, now| it.reserve(None, &priced(1), now).map(|held| held.settle(used(0, 1), now));
    for _ in 0..10 {
        pass(&it, at("2026-11-30T23:59:30Z")).unwrap();
    }
    // A millisecond into the window, 9.99 of the ten still count.
    pass(&it, after).unwrap();
    for now in [before, after, before, after] {
        assert_eq!(pass(&it, now).unwrap_err().cause, Cause::Rate, "{now}");
    }
    for limit in [minute(false), policy(1, rate(RateOf::Requests, RateUnit::Second, 10))] {
        let it = Fixture::new(vec![limit]);
        let passed = (0..30).filter(|n| pass(&it, if n % 2 == 0 { after } else { before }).is_ok());
        assert_eq!(passed.count(), 10);
    }
    let budget = Limit { hard: true, ..policy(1, usage(UsageOf::Cost, 100, Reset::Monthly)) };
    let it = Fixture::new(vec![budget.clone()]);
    let held = it.reserve(None, &priced(90), after).unwrap();
    assert_eq!(it.reserve(None, &priced(90), before).unwrap_err().cause, Cause::Reserved);
    assert_eq!(it.totals(&budget, before), (0, 90));
    assert_eq!(it.reserve(None, &priced(90), after).unwrap_err().cause, Cause::Reserved);
    held.settle(used(0, 90), after);
    assert_eq!(it.totals(&budget, after), (90, 0));
    // A clock that was set back counts where it is.
    pass(&it, at("2026-11-30T12:00:00Z")).unwrap();
    assert_eq!(it.totals(&budget, at("2026-11-30T12:00:00Z")), (1, 0));
}

/// Requests under way have the marks of then.
#[test]
fn an_alert_is_not_sent_again_when_its_mark_is_raised() {
    let limit = |credit, alert_at| {
        let kind = LimitKind::Usage { of: UsageOf::Cost, credit, alert_at, reset: Reset::Monthly };
        policy(1, kind)
    };
    let now = at(NOON);
    let mut it = Fixture::new(vec![limit(100, Some(50))]);
    let mut events = it.limits.events().unwrap();
    let mut sent = |it: &Fixture, present: &Limit| {
        it.peek(present, now);
        std::iter::from_fn(|| events.try_recv().ok()).map(|event| event.kind.as_str()).collect::<Vec<_>>()
    };
    let under_way = [(); 3].map(|()| it.reserve(None, &priced(1), now).unwrap());
    it.reserve(None, &priced(97), now).unwrap().settle(used(0, 100), now);
    assert_eq!(sent(&it, &limit(100, Some(50))).len(), 2);
    let raised = limit(1_000_000, Some(500_000));
    it.change(vec![raised.clone()]);
    for one in under_way {
        it.reserve(None, &priced(1), now).unwrap().settle(used(0, 1), now);
        one.settle(used(0, 1), now);
    }
    assert_eq!(sent(&it, &raised), [""; 0]);
    let views = it.peek(&raised, now);
    assert!(!views[0].is_threshold_alert_sent && !views[0].is_exhausted_alert_sent);
    it.reserve(None, &priced(1), now).unwrap().settle(used(0, 500_000), now);
    assert_eq!(sent(&it, &raised), ["threshold"]);
    it.reserve(None, &priced(1), now).unwrap().settle(used(0, 500_000), now);
    assert_eq!(sent(&it, &raised), ["exhausted"]);
}

#[test]
fn what_is_cancelled_was_never_there() {
    let limit = policy(1, rate(RateOf::Requests, RateUnit::Minute, 1));
    let it = Fixture::new(vec![limit.clone()]);
    let now = at(NOON);
    for _ in 0..3 {
        it.reserve(None, &tokens(0), now).unwrap().cancel(now);
    }
    assert_eq!(it.totals(&limit, now), (0, 0));
}

#[test]
fn a_rate_of_tokens_is_corrected_within_its_window_only() {
    let limit = policy(1, rate(RateOf::Tokens, RateUnit::Minute, 100));
    let it = Fixture::new(vec![limit.clone()]);
    let now = at(NOON);
    let first = it.reserve(None, &tokens(90), now).unwrap();
    let second = it.reserve(None, &tokens(90), now).unwrap();
    assert_eq!(it.reserve(None, &tokens(1), now).unwrap_err().cause, Cause::Rate);
    first.settle(used(20, 0), now);
    assert_eq!(it.totals(&limit, now), (20, 10));
    let next = at("2026-11-22T12:01:00Z");
    it.reserve(None, &tokens(1), next).unwrap().settle(used(7, 0), next);
    second.settle(used(1_000, 0), next);
    assert_eq!(it.totals(&limit, next), (7, 0));
}

#[test]
fn a_smooth_rate_counts_a_part_of_the_window_before() {
    let limit = Limit { smooth: true, ..policy(1, rate(RateOf::Requests, RateUnit::Minute, 10)) };
    let it = Fixture::new(vec![limit]);
    let try_at = |time: &str| {
        let now = at(time);
        it.reserve(None, &tokens(0), now).map(|reservation| reservation.settle(used(0, 0), now))
    };
    for _ in 0..10 {
        try_at("2026-11-22T12:00:59Z").unwrap();
    }
    // All ten count: nothing passes before a tenth of the next window has.
    let refused = try_at("2026-11-22T12:01:00Z").unwrap_err();
    assert_eq!(refused.retry_after.as_secs(), 6);
    try_at("2026-11-22T12:01:06Z").unwrap();
    assert_eq!(try_at("2026-11-22T12:01:06Z").unwrap_err().retry_after.as_secs(), 6);
    for _ in 0..5 {
        try_at("2026-11-22T12:01:36Z").unwrap();
    }
    try_at("2026-11-22T12:01:36Z").unwrap_err();
    // Full in this window: when one fits again is in the next.
    for second in ["42", "48", "54"] {
        try_at(&format!("2026-11-22T12:01:{second}Z")).unwrap();
    }
    try_at("2026-11-22T12:03:00Z").unwrap();
}

#[test]
fn windows_are_those_of_the_calendar() {
    let new_york =
        Calendar { zone: jiff::tz::TimeZone::get("America/New_York").unwrap(), ..Calendar::default() };
    let sunday = Calendar { week_start: jiff::civil::Weekday::Sunday, ..Calendar::default() };
    let utc = Calendar::default();
    let days = Reset::Days { days: 10, from: jiff::civil::date(2026, 11, 1) };
    let budget = |reset| usage(UsageOf::Cost, 1, reset);
    let per = |unit| rate(RateOf::Requests, unit, 1);
    // The window of a time: 22 November 2026 is a Sunday.
    let cases = [
        (&utc, per(RateUnit::Second), "2026-11-22T23:59:59.5Z 2026-11-22T23:59:59Z 2026-11-23T00:00:00Z"),
        (&utc, per(RateUnit::Hour), "2026-11-22T23:59:59Z 2026-11-22T23:00:00Z 2026-11-23T00:00:00Z"),
        (&utc, per(RateUnit::Day), "2026-11-22T23:59:59Z 2026-11-22T00:00:00Z 2026-11-23T00:00:00Z"),
        (&utc, per(RateUnit::Week), "2026-11-22T23:59:59Z 2026-11-16T00:00:00Z 2026-11-23T00:00:00Z"),
        (&utc, budget(Reset::Weekly), "2026-11-23T00:00:00Z 2026-11-23T00:00:00Z 2026-11-30T00:00:00Z"),
        (&sunday, budget(Reset::Weekly), "2026-11-22T23:59:59Z 2026-11-22T00:00:00Z 2026-11-29T00:00:00Z"),
        (&utc, budget(Reset::Monthly), "2028-02-29T01:00:00Z 2028-02-01T00:00:00Z 2028-03-01T00:00:00Z"),
        (&utc, budget(days), "2026-11-22T01:00:00Z 2026-11-21T00:00:00Z 2026-12-01T00:00:00Z"),
        // Before the day it is counted from.
        (&utc, budget(days), "2026-10-31T01:00:00Z 2026-10-22T00:00:00Z 2026-11-01T00:00:00Z"),
        // A month with a change of the clock in it.
        (&new_york, budget(Reset::Monthly), "2026-11-22T01:00:00Z 2026-11-01T04:00:00Z 2026-12-01T05:00:00Z"),
    ];
    for (calendar, kind, times) in cases {
        let times: Vec<i64> = times.split(' ').map(|time| at(time).as_millisecond()).collect();
        let wanted = Window { start: times[1], end: times[2] };
        assert_eq!(calendar.window(&kind, times[0]), wanted, "{kind:?} at {}", times[0]);
    }
}

#[test]
fn a_late_settlement_is_of_its_own_window() {
    let limit = policy(1, usage(UsageOf::Tokens, 20, Reset::Weekly));
    let it = Fixture::new(vec![limit.clone()]);
    let sunday = at("2026-11-22T23:59:00Z");
    let late = it.reserve(None, &tokens(5), sunday).unwrap();
    it.reserve(None, &tokens(5), sunday).unwrap().settle(used(30, 0), sunday);
    let refused = it.reserve(None, &tokens(5), sunday).unwrap_err();
    assert_eq!(refused.reset_at, Some(at("2026-11-23T00:00:00Z")));
    let monday = at("2026-11-23T00:00:01Z");
    it.reserve(None, &tokens(5), monday).unwrap().settle(used(3, 0), monday);
    late.settle(used(1_000, 0), monday);
    assert_eq!(it.totals(&limit, monday), (3, 0));
}

#[test]
fn a_reset_forgets_what_was_spent_and_keeps_what_is_held() {
    let limit = policy(1, usage(UsageOf::Tokens, 20, Reset::Never));
    let it = Fixture::new(vec![limit.clone()]);
    let now = at(NOON);
    it.reserve(None, &tokens(5), now).unwrap().settle(used(12, 0), now);
    let held = it.reserve(None, &tokens(6), now).unwrap();
    let entity = it.limits.usage(&limit, now).now_or_never().unwrap().unwrap().unwrap().entity;
    assert!(it.reset(&limit, entity, now));
    assert!(!it.reset(&limit, Uuid::from_u128(9), now));
    assert_eq!(it.totals(&limit, now), (0, 6));
    held.settle(used(500, 0), now);
    assert_eq!(it.totals(&limit, now), (0, 0));
    // The same for all buckets, by the record.
    let held = it.reserve(None, &tokens(6), now).unwrap();
    it.reserve(None, &tokens(5), now).unwrap().settle(used(12, 0), now);
    let mut it = it;
    let limit = Limit { generation: 1, ..limit };
    it.change(vec![limit.clone()]);
    assert_eq!(it.totals(&limit, now), (0, 6));
    held.settle(used(500, 0), now);
    assert_eq!(it.totals(&limit, now), (0, 0));
}

/// A request keeps the limits that it was admitted with, and holds more with them later: for a further attempt.
#[test]
fn limits_of_before_a_reset_do_not_undo_it() {
    let before = Limit { hard: true, ..policy(1, usage(UsageOf::Cost, 100, Reset::Monthly)) };
    let after = Limit { generation: 1, ..before.clone() };
    let mut it = Fixture::new(vec![before.clone()]);
    let now = at(NOON);
    it.reserve(None, &priced(40), now).unwrap().settle(used(0, 40), now);
    let under_way = it.reserve(None, &priced(5), now).unwrap();
    it.change(vec![after.clone()]);
    it.reserve(None, &priced(90), now).unwrap().settle(used(0, 90), now);
    it.change(vec![before.clone()]);
    assert_eq!(it.reserve(None, &priced(11), now).unwrap_err().cause, Cause::DoesNotFit);
    let further = it.reserve(None, &priced(5), now).unwrap();
    assert_eq!(it.totals(&before, now), (90, 10));
    it.change(vec![after.clone()]);
    assert_eq!(it.reserve(None, &priced(1), now).unwrap_err().cause, Cause::Reserved);
    further.settle(used(0, 5), now);
    under_way.settle(used(0, 5), now);
    assert_eq!(it.totals(&after, now), (95, 0), "what was held after the reset counts since then");
    let next = at("2026-12-01T00:00:00Z");
    it.change(vec![before]);
    it.reserve(None, &priced(7), next).unwrap().settle(used(0, 7), next);
    assert_eq!(it.totals(&after, next), (7, 0), "in the next window too");
}

#[test]
fn edits_keep_usage() {
    let mut it = Fixture::new(vec![policy(1, usage(UsageOf::Tokens, 0, Reset::Never))]);
    let now = at(NOON);
    assert_eq!(it.reserve(None, &tokens(1), now).unwrap_err().cause, Cause::Spent);
    it.change(vec![policy(1, usage(UsageOf::Tokens, 10, Reset::Never))]);
    let held = it.reserve(None, &tokens(1), now).unwrap();
    it.reserve(None, &tokens(1), now).unwrap().settle(used(8, 0), now);
    // Lowered: spent at once. Another reset: goes on counting.
    let lowered = policy(1, usage(UsageOf::Tokens, 8, Reset::Monthly));
    it.change(vec![lowered.clone()]);
    assert_eq!(it.reserve(None, &tokens(1), now).unwrap_err().cause, Cause::Spent);
    held.settle(used(2, 0), now);
    assert_eq!(it.totals(&lowered, now), (10, 0));
    it.reserve(None, &tokens(1), at("2026-12-01T00:00:00Z")).unwrap();
}

#[test]
fn alerts_come_once_a_window_and_again_when_the_limit_was_raised() {
    let limit = |credit, alert_at| {
        let kind = LimitKind::Usage { of: UsageOf::Tokens, credit, alert_at, reset: Reset::Monthly };
        policy(1, kind)
    };
    let mut it = Fixture::new(vec![limit(20, Some(10))]);
    let mut events = it.limits.events().unwrap();
    assert!(it.limits.events().is_none());
    let mut spend = |it: &Fixture, time: &str| {
        let now = at(time);
        let _ = it.reserve(None, &tokens(5), now).map(|held| held.settle(used(6, 0), now));
        std::iter::from_fn(|| events.try_recv().ok())
            .map(|event| (event.kind, event.spent))
            .collect::<Vec<_>>()
    };
    use EventKind::{Exhausted, Threshold};
    assert_eq!(spend(&it, NOON), []);
    assert_eq!(spend(&it, NOON), [(Threshold, 12)]);
    assert_eq!(spend(&it, NOON), []);
    assert_eq!(spend(&it, NOON), [(Exhausted, 24)]);
    assert_eq!(spend(&it, NOON), []);
    it.change(vec![limit(40, Some(30))]);
    assert_eq!(spend(&it, NOON), [(Threshold, 30)]);
    assert_eq!(spend(&it, NOON), []);
    assert_eq!(spend(&it, NOON), [(Exhausted, 42)]);
    let next = "2026-12-01T00:00:00Z";
    assert_eq!([spend(&it, next), spend(&it, next)].concat(), []);
    assert_eq!([spend(&it, next), spend(&it, next), spend(&it, next)].concat(), [(Threshold, 30)]);
}

#[test]
fn a_request_that_is_too_large_exhausts_no_limit() {
    let it = Fixture::new(vec![Limit { hard: true, ..policy(1, usage(UsageOf::Cost, 1_000, Reset::Never)) }]);
    let mut events = it.limits.events().unwrap();
    let mut reported =
        || std::iter::from_fn(|| events.try_recv().ok()).map(|event| event.kind).collect::<Vec<_>>();
    let now = at(NOON);
    // What a client claims, by a bound or by the size of its request, uses nothing up.
    for estimate in [priced(1_000_000), Estimate { max_cost: Some(1_000_000), ..priced(10) }] {
        assert_eq!(it.reserve(None, &estimate, now).unwrap_err().cause, Cause::DoesNotFit);
    }
    assert_eq!(reported(), []);
    it.reserve(None, &priced(950), now).unwrap().settle(used(0, 950), now);
    assert_eq!(
        it.reserve(None, &Estimate { max_cost: Some(100), ..priced(10) }, now).unwrap_err().cause,
        Cause::DoesNotFit
    );
    assert_eq!(reported(), [], "such requests mostly use less than is left");
    // Less than a tenth is left, and it does not pay for a request as it is expected to be.
    assert_eq!(it.reserve(None, &priced(60), now).unwrap_err().cause, Cause::DoesNotFit);
    assert_eq!(reported(), [EventKind::Exhausted]);
    assert_eq!(it.reserve(None, &priced(60), now).unwrap_err().cause, Cause::DoesNotFit);
    it.reserve(None, &priced(50), now).unwrap().settle(used(0, 50), now);
    assert_eq!(it.reserve(None, &priced(1), now).unwrap_err().cause, Cause::Spent);
    assert_eq!(reported(), [], "once");
}

#[test]
fn a_dropped_reservation_is_settled_as_estimated() {
    let limit = policy(1, usage(UsageOf::Tokens, 20, Reset::Never));
    let it = Fixture::new(vec![limit.clone()]);
    drop(it.reserve(None, &tokens(5), at(NOON)).unwrap());
    assert_eq!(it.totals(&limit, at(NOON)), (5, 0));
}

#[test]
fn values_that_read_the_same_when_joined_have_buckets_of_their_own() {
    let limit = Limit {
        group_by: vec![FactKey::Metadata("a".into()), FactKey::Metadata("b".into())],
        ..policy(1, usage(UsageOf::Tokens, 20, Reset::Never))
    };
    let it = Fixture::new(vec![limit.clone()]);
    for (a, b) in [("a-b", "c"), ("a", "b-c")] {
        let members = [("a", a), ("b", b)];
        let metadata = members.as_slice();
        let facts = facts(&metadata);
        let selection = it.set.select(&facts, Phase::Request).unwrap();
        let estimate = tokens(5);
        let reserved = it.limits.reserve(&selection, &estimate, None, at(NOON)).now_or_never();
        drop(reserved.unwrap().unwrap());
    }
    let mut keys: Vec<_> =
        it.peek(&limit, at(NOON)).into_iter().map(|view| (view.value_key, view.spent)).collect();
    keys.sort();
    let wanted = [("metadata.a:a-b-metadata.b:c", 5), ("metadata.a:a-metadata.b:b-c", 5)];
    assert_eq!(keys.iter().map(|(key, spent)| (&**key, *spent)).collect::<Vec<_>>(), wanted);
}

/// As a request is held anew for what it has become: what it counts as a request stays, and what it may use is judged again.
#[test]
fn what_is_held_anew_counts_as_one_request_and_is_judged_by_what_it_may_use() {
    let requests = policy(1, rate(RateOf::Requests, RateUnit::Minute, 1));
    let tokens_rate = policy(2, rate(RateOf::Tokens, RateUnit::Minute, 100));
    let soft = policy(3, usage(UsageOf::Cost, 100, Reset::Never));
    let budget = Limit { hard: true, ..policy(4, usage(UsageOf::Cost, 90, Reset::Never)) };
    let all = vec![requests.clone(), tokens_rate.clone(), soft.clone(), budget.clone()];
    let it = Fixture::new(all);
    let estimate = |cost: i64, tokens: u64| Estimate { input_tokens: tokens, ..priced(cost) };
    let metadata: &[(&str, &str)] = &[];
    let facts = facts(&metadata);
    let renew = |held: &mut Reservation, estimate: &Estimate<'_>| {
        let selection = it.set.select(&facts, Phase::Request).unwrap();
        let estimate = Estimate { requests: 0, ..*estimate };
        let now = at("2026-11-22T12:00:00Z");
        it.limits.renew(held, &selection, &estimate, None, now).now_or_never().unwrap()
    };
    let now = at("2026-11-22T12:00:00Z");
    let held = |limit: &Limit| it.totals(limit, now).1;
    let mut first = it.reserve(None, &estimate(10, 20), now).unwrap();
    assert_eq!([held(&requests), held(&tokens_rate), held(&soft), held(&budget)], [1, 20, 10, 10]);
    let mut second = renew(&mut first, &estimate(80, 50)).unwrap();
    assert_eq!([held(&requests), held(&tokens_rate), held(&soft), held(&budget)], [1, 50, 80, 80]);
    assert_eq!(renew(&mut second, &estimate(91, 50)).unwrap_err().cause, Cause::DoesNotFit);
    assert_eq!([held(&requests), held(&tokens_rate), held(&soft), held(&budget)], [1, 0, 0, 0]);
    let third = renew(&mut second, &estimate(30, 40)).unwrap();
    for reservation in [first, second, third] {
        reservation.settle(Actual { requests: 1, tokens: Some(33), cost: Some(25) }, now);
    }
    let spent = |limit: &Limit| it.totals(limit, now);
    assert_eq!(
        [spent(&requests), spent(&tokens_rate), spent(&soft), spent(&budget)],
        [(1, 0), (33, 0), (25, 0), (25, 0)]
    );
}

/// A further attempt is held by the limits of its request that count what it uses, except those of which the request has all there is.
#[test]
fn a_further_attempt_is_held_by_all_limits_that_count_what_it_uses() {
    let requests = policy(1, rate(RateOf::Requests, RateUnit::Minute, 1));
    let tokens_rate = policy(2, rate(RateOf::Tokens, RateUnit::Minute, 1000));
    let soft = policy(3, usage(UsageOf::Cost, 5, Reset::Never));
    let it = Fixture::new(vec![requests.clone(), tokens_rate.clone(), soft.clone()]);
    let now = at("2026-11-22T12:00:00Z");
    let estimate = Estimate { input_tokens: 20, ..priced(10) };
    let first = it.reserve(None, &estimate, now).unwrap();
    let metadata: &[(&str, &str)] = &[];
    let facts = facts(&metadata);
    let mut selection = it.set.select(&facts, Phase::Further).unwrap();
    selection.leave_out_clamped(std::iter::once(&first));
    let further = Estimate { requests: 0, ..estimate };
    let second = it.limits.reserve(&selection, &further, None, now).now_or_never().unwrap().unwrap();
    let held = |limit: &Limit| it.totals(limit, now).1;
    assert_eq!([held(&requests), held(&tokens_rate), held(&soft)], [1, 40, 5]);
    second.release(now);
    first.release(now);
}
