//! Keys of a config that are valid where they stand and have no effect there: the client is warned of them.
//!
//! They are keys of the config object, so they are no problems. Keys that would change what
//! happens if they were read, such as `strategy.sticky` outside load balancing, are refused by the reader.

use super::Config;
use super::account::Account;
use super::strategy::{Mode, Strategy};

/// The most warnings of one config: the header has room for some about the request, too.
const MAX_WARNINGS: usize = 8;

/// One warning for each key without effect, with its path: `targets[1].weight: no effect, it is for loadbalance mode`. `has_prompt`:
/// whether the request renders a prompt.
pub fn find(config: &Config, has_prompt: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    find_below(config, "", None, &mut warnings);
    if !has_prompt {
        find_prompts(config, "", &mut warnings);
    }
    warnings.truncate(MAX_WARNINGS);
    warnings
}

/// Each `prompt_id` of a request without a prompt.
fn find_prompts(config: &Config, path: &str, warnings: &mut Vec<String>) {
    if warnings.len() >= MAX_WARNINGS {
        return;
    }
    if config.prompt_id.is_some() {
        warnings
            .push(format!("{path}prompt_id: no effect, only /v1/prompts/{{id}}/completions renders prompts"));
    }
    for (index, target) in config.targets.iter().enumerate() {
        find_prompts(target, &format!("{path}targets[{index}]."), warnings);
    }
}

/// Whether a failure of one target leads to another.
fn continues(strategy: &Strategy) -> bool {
    strategy.mode == Mode::Fallback || strategy.failover
}

/// `group`: the strategy of the group the config is a target of.
fn find_below(config: &Config, path: &str, group: Option<&Strategy>, warnings: &mut Vec<String>) {
    if warnings.len() >= MAX_WARNINGS {
        return;
    }
    let mut warn = |key: &str, why: &str| warnings.push(format!("{path}{key}: no effect, {why}"));
    let strategy = config.strategy.as_ref();
    let is_group = strategy.is_some() && !config.targets.is_empty();
    let group_continues = group.is_some_and(continues);
    if config.weight.is_some() && group.map(|group| group.mode) != Some(Mode::LoadBalance) {
        warn("weight", "it is for loadbalance mode");
    }
    let in_fallback = group_continues || strategy.is_some_and(continues);
    if config.on_status_codes.is_some() && !in_fallback {
        warn("on_status_codes", "it is for fallback mode and for failover");
    }
    if config.for_errors.is_some() && group.is_none() {
        warn("for_errors", "it is for targets of a fallback");
    }
    if !config.targets.is_empty() && strategy.is_none() {
        warn("targets", "there is no strategy");
    }
    if is_group && (config.provider.is_some() || config.virtual_key.is_some()) {
        warn("provider", "the targets are used");
    }
    if is_group && config.passthrough {
        warn("passthrough", "the targets are used");
    }
    if !is_group && config.provider.is_some() && config.virtual_key.is_some() {
        warn("virtual_key", "provider is used");
    }
    let is_stored =
        config.provider.as_deref().map_or(config.virtual_key.is_some(), |name| name.starts_with('@'));
    if !is_group && is_stored && has_account(config) {
        let key = if config.account.api_key.is_some() { "api_key" } else { "keys of its account" };
        warn(key, "a stored provider uses its own account");
    }
    let Some(strategy) = strategy else { return };
    if config.targets.is_empty() {
        warn("strategy", "there are no targets");
        return;
    }
    if strategy.mode == Mode::Single && config.targets.len() > 1 {
        warn("targets", "single mode uses the first one only");
    }
    if config.hedge.is_some() && matches!(strategy.mode, Mode::Single | Mode::Conditional) {
        warn("hedge", "it is for fallback and loadbalance mode");
    }
    find_in_strategy(strategy, &mut warn);
    let used = if strategy.mode == Mode::Single { 1 } else { config.targets.len() };
    for (index, target) in config.targets.iter().take(used).enumerate() {
        find_below(target, &format!("{path}targets[{index}]."), Some(strategy), warnings);
    }
}

/// Whether it has anything of an account besides the host, which a stored provider takes.
fn has_account(config: &Config) -> bool {
    Account { custom_host: None, ..config.account.clone() } != Account::default()
}

fn find_in_strategy(strategy: &Strategy, warn: &mut impl FnMut(&str, &str)) {
    let is_conditional = strategy.mode == Mode::Conditional;
    if !strategy.conditions.is_empty() && !is_conditional {
        warn("strategy.conditions", "it is for conditional mode");
    }
    if strategy.default.is_some() && !is_conditional {
        warn("strategy.default", "it is for conditional mode");
    }
    if strategy.on_status_codes.is_some() && !continues(strategy) {
        warn("strategy.on_status_codes", "it is for fallback mode and for failover");
    }
    if strategy.on_errors.is_some() && !continues(strategy) {
        warn("strategy.on_errors", "it is for fallback mode and for failover");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Checks;

    fn warnings(text: &str) -> Vec<String> {
        let checks = Checks::NONE;
        find(&Config::from_json(text.as_bytes(), &checks).unwrap(), false)
    }

    #[test]
    fn keys_without_effect_are_found_with_their_paths() {
        for (config, wanted) in [
            (
                r#"{"virtual_key":"v","targets":[{"virtual_key":"w","weight":1}]}"#,
                &["targets: no effect, there is"][..],
            ),
            (
                r#"{"virtual_key":"v","strategy":{"mode":"single"}}"#,
                &["strategy: no effect, there are no targets"],
            ),
            (r#"{"provider":"openai","virtual_key":"v"}"#, &["virtual_key: no effect, provider is used"]),
            (r#"{"virtual_key":"v","strategy":{"mode":"single"},"targets":[]}"#, &["strategy: no effect"]),
            (
                r#"{"strategy":{"mode":"single"},"targets":[{"virtual_key":"v"},{"virtual_key":"w"}]}"#,
                &["targets: no effect, single mode uses the first one only"],
            ),
            (
                r#"{"virtual_key":"v","weight":2,"on_status_codes":[500]}"#,
                &["weight: no", "on_status_codes: no"],
            ),
            (
                r#"{"strategy":{"mode":"loadbalance","on_status_codes":[429],"default":"a"},"provider":"@x",
                    "targets":[{"virtual_key":"v","weight":2},
                               {"strategy":{"mode":"fallback"},"targets":[{"virtual_key":"v","weight":1}]}]}"#,
                &[
                    "provider: no effect, the targets are used",
                    "strategy.default: no effect",
                    "strategy.on_status_codes: no effect",
                    "targets[1].targets[0].weight: no effect, it is for loadbalance mode",
                ],
            ),
            (
                r#"{"strategy":{"mode":"fallback","on_status_codes":[429]},"on_status_codes":[500],
                    "targets":[{"virtual_key":"v","on_status_codes":[503]},{"virtual_key":"w"}]}"#,
                &[],
            ),
            (r#"{"virtual_key":"v","retry":{"attempts":1}}"#, &[]),
            (r#"{"provider":"@p","api_key":"k"}"#, &["api_key: no effect, a stored provider"]),
            (r#"{"provider":"@p","cloud_a_region":"us-east-1"}"#, &["keys of its account: no effect"]),
            (r#"{"provider":"openai","api_key":"k"}"#, &[]),
            (
                r#"{"prompt_id":"p","strategy":{"mode":"fallback"},"targets":[{"virtual_key":"v","prompt_id":"q"}]}"#,
                &["prompt_id: no effect, only /v1/prompts", "targets[0].prompt_id: no effect"],
            ),
            (
                r#"{"passthrough":true,"strategy":{"mode":"single"},"targets":[{"passthrough":true}]}"#,
                &["passthrough: no effect, the targets are used"],
            ),
            (r#"{"provider":"@p","custom_host":"https://a.example"}"#, &[]),
        ] {
            assert_warnings(config, wanted);
        }
    }

    #[track_caller]
    fn assert_warnings(config: &str, wanted: &[&str]) {
        let found = warnings(config);
        assert_eq!(found.len(), wanted.len(), "{config} {found:?}");
        for (found, wanted) in found.iter().zip(wanted) {
            assert!(found.starts_with(wanted), "{found}");
        }
    }

    #[test]
    fn keys_of_fallback_have_an_effect_with_failover() {
        let rows: [(&str, &[&str]); 3] = [
            (
                r#"{"virtual_key":"v","for_errors":["auth"]}"#,
                &["for_errors: no effect, it is for targets of a"],
            ),
            (
                r#"{"strategy":{"mode":"loadbalance","on_errors":["auth"],"on_status_codes":[429]},"targets":[{"virtual_key":"v"}]}"#,
                &["strategy.on_status_codes: no effect", "strategy.on_errors: no effect"],
            ),
            (
                r#"{"strategy":{"mode":"loadbalance","failover":true,"on_errors":["auth"],"on_status_codes":[429]},
                    "on_status_codes":[500],"targets":[{"virtual_key":"v","on_status_codes":[503]}]}"#,
                &[],
            ),
        ];
        for (config, wanted) in rows {
            assert_warnings(config, wanted);
        }
    }

    #[test]
    fn a_prompt_has_an_effect_where_one_is_rendered() {
        let checks = Checks::NONE;
        let config = Config::from_json(br#"{"prompt_id":"p","virtual_key":"v"}"#, &checks).unwrap();
        assert_eq!((find(&config, true).len(), find(&config, false).len()), (0, 1));
    }

    #[test]
    fn the_warnings_are_bounded() {
        let targets = vec![r#"{"virtual_key":"v","weight":1}"#; 100].join(",");
        let config = format!(r#"{{"strategy":{{"mode":"fallback"}},"targets":[{targets}]}}"#);
        assert_eq!(warnings(&config).len(), MAX_WARNINGS);
    }
}
