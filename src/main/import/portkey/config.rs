//! A config of Portkey's, of any of its three shapes, as one of ours.
//!
//! Nearly the same object. What differs: slugs in the model become the provider, keys in the text become variables, and the shape before
//! targets (`mode`, `options`). Not here: where configs stand in exports (`mod`).

use super::super::cursor::InputAt;
use super::super::import::Import;
use super::super::moved::{VariableUse, plain};
use super::super::report::Taken;
use super::super::tree::Tree;
use super::super::value::InputReference;
use super::providers::Slugs;

/// What becomes of a key of a config.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// As it is.
    Same,
    /// As it is, with all that is in it.
    Free,
    /// A secret.
    Secret,
    /// Read by its own function.
    Own,
    /// Not taken: why.
    Not(&'static str),
}

/// A key: its names, of which the first is ours.
struct ConfigKey(&'static [&'static str], Way);

/// The keys of a config, of the newest shape and of those before.
const KEYS: &[ConfigKey] = &[
    ConfigKey(&["provider"], Way::Own),
    ConfigKey(&["virtual_key", "virtualKey"], Way::Own),
    ConfigKey(&["strategy"], Way::Own),
    ConfigKey(&["mode"], Way::Own),
    ConfigKey(&["targets", "options"], Way::Own),
    ConfigKey(&["override_params", "overrideParams"], Way::Own),
    ConfigKey(&["retry"], Way::Own),
    ConfigKey(&["name"], Way::Same),
    ConfigKey(&["weight"], Way::Same),
    ConfigKey(&["cache"], Way::Free),
    ConfigKey(&["request_timeout", "requestTimeout"], Way::Same),
    ConfigKey(&["custom_host", "customHost"], Way::Own),
    ConfigKey(&["base_url"], Way::Own),
    ConfigKey(&["forward_headers", "forwardHeaders"], Way::Same),
    ConfigKey(&["on_status_codes", "onStatusCodes"], Way::Same),
    ConfigKey(&["strict_open_ai_compliance", "strictOpenAiCompliance"], Way::Same),
    ConfigKey(&["default_params"], Way::Free),
    ConfigKey(&["drop_params"], Way::Same),
    ConfigKey(&["passthrough"], Way::Same),
    ConfigKey(&["prompt_id"], Way::Same),
    ConfigKey(&["before_request_hooks", "beforeRequestHooks"], Way::Own),
    ConfigKey(&["after_request_hooks", "afterRequestHooks"], Way::Own),
    ConfigKey(&["input_guardrails", "inputGuardrails"], Way::Own),
    ConfigKey(&["output_guardrails", "outputGuardrails"], Way::Own),
    ConfigKey(&["input_mutators"], Way::Own),
    ConfigKey(&["output_mutators"], Way::Own),
    ConfigKey(&["api_key", "apiKey"], Way::Secret),
    ConfigKey(&["aws_secret_access_key", "awsSecretAccessKey"], Way::Secret),
    ConfigKey(&["aws_access_key_id", "awsAccessKeyId"], Way::Secret),
    ConfigKey(&["aws_session_token", "awsSessionToken"], Way::Secret),
    ConfigKey(&["aws_region", "awsRegion"], Way::Same),
    ConfigKey(&["aws_auth_type"], Way::Same),
    ConfigKey(&["aws_role_arn"], Way::Same),
    ConfigKey(&["aws_external_id"], Way::Same),
    ConfigKey(&["resource_name", "azure_resource_name", "resourceName"], Way::Same),
    ConfigKey(&["deployment_id", "azure_deployment_id", "deploymentId"], Way::Same),
    ConfigKey(&["api_version", "azure_api_version", "apiVersion"], Way::Same),
    ConfigKey(&["azure_ad_token"], Way::Secret),
    ConfigKey(&["azure_auth_mode"], Way::Same),
    ConfigKey(&["azure_entra_tenant_id"], Way::Same),
    ConfigKey(&["azure_entra_client_id"], Way::Same),
    ConfigKey(&["azure_entra_client_secret"], Way::Secret),
    ConfigKey(&["vertex_project_id", "vertexProjectId"], Way::Same),
    ConfigKey(&["vertex_region", "vertexRegion"], Way::Same),
    ConfigKey(&["openai_organization"], Way::Same),
    ConfigKey(&["openai_project"], Way::Same),
    ConfigKey(&["openai_beta"], Way::Same),
    ConfigKey(&["anthropic_beta"], Way::Same),
    ConfigKey(&["anthropic_version"], Way::Same),
    ConfigKey(
        &["allow_subdomain"],
        Way::Not(
            "hosts of the operator's own need no leave here; clients' hosts are those of custom_hosts (docs/config.md)",
        ),
    ),
    ConfigKey(
        &["metadata"],
        Way::Not(
            "metadata comes with requests and keys: x-gateway-metadata, defaults.metadata of a key (docs/keys.md)",
        ),
    ),
    ConfigKey(
        &["vertex_service_account_json", "vertexServiceAccountJson"],
        Way::Not("a secret: write it into a provider as a variable (docs/config.md, Clouds)"),
    ),
];

/// By which a file is recognized as a config; one of them suffices.
pub fn is_config(at: &InputAt<'_>) -> bool {
    let has = |names: &[&str]| names.iter().any(|name| at.member(name).is_some());
    let has_targets =
        at.member("targets").or_else(|| at.member("options")).is_some_and(|at| at.node.items().is_some());
    has_targets
        || has(&["virtual_key", "virtualKey", "override_params", "before_request_hooks", "input_guardrails"])
        || at.member("strategy").is_some_and(|at| at.node.is_object())
        || at.member("provider").is_some_and(|at| at.text().is_some() && !at.is_container())
        || (has(&["retry", "cache"]) && at.entries().len() <= 3)
}

/// A level of a config. `above`: whether it is a target.
pub fn level(import: &mut Import, slugs: &mut Slugs, at: &InputAt<'_>) -> Tree {
    let mut config = Tree::map();
    target_provider(import, slugs, at, &mut config);
    for (name, at) in at.entries() {
        let found = KEYS.iter().find(|ConfigKey(names, _)| names.contains(&name));
        let Some(ConfigKey(names, way)) = found else {
            let why = "is no key of a config that is known here (docs/config.md)";
            import.findings.not_taken(&at, why);
            continue;
        };
        if at.node.kind == words::config::node::NodeKind::Null {
            import.findings.exact(&at, "counts as absent");
            continue;
        }
        let ours = names.first().copied().unwrap_or(name);
        match way {
            Way::Same => {
                config.set(ours, copied(&at));
                import.findings.whole(&at, Taken::Exact, ours);
            }
            Way::Free => {
                let value = import.copied(&at, reader, ours);
                config.set(ours, value);
            }
            Way::Secret => secret(import, &at, ours, VariableUse::Secret, &mut config),
            Way::Not(why) => import.findings.not_taken(&at, *why),
            Way::Own => own(import, slugs, &at, ours, &mut config),
        }
    }
    config
}

/// A value as it is.
fn copied(at: &InputAt<'_>) -> Tree {
    Tree::from_node(at.node, &mut |text| plain(text))
}

/// Portkey's files refer to nothing.
pub fn reader(_: &str) -> Option<InputReference> {
    None
}

/// A secret, or the address, that is written in the config.
fn secret(import: &mut Import, at: &InputAt<'_>, ours: &str, of: VariableUse, config: &mut Tree) {
    let given = at.text().unwrap_or_default();
    let provider = match config.member("provider") {
        Some(Tree::Text(provider)) => provider.trim_start_matches('@').to_uppercase(),
        _ => "PROVIDER".to_owned(),
    };
    let given = if of == VariableUse::Url { given.trim_end_matches('/') } else { &given };
    let written = import.written(given, reader, &format!("{provider}_{}", ours.to_uppercase()), of);
    config.set(ours, Tree::Text(written.text));
    let text = format!("{ours}{}", written.more);
    match written.taken {
        Taken::Exact => import.findings.exact(at, text),
        _ => import.findings.different(at, text),
    }
}

/// Where the target is: `provider`, `virtual_key`, and the slug of the model, which becomes the provider.
fn target_provider(import: &mut Import, slugs: &mut Slugs, at: &InputAt<'_>, config: &mut Tree) {
    let is_group = at.member("targets").or_else(|| at.member("options")).is_some();
    let provider = at.member("provider");
    let key = at.member("virtual_key").or_else(|| at.member("virtualKey"));
    let vendor = provider.as_ref().and_then(InputAt::text).filter(|text| !text.starts_with('@'));
    if is_group {
        for at in [provider, key].into_iter().flatten() {
            import.findings.not_taken(&at, "has no effect beside targets");
        }
        return;
    }
    if let Some(at) = &key {
        let slug = slugs.provider(import, at, &at.text().unwrap_or_default(), vendor.as_deref());
        config.set("provider", Tree::Text(format!("@{slug}")));
        if let Some(at) = &provider {
            import.findings.exact(at, format!("providers.{slug}"));
        }
        return;
    }
    let Some(at_provider) = provider else {
        model_provider(import, slugs, at, config);
        return;
    };
    let text = at_provider.text().unwrap_or_default();
    if let Some(slug) = text.strip_prefix('@') {
        let slug = slugs.provider(import, &at_provider, slug, None);
        config.set("provider", Tree::Text(format!("@{slug}")));
        return;
    }
    let has_account = at.entries().iter().any(|(name, _)| {
        ["api_key", "apiKey", "custom_host", "customHost", "base_url", "aws_access_key_id", "azure_ad_token"]
            .contains(name)
    });
    if has_account {
        config.set("provider", Tree::text(super::providers::our_id(&text)));
        import.findings.exact(&at_provider, "provider");
        return;
    }
    let slug = slugs.provider(import, &at_provider, &text, Some(&text));
    config.set("provider", Tree::Text(format!("@{slug}")));
    let why = format!(
        "providers.{slug}: Portkey takes the key of the client; here it is the gateway's own, in a variable"
    );
    import.findings.different(&at_provider, why);
}

/// `@slug/model` in `override_params`, where the target names no provider.
fn model_provider(import: &mut Import, slugs: &mut Slugs, at: &InputAt<'_>, config: &mut Tree) {
    let params = at.member("override_params").or_else(|| at.member("overrideParams"));
    let Some(model) = params.and_then(|params| params.member("model")) else { return };
    let text = model.text().unwrap_or_default();
    let Some((slug, _)) = text.strip_prefix('@').and_then(|rest| rest.split_once('/')) else { return };
    let slug = slugs.provider(import, &model, slug, None);
    config.set("provider", Tree::Text(format!("@{slug}")));
}

/// Keys whose values are looked at.
fn own(import: &mut Import, slugs: &mut Slugs, at: &InputAt<'_>, ours: &str, config: &mut Tree) {
    match ours {
        "targets" => {
            let targets = at.items().iter().map(|at| level(import, slugs, at)).collect();
            config.set(ours, Tree::List(targets));
        }
        "strategy" => strategy(import, at, config),
        "mode" => {
            let mode = at.text().unwrap_or_default();
            let ours = if mode == "ab_test" { "loadbalance" } else { mode.as_str() };
            let merged = config.member("strategy").cloned().unwrap_or_else(Tree::map);
            config.set("strategy", merged.with("mode", Tree::text(ours)));
            import.findings.exact(at, "strategy.mode");
        }
        "override_params" => override_params(import, at, config),
        "retry" => retry(import, at, config),
        "custom_host" | "base_url" => host(import, at, ours, config),
        "before_request_hooks"
        | "after_request_hooks"
        | "input_guardrails"
        | "output_guardrails"
        | "input_mutators"
        | "output_mutators" => hooks(import, slugs, at, ours, config),
        // `provider` and `virtual_key` are read before the others.
        _ => {}
    }
}

fn strategy(import: &mut Import, at: &InputAt<'_>, config: &mut Tree) {
    let mut strategy = Tree::map();
    for (name, at) in at.entries() {
        let ours = match name {
            "onStatusCodes" => "on_status_codes",
            "cbConfig" => "cb_config",
            "mode" | "on_status_codes" | "conditions" | "default" | "cb_config" | "sticky" | "by" => name,
            _ => {
                import.findings.not_taken(&at, "is no key of a strategy that is known here (docs/config.md)");
                continue;
            }
        };
        let value = match at.text().as_deref() {
            Some("ab_test") if ours == "mode" => Tree::text("loadbalance"),
            _ => copied(&at),
        };
        strategy.set(ours, value);
        import.findings.whole(&at, Taken::Exact, &format!("strategy.{ours}"));
    }
    config.set("strategy", strategy);
}

/// The parameters, without the slug of the model.
fn override_params(import: &mut Import, at: &InputAt<'_>, config: &mut Tree) {
    let mut params = import.copied(at, reader, "override_params");
    if let Some(model) = at.member("model")
        && let Some(text) = model.text()
        && let Some((slug, rest)) = text.strip_prefix('@').and_then(|text| text.split_once('/'))
    {
        params.set("model", Tree::text(plain(rest)));
        let named = match config.member("provider") {
            Some(Tree::Text(named)) => named.clone(),
            _ => String::new(),
        };
        if named == format!("@{slug}") {
            import.findings.exact(&model, format!("override_params.model, at {named}"));
        } else {
            import.findings.different(
                &model,
                format!("override_params.model without its slug: the target is at {named}"),
            );
        }
    }
    config.set("override_params", params);
}

/// An object, or before that a number.
fn retry(import: &mut Import, at: &InputAt<'_>, config: &mut Tree) {
    if at.is_container() {
        let mut retry = Tree::map();
        for (name, at) in at.entries() {
            let ours = match name {
                "onStatusCodes" => "on_status_codes",
                "useRetryAfterHeader" | "use_retry_after_header" | "use_retry_after_headers" => {
                    "use_retry_after_headers"
                }
                "attempts" | "on_status_codes" => name,
                _ => {
                    import.findings.not_taken(&at, "is no key of retry that is known here (docs/config.md)");
                    continue;
                }
            };
            retry.set(ours, copied(&at));
            import.findings.exact(&at, format!("retry.{ours}"));
        }
        config.set("retry", retry);
        return;
    }
    match at.number() {
        Some(count) if count >= 0.0 => {
            config.set("retry", Tree::of([("attempts", Tree::number(count.trunc()))]));
            import.findings.exact(at, "retry.attempts");
        }
        _ => import.findings.not_taken(at, "is no number of retries"),
    }
}

/// `custom_host`, and what is sometimes written for it.
fn host(import: &mut Import, at: &InputAt<'_>, ours: &str, config: &mut Tree) {
    secret(import, at, "custom_host", VariableUse::Url, config);
    if ours != "custom_host" {
        import.findings.different(
            at,
            "custom_host: base_url is no key of a config of Portkey's, which has no effect there",
        );
    }
}

/// Guardrails: those that an export has, and those that are written in the config.
fn hooks(import: &mut Import, slugs: &Slugs, at: &InputAt<'_>, ours: &str, config: &mut Tree) {
    let mut list = Vec::new();
    for item in at.items() {
        match item.text().filter(|_| !item.is_container()) {
            Some(id) => match slugs.guardrail(&id) {
                Some(guardrail) => {
                    list.push(guardrail.clone());
                    import.findings.exact(&item, format!("{ours}, with the checks of the export"));
                }
                None => import.findings.not_taken(
                    &item,
                    "a saved guardrail, which is in none of the files: make it (POST /v1/guardrails, docs/guardrails.md) and name it here",
                ),
            },
            None => {
                list.push(import.copied(&item, reader, ours));
            }
        }
    }
    if !list.is_empty() {
        config.set(ours, Tree::List(list));
    }
}
