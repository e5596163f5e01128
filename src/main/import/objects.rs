//! The objects of the store that an import makes, as calls of the control API.
//!
//! Data alone: `store_writer` makes the calls.

use super::cursor::InputAt;
use serde_json::{Map, Value};

/// What is made. The order is that of making: keys are made in workspaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlannedKind {
    Workspace,
    UsagePolicy,
    RatePolicy,
    Key,
    Prompt,
}

impl PlannedKind {
    /// The kind of the control API.
    pub fn object_kind(self) -> &'static str {
        match self {
            Self::Workspace => "workspaces",
            Self::UsagePolicy => "policies/usage-limits",
            Self::RatePolicy => "policies/rate-limits",
            Self::Key => "api-keys/workspace/service",
            Self::Prompt => "prompts",
        }
    }

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Workspace => "workspace",
            Self::UsagePolicy => "usage policy",
            Self::RatePolicy => "rate policy",
            Self::Key => "key",
            Self::Prompt => "prompt",
        }
    }
}

/// An object that is made where it is not there yet. Those with a slug are found by it and their mark, keys by their digest, prompts by their
/// slug and what they say.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedObject {
    pub kind: PlannedKind,
    pub body: Map<String, Value>,
    /// Of whose it is; it stands in the description. Several objects may limit the same.
    pub mark: String,
    /// The marks of what must be there before: a key whose limits could not be made is not made.
    pub needs: Vec<String>,
    /// What it is made of: the number of the file, and the path.
    pub origin: (usize, String),
}

impl PlannedObject {
    /// An object that is made of a row.
    pub fn of(kind: PlannedKind, row: &InputAt<'_>, mark: &str, body: Map<String, Value>) -> Self {
        let origin = (row.file, row.path.clone());
        Self { kind, body, mark: mark.to_owned(), needs: Vec::new(), origin }
    }

    /// A text of its body.
    pub fn text(&self, name: &str) -> &str {
        self.body.get(name).and_then(Value::as_str).unwrap_or_default()
    }
}
