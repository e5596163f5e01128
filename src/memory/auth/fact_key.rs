//! What requests are selected by: the keys of `conditions` and `group_by` of limits and of access to MCP servers, and the patterns of
//! their values.
//!
//! Not here: the values that a request has (`facts`).

use super::facts::Value;
use crate::store::{Catalog, Kind};
use serde_json::Value as Json;
use std::fmt;

/// A key of `conditions` and `group_by`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FactKey {
    ApiKey,
    Organisation,
    Workspace,
    /// A member of the request's metadata.
    Metadata(Box<str>),
    VirtualKey,
    Provider,
    Config,
    Prompt,
    Model,
    EndpointType,
}

impl FactKey {
    /// The keys without a name of their own, as records write them.
    pub const NAMES: [&'static str; 9] = [
        "api_key",
        "organisation_id",
        "workspace_id",
        "virtual_key",
        "provider",
        "config",
        "prompt",
        "model",
        "endpoint_type",
    ];

    /// Reads a key: one of [`NAMES`](Self::NAMES), or `metadata.<name>`.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "api_key" => Self::ApiKey,
            "organisation_id" => Self::Organisation,
            "workspace_id" => Self::Workspace,
            "virtual_key" => Self::VirtualKey,
            "provider" => Self::Provider,
            "config" => Self::Config,
            "prompt" => Self::Prompt,
            "model" => Self::Model,
            "endpoint_type" => Self::EndpointType,
            other => Self::Metadata(other.strip_prefix("metadata.").filter(|name| !name.is_empty())?.into()),
        })
    }

    /// Whether only an attempt has it.
    pub(crate) const fn is_of_target(&self) -> bool {
        matches!(self, Self::VirtualKey | Self::Provider | Self::Model)
    }
}

impl fmt::Display for FactKey {
    /// As records write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ApiKey => "api_key",
            Self::Organisation => "organisation_id",
            Self::Workspace => "workspace_id",
            Self::Metadata(name) => return write!(f, "metadata.{name}"),
            Self::VirtualKey => "virtual_key",
            Self::Provider => "provider",
            Self::Config => "config",
            Self::Prompt => "prompt",
            Self::Model => "model",
            Self::EndpointType => "endpoint_type",
        })
    }
}

/// One condition: the request has a value that is one of `values` (or any, if that is empty) and none of `excludes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    pub key: FactKey,
    pub values: Vec<Pattern>,
    pub excludes: Vec<Pattern>,
}

impl Condition {
    /// One as a record has it: `{"key", "value", "excludes"}`. `None`: there is no such key. A workspace may be named by its slug.
    pub(crate) fn read(item: &Json, catalog: &Catalog) -> Option<Self> {
        let key = FactKey::parse(item.get("key")?.as_str()?)?;
        let texts = |name: &str| match item.get(name) {
            Some(Json::Array(items)) => items.iter().filter_map(Json::as_str).collect(),
            Some(Json::String(text)) => vec![text.as_str()],
            _ => Vec::new(),
        };
        // Requests have the workspace's id.
        let id_of = |text: &str| match key {
            FactKey::Workspace => {
                catalog.by_slug(Kind::Workspace, None, text).map(|found| found.id.to_string())
            }
            _ => None,
        };
        let ids = |name: &str| -> Vec<String> {
            texts(name).into_iter().map(|text| id_of(text).unwrap_or_else(|| text.to_owned())).collect()
        };
        let values = ids("value");
        let excludes = ids("excludes");
        Some(Self::new(key, values.iter().map(String::as_str), excludes.iter().map(String::as_str)))
    }

    /// A condition as a record has it.
    pub fn new<'a>(
        key: FactKey,
        values: impl IntoIterator<Item = &'a str>,
        excludes: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let values = values.into_iter().map(|text| Pattern::parse(&key, text)).collect();
        let excludes = excludes.into_iter().map(|text| Pattern::parse(&key, text)).collect();
        Self { key, values, excludes }
    }

    /// Whether any value will do, as far as its `values` go: `*`, or none of them.
    pub(crate) fn takes_any(&self) -> bool {
        self.values.is_empty() || self.values.contains(&Pattern::Any)
    }

    /// Whether a request with this value is meant. One without a value is not.
    pub(crate) fn matches(&self, value: Option<Value<'_>>) -> bool {
        let Some(value) = value else { return false };
        let is_one_of = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(value));
        (self.values.is_empty() || is_one_of(&self.values)) && !is_one_of(&self.excludes)
    }
}

/// One value of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// `*`
    Any,
    Exact(Box<str>),
    /// Of models: `@openai/*`. With the slash, without the star.
    Prefix(Box<str>),
}

impl Pattern {
    /// Reads a value. Only models have prefixes.
    pub fn parse(key: &FactKey, text: &str) -> Self {
        match text.strip_suffix('*') {
            Some("") => Self::Any,
            Some(prefix) if *key == FactKey::Model && prefix.ends_with('/') => Self::Prefix(prefix.into()),
            _ => Self::Exact(text.into()),
        }
    }

    fn matches(&self, value: Value<'_>) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(text) => value.is(text),
            Self::Prefix(prefix) => value.starts_with(prefix),
        }
    }
}
