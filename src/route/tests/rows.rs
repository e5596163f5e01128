//! Outcomes in, targets out: one row per rule.

use super::{Made, short, target, tree, walk};
use crate::route::outcome::{ErrorClass, Outcome};
use crate::route::plan::{Plan, Why};
use crate::route::tree::Branch;

fn status(status: u16) -> Outcome {
    Outcome::answered(status)
}

fn said(status: u16, said: ErrorClass) -> Outcome {
    Outcome::Answered { status, said, wait: None }
}

/// A fallback over three targets; `more` stands in the config.
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
fn fallback_goes_on_by_the_rules() {
    use Outcome::{Broken, Cut, Silent, Unfit};
    let plain = fallback("", "");
    let listed = fallback(r#","on_status_codes":[429,503]"#, "");
    let never = fallback(r#","on_status_codes":[]"#, "");
    let group_list = fallback("", r#","on_status_codes":[500]"#);
    let repeated = fallback("", r#","retry":{"attempts":2}"#);
    let rows: Vec<(&str, Vec<Outcome>, &str, i32)> = vec![
        (&plain, vec![status(200)], "0 !", 0),
        (&plain, vec![status(204)], "0 !", 0),
        (&plain, vec![status(500), status(200)], "0 1 !", 0),
        // By default every status that is not 2xx (reference 4.1).
        (&plain, vec![status(401), status(302), status(446)], "0 1 2 !", 0),
        (&plain, vec![Silent, Broken, Unfit(400)], "0 1 2 !", 0),
        (&plain, vec![status(246)], "0 !", 0),
        (&listed, vec![status(401)], "0 !", 0),
        (&listed, vec![status(429), status(503), status(429)], "0 1 2 !", 0),
        // A list is of statuses: what has none goes on.
        (&listed, vec![Broken, Silent, Broken], "0 1 2 !", 0),
        (&listed, vec![Unfit(400)], "0 !", 0),
        (&never, vec![status(500)], "0 !", 0),
        (&never, vec![Broken], "0 !", 0),
        (&group_list, vec![status(500), status(404)], "0 1 !", 0),
        (&repeated, vec![status(503), status(503), status(503), status(200)], "0 0 0 1 !", 0),
        (&repeated, vec![status(503), status(200)], "0 0 !", 1),
        (&repeated, vec![status(400), status(200)], "0 1 !", 0),
        (&repeated, vec![Broken, Broken, Broken, Broken], "0 0 0 1 1", 1),
        // A silent target is not asked twice when there is another; nor is one that broke in mid-answer.
        (&repeated, vec![Silent, status(200)], "0 1 !", 0),
        (&repeated, vec![Cut, Cut, Cut, Cut], "0 1 2 2 2", 2),
        // Too long for one model: never the same again, the next.
        (&repeated, vec![said(400, ErrorClass::ContextTooLong), status(200)], "0 1 !", 0),
        // A refusal is propagated, unless the config names its status.
        (&plain, vec![said(400, ErrorClass::ContentFiltered)], "0 !", 0),
        (&repeated, vec![said(400, ErrorClass::ContentFiltered)], "0 !", 0),
    ];
    for (config, outcomes, wanted, retries) in rows {
        let (tried, counted) = walk(config, &outcomes, &mut Made::default());
        assert_eq!((short(&tried).as_str(), counted), (wanted, retries), "{config} {outcomes:?}");
    }
    let named = fallback(r#","on_status_codes":[400]"#, "");
    let (tried, _) =
        walk(&named, &[said(400, ErrorClass::ContentFiltered), status(200)], &mut Made::default());
    assert_eq!(short(&tried), "0 1 !");
}

#[test]
fn too_long_a_request_skips_targets_of_the_same_model() {
    let one = target(r#""override_params":{"model":"small"}"#);
    let large = target(r#""override_params":{"model":"large"}"#);
    let config = format!(r#"{{"strategy":{{"mode":"fallback"}},"targets":[{one},{one},{large}]}}"#);
    let (tried, _) =
        walk(&config, &[said(400, ErrorClass::ContextTooLong), status(200)], &mut Made::default());
    assert_eq!(short(&tried), "0 2 !");
    // Nothing but the same model is left: the provider's answer stands.
    let config = format!(r#"{{"strategy":{{"mode":"fallback"}},"targets":[{one},{one}]}}"#);
    let (tried, _) = walk(&config, &[said(400, ErrorClass::ContextTooLong)], &mut Made::default());
    assert_eq!(short(&tried), "0 !");
}

#[test]
fn a_target_has_a_list_of_its_own_where_the_strategy_has_none() {
    let own = target(r#""on_status_codes":[418]"#);
    let config = format!(r#"{{"strategy":{{"mode":"fallback"}},"targets":[{own},{}]}}"#, target(""));
    assert_eq!(short(&walk(&config, &[status(500)], &mut Made::default()).0), "0 !");
    assert_eq!(short(&walk(&config, &[status(418), status(500)], &mut Made::default()).0), "0 1 !");
    let config = format!(
        r#"{{"strategy":{{"mode":"fallback","on_status_codes":[500]}},"targets":[{own},{}]}}"#,
        target("")
    );
    assert_eq!(short(&walk(&config, &[status(418)], &mut Made::default()).0), "0 !");
}

#[test]
fn groups_nest_and_judge_each_by_its_own_rule() {
    let inner = format!(
        r#"{{"strategy":{{"mode":"fallback","on_status_codes":[429]}},"targets":[{0},{0}]}}"#,
        target("")
    );
    let config = format!(r#"{{"strategy":{{"mode":"fallback"}},"targets":[{inner},{}]}}"#, target(""));
    let rows = [
        (vec![status(429), status(429), status(200)], "0.0 0.1 1 !"),
        // Inside it stops; outside it goes on.
        (vec![status(500), status(200)], "0.0 1 !"),
        (vec![status(429), status(500), status(500)], "0.0 0.1 1 !"),
    ];
    for (outcomes, wanted) in rows {
        assert_eq!(short(&walk(&config, &outcomes, &mut Made::default()).0), wanted, "{outcomes:?}");
    }
    // Load balancing has no failover of its own; a fallback around it has.
    let balanced =
        format!(r#"{{"strategy":{{"mode":"loadbalance"}},"targets":[{0},{0}]}}"#, target(r#""weight":1"#));
    let mut world = Made { draws: vec![0.9, 0.0], ..Made::default() };
    assert_eq!(short(&walk(&balanced, &[status(500)], &mut world).0), "1 !");
    let config = format!(r#"{{"strategy":{{"mode":"fallback"}},"targets":[{balanced},{}]}}"#, target(""));
    let mut world = Made { draws: vec![0.1, 0.0], ..Made::default() };
    assert_eq!(short(&walk(&config, &[status(500), status(200)], &mut world).0), "0.0 1 !");
}

#[test]
fn open_circuits_are_skipped_and_the_least_bad_is_tried_when_all_are() {
    let config = fallback("", "");
    let mut world = Made { open: [("config.targets[0]".to_owned(), 5)].into(), ..Made::default() };
    assert_eq!(short(&walk(&config, &[status(500), status(500)], &mut world).0), "1 2 !");
    let all = [("config.targets[0]", 5), ("config.targets[1]", 50), ("config.targets[2]", 20)];
    let open = all.map(|(path, ago)| (path.to_owned(), ago)).into();
    let mut world = Made { open, ..Made::default() };
    assert_eq!(short(&walk(&config, &[status(500), status(500), status(500)], &mut world).0), "1 2 0 !");
    let mut plan = Plan::new(tree(&config), None);
    let (_, why) = plan.first(&mut world).unwrap();
    assert_eq!((why, plan.all_were_open()), (Why::LeastBad, true));
}

#[test]
fn balancing_goes_by_weight_latency_price_and_memory() {
    let child = |more: &str| target(more);
    let by = |by: &str, one: &str, other: &str| {
        format!(r#"{{"strategy":{{"mode":"loadbalance"{by}}},"targets":[{},{}]}}"#, child(one), child(other))
    };
    let choose = |config: &str, mut world: Made| {
        let mut plan = Plan::new(tree(config), None);
        let (leaf, why) = plan.first(&mut world).unwrap();
        (short(std::slice::from_ref(&leaf.index)), why)
    };
    let weighted = by("", r#""weight":3"#, r#""weight":1"#);
    for (draw, wanted) in [(0.0, "0"), (0.74, "0"), (0.76, "1"), (0.99, "1")] {
        let world = Made { draws: vec![draw], ..Made::default() };
        assert_eq!(choose(&weighted, world), (wanted.to_owned(), Why::Weight), "{draw}");
    }
    let never = by("", r#""weight":0"#, r#""weight":1"#);
    assert_eq!(choose(&never, Made { draws: vec![0.0], ..Made::default() }).0, "1");
    let quick = by(r#","by":"least_latency""#, "", "");
    let latency = [("config.targets[0]".to_owned(), 900), ("config.targets[1]".to_owned(), 80)];
    let world = Made { latency: latency.into(), ..Made::default() };
    assert_eq!(choose(&quick, world), ("1".to_owned(), Why::Latency));
    let cheap =
        by(r#","by":"price""#, r#""price":{"input":3,"output":15}"#, r#""price":{"input":1,"output":2}"#);
    assert_eq!(choose(&cheap, Made::default()), ("1".to_owned(), Why::Price));
    let sticky = by(r#","sticky":{"enabled":true}"#, "", "");
    let world = Made { stuck: Some(1), draws: vec![0.0], ..Made::default() };
    assert_eq!(choose(&sticky, world), ("1".to_owned(), Why::Sticky));
    // What it stuck to is open: another one.
    let open = [("config.targets[1]".to_owned(), 1)].into();
    let world = Made { stuck: Some(1), draws: vec![0.9], open, ..Made::default() };
    assert_eq!(choose(&sticky, world), ("0".to_owned(), Why::Weight));
}

#[test]
fn conditions_choose_by_name() {
    let named = |name: &str| target(&format!(r#""name":"{name}""#));
    let config = format!(
        r#"{{"strategy":{{"mode":"conditional","conditions":[{{"query":{{"metadata.plan":"paid"}},"then":"b"}}],"default":"a"}},"targets":[{},{}]}}"#,
        named("a"),
        named("b")
    );
    for (holds, wanted, why) in [(true, "1", Why::Condition(0)), (false, "0", Why::Default)] {
        let mut world = Made { holds, ..Made::default() };
        let mut plan = Plan::new(tree(&config), None);
        let (leaf, said) = plan.first(&mut world).unwrap();
        assert_eq!((short(std::slice::from_ref(&leaf.index)).as_str(), said), (wanted, why));
    }
}

#[test]
fn single_is_its_first_target() {
    let config = format!(r#"{{"strategy":{{"mode":"single"}},"targets":[{0},{0}]}}"#, target(""));
    assert_eq!(short(&walk(&config, &[status(500)], &mut Made::default()).0), "0 !");
    assert_eq!(tree(&config).leaves().len(), 1);
}

#[test]
fn what_a_target_does_not_say_it_takes_from_above() {
    let bare = target("");
    let own = target(r#""retry":{"attempts":5},"time_limits":{"gap_ms":7},"stream_rescue":"off""#);
    let config = format!(
        r#"{{"strategy":{{"mode":"fallback","cb_config":{{"failure_threshold":3,"cooldown_interval":30000}}}},
            "retry":{{"attempts":2}},"time_limits":{{"gap_ms":1,"first_token_ms":2}},"override_params":{{"a":1}},
            "targets":[{bare},{own}]}}"#
    );
    let tree = tree(&config.replace('\n', " "));
    let [one, other] = tree.leaves() else { panic!() };
    assert_eq!((one.retry.attempts, other.retry.attempts), (2, 5));
    assert_eq!((one.time_limits.gap, one.time_limits.first_token), (Some(1), Some(2)));
    assert_eq!((other.time_limits.gap, other.time_limits.first_token), (Some(7), Some(2)));
    assert!(one.rescue.is_none() && other.rescue.is_some());
    assert_eq!(one.breaker.as_ref().map(|rules| rules.threshold), Some(3));
    assert_eq!(one.override_params.len(), 1);
    assert!(matches!(tree.root(), Branch::Group(group) if group.index == "config"));
}
