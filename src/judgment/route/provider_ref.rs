//! Which provider a target means: named by its config, its prompt, the request's headers or its model, in this order.
//!
//! Only the name. Its account and address are resolved by `compile`.

use super::compile::Sources;
use super::target_prompt;
use knowledge::prompt::FoundPrompt;
use words::config::Config;
use words::error::Error;

/// How a target names its provider.
pub(super) enum ProviderRef {
    Slug(String),
    Plain(String),
}

/// # Errors
/// 404 where neither the config nor the request names a provider, and it is about a file or batch, or its model is no name; 400 where
/// there is no model.
pub(super) fn provider_ref(
    sources: &Sources<'_>,
    config: &Config,
    override_params: &mut [(String, Box<str>)],
    prompt: Option<&FoundPrompt>,
) -> Result<ProviderRef, Error> {
    let parse = |name: &str| match name.strip_prefix('@') {
        Some(slug) => ProviderRef::Slug(slug.split('/').next().unwrap_or(slug).to_owned()),
        None => ProviderRef::Plain(name.to_owned()),
    };
    if let Some(name) = &config.provider {
        return Ok(parse(name));
    }
    if let Some(key) = &config.virtual_key {
        return Ok(ProviderRef::Slug(key.trim_start_matches('@').to_owned()));
    }
    if let Some(slug) = slug_in_override(override_params) {
        return Ok(ProviderRef::Slug(slug));
    }
    if let (Some(prompt), Some(call)) = (prompt, sources.prompt)
        && let Some(slug) = target_prompt::provider_slug(prompt, call, sources.model_slug)
    {
        return Ok(ProviderRef::Slug(slug.to_owned()));
    }
    let gateway_headers = sources.gateway_headers;
    if let Some(name) = gateway_headers.provider {
        return Ok(parse(name));
    }
    if let Some(key) = gateway_headers.virtual_key {
        return Ok(ProviderRef::Slug(key.trim_start_matches('@').to_owned()));
    }
    match (sources.model_slug, sources.object) {
        (Some(slug), _) => Ok(ProviderRef::Slug(slug.to_owned())),
        (None, Some(object)) => Err(object.unknown()),
        (None, None) => Err(no_provider(sources)),
    }
}

/// 404 for a model that is unknown, 400 where none is named.
fn no_provider(sources: &Sources<'_>) -> Error {
    if let Some(name) = sources.names.plain {
        let near = sources.names.near.map(|near| near.to(name));
        return Error::model_not_found(name, &near.unwrap_or_default());
    }
    if let Some(used) = sources.names.used {
        let message = format!(
            "The config that the model {} stands for names no provider. Have whoever made the name add one.",
            used.name
        );
        return Error::bad_request(message).with_param("model");
    }
    Error::bad_request(
        "No provider was named. Send x-gateway-provider (a provider's name with its key as bearer, or @slug), \
         x-gateway-config, or a model written as @slug/model.",
    )
    .with_param("x-gateway-provider")
}

/// The slug of an `override_params.model` written as `@slug/model`; it is removed from the model.
fn slug_in_override(override_params: &mut [(String, Box<str>)]) -> Option<String> {
    let (_, value) = override_params.iter_mut().find(|(name, _)| name == "model")?;
    let text: String = serde_json::from_str(value).ok()?;
    let (slug, model) = split_slug(&text)?;
    let slug = slug.to_owned();
    *value = serde_json::Value::from(model).to_string().into_boxed_str();
    Some(slug)
}

/// Splits `@slug/model` into slug and model. `@cf/…` and `@hf/…` are Workers AI's own model names.
pub fn split_slug(model: &str) -> Option<(&str, &str)> {
    let (slug, rest) = model.strip_prefix('@')?.split_once('/')?;
    (!matches!(slug, "cf" | "hf") && !slug.is_empty() && !rest.is_empty()).then_some((slug, rest))
}
