//! What a template needs of a request: the names of its variables, sections and partials.
//!
//! What its partials need is found anew for each request: a partial may change at any time.

use super::node::{Node, Path};
use super::partial::{PartialRef, Partials};
use serde::Serialize;
use serde_json::Value;

/// The names in a template, each once, in the order of the text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Components {
    /// The variables outside of sections.
    pub variables: Vec<String>,
    pub sections: Vec<String>,
    /// The variables inside of sections.
    #[serde(rename = "sectionVariables")]
    pub section_variables: Vec<String>,
    /// With their versions: `p@3`.
    pub partials: Vec<String>,
    /// The variables that hold the name of a partial.
    #[serde(rename = "variablePartials")]
    pub variable_partials: Vec<String>,
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
                Node::Partial { partial, .. } => add(&mut self.partials, partial.to_string()),
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
                Some(name.clone())
            } else if let Some(holder) = all.variable_partials.get(variable) {
                variable += 1;
                variables.get(holder).and_then(Value::as_str).map(str::to_owned)
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
        lists.into_iter().flatten().any(|variable| variable == name)
    }
}

fn add_path(names: &mut Vec<String>, path: &Path) {
    if let Some(variable) = path.variable() {
        add(names, variable.to_owned());
    }
}

fn add(names: &mut Vec<String>, name: String) {
    if !names.contains(&name) {
        names.push(name);
    }
}
