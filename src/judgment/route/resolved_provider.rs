//! What the provider that a target names stands for: a stored one with its account and policies, or a plain one with the client's key.
//!
//! Not its address (`compile`), and not which name it is (`provider_ref`).

use super::compile::Sources;
use super::provider_ref::{ProviderRef, provider_ref};
use knowledge::prompt::FoundPrompt;
use knowledge::provider::{self, Provider};
use memory::state::directory::DefinedIn;
use std::sync::Arc;
use words::config::Config;
use words::config::account::Account;
use words::config::policies::Policies;
use words::config::secret::Secret;
use words::error::Error;
use words::settings::{AllowedModels, AllowedNames};

/// What a target's name stands for.
pub(super) struct ResolvedProvider {
    pub provider: &'static dyn Provider,
    pub account: Account,
    pub slug: Option<String>,
    /// Whether the account may use the identity of the machine: only the operator's.
    pub is_trusted: bool,
    pub models: Option<Arc<AllowedModels>>,
    pub allowed: Option<AllowedNames>,
}

/// Resolves the provider that a target names. `path`: its place in the config.
pub(super) fn resolve(
    sources: &Sources<'_>,
    config: &Config,
    policies: &mut Policies,
    prompt: Option<&FoundPrompt>,
    path: &str,
) -> Result<ResolvedProvider, Error> {
    match provider_ref(sources, config, &mut policies.override_params, prompt)? {
        ProviderRef::Slug(slug) => stored(sources, &slug, policies).map_err(|error| match path {
            "config" => error,
            // A nested target is named by its path, because the provider header may not have been sent.
            path => error.with_param(format!("{path}.provider")),
        }),
        ProviderRef::Plain(name) => unstored(sources, config, &name),
    }
}

/// Resolves a stored provider and its account. Its policies apply where the config sets none.
fn stored(sources: &Sources<'_>, slug: &str, policies: &mut Policies) -> Result<ResolvedProvider, Error> {
    let (stored, defined_in) = sources.directory.provider(slug).ok_or_else(|| {
        Error::bad_request(format!(
            "Following keys are not valid: {slug}. There is no stored provider of that name, neither in the \
             settings' `providers` nor in the workspace."
        ))
        .with_param("x-gateway-provider")
        .with_unknown_name(slug)
    })?;
    let provider = find_provider(&stored.provider)?;
    policies.inherit(&stored.policies);
    Ok(ResolvedProvider {
        provider,
        account: stored.account.clone(),
        slug: Some(slug.to_owned()),
        is_trusted: defined_in == DefinedIn::Settings,
        models: stored.models.clone(),
        allowed: stored.allowed.clone(),
    })
}

/// Resolves a plain provider. Its account is the config's, or that of the cloud headers if the config names no
/// provider; the client's key is used if it has no key.
fn unstored(sources: &Sources<'_>, config: &Config, name: &str) -> Result<ResolvedProvider, Error> {
    let provider = find_provider(name)?;
    let mut account = match (&sources.gateway_headers.account, config.provider.is_some()) {
        (Some(headers), false) => (**headers).clone(),
        _ => config.account.clone(),
    };
    if account.api_key.is_none() {
        account.api_key = config.account.api_key.clone().or_else(|| sources.provider_key.map(Secret::new));
    }
    Ok(ResolvedProvider { provider, account, slug: None, is_trusted: false, models: None, allowed: None })
}

fn find_provider(name: &str) -> Result<&'static dyn Provider, Error> {
    provider::find(name).ok_or_else(|| {
        let message = format!("Invalid provider passed: {name:?} {}", provider::unknown(name));
        Error::bad_request(message).with_param("x-gateway-provider").with_unknown_name(name)
    })
}
