//! The objects of the store that an import makes, as calls of the control API.
//!
//! Data alone: `store_writer` makes the calls.

use serde_json::{Map, Value};

/// What is made. The order is that of making: keys are made in workspaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlannedKind {
    Workspace,
    UsagePolicy,
    RatePolicy,
    Key,
}

impl PlannedKind {
    /// The kind of the control API.
    pub fn object_kind(self) -> &'static str {
        match self {
            Self::Workspace => "workspaces",
            Self::UsagePolicy => "policies/usage-limits",
            Self::RatePolicy => "policies/rate-limits",
            Self::Key => "api-keys/workspace/service",
        }
    }

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Workspace => "workspace",
            Self::UsagePolicy => "usage policy",
            Self::RatePolicy => "rate policy",
            Self::Key => "key",
        }
    }
}

/// An object that is made where it is not there yet. Those with a slug are found by it, keys by their digest.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedObject {
    pub kind: PlannedKind,
    pub body: Map<String, Value>,
}

impl PlannedObject {
    /// A text of its body.
    pub fn text(&self, name: &str) -> &str {
        self.body.get(name).and_then(Value::as_str).unwrap_or_default()
    }
}
