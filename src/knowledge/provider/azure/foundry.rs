//! Azure AI Foundry: models of many vendors behind OpenAI's API shape, and Claude behind Anthropic's.
//!
//! The account chooses the address: a custom host (the Foundry URL), a `resource_name`, a serverless endpoint
//! (deployment and region), or a managed endpoint (endpoint and region).

use super::address::{self, PathAndQuery, Version};
use super::auth::{self, KeyPlacement};
use crate::provider::adapter::{Adapter, CallTarget};
use crate::provider::anthropic::{self, AnthropicChat, BetaHost};
use crate::provider::openai_chat::{CHAT_PATCH, OPENAI_CHAT, OpenAiChat, quirks};
use crate::provider::prompt_marks::MarkForm;
use crate::provider::spec::{CustomHost, Host, ProviderSpec, ends_in_version};
use crate::provider::token_exchange::TokenExchange;
use crate::provider::translation_notes::TranslationNotes;
use crate::provider::vendor_host::host_below;
use crate::provider::{Call, Provider};
use http::{HeaderMap, HeaderValue};
use std::borrow::Cow;
use std::sync::Arc;
use words::api::body::{Body, Edit};
use words::api::operation::Operation;
use words::config::account::{Account, DeploymentType};
use words::error::Error;

/// Azure AI Foundry as a provider.
#[derive(Debug)]
pub struct AzureAi;

/// Its entry in the provider table.
pub static SPEC: ProviderSpec = ProviderSpec {
    id: "azure-ai",
    host: Host::Below(DOMAINS),
    prefix: "",
    custom_host: CustomHost::Base,
    note: "resource_name; or cloud_c_deployment_type serverless (cloud_c_deployment_name, cloud_c_region) or \
           managed (cloud_c_endpoint_name, cloud_c_region); or the Foundry URL as custom host. The key is \
           sent as bearer and as api-key; Claude (recognized by model or URL) has Anthropic's API and gets \
           x-api-key. Sign-in as with azure-openai",
    source: "https://learn.microsoft.com/azure/foundry/foundry-models/concepts/endpoints",
    ..ProviderSpec::PLAIN
};

/// Domains of Foundry resources.
const DOMAINS: &[&str] = &["services.ai.azure.com", "cognitiveservices.azure.com", "openai.azure.com"];

/// The chat parameters of Azure's model inference API; the header `extra-parameters` decides about all others.
const INFERENCE_PARAMS: &[&str] = &[
    "messages",
    "model",
    "stream",
    "stream_options",
    "temperature",
    "top_p",
    "max_tokens",
    "stop",
    "seed",
    "frequency_penalty",
    "presence_penalty",
    "response_format",
    "tools",
    "tool_choice",
];

/// Which of Foundry's APIs a call uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Api {
    /// Anthropic's Messages API.
    Claude,
    /// `/openai/v1`, or the OpenAI path of a custom host.
    OpenAi,
    /// The model inference API: `/models` of a resource, and single-model endpoints.
    Inference,
}

impl Api {
    fn from_call(call: &Call<'_>, account: &Account) -> Self {
        use Operation as O;
        let chat = call.operation.is_chat() || call.operation == O::CountTokens;
        let by_path = account.custom_host.as_deref().map(address::path_of).unwrap_or_default();
        if by_path.contains("anthropic") || (chat && is_claude(call.model, account)) {
            return Self::Claude;
        }
        let at_resource = resource(account).is_some();
        let dated = matches!(version(account), Version::Dated(_));
        let inference = matches!(call.operation, O::ChatCompletions | O::Embeddings | O::Passthrough);
        match at_resource {
            _ if by_path.contains("/openai") => Self::OpenAi,
            true if by_path.is_empty() && (!dated || !inference) => Self::OpenAi,
            _ if is_stored(call.operation) => Self::OpenAi,
            _ => Self::Inference,
        }
    }
}

/// Whether the operation concerns objects stored in a resource, not a model.
fn is_stored(operation: Operation) -> bool {
    let label = operation.label();
    label.starts_with("files") || label.starts_with("batches") || label.starts_with("fine_tuning")
}

/// The Foundry resource the account addresses, if any. A resource offers several APIs, an endpoint only one.
fn resource(account: &Account) -> Option<&str> {
    match &account.custom_host {
        None => account.resource_name.as_deref().filter(|_| account.cloud_c.deployment_type.is_none()),
        Some(host) => {
            let name = address::origin_of(host).split_once("://").map_or(host.as_str(), |(_, name)| name);
            let name = name.split(':').next().unwrap_or(name);
            let is_below = |domain: &&str| name.strip_suffix(*domain).is_some_and(|left| left.ends_with('.'));
            DOMAINS.iter().any(is_below).then_some(name)
        }
    }
}

/// Whether the deployment, or the model behind it, is named after Claude or Anthropic.
fn is_claude(model: Option<&str>, account: &Account) -> bool {
    let named = [model, account.cloud_c.model_name.as_deref()];
    let names_claude = |text: &str| {
        let text = text.to_ascii_lowercase();
        text.contains("claude") || text.contains("anthropic")
    };
    named.into_iter().flatten().any(names_claude)
}

/// The chat adapter of a model. OpenAI's models know the role `developer`; the newer ones accept only the newer name
/// of the token limit.
fn chat_adapter(model: Option<&str>, account: &Account) -> &'static OpenAiChat {
    let model = account.cloud_c.model_name.as_deref().or(model).unwrap_or_default();
    let numbered =
        model.strip_prefix('o').is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()));
    if numbered || model.starts_with("gpt-") { &OPENAI_CHAT } else { &quirks::PLAIN }
}

fn version(account: &Account) -> Version<'_> {
    Version::new(account.cloud_c.api_version.as_deref().or(account.api_version.as_deref()))
}

fn missing(param: &'static str, what: &str) -> Error {
    let message = format!("azure-ai needs {param} {what}, or the Foundry URL as custom host.");
    Error::invalid_request(param, message).with_provider(SPEC.id)
}

/// A host below `domain` built from the account's labels; none of them can lead to another domain.
fn host_from_labels(labels: &[(&'static str, &str)], domain: &str) -> Result<String, Error> {
    for (param, label) in labels {
        if label.contains('.') || host_below(label, &["x"]).is_none() {
            let message = format!("{param} must be letters, digits and hyphens: it is part of the host.");
            return Err(Error::invalid_request(*param, message).with_provider(SPEC.id));
        }
    }
    let labels: Vec<String> = labels.iter().map(|(_, label)| label.to_ascii_lowercase()).collect();
    Ok(format!("https://{}.{domain}", labels.join(".")))
}

/// The path segments, version included, between the path of the base URL and the client's path.
fn prefix(api: Api, path: &str, account: &Account) -> &'static str {
    let versioned = ends_in_version(&format!("host{path}"));
    match api {
        Api::Claude if versioned => "",
        Api::Claude if path.contains("anthropic") => "/v1",
        Api::Claude => "/anthropic/v1",
        Api::OpenAi if versioned || path.contains("/deployments/") => "",
        Api::OpenAi if path.contains("/openai") => "/v1",
        Api::OpenAi => "/openai/v1",
        Api::Inference if path.is_empty() && resource(account).is_some() => "/models",
        Api::Inference => "",
    }
}

impl Provider for AzureAi {
    fn id(&self) -> &'static str {
        SPEC.id
    }

    fn base_url(&self, account: &Account) -> Result<Cow<'static, str>, Error> {
        let cloud = &account.cloud_c;
        let region = || cloud.region.as_deref().ok_or_else(|| missing("cloud_c_region", "of the endpoint"));
        match cloud.deployment_type {
            Some(DeploymentType::Serverless) => {
                let name = cloud.deployment_name.as_deref();
                let name =
                    name.ok_or_else(|| missing("cloud_c_deployment_name", "of the serverless deployment"))?;
                let labels = [("cloud_c_deployment_name", name), ("cloud_c_region", region()?)];
                host_from_labels(&labels, "models.ai.azure.com").map(Cow::Owned)
            }
            Some(DeploymentType::Managed) => {
                let name = cloud.endpoint_name.as_deref();
                let name = name.ok_or_else(|| missing("cloud_c_endpoint_name", "of the managed endpoint"))?;
                let labels = [("cloud_c_endpoint_name", name), ("cloud_c_region", region()?)];
                Ok(Cow::Owned(format!("{}/score", host_from_labels(&labels, "inference.ml.azure.com")?)))
            }
            None if account.resource_name.is_some() => SPEC.base_url(account),
            None => Err(missing("resource_name", "or cloud_c_deployment_type with its names")),
        }
    }

    /// A Foundry URL often ends in the path of one API (`/models`), which is removed for calls to another one.
    fn base_path<'a>(&self, call: &Call<'_>, account: &Account, path: &'a str) -> &'a str {
        let is_other_api = match Api::from_call(call, account) {
            Api::Claude => !path.contains("anthropic"),
            Api::OpenAi => !path.contains("/openai"),
            Api::Inference => false,
        };
        if is_other_api && path == "/models" { "" } else { path }
    }

    fn path(&self, call: &Call<'_>, account: &Account) -> Result<String, Error> {
        address::check_path(call.path, SPEC.id)?;
        let api = Api::from_call(call, account);
        let base_path = account.custom_host.as_deref().map(address::path_of).unwrap_or_default();
        let base_path = self.base_path(call, account, base_path);
        let prefix = prefix(api, base_path, account);
        if api == Api::Claude && call.operation == Operation::ChatCompletions {
            return Ok(format!("{prefix}/messages"));
        }
        let mut target = PathAndQuery::new(format!("{prefix}/{}", call.path), call.query);
        let dated = api == Api::Inference || (api == Api::OpenAi && base_path.contains("/deployments/"));
        match version(account) {
            Version::Dated(version) if dated => target.set_default("api-version", version),
            Version::Undated(Some(value)) if api != Api::Claude => target.set_default("api-version", value),
            Version::Dated(_) | Version::Undated(_) => {}
        }
        Ok(target.write())
    }

    fn adapter(&self, call: &Call<'_>, account: &Account) -> Result<Adapter, Error> {
        use Operation as O;
        let api = Api::from_call(call, account);
        let chat = chat_adapter(call.model, account);
        Ok(match (call.operation, api) {
            (O::ChatCompletions | O::Completions | O::Responses | O::ResponsesCompact, Api::Claude) => {
                Adapter::Chat(&AnthropicChat::OWN)
            }
            (operation, Api::Claude) if operation.is_gemini_chat() => Adapter::Chat(&AnthropicChat::OWN),
            (operation, _) if operation.is_gemini_chat() => Adapter::Chat(chat),
            (O::ChatCompletions, _) => Adapter::Passthrough(Some(&CHAT_PATCH)),
            (O::Messages | O::CountTokens, Api::OpenAi | Api::Inference) => Adapter::Chat(chat),
            (O::Completions | O::Responses | O::ResponsesCompact, Api::Inference) => Adapter::Chat(chat),
            (operation, api) if operation.is_stored_response() && api != Api::OpenAi => {
                return Err(SPEC.no_stored_responses(call));
            }
            _ => Adapter::Passthrough(None),
        })
    }

    fn auth_varies(&self) -> bool {
        true
    }

    fn takes_stream_options(&self, call: &Call<'_>) -> bool {
        call.operation == Operation::ChatCompletions
    }

    fn takes_anthropic_version(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Messages | Operation::CountTokens | Operation::Passthrough)
    }

    fn beta_host(&self, operation: Operation, _model: &str) -> Option<BetaHost> {
        let is_messages = matches!(operation, Operation::Messages | Operation::CountTokens);
        is_messages.then_some(BetaHost::Own)
    }

    fn mark_form(&self, target: &CallTarget<'_>) -> Option<MarkForm> {
        let is_claude = Api::from_call(target.call, target.account) == Api::Claude;
        MarkForm::of_messages(target.call.operation).filter(|_| is_claude)
    }

    /// Edits for the model's quirks; also warns about parameters that Azure will drop.
    fn edits(
        &self,
        body: &Body,
        target: &CallTarget<'_>,
        notes: &mut TranslationNotes,
    ) -> Result<Vec<Edit<'static>>, Error> {
        let call = target.call;
        match call.operation {
            Operation::ChatCompletions => {}
            Operation::Messages | Operation::CountTokens => {
                return anthropic::edits(body, BetaHost::Own, notes);
            }
            _ => return Ok(Vec::new()),
        }
        let drops = matches!(target.account.cloud_c.extra_parameters.as_deref(), None | Some("drop"));
        let inference = Api::from_call(call, target.account) == Api::Inference;
        if drops && inference {
            for name in body.names().filter(|name| !INFERENCE_PARAMS.contains(name)) {
                notes.warn(
                    name,
                    "left out by Azure where the model inference API does not know it; cloud_c_extra_parameters \
                     pass-through hands it to the model",
                );
            }
        }
        chat_adapter(call.model, target.account).edits(body, target.account, notes)
    }

    fn takes_api_version(&self) -> bool {
        true
    }

    fn token_exchange(&self, account: &Account) -> Result<Option<Arc<dyn TokenExchange>>, Error> {
        auth::token_exchange(account, SPEC.id)
    }

    fn authorize(&self, call: &Call<'_>, account: &Account, headers: &mut HeaderMap) -> Result<(), Error> {
        let cloud = &account.cloud_c;
        if Api::from_call(call, account) == Api::Claude {
            auth::authorize(SPEC.id, KeyPlacement::XApiKey, account, headers)?;
            auth::write(
                "anthropic-version",
                "anthropic_version",
                account.anthropic_version.as_deref(),
                headers,
            )?;
            auth::write("anthropic-beta", "anthropic_beta", account.anthropic_beta.as_deref(), headers)?;
            headers.entry("anthropic-version").or_insert(HeaderValue::from_static("2023-06-01"));
            return Ok(());
        }
        auth::authorize(SPEC.id, KeyPlacement::Both, account, headers)?;
        let extra = cloud.extra_parameters.as_deref();
        auth::write("extra-parameters", "cloud_c_extra_parameters", extra, headers)?;
        if Api::from_call(call, account) == Api::Inference {
            headers.entry("extra-parameters").or_insert(HeaderValue::from_static("drop"));
        }
        // A managed endpoint may hold several deployments; this header selects one.
        let deployment = cloud.deployment_name.as_deref();
        let managed = cloud.deployment_type != Some(DeploymentType::Serverless);
        let deployment = deployment.filter(|_| managed);
        auth::write("azureml-model-deployment", "cloud_c_deployment_name", deployment, headers)
    }
}
