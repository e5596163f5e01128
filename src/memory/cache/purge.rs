//! What is removed from the cache on an operator's request, and why that failed.

use super::entry::{CacheKey, Scope};
use std::fmt;
use std::sync::Arc;
use uuid::Uuid;

/// Which entries are removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purge {
    Key(CacheKey),
    /// The entry of this key if it is of this workspace.
    OwnKey {
        workspace: Uuid,
        key: CacheKey,
    },
    Namespace {
        workspace: Uuid,
        namespace: Arc<str>,
    },
    Workspace(Uuid),
    All,
}

impl Purge {
    /// Whether it removes this entry.
    pub fn concerns(&self, key: &CacheKey, scope: &Scope) -> bool {
        match self {
            Self::Key(purged) => purged == key,
            Self::OwnKey { workspace, key: purged } => purged == key && scope.workspace == *workspace,
            Self::Namespace { workspace, namespace } => {
                scope.workspace == *workspace && scope.namespace.as_ref() == Some(namespace)
            }
            Self::Workspace(workspace) => scope.workspace == *workspace,
            Self::All => true,
        }
    }
}

/// Why a purge failed, or the cache could not be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheError {
    /// The store's URL cannot be used, or the system has no thread left.
    Misconfigured(String),
    /// The shared store cannot be reached, or failed.
    Unreachable(String),
}

impl fmt::Display for CacheError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Misconfigured(why) => write!(f, "the cache's store cannot be used: {why}"),
            Self::Unreachable(why) => write!(f, "the cache's store cannot be reached: {why}"),
        }
    }
}

impl std::error::Error for CacheError {}
