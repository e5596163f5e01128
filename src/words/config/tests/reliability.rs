//! The keys for reliability: time limits, rescue, hedging, backoff of retries, load balancing and conditions.
//!
//! Not here: the operators of queries (`query`), and what the keys do at run time.

use super::super::balance::{BalanceBy, Price};
use super::super::failure_class::FailureClass;
use super::super::hedge::Hedge;
use super::super::policies::{StreamRescue, TimeLimits};
use super::{Mode, accepted, refused, values};

#[test]
fn every_rule_of_a_single_key() {
    for (member, wanted) in [
        (r#""time_limits":5"#, "time_limits: must be an object"),
        (r#""time_limits":{"first_token":5}"#, "time_limits.first_token: unknown key"),
        (r#""time_limits":{"gap":5}"#, "time_limits.gap: unknown key"),
        (r#""time_limits":{"gap_m":5}"#, "time_limits.gap_m: unknown key; did you mean gap_ms?"),
        (r#""time_limits":{"connect_ms":-1}"#, "time_limits.connect_ms: must be at least 0"),
        (r#""time_limits":{"first_byte_ms":"5"}"#, "time_limits.first_byte_ms: must be an integer"),
        (r#""time_limits":{"total_ms":1.5}"#, "time_limits.total_ms: must be an integer"),
        (r#""time_limits":{"early_heartbeat":1}"#, "time_limits.early_heartbeat: must be a boolean"),
        (r#""stream_rescue":true"#, "stream_rescue: must be a string"),
        (r#""stream_rescue":"on""#, "stream_rescue: must be one of: off, resume, buffer"),
        (r#""price":3"#, "price: must be an object"),
        (r#""price":{"input":1}"#, "price.output: is required"),
        (r#""price":{"input":-1,"output":1}"#, "price.input: must be at least 0"),
        (r#""price":{"input":1,"output":1,"cached":1}"#, "price.cached: unknown key"),
        (r#""retry":{"attempts":1,"backoff_ms":0}"#, "retry.backoff_ms: must be at least 1"),
        (r#""retry":{"attempts":1,"max_backoff_ms":"9"}"#, "retry.max_backoff_ms: must be an integer"),
        (r#""retry":{"attempts":1,"budget_ms":0}"#, "retry.budget_ms: must be at least 1"),
        (r#""retry":{"attempts":1,"budget":9}"#, "retry.budget: unknown key"),
    ] {
        refused(&format!(r#"{{"prompt_id":"p",{member}}}"#), &[wanted]);
    }
}

#[test]
fn every_rule_of_balance() {
    let both = r#""targets":[{"virtual_key":"v"},{"virtual_key":"w"}]"#;
    for (strategy, wanted) in [
        (
            r#"{"mode":"loadbalance","by":"speed"}"#,
            "strategy.by: must be one of: weight, least_latency, price",
        ),
        (r#"{"mode":"loadbalance","by":1}"#, "strategy.by: must be a string"),
        (r#"{"mode":"fallback","by":"weight"}"#, "strategy.by: is for loadbalance mode"),
        (r#"{"mode":"single","sticky":{"enabled":true}}"#, "strategy.sticky: is for loadbalance mode"),
        (r#"{"mode":"loadbalance","sticky":true}"#, "strategy.sticky: must be an object"),
        (r#"{"mode":"loadbalance","sticky":{}}"#, "strategy.sticky.enabled: is required"),
        (
            r#"{"mode":"loadbalance","sticky":{"enabled":true,"ttl":0}}"#,
            "strategy.sticky.ttl: must be at least 1",
        ),
        (r#"{"mode":"loadbalance","sticky":{"enabled":true,"key":"a"}}"#, "strategy.sticky.key: unknown key"),
        (r#"{"mode":"fallback","failover":true}"#, "strategy.failover: is for loadbalance mode"),
        (r#"{"mode":"loadbalance","failover":"yes"}"#, "strategy.failover: must be a boolean"),
        (
            r#"{"mode":"fallback","on_errors":["slow"]}"#,
            "strategy.on_errors[0]: must be one of: context_window,",
        ),
    ] {
        refused(&format!(r#"{{"strategy":{strategy},{both}}}"#), &[wanted]);
    }
    for (field, wanted) in [
        ("1", "must be a string"),
        (r#""user""#, "must begin with metadata., params. or headers."),
        (r#""metadata.""#, "must begin with metadata., params. or headers."),
        (r#""url.pathname""#, "must begin with metadata., params. or headers."),
        (r#""headers.a b""#, "must be a header name"),
        (r#""headers.Authorization""#, "is a credential or a header of the gateway's own"),
    ] {
        let sticky = format!(r#"{{"enabled":true,"hash_fields":["params.user",{field}]}}"#);
        let text = format!(r#"{{"strategy":{{"mode":"loadbalance","sticky":{sticky}}},{both}}}"#);
        refused(&text, &[&format!("strategy.sticky.hash_fields[1]: {wanted}")]);
    }
}

#[test]
fn every_rule_for_the_targets_of_a_strategy() {
    let balance = |strategy: &str, targets: &str| {
        format!(r#"{{"strategy":{{"mode":"loadbalance"{strategy}}},"targets":[{targets}]}}"#)
    };
    let weightless = r#"{"virtual_key":"v","weight":0},{"virtual_key":"w","weight":0.0}"#;
    refused(&balance("", weightless), &["targets: must hold one of a weight above 0"]);
    accepted(&balance("", &format!(r#"{weightless},{{"virtual_key":"x"}}"#)));
    accepted(&balance("", r#"{"virtual_key":"v","weight":0},{"virtual_key":"w","weight":0.1}"#));
    accepted(&balance("", weightless).replace("loadbalance", "fallback"));

    let priced = r#"{"virtual_key":"v","price":{"input":1,"output":2}}"#;
    let group = |price: &str| format!(r#"{{"strategy":{{"mode":"fallback"}},"targets":[{priced}]{price}}}"#);
    let by_price = |targets: &str| balance(r#","by":"price""#, targets);
    accepted(&by_price(&format!("{priced},{}", group(r#","price":{"input":1,"output":2}"#))));
    refused(
        &by_price(&format!(
            r#"{priced},{{"virtual_key":"w"}},{},{{"virtual_key":"x","price":null}}"#,
            group("")
        )),
        &[
            "targets[1].price: is required where strategy.by is price",
            "targets[2].price: is required where strategy.by is price",
            "targets[3].price: is required where strategy.by is price",
        ],
    );
    accepted(&balance(r#","by":"least_latency""#, r#"{"virtual_key":"w"}"#));
}

#[test]
fn every_rule_of_hedging() {
    let hedged = |hedge: &str, targets: &str| {
        format!(r#"{{"strategy":{{"mode":"fallback"}},"hedge":{hedge},"targets":[{targets}]}}"#)
    };
    let two = r#"{"virtual_key":"v"},{"virtual_key":"w"}"#;
    refused(&hedged(r#"{"after_ms":5}"#, r#"{"virtual_key":"v"}"#), &["hedge: needs two targets at least"]);
    refused(r#"{"virtual_key":"v","hedge":{"after_ms":5}}"#, &["hedge: needs two targets at least"]);
    for (hedge, wanted) in [
        ("5", "hedge: must be an object"),
        ("{}", "hedge.after_ms: is required"),
        (r#"{"after_ms":0}"#, "hedge.after_ms: must be at least 1"),
        (r#"{"after_ms":1,"max_extra_ratio":1.1}"#, "hedge.max_extra_ratio: must be at most 1"),
        (r#"{"after_ms":1,"max_extra_ratio":-0.1}"#, "hedge.max_extra_ratio: must be at least 0"),
        (r#"{"after_ms":1,"max":1}"#, "hedge.max: unknown key"),
    ] {
        refused(&hedged(hedge, two), &[wanted]);
    }
    let config = accepted(&hedged(r#"{"after_ms":300}"#, two));
    assert_eq!(config.hedge, Some(Hedge { after_ms: 300, max_extra_ratio: 0.1 }));
}

#[test]
fn a_mistake_in_a_condition_is_found_with_its_path() {
    let conditional = |query: &str| {
        format!(
            r#"{{"strategy":{{"mode":"conditional","default":"a","conditions":[
                 {{"query":{{}},"then":"a"}},{{"query":{query},"then":"a"}}]}},
               "targets":[{{"name":"a","virtual_key":"v"}}]}}"#
        )
    };
    accepted(&conditional(r#"{"metadata.plan":{"$eq":"paid"}}"#));
    refused(
        &conditional(r#"{"metadata.plan":{"$is":"paid"},"body.n":1}"#),
        &[
            "strategy.conditions[1].query.metadata.plan.$is: is no operator",
            "strategy.conditions[1].query.body.n: is no value of a request",
        ],
    );
    // The bytes of patterns are counted over the whole tree.
    let patterns = |count: usize| {
        let parts: Vec<_> = (0..count).map(|n| format!(r#""params.p{n}":{{"$regex":"a"}}"#)).collect();
        conditional(&format!("{{{}}}", parts.join(",")))
    };
    let two = |first: usize, second: usize| {
        format!(
            r#"{{"strategy":{{"mode":"fallback"}},"targets":[{},{}]}}"#,
            patterns(first),
            patterns(second)
        )
    };
    accepted(&two(64, 64));
    refused(&two(64, 65), &["targets[1].strategy.conditions[1].query.params.p64.$regex: is too much"]);
}

#[test]
fn values_are_read_as_written() {
    let config = accepted(
        r#"{"strategy":{"mode":"loadbalance","by":"least_latency",
              "sticky":{"enabled":true,"hash_fields":["metadata.user.id","headers.X-Team"]}},
            "time_limits":{"connect_ms":1,"first_byte_ms":2,"first_token_ms":3,"gap_ms":4,"total_ms":9223372036854775807,
                           "heartbeat_ms":0,"early_heartbeat":true},
            "stream_rescue":"off","price":{"input":0.15,"output":0},
            "retry":{"attempts":1,"backoff_ms":250,"max_backoff_ms":4000,"budget_ms":30000},
            "targets":[{"virtual_key":"v","time_limits":{"gap_ms":0},"stream_rescue":"buffer"},
                       {"strategy":{"mode":"loadbalance","sticky":{"enabled":false,"ttl":9}},
                        "targets":[{"virtual_key":"w"}]}]}"#,
    );
    let strategy = config.strategy.clone().unwrap();
    assert_eq!((strategy.mode, strategy.by), (Mode::LoadBalance, BalanceBy::LeastLatency));
    let sticky = strategy.sticky.unwrap();
    assert_eq!(
        (sticky.hash_fields, sticky.ttl),
        (vec!["metadata.user.id".into(), "headers.X-Team".into()], 300)
    );
    let inner = config.targets[1].strategy.clone().unwrap();
    assert_eq!((inner.by, inner.sticky), (BalanceBy::Weight, None));
    let limits = TimeLimits {
        connect: Some(1),
        first_byte: Some(2),
        first_token: Some(3),
        gap: Some(4),
        total: Some(values::MAX_MS),
        heartbeat: Some(0),
        early_heartbeat: Some(true),
    };
    assert_eq!(config.policies.time_limits, limits);
    let mut inherited = config.targets[0].policies.clone();
    inherited.inherit(&config.policies);
    assert_eq!(inherited.time_limits, TimeLimits { gap: Some(0), ..limits });
    assert_eq!(config.policies.stream_rescue, Some(StreamRescue::Off));
    assert_eq!(config.targets[0].policies.stream_rescue, Some(StreamRescue::Buffer));
    assert_eq!(config.price, Some(Price { input: 0.15, output: 0.0 }));
    let retry = config.policies.retry.unwrap();
    let waits = [retry.backoff, retry.max_backoff, retry.budget].map(|wait| wait.as_millis());
    assert_eq!(waits, [250, 4_000, 30_000]);
}

#[test]
fn every_rule_of_classes_of_failures() {
    let target = |classes: &str| format!(r#"{{"virtual_key":"v","for_errors":{classes}}}"#);
    let config = |strategy: &str, targets: &[String]| {
        format!(r#"{{"strategy":{strategy},"targets":[{}]}}"#, targets.join(","))
    };
    let plain = || r#"{"virtual_key":"w"}"#.to_owned();
    let read = accepted(&config(
        r#"{"mode":"fallback","on_errors":["timeout","auth"],"on_status_codes":[400]}"#,
        &[plain(), target(r#"["context_window","content_policy"]"#)],
    ));
    let strategy = read.strategy.as_ref().unwrap();
    assert_eq!(strategy.on_errors, Some(vec![FailureClass::Timeout, FailureClass::Auth]));
    let classes = Some(vec![FailureClass::ContextWindow, FailureClass::ContentPolicy]);
    assert_eq!(read.targets[1].for_errors, classes);
    for (strategy, targets, wanted) in [
        (
            r#"{"mode":"fallback"}"#,
            vec![plain(), target("[]")],
            "targets[1].for_errors: must hold at least one",
        ),
        (
            r#"{"mode":"fallback"}"#,
            vec![plain(), target(r#"["slow"]"#)],
            "targets[1].for_errors[0]: must be one of",
        ),
        (r#"{"mode":"fallback"}"#, vec![target(r#"["auth"]"#)], "targets: must hold one without for_errors"),
        (
            r#"{"mode":"loadbalance","failover":true}"#,
            vec![plain(), target(r#"["auth"]"#)],
            "targets: must hold none with for_errors",
        ),
        (r#"{"mode":"single"}"#, vec![target(r#"["auth"]"#)], "targets: must hold none with for_errors"),
    ] {
        refused(&config(strategy, &targets), &[wanted]);
    }
}
