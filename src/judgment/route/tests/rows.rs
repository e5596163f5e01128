//! Tests of the plan, one row per rule: outcomes in, targets out.

use super::{TestEnv, compiled, run_plan, short, target};
use crate::route::compiled::Node;
use crate::route::outcome::{ErrorClass, Outcome};
use crate::route::plan::{Decision, Plan, Reason};
use memory::state::targets::BreakerSignal;
use std::time::Duration;
use words::config::policies::BreakerPolicy;

fn status(status: u16) -> Outcome {
    Outcome::from_status(status)
}

fn response(status: u16, class: ErrorClass) -> Outcome {
    Outcome::Response { status, class, retry_after: None }
}

/// A fallback over three targets; `more` is added to the config.
fn fallback(strategy: &str, more: &str) -> String {
    let model = |name: &str| target(&format!(r#""override_params":{{"model":"{name}"}}"#));
    format!(
        r#"{{"strategy":{{"mode":"fallback"{strategy}}}{more},"targets":[{},{},{}]}}"#,
        model("m0"),
        model("m1"),
        model("m2")
    )
}

#[test]
fn fallback_follows_its_rules() {
    use Outcome::{Failed, Interrupted, TimedOut, Unsupported};
    let plain = fallback("", "");
    let listed = fallback(r#","on_status_codes":[429,503]"#, "");
    let never = fallback(r#","on_status_codes":[]"#, "");
    let group_list = fallback("", r#","on_status_codes":[500]"#);
    let repeated = fallback("", r#","retry":{"attempts":2}"#);
    let rows: Vec<(&str, Vec<Outcome>, &str, i32)> = vec![
        (&plain, vec![status(200)], "0 !", 0),
        (&plain, vec![status(204)], "0 !", 0),
        (&plain, vec![status(500), status(200)], "0 1 !", 0),
        // By default a group falls back on every status that is not 2xx.
        (&plain, vec![status(401), status(302), status(446)], "0 1 2 !", 0),
        (&plain, vec![TimedOut, Failed, Unsupported(400)], "0 1 2 !", 0),
        (&plain, vec![status(246)], "0 !", 0),
        (&listed, vec![status(401)], "0 !", 0),
        (&listed, vec![status(429), status(503), status(429)], "0 1 2 !", 0),
        // A list contains only statuses; an outcome without a status falls back.
        (&listed, vec![Failed, TimedOut, Failed], "0 1 2 !", 0),
        (&listed, vec![Unsupported(400)], "0 !", 0),
        (&never, vec![status(500)], "0 !", 0),
        (&never, vec![Failed], "0 !", 0),
        (&group_list, vec![status(500), status(404)], "0 1 !", 0),
        (&repeated, vec![status(503), status(503), status(503), status(200)], "0 0 0 1 !", 0),
        (&repeated, vec![status(503), status(200)], "0 0 !", 1),
        (&repeated, vec![status(400), status(200)], "0 1 !", 0),
        (&repeated, vec![Failed, Failed, Failed, Failed], "0 0 0 1 1", 1),
        // A target that timed out is not retried if there is another one; nor is one whose response broke
        // off.
        (&repeated, vec![TimedOut, status(200)], "0 1 !", 0),
        (&repeated, vec![Interrupted, Interrupted, Interrupted, Interrupted], "0 1 2 2 2", 2),
        // Too long for one model: the same target is never retried, the next one follows.
        (&repeated, vec![response(400, ErrorClass::ContextTooLong), status(200)], "0 1 !", 0),
        // A content-filter refusal is returned to the client, unless the config lists its status.
        (&plain, vec![response(400, ErrorClass::ContentFiltered)], "0 !", 0),
        (&repeated, vec![response(400, ErrorClass::ContentFiltered)], "0 !", 0),
    ];
    for (config, outcomes, wanted, retries) in rows {
        let (tried, counted) = run_plan(config, &outcomes, &mut TestEnv::default());
        assert_eq!((short(&tried).as_str(), counted), (wanted, retries), "{config} {outcomes:?}");
    }
    let named = fallback(r#","on_status_codes":[400]"#, "");
    let (tried, _) =
        run_plan(&named, &[response(400, ErrorClass::ContentFiltered), status(200)], &mut TestEnv::default());
    assert_eq!(short(&tried), "0 1 !");
}

#[test]
fn a_too_long_request_skips_targets_of_the_same_model() {
    let one = target(r#""override_params":{"model":"small"}"#);
    let large = target(r#""override_params":{"model":"large"}"#);
    let config = format!(r#"{{"strategy":{{"mode":"fallback"}},"targets":[{one},{one},{large}]}}"#);
    let (tried, _) =
        run_plan(&config, &[response(400, ErrorClass::ContextTooLong), status(200)], &mut TestEnv::default());
    assert_eq!(short(&tried), "0 2 !");
    // Only targets of the same model are left: the provider's response is returned.
    let config = format!(r#"{{"strategy":{{"mode":"fallback"}},"targets":[{one},{one}]}}"#);
    let (tried, _) = run_plan(&config, &[response(400, ErrorClass::ContextTooLong)], &mut TestEnv::default());
    assert_eq!(short(&tried), "0 !");
}

#[test]
fn a_target_uses_its_own_list_where_the_strategy_has_none() {
    let own = target(r#""on_status_codes":[418]"#);
    let config = format!(r#"{{"strategy":{{"mode":"fallback"}},"targets":[{own},{}]}}"#, target(""));
    assert_eq!(short(&run_plan(&config, &[status(500)], &mut TestEnv::default()).0), "0 !");
    assert_eq!(short(&run_plan(&config, &[status(418), status(500)], &mut TestEnv::default()).0), "0 1 !");
    let config = format!(
        r#"{{"strategy":{{"mode":"fallback","on_status_codes":[500]}},"targets":[{own},{}]}}"#,
        target("")
    );
    assert_eq!(short(&run_plan(&config, &[status(418)], &mut TestEnv::default()).0), "0 !");
}

#[test]
fn nested_groups_each_use_their_own_rule() {
    let inner = format!(
        r#"{{"strategy":{{"mode":"fallback","on_status_codes":[429]}},"targets":[{0},{0}]}}"#,
        target("")
    );
    let config = format!(r#"{{"strategy":{{"mode":"fallback"}},"targets":[{inner},{}]}}"#, target(""));
    let rows = [
        (vec![status(429), status(429), status(200)], "0.0 0.1 1 !"),
        // The inner group does not fall back, the outer one does.
        (vec![status(500), status(200)], "0.0 1 !"),
        (vec![status(429), status(500), status(500)], "0.0 0.1 1 !"),
    ];
    for (outcomes, wanted) in rows {
        assert_eq!(short(&run_plan(&config, &outcomes, &mut TestEnv::default()).0), wanted, "{outcomes:?}");
    }
    // Load balancing has no failover of its own; a fallback around it has.
    let balanced =
        format!(r#"{{"strategy":{{"mode":"loadbalance"}},"targets":[{0},{0}]}}"#, target(r#""weight":1"#));
    let mut env = TestEnv { randoms: vec![0.9, 0.0], ..TestEnv::default() };
    assert_eq!(short(&run_plan(&balanced, &[status(500)], &mut env).0), "1 !");
    let config = format!(r#"{{"strategy":{{"mode":"fallback"}},"targets":[{balanced},{}]}}"#, target(""));
    let mut env = TestEnv { randoms: vec![0.1, 0.0], ..TestEnv::default() };
    assert_eq!(short(&run_plan(&config, &[status(500), status(200)], &mut env).0), "0.0 1 !");
}

#[test]
fn open_circuits_are_skipped_and_the_least_bad_is_tried_when_all_are() {
    let config = fallback("", "");
    let mut env = TestEnv { open: [("config.targets[0]".to_owned(), 5)].into(), ..TestEnv::default() };
    assert_eq!(short(&run_plan(&config, &[status(500), status(500)], &mut env).0), "1 2 !");
    let all = [("config.targets[0]", 5), ("config.targets[1]", 50), ("config.targets[2]", 20)];
    let open = all.map(|(path, ago)| (path.to_owned(), ago)).into();
    let mut env = TestEnv { open, ..TestEnv::default() };
    assert_eq!(short(&run_plan(&config, &[status(500), status(500), status(500)], &mut env).0), "1 2 0 !");
    let mut plan = Plan::new(compiled(&config), None);
    let (_, reason) = plan.first(&mut env).unwrap();
    assert_eq!((reason, plan.all_circuits_open()), (Reason::LeastBad, true));
}

#[test]
fn balancing_uses_weight_latency_price_and_stickiness() {
    let member = |more: &str| target(more);
    let by = |by: &str, one: &str, other: &str| {
        format!(
            r#"{{"strategy":{{"mode":"loadbalance"{by}}},"targets":[{},{}]}}"#,
            member(one),
            member(other)
        )
    };
    let choose = |config: &str, mut env: TestEnv| {
        let mut plan = Plan::new(compiled(config), None);
        let (target, reason) = plan.first(&mut env).unwrap();
        (short(std::slice::from_ref(&target.path)), reason)
    };
    let weighted = by("", r#""weight":3"#, r#""weight":1"#);
    for (random, wanted) in [(0.0, "0"), (0.74, "0"), (0.76, "1"), (0.99, "1")] {
        let env = TestEnv { randoms: vec![random], ..TestEnv::default() };
        assert_eq!(choose(&weighted, env), (wanted.to_owned(), Reason::Weight), "{random}");
    }
    let never = by("", r#""weight":0"#, r#""weight":1"#);
    assert_eq!(choose(&never, TestEnv { randoms: vec![0.0], ..TestEnv::default() }).0, "1");
    let quick = by(r#","by":"least_latency""#, "", "");
    let latency = [("config.targets[0]".to_owned(), 900), ("config.targets[1]".to_owned(), 80)];
    let env = TestEnv { latency: latency.into(), ..TestEnv::default() };
    assert_eq!(choose(&quick, env), ("1".to_owned(), Reason::Latency));
    let cheap =
        by(r#","by":"price""#, r#""price":{"input":3,"output":15}"#, r#""price":{"input":1,"output":2}"#);
    assert_eq!(choose(&cheap, TestEnv::default()), ("1".to_owned(), Reason::Price));
    let sticky = by(r#","sticky":{"enabled":true}"#, "", "");
    let env = TestEnv { sticky_choice: Some(1), randoms: vec![0.0], ..TestEnv::default() };
    assert_eq!(choose(&sticky, env), ("1".to_owned(), Reason::Sticky));
    // The circuit of the sticky target is open: another one is chosen.
    let open = [("config.targets[1]".to_owned(), 1)].into();
    let env = TestEnv { sticky_choice: Some(1), randoms: vec![0.9], open, ..TestEnv::default() };
    assert_eq!(choose(&sticky, env), ("0".to_owned(), Reason::Weight));
}

#[test]
fn conditions_choose_by_name() {
    let named = |name: &str| target(&format!(r#""name":"{name}""#));
    let config = format!(
        r#"{{"strategy":{{"mode":"conditional","conditions":[{{"query":{{"metadata.plan":"paid"}},"then":"b"}}],"default":"a"}},"targets":[{},{}]}}"#,
        named("a"),
        named("b")
    );
    for (matches, wanted, reason) in [(true, "1", Reason::Condition(0)), (false, "0", Reason::Default)] {
        let mut env = TestEnv { matches, ..TestEnv::default() };
        let mut plan = Plan::new(compiled(&config), None);
        let (target, actual_reason) = plan.first(&mut env).unwrap();
        assert_eq!((short(std::slice::from_ref(&target.path)).as_str(), actual_reason), (wanted, reason));
    }
}

#[test]
fn single_is_its_first_target() {
    let config = format!(r#"{{"strategy":{{"mode":"single"}},"targets":[{0},{0}]}}"#, target(""));
    assert_eq!(short(&run_plan(&config, &[status(500)], &mut TestEnv::default()).0), "0 !");
    assert_eq!(compiled(&config).targets().len(), 1);
}

#[test]
fn targets_inherit_unset_policies() {
    let bare = target("");
    let own = target(r#""retry":{"attempts":5},"time_limits":{"gap_ms":7},"stream_rescue":"off""#);
    let config = format!(
        r#"{{"strategy":{{"mode":"fallback","cb_config":{{"failure_threshold":3,"cooldown_interval":30000}}}},
            "retry":{{"attempts":2}},"time_limits":{{"gap_ms":1,"first_token_ms":2}},"override_params":{{"a":1}},
            "targets":[{bare},{own}]}}"#
    );
    let compiled = compiled(&config.replace('\n', " "));
    let [one, other] = compiled.targets() else { panic!() };
    assert_eq!((one.policies.retry().attempts, other.policies.retry().attempts), (2, 5));
    assert_eq!((one.policies.time_limits.gap, one.policies.time_limits.first_token), (Some(1), Some(2)));
    assert_eq!((other.policies.time_limits.gap, other.policies.time_limits.first_token), (Some(7), Some(2)));
    assert!(one.policies.stream_rescue.is_none() && other.policies.stream_rescue.is_some());
    assert_eq!(one.policies.breaker.as_ref().map(|rules| rules.threshold), Some(3));
    assert_eq!(one.policies.override_params.len(), 1);
    assert!(matches!(compiled.root(), Node::Group(group) if group.path == "config"));
}

#[test]
fn a_refused_prefill_or_form_is_repeated_at_the_same_target_and_counts_as_no_retry() {
    let config = format!(
        r#"{{"strategy":{{"mode":"fallback"}},"targets":[{},{}]}}"#,
        target(r#""retry":{"attempts":1}"#),
        target("")
    );
    for refused in [Outcome::PrefillRefused, Outcome::FormRefused] {
        let outcomes = [refused, Outcome::Failed, Outcome::Failed];
        let (tried, retries) = run_plan(&config, &outcomes, &mut TestEnv::default());
        assert_eq!(short(&tried), "0 0 0 1");
        assert_eq!(retries, 0);
    }
}

#[test]
fn nothing_follows_an_attempt_whose_body_can_be_sent_once() {
    let config = format!(
        r#"{{"strategy":{{"mode":"fallback"}},"targets":[{},{}]}}"#,
        target(r#""retry":{"attempts":3}"#),
        target("")
    );
    let mut env = TestEnv::default();
    let mut plan = Plan::new(compiled(&config), None);
    plan.first(&mut env).unwrap();
    assert!(plan.has_other(&env) && plan.may_continue(&env));
    plan.set_last();
    assert!(!plan.has_other(&env) && !plan.may_continue(&env));
    assert!(matches!(plan.next(&Outcome::Failed, &mut env), Decision::Return));
    assert_eq!(plan.retry_count(), 0);
}

#[test]
fn breakers_learn_what_is_the_targets_doing() {
    let policy = BreakerPolicy { threshold: 1, cooldown: Duration::from_secs(1), statuses: Some(vec![429]) };
    for (outcome, without_list, with_list) in [
        (Outcome::from_status(200), BreakerSignal::Success, BreakerSignal::Success),
        (Outcome::from_status(429), BreakerSignal::Ignored, BreakerSignal::Failure),
        (Outcome::from_status(503), BreakerSignal::Failure, BreakerSignal::Ignored),
        (Outcome::TimedOut, BreakerSignal::Failure, BreakerSignal::Failure),
        (Outcome::Failed, BreakerSignal::Failure, BreakerSignal::Failure),
        (Outcome::Interrupted, BreakerSignal::Failure, BreakerSignal::Failure),
        (Outcome::PrefillRefused, BreakerSignal::Ignored, BreakerSignal::Ignored),
        (Outcome::FormRefused, BreakerSignal::Ignored, BreakerSignal::Ignored),
        (Outcome::Unsupported(400), BreakerSignal::Ignored, BreakerSignal::Ignored),
        (Outcome::Limited(429), BreakerSignal::Ignored, BreakerSignal::Ignored),
        (Outcome::Busy, BreakerSignal::Ignored, BreakerSignal::Ignored),
    ] {
        let default = BreakerPolicy { statuses: None, ..policy.clone() };
        assert_eq!(outcome.breaker_signal(Some(&default)), without_list, "{outcome:?}");
        assert_eq!(outcome.breaker_signal(Some(&policy)), with_list, "{outcome:?}");
    }
    assert_eq!(Outcome::from_status(503).breaker_signal(None), BreakerSignal::Ignored);
}
