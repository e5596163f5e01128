//! Google's Vertex AI (cloud B): Gemini and the models of its partners, by project and region.
//!
//! Gemini is called with its own API ([`super::gemini`]), Claude with Anthropic's ([`super::anthropic`]), all
//! others with OpenAI's. Requests carry a token: the given `api_key`, or one fetched for a service account or
//! for the machine. Sources: the pages named where they are used.

mod address;
mod batch_jobs;
mod credential_source;
mod credentials;
mod fine_tuning;
mod images;
mod model;
mod partner;

use super::adapter::{Adapter, CallTarget};
use super::anthropic::generation::Generation;
use super::anthropic::{self, AnthropicChat, BetaHost};
use super::batch_jobs::BatchJobs;
use super::fine_tuning::training::TrainingFormat;
use super::gemini::count::Count;
use super::gemini::embeddings::Embeddings;
use super::gemini::{Gemini, models};
use super::openai_chat::CHAT_PATCH;
use super::rescue::Prefill;
use super::spec::{CustomHost, Host, ProviderSpec};
use super::token_exchange::TokenExchange;
use super::translation_notes::TranslationNotes;
use super::{Call, Provider};
use credential_source::CredentialSource;
use http::HeaderMap;
use model::{ModelApi, ModelName};
use partner::Partner;
use std::borrow::Cow;
use std::sync::Arc;
use words::api::body::{Body, Edit};
use words::api::operation::Operation;
use words::api::{Dialect, gemini};
use words::config::account::Account;
use words::error::Error;
use words::json::Json;

const ID: &str = "vertex-ai";

/// Vertex AI.
#[derive(Debug)]
pub struct Vertex;

/// Vertex AI's entry in the provider list; the addresses are built in this folder.
pub static SPEC: ProviderSpec = ProviderSpec {
    id: ID,
    host: Host::Made("https://{cloud_b_region}-aiplatform.googleapis.com"),
    prefix: "",
    custom_host: CustomHost::Prefixed("/v1"),
    note: "needs cloud_b_region and a project; key: a token, a service account or the machine's own identity",
    source: "https://docs.cloud.google.com/vertex-ai/docs/reference/rest",
    ..ProviderSpec::PLAIN
};

static CLAUDE: AnthropicChat = AnthropicChat::VERTEX;
static COUNT: Count = Count(Gemini::Vertex);
const ANTHROPIC_VERSION: &str = "\"vertex-2023-10-16\"";

impl Provider for Vertex {
    fn id(&self) -> &'static str {
        ID
    }

    fn neutral_headers(&self) -> &'static [(&'static str, &'static str)] {
        &[("x-cloud-b-llm-request-type", "x-vertex-ai-llm-request-type")]
    }

    fn base_url(&self, account: &Account) -> Result<Cow<'static, str>, Error> {
        address::base(account).map(Cow::Owned)
    }

    fn other_base_url(
        &self,
        call: &Call<'_>,
        _account: &Account,
    ) -> Result<Option<Cow<'static, str>>, Error> {
        Ok(address::is_storage(call).then_some(Cow::Borrowed(address::STORAGE_HOST)))
    }

    fn path(&self, call: &Call<'_>, account: &Account) -> Result<String, Error> {
        address::path(call, account)
    }

    fn adapter(&self, call: &Call<'_>, _account: &Account) -> Result<Adapter, Error> {
        let named = ModelName::parse(call.model.unwrap_or_default());
        let chats = call.operation.is_chat();
        Ok(match (named.api, call.operation) {
            (_, Operation::Passthrough) => Adapter::Passthrough(None),
            (_, operation) if operation.is_fine_tuning() => return fine_tuning::JOBS.adapter(operation),
            (_, Operation::Models) => Adapter::Json(&models::Listing),
            (_, Operation::ModelsGet) => Adapter::Json(&models::Single),
            (ModelApi::Gemini, operation) if self.has_gemini(operation, call.model) => {
                Adapter::Passthrough(None)
            }
            (ModelApi::Gemini, _) if chats => Adapter::Chat(&Gemini::Vertex),
            (ModelApi::Gemini, Operation::Embeddings) => Adapter::Json(Embeddings::on_vertex(named.name)),
            (ModelApi::Gemini, Operation::CountTokens) => Adapter::Json(&COUNT),
            (ModelApi::Gemini, Operation::Images) => Adapter::Json(&images::Imagen),
            (ModelApi::Anthropic, Operation::Messages | Operation::CountTokens) => Adapter::Passthrough(None),
            (ModelApi::Anthropic, _) if chats => Adapter::Chat(&CLAUDE),
            (_, Operation::ChatCompletions) => Adapter::Passthrough(Some(&CHAT_PATCH)),
            (api, operation) if chats || operation == Operation::CountTokens => {
                Adapter::Chat(Partner::from_api(api))
            }
            (_, operation) if operation.is_stored_response() => return Err(SPEC.no_stored_responses(call)),
            (_, operation) => {
                let message = format!(
                    "vertex-ai has no {} for this model. Gemini and Claude have chats in every dialect, Google's \
                     models embeddings and images.",
                    operation.label()
                );
                return Err(Error::not_implemented(message).with_provider(ID));
            }
        })
    }

    fn edits(
        &self,
        body: &Body,
        target: &CallTarget<'_>,
        notes: &mut TranslationNotes,
    ) -> Result<Vec<Edit<'static>>, Error> {
        let named = ModelName::parse(target.model);
        let model = || Edit::Set("model", Cow::Owned(Json::from_value(&named.in_body()).get().to_owned()));
        Ok(match (named.api, target.call.operation) {
            (_, Operation::Passthrough) => Vec::new(),
            (ModelApi::Anthropic, operation) => {
                let mut edits = anthropic::edits(body, BetaHost::at_vertex(operation), notes)?;
                let counts = operation == Operation::CountTokens;
                edits.push(if counts { model() } else { Edit::Remove("model") });
                if !counts && body.raw("anthropic_version").is_none() {
                    edits.push(Edit::Set("anthropic_version", Cow::Borrowed(ANTHROPIC_VERSION)));
                }
                edits
            }
            (ModelApi::Gemini, operation) if operation.dialect() == Dialect::Google => {
                gemini::foreign_signatures(body)?.into_iter().collect()
            }
            (ModelApi::Gemini, _) => Vec::new(),
            (api, _) => {
                let mut edits = Partner::from_api(api).chat().edits(body, target.account, notes)?;
                edits.push(model());
                edits
            }
        })
    }

    fn has_gemini(&self, operation: Operation, model: Option<&str>) -> bool {
        let is_served = operation.is_gemini_chat() || operation == Operation::GeminiCountTokens;
        is_served && ModelName::parse(model.unwrap_or_default()).api == ModelApi::Gemini
    }

    fn training_format(&self) -> Option<TrainingFormat> {
        fine_tuning::JOBS.0.training_format()
    }

    fn sends_cancelled_job(&self) -> bool {
        false
    }

    fn beta_host(&self, operation: Operation, model: &str) -> Option<BetaHost> {
        (ModelName::parse(model).api == ModelApi::Anthropic).then(|| BetaHost::at_vertex(operation))
    }

    fn prefill(&self, model: &str) -> Prefill {
        let named = ModelName::parse(model);
        match named.api {
            ModelApi::Anthropic => Generation::from_model(named.name).prefill(),
            _ => Prefill::No,
        }
    }

    fn batch_jobs(&self) -> Option<&'static dyn BatchJobs> {
        Some(&batch_jobs::PredictionJobs)
    }

    fn token_exchange(&self, account: &Account) -> Result<Option<Arc<dyn TokenExchange>>, Error> {
        Ok(match CredentialSource::from_account(account) {
            CredentialSource::Key | CredentialSource::Unauthenticated => None,
            CredentialSource::ServiceAccount => {
                Some(Arc::new(credentials::ServiceAccount::from_account(account)?))
            }
            CredentialSource::Machine => Some(Arc::new(credentials::Machine)),
        })
    }

    fn authorize(&self, _call: &Call<'_>, account: &Account, headers: &mut HeaderMap) -> Result<(), Error> {
        credential_source::write_key(account, headers)
    }
}

#[cfg(test)]
mod tests;
