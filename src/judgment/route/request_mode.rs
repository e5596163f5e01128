//! Whether the gateway interprets a request or only passes it on.
//!
//! Not which operation it is: a request below `/v1/proxy/` has one for its label and its error bodies, and is
//! passed on all the same.

use words::api::operation::Operation;

/// How the gateway treats a request's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestMode {
    /// A listed operation: its body is checked, translated where the provider needs it, and its response
    /// is validated.
    Api,
    /// It came by `/v1/proxy/`, or its path is in no list: request and response keep their content, errors
    /// included, and the spelling of their header names.
    Passthrough,
}

impl RequestMode {
    /// The mode of a request for `operation`. `by_proxy_path`: its path is below `/v1/proxy/`.
    pub fn new(operation: Operation, by_proxy_path: bool) -> Self {
        if by_proxy_path || operation == Operation::Passthrough { Self::Passthrough } else { Self::Api }
    }
}
