//! Tests of the plan: balanced groups that choose the member with the least to do.

use super::{TestEnv, compiled};
use crate::route::compiled::CompiledConfig;
use crate::route::env::TargetLoad;
use crate::route::outcome::Outcome;
use crate::route::plan::{Decision, Plan, Reason};
use knowledge::provider::engine_metrics::EngineReading;
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;

/// Three members of these weights.
fn group(weights: [f64; 3]) -> Arc<CompiledConfig> {
    let target = |weight: &f64| json!({"provider": "openai", "api_key": "k", "weight": weight});
    let targets: Vec<_> = weights.iter().map(target).collect();
    let strategy = json!({"mode": "loadbalance", "by": "least_busy", "failover": true});
    compiled(&json!({"strategy": strategy, "targets": targets}).to_string())
}

fn loads(of: [TargetLoad; 3]) -> HashMap<String, TargetLoad> {
    of.into_iter().enumerate().map(|(index, load)| (format!("config.targets[{index}]"), load)).collect()
}

fn busy(in_flight: [u32; 3]) -> [TargetLoad; 3] {
    in_flight.map(|in_flight| TargetLoad { in_flight, ..TargetLoad::default() })
}

/// The order in which the members would be tried with this random number.
fn order(config: &Arc<CompiledConfig>, of: [TargetLoad; 3], random: f64) -> Vec<String> {
    let mut env = TestEnv { loads: loads(of), randoms: vec![random; 20], ..TestEnv::default() };
    let mut plan = Plan::new(Arc::clone(config), Some("sql".to_owned()));
    let (target, reason) = plan.first(&mut env).unwrap();
    assert_eq!(reason, Reason::LeastBusy);
    let mut order = vec![target.path.clone()];
    while let Decision::Attempt { target, .. } = plan.next(&Outcome::Busy, &mut env) {
        order.push(target.path.clone());
    }
    let number = |path: String| path.trim_start_matches("config.targets[").trim_end_matches(']').to_owned();
    order.into_iter().map(number).collect()
}

#[test]
fn the_member_with_the_fewest_attempts_for_its_weight_is_taken() {
    let equal = group([1.0, 1.0, 1.0]);
    assert_eq!(order(&equal, busy([3, 1, 2]), 0.5), ["1", "2", "0"]);
    // Equal ones have equal chances.
    assert_eq!(order(&equal, busy([1, 1, 5]), 0.1), ["0", "1", "2"]);
    assert_eq!(order(&equal, busy([1, 1, 5]), 0.9), ["1", "0", "2"]);
    // Four times the weight: four attempts are as many as one elsewhere. Without weight none is sent there.
    let weighted = group([4.0, 1.0, 0.0]);
    assert_eq!(order(&weighted, busy([6, 1, 0]), 0.5), ["0", "1"]);
    assert_eq!(order(&weighted, busy([8, 1, 0]), 0.5), ["1", "0"]);
}

#[test]
fn a_free_place_comes_before_an_adapter_and_an_adapter_before_the_load() {
    let equal = group([1.0, 1.0, 1.0]);
    let of = |in_flight, is_full, has_adapter| TargetLoad { in_flight, is_full, has_adapter };
    assert_eq!(
        order(&equal, [of(9, false, false), of(1, true, true), of(20, false, true)], 0.5),
        ["2", "0", "1"]
    );
    assert_eq!(
        order(&equal, [of(9, true, false), of(7, true, false), of(8, true, true)], 0.5),
        ["2", "1", "0"]
    );
}

#[test]
fn the_larger_of_what_a_model_server_reports_and_the_gateways_own_load_counts() {
    let reading = |running, waiting, cache_use| EngineReading {
        running,
        waiting,
        cache_use,
        adapters: vec!["sql".into()],
    };
    let own = TargetLoad { in_flight: 5, ..TargetLoad::default() };
    for (engine, model, wanted) in [
        (None, Some("sql"), own),
        (Some(reading(3, 0, None)), Some("other"), own),
        (Some(reading(3, 0, Some(0.5))), Some("sql"), TargetLoad { has_adapter: true, ..own }),
        (Some(reading(8, 0, None)), None, TargetLoad { in_flight: 8, ..own }),
        (Some(reading(8, 1, None)), None, TargetLoad { in_flight: 9, is_full: true, ..own }),
        (Some(reading(1, 0, Some(0.96))), None, TargetLoad { is_full: true, ..own }),
    ] {
        assert_eq!(own.with_engine(engine.as_ref(), model), wanted, "{engine:?} {model:?}");
    }
}
