//! Whether the stored providers and the saved configs of a settings file can be called, as far as that is seen without a
//! connection.
//!
//! Pure: time is an argument. Not here: what a provider needs (`provider::plain_call`), and the file (`settings`).

use super::config_hooks;
use knowledge::provider::{self, plain_call};
use std::time::SystemTime;
use words::config::Config;
use words::config::secret::Secret;
use words::config::strategy::Mode;
use words::settings::{ModelRoute, Settings};

/// A key of the settings, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingProblem {
    /// The stored provider, saved config or name of models it is about: `providers.groq`.
    pub owner: String,
    /// The key, below `owner` or `owner` itself.
    pub path: String,
    pub message: String,
}

/// What stored providers and saved configs lack for a plain call.
pub fn problems(settings: &Settings, now: SystemTime) -> Vec<SettingProblem> {
    let mut found = Vec::new();
    for (slug, stored) in &settings.providers {
        let Some(provider) = provider::find(&stored.provider) else { continue };
        let problems = plain_call::problems(provider, &stored.account, now);
        let owner = format!("providers.{slug}");
        found.extend(problems.into_iter().map(|problem| at(&owner, &owner, problem)));
    }
    for (id, config) in &settings.configs {
        let owner = format!("configs.{id}");
        check_config(config, &owner, &owner, now, &mut found);
    }
    for entry in settings.models.iter() {
        if let ModelRoute::Inline(config) = &entry.route {
            let owner = format!("models.{}", entry.name);
            check_config(config, &owner, &format!("{owner}.to"), now, &mut found);
        }
    }
    found
}

/// What the targets of a config lack, and its hooks.
fn check_config(config: &Config, owner: &str, path: &str, now: SystemTime, found: &mut Vec<SettingProblem>) {
    Targets { owner, now, found }.check(config, None, path);
    let problems = config_hooks::problems(config);
    found.extend(problems.into_iter().map(|problem| SettingProblem {
        owner: owner.to_owned(),
        path: format!("{path}.{}", problem.path),
        message: problem.message,
    }));
}

/// The targets of one saved config.
struct Targets<'a> {
    owner: &'a str,
    now: SystemTime,
    found: &'a mut Vec<SettingProblem>,
}

impl Targets<'_> {
    /// Checks those that name a provider and its account themselves. Their key may come from the client.
    fn check(&mut self, config: &Config, host_above: Option<&str>, path: &str) {
        let own_host = config.account.custom_host.as_deref().or(config.policies.custom_host.as_deref());
        let host = own_host.or(host_above);
        if let Some(strategy) = config.strategy.as_ref().filter(|_| !config.targets.is_empty()) {
            // As in `compile`: `single` uses only the first target.
            let used = if strategy.mode == Mode::Single { 1 } else { config.targets.len() };
            for (index, target) in config.targets.iter().take(used).enumerate() {
                self.check(target, host, &format!("{path}.targets[{index}]"));
            }
            return;
        }
        let Some(provider) = config.provider.as_deref().and_then(provider::find) else { return };
        let mut account = config.account.clone();
        account.custom_host = host.map(str::to_owned);
        account.api_key = account.api_key.or_else(|| Some(Secret::new("the-clients-own")));
        let problems = plain_call::problems(provider, &account, self.now);
        self.found.extend(problems.into_iter().map(|problem| at(self.owner, path, problem)));
    }
}

fn at(owner: &str, path: &str, problem: plain_call::AccountProblem) -> SettingProblem {
    let path = match problem.field.as_str() {
        "" => path.to_owned(),
        field => format!("{path}.{field}"),
    };
    SettingProblem { owner: owner.to_owned(), path, message: problem.message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use words::config::Checks;
    use words::settings::{SecretSources, report};

    /// The findings of a file, each as `path: message`.
    fn findings(text: &str) -> Vec<String> {
        let sources = SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
        let checks = Checks::NONE;
        let settings = Settings::parse(text, &sources, &checks);
        let settings = settings.unwrap_or_else(|problems| panic!("{}", report("t", &problems)));
        let found = problems(&settings, SystemTime::UNIX_EPOCH);
        found.into_iter().map(|finding| format!("{}: {}", finding.path, finding.message)).collect()
    }

    #[test]
    fn what_a_plain_call_lacks_is_found_at_its_key() {
        for (text, wanted) in [
            ("providers: {a: {provider: groq, api_key: k}}", &[][..]),
            ("providers: {a: {provider: groq}}", &["providers.a.api_key: is required: calls"]),
            ("providers: {a: {provider: openai, custom_host: 'http://h/v1'}}", &[]),
            ("providers: {a: {provider: openai, api_key: 'ä b'}}", &["providers.a.api_key: api_key has"]),
            ("providers: {a: {provider: ollama}}", &["providers.a.custom_host: "]),
            (
                "providers: {a: {provider: azure-openai}}",
                &["providers.a.resource_name: ", "providers.a.api_key: is required"],
            ),
            (
                "providers: {a: {provider: azure-openai, resource_name: r, azure_auth_mode: entra}}",
                &["providers.a.cloud_c_entra_tenant_id: "],
            ),
            (
                "providers: {a: {provider: bedrock, aws_region: r, aws_access_key_id: i}}",
                &["providers.a.cloud_a_secret_access_key: "],
            ),
            (
                "providers:\n  a:\n    provider: vertex-ai\n    cloud_b_region: r\n    vertex_service_account_json: \
                 {type: service_account, project_id: p, client_email: e, private_key: no}",
                &["providers.a"],
            ),
            ("configs: {c: {provider: groq, api_key: k}}", &[]),
            ("configs: {c: {retry: {attempts: 1}}}", &[]),
            ("configs: {c: {provider: groq, custom_host: 'http://h/v1'}}", &[]),
            (
                "configs: {c: {strategy: {mode: fallback}, targets: [{provider: groq, api_key: k}, \
                 {provider: azure-openai, api_key: k}]}}",
                &["configs.c.targets[1].resource_name: "],
            ),
            (
                "configs: {c: {strategy: {mode: single}, targets: [{provider: groq, api_key: k}, \
                 {provider: azure-openai, api_key: k}]}}",
                &[],
            ),
            ("models: {m: {to: {provider: azure-openai, api_key: k}}}", &["models.m.to.resource_name: "]),
            (
                "configs: {c: {provider: groq, api_key: k, input_guardrails: [g, {nothing: {}}, {contains: {words: 1}}]}}",
                &[
                    "configs.c.input_guardrails[1].nothing: there is no check",
                    "configs.c.input_guardrails[2].contains.words: must be a list of texts",
                ],
            ),
        ] {
            let found = findings(text);
            assert_eq!(found.len(), wanted.len(), "{text}: {found:?}");
            for (found, wanted) in found.iter().zip(wanted) {
                assert!(found.starts_with(wanted), "{text}: {found}");
            }
        }
    }
}
