//! The tools a client offers, and which of them the model may or must use.

use super::params::Params;
use crate::json::Json;
use std::borrow::Cow;

/// One tool.
#[derive(Debug, Clone)]
pub enum Tool<'a> {
    Function {
        name: Cow<'a, str>,
        description: Option<Cow<'a, str>>,
        /// JSON schema, unchanged; absent means no arguments.
        parameters: Option<Json<'a>>,
        strict: Option<bool>,
        cache_control: Option<Json<'a>>,
        /// Further members, inside `function` or next to it.
        rest: Params<'a>,
    },
    /// A built-in tool of the provider, or a kind the gateway does not model: the client's JSON.
    Other { kind: Cow<'a, str>, json: Json<'a> },
}

/// Which tool the model may or must use.
#[derive(Debug, Clone)]
pub enum ToolChoice<'a> {
    Auto,
    None,
    /// Any tool, but at least one.
    Required,
    Function(Cow<'a, str>),
    /// One of a few tools; `required` says whether one must be used.
    Allowed {
        names: Vec<Cow<'a, str>>,
        required: bool,
    },
    Other(Json<'a>),
}
