//! Tests of how often a target is retried, and after how long a wait.

use crate::route::outcome::{ErrorClass, Outcome};
use crate::route::retry::{RetryDecision, RetryState, decide};
use proptest::prelude::*;
use std::time::Duration;
use words::config::policies::RetryPolicy;

fn response(status: u16, wait: Option<u64>) -> Outcome {
    Outcome::Response { status, class: ErrorClass::Other, retry_after: wait.map(Duration::from_millis) }
}

fn retry_wait(policy: &RetryPolicy, outcome: &Outcome, state: RetryState, random: f64) -> Option<u64> {
    match decide(policy, outcome, state, random) {
        RetryDecision::RetryAfter(wait) => Some(wait.as_millis() as u64),
        RetryDecision::Exhausted | RetryDecision::NotRetryable => None,
    }
}

#[test]
fn waits_double_up_to_a_cap_with_full_jitter() {
    let policy = RetryPolicy { attempts: 10, ..RetryPolicy::NONE };
    for (retries, max_wait) in [(0, 1000), (1, 2000), (2, 4000), (3, 8000), (4, 8000), (9, 8000)] {
        let state = RetryState { retries, ..RetryState::default() };
        for (random, wanted) in [(0.0, 0), (0.5, max_wait / 2), (1.0, max_wait)] {
            assert_eq!(
                retry_wait(&policy, &response(503, None), state, random),
                Some(wanted),
                "{retries} {random}"
            );
        }
    }
}

#[test]
fn retry_after_is_honoured_as_configured() {
    let honouring = RetryPolicy { attempts: 3, honours_retry_after: true, ..RetryPolicy::NONE };
    let default = RetryPolicy { attempts: 3, ..RetryPolicy::NONE };
    let alone = RetryState::default();
    let other = RetryState { has_other: true, ..RetryState::default() };
    let waited = RetryState { waited: Duration::from_secs(40), ..RetryState::default() };
    let nearly_spent = RetryState { waited: Duration::from_secs(58), ..RetryState::default() };
    let rows = [
        (&honouring, response(429, Some(200)), alone, Some(200)),
        (&honouring, response(429, Some(40_000)), alone, Some(40_000)),
        // The wait is longer than the budget, or than what is left of it.
        (&honouring, response(429, Some(60_000)), alone, None),
        (&honouring, response(429, Some(40_000)), waited, None),
        // `use_retry_after_headers` is off: a short wait is respected nevertheless, a long one or one beyond the budget
        // cancels no retry.
        (&default, response(429, Some(2000)), alone, Some(2000)),
        (&default, response(429, Some(30_000)), other, Some(500)),
        (&default, response(429, Some(30_000)), alone, Some(500)),
        (&default, response(429, Some(u64::MAX / 2)), alone, Some(500)),
        (&default, response(429, Some(4000)), nearly_spent, Some(500)),
        (&default, response(429, None), alone, Some(500)),
    ];
    for (policy, outcome, state, wanted) in rows {
        assert_eq!(retry_wait(policy, &outcome, state, 0.5), wanted, "{outcome:?} {state:?} {policy:?}");
    }
}

#[test]
fn which_outcomes_are_retried() {
    let default = RetryPolicy { attempts: 1, ..RetryPolicy::NONE };
    let none = RetryPolicy { statuses: Some(Vec::new()), ..default.clone() };
    let own = RetryPolicy { statuses: Some(vec![400, 401, 408]), ..default.clone() };
    let refused = Outcome::Response { status: 400, class: ErrorClass::ContentFiltered, retry_after: None };
    let long = Outcome::Response { status: 400, class: ErrorClass::ContextTooLong, retry_after: None };
    let rows = [
        (&default, response(429, None), true),
        (&default, response(529, None), true),
        (&default, response(400, None), false),
        (&default, response(401, None), false),
        (&default, Outcome::Failed, true),
        (&default, Outcome::TimedOut, false),
        (&default, Outcome::Unsupported(400), false),
        (&none, response(503, None), false),
        // Retried whatever the status list contains.
        (&none, Outcome::Failed, true),
        (&own, response(401, None), true),
        (&own, response(503, None), false),
        (&own, Outcome::TimedOut, true),
        (&own, refused, true),
        (&default, refused, false),
        (&own, long, false),
    ];
    for (policy, outcome, wanted) in rows {
        let decision = decide(policy, &outcome, RetryState::default(), 0.5);
        assert_eq!(matches!(decision, RetryDecision::RetryAfter(_)), wanted, "{outcome:?} {policy:?}");
    }
    let with_fallback = RetryState { has_other: true, ..RetryState::default() };
    assert_eq!(decide(&own, &Outcome::TimedOut, with_fallback, 0.5), RetryDecision::NotRetryable);
    assert_eq!(
        decide(&default, &response(503, None), RetryState { retries: 1, ..RetryState::default() }, 0.5),
        RetryDecision::Exhausted
    );
    assert_eq!(
        decide(&RetryPolicy::NONE, &response(503, None), RetryState::default(), 0.5),
        RetryDecision::NotRetryable
    );
}

proptest! {
    #[test]
    fn waits_never_exceed_the_budget(
        hints in prop::collection::vec(prop::option::of(0_u64..90_000), 1..40),
        randoms in prop::collection::vec(0.0..1.0_f64, 40),
        honours in any::<bool>(),
        budget in 1_u64..100_000,
    ) {
        let policy =
            RetryPolicy { attempts: 1000, honours_retry_after: honours, budget: Duration::from_millis(budget), ..RetryPolicy::NONE };
        let mut state = RetryState::default();
        for (hint, random) in hints.iter().zip(&randoms) {
            let RetryDecision::RetryAfter(wait) = decide(&policy, &response(429, *hint), state, *random) else { break };
            let has_room = |hint: u64| hint <= 5000 && state.waited + Duration::from_millis(hint) < Duration::from_millis(budget);
            if let Some(hint) = hint.filter(|hint| honours || has_room(*hint)) {
                prop_assert!(wait >= Duration::from_millis(hint));
            }
            state.waited += wait;
            state.retries += 1;
            prop_assert!(state.waited < Duration::from_millis(budget));
        }
    }
}
