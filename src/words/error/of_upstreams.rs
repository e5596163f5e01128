//! The errors of connections to providers, and to the proxies before them.
//!
//! Not here: their rows in the table, and what became of the connection (`engine::failure`).

use super::{Error, Kind};

impl Error {
    /// 503: a target takes no more requests at present. `target`: its name for clients.
    pub fn target_busy(target: &str, why: &str) -> Self {
        let message = format!(
            "{target} takes only so many requests at a time, and {why}. Try again in a moment, or ask the operator to raise \
             `concurrency` or to add a target."
        );
        Self::new(Kind::TargetBusy, message)
    }

    /// 502: the proxy that the gateway's connections go through refused one; the text names it.
    pub fn proxy_refused(message: impl Into<String>, cause: impl Into<String>) -> Self {
        Self { cause: Some(cause.into().into()), ..Self::new(Kind::ProxyRefused, message) }
    }

    /// 502: the proxy that the gateway's connections go through could not be used; the text names it.
    pub fn proxy_unreachable(message: impl Into<String>, cause: impl Into<String>) -> Self {
        Self { cause: Some(cause.into().into()), ..Self::new(Kind::ProxyUnreachable, message) }
    }

    /// 502: the provider could not be reached, or the connection broke before a response.
    pub fn unreachable(message: impl Into<String>, cause: impl Into<String>) -> Self {
        Self { cause: Some(cause.into().into()), ..Self::new(Kind::Unreachable, message) }
    }

    /// 502: the provider sent something that is no usable HTTP response.
    pub fn invalid_response(message: impl Into<String>, cause: impl Into<String>) -> Self {
        Self { cause: Some(cause.into().into()), ..Self::new(Kind::InvalidResponse, message) }
    }

    /// For the log: the client gets the response that reports it.
    pub fn tool_failed(message: impl Into<String>) -> Self {
        Self::new(Kind::ToolFailed, message)
    }

    /// 502: the token or temporary credentials for a provider could not be fetched.
    pub fn credentials_unavailable(message: impl Into<String>, cause: impl Into<String>) -> Self {
        Self { cause: Some(cause.into().into()), ..Self::new(Kind::CredentialsUnavailable, message) }
    }
}
