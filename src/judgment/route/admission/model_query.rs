//! Which requests are for the gateway's own list of models, and not for a provider's.

use super::endpoint::below_version;
use super::{PathForm, RequestHead};
use crate::route::model_names::is_named;
use http::Method;
use memory::auth::ClientIdentity;
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use words::api::model_list::ListShape;
use words::api::operation::Operation;
use words::config::headers::GatewayHeaders;
use words::error::Error;

/// A request for the gateway's list of models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelQuery {
    /// The one model that is wanted; `None` for the list.
    pub model: Option<String>,
    pub shape: ListShape,
}

impl ModelQuery {
    /// The operation. The name of a model may have slashes, so that its path is not in the table of operations.
    pub fn operation(&self) -> Operation {
        match (self.shape, &self.model) {
            (ListShape::Gemini, None) => Operation::GeminiModels,
            (ListShape::Gemini, Some(_)) => Operation::GeminiModelsGet,
            (_, None) => Operation::Models,
            (_, Some(_)) => Operation::ModelsGet,
        }
    }

    /// `None`: the request is for a provider: it names one, there are neither stored providers nor names, or it is no request for models.
    ///
    /// # Errors
    /// 400 for headers of the gateway's own that cannot be read.
    pub(super) fn find(head: &RequestHead<'_>, client: &ClientIdentity) -> Result<Option<Self>, Error> {
        let settings = &head.snapshot.settings;
        let directory = head.snapshot.directory(client.workspace);
        let has_own = || directory.providers().next().is_some() || directory.models().next().is_some();
        if !matches!(*head.method, Method::GET | Method::HEAD) || !has_own() {
            return Ok(None);
        }
        let (model, shape) = match head.endpoint.form {
            PathForm::Gemini => match head.endpoint.operation {
                Operation::GeminiModels => (None, ListShape::Gemini),
                _ => (head.endpoint.model(head.uri.path()).map(Cow::into_owned), ListShape::Gemini),
            },
            _ => {
                let Some(model) = plain_model(head.uri.path()) else { return Ok(None) };
                let is_anthropic = head.headers.contains_key("anthropic-version");
                (model, if is_anthropic { ListShape::Anthropic } else { ListShape::OpenAi })
            }
        };
        let headers = GatewayHeaders::read(head.headers, &settings.header_prefixes)?;
        if is_named(&headers) {
            return Ok(None);
        }
        // A name without a slug that is none of `models` is one of the default provider, which is asked for it.
        let is_plain =
            model.as_ref().is_some_and(|model| !model.starts_with('@') && directory.model(model).is_none());
        Ok(Some(Self { model, shape }).filter(|_| !is_plain || settings.default_config.is_none()))
    }
}

/// The model of `/v1/models/{model}`, or `None` in it for `/v1/models`; `None` for any other path.
fn plain_model(path: &str) -> Option<Option<String>> {
    let rest = below_version(path)?.strip_prefix("models")?;
    match rest.strip_prefix('/') {
        None if rest.is_empty() => Some(None),
        // The name of a model may have slashes, which some clients encode.
        Some(name) if !name.is_empty() => {
            Some(Some(percent_decode_str(name).decode_utf8_lossy().into_owned()))
        }
        _ => None,
    }
}
