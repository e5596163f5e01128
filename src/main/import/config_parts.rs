//! Parts of configs that several importers write: parameters under the request's, groups whose members take each other's place.

use super::cursor::InputAt;
use super::import::Import;
use super::tree::Tree;
use super::value::ReferenceReader;

impl Import {
    /// A parameter that is sent where the request has none.
    pub fn default_param(&mut self, at: &InputAt<'_>, read: ReferenceReader) -> Tree {
        self.copied(at, read, "default_params of its target")
    }
}

/// Adds what a target always sends, and what it sends where the request does not say.
pub fn add_params(target: &mut Tree, always: Tree, defaults: &Tree) {
    if !always.is_empty() {
        target.set("override_params", always);
    }
    if !defaults.is_empty() {
        target.set("default_params", defaults.clone());
    }
}

/// The strategy of a group in which the others are tried where one fails.
pub fn balanced(by: Option<&str>) -> Tree {
    let strategy = Tree::of([("mode", Tree::text("loadbalance"))]).with_some("by", by.map(Tree::text));
    strategy.with("failover", Tree::Flag(true))
}
