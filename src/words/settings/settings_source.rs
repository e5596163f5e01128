//! What settings were read from: their text as a tree with lines, the file, and where in it secrets stand. Not what they mean.

use crate::config::node::{Node, NodeKind};
use std::path::Path;
use std::sync::Arc;

/// What settings were read from.
#[derive(Debug, Clone)]
pub struct SettingsSource {
    /// As it was written, with references unresolved.
    pub written: Arc<Node>,
    /// The places of values that were read as secrets.
    pub secret_places: Arc<[(u64, u64)]>,
    /// Where that was read, if it was a file.
    pub file: Option<Arc<Path>>,
}

impl Default for SettingsSource {
    fn default() -> Self {
        Self { written: Arc::new(NodeKind::Null.into()), secret_places: Arc::default(), file: None }
    }
}
