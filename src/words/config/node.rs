//! A value tree read from JSON or YAML, with the line and column of every value when the text is a file.
//!
//! One tree for both formats, so that one reader checks a config from a header and one from the settings
//! file, and problems in the file have line and column. Not a general DOM: request bodies never use it.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use std::fmt;

/// A value and its position in the text.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub kind: NodeKind,
    /// Line and column from 1; `None` for JSON from a header.
    pub place: Option<(u64, u64)>,
}

/// The kind and content of a value. Map entries keep the order they were written in, duplicates included.
///
/// `Debug` shows names and structure but no strings: any of them may be a secret key.
#[derive(Clone, PartialEq)]
pub enum NodeKind {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// One entry of a map.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub name: String,
    /// Line and column of the name.
    pub place: Option<(u64, u64)>,
    pub value: Node,
}

impl Node {
    /// Reads JSON text. A duplicate name is kept twice, so that the reader can refuse it.
    ///
    /// # Errors
    /// serde_json's error for malformed text.
    pub fn from_json(text: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(text)
    }

    /// The type of this value as written in problem messages: `a string`, `an object`.
    pub fn type_name(&self) -> &'static str {
        match &self.kind {
            NodeKind::Null => "null",
            NodeKind::Bool(_) => "a boolean",
            NodeKind::Number(_) => "a number",
            NodeKind::Text(_) => "a string",
            NodeKind::List(_) => "an array",
            NodeKind::Map(_) => "an object",
        }
    }

    /// The items of an array.
    pub fn items(&self) -> Option<&[Node]> {
        match &self.kind {
            NodeKind::List(items) => Some(items),
            _ => None,
        }
    }

    /// The first member called `name`, when this is an object.
    pub fn member(&self, name: &str) -> Option<&Node> {
        match &self.kind {
            NodeKind::Map(entries) => {
                entries.iter().find(|entry| entry.name == name).map(|entry| &entry.value)
            }
            _ => None,
        }
    }

    pub fn is_object(&self) -> bool {
        matches!(self.kind, NodeKind::Map(_))
    }

    /// The text of a string.
    pub fn as_text(&self) -> Option<&str> {
        match &self.kind {
            NodeKind::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Whether this is an array without items.
    pub(crate) fn is_empty_list(&self) -> bool {
        self.items().is_some_and(<[Node]>::is_empty)
    }

    /// The value as JSON text, keys in the order they were written. For free-form parts such as
    /// `override_params` and hook metadata.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        self.write_json(&mut out);
        out
    }

    fn write_json(&self, out: &mut String) {
        match &self.kind {
            NodeKind::Null => out.push_str("null"),
            NodeKind::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
            NodeKind::Number(number) => out.push_str(&number.to_string()),
            NodeKind::Text(text) => out.push_str(&quoted(text)),
            NodeKind::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    out.push(if index == 0 { '[' } else { ',' });
                    item.write_json(out);
                }
                out.push_str(if items.is_empty() { "[]" } else { "]" });
            }
            NodeKind::Map(entries) => {
                for (index, entry) in entries.iter().enumerate() {
                    out.push(if index == 0 { '{' } else { ',' });
                    out.push_str(&quoted(&entry.name));
                    out.push(':');
                    entry.value.write_json(out);
                }
                out.push_str(if entries.is_empty() { "{}" } else { "}" });
            }
        }
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl fmt::Debug for NodeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeKind::Null => f.write_str("null"),
            NodeKind::Bool(flag) => write!(f, "{flag}"),
            NodeKind::Number(number) => write!(f, "{number}"),
            NodeKind::Text(_) => f.write_str("***"),
            NodeKind::List(items) => f.debug_list().entries(items).finish(),
            NodeKind::Map(entries) => f.debug_list().entries(entries).finish(),
        }
    }
}

impl From<NodeKind> for Node {
    fn from(kind: NodeKind) -> Self {
        Self { kind, place: None }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(NodeKind::Null.into())
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(NodeKind::Bool(value).into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(NodeKind::Number(value.into()).into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(NodeKind::Number(value.into()).into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Number::from_f64(value).map_or(NodeKind::Null, NodeKind::Number).into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(NodeKind::Text(value.to_owned()).into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(NodeKind::List(items).into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some((name, value)) = map.next_entry()? {
            entries.push(Entry { name, place: None, value });
        }
        Ok(NodeKind::Map(entries).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_the_order_it_was_written_in() {
        let text = r#"{"z":1,"a":[true,null,"x\"y",1.5],"m":{},"n":[]}"#;
        assert_eq!(Node::from_json(text.as_bytes()).unwrap().to_json(), text);
    }

    #[test]
    fn debug_shows_no_text() {
        let node = Node::from_json(br#"{"api_key":"canary","list":["canary"]}"#).unwrap();
        let shown = format!("{node:?}");
        assert!(shown.contains("api_key") && !shown.contains("canary"), "{shown}");
    }
}
