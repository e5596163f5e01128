//! Finds the operation of a request by its method and path alone.
//!
//! Nothing is rejected here: the errors of later steps are written in the API format of the operation found here.

use crate::api::operation::Operation;
use crate::route::request_mode::RequestMode;
use http::Method;

/// An operation, and where its path begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    pub operation: Operation,
    pub mode: RequestMode,
    /// Byte offset of the path below `/v1/` or `/v1/proxy/`; the length of the path if there is nothing below it.
    pub path_offset: usize,
}

impl Endpoint {
    pub fn find(method: &Method, path: &str) -> Self {
        let below_version = path.strip_prefix("/v1/").unwrap_or_default();
        let below_proxy = below_version.strip_prefix("proxy/");
        let relative = below_proxy.unwrap_or(below_version);
        // The response to HEAD is that to GET without its body (RFC 9110, 9.3.2).
        let method = if *method == Method::HEAD { &Method::GET } else { method };
        let operation = Operation::find(method, relative);
        Self {
            operation,
            mode: RequestMode::new(operation, below_proxy.is_some()),
            path_offset: path.len() - relative.len(),
        }
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
            let wanted = Endpoint { operation, mode, path_offset: offset };
            assert_eq!(Endpoint::find(&Method::POST, path), wanted, "{path}");
        }
    }
}
