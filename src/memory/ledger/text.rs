//! A short text of a row: a constant of the program, or shared with whatever else has it.
//!
//! Rows of one request share most of their texts, so that a row costs few allocations.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Borrow;
use std::ops::Deref;
use std::sync::Arc;

/// A text that is cheap to clone.
#[derive(Clone)]
pub struct Text(Source);

#[derive(Clone)]
enum Source {
    Static(&'static str),
    Shared(Arc<str>),
}

impl Text {
    pub const fn new(text: &'static str) -> Self {
        Self(Source::Static(text))
    }

    pub fn as_str(&self) -> &str {
        match &self.0 {
            Source::Static(text) => text,
            Source::Shared(text) => text,
        }
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        self
    }
}

impl From<&'static str> for Text {
    fn from(text: &'static str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(Source::Shared(text.into()))
    }
}

impl From<Arc<str>> for Text {
    fn from(text: Arc<str>) -> Self {
        Self(Source::Shared(text))
    }
}

impl From<&Arc<str>> for Text {
    fn from(text: &Arc<str>) -> Self {
        Self(Source::Shared(Arc::clone(text)))
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Text {}

impl std::hash::Hash for Text {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_str().fmt(f)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

/// Empty.
impl Default for Text {
    fn default() -> Self {
        Self::new("")
    }
}
