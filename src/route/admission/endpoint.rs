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
        let operation = Operation::find(method, relative);
        Self {
            operation,
            mode: RequestMode::new(operation, below_proxy.is_some()),
            path_offset: path.len() - relative.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
