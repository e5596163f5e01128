//! How often, and after how long a wait.

use crate::route::outcome::{ErrorClass, Outcome};
use crate::route::retry::{Again, Past, Rules};
use proptest::prelude::*;
use std::time::Duration;

fn answered(status: u16, wait: Option<u64>) -> Outcome {
    Outcome::Answered { status, said: ErrorClass::Other, wait: wait.map(Duration::from_millis) }
}

fn again(rules: &Rules, outcome: &Outcome, past: Past, draw: f64) -> Option<u64> {
    match rules.again(outcome, past, draw) {
        Again::After(wait) => Some(wait.as_millis() as u64),
        Again::Exhausted | Again::Useless => None,
    }
}

#[test]
fn waits_double_up_to_a_cap_with_full_jitter() {
    let rules = Rules { attempts: 10, ..Rules::default() };
    for (made, most) in [(0, 1000), (1, 2000), (2, 4000), (3, 8000), (4, 8000), (9, 8000)] {
        let past = Past { made, ..Past::default() };
        for (draw, wanted) in [(0.0, 0), (0.5, most / 2), (1.0, most)] {
            assert_eq!(again(&rules, &answered(503, None), past, draw), Some(wanted), "{made} {draw}");
        }
    }
}

#[test]
fn a_providers_wait_is_kept_as_the_config_says() {
    let kept = Rules { attempts: 3, keeps_hints: true, ..Rules::default() };
    let plain = Rules { attempts: 3, ..Rules::default() };
    let alone = Past::default();
    let other = Past { has_other: true, ..Past::default() };
    let waited = Past { waited: Duration::from_secs(40), ..Past::default() };
    let rows = [
        (&kept, answered(429, Some(200)), alone, Some(200)),
        (&kept, answered(429, Some(40_000)), alone, Some(40_000)),
        // Longer than the budget, or than what is left of it.
        (&kept, answered(429, Some(60_000)), alone, None),
        (&kept, answered(429, Some(40_000)), waited, None),
        // Not asked to keep it: a short one is kept all the same, a long one sends elsewhere.
        (&plain, answered(429, Some(2000)), alone, Some(2000)),
        (&plain, answered(429, Some(30_000)), other, None),
        (&plain, answered(429, Some(30_000)), alone, None),
        (&plain, answered(429, None), alone, Some(500)),
    ];
    for (rules, outcome, past, wanted) in rows {
        assert_eq!(again(rules, &outcome, past, 0.5), wanted, "{outcome:?} {past:?} {rules:?}");
    }
}

#[test]
fn what_is_worth_another_try() {
    let plain = Rules { attempts: 1, ..Rules::default() };
    let none = Rules { statuses: Some(Vec::new()), ..plain.clone() };
    let own = Rules { statuses: Some(vec![400, 401, 408]), ..plain.clone() };
    let refused = Outcome::Answered { status: 400, said: ErrorClass::ContentFiltered, wait: None };
    let long = Outcome::Answered { status: 400, said: ErrorClass::ContextTooLong, wait: None };
    let rows = [
        (&plain, answered(429, None), true),
        (&plain, answered(529, None), true),
        (&plain, answered(400, None), false),
        (&plain, answered(401, None), false),
        (&plain, Outcome::Broken, true),
        (&plain, Outcome::Silent, false),
        (&plain, Outcome::Unfit(400), false),
        (&none, answered(503, None), false),
        // Reference section 5: whatever the list says.
        (&none, Outcome::Broken, true),
        (&own, answered(401, None), true),
        (&own, answered(503, None), false),
        (&own, Outcome::Silent, true),
        (&own, refused, true),
        (&plain, refused, false),
        (&own, long, false),
    ];
    for (rules, outcome, wanted) in rows {
        let said = rules.again(&outcome, Past::default(), 0.5);
        assert_eq!(matches!(said, Again::After(_)), wanted, "{outcome:?} {rules:?}");
    }
    let listening = Past { has_other: true, ..Past::default() };
    assert_eq!(own.again(&Outcome::Silent, listening, 0.5), Again::Useless);
    assert_eq!(plain.again(&answered(503, None), Past { made: 1, ..Past::default() }, 0.5), Again::Exhausted);
    assert_eq!(Rules::default().again(&answered(503, None), Past::default(), 0.5), Again::Useless);
}

proptest! {
    #[test]
    fn waits_never_pass_the_budget(
        hints in prop::collection::vec(prop::option::of(0_u64..90_000), 1..40),
        draws in prop::collection::vec(0.0..1.0_f64, 40),
        keeps in any::<bool>(),
        budget in 1_u64..100_000,
    ) {
        let rules =
            Rules { attempts: 1000, keeps_hints: keeps, budget: Duration::from_millis(budget), ..Rules::default() };
        let mut past = Past::default();
        for (hint, draw) in hints.iter().zip(&draws) {
            let Again::After(wait) = rules.again(&answered(429, *hint), past, *draw) else { break };
            if let Some(hint) = hint.filter(|hint| keeps || *hint <= 5000) {
                prop_assert!(wait >= Duration::from_millis(hint));
            }
            past.waited += wait;
            past.made += 1;
            prop_assert!(past.waited < Duration::from_millis(budget));
        }
    }
}
