//! A body as the tree that some checks look at. Most checks look at its texts alone, so that it is read when the first one wants it.
//!
//! Of two members of one name the last one counts, as for serde (`json::unique` finds them); a lone surrogate is read as U+FFFD.

use serde_json::Value;
use std::sync::{Arc, OnceLock};
use words::json::{surrogates, tree};

/// A JSON text, and its tree once that was read.
#[derive(Debug, Default)]
pub struct LazyTree {
    text: Arc<str>,
    tree: OnceLock<Value>,
}

impl LazyTree {
    pub fn new(text: Arc<str>) -> Self {
        Self { text, tree: OnceLock::new() }
    }

    /// The tree; null where the text is no JSON. Reading a large text takes a while: see [`LazyTree::bytes_to_read`].
    pub fn get(&self) -> &Value {
        self.tree.get_or_init(|| tree::read(&surrogates::replaced(&self.text)).unwrap_or_default())
    }

    /// How much text [`LazyTree::get`] would read.
    pub fn bytes_to_read(&self) -> usize {
        if self.tree.get().is_some() { 0 } else { self.text.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_text_is_read_once_and_as_serde_reads_it() {
        for (text, wanted) in [
            (r#"{"a":1,"a":2}"#, json!({"a": 2})),
            (r#"["\ud800"]"#, json!(["\u{fffd}"])),
            (
                r#"{"a":{"$serde_json::private::RawValue":"x"},"b":1}"#,
                json!({"a": {"$serde_json::private::RawValue": "x"}, "b": 1}),
            ),
            ("", Value::Null),
            ("{", Value::Null),
        ] {
            let tree = LazyTree::new(text.into());
            assert_eq!(tree.bytes_to_read(), text.len());
            assert_eq!((tree.get(), tree.bytes_to_read()), (&wanted, 0), "{text}");
        }
    }
}
