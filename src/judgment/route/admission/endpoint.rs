//! Finds the operation of a request by its method and path alone.
//!
//! Nothing is rejected here: the errors of later steps are written in the API format of the operation found here.

use crate::route::request_mode::RequestMode;
use http::{HeaderMap, Method};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use words::api::Dialect;
use words::api::operation::Operation;

/// An operation, and where its path begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    pub operation: Operation,
    pub mode: RequestMode,
    pub form: PathForm,
    /// Byte offset of the path below `/v1/`, `/v1/proxy/` or what stands for them in the path's form; the length of the
    /// path if there is nothing below it.
    pub path_offset: usize,
    /// Byte offsets of the model's name in the path, where its form has the model there.
    model: Option<(usize, usize)>,
}

/// Whose paths a request has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathForm {
    /// `/v1/...`, as OpenAI and Anthropic have them.
    Plain,
    /// Azure OpenAI's: `/openai/deployments/{deployment}/...`, `/openai/v1/...`, `/openai/...`. The deployment is the
    /// model. The operations, their bodies and their responses are OpenAI's.
    Azure,
    /// Gemini's, at Google (`/v1beta/models/{model}:generateContent`) and on Vertex AI
    /// (`/v1/projects/{p}/locations/{l}/publishers/google/models/{model}:generateContent`).
    Gemini,
    /// Any other path of Google's APIs, which is passed on.
    Google,
}

/// The versions of Google's APIs.
const GOOGLE_VERSIONS: [&str; 3] = ["/v1beta/", "/v1beta1/", "/v1alpha/"];

/// The header in which Google's SDKs name themselves.
const GOOGLE_CLIENT: &str = "x-goog-api-client";

/// What stands below `/v1/`. The base URL of a client that adds the version itself often has one already: `/v1/v1/`.
pub(super) fn below_version(path: &str) -> Option<&str> {
    let below = path.strip_prefix("/v1/")?;
    Some(below.strip_prefix("v1/").unwrap_or(below))
}

impl Endpoint {
    pub fn find(method: &Method, path: &str) -> Self {
        // The response to HEAD is that to GET without its body (RFC 9110, 9.3.2).
        let method = if *method == Method::HEAD { &Method::GET } else { method };
        if let Some(below) = path.strip_prefix("/openai/") {
            return Self::find_azure(method, path, below);
        }
        if let Some(below) = GOOGLE_VERSIONS.iter().find_map(|version| path.strip_prefix(version)) {
            return match below.strip_prefix("openai/") {
                // Google's own spelling of OpenAI's API.
                Some(below) => Self::listed(method, path, below, PathForm::Plain),
                None => Self::find_gemini(method, path, below),
            };
        }
        let below_version = below_version(path).unwrap_or_default();
        let is_gemini = below_version.starts_with("models/") && *method == Method::POST;
        if is_gemini || below_version.starts_with("publishers/") || below_version.starts_with("projects/") {
            return Self::find_gemini(method, path, below_version);
        }
        if let Some(offset) = mcp_offset(path) {
            let operation = Operation::Mcp;
            let mode = RequestMode::new(operation, false);
            return Self { operation, mode, form: PathForm::Plain, path_offset: offset, model: None };
        }
        let below_proxy = below_version.strip_prefix("proxy/");
        let relative = below_proxy.unwrap_or(below_version);
        let operation = Operation::find(method, relative);
        Self {
            operation,
            mode: RequestMode::new(operation, below_proxy.is_some()),
            form: PathForm::Plain,
            path_offset: path.len() - relative.len(),
            model: None,
        }
    }

    fn listed(method: &Method, path: &str, relative: &str, form: PathForm) -> Self {
        let operation = Operation::find(method, relative);
        let mode = RequestMode::new(operation, false);
        Self { operation, mode, form, path_offset: path.len() - relative.len(), model: None }
    }

    fn find_gemini(method: &Method, path: &str, below: &str) -> Self {
        let is_vertex = below.starts_with("publishers/") || below.starts_with("projects/");
        let published = below.split_once("publishers/").and_then(|(_, rest)| rest.split_once('/'));
        let relative = match published.filter(|_| is_vertex) {
            // A slug: google-genai takes what stands before a slash for the publisher.
            Some((publisher, relative)) if publisher == "google" || is_slug(publisher) => relative,
            Some(_) => "",
            None => below,
        };
        let operation = Operation::find_gemini(method, relative);
        // Other paths are Google's own, and passed on as they are.
        let relative = if operation == Operation::Passthrough { below } else { relative };
        let path_offset = path.len() - relative.len();
        let start = path_offset + "models/".len();
        let end = match operation {
            Operation::GeminiModelsGet => path.len(),
            _ => path.rfind(':').unwrap_or_default(),
        };
        let form = if operation == Operation::Passthrough { PathForm::Google } else { PathForm::Gemini };
        let mode = RequestMode::new(operation, false);
        let model = (operation != Operation::Passthrough && start < end).then_some((start, end));
        Self { operation, mode, form, path_offset, model }
    }

    /// The same endpoint, with what its query decides: Gemini's stream is a list of JSON without `alt=sse`.
    #[must_use]
    pub(crate) fn with_query(mut self, query: Option<&str>) -> Self {
        let is_events =
            query.unwrap_or_default().split('&').any(|pair| pair == "alt=sse" || pair == "$alt=sse");
        if self.operation == Operation::StreamGenerateContent && !is_events {
            self.operation = Operation::ListGenerateContent;
        }
        self
    }

    /// The same endpoint for a client with these headers. Google's SDKs list models below `/v1`, too, where the path alone is
    /// OpenAI's; they name themselves in a header.
    #[must_use]
    pub(crate) fn for_client(self, method: &Method, path: &str, headers: &HeaderMap) -> Self {
        let lists = *method == Method::GET && (path == "/v1/models" || path.starts_with("/v1/models/"));
        if !lists || !headers.contains_key(GOOGLE_CLIENT) {
            return self;
        }
        Self::find_gemini(method, path, path.strip_prefix("/v1/").unwrap_or_default())
    }

    fn find_azure(method: &Method, path: &str, below: &str) -> Self {
        let listed =
            |relative: &str, model| Self { model, ..Self::listed(method, path, relative, PathForm::Azure) };
        let Some(deployed) = below.strip_prefix("deployments/") else {
            return listed(below.strip_prefix("v1/").unwrap_or(below), None);
        };
        if deployed.starts_with('/') {
            return listed(below, None);
        }
        // A deployment may be written `@slug/model`, so it ends where a path of the table begins.
        let start = path.len() - deployed.len();
        let ends = deployed.bytes().enumerate().filter(|(_, byte)| *byte == b'/').map(|(at, _)| at);
        let mut found = ends.filter_map(|end| {
            let endpoint = listed(deployed.get(end + 1..)?, Some((start, start + end)));
            (endpoint.operation != Operation::Passthrough).then_some(endpoint)
        });
        // Other paths of a deployment are Azure's own.
        found.next().unwrap_or_else(|| listed(below, None))
    }

    /// Whose error bodies the client expects.
    pub fn dialect(&self) -> Dialect {
        match self.form {
            PathForm::Google => Dialect::Google,
            PathForm::Plain | PathForm::Azure | PathForm::Gemini => self.operation.dialect(),
        }
    }

    /// The model that the path names, decoded; `None` where the path's form has none.
    pub fn model<'a>(&self, path: &'a str) -> Option<Cow<'a, str>> {
        let (start, end) = self.model?;
        let model = percent_decode_str(path.get(start..end)?).decode_utf8().ok()?;
        let before = path.get(..start)?.strip_suffix("/models/").and_then(|before| before.rsplit('/').next());
        match before.filter(|publisher| is_slug(publisher)) {
            Some(slug) => {
                Some(Cow::Owned(format!("{}/{model}", percent_decode_str(slug).decode_utf8().ok()?)))
            }
            None => Some(model),
        }
    }
}

/// Where `mcp` or `mcp/{server}` begins, the paths for MCP clients: whatever the method is.
fn mcp_offset(path: &str) -> Option<usize> {
    let below = below_version(path).or_else(|| path.strip_prefix('/'))?;
    let server = below.strip_prefix("mcp")?;
    let is_one = server.is_empty() || server.strip_prefix('/').is_some_and(|slug| !slug.contains('/'));
    is_one.then_some(path.len() - below.len())
}

fn is_slug(publisher: &str) -> bool {
    publisher.starts_with('@') || publisher.starts_with("%40")
}

/// Methods that are passed on for any path of a provider.
const PASSED_ON: [Method; 6] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];

/// The methods that a path takes, as `Allow` lists them.
pub fn allowed_methods(path: &str) -> String {
    let endpoint = Endpoint::find(&Method::OPTIONS, path);
    if endpoint.operation == Operation::Mcp {
        return "POST, OPTIONS".to_owned();
    }
    let passed_on = PASSED_ON.iter().filter(|method| takes(method, path, &endpoint));
    passed_on.map(Method::as_str).chain(["OPTIONS"]).collect::<Vec<_>>().join(", ")
}

/// Whether a request of this method is passed on. PATCH is not where the path is in the list of operations: none of them has
/// it. Any other method may be one that a provider has at the path and the list has not.
pub(super) fn takes(method: &Method, path: &str, endpoint: &Endpoint) -> bool {
    let is_listed = || {
        let relative = path.get(endpoint.path_offset..).unwrap_or_default();
        !path.starts_with("/v1/proxy/") && Operation::methods(relative).next().is_some()
    };
    PASSED_ON.contains(method) && (*method != Method::PATCH || !is_listed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_is_passed_on_where_a_provider_may_have_it() {
        const ALL: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
        for path in ["/v1/cachedContents/a", "/v1/proxy/chat/completions", "/v1/proxy/models", "*"] {
            assert_eq!(allowed_methods(path), ALL, "{path}");
        }
        for path in ["/v1/chat/completions", "/v1/models/gpt", "/v1/files"] {
            assert_eq!(allowed_methods(path), ALL.replace(" PATCH,", ""), "{path}");
        }
    }

    #[test]
    fn head_is_the_operation_of_get() {
        let found = Endpoint::find(&Method::HEAD, "/v1/models");
        assert_eq!((found.operation, found.mode), (Operation::Models, RequestMode::Api));
        let found = Endpoint::find(&Method::HEAD, "/v1/chat/completions");
        assert_eq!(found.operation, Operation::Passthrough);
    }

    #[test]
    fn the_path_decides_operation_mode_and_offset() {
        for (path, operation, mode, offset) in [
            ("/v1/chat/completions", Operation::ChatCompletions, RequestMode::Api, 4),
            ("/v1/proxy/chat/completions", Operation::ChatCompletions, RequestMode::Passthrough, 10),
            ("/v1/v1/chat/completions", Operation::ChatCompletions, RequestMode::Api, 7),
            ("/v1/anything", Operation::Passthrough, RequestMode::Passthrough, 4),
            ("/v1/proxy/proxy/messages", Operation::Passthrough, RequestMode::Passthrough, 10),
            ("/v1/proxy/", Operation::Passthrough, RequestMode::Passthrough, 10),
            ("/v1/", Operation::Passthrough, RequestMode::Passthrough, 4),
            ("/v2/chat/completions", Operation::Passthrough, RequestMode::Passthrough, 20),
            ("/mcp", Operation::Mcp, RequestMode::Api, 1),
            ("/mcp/tools", Operation::Mcp, RequestMode::Api, 1),
            ("/v1/mcp", Operation::Mcp, RequestMode::Api, 4),
            ("/mcp/a/b", Operation::Passthrough, RequestMode::Passthrough, 8),
            ("/v1/mcp-servers", Operation::Passthrough, RequestMode::Passthrough, 4),
        ] {
            let wanted =
                Endpoint { operation, mode, form: PathForm::Plain, path_offset: offset, model: None };
            assert_eq!(Endpoint::find(&Method::POST, path), wanted, "{path}");
        }
    }

    #[test]
    fn paths_of_gemini_have_model_and_method() {
        use Operation as O;
        for (path, operation, model, relative) in [
            ("/v1beta/models/m:generateContent", O::GenerateContent, Some("m"), "models/m:generateContent"),
            ("/v1/models/m:generateContent", O::GenerateContent, Some("m"), "models/m:generateContent"),
            (
                "/v1alpha/models/@a/b/c:1:streamGenerateContent",
                O::StreamGenerateContent,
                Some("@a/b/c:1"),
                "models/@a/b/c:1:streamGenerateContent",
            ),
            (
                "/v1beta/models/%40a%2Fb:countTokens",
                O::GeminiCountTokens,
                Some("@a/b"),
                "models/%40a%2Fb:countTokens",
            ),
            ("/v1beta/models/m:embedContent", O::EmbedContent, Some("m"), "models/m:embedContent"),
            (
                "/v1beta/models/m:batchEmbedContents",
                O::BatchEmbedContents,
                Some("m"),
                "models/m:batchEmbedContents",
            ),
            (
                "/v1/projects/p/locations/l/publishers/google/models/m:generateContent",
                O::GenerateContent,
                Some("m"),
                "models/m:generateContent",
            ),
            (
                "/v1beta1/publishers/@a/models/m:generateContent",
                O::GenerateContent,
                Some("@a/m"),
                "models/m:generateContent",
            ),
            (
                "/v1beta1/publishers/anthropic/models/m:rawPredict",
                O::Passthrough,
                None,
                "publishers/anthropic/models/m:rawPredict",
            ),
            ("/v1beta/cachedContents", O::Passthrough, None, "cachedContents"),
            ("/v1beta/models/m:predict", O::Passthrough, None, "models/m:predict"),
            ("/v1beta/models/:generateContent", O::Passthrough, None, "models/:generateContent"),
            ("/v1beta/openai/chat/completions", O::ChatCompletions, None, "chat/completions"),
            ("/v1/models/m", O::Passthrough, None, "models/m"),
            ("/v1/proxy/models/m:generateContent", O::Passthrough, None, "models/m:generateContent"),
        ] {
            let endpoint = Endpoint::find(&Method::POST, path);
            assert_eq!(endpoint.operation, operation, "{path}");
            assert_eq!(endpoint.model(path).as_deref(), model, "{path}");
            assert_eq!(path.get(endpoint.path_offset..), Some(relative), "{path}");
        }
    }

    #[test]
    fn lists_and_streams_of_gemini() {
        use Operation as O;
        for (path, operation, model) in [
            ("/v1beta/models", O::GeminiModels, None),
            ("/v1beta/models/@a/b", O::GeminiModelsGet, Some("@a/b")),
            ("/v1/models", O::Models, None),
            ("/v1/models/m", O::ModelsGet, None),
        ] {
            let endpoint = Endpoint::find(&Method::GET, path);
            assert_eq!((endpoint.operation, endpoint.model(path).as_deref()), (operation, model), "{path}");
        }
        let mut headers = HeaderMap::new();
        let list = |headers: &HeaderMap, path: &str| {
            Endpoint::find(&Method::GET, path).for_client(&Method::GET, path, headers).operation
        };
        assert_eq!(list(&headers, "/v1/models"), O::Models);
        headers.insert("x-goog-api-client", http::HeaderValue::from_static("google-genai-sdk/3"));
        assert_eq!(list(&headers, "/v1/models"), O::GeminiModels);
        assert_eq!(list(&headers, "/v1/models/@a/b"), O::GeminiModelsGet);
        assert_eq!(list(&headers, "/v1/files"), O::FilesList);
        let stream = Endpoint::find(&Method::POST, "/v1beta/models/m:streamGenerateContent");
        assert_eq!(stream.with_query(Some("key=x&alt=sse")).operation, O::StreamGenerateContent);
        assert_eq!(stream.with_query(Some("alt=json")).operation, O::ListGenerateContent);
        assert_eq!(stream.with_query(None).operation, O::ListGenerateContent);
    }

    #[test]
    fn paths_of_azure_are_those_of_openai_with_the_model_in_front() {
        use Operation as O;
        for (path, operation, model, relative) in [
            ("/openai/deployments/d/chat/completions", O::ChatCompletions, Some("d"), "chat/completions"),
            ("/openai/deployments/d/completions", O::Completions, Some("d"), "completions"),
            ("/openai/deployments/@a/b/embeddings", O::Embeddings, Some("@a/b"), "embeddings"),
            ("/openai/deployments/%40a%2Fb%2Fc/embeddings", O::Embeddings, Some("@a/b/c"), "embeddings"),
            (
                "/openai/deployments/@a/b/c/images/generations",
                O::Images,
                Some("@a/b/c"),
                "images/generations",
            ),
            ("/openai/deployments/w/audio/translations", O::Translations, Some("w"), "audio/translations"),
            ("/openai/v1/chat/completions", O::ChatCompletions, None, "chat/completions"),
            ("/openai/files", O::FilesUpload, None, "files"),
            ("/openai/v1/responses", O::Responses, None, "responses"),
            ("/openai/deployments/d/extensions/x", O::Passthrough, None, "deployments/d/extensions/x"),
            ("/openai/deployments//chat/completions", O::Passthrough, None, "deployments//chat/completions"),
            ("/openai/deployments/d", O::Passthrough, None, "deployments/d"),
            ("/openai/", O::Passthrough, None, ""),
        ] {
            let endpoint = Endpoint::find(&Method::POST, path);
            assert_eq!(endpoint.operation, operation, "{path}");
            assert_eq!(endpoint.form, PathForm::Azure, "{path}");
            assert_eq!(endpoint.model(path).as_deref(), model, "{path}");
            assert_eq!(path.get(endpoint.path_offset..), Some(relative), "{path}");
        }
    }
}
