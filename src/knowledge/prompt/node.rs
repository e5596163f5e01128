//! What a template's text consists of once it is compiled. Does not render itself: `renderer` does.

use super::partial::PartialRef;

/// One part of a compiled template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    Text(Box<str>),
    /// `{{name}}`, `{{{name}}}`, `{{&name}}`: a value as it is.
    Value(Path),
    /// `{{#name}}…{{/name}}`, or `{{^name}}…{{/name}}` where `inverted`.
    Section {
        path: Path,
        inverted: bool,
        nodes: Vec<Node>,
    },
    /// `{{>slug}}`. `indent` stands before each of its lines.
    Partial {
        partial: PartialRef,
        indent: Box<str>,
    },
    /// `{{>>name}}`: the variable holds the slug of the partial.
    VariablePartial {
        path: Path,
        indent: Box<str>,
    },
}

/// A dotted name. `{{.}}`, the current item, has no segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    segments: Box<[Box<str>]>,
}

impl Path {
    pub fn new(name: &str) -> Self {
        let segments = match name {
            "." => Box::default(),
            name => name.split('.').map(|segment| segment.trim().into()).collect(),
        };
        Self { segments }
    }

    pub fn segments(&self) -> &[Box<str>] {
        &self.segments
    }

    /// The variable it is read from; `None` for the current item.
    pub fn variable(&self) -> Option<&str> {
        self.segments.first().map(AsRef::as_ref)
    }

    /// The bytes of its name.
    pub fn size(&self) -> usize {
        self.segments.iter().map(|segment| segment.len() + 1).sum()
    }

    /// As it is written in a template.
    pub fn name(&self) -> String {
        if self.segments.is_empty() { ".".to_owned() } else { self.segments.join(".") }
    }
}
