//! The rules of the config object, one row each, with the exact path of the problem.
//!
//! Not here: properties of any input (`any_input`); the keys for reliability (`reliability`); account fields,
//! queries and reading of trees, which are tested next to their code.

mod any_input;
mod reliability;

use super::*;
use hooks::Guardrail;
use http::HeaderName;
use level::{MAX_DEPTH, MAX_TARGETS};
use policies::{Cache, CacheMode};
use std::time::Duration;
use strategy::Mode;

fn provider(id: &str) -> Result<(), String> {
    let providers = ["openai", "anthropic", "ollama", "bedrock", "vertex-ai", "azure-ai"];
    if providers.contains(&id) { Ok(()) } else { Err("must be one of the providers".to_owned()) }
}

fn custom_host(host: &str) -> Result<(), String> {
    if host.starts_with("https://") { Ok(()) } else { Err("Invalid custom host".to_owned()) }
}

const CHECKS: Checks<'static> =
    Checks { provider: &provider, account: &|_, _| Ok(()), custom_host: &custom_host, ..Checks::NONE };

fn read(text: &str) -> Result<Config, Vec<String>> {
    Config::from_json(text.as_bytes(), &CHECKS)
        .map_err(|problems| problems.iter().map(Problem::to_string).collect())
}

fn accepted(text: &str) -> Config {
    read(text).unwrap_or_else(|problems| panic!("{text}: {problems:?}"))
}

/// Asserts that `text` has exactly these problems, given by path and beginning, in order.
#[track_caller]
fn refused(text: &str, wanted: &[&str]) {
    let found = read(text).expect_err(text);
    assert_eq!(found.len(), wanted.len(), "{text}: {found:?}");
    for (found, wanted) in found.iter().zip(wanted) {
        assert!(found.starts_with(wanted), "{text}: {found:?}, not {wanted:?}");
    }
}

const LIST: &str = "Invalid configuration. It must have at least one of: provider + api_key, ";

#[test]
fn each_combination_of_the_list_is_enough_by_itself() {
    for text in [
        r#"{"provider":"openai","api_key":"k"}"#,
        r#"{"provider":"ollama","custom_host":"https://h"}"#,
        r#"{"virtual_key":"v"}"#,
        r#"{"strategy":{"mode":"single"},"targets":[{"virtual_key":"v"}]}"#,
        r#"{"cache":{"mode":"simple"}}"#,
        r#"{"retry":{"attempts":0}}"#,
        r#"{"prompt_id":"p"}"#,
        r#"{"forward_headers":[]}"#,
        r#"{"request_timeout":1}"#,
        r#"{"provider":"bedrock","cloud_a_access_key_id":"a","cloud_a_secret_access_key":"s"}"#,
        r#"{"provider":"bedrock","aws_access_key_id":"a","aws_secret_access_key":"s"}"#,
        r#"{"provider":"vertex-ai","cloud_b_region":"r","cloud_b_service_account_json":{}}"#,
        r#"{"provider":"vertex-ai","vertex_region":"r","vertex_project_id":"p"}"#,
        r#"{"provider":"azure-ai","cloud_c_deployment_name":"n","cloud_c_deployment_type":"serverless",
            "cloud_c_region":"r","cloud_c_api_version":"v"}"#,
        r#"{"provider":"azure-ai","azure_endpoint_name":"n","azure_deployment_type":"managed"}"#,
        r#"{"after_request_hooks":[]}"#,
        r#"{"before_request_hooks":[]}"#,
        r#"{"input_guardrails":[]}"#,
        r#"{"output_guardrails":[]}"#,
        r#"{"input_mutators":[]}"#,
        r#"{"output_mutators":[]}"#,
        r#"{"provider":"@stored"}"#,
    ] {
        accepted(text);
        // The same is true of a target, independent of its parent's keys.
        accepted(&format!(
            r#"{{"strategy":{{"mode":"fallback"}},"retry":{{"attempts":1}},"targets":[{text}]}}"#
        ));
    }
}

#[test]
fn less_than_a_combination_is_refused_at_its_level() {
    for text in [
        r#"{}"#,
        r#"{"provider":"openai"}"#,
        r#"{"provider":"openai","api_key":""}"#,
        r#"{"api_key":"k"}"#,
        r#"{"custom_host":"https://h"}"#,
        r#"{"targets":[{"virtual_key":"v"}]}"#,
        r#"{"strategy":{"mode":"single"}}"#,
        r#"{"provider":"bedrock","cloud_a_access_key_id":"a"}"#,
        r#"{"provider":"vertex-ai","cloud_b_project_id":"p"}"#,
        r#"{"provider":"vertex-ai","cloud_b_region":"r"}"#,
        r#"{"provider":"azure-ai","cloud_c_endpoint_name":"n"}"#,
        r#"{"provider":"azure-ai","cloud_c_deployment_name":"n","cloud_c_deployment_type":"serverless",
            "cloud_c_region":"r"}"#,
        r#"{"cloud_a_access_key_id":"a","cloud_a_secret_access_key":"s"}"#,
        r#"{"weight":1,"name":"n","override_params":{"model":"m"},"on_status_codes":[429]}"#,
        r#"{"cb_config":{"failure_threshold":1,"cooldown_interval":30000}}"#,
        r#"{"retry":null}"#,
    ] {
        refused(text, &[LIST]);
        let nested =
            format!(r#"{{"strategy":{{"mode":"fallback"}},"targets":[{{"virtual_key":"v"}},{text}]}}"#);
        refused(&nested, &[&format!("targets[1]: {LIST}")]);
    }
}

#[test]
fn a_plain_provider_needs_a_key_in_every_combination() {
    let wanted = ["api_key: is required with provider"];
    refused(r#"{"provider":"openai","retry":{"attempts":1}}"#, &wanted);
    refused(r#"{"provider":"openai","cache":{"mode":"simple"}}"#, &wanted);
    refused(
        r#"{"strategy":{"mode":"single"},"targets":[{"provider":"openai","request_timeout":5}]}"#,
        &["targets[0].api_key: is required"],
    );
    accepted(r#"{"provider":"openai","virtual_key":"v"}"#);
    accepted(r#"{"provider":"@slug","retry":{"attempts":1}}"#);
    accepted(r#"{"provider":"bedrock","aws_access_key_id":"a","aws_secret_access_key":"s","prompt_id":"p"}"#);
    // A provider given together with targets is never called.
    accepted(r#"{"provider":"openai","strategy":{"mode":"single"},"targets":[{"virtual_key":"v"}]}"#);
}

/// Rows of one key each, written together with `"prompt_id":"p"`, which is a complete combination.
const SINGLE_KEYS: &[(&str, &str)] = &[
    (r#""nope":1"#, "nope: unknown key"),
    (r#""wieght":1"#, "wieght: unknown key; did you mean weight?"),
    (r#""model":"m""#, "model: unknown key; a target sets it with override_params: {model: NAME}"),
    (r#""cloud_c_model_nme":"m""#, "cloud_c_model_nme: unknown key; did you mean cloud_c_model_name?"),
    (r#""name":1"#, "name: must be a string, not a number"),
    (r#""prompt_id":"q""#, "prompt_id: stands twice"),
    (r#""provider":"nope","api_key":"k""#, "provider: must be one of the providers"),
    (r#""provider":["openai"],"api_key":"k""#, "provider: must be a string"),
    (r#""provider":"@""#, "provider: must name a stored provider"),
    (r#""virtual_key":1"#, "virtual_key: must be a string"),
    (r#""api_key":{"a":1}"#, "api_key: must be a string, not an object"),
    (r#""custom_host":"http://h""#, "custom_host: Invalid custom host"),
    (r#""weight":-0.1"#, "weight: must be at least 0"),
    (r#""weight":"1""#, "weight: must be a number"),
    (r#""request_timeout":0"#, "request_timeout: must be at least 1"),
    (r#""request_timeout":1.5"#, "request_timeout: must be an integer"),
    (r#""request_timeout":"5""#, "request_timeout: must be an integer"),
    (r#""on_status_codes":429"#, "on_status_codes: must be an array"),
    (r#""on_status_codes":[429,99]"#, "on_status_codes[1]: must be at least 100"),
    (r#""on_status_codes":[600]"#, "on_status_codes[0]: must be at most 599"),
    (r#""on_status_codes":["429"]"#, "on_status_codes[0]: must be an integer"),
    (r#""strict_std_compliance":"false""#, "strict_std_compliance: must be a boolean"),
    (
        r#""strict_open_ai_compliance":true,"strict_std_compliance":true"#,
        "strict_std_compliance: means the same as strict_open_ai_compliance",
    ),
    (r#""override_params":[]"#, "override_params: must be an object"),
    (r#""override_params":{"n":1,"n":2}"#, "override_params.n: stands twice"),
    (r#""forward_headers":"x-a""#, "forward_headers: must be an array"),
    (r#""forward_headers":["x-a",1]"#, "forward_headers[1]: must be a string"),
    (r#""forward_headers":["x a"]"#, "forward_headers[0]: must be a header name"),
    (r#""forward_headers":["X-Gateway-Forward-Headers"]"#, "forward_headers[0]: must not be the header"),
    (r#""targets":{}"#, "targets: must be an array"),
    (r#""targets":["a"]"#, "targets[0]: must be an object"),
    (r#""cache":"simplest""#, "cache: must be one of: simple, semantic"),
    (r#""cache":1"#, "cache: must be an object"),
    (r#""cache":{"mode":"simple","replay":"slow"}"#, "cache.replay: must be one of: at_once, paced"),
    (r#""cache":{"mode":"semantic","threshold":1.5}"#, "cache.threshold: must be a number from 0 to 1"),
    (r#""cache":{}"#, "cache.mode: is required"),
    (r#""cache":{"mode":"fancy"}"#, "cache.mode: must be one of: simple, semantic"),
    (r#""cache":{"mode":"simple","max_age":"60"}"#, "cache.max_age: must be an integer"),
    (r#""cache":{"mode":"simple","max_age":0.5}"#, "cache.max_age: must be an integer"),
    (r#""cache":{"mode":"simple","ttl":1}"#, "cache.ttl: unknown key"),
    (r#""retry":{}"#, "retry.attempts: is required"),
    (r#""retry":{"attempts":-1}"#, "retry.attempts: must be at least 0"),
    (r#""retry":{"attempts":"3"}"#, "retry.attempts: must be an integer"),
    (r#""retry":{"attempts":1,"on_status_codes":[1]}"#, "retry.on_status_codes[0]: must be at least 100"),
    (
        r#""retry":{"attempts":1,"use_retry_after_headers":1}"#,
        "retry.use_retry_after_headers: must be a boolean",
    ),
    (r#""retry":{"attempts":1,"max":1}"#, "retry.max: unknown key"),
    (
        r#""cb_config":{"cooldown_interval":30000,"failure_threshold":0.5}"#,
        "cb_config.failure_threshold: must be at least 1",
    ),
    (r#""cb_config":{"cooldown_interval":30000}"#, "cb_config.failure_threshold: is required"),
    (r#""cb_config":{"failure_threshold":1}"#, "cb_config.cooldown_interval: is required"),
    (
        r#""cb_config":{"failure_threshold":1,"cooldown_interval":29999}"#,
        "cb_config.cooldown_interval: must be at least 30000",
    ),
    (
        r#""cb_config":{"failure_threshold":1,"cooldown_interval":30000,"failure_status_codes":[5]}"#,
        "cb_config.failure_status_codes[0]: must be at least 100",
    ),
    (r#""deployments":[{"alias":"a","api_version":"v"}]"#, "deployments[0].deployment_id: is required"),
    (r#""deployments":[{"deployment_id":"d","api_version":"v"}]"#, "deployments[0].alias: is required"),
    (r#""deployments":[{"deployment_id":"d","alias":"a"}]"#, "deployments[0].api_version: is required"),
    (
        r#""deployments":[{"deployment_id":"d","alias":"a","api_version":"v","is_default":1}]"#,
        "deployments[0].is_default: must be a boolean",
    ),
    (
        r#""deployments":[{"deployment_id":"d","alias":"a","api_version":"v","x":1}]"#,
        "deployments[0].x: unknown key",
    ),
    (r#""cloud_c_deployment_type":"x""#, "cloud_c_deployment_type: must be one of: serverless, managed"),
    (r#""cloud_c_deployment_type":"""#, "cloud_c_deployment_type: must be one of: serverless, managed"),
    (r#""azure_deployment_type":"x""#, "azure_deployment_type: must be one of: serverless, managed"),
    (r#""cloud_b_service_account_json":"{}""#, "cloud_b_service_account_json: must be an object"),
    (r#""options":[]"#, "options: This version of config is not supported in this route."),
];

#[test]
fn every_rule_of_a_single_key() {
    for (member, wanted) in SINGLE_KEYS {
        refused(&format!(r#"{{"prompt_id":"p",{member}}}"#), &[wanted]);
    }
}

#[test]
fn every_rule_of_a_strategy() {
    let targets = r#""targets":[{"name":"a","virtual_key":"v"},{"virtual_key":"w"}]"#;
    for (strategy, wanted) in [
        (r#""fallback""#, "strategy: must be an object"),
        ("{}", "strategy.mode: is required"),
        (r#"{"mode":"race"}"#, "strategy.mode: must be one of: single, loadbalance, fallback, conditional"),
        (r#"{"mode":"fallback","on_status_codes":[0]}"#, "strategy.on_status_codes[0]: must be at least 100"),
        (
            r#"{"mode":"fallback","cb_config":{"failure_threshold":1}}"#,
            "strategy.cb_config.cooldown_interval",
        ),
        (r#"{"mode":"loadbalance","stick":{}}"#, "strategy.stick: unknown key; did you mean sticky?"),
        (r#"{"mode":"conditional","default":"a"}"#, "strategy.conditions: is required in conditional mode"),
        (
            r#"{"mode":"conditional","default":"a","conditions":[]}"#,
            "strategy.conditions: must hold at least",
        ),
        (r#"{"mode":"conditional","default":"a","conditions":{}}"#, "strategy.conditions: must be an array"),
        (
            r#"{"mode":"conditional","conditions":[{"query":{},"then":"a"}]}"#,
            "strategy.default: is required in conditional mode",
        ),
        (
            r#"{"mode":"conditional","default":"z","conditions":[{"query":{},"then":"a"}]}"#,
            "strategy.default: must be the name of a target",
        ),
        (
            r#"{"mode":"conditional","default":"a","conditions":[{"query":{},"then":"z"}]}"#,
            "strategy.conditions[0].then: must be the name of a target",
        ),
        (
            r#"{"mode":"conditional","default":"a","conditions":[{"then":"a"}]}"#,
            "strategy.conditions[0].query: is required",
        ),
        (
            r#"{"mode":"conditional","default":"a","conditions":[{"query":"x","then":"a"}]}"#,
            "strategy.conditions[0].query: must be an object",
        ),
        (
            r#"{"mode":"conditional","default":"a","conditions":[{"query":{}}]}"#,
            "strategy.conditions[0].then: is required",
        ),
        (
            r#"{"mode":"conditional","default":"a","conditions":[{"query":{},"then":"a","else":"b"}]}"#,
            "strategy.conditions[0].else: unknown key",
        ),
    ] {
        refused(&format!(r#"{{"strategy":{strategy},{targets}}}"#), &[wanted]);
    }
    for mode in ["loadbalance", "fallback"] {
        let wanted = format!("targets: is required in {mode} mode");
        refused(&format!(r#"{{"strategy":{{"mode":"{mode}"}},"prompt_id":"p"}}"#), &[&wanted]);
        let text = format!(r#"{{"strategy":{{"mode":"{mode}"}},"targets":[]}}"#);
        refused(&text, &["targets: must hold at least one target"]);
    }
    accepted(r#"{"strategy":{"mode":"single"},"provider":"openai","api_key":"k"}"#);
}

#[test]
fn every_rule_of_hooks_and_guardrails() {
    for (member, wanted) in [
        (r#""before_request_hooks":{}"#, "before_request_hooks: must be an array"),
        (r#""before_request_hooks":["a"]"#, "before_request_hooks[0]: must be an object"),
        (r#""before_request_hooks":[{}]"#, "before_request_hooks[0].id: is required"),
        (r#""before_request_hooks":[{"id":"h","type":"x"}]"#, "before_request_hooks[0].type: must be one of"),
        (
            r#""before_request_hooks":[{"id":"h","async":true}]"#,
            "before_request_hooks[0].async: is for after",
        ),
        (
            r#""after_request_hooks":[{"id":"h","async":1}]"#,
            "after_request_hooks[0].async: must be a boolean",
        ),
        (r#""after_request_hooks":[{"id":"h","x":1}]"#, "after_request_hooks[0].x: unknown key"),
        (
            r#""after_request_hooks":[{"id":"h","on_fail":{"deny":true}}]"#,
            "after_request_hooks[0].on_fail.deny: is for before-request hooks",
        ),
        (
            r#""before_request_hooks":[{"id":"h","on_fail":{"feedback":{"value":"1"}}}]"#,
            "before_request_hooks[0].on_fail.feedback.value: must be a number",
        ),
        (
            r#""before_request_hooks":[{"id":"h","on_success":{"feedback":{"metadata":1}}}]"#,
            "before_request_hooks[0].on_success.feedback.metadata: must be an object",
        ),
        (
            r#""before_request_hooks":[{"id":"h","on_success":{"feedback":{"x":1}}}]"#,
            "before_request_hooks[0].on_success.feedback.x: unknown key",
        ),
        (
            r#""before_request_hooks":[{"id":"h","checks":[{"parameters":{}}]}]"#,
            "before_request_hooks[0].checks[0].id: is required",
        ),
        (
            r#""before_request_hooks":[{"id":"h","checks":[{"id":"c"}]}]"#,
            "before_request_hooks[0].checks[0].parameters: is required",
        ),
        (
            r#""before_request_hooks":[{"id":"h","checks":[{"id":"c","parameters":[]}]}]"#,
            "before_request_hooks[0].checks[0].parameters: must be an object",
        ),
        (r#""input_guardrails":[1]"#, "input_guardrails[0]: must be a string or an object"),
        (r#""input_guardrails":[""]"#, "input_guardrails[0]: must not be empty"),
        (r#""input_guardrails":[{"contains":true}]"#, "input_guardrails[0].contains: must be an object"),
        (r#""input_guardrails":[{"a":{},"a":{}}]"#, "input_guardrails[0].a: stands twice"),
        (r#""input_guardrails":[{"deny":"yes"}]"#, "input_guardrails[0].deny: must be a boolean"),
        (r#""input_guardrails":[{"on_fail":{"deny":true}}]"#, "input_guardrails[0].on_fail.deny: is for"),
        (r#""output_guardrails":[{"on_fail":{"x":true}}]"#, "output_guardrails[0].on_fail.x: unknown key"),
    ] {
        refused(&format!(r#"{{"prompt_id":"p",{member}}}"#), &[wanted]);
    }
}

#[test]
fn hooks_and_guardrails_are_read_as_written() {
    let config = accepted(
        r#"{"before_request_hooks":[{"id":"h","type":"mutator","deny":true,"sequential":true,
              "checks":[{"id":"default.contains","parameters":{"words":["a"]}},
                        {"id":"x","parameters":{},"is_enabled":false}],
              "on_fail":{"deny":true,"feedback":{"value":-1,"weight":0.5,"metadata":{"k":[1]}}}}],
            "after_request_hooks":[{"id":"h","async":true}],
            "input_guardrails":["saved",{"id":"g","deny":true,"async":true,"contains":{"words":["b"]}}],
            "output_guardrails":[{"on_success":{"deny":false}}]}"#,
    );
    let hook = &config.policies.request_hooks.hooks.unwrap()[0];
    assert_eq!((hook.kind, hook.deny, hook.sequential), (hooks::HookKind::Mutator, Some(true), true));
    assert_eq!(hook.checks[0].parameters.to_json(), r#"{"words":["a"]}"#);
    assert_eq!((hook.checks[0].enabled, hook.checks[1].enabled), (true, false));
    let action = hook.on_fail.clone().unwrap();
    let feedback = action.feedback.unwrap();
    assert_eq!((action.deny, feedback.value, feedback.weight), (Some(true), Some(-1.0), Some(0.5)));
    assert_eq!(feedback.metadata.as_deref(), Some(r#"{"k":[1]}"#));
    assert!(config.policies.response_hooks.hooks.unwrap()[0].asynchronous);
    let guardrails = config.policies.request_hooks.guardrails.unwrap();
    assert_eq!(guardrails[0], Guardrail::Saved("saved".to_owned()));
    let Guardrail::Inline(inline) = &guardrails[1] else { panic!("{guardrails:?}") };
    assert_eq!((inline.id.as_deref(), inline.checks[0].id.as_str()), (Some("g"), "contains"));
    assert!(inline.asynchronous && inline.deny == Some(true));
}

#[test]
fn mutators_are_guardrails_of_their_own_type() {
    let config = accepted(
        r#"{"input_mutators":["saved",{"guardrail_version_id":"v","addPrefix":{"prefix":"a"}},{"type":"guardrail","contains":{}}],
            "output_mutators":[{"id":"m","regexReplace":{"rule":"a"}}]}"#,
    );
    let read = |lists: policies::HookLists| {
        let item = |item: &Guardrail| match item {
            Guardrail::Saved(slug) => slug.clone(),
            Guardrail::Inline(hook) => format!("{} {}", hook.kind.as_str(), hook.checks[0].id),
        };
        lists.mutators.unwrap().iter().map(item).collect::<Vec<_>>()
    };
    let request = ["saved", "mutator addPrefix", "guardrail contains"];
    assert_eq!(read(config.policies.request_hooks), request);
    assert_eq!(read(config.policies.response_hooks), ["mutator regexReplace"]);
    // As Portkey exports a hook.
    accepted(r#"{"before_request_hooks":[{"id":"h","guardrail_version_id":"v","async":false,"checks":[]}]}"#);
}

#[test]
fn values_are_read_as_written() {
    let config = accepted(
        r#"{"strategy":{"mode":"conditional","default":"b","on_status_codes":[],
              "cb_config":{"failure_threshold":2.5,"cooldown_interval":30000.5},
              "conditions":[{"query":{"params.z":1,"$or":[]},"then":"a"}]},
            "targets":[{"name":"a","provider":"openai","api_key":"k","weight":0.5,
                        "override_params":{"z":1.0,"model":"m","seed":9223372036854775807}},
                       {"name":"b","virtual_key":"v","forward_headers":["X-A"]}],
            "retry":{"attempts":2.0,"on_status_codes":[],"use_retry_after_header":true},
            "cache":{"mode":"semantic","max_age":60},"request_timeout":9223372036854775807,
            "on_status_codes":[429,503],"strict_open_ai_compliance":false}"#,
    );
    let strategy = config.strategy.clone().unwrap();
    assert_eq!((strategy.mode, strategy.on_status_codes), (Mode::Conditional, Some(vec![])));
    assert_eq!((strategy.conditions.len(), strategy.conditions[0].then.as_str()), (1, "a"));
    let breaker = config.policies.breaker.clone().unwrap();
    assert_eq!((breaker.threshold, breaker.cooldown), (3, Duration::from_millis(30_001)));
    let params: Vec<_> =
        config.targets[0].policies.override_params.iter().map(|(n, v)| format!("{n}={v}")).collect();
    assert_eq!(params, ["z=1.0", "model=\"m\"", "seed=9223372036854775807"]);
    assert_eq!(config.targets[1].policies.forward_headers, Some(vec![HeaderName::from_static("x-a")]));
    let retry = config.policies.retry.clone().unwrap();
    assert_eq!((retry.attempts, retry.statuses, retry.honours_retry_after), (2, Some(vec![]), true));
    assert_eq!(config.policies.cache, Some(Cache { max_age: Some(60), ..Cache::new(CacheMode::Semantic) }));
    assert_eq!(
        config.policies.request_timeout,
        Some(Duration::from_millis(values::MAX_MS)),
        "a longer timeout is reduced so that no clock overflows"
    );
    assert_eq!(config.on_status_codes, Some(vec![429, 503]));
    assert_eq!(config.policies.strict_std_compliance, Some(false));
}

#[test]
fn free_form_values_are_not_checked() {
    accepted(r#"{"prompt_id":"p","override_params":{"model":"m","x":{"y":[null]}}}"#);
    accepted(r#"{"input_guardrails":[{"my.check":{"any":{"thing":1}}}]}"#);
}

/// Rows of Portkey's own tests of configs that the tables above lack.
#[test]
fn rows_of_the_reference() {
    refused(r#"{"strategy":{"mode":"fallback"}}"#, &[LIST, "targets: is required in fallback mode"]);
    refused(r#"{"request_timeout":0}"#, &["request_timeout: must be at least 1"]);
    refused(
        r#"{"options":[{}],"provider":"openai","api_key":"k"}"#,
        &["options: This version of config is not"],
    );
    accepted(r#"{"options":null,"prompt_id":"p"}"#);
    // Request headers may supply the provider.
    accepted(r#"{"retry":{"attempts":2,"on_status_codes":[]}}"#);
    // More than Portkey accepts: both forms in one list, and a key for any provider.
    accepted(r#"{"input_guardrails":["a",{"x":{}}]}"#);
    accepted(r#"{"provider":"vertex-ai","api_key":"k"}"#);
}

#[test]
fn all_problems_are_found_in_one_pass() {
    refused(
        r#"{"strategy":{"mode":"fallback","on_status_codes":["x"]},"wieght":1,
            "targets":[{"provider":"openai"},
                       {"provider":"nope","api_key":"k","retry":{"attempts":"2"}},
                       {"strategy":{"mode":"loadbalance"},"targets":[{"virtual_key":"v","weight":-1}]}]}"#,
        &[
            "strategy.on_status_codes[0]: must be an integer",
            &format!("targets[0]: {LIST}"),
            "targets[1].provider: must be one of",
            "targets[1].retry.attempts: must be an integer",
            "targets[2].targets[0].weight: must be at least 0",
            "wieght: unknown key",
        ],
    );
}

#[test]
fn a_text_that_is_no_object_is_one_problem_at_the_root() {
    for text in ["", "nope", "{", r#"{"retry":{"attempts":1}}x"#, r#"{"a":1e999}"#] {
        refused(text, &["You need to pass a valid json: "]);
    }
    for text in ["[]", "null", "1", "\"config\""] {
        refused(text, &["must be an object, not "]);
    }
}

#[test]
fn nesting_and_target_count_are_bounded() {
    let nest = |levels: usize| {
        let open = r#"{"strategy":{"mode":"single"},"targets":["#.repeat(levels);
        format!(r#"{open}{{"virtual_key":"v"}}{}"#, "]}".repeat(levels))
    };
    accepted(&nest(MAX_DEPTH));
    let path = vec!["targets"; MAX_DEPTH + 1].join("[0].");
    refused(&nest(MAX_DEPTH + 1), &[&format!("{path}: stands too deep")]);
    refused(&nest(50_000), &["You need to pass a valid json: recursion limit exceeded"]);

    let many = |count: usize| {
        let targets = vec![r#"{"virtual_key":"v"}"#; count].join(",");
        format!(r#"{{"strategy":{{"mode":"fallback"}},"targets":[{targets}]}}"#)
    };
    accepted(&many(MAX_TARGETS));
    refused(&many(5_000), &["targets[1000]: is one too many"]);
    // The maximum counts the whole tree, not each list.
    let half = many(MAX_TARGETS / 2 + 1);
    let both = format!(r#"{{"strategy":{{"mode":"fallback"}},"targets":[{half},{half}]}}"#);
    refused(&both, &["targets[1].targets[497]: is one too many"]);
}
