//! Cloudflare's Workers AI: OpenAI's shape, except for the list of models.
//!
//! Not Cloudflare's AI Gateway, which is reached by using its URL as custom host. Cloudflare's older API
//! (`/ai/run/{model}`) is only reachable through the proxy route.

use super::adapter::{Adapter, CallTarget, JsonAdapter};
use super::openai_models::{Model, ModelList};
use super::spec::{Host, ProviderSpec};
use super::translation_notes::TranslationNotes;
use super::{Call, Provider};
use http::HeaderMap;
use serde::Deserialize;
use std::borrow::Cow;
use words::api::body::{Body, Edit};
use words::api::chat::ProviderError;
use words::api::operation::Operation;
use words::config::account::Account;
use words::error::Error;
use words::json::JsonStr;

/// The provider `workers-ai`.
#[derive(Debug)]
pub(crate) struct WorkersAi;

/// Everything but the list of models.
pub static SPEC: ProviderSpec = ProviderSpec {
    id: "workers-ai",
    host: Host::Fixed("https://api.cloudflare.com"),
    prefix: "/client/v4/accounts/{resource_name}/ai/v1",
    note: "resource_name is the account id; the OpenAI-compatible path, and Cloudflare's own for the list of models",
    source: "https://developers.cloudflare.com/workers-ai/configuration/open-ai-compatibility/",
    ..ProviderSpec::PLAIN
};

/// `GET /v1/models`. Cloudflare's search returns models by name, a hundred per page.
#[derive(Debug)]
struct Models;

#[derive(Deserialize)]
struct FoundIn<'a> {
    #[serde(borrow)]
    result: Vec<ModelIn<'a>>,
}

#[derive(Deserialize)]
struct ModelIn<'a> {
    /// `@cf/meta/llama-3.1-8b-instruct`; Cloudflare's `id` is a different identifier.
    #[serde(borrow)]
    name: JsonStr<'a>,
}

impl JsonAdapter for Models {
    fn read(&self, response: &[u8], _request: Option<&Body>, _model: &str) -> Result<Vec<u8>, ProviderError> {
        let found: FoundIn<'_> = serde_json::from_slice(response)
            .map_err(|_| ProviderError::unreadable("it is no list of Cloudflare's models"))?;
        let models = found.result.iter().map(|model| Model::named(&model.name, SPEC.id));
        serde_json::to_vec(&ModelList::new(models))
            .map_err(|error| ProviderError::new(500, error.to_string()))
    }
}

impl Provider for WorkersAi {
    fn id(&self) -> &'static str {
        SPEC.id
    }

    fn base_url(&self, account: &Account) -> Result<Cow<'static, str>, Error> {
        SPEC.base_url(account)
    }

    fn path(&self, call: &Call<'_>, account: &Account) -> Result<String, Error> {
        let path = SPEC
            .path(&Call { query: call.query.filter(|_| !lists_models(call, account)), ..*call }, account)?;
        match path.strip_suffix("/v1/models") {
            Some(ai) if lists_models(call, account) => {
                let query = call.query.unwrap_or("per_page=100");
                Ok(format!("{ai}/models/search?{query}"))
            }
            _ => Ok(path),
        }
    }

    fn adapter(&self, call: &Call<'_>, account: &Account) -> Result<Adapter, Error> {
        if lists_models(call, account) { Ok(Adapter::Json(&Models)) } else { SPEC.adapter(call, account) }
    }

    fn takes_stream_options(&self, call: &Call<'_>) -> bool {
        SPEC.takes_stream_options(call)
    }

    fn edits(
        &self,
        body: &Body,
        target: &CallTarget<'_>,
        notes: &mut TranslationNotes,
    ) -> Result<Vec<Edit<'static>>, Error> {
        SPEC.edits(body, target, notes)
    }

    fn authorize(&self, call: &Call<'_>, account: &Account, headers: &mut HeaderMap) -> Result<(), Error> {
        SPEC.authorize(call, account, headers)
    }
}

/// Whether the call lists models at Cloudflare itself. A custom host's list is passed through.
fn lists_models(call: &Call<'_>, account: &Account) -> bool {
    call.operation == Operation::Models && account.custom_host.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_become_openais_list() {
        let response =
            br#"{"success":true,"errors":[],"result":[{"id":"1-2","name":"@cf/meta/llama","task":{}}],
            "result_info":{"count":1}}"#;
        assert_eq!(
            String::from_utf8(Models.read(response, None, "").unwrap()).unwrap(),
            r#"{"object":"list","data":[{"id":"@cf/meta/llama","object":"model","created":0,"owned_by":"workers-ai"}]}"#
        );
        assert_eq!(Models.read(b"{}", None, "").unwrap_err().status, 502);
    }

    #[test]
    fn cloudflare_errors_are_read() {
        let body = br#"{"result":null,"success":false,"errors":[{"code":7003,"message":"Could not route"}],"messages":[]}"#;
        let error = ProviderError::read(404, body);
        assert_eq!((error.message.as_str(), error.code.as_deref()), ("Could not route", Some("7003")));
        let error = ProviderError::read(400, br#"{"errors":{"model":["is unknown"]}}"#);
        assert_eq!(error.message, r#"{"model":["is unknown"]}"#);
    }
}
