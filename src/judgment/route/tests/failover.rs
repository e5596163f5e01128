//! Tests of the plan: failover in balanced groups, and classes of failures. One row per rule: outcomes in, targets out.

use super::{TestEnv, compiled, run_plan, short, target};
use crate::route::outcome::{ErrorClass, Outcome};
use crate::route::plan::{Decision, Plan, Reason};
use words::config::failure_class::FailureClass;

fn status(status: u16) -> Outcome {
    Outcome::from_status(status)
}

fn response(status: u16, class: ErrorClass) -> Outcome {
    Outcome::Response { status, class, retry_after: None }
}

/// A balanced group over targets with these members, with `strategy` added to its strategy.
fn balanced(strategy: &str, targets: &[&str]) -> String {
    let targets: Vec<String> = targets.iter().map(|members| target(members)).collect();
    format!(r#"{{"strategy":{{"mode":"loadbalance"{strategy}}},"targets":[{}]}}"#, targets.join(","))
}

const FAILOVER: &str = r#","failover":true"#;

fn tried(config: &str, outcomes: &[Outcome], env: TestEnv) -> String {
    let mut env = env;
    short(&run_plan(config, outcomes, &mut env).0)
}

#[test]
fn a_balanced_group_with_failover_tries_each_member_once() {
    let three = balanced(FAILOVER, &["", "", ""]);
    let plain = balanced("", &["", "", ""]);
    // Drawn in this order: 0.5 of three is the second; of the other two, the second again; then what is left.
    let rows: [(&str, &[Outcome], &str); 9] = [
        (&three, &[status(529), status(503), status(500)], "1 2 0 !"),
        (&three, &[status(401), Outcome::Failed, Outcome::TimedOut], "1 2 0 !"),
        (&three, &[Outcome::Unsupported(400), status(200)], "1 2 !"),
        (&three, &[status(200)], "1 !"),
        (&three, &[response(400, ErrorClass::ContentFiltered)], "1 !"),
        (&three, &[Outcome::Interrupted, status(200)], "1 2 !"),
        (&plain, &[status(529)], "1 !"),
        // A limit's refusal leads on without failover too.
        (&plain, &[Outcome::Limited(429), status(529)], "1 2 !"),
        (&plain, &[Outcome::Busy, status(529)], "1 2 !"),
    ];
    for (config, outcomes, wanted) in rows {
        assert_eq!(tried(config, outcomes, TestEnv::default()), wanted, "{config} {outcomes:?}");
    }
}

#[test]
fn failover_follows_weights_lists_and_circuits() {
    let weighted = balanced(FAILOVER, &[r#""weight":1"#, r#""weight":0"#, r#""weight":3"#]);
    assert_eq!(tried(&weighted, &[status(500), status(500)], TestEnv::default()), "2 0 !");
    let listed = balanced(r#","failover":true,"on_status_codes":[529]"#, &["", ""]);
    assert_eq!(tried(&listed, &[status(500)], TestEnv::default()), "1 !");
    assert_eq!(tried(&listed, &[status(529), status(529)], TestEnv::default()), "1 0 !");
    let never = balanced(r#","failover":true,"on_status_codes":[]"#, &["", ""]);
    assert_eq!(tried(&never, &[Outcome::Failed], TestEnv::default()), "1 !");
    let open = TestEnv::default().opened("config.targets[2]", 1);
    assert_eq!(tried(&balanced(FAILOVER, &["", "", ""]), &[status(500), status(500)], open), "1 0 !");
    let retried = balanced(FAILOVER, &[r#""retry":{"attempts":1}"#, r#""retry":{"attempts":1}"#]);
    assert_eq!(tried(&retried, &[status(503); 4], TestEnv::default()), "1 1 0 0 !");
}

#[test]
fn failover_takes_the_next_cheapest_and_the_next_quickest() {
    let price = |input: u32| format!(r#""price":{{"input":{input},"output":1}}"#);
    let prices = [price(3), price(1), price(2)];
    let prices: Vec<&str> = prices.iter().map(String::as_str).collect();
    let cheap = balanced(r#","failover":true,"by":"price""#, &prices);
    assert_eq!(tried(&cheap, &[status(500); 3], TestEnv::default()), "1 2 0 !");
    let unused = [format!(r#""weight":0,{}"#, price(1)), price(2), price(3)];
    let unused: Vec<&str> = unused.iter().map(String::as_str).collect();
    for strategy in [r#","by":"price""#, r#","failover":true,"by":"price""#] {
        let wanted = if strategy.contains("failover") { "1 2 !" } else { "1 !" };
        let found = tried(&balanced(strategy, &unused), &[status(500); 3], TestEnv::default());
        assert_eq!(found, wanted, "a target of weight 0 is never picked");
    }
    let quick = balanced(r#","failover":true,"by":"least_latency""#, &["", ""]);
    let env = || TestEnv::default().measured("config.targets[0]", 20).measured("config.targets[1]", 900);
    assert_eq!(tried(&quick, &[status(500); 2], env()), "0 1 !");
}

#[test]
fn failover_nests_and_its_reason_is_next() {
    let inner = balanced(FAILOVER, &["", ""]);
    let config = format!(r#"{{"strategy":{{"mode":"fallback"}},"targets":[{inner},{}]}}"#, target(""));
    assert_eq!(tried(&config, &[status(500); 3], TestEnv::default()), "0.1 0.0 1 !");
    let outer = format!(
        r#"{{"strategy":{{"mode":"loadbalance","failover":true}},"targets":[{},{{"strategy":{{"mode":"fallback"}},"targets":[{},{}]}}]}}"#,
        target(""),
        target(""),
        target("")
    );
    assert_eq!(tried(&outer, &[status(500); 3], TestEnv::default()), "1.0 1.1 0 !");
    let mut env = TestEnv::default();
    let mut plan = Plan::new(compiled(&inner), None);
    plan.first(&mut env).unwrap();
    assert!(plan.has_other(&env) && plan.may_continue(&env));
    let next = plan.next(&status(529), &mut env);
    assert!(matches!(next, Decision::Attempt { reason: Reason::Next, .. }), "{next:?}");
    assert!(!plan.has_other(&env));
}

#[test]
fn a_client_stays_with_the_member_that_took_the_place_of_one_that_failed() {
    let config = balanced(r#","failover":true,"sticky":{"enabled":true}"#, &["", ""]);
    for (outcome, remembered) in [
        (status(529), vec![0]),
        (status(429), vec![0]),
        (status(401), vec![0]),
        (Outcome::Failed, vec![0]),
        (Outcome::TimedOut, vec![0]),
        (Outcome::Limited(429), vec![]),
        // The client's own mistakes.
        (status(400), vec![]),
        (status(404), vec![]),
        (Outcome::Unsupported(400), vec![]),
    ] {
        let mut env = TestEnv { sticky_choice: Some(1), ..TestEnv::default() };
        let mut plan = Plan::new(compiled(&config), None);
        assert_eq!(plan.first(&mut env).unwrap().1, Reason::Sticky);
        assert!(matches!(plan.next(&outcome, &mut env), Decision::Attempt { .. }));
        assert_eq!(env.remembered.take(), remembered, "{outcome:?}");
    }
}

/// A fallback: the first target, then those for classes, then one for any failure; `strategy` is added to its strategy.
fn with_classes(strategy: &str, classes: &[&str]) -> String {
    let for_errors = |classes: &&str| target(&format!(r#""for_errors":[{classes}]"#));
    let special: Vec<String> = classes.iter().map(for_errors).collect();
    format!(
        r#"{{"strategy":{{"mode":"fallback"{strategy}}},"targets":[{},{},{}]}}"#,
        target(r#""override_params":{"model":"small"}"#),
        special.join(","),
        target("")
    )
}

#[test]
fn a_target_for_classes_is_used_after_those_alone() {
    let config = with_classes("", &[r#""context_window""#, r#""content_policy","quota""#]);
    let too_long = response(400, ErrorClass::ContextTooLong);
    let filtered = response(400, ErrorClass::ContentFiltered);
    let rows: [(&[Outcome], &str); 7] = [
        (&[status(200)], "0 !"),
        (&[status(500), status(500)], "0 3 !"),
        (&[too_long, status(200)], "0 1 !"),
        // What follows is decided by the last failure.
        (&[too_long, status(500), status(500)], "0 1 3 !"),
        (&[filtered, status(200)], "0 2 !"),
        (&[filtered, filtered], "0 2 !"),
        (&[Outcome::Limited(412), status(200)], "0 2 !"),
    ];
    for (outcomes, wanted) in rows {
        assert_eq!(tried(&config, outcomes, TestEnv::default()), wanted, "{outcomes:?}");
    }
    // It is never the first, even where it comes first, or where the others' circuits are open.
    let config = format!(
        r#"{{"strategy":{{"mode":"fallback"}},"targets":[{},{}]}}"#,
        target(r#""for_errors":["timeout"]"#),
        target("")
    );
    assert_eq!(tried(&config, &[Outcome::TimedOut, status(500)], TestEnv::default()), "1 0 !");
    assert_eq!(tried(&config, &[status(200)], TestEnv::default().opened("config.targets[1]", 1)), "1 !");
}

#[test]
fn on_errors_adds_to_the_status_list_or_takes_its_place() {
    let classes = |strategy: &str| {
        format!(
            r#"{{"strategy":{{"mode":"fallback",{strategy}}},"targets":[{},{}]}}"#,
            target(r#""override_params":{"model":"small"}"#),
            target("")
        )
    };
    let alone = classes(r#""on_errors":["context_window","rate_limit"]"#);
    let both = classes(r#""on_errors":["content_policy"],"on_status_codes":[503]"#);
    let none = classes(r#""on_errors":[]"#);
    for (config, outcome, goes_on) in [
        (&alone, response(400, ErrorClass::ContextTooLong), true),
        (&alone, status(429), true),
        (&alone, status(500), false),
        (&alone, Outcome::TimedOut, false),
        (&both, response(400, ErrorClass::ContentFiltered), true),
        (&both, status(503), true),
        (&both, status(500), false),
        (&both, Outcome::Failed, true),
        (&none, status(500), false),
        (&none, Outcome::Failed, false),
    ] {
        let wanted = if goes_on { "0 1" } else { "0 !" };
        assert_eq!(tried(config, &[outcome], TestEnv::default()), wanted, "{config} {outcome:?}");
    }
}

/// A slow first token must not be cut short for a target that would not follow.
#[test]
fn time_is_short_only_where_another_target_would_follow_silence() {
    for (strategy, has_other, may_continue) in [
        (r#","on_errors":["context_window"]"#, false, false),
        (r#","on_errors":["timeout"]"#, true, true),
        (r#","on_errors":["connection"]"#, false, true),
        (r#","on_status_codes":[429]"#, true, true),
        (r#","on_status_codes":[]"#, false, false),
    ] {
        let config = format!(
            r#"{{"strategy":{{"mode":"fallback"{strategy}}},"targets":[{},{}]}}"#,
            target(""),
            target("")
        );
        let mut env = TestEnv::default();
        let mut plan = Plan::new(compiled(&config), None);
        plan.first(&mut env).unwrap();
        assert_eq!((plan.has_other(&env), plan.may_continue(&env)), (has_other, may_continue), "{strategy}");
    }
}

#[test]
fn every_failure_has_a_class() {
    use FailureClass::{
        Auth, Connection, ContentPolicy, ContextWindow, ModelNotFound, Other, Quota, RateLimit, ServerError,
        Timeout,
    };
    for (outcome, wanted) in [
        (status(200), None),
        (status(204), None),
        (status(400), Some(Other)),
        (status(401), Some(Auth)),
        (status(402), Some(Quota)),
        (status(403), Some(Auth)),
        (status(404), Some(Other)),
        (response(404, ErrorClass::ModelNotFound), Some(ModelNotFound)),
        (status(408), Some(Timeout)),
        (status(429), Some(RateLimit)),
        (response(429, ErrorClass::QuotaExceeded), Some(Quota)),
        (response(400, ErrorClass::ContextTooLong), Some(ContextWindow)),
        (response(400, ErrorClass::ContentFiltered), Some(ContentPolicy)),
        (status(500), Some(ServerError)),
        (status(529), Some(ServerError)),
        (Outcome::TimedOut, Some(Timeout)),
        (Outcome::Failed, Some(Connection)),
        (Outcome::Interrupted, Some(Connection)),
        (Outcome::Limited(429), Some(RateLimit)),
        (Outcome::Busy, Some(RateLimit)),
        (Outcome::Limited(412), Some(Quota)),
        (Outcome::Unsupported(400), Some(Other)),
    ] {
        assert_eq!(outcome.failure_class(), wanted, "{outcome:?}");
    }
}

#[test]
fn a_hedge_goes_to_no_target_for_classes() {
    let config = format!(
        r#"{{"strategy":{{"mode":"fallback"}},"hedge":{{"after_ms":1}},"targets":[{},{},{}]}}"#,
        target(""),
        target(r#""for_errors":["context_window"]"#),
        target("")
    );
    let mut env = TestEnv::default();
    let mut plan = Plan::new(compiled(&config), None);
    plan.first(&mut env).unwrap();
    let hedge = plan.hedge_target(&mut env).unwrap();
    assert_eq!(hedge.path, "config.targets[2]");
    assert!(plan.hedge_target(&mut env).is_none());
}
