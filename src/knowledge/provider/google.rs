//! Google's Gemini API at generativelanguage.googleapis.com: chat, embeddings, models and token counts in
//! Gemini's own format; all other OpenAI operations go to Google's OpenAI-compatible endpoint.
//!
//! The format itself is in [`super::gemini`].

mod batch_jobs;

use super::adapter::{Adapter, CallTarget};
use super::batch_jobs::BatchJobs;
use super::gemini::count::Count;
use super::gemini::embeddings::Embeddings;
use super::gemini::{Gemini, models, own_edits};
use super::key::Key;
use super::spec::{CustomHost, Host, ProviderSpec, encode_segment};
use super::translation_notes::TranslationNotes;
use super::{Call, Provider};
use http::HeaderMap;
use std::borrow::Cow;
use words::api::Dialect;
use words::api::body::{Body, Edit};
use words::api::operation::Operation;
use words::config::account::Account;
use words::error::Error;

/// The provider `google`.
#[derive(Debug)]
pub struct Google;

/// Sources: <https://ai.google.dev/api> (`x-goog-api-key`), <https://ai.google.dev/gemini-api/docs/openai>.
pub static SPEC: ProviderSpec = ProviderSpec {
    id: "google",
    aliases: &["gemini"],
    host: Host::Fixed("https://generativelanguage.googleapis.com"),
    prefix: "/v1beta",
    custom_host: CustomHost::Prefixed("/v1beta"),
    key: Key { header: "x-goog-api-key", prefix: "", required: true },
    note: "images, files and batches go to the OpenAI-compatible endpoint under openai/; /v1/proxy paths are Google's own",
    source: "https://ai.google.dev/api",
    ..ProviderSpec::PLAIN
};

/// Path and query of a call that is served in Gemini's own format; `None` for all others.
fn native<'a>(call: &Call<'a>) -> Option<(Place, Option<&'a str>)> {
    Some(match call.operation {
        operation if operation.is_chat() => {
            if call.streamed {
                (Place::Model(":streamGenerateContent"), Some("alt=sse"))
            } else {
                (Place::Model(":generateContent"), None)
            }
        }
        Operation::Embeddings => (Place::Model(Embeddings::Batch.method()), None),
        Operation::CountTokens | Operation::GeminiCountTokens => (Place::Model(":countTokens"), None),
        Operation::EmbedContent => (Place::Model(":embedContent"), None),
        Operation::BatchEmbedContents => (Place::Model(":batchEmbedContents"), None),
        Operation::GeminiModels => (Place::Same, call.query),
        Operation::GeminiModelsGet => (Place::Model(""), None),
        // One page of 1000 holds all models; OpenAI's list has no paging.
        Operation::Models => (Place::Same, Some("pageSize=1000")),
        Operation::ModelsGet => (Place::Same, None),
        _ => return None,
    })
}

enum Place {
    /// A method of the call's model.
    Model(&'static str),
    /// The client's path, unchanged.
    Same,
}

/// The part of a path that stands above the version segment, and the rest.
fn above_version(path: &str) -> Option<(&str, &str)> {
    path.split_once('/').filter(|(above, _)| matches!(*above, "upload" | "download"))
}

/// Whether a call goes to the OpenAI-compatible endpoint: operations that are not translated, and paths
/// under `openai/`.
fn is_compatible(call: &Call<'_>) -> bool {
    match call.operation {
        Operation::Passthrough => call.path.starts_with("openai/"),
        _ => native(call).is_none(),
    }
}

impl Provider for Google {
    fn id(&self) -> &'static str {
        SPEC.id
    }

    fn aliases(&self) -> &'static [&'static str] {
        SPEC.aliases
    }

    fn base_url(&self, account: &Account) -> Result<Cow<'static, str>, Error> {
        SPEC.base_url(account)
    }

    fn path(&self, call: &Call<'_>, account: &Account) -> Result<String, Error> {
        // The client's query belongs to another API, so only passed-through paths keep it.
        match native(call) {
            Some((Place::Model(method), query)) => {
                let path = format!("{}{method}", model_path(call.model)?);
                SPEC.path(&Call { path: &path, query, ..*call }, account)
            }
            Some((Place::Same, query)) => SPEC.path(&Call { query, ..*call }, account),
            // Contents of files are above the version segment: `/upload/v1beta/files`.
            None if call.operation == Operation::Passthrough => match above_version(call.path) {
                Some((above, path)) => {
                    Ok(format!("/{above}{}", SPEC.path(&Call { path, ..*call }, account)?))
                }
                // Written with the version, a path is none of OpenAI's operations: `v1beta/batches`.
                None => {
                    let path = call.path.strip_prefix("v1beta/").unwrap_or(call.path);
                    SPEC.path(&Call { path, ..*call }, account)
                }
            },
            None => SPEC.path(&Call { path: &format!("openai/{}", call.path), ..*call }, account),
        }
    }

    fn adapter(&self, call: &Call<'_>, _account: &Account) -> Result<Adapter, Error> {
        Ok(match call.operation {
            // A client that speaks Gemini's API itself.
            operation if operation.dialect() == Dialect::Google => Adapter::Passthrough(None),
            operation if operation.is_chat() => Adapter::Chat(&Gemini::Studio),
            Operation::Embeddings => Adapter::Json(&Embeddings::Batch),
            Operation::CountTokens => Adapter::Json(&Count(Gemini::Studio)),
            Operation::Models => Adapter::Json(&models::Listing),
            Operation::ModelsGet => Adapter::Json(&models::Single),
            operation if operation.is_stored_response() => return Err(SPEC.no_stored_responses(call)),
            _ => Adapter::Passthrough(None),
        })
    }

    fn edits(
        &self,
        body: &Body,
        target: &CallTarget<'_>,
        _notes: &mut TranslationNotes,
    ) -> Result<Vec<Edit<'static>>, Error> {
        Ok(match target.call.operation.dialect() {
            Dialect::Google => own_edits(body, &model_path(Some(target.model))?)?,
            _ => Vec::new(),
        })
    }

    fn batch_jobs(&self) -> Option<&'static dyn BatchJobs> {
        Some(&batch_jobs::GeminiJobs)
    }

    fn has_gemini(&self, operation: Operation, _model: Option<&str>) -> bool {
        operation.dialect() == Dialect::Google
    }

    fn authorize(&self, call: &Call<'_>, account: &Account, headers: &mut HeaderMap) -> Result<(), Error> {
        // The compatible endpoint accepts bearer tokens only, and an OAuth token is always a bearer.
        let is_token = account.api_key.as_ref().is_some_and(|key| key.expose().starts_with("ya29."));
        let key = if is_token || is_compatible(call) { Key::BEARER } else { SPEC.key };
        key.write(SPEC.id, account, headers)
    }
}

/// `models/<model>`, or the name unchanged where it includes its collection (`tunedModels/x`).
fn model_path(model: Option<&str>) -> Result<String, Error> {
    let model = model.filter(|model| !model.is_empty()).ok_or_else(|| {
        Error::invalid_request("model", "model is missing: Gemini has it in its path.").with_provider(SPEC.id)
    })?;
    let model = model.strip_prefix("google/").unwrap_or(model);
    Ok(match model.split_once('/') {
        Some((kind @ ("models" | "tunedModels"), name)) => format!("{kind}/{}", encode_segment(name)),
        _ => format!("models/{}", encode_segment(model)),
    })
}
