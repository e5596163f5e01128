//! The variables of a rendering: how a name is looked up, when a value counts as true, and how it reads as text.

use super::node::Path;
use serde_json::Value;
use std::borrow::Cow;

/// The variables, and the items of the sections that are being rendered, the innermost last.
#[derive(Debug)]
pub struct Scopes<'a> {
    values: Vec<&'a Value>,
}

impl<'a> Scopes<'a> {
    pub fn new(variables: &'a Value) -> Self {
        Self { values: vec![variables] }
    }

    pub fn push(&mut self, value: &'a Value) {
        self.values.push(value);
    }

    pub fn pop(&mut self) {
        self.values.pop();
    }

    /// The value of a name in the innermost scope that has it; `null` counts as absent.
    pub fn find(&self, path: &Path) -> Option<&'a Value> {
        if path.segments().is_empty() {
            return self.values.last().copied().filter(|value| !value.is_null());
        }
        self.values.iter().rev().find_map(|scope| below(scope, path)).filter(|value| !value.is_null())
    }

    /// Whether any scope has the name, also where its value is `null`.
    pub fn has(&self, path: &Path) -> bool {
        self.values.iter().any(|scope| below(scope, path).is_some())
    }
}

/// What the path leads to in this scope.
fn below<'a>(scope: &'a Value, path: &Path) -> Option<&'a Value> {
    path.segments().iter().try_fold(scope, |value, name| member(value, name))
}

fn member<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Object(members) => members.get(name),
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        _ => None,
    }
}

/// Whether a section of this value is rendered.
pub fn is_true(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => false,
        Some(Value::Bool(flag)) => *flag,
        Some(Value::Number(number)) => number.as_f64() != Some(0.0),
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::Object(_)) => true,
    }
}

/// A value as text: strings as they are, anything else as compact JSON, nothing for an absent one.
pub fn text(value: Option<&Value>) -> Cow<'_, str> {
    match value {
        None | Some(Value::Null) => Cow::Borrowed(""),
        Some(Value::String(text)) => Cow::Borrowed(text),
        Some(other) => Cow::Owned(other.to_string()),
    }
}
