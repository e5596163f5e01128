//! The tools a caller offers, and which of them the model may or must use.

use super::json::Json;
use super::params::Params;
use std::borrow::Cow;

/// One tool.
#[derive(Debug, Clone)]
pub enum Tool<'a> {
    Function {
        name: Cow<'a, str>,
        description: Option<Cow<'a, str>>,
        /// JSON schema, as written; absent means no arguments.
        parameters: Option<Json<'a>>,
        strict: Option<bool>,
        cache_control: Option<Json<'a>>,
        /// Further members, beside `function` or in it.
        rest: Params<'a>,
    },
    /// A tool of the provider's own, or a kind we have no word for: the caller's JSON.
    Other { kind: Cow<'a, str>, json: Json<'a> },
}

/// Which tool must be used.
#[derive(Debug, Clone)]
pub enum ToolChoice<'a> {
    Auto,
    None,
    /// Any, but one of them.
    Required,
    Function(Cow<'a, str>),
    /// One or any of a few: `required` says whether it must be one.
    Allowed {
        names: Vec<Cow<'a, str>>,
        required: bool,
    },
    Other(Json<'a>),
}
