//! The header in which a client finds the id of its request, by its dialect.
//!
//! Not in which header a provider sends its own id (`provider::request_id`).

use super::Dialect;
use http::HeaderName;

pub const OPENAI: HeaderName = HeaderName::from_static("x-request-id");
pub const ANTHROPIC: HeaderName = HeaderName::from_static("request-id");

/// The name that the SDKs of a dialect read.
pub const fn header_of(dialect: Dialect) -> HeaderName {
    match dialect {
        Dialect::Anthropic => ANTHROPIC,
        Dialect::OpenAi | Dialect::Responses | Dialect::Google | Dialect::Mcp => OPENAI,
    }
}
