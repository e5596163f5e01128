//! Azure OpenAI: a resource with models deployed under names of the customer's choice.
//!
//! With a dated API version the deployment is part of the path. With `v1`, the default, it is the body's `model`:
//!
//! - `2024-10-21`: `/openai/deployments/DEPLOYMENT/chat/completions?api-version=2024-10-21`
//! - `v1`: `/openai/v1/chat/completions`

use super::address::{self, PathAndQuery, Version};
use super::auth::{self, KeyPlacement};
use super::fine_tuning::JobPatch;
use crate::provider::adapter::{Adapter, CallTarget, ChatAdapter};
use crate::provider::call_ids::IdRule;
use crate::provider::key::Key;
use crate::provider::openai_chat::{CHAT_PATCH, OPENAI_CHAT};
use crate::provider::openai_responses::OpenAiResponses;
use crate::provider::spec::{CustomHost, Host, NativeApi, ProviderSpec, ends_in_version};
use crate::provider::token_exchange::TokenExchange;
use crate::provider::translation_notes::TranslationNotes;
use crate::provider::turn_order::TurnOrder;
use crate::provider::{Call, Provider};
use http::HeaderMap;
use std::borrow::Cow;
use std::sync::Arc;
use words::api::body::{Body, Edit};
use words::api::chat::{ChatRequest, Decoder};
use words::api::operation::Operation;
use words::config::account::{Account, Deployment};
use words::error::Error;

/// Azure OpenAI as a provider.
#[derive(Debug)]
pub struct AzureOpenAi;

/// Its entry in the provider table.
pub static SPEC: ProviderSpec = ProviderSpec {
    id: "azure-openai",
    host: Host::Below(&[
        "openai.azure.com",
        "cognitiveservices.azure.com",
        "services.ai.azure.com",
        "openai.azure.us",
        "openai.azure.cn",
    ]),
    prefix: "/openai",
    custom_host: CustomHost::Prefixed("/openai"),
    key: Key { header: "api-key", prefix: "", required: true },
    native_apis: &[
        NativeApi::Completions,
        NativeApi::StoredResponses,
        NativeApi::Compaction,
        NativeApi::CompactionTriggers,
    ],
    note: "resource_name; deployment_id, deployments or the requested model; api_version (default v1). \
           Or with a token: azure_ad_token, Entra ID, managed or workload identity. A custom host with a path \
           is the base URL",
    source: "https://learn.microsoft.com/azure/foundry/openai/api-version-lifecycle",
    ..ProviderSpec::PLAIN
};

/// The deployment and the API version of a call, as far as the account and the requested model determine them.
#[derive(Debug, Clone, Copy)]
struct DeploymentChoice<'a> {
    deployment: Option<&'a str>,
    version: Version<'a>,
}

impl<'a> DeploymentChoice<'a> {
    /// Chooses by precedence: the listed deployment whose alias or id is the requested model, the account's
    /// `deployment_id`, the default of the list, the model itself.
    fn select(model: Option<&'a str>, account: &'a Account) -> Result<Self, Error> {
        let model = model.filter(|model| !model.is_empty());
        let configured_version = account.api_version.as_deref().or(account.cloud_c.api_version.as_deref());
        let list = &account.deployments;
        let named = |each: &&Deployment| Some(each.alias.as_str()) == model;
        let same = |each: &&Deployment| Some(each.deployment_id.as_str()) == model;
        let item = list.iter().find(named).or_else(|| list.iter().find(same));
        let item = item.or_else(|| {
            let default = list.iter().find(|each| each.is_default);
            default.filter(|_| account.deployment_id.is_none())
        });
        if let Some(item) = item {
            let version = Version::new(Some(&item.api_version));
            return Ok(Self { deployment: Some(&item.deployment_id), version });
        }
        let deployment = account.deployment_id.as_deref();
        if let (Some(model), None, Some(first)) = (model, deployment, list.first()) {
            let aliases = list.iter().map(|each| each.alias.as_str()).collect::<Vec<_>>().join(", ");
            let message = format!(
                "{model} is the alias of no deployment ({aliases}), and none of them is the default. Ask for {}, \
                 or mark one with is_default.",
                first.alias
            );
            return Err(Error::invalid_request("model", message).with_provider(SPEC.id));
        }
        // A call without a model (files, batches) uses the version of the first deployment.
        let version = configured_version.or(list.first().map(|each| each.api_version.as_str()));
        Ok(Self { deployment: deployment.or(model), version: Version::new(version) })
    }

    fn deployment(&self) -> Result<&'a str, Error> {
        self.deployment.filter(|deployment| !deployment.is_empty()).ok_or_else(|| {
            let message =
                "azure-openai has the deployment in its path: give deployment_id, deployments or a model.";
            Error::invalid_request("deployment_id", message).with_provider(SPEC.id)
        })
    }
}

/// Whether the operation is addressed to a deployment. With dated versions its path is below the deployment;
/// responses and realtime name the deployment elsewhere.
fn is_inference(operation: Operation) -> bool {
    use Operation as O;
    matches!(
        operation,
        O::ChatCompletions
            | O::Completions
            | O::Embeddings
            | O::Images
            | O::ImageEdits
            | O::ImageVariations
            | O::Speech
            | O::Transcriptions
            | O::Translations
    )
}

/// The model that may be a deployment. A fine-tuning job names a base model.
fn deployed_model<'a>(call: &Call<'a>) -> Option<&'a str> {
    call.model.filter(|_| !call.operation.is_fine_tuning())
}

/// Whether the custom host ends in `/v1`, and the prefix to put before the client's path.
fn custom_host_prefix(account: &Account) -> (bool, &'static str) {
    match account.custom_host.as_deref().map(address::path_of) {
        None | Some("") => (false, "/openai"),
        Some(path) => (ends_in_version(&format!("h{path}")), ""),
    }
}

/// OpenAI's chat for clients of other dialects; `model` becomes the deployment.
#[derive(Debug)]
struct DeployedChat;

/// OpenAI's Responses API for clients of other dialects; `model` becomes the deployment.
#[derive(Debug)]
struct DeployedResponses;

/// The first dated version with the Responses API.
/// <https://learn.microsoft.com/azure/foundry/openai/how-to/responses>
const FIRST_RESPONSES: &str = "2025-03-01-preview";

impl ChatAdapter for DeployedResponses {
    fn write(
        &self,
        request: ChatRequest<'_>,
        target: &CallTarget<'_>,
        notes: &mut TranslationNotes,
    ) -> Result<Vec<u8>, Error> {
        let choice = DeploymentChoice::select(Some(target.model), target.account)?;
        let target = CallTarget { model: choice.deployment.unwrap_or(target.model), ..*target };
        OpenAiResponses.write(request, &target, notes)
    }

    fn operation(&self) -> Operation {
        OpenAiResponses.operation()
    }

    fn call_ids(&self) -> IdRule {
        OpenAiResponses.call_ids()
    }

    fn turn_order(&self, model: &str) -> TurnOrder {
        OpenAiResponses.turn_order(model)
    }

    fn decoder(&self, streamed: bool) -> Box<dyn Decoder> {
        OpenAiResponses.decoder(streamed)
    }
}

impl ChatAdapter for DeployedChat {
    fn write(
        &self,
        request: ChatRequest<'_>,
        target: &CallTarget<'_>,
        notes: &mut TranslationNotes,
    ) -> Result<Vec<u8>, Error> {
        let choice = DeploymentChoice::select(Some(target.model), target.account)?;
        let target = CallTarget { model: choice.deployment.unwrap_or(target.model), ..*target };
        OPENAI_CHAT.write(request, &target, notes)
    }

    fn call_ids(&self) -> IdRule {
        OPENAI_CHAT.call_ids()
    }

    fn turn_order(&self, model: &str) -> TurnOrder {
        OPENAI_CHAT.turn_order(model)
    }

    fn decoder(&self, streamed: bool) -> Box<dyn Decoder> {
        OPENAI_CHAT.decoder(streamed)
    }
}

impl Provider for AzureOpenAi {
    fn id(&self) -> &'static str {
        SPEC.id
    }

    fn base_url(&self, account: &Account) -> Result<Cow<'static, str>, Error> {
        SPEC.base_url(account)
    }

    fn path(&self, call: &Call<'_>, account: &Account) -> Result<String, Error> {
        address::check_path(call.path, SPEC.id)?;
        let choice = DeploymentChoice::select(deployed_model(call), account)?;
        let (ends_in_v1, prefix) = custom_host_prefix(account);
        // A client made for Azure sends the full path itself.
        let path = call.path.strip_prefix("openai/").unwrap_or(call.path);
        let is_full_path = path.starts_with("deployments/") || path.starts_with("v1/");
        let host_has_deployment = account
            .custom_host
            .as_deref()
            .is_some_and(|host| address::path_of(host).contains("/deployments/"));
        let dated_by_client = account.api_version.is_none() && address::has_version(call.query);
        let version = match choice.version {
            _ if ends_in_v1 => Version::Undated(None),
            Version::Undated(None) if dated_by_client || host_has_deployment => Version::Dated(""),
            version => version,
        };
        let realtime = call.operation == Operation::Realtime;
        let mut target = match version {
            _ if is_full_path || host_has_deployment || ends_in_v1 => {
                PathAndQuery::new(format!("{prefix}/{path}"), call.query)
            }
            Version::Undated(_) => PathAndQuery::new(format!("{prefix}/v1/{path}"), call.query),
            Version::Dated(_) if is_inference(call.operation) => {
                let deployment = address::segment("deployment_id", choice.deployment()?, SPEC.id)?;
                PathAndQuery::new(format!("{prefix}/deployments/{deployment}/{path}"), call.query)
            }
            Version::Dated(_) => PathAndQuery::new(format!("{prefix}/{path}"), call.query),
        };
        match version {
            Version::Undated(value) => {
                if let Some(value) = value {
                    target.set_default("api-version", value);
                }
                if realtime {
                    target.set("model", choice.deployment()?);
                }
            }
            Version::Dated(version) => {
                if !version.is_empty() {
                    target.set_default("api-version", version);
                }
                if realtime {
                    target.remove("model");
                    target.set_default("deployment", choice.deployment()?);
                }
            }
        }
        Ok(target.write())
    }

    fn adapter(&self, call: &Call<'_>, account: &Account) -> Result<Adapter, Error> {
        // Rejects an unknown alias before anything is translated for it.
        DeploymentChoice::select(deployed_model(call), account)?;
        Ok(match call.operation {
            Operation::Messages | Operation::CountTokens => Adapter::Chat(&DeployedChat),
            Operation::ChatCompletions => Adapter::Passthrough(Some(&CHAT_PATCH)),
            operation if operation.is_gemini_chat() => Adapter::Chat(&DeployedChat),
            operation if operation.is_fine_tuning() => Adapter::Passthrough(Some(&JobPatch)),
            _ => Adapter::Passthrough(None),
        })
    }

    fn takes_compaction_triggers(&self) -> bool {
        SPEC.takes_compaction_triggers()
    }

    /// Not where the path of the client or of the custom host names a deployment, nor with a version that has no Responses API.
    fn responses_chat(&self, call: &Call<'_>, account: &Account) -> Option<&'static dyn ChatAdapter> {
        let choice = DeploymentChoice::select(deployed_model(call), account).ok()?;
        let names_deployment = call.path.contains("deployments/")
            || account
                .custom_host
                .as_deref()
                .is_some_and(|host| address::path_of(host).contains("/deployments/"));
        let is_dated_by_client = account.api_version.is_none() && address::has_version(call.query);
        let has_api = match choice.version {
            Version::Undated(_) => !is_dated_by_client,
            Version::Dated(date) => date >= FIRST_RESPONSES,
        };
        (has_api && !names_deployment).then_some(&DeployedResponses)
    }

    /// Replaces the client's alias or model name by the deployment: with `v1` the body selects it, and for responses
    /// it does so with every version.
    fn takes_stream_options(&self, call: &Call<'_>) -> bool {
        matches!(call.operation, Operation::ChatCompletions | Operation::Completions)
    }

    fn edits(
        &self,
        body: &Body,
        target: &CallTarget<'_>,
        notes: &mut TranslationNotes,
    ) -> Result<Vec<Edit<'static>>, Error> {
        let operation = target.call.operation;
        if !is_inference(operation)
            && !matches!(operation, Operation::Responses | Operation::ResponsesCompact)
        {
            return Ok(Vec::new());
        }
        let choice = DeploymentChoice::select(Some(target.model), target.account)?;
        let mut edits = match operation {
            Operation::ChatCompletions => OPENAI_CHAT.edits(body, target.account, notes)?,
            _ => Vec::new(),
        };
        if let Some(deployment) = choice.deployment
            && body.text("model").as_deref() != Some(deployment)
        {
            edits.push(Edit::Set("model", serde_json::Value::from(deployment).to_string().into()));
        }
        Ok(edits)
    }

    fn takes_api_version(&self) -> bool {
        true
    }

    fn token_exchange(&self, account: &Account) -> Result<Option<Arc<dyn TokenExchange>>, Error> {
        auth::token_exchange(account, SPEC.id)
    }

    fn authorize(&self, _call: &Call<'_>, account: &Account, headers: &mut HeaderMap) -> Result<(), Error> {
        auth::authorize(SPEC.id, KeyPlacement::ApiKey, account, headers)?;
        auth::write("openai-beta", "openai_beta", account.openai_beta.as_deref(), headers)
    }
}
