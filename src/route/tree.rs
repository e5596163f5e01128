//! A compiled config: what `compile` makes and a plan walks.
//!
//! Nothing behind it sees an `Option<String>` that should be a provider.

use super::leaf::Leaf;
use std::sync::Arc;

/// A config, compiled. One target for now; groups come with the strategies that need them.
#[derive(Debug)]
pub struct Tree {
    leaf: Arc<Leaf>,
}

impl Tree {
    pub fn new(leaf: Leaf) -> Self {
        Self { leaf: Arc::new(leaf) }
    }

    /// The first target in line.
    pub fn leaf(&self) -> &Arc<Leaf> {
        &self.leaf
    }
}
