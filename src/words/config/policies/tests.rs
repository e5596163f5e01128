//! Inheritance of every key, as tables. Not how a value is checked (`config::tests`).

use super::{DescribeContext, Policies};
use crate::config::headers::GatewayHeaders;
use crate::config::members;
use crate::config::node::Node;
use crate::config::read::{Cursor, Problems};
use http::{HeaderMap, HeaderValue};
use std::time::Duration;

/// One level of a config; it must have no problems.
fn level(json: &str) -> Policies {
    let node = Node::from_json(json.as_bytes()).unwrap();
    let problems = Problems::default();
    let policies = members::read(&Cursor::root(&node, &problems), |table| {
        let policies = Policies::members(table);
        // What else a level has.
        table.rest();
        Some(policies)
    });
    assert!(problems.is_empty(), "{:?}", problems.into_vec());
    policies.unwrap()
}

fn inherited(own: &str, above: &str) -> Policies {
    let mut policies = level(own);
    policies.inherit(&level(above));
    policies
}

/// Two values of each key: its names in a config, then one and another value.
const VALUES: &[(&str, &str, &str)] = &[
    ("retry", r#"{"attempts":1,"on_status_codes":[500]}"#, r#"{"attempts":2}"#),
    (
        "cb_config",
        r#"{"failure_threshold":1,"cooldown_interval":30000}"#,
        r#"{"failure_threshold":2,"cooldown_interval":40000}"#,
    ),
    ("cache", r#"{"mode":"simple","max_age":60}"#, r#"{"mode":"semantic"}"#),
    ("prompt_cache", r#""auto""#, r#"{"mode":"auto","ttl":"auto"}"#),
    ("mcp_tools", r#""gateway""#, r#""provider""#),
    ("request_timeout", "1", "2"),
    ("stream_rescue", r#""off""#, r#""buffer""#),
    ("forward_headers", r#"["x-a"]"#, r#"["x-b"]"#),
    ("strict_std_compliance", "true", "false"),
    ("strict_open_ai_compliance", "true", "false"),
    ("custom_host", r#""https://a""#, r#""https://b""#),
    ("before_request_hooks", r#"[{"id":"a"}]"#, "[]"),
    ("after_request_hooks", r#"[{"id":"a"}]"#, "[]"),
    ("input_guardrails", r#"["a"]"#, "[]"),
    ("output_guardrails", r#"["a"]"#, "[]"),
    ("input_mutators", r#"["a"]"#, "[]"),
    ("output_mutators", r#"["a"]"#, "[]"),
    ("default_params", r#"{"a":1}"#, r#"{"a":2}"#),
    ("override_params", r#"{"a":1}"#, r#"{"a":2}"#),
    ("drop_params", r#"["a.b"]"#, r#"["a[0]"]"#),
    ("concurrency", r#"{"max":1}"#, r#"{"max":2,"queue":{"max":0,"timeout_ms":5}}"#),
    // Of this key the lowest counts.
    ("priority", r#""normal""#, r#""low""#),
    ("time_limits", r#"{"gap_ms":1}"#, r#"{"gap_ms":2}"#),
];

#[test]
fn every_key_is_inherited_and_the_nearest_level_wins() {
    for (name, one, other) in VALUES {
        let one = format!(r#"{{"{name}":{one}}}"#);
        let other = format!(r#"{{"{name}":{other}}}"#);
        assert_ne!(level(&one), Policies::default(), "{name} is read");
        assert_ne!(level(&one), level(&other), "{name} is read");
        assert_eq!(inherited("{}", &one), level(&one), "{name} comes from above");
        assert_eq!(inherited(&one, "{}"), level(&one), "{name} stays");
        assert_eq!(inherited(&other, &one), level(&other), "{name} of the nearest level");
    }
    let schema = members::schema("", |table| Some(Policies::members(table)));
    for name in schema["properties"].as_object().unwrap().keys() {
        assert!(VALUES.iter().any(|(tested, ..)| tested == name), "{name} is in no table");
    }
}

#[test]
fn some_keys_are_merged() {
    let merged = inherited(r#"{"override_params":{"b":2,"c":3}}"#, r#"{"override_params":{"a":1,"b":1}}"#);
    assert_eq!(merged, level(r#"{"override_params":{"a":1,"b":2,"c":3}}"#));
    let merged = inherited(r#"{"default_params":{"b":2}}"#, r#"{"default_params":{"a":1,"b":1}}"#);
    assert_eq!(merged, level(r#"{"default_params":{"a":1,"b":2}}"#));
    let replaced = inherited(r#"{"drop_params":["a"]}"#, r#"{"drop_params":["b"]}"#);
    assert_eq!(replaced, level(r#"{"drop_params":["a"]}"#));
    let merged = inherited(r#"{"time_limits":{"gap_ms":1}}"#, r#"{"time_limits":{"gap_ms":2,"total_ms":3}}"#);
    assert_eq!(merged, level(r#"{"time_limits":{"gap_ms":1,"total_ms":3}}"#));
    // Guardrails are a short form of hooks: either replaces both.
    let replaced = inherited(r#"{"input_guardrails":["a"]}"#, r#"{"before_request_hooks":[{"id":"h"}]}"#);
    assert_eq!(replaced, level(r#"{"input_guardrails":["a"]}"#));
}

#[test]
fn a_breaker_in_the_strategy_takes_precedence() {
    let breaker = |threshold| format!(r#"{{"failure_threshold":{threshold},"cooldown_interval":30000}}"#);
    let both = format!(r#"{{"strategy":{{"cb_config":{}}},"cb_config":{}}}"#, breaker(1), breaker(2));
    assert_eq!(level(&both), level(&format!(r#"{{"cb_config":{}}}"#, breaker(1))));
}

#[test]
fn headers_are_the_nearest_level() {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("x-gateway-request-timeout", "7"),
        ("x-gateway-forward-headers", "x-h"),
        ("x-gateway-strict-std-compliance", "false"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let headers = GatewayHeaders::read(&headers, &["x-gateway-"]).unwrap();
    let mut policies = headers.policies.unwrap().policies().clone();
    policies.inherit(&level(
        r#"{"request_timeout":1,"forward_headers":["x-a"],"strict_std_compliance":true,"retry":{"attempts":1}}"#,
    ));
    let wanted = r#"{"request_timeout":7,"forward_headers":["x-h"],"strict_std_compliance":false,"retry":{"attempts":1}}"#;
    assert_eq!(policies, level(wanted));
}

#[test]
fn descriptions_fill_in_defaults_and_show_no_secret() {
    let context = DescribeContext { connect_timeout: Duration::from_secs(5), circuit: "closed" };
    let described = |json: &str| -> serde_json::Map<_, _> {
        let values = level(json).describe(&context);
        values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    };
    let defaults = described("{}");
    assert_eq!(defaults["retry"]["attempts"], 0);
    assert_eq!(defaults["time_limits"]["another_left"]["gap_ms"], 15_000);
    assert_eq!(defaults["time_limits"]["none_left"]["gap_ms"], 600_000);
    assert_eq!(defaults["time_limits"]["none_left"]["connect_ms"], 5_000);
    assert_eq!((&defaults["stream_rescue"], &defaults["breaker"]), (&"resume".into(), &().into()));
    let own = described(
        r#"{"override_params":{"a":"canary"},"default_params":{"b":"canary"},"custom_host":"https://canary","request_timeout":7,
            "cb_config":{"failure_threshold":2,"cooldown_interval":30000},"stream_rescue":"off"}"#,
    );
    assert_eq!(own["time_limits"]["none_left"]["first_byte_ms"], 7);
    assert_eq!(
        (&own["breaker"]["state"], &own["breaker"]["failure_threshold"]),
        (&"closed".into(), &2.into())
    );
    assert_eq!(own["stream_rescue"], "off");
    assert!(!format!("{own:?}").contains("canary"), "{own:?}");
}
