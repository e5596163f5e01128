//! What an import writes: values in an order, with comments. Not the text of it (`yaml`), and not what the values mean.

use super::moved::plain;
use serde_json::Value;
use words::config::node::{Node, NodeKind};

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Tree {
    Null,
    Flag(bool),
    /// As it is written.
    Number(String),
    Text(String),
    List(Vec<Tree>),
    Map(Vec<Member>),
}

/// A member of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    pub name: String,
    pub value: Tree,
    /// Lines above it; empty: none.
    pub comment: String,
}

impl Tree {
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub fn whole(number: u64) -> Self {
        Self::Number(number.to_string())
    }

    /// A number without a fraction where it has none.
    pub fn number(number: f64) -> Self {
        Self::Number(number.to_string())
    }

    /// An object without members.
    pub fn map() -> Self {
        Self::Map(Vec::new())
    }

    /// An object with these members.
    pub fn of<const N: usize>(members: [(&str, Tree); N]) -> Self {
        members.into_iter().fold(Self::map(), |map, (name, value)| map.with(name, value))
    }

    /// This object with one more member, in the place of one of the same name.
    #[must_use]
    pub fn with(mut self, name: &str, value: Tree) -> Self {
        self.set(name, value);
        self
    }

    /// The same, where there is a value.
    #[must_use]
    pub fn with_some(self, name: &str, value: Option<Tree>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    pub fn set(&mut self, name: &str, value: Tree) {
        let Self::Map(members) = self else { return };
        match members.iter_mut().find(|member| member.name == name) {
            Some(member) => member.value = value,
            None => members.push(Member { name: name.to_owned(), value, comment: String::new() }),
        }
    }

    pub fn member(&self, name: &str) -> Option<&Tree> {
        let Self::Map(members) = self else { return None };
        members.iter().find(|member| member.name == name).map(|member| &member.value)
    }

    pub fn member_mut(&mut self, name: &str) -> Option<&mut Tree> {
        let Self::Map(members) = self else { return None };
        members.iter_mut().find(|member| member.name == name).map(|member| &mut member.value)
    }

    /// Whether it is an object or a list without anything in it.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Map(members) => members.is_empty(),
            Self::List(items) => items.is_empty(),
            _ => false,
        }
    }

    /// A value of JSON as it is.
    pub fn from_json(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(flag) => Self::Flag(*flag),
            Value::Number(number) => Self::Number(number.to_string()),
            Value::String(text) => Self::Text(plain(text)),
            Value::Array(items) => Self::List(items.iter().map(Self::from_json).collect()),
            Value::Object(members) => {
                members.iter().fold(Self::map(), |map, (name, value)| map.with(name, Self::from_json(value)))
            }
        }
    }

    /// A value of the input as it is, but for its texts.
    pub fn from_node(node: &Node, text: &mut dyn FnMut(&str) -> String) -> Self {
        match &node.kind {
            NodeKind::Null => Self::Null,
            NodeKind::Bool(flag) => Self::Flag(*flag),
            NodeKind::Number(number) => Self::Number(number.to_string()),
            NodeKind::Text(value) => Self::Text(text(value)),
            NodeKind::List(items) => {
                Self::List(items.iter().map(|item| Self::from_node(item, text)).collect())
            }
            NodeKind::Map(entries) => entries
                .iter()
                .fold(Self::map(), |map, entry| map.with(&entry.name, Self::from_node(&entry.value, text))),
        }
    }
}
