//! What a template needs of a request: the names of its variables, sections and partials.
//!
//! What its partials need is found anew for each request: a partial may change at any time.

use super::node::{Node, Path};
use super::partial::{PartialRef, Partials};
use serde::{Serialize, Serializer};
use serde_json::Value;
use std::collections::HashSet;
use std::ops::Deref;
use std::sync::Arc;

/// The names in a template, each once, in the order of the text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Components {
    /// The variables outside of sections.
    pub variables: Names,
    pub sections: Names,
    /// The variables inside of sections.
    #[serde(rename = "sectionVariables")]
    pub section_variables: Names,
    /// With their versions: `p@3`.
    pub partials: Names,
    /// The variables that hold the name of a partial.
    #[serde(rename = "variablePartials")]
    pub variable_partials: Names,
}

/// Names, each once, in the order in which they came. A template may have a hundred thousand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    list: Vec<Arc<str>>,
    listed: HashSet<Arc<str>>,
}

impl Names {
    pub(super) fn add(&mut self, name: &str) {
        if !self.listed.contains(name) {
            let name: Arc<str> = name.into();
            self.list.push(Arc::clone(&name));
            self.listed.insert(name);
        }
    }

    fn has(&self, name: &str) -> bool {
        self.listed.contains(name)
    }
}

impl Deref for Names {
    type Target = [Arc<str>];

    fn deref(&self) -> &[Arc<str>] {
        &self.list
    }
}

impl Serialize for Names {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.list.iter().map(|name| &**name))
    }
}

impl Components {
    /// Adds what `nodes` need.
    pub(super) fn add(&mut self, nodes: &[Node], in_section: bool) {
        for node in nodes {
            match node {
                Node::Text(_) => {}
                Node::Value(path) if in_section => add_path(&mut self.section_variables, path),
                Node::Value(path) => add_path(&mut self.variables, path),
                Node::Section { path, nodes, .. } => {
                    add_path(&mut self.sections, path);
                    self.add(nodes, true);
                }
                Node::Partial { partial, .. } => self.partials.add(&partial.to_string()),
                Node::VariablePartial { path, .. } => add_path(&mut self.variable_partials, path),
            }
        }
    }

    /// With what the partials need, through other partials as well. `variables` has the names of some.
    pub(super) fn with_partials(&self, partials: &dyn Partials, variables: &Value) -> Self {
        let mut all = self.clone();
        let mut named = 0;
        let mut variable = 0;
        loop {
            let name = if let Some(name) = all.partials.get(named) {
                named += 1;
                Some(Arc::clone(name))
            } else if let Some(holder) = all.variable_partials.get(variable) {
                variable += 1;
                variables.get(&**holder).and_then(Value::as_str).map(Arc::from)
            } else {
                return all;
            };
            let name = name.and_then(|name| PartialRef::parse(&name).ok());
            if let Some(partial) = name.and_then(|name| partials.find(&name)) {
                all.add(&partial.nodes, false);
            }
        }
    }

    /// Whether a variable of this name is used.
    pub(crate) fn has_variable(&self, name: &str) -> bool {
        let lists = [&self.variables, &self.sections, &self.section_variables, &self.variable_partials];
        lists.into_iter().any(|names| names.has(name))
    }
}

fn add_path(names: &mut Names, path: &Path) {
    if let Some(variable) = path.variable() {
        names.add(variable);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_once_in_their_order() {
        let mut names = Names::default();
        for name in ["b", "a", "b", "c", "a"] {
            names.add(name);
        }
        assert_eq!(serde_json::to_string(&names).unwrap(), r#"["b","a","c"]"#);
        assert!(names.has("c") && !names.has("d"));
    }
}
