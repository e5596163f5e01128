//! The tools a client offers, and which of them the model may or must use.

use super::params::Params;
use crate::json::Json;
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

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
        names: AllowedTools<'a>,
        required: bool,
    },
    Other(Json<'a>),
}

/// The names of the tools that are allowed, in the client's order. Looked up by hash: a hostile request may have very many.
#[derive(Clone, Default)]
pub struct AllowedTools<'a> {
    list: Vec<Cow<'a, str>>,
    set: HashSet<Cow<'a, str>>,
}

impl<'a> AllowedTools<'a> {
    pub fn contains(&self, name: &str) -> bool {
        self.set.contains(name)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Cow<'a, str>> {
        self.list.iter()
    }

    /// Consumes the list, in order.
    pub fn into_list(self) -> Vec<Cow<'a, str>> {
        self.list
    }
}

impl<'a> FromIterator<Cow<'a, str>> for AllowedTools<'a> {
    fn from_iter<I: IntoIterator<Item = Cow<'a, str>>>(names: I) -> Self {
        let list: Vec<_> = names.into_iter().collect();
        Self { set: list.iter().cloned().collect(), list }
    }
}

impl fmt::Debug for AllowedTools<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.list.fmt(f)
    }
}
