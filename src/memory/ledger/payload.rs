//! The bodies of a request as they are kept: a JSON object, each member cut at a limit, compressed.
//!
//! What is kept, and the masking of secrets, are decided where bodies are taken.

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Map, Value, json};
use std::io::{Read as _, Write as _};
use std::sync::Arc;

/// The most bytes of a payload that is read back.
const MAX_BYTES: u64 = 256 << 20;

/// Bodies on their way to the ledger: compressed by its own thread, not by a request's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bodies {
    /// Each with its name, what is kept of it, and how long it was.
    pub parts: Vec<(&'static str, Bytes, u64)>,
    /// Of each body.
    pub max_bytes: usize,
}

impl Bodies {
    pub fn size(&self) -> usize {
        self.parts.iter().map(|(_, kept, _)| kept.len()).sum()
    }

    /// As the log store keeps them.
    pub(crate) fn pack(&self) -> Option<Arc<[u8]>> {
        let part = |(name, kept, total): &(&str, Bytes, u64)| {
            ((*name).to_owned(), body(kept, *total, self.max_bytes))
        };
        write(&self.parts.iter().map(part).collect(), self.max_bytes)
    }
}

/// A payload of these members, none of them longer than `max_bytes`. `None` where there are none.
pub fn write(members: &Map<String, Value>, max_bytes: usize) -> Option<Arc<[u8]>> {
    if members.is_empty() {
        return None;
    }
    let cut: Map<String, Value> =
        members.iter().map(|(name, value)| (name.clone(), shortened(value, max_bytes))).collect();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    serde_json::to_writer(&mut encoder, &cut).ok()?;
    encoder.flush().ok()?;
    encoder.finish().ok().map(Arc::from)
}

/// A text as a body: the JSON it is, or the text. What is longer than `max_bytes` is cut.
pub fn body(text: &[u8], total: u64, max_bytes: usize) -> Value {
    let is_whole = text.len() as u64 == total && text.len() <= max_bytes;
    if is_whole && let Ok(value) = serde_json::from_slice(text) {
        return value;
    }
    let kept = text.get(..text.len().min(max_bytes)).unwrap_or(text);
    let shown = String::from_utf8_lossy(kept).into_owned();
    if is_whole { Value::String(shown) } else { marked(shown, total) }
}

fn shortened(value: &Value, max_bytes: usize) -> Value {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Object(members) if members.contains_key(CUT) => return value.clone(),
        value => value.to_string(),
    };
    match text.get(..text.floor_char_boundary(max_bytes)) {
        Some(beginning) if beginning.len() < text.len() => marked(beginning.to_owned(), text.len() as u64),
        _ => value.clone(),
    }
}

/// The member that marks a body of which only the beginning is kept.
const CUT: &str = "cut";

fn marked(beginning: String, bytes: u64) -> Value {
    json!({CUT: true, "bytes": bytes, "beginning": beginning})
}

/// The members of a payload; `None` if it is damaged.
pub fn read(bytes: &[u8]) -> Option<Map<String, Value>> {
    let mut text = Vec::new();
    GzDecoder::new(bytes).take(MAX_BYTES).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_back_and_long_ones_are_cut() {
        let members =
            json!({"request": {"a": "b".repeat(50)}, "response": "c".repeat(50), "headers": {"x": 1}});
        let Value::Object(members) = members else { panic!() };
        assert_eq!(read(&write(&members, 1000).unwrap()).unwrap(), members);
        let cut = read(&write(&members, 20).unwrap()).unwrap();
        assert_eq!(cut["headers"], json!({"x": 1}));
        assert_eq!(cut["response"], json!({"cut": true, "bytes": 50, "beginning": "c".repeat(20)}));
        assert_eq!(cut["request"]["bytes"], 58);
        assert_eq!(write(&Map::new(), 20), None);
        assert_eq!(read(b"no gzip"), None);
    }

    #[test]
    fn a_body_is_json_where_it_is_whole() {
        assert_eq!(body(br#"{"a":1}"#, 7, 100), json!({"a": 1}));
        assert_eq!(body(b"data: x", 7, 100), json!("data: x"));
        assert_eq!(body(br#"{"a":1"#, 900, 6), json!({"cut": true, "bytes": 900, "beginning": "{\"a\":1"}));
    }
}
