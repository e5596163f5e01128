//! Tests of the plan: balanced groups that choose by the beginning of the request.

use super::{TestEnv, compiled};
use crate::route::compiled::CompiledConfig;
use crate::route::env::TargetLoad;
use crate::route::outcome::Outcome;
use crate::route::plan::{Decision, Plan, Reason};
use crate::route::prompt_prefix::PromptPrefix;
use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use words::api::body::Body;
use words::api::operation::Operation;

/// An engine of one's own.
fn engine(number: usize) -> Value {
    json!({"provider": "vllm", "custom_host": format!("https://engine-{number}.example.com/v1")})
}

fn group(targets: &[Value]) -> Arc<CompiledConfig> {
    group_with(&json!({}), targets)
}

fn group_with(strategy: &Value, targets: &[Value]) -> Arc<CompiledConfig> {
    let mut all = json!({"mode": "loadbalance", "by": "prefix"});
    all.as_object_mut().unwrap().extend(strategy.as_object().unwrap().clone());
    compiled(&json!({"strategy": all, "targets": targets}).to_string())
}

fn engines() -> Arc<CompiledConfig> {
    group(&(0..4).map(engine).collect::<Vec<_>>())
}

/// A conversation of this name after some turns, of 4 KiB each. All have the same system prompt of so many bytes.
fn conversation(name: &str, turns: usize, system: usize) -> PromptPrefix {
    let filled = |text: String, bytes: usize| text.chars().cycle().take(bytes).collect::<String>();
    let mut messages = vec![json!({"role": "system", "content": filled("rules ".to_owned(), system)})];
    for turn in 0..turns {
        messages.push(json!({"role": "user", "content": filled(format!("{name} asks {turn} "), 2048)}));
        messages.push(json!({"role": "assistant", "content": filled(format!("answer {turn} "), 2048)}));
    }
    let body = Body::parse(Bytes::from(json!({"messages": messages}).to_string())).unwrap();
    PromptPrefix::new(Operation::ChatCompletions, Some("m"), &body).unwrap()
}

/// The number of the target that a conversation gets, and why.
fn chosen(config: &Arc<CompiledConfig>, env: &mut TestEnv, prefix: PromptPrefix) -> (usize, Reason) {
    env.prefix = Some(prefix);
    let (target, reason) = Plan::new(Arc::clone(config), Some("m".to_owned())).first(env).unwrap();
    (number(&target.path), reason)
}

fn number(path: &str) -> usize {
    path.trim_start_matches("config.targets[").trim_end_matches(']').parse().unwrap()
}

fn busy(loads: &[u32]) -> HashMap<String, TargetLoad> {
    let load = |(index, in_flight): (usize, &u32)| {
        (format!("config.targets[{index}]"), TargetLoad { in_flight: *in_flight, ..TargetLoad::default() })
    };
    loads.iter().enumerate().map(load).collect()
}

#[test]
fn a_conversation_stays_and_the_longest_beginning_wins() {
    let config = engines();
    let mut env = TestEnv::default();
    let (first, reason) = chosen(&config, &mut env, conversation("a", 1, 1024));
    assert_eq!(reason, Reason::PrefixHash);
    for (turns, blocks) in [(2, 5), (3, 9), (4, 13), (5, 16)] {
        let next = chosen(&config, &mut env, conversation("a", turns, 1024));
        assert_eq!(next, (first, Reason::Prefix(blocks)), "{turns} turns");
    }
    // Another conversation shares the system prompt, until somebody has more of it.
    assert_eq!(chosen(&config, &mut env, conversation("b", 1, 1024)), (first, Reason::Prefix(1)));
    env.loads = busy(&[0, 1, 2, 3].map(|index| if index == first { 9 } else { 0 }));
    let (other, reason) = chosen(&config, &mut env, conversation("b", 2, 1024));
    assert_eq!((reason, other != first), (Reason::PassedOn, true));
    env.loads.clear();
    assert_eq!(chosen(&config, &mut env, conversation("b", 3, 1024)), (other, Reason::Prefix(9)));
    assert_eq!(chosen(&config, &mut env, conversation("a", 6, 1024)).0, first);
}

#[test]
fn a_beginning_counts_for_the_time_of_its_provider_and_from_its_minimum_on() {
    let claude = |number: usize| {
        json!({"provider": "anthropic", "api_key": format!("k{number}"), "name": format!("claude-{number}"),
            "override_params": {"model": "claude-sonnet-4-5"}})
    };
    let claudes = group(&(0..4).map(claude).collect::<Vec<_>>());
    // 1,024 tokens of 4 bytes: the first turn of 4 KiB alone is as long.
    for (config, turns, before, after) in [
        (&claudes, 1, Reason::Prefix(4), Reason::PrefixHash),
        (&engines(), 1, Reason::Prefix(4), Reason::Prefix(4)),
    ] {
        let mut env = TestEnv::default();
        let choose = |env: &mut TestEnv| chosen(config, env, conversation("a", turns, 0));
        let (first, reason) = choose(&mut env);
        assert_eq!(reason, Reason::PrefixHash);
        env.now += Duration::from_secs(299);
        assert_eq!(choose(&mut env), (first, before));
        env.now += Duration::from_secs(299);
        assert_eq!(choose(&mut env), (first, before), "each use counts anew");
        env.now += Duration::from_secs(300);
        // By its hash it comes to the same target again.
        assert_eq!(choose(&mut env), (first, after));
    }
    // 3 KiB of a common beginning are too short for a provider's cache, and long enough for an engine's.
    for (config, wanted) in [(&claudes, Reason::PrefixHash), (&engines(), Reason::Prefix(3))] {
        let mut env = TestEnv::default();
        chosen(config, &mut env, conversation("a", 1, 3072));
        assert_eq!(chosen(config, &mut env, conversation("b", 1, 3072)).1, wanted);
    }
}

#[test]
fn a_target_over_its_share_passes_on_in_the_order_of_the_hash() {
    let config = engines();
    let order = |loads: &[u32; 4]| {
        let mut env = TestEnv { loads: busy(loads), ..TestEnv::default() };
        chosen(&config, &mut env, conversation("a", 1, 1024))
    };
    let (first, _) = order(&[0, 0, 0, 0]);
    let with = |count: u32, others: u32| {
        let mut loads = [others; 4];
        loads[first] = count;
        loads
    };
    // Of 4 targets with n attempts in all each may have ceil(1.25 (n + 1) / 4), and two in any case.
    for (loads, is_passed_on) in [
        (with(1, 0), false),
        (with(2, 0), true),
        (with(3, 3), false),
        (with(4, 3), false),
        (with(5, 3), true),
        (with(12, 10), false),
        (with(15, 10), true),
    ] {
        let (target, reason) = order(&loads);
        let wanted = if is_passed_on { Reason::PassedOn } else { Reason::PrefixHash };
        assert_eq!((target != first, reason), (is_passed_on, wanted), "{loads:?}");
    }
    // Who got half of it or more may have twice its share, and four in any case.
    for (loads, is_passed_on) in [
        (with(3, 0), false),
        (with(4, 0), true),
        (with(12, 8), false),
        (with(18, 8), false),
        (with(30, 8), true),
    ] {
        let mut env = TestEnv::default();
        chosen(&config, &mut env, conversation("a", 1, 1024));
        env.loads = busy(&loads);
        let (target, reason) = chosen(&config, &mut env, conversation("a", 2, 1024));
        let wanted = if is_passed_on { Reason::PassedOn } else { Reason::Prefix(5) };
        assert_eq!((target != first, reason), (is_passed_on, wanted), "{loads:?}");
    }
    let (second, _) = order(&with(9, 0));
    let mut both = with(9, 0);
    both[second] = 9;
    let (third, _) = order(&both);
    assert!(third != first && third != second);
    // The one without a place is passed over, and where nobody has one the load alone counts.
    let full = |in_flight: u32| TargetLoad { in_flight, is_full: true, ..TargetLoad::default() };
    let mut env = TestEnv::default();
    env.loads.insert(format!("config.targets[{first}]"), full(1));
    assert_eq!(chosen(&config, &mut env, conversation("a", 1, 1024)), (second, Reason::PassedOn));
    // It is remembered there, and stays there when the first is free again.
    env.loads.clear();
    assert_eq!(chosen(&config, &mut env, conversation("a", 2, 1024)), (second, Reason::Prefix(5)));
    let loads = (0..4).map(|index| (format!("config.targets[{index}]"), full(3))).collect();
    let mut env = TestEnv { loads, ..TestEnv::default() };
    assert_eq!(chosen(&config, &mut env, conversation("a", 1, 1024)).0, first);
}

/// Without a word between them: each process starts with an empty table.
#[test]
fn gateways_agree_by_weight_and_one_target_less_moves_only_its_share() {
    let weighted = |number: usize| {
        let mut engine = engine(number);
        engine["weight"] = json!(if number == 3 { 3.0 } else { 1.0 });
        engine
    };
    let all: Vec<Value> = (0..4).map(weighted).collect();
    let config = group(&all);
    let others = [&all[..1], &all[2..]].concat();
    let reversed: Vec<Value> = all.iter().rev().cloned().collect();
    let fewer = group(&others);
    let reversed = group(&reversed);
    let by_hash = |config: &Arc<CompiledConfig>, prefix: &PromptPrefix| {
        chosen(config, &mut TestEnv::default(), prefix.clone()).0
    };
    let mut shares = [0; 4];
    for name in 0..2400 {
        let prefix = conversation(&name.to_string(), 1, 0);
        let target = by_hash(&config, &prefix);
        shares[target] += 1;
        assert_eq!(by_hash(&reversed, &prefix), 3 - target, "the order of the list means nothing");
        let left = [0, 2, 3][by_hash(&fewer, &prefix)];
        assert!(target == 1 || left == target, "{name} moved from {target} to {left}");
    }
    for (share, weight) in shares.into_iter().zip([1, 1, 1, 3]) {
        assert!((400 * weight - 60..400 * weight + 60).contains(&share), "{shares:?}");
    }
}

#[test]
fn open_circuits_and_failed_targets_are_passed_over_and_forgotten() {
    let with_breaker = |number: usize| {
        let mut engine = engine(number);
        engine["cb_config"] = json!({"failure_threshold": 1, "cooldown_interval": 60_000});
        engine
    };
    let targets: Vec<Value> = (0..4).map(with_breaker).collect();
    let config = group_with(&json!({"failover": true}), &targets);
    let mut env = TestEnv::default();
    let (first, _) = chosen(&config, &mut env, conversation("a", 1, 1024));
    env = env.opened(&format!("config.targets[{first}]"), 1);
    let (second, reason) = chosen(&config, &mut env, conversation("a", 2, 1024));
    assert_eq!((second != first, reason), (true, Reason::PrefixHash));
    // Both are known and well, and the second has more of it.
    env.open.clear();
    let mut plan = Plan::new(Arc::clone(&config), Some("m".to_owned()));
    env.prefix = Some(conversation("a", 2, 1024));
    let (target, reason) = plan.first(&mut env).unwrap();
    assert_eq!((number(&target.path), reason), (second, Reason::Prefix(9)));
    let Decision::Attempt { target, .. } = plan.next(&Outcome::from_status(503), &mut env) else { panic!() };
    assert_eq!(number(&target.path), first, "who has most of it is next");
    assert_eq!(chosen(&config, &mut env, conversation("a", 2, 1024)), (first, Reason::Prefix(9)));
    // All of them fail: each is tried once.
    let mut plan = Plan::new(config, Some("m".to_owned()));
    let mut tried = vec![number(&plan.first(&mut env).unwrap().0.path)];
    while let Decision::Attempt { target, .. } = plan.next(&Outcome::Failed, &mut env) {
        tried.push(number(&target.path));
    }
    tried.sort_unstable();
    assert_eq!(tried, [0, 1, 2, 3]);
}

#[test]
fn what_is_no_prompt_is_drawn_by_weight() {
    let mut env = TestEnv::default();
    let (target, reason) = Plan::new(engines(), None).first(&mut env).unwrap();
    assert_eq!((number(&target.path), reason), (2, Reason::Weight));
}
