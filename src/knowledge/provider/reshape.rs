//! Operations of Gemini's API that are no chat, at providers that have them in OpenAI's or Anthropic's shape: embeddings, counts of
//! tokens, lists of models.
//!
//! The shapes themselves are in `api::gemini`. Here is only which operation stands in for which, and the way there and back:
//! Gemini's request, OpenAI's, the provider's; the provider's response, OpenAI's, Gemini's.

use super::adapter::{CallTarget, ChatAdapter, JsonAdapter, ResponseContext, ResponsePatch};
use super::anthropic::AnthropicChat;
use super::conversation;
use super::translation_notes::TranslationNotes;
use super::{Call, Provider};
use serde::Deserialize;
use std::borrow::Cow;
use words::api::body::{Body, Edit};
use words::api::chat::ProviderError;
use words::api::gemini::{self, Embedding};
use words::api::operation::Operation;
use words::config::account::Account;
use words::error::Error;

/// One operation of Gemini's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reshape {
    Embed(Embedding),
    CountTokens,
    Models,
    ModelsGet,
}

/// How the response of the provider becomes Gemini's.
#[derive(Debug, Clone, Copy)]
pub struct Reshaped {
    pub reshape: Reshape,
    pub inner: Inner,
}

/// How it becomes OpenAI's or Anthropic's first.
#[derive(Debug, Clone, Copy)]
pub enum Inner {
    /// It is that already.
    Same,
    Json(&'static dyn JsonAdapter),
    Patch(&'static dyn ResponsePatch),
}

/// What Anthropic's count of tokens takes of a message.
const COUNTED: [&str; 6] = ["model", "messages", "system", "tools", "tool_choice", "thinking"];

impl Reshape {
    pub fn find(operation: Operation) -> Option<Self> {
        Some(match operation {
            Operation::EmbedContent => Self::Embed(Embedding::One),
            Operation::BatchEmbedContents => Self::Embed(Embedding::Batch),
            Operation::GeminiCountTokens => Self::CountTokens,
            Operation::GeminiModels => Self::Models,
            Operation::GeminiModelsGet => Self::ModelsGet,
            _ => return None,
        })
    }

    /// The operation that stands in for it, and its path.
    pub fn inner(self, model: &str) -> (Operation, Cow<'static, str>) {
        match self {
            Self::Embed(_) => (Operation::Embeddings, Cow::Borrowed("embeddings")),
            Self::CountTokens => (Operation::CountTokens, Cow::Borrowed("messages/count_tokens")),
            Self::Models => (Operation::Models, Cow::Borrowed("models")),
            Self::ModelsGet => (Operation::ModelsGet, Cow::Owned(format!("models/{model}"))),
        }
    }

    /// The body of that operation; `None` where it has none.
    ///
    /// # Errors
    /// 400 that names the `param`.
    pub fn request(
        self,
        provider: &dyn Provider,
        call: &Call<'_>,
        account: &Account,
        body: Option<&Body>,
        notes: &mut TranslationNotes,
    ) -> Result<Option<Body>, Error> {
        let model = call.model.unwrap_or_default();
        let body = || body.ok_or_else(|| Error::bad_request("The request body must be a JSON object."));
        let bytes = match self {
            Self::Models | Self::ModelsGet => return Ok(None),
            Self::Embed(kind) => {
                let is_google = provider.id() == "vertex-ai";
                let (bytes, mut warnings) = gemini::embeddings_request(kind, body()?, model, is_google)?;
                notes.warnings.append(&mut warnings);
                bytes
            }
            Self::CountTokens => {
                let mut request = gemini::counted(body()?)?;
                notes.warnings.append(&mut request.warnings);
                // What is not counted needs no warning.
                let mut unused = TranslationNotes::default();
                conversation::repair(&mut request.messages, &mut unused)?;
                let target = CallTarget { call, account, model, client_betas: None };
                AnthropicChat::OWN.write(request, &target, &mut unused)?
            }
        };
        let wrong = |_| Error::internal("a translated request could not be read again");
        let body = Body::parse(bytes.into()).map_err(wrong)?;
        if self != Self::CountTokens {
            return Ok(Some(body));
        }
        let others = body.names().filter(|name| !COUNTED.contains(name)).map(Edit::Remove);
        Body::parse(body.edit(&others.collect::<Vec<_>>())).map(Some).map_err(wrong)
    }

    /// The response of that operation in Gemini's shape.
    ///
    /// # Errors
    /// 502 for a response that is not the operation's.
    pub fn response(self, response: &[u8]) -> Result<Vec<u8>, ProviderError> {
        match self {
            Self::Embed(kind) => gemini::embeddings_response(kind, response),
            Self::Models => gemini::models_response(response),
            Self::ModelsGet => gemini::model_response(response),
            Self::CountTokens => {
                #[derive(Deserialize)]
                struct Count {
                    input_tokens: u64,
                }
                let count: Count = serde_json::from_slice(response)
                    .map_err(|_| ProviderError::unreadable("it holds no number of tokens"))?;
                Ok(gemini::count_response(count.input_tokens))
            }
        }
    }
}

impl Reshaped {
    /// The whole way back. `context`: its request is the body that the adapter wrote its own from.
    ///
    /// # Errors
    /// As [`Reshape::response`] and [`JsonAdapter::read`].
    pub fn read(&self, response: &[u8], context: &ResponseContext<'_>) -> Result<Vec<u8>, ProviderError> {
        let inner = match self.inner {
            Inner::Same => None,
            Inner::Json(adapter) => Some(adapter.read_in(response, context)?),
            Inner::Patch(patch) => patch.patch(response, false),
        };
        self.reshape.response(inner.as_deref().unwrap_or(response))
    }
}
