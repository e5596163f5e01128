//! A place in a file of another gateway: a value, its path, and where it stands.
//!
//! Reads values; what they mean is each product's. Files of LiteLLM are YAML as Python reads it, where `True` and `yes` are flags as well.

use words::config::node::{Node, NodeKind};

/// A value of the file with its path.
#[derive(Clone)]
pub struct InputAt<'n> {
    pub node: &'n Node,
    /// The number of its file among those of the import.
    pub file: usize,
    /// Dotted, `model_list[0].model_name`; empty for the whole file.
    pub path: String,
}

impl<'n> InputAt<'n> {
    /// The whole file.
    pub fn root(node: &'n Node, file: usize) -> Self {
        Self { node, file, path: String::new() }
    }

    fn below(&self, node: &'n Node, path: String) -> Self {
        Self { node, file: self.file, path }
    }

    /// A member, unless it is null.
    pub fn member(&self, name: &str) -> Option<Self> {
        let node = self.node.member(name)?;
        (node.kind != NodeKind::Null).then(|| self.below(node, joined(&self.path, name)))
    }

    /// The members of an object, those that are null too.
    pub fn entries(&self) -> Vec<(&'n str, Self)> {
        let NodeKind::Map(entries) = &self.node.kind else { return Vec::new() };
        let at = |name: &'n str, value| (name, self.below(value, joined(&self.path, name)));
        entries.iter().map(|entry| at(&entry.name, &entry.value)).collect()
    }

    /// The items of a list.
    pub fn items(&self) -> Vec<Self> {
        let items = self.node.items().unwrap_or_default().iter().enumerate();
        items.map(|(index, node)| self.below(node, format!("{}[{index}]", self.path))).collect()
    }

    /// A text, or a number or a flag as a text.
    pub fn text(&self) -> Option<String> {
        match &self.node.kind {
            NodeKind::Text(text) => Some(text.trim().to_owned()),
            NodeKind::Number(number) => Some(number.to_string()),
            NodeKind::Bool(flag) => Some(flag.to_string()),
            _ => None,
        }
    }

    /// The text of a member.
    pub fn text_of(&self, name: &str) -> Option<String> {
        self.member(name)?.text()
    }

    /// A number, also one in a text.
    pub fn number(&self) -> Option<f64> {
        match &self.node.kind {
            NodeKind::Number(number) => number.as_f64(),
            NodeKind::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    /// A flag, also one as Python writes it.
    pub fn flag(&self) -> Option<bool> {
        match &self.node.kind {
            NodeKind::Bool(flag) => Some(*flag),
            NodeKind::Text(text) => match text.to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" => Some(true),
                "false" | "no" | "off" => Some(false),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether it is a list or an object.
    pub fn is_container(&self) -> bool {
        matches!(self.node.kind, NodeKind::List(_) | NodeKind::Map(_))
    }
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_their_paths() {
        let (node, _) = words::settings::read_yaml("a:\n  - {b: True, c: '2.5', d: null}\n").unwrap();
        let at = InputAt::root(&node, 0).member("a").unwrap().items().remove(0);
        assert_eq!(at.path, "a[0]");
        assert_eq!(
            (at.member("b").unwrap().flag(), at.member("c").unwrap().number()),
            (Some(true), Some(2.5))
        );
        assert!(at.member("d").is_none() && at.entries().len() == 3);
    }
}
