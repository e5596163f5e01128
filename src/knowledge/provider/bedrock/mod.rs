//! Amazon Bedrock (cloud A): chat through Converse, embeddings and rerank through invoke, batches as model
//! invocation jobs, all requests signed.
//!
//! Source: <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_Operations_Amazon_Bedrock_Runtime.html>.
//! Of Bedrock's control plane, which has another host: jobs that customize models (`fine_tuning`).

mod address;
mod auth;
mod batch_jobs;
mod cached_models;
mod converse;
mod count_tokens;
mod credentials;
mod embeddings;
mod fine_tuning;
mod frames;
mod model;
#[cfg(test)]
mod recordings;
mod rerank;
mod response;
mod signing;
#[cfg(test)]
pub(crate) mod testing;

pub use signing::{Keys, Scope, sign};

use super::adapter::{Adapter, CallTarget};
use super::anthropic::generation::Generation;
use super::batch_jobs::BatchJobs;
use super::fine_tuning::training::TrainingFormat;
use super::key::Key;
use super::prompt_marks::MarkForm;
use super::rescue::Prefill;
use super::spec::{CustomHost, Host, ProviderSpec};
use super::token_exchange::{Credentials, TokenExchange};
use super::{Call, Provider, Signing};
use auth::Auth;
use http::HeaderMap;
use model::{Family, Model};
use std::borrow::Cow;
use std::sync::Arc;
use words::api::operation::Operation;
use words::config::account::Account;
use words::error::Error;

/// Amazon Bedrock.
#[derive(Debug)]
pub struct Bedrock;

/// Bedrock's entry in the provider list, for the documentation and its test. Address and authorization are
/// decided in this folder, not by the spec.
pub static SPEC: ProviderSpec = ProviderSpec {
    id: "bedrock",
    host: Host::Fixed("https://bedrock-runtime.us-east-1.amazonaws.com"),
    prefix: "",
    custom_host: CustomHost::Base,
    key: Key::BEARER,
    note: "region by `cloud_a_region`; signed with `cloud_a_access_key_id` and `cloud_a_secret_access_key`, an \
           assumed role or the machine's role; an API key is sent as bearer",
    source: "https://docs.aws.amazon.com/bedrock/latest/APIReference/welcome.html",
    ..ProviderSpec::PLAIN
};

/// The service name in signatures.
const SERVICE: &str = "bedrock";

/// The type of a server tool's result in `content_blocks` when Bedrock does not name one.
const SERVER_RESULT: &str = "server_tool_result";

impl Provider for Bedrock {
    fn id(&self) -> &'static str {
        SPEC.id
    }

    fn base_url(&self, account: &Account) -> Result<Cow<'static, str>, Error> {
        address::base_url(account)
    }

    fn path(&self, call: &Call<'_>, account: &Account) -> Result<String, Error> {
        if call.operation.is_fine_tuning() {
            return fine_tuning::JOBS.path(call, account);
        }
        if let Some(action) = address::action(call) {
            return address::model_path(call, account, action);
        }
        let path = SPEC.path(call, account)?;
        match address::other_host(call, account)? {
            Some((_, path)) => Ok(path),
            None => Ok(path),
        }
    }

    fn other_base_url(&self, call: &Call<'_>, account: &Account) -> Result<Option<Cow<'static, str>>, Error> {
        if call.operation.is_fine_tuning() {
            return address::control_url(account).map(Some);
        }
        Ok(address::other_host(call, account)?.map(|(host, _)| Cow::Owned(host)))
    }

    fn adapter(&self, call: &Call<'_>, account: &Account) -> Result<Adapter, Error> {
        match call.operation {
            Operation::Passthrough => Ok(Adapter::Passthrough(None)),
            operation if operation.is_chat() => Ok(Adapter::Chat(&converse::Converse)),
            Operation::Embeddings => embeddings::adapter(call, account).map(Adapter::Json),
            Operation::CountTokens => Ok(Adapter::Json(&count_tokens::CountTokens)),
            Operation::Rerank => Ok(Adapter::Json(&rerank::Rerank)),
            operation if operation.is_fine_tuning() => fine_tuning::JOBS.adapter(operation),
            other => {
                let message = format!(
                    "bedrock has no {} at the address this gateway knows of it. Choose another provider.",
                    other.label()
                );
                Err(Error::not_implemented(message).with_provider(SPEC.id))
            }
        }
    }

    /// Claude behaves on Converse as at Anthropic:
    /// <https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages.html>.
    /// The model behind an application profile's ARN is unknown here.
    fn prefill(&self, model: &str) -> Prefill {
        let model = Model::from_name(model);
        match model.family {
            Family::Anthropic => Generation::from_model(model.id).prefill(),
            _ => Prefill::No,
        }
    }

    fn mark_form(&self, target: &CallTarget<'_>) -> Option<MarkForm> {
        let model = Model::resolve(target.model, target.account);
        let is_converse = target.call.operation == Operation::ChatCompletions;
        cached_models::mark_form(&model).filter(|_| is_converse)
    }

    fn takes_betas_in_body(&self, operation: Operation) -> bool {
        operation.is_chat() || operation == Operation::CountTokens
    }

    fn batch_jobs(&self) -> Option<&'static dyn BatchJobs> {
        Some(&batch_jobs::InvocationJobs)
    }

    fn token_exchange(&self, account: &Account) -> Result<Option<Arc<dyn TokenExchange>>, Error> {
        match Auth::from_account(account)? {
            Auth::Temporary => credentials::token_exchange(account).map(Some),
            Auth::Keys | Auth::ApiKey | Auth::Unauthenticated => Ok(None),
        }
    }

    fn sign(
        &self,
        signing: &Signing<'_>,
        account: &Account,
        credentials: Option<&Credentials>,
        headers: &mut HeaderMap,
    ) -> Result<(), Error> {
        let keys = match credentials {
            Some(Credentials::Aws { access_key_id, secret_access_key, session_token }) => {
                signing::Keys::from_secrets(access_key_id, secret_access_key, session_token.as_ref())?
            }
            Some(Credentials::Bearer(token)) => {
                headers.insert(http::header::AUTHORIZATION, super::key::bearer(token)?);
                return Ok(());
            }
            None => {
                let cloud = &account.cloud_a;
                let (Some(id), Some(secret)) = (&cloud.access_key_id, &cloud.secret_access_key) else {
                    return Ok(());
                };
                signing::Keys::from_secrets(id, secret, cloud.session_token.as_ref())?
            }
        };
        let service = address::service(signing.url, account);
        let scope = signing::Scope { service, region: &address::region(account)? };
        signing::sign(signing, &keys, &scope, headers)
    }

    fn training_format(&self) -> Option<TrainingFormat> {
        fine_tuning::JOBS.0.training_format()
    }

    fn sends_cancelled_job(&self) -> bool {
        false
    }

    fn signs(&self, account: &Account) -> bool {
        matches!(Auth::from_account(account), Ok(Auth::Keys | Auth::Temporary))
    }

    fn authorize(&self, _call: &Call<'_>, account: &Account, headers: &mut HeaderMap) -> Result<(), Error> {
        auth::write_key(account, headers)
    }
}

#[cfg(test)]
mod tests;
