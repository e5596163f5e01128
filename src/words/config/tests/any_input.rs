//! Properties of any config text: reading it does not panic, a valid one is accepted, and no secret is
//! repeated.
//!
//! Not here: which problem is found where (`config::tests`).

use super::super::{Config, definitions};
use super::{CHECKS, accepted, read};
use proptest::prelude::{Just, Strategy, any, prop, prop_assert, prop_oneof, proptest};
use serde_json::{Value, json};

const CANARY: &str = "sk-canary-0123456789";

/// A config that uses every key; each secret is the canary.
fn full(canary: &str) -> Value {
    let hook = |deny| {
        json!({"id": "h", "type": "guardrail",
               "checks": [{"id": "c", "parameters": {"credentials": {"apiKey": canary}}}],
               "on_fail": if deny { json!({"deny": true}) } else { json!({"feedback": {"value": 1, "weight": 1}}) }})
    };
    let target = |name: &str| {
        json!({"name": name, "provider": "openai", "api_key": canary, "custom_host": "https://h", "weight": 1,
               "cloud_a_access_key_id": canary, "aws_secret_access_key": canary,
               "cloud_a_session_token": canary, "cloud_b_service_account_json": {"private_key": canary},
               "vertex_project_id": "p", "cloud_b_region": "r", "cloud_c_deployment_type": "managed",
               "deployments": [{"deployment_id": "d", "alias": "a", "api_version": "v", "is_default": true}],
               "override_params": {"model": "m", "tools": [{"authorization": canary}]},
               "on_status_codes": [429], "forward_headers": ["x-a"], "virtual_key": "v",
               "price": {"input": 0.15, "output": 0.6}})
    };
    json!({"strategy": {"mode": "conditional", "default": "b", "on_status_codes": [500],
                        "conditions": [{"query": {"$or": [{"metadata.plan": {"$eq": "paid"}},
                                                          {"params.model": {"$regex": "^a", "$nin": [1, "b"]}}],
                                                  "headers.x-a": {"$gte": "5"}}, "then": "a"}],
                        "cb_config": {"failure_threshold": 1, "cooldown_interval": 30000}},
           "targets": [target("a"), target("b"),
                       {"strategy": {"mode": "loadbalance", "by": "price",
                                     "failover": true, "on_errors": ["timeout", "context_window"],
                                     "sticky": {"enabled": true, "ttl": 60, "hash_fields": ["metadata.user"]}},
                        "targets": [target("c")]}],
           "retry": {"attempts": 1, "on_status_codes": [429], "use_retry_after_headers": true,
                     "backoff_ms": 100, "max_backoff_ms": 1000, "budget_ms": 5000},
           "time_limits": {"connect_ms": 1000, "first_byte_ms": 1, "first_token_ms": 1, "gap_ms": 0, "total_ms": 1,
                           "heartbeat_ms": 1, "early_heartbeat": true},
           "stream_rescue": "resume", "hedge": {"after_ms": 100, "max_extra_ratio": 0.1},
           "cache": {"mode": "simple", "max_age": 60}, "request_timeout": 1000, "strict_std_compliance": false,
           "cb_config": {"failure_threshold": 1, "cooldown_interval": 30000, "failure_status_codes": [500]},
           "before_request_hooks": [hook(true)], "after_request_hooks": [hook(false)],
           "input_guardrails": ["saved", {"deny": true, "contains": {"token": canary}}],
           "output_guardrails": [{"on_fail": {"deny": true}}], "prompt_id": "p"})
}

#[test]
fn debug_shows_no_secret() {
    let config = accepted(&full(CANARY).to_string());
    let shown = format!(
        "{config:?} {:?} {:?} {:?} {:?} {:?}",
        config.targets[0].account,
        config.strategy,
        config.policies.request_hooks,
        config.policies.response_hooks,
        config.policies,
    );
    assert!(!shown.contains("canary"), "{shown}");
}

/// Any JSON.
fn any_json() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    let definitions = definitions(&[]);
    let (_, config) = definitions.iter().find(|(name, _)| *name == "config").unwrap();
    let keys: Vec<String> = config["properties"].as_object().unwrap().keys().cloned().collect();
    scalar.prop_recursive(6, 64, 6, move |inner| {
        let key = prop_oneof![prop::sample::select(keys.clone()), ".{0,6}"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..6).prop_map(|entries| entries.into_iter().collect()),
        ]
    })
}

/// Members that may accompany any of the required key combinations.
const OPTIONAL: [&str; 21] = [
    r#""name":"n""#,
    r#""weight":0"#,
    r#""on_status_codes":[100,599.0]"#,
    r#""retry":{"attempts":5,"on_status_codes":[]}"#,
    r#""cache":{"mode":"semantic"}"#,
    r#""cb_config":{"failure_threshold":1,"cooldown_interval":30000}"#,
    r#""request_timeout":1"#,
    r#""forward_headers":["X-Custom"]"#,
    r#""strict_std_compliance":true"#,
    r#""override_params":{"model":"m"}"#,
    r#""prompt_id":"p""#,
    r#""custom_host":"https://h""#,
    r#""provider_organization":"o""#,
    r#""azure_region":"r""#,
    r#""before_request_hooks":[{"id":"h"}]"#,
    r#""after_request_hooks":[{"id":"h","async":false}]"#,
    r#""input_guardrails":["a",{"x":{}}]"#,
    r#""output_guardrails":null"#,
    r#""time_limits":{"gap_ms":0}"#,
    r#""stream_rescue":"buffer""#,
    r#""price":{"input":0,"output":1.5}"#,
];

/// Replaces the value that `steps` lead to by `with`, or removes it. Each step chooses a child.
fn mutate(value: &mut Value, steps: &[usize], with: Option<&Value>) {
    let Some((step, rest)) = steps.split_first() else {
        if let Some(with) = with {
            *value = with.clone();
        }
        return;
    };
    match value {
        Value::Array(items) if !items.is_empty() => {
            let index = step % items.len();
            match with {
                None if rest.is_empty() => drop(items.remove(index)),
                _ => mutate(&mut items[index], rest, with),
            }
        }
        Value::Object(members) if !members.is_empty() => {
            let name = members.keys().nth(step % members.len()).unwrap().clone();
            match with {
                None if rest.is_empty() => drop(members.remove(&name)),
                _ => mutate(&mut members[&name], rest, with),
            }
        }
        scalar => {
            if let Some(with) = with {
                *scalar = with.clone();
            }
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Config::from_json(&text, &CHECKS);
    }

    #[test]
    fn any_refused_json_has_a_problem(value in any_json()) {
        if let Err(problems) = Config::from_json(value.to_string().as_bytes(), &CHECKS) {
            prop_assert!(!problems.is_empty());
        }
    }

    /// With any subset of the optional keys, in any order.
    #[test]
    fn a_config_of_valid_members_is_accepted(
        members in prop::sample::subsequence(OPTIONAL.to_vec(), 0..=OPTIONAL.len()).prop_shuffle(),
        combination in prop::sample::select(vec![
            r#""virtual_key":"v""#, r#""provider":"openai","api_key":"k""#, r#""provider":"@s""#,
            r#""strategy":{"mode":"loadbalance"},"targets":[{"virtual_key":"v"},{"virtual_key":"w"}]"#,
        ]),
    ) {
        let text = format!("{{{}}}", members.iter().chain([&combination]).copied().collect::<Vec<_>>().join(","));
        let config = read(&text);
        prop_assert!(config.is_ok(), "{}: {:?}", text, config);
    }

    #[test]
    fn a_mutated_config_never_shows_its_secrets(
        steps in prop::collection::vec((prop::collection::vec(any::<usize>(), 1..7), prop::option::of(any_json())), 1..4),
    ) {
        let mut value = full(CANARY);
        for (steps, with) in &steps {
            mutate(&mut value, steps, with.as_ref());
        }
        match Config::from_json(value.to_string().as_bytes(), &CHECKS) {
            Ok(config) => {
                let shown = format!("{config:?}");
                prop_assert!(!shown.contains("canary"));
            }
            Err(problems) => {
                prop_assert!(!problems.is_empty());
                let shown = format!("{problems:?}");
            prop_assert!(!shown.contains("canary"), "{}", shown);
            }
        }
    }

    /// Puts the canary in place of any value: no problem message repeats it.
    #[test]
    fn no_problem_repeats_a_value(steps in prop::collection::vec(any::<usize>(), 1..7)) {
        let mut value = full("k");
        mutate(&mut value, &steps, Some(&Value::from(CANARY)));
        if let Err(problems) = Config::from_json(value.to_string().as_bytes(), &CHECKS) {
            let shown = format!("{problems:?}");
            prop_assert!(!shown.contains("canary"), "{}", shown);
        }
    }
}
