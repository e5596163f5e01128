//! Finds the operation of a request by its method and path alone.
//!
//! Nothing is rejected here: the errors of later steps are written in the API format of the operation found here.

use crate::api::operation::Operation;
use crate::route::request_mode::RequestMode;
use http::Method;
use percent_encoding::percent_decode_str;
use std::borrow::Cow;

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
}

impl Endpoint {
    pub fn find(method: &Method, path: &str) -> Self {
        if let Some(below) = path.strip_prefix("/openai/") {
            return Self::find_azure(method, path, below);
        }
        let below_version = path.strip_prefix("/v1/").unwrap_or_default();
        let below_proxy = below_version.strip_prefix("proxy/");
        let relative = below_proxy.unwrap_or(below_version);
        // The response to HEAD is that to GET without its body (RFC 9110, 9.3.2).
        let method = if *method == Method::HEAD { &Method::GET } else { method };
        let operation = Operation::find(method, relative);
        Self {
            operation,
            mode: RequestMode::new(operation, below_proxy.is_some()),
            form: PathForm::Plain,
            path_offset: path.len() - relative.len(),
            model: None,
        }
    }

    fn find_azure(method: &Method, path: &str, below: &str) -> Self {
        let listed = |relative: &str, model| {
            let operation = Operation::find(method, relative);
            let mode = RequestMode::new(operation, false);
            let path_offset = path.len() - relative.len();
            Self { operation, mode, form: PathForm::Azure, path_offset, model }
        };
        let Some(deployed) = below.strip_prefix("deployments/") else {
            return listed(below.strip_prefix("v1/").unwrap_or(below), None);
        };
        // A deployment may be written `@slug/model`, so it ends where a path of the table begins.
        let start = path.len() - deployed.len();
        let slashes = deployed.bytes().enumerate().filter(|(_, byte)| *byte == b'/').map(|(at, _)| at);
        let ends = slashes.filter(|end| *end > 0);
        let mut found = ends.filter_map(|end| {
            let endpoint = listed(deployed.get(end + 1..)?, Some((start, start + end)));
            (endpoint.operation != Operation::Passthrough).then_some(endpoint)
        });
        // Other paths of a deployment are Azure's own.
        found.next().unwrap_or_else(|| listed(below, None))
    }

    /// The model that the path names, decoded; `None` where the path's form has none.
    pub fn model<'a>(&self, path: &'a str) -> Option<Cow<'a, str>> {
        let (start, end) = self.model?;
        percent_decode_str(path.get(start..end)?).decode_utf8().ok()
    }
}

/// Methods that are passed on for any path of a provider.
const PASSED_ON: [Method; 6] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];

/// The methods that a path takes, as `Allow` lists them.
pub fn allowed_methods(path: &str) -> String {
    let endpoint = Endpoint::find(&Method::OPTIONS, path);
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
            ("/v1/anything", Operation::Passthrough, RequestMode::Passthrough, 4),
            ("/v1/proxy/proxy/messages", Operation::Passthrough, RequestMode::Passthrough, 10),
            ("/v1/proxy/", Operation::Passthrough, RequestMode::Passthrough, 10),
            ("/v1/", Operation::Passthrough, RequestMode::Passthrough, 4),
            ("/v2/chat/completions", Operation::Passthrough, RequestMode::Passthrough, 20),
        ] {
            let wanted =
                Endpoint { operation, mode, form: PathForm::Plain, path_offset: offset, model: None };
            assert_eq!(Endpoint::find(&Method::POST, path), wanted, "{path}");
        }
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
