//! The deltas of a chat's stream, put together to the message that the next round is sent.
//!
//! By the rules of OpenAI's own libraries: texts are joined, lists by the `index` of their items, and what is there once is kept.

use crate::json::tree;
use serde_json::{Map, Value, json};

/// Texts that a delta repeats as a whole.
const WHOLE: [&str; 6] = ["id", "type", "name", "role", "object", "format"];

/// The deltas so far.
#[derive(Debug, Default)]
pub(super) struct DeltaSum(Map<String, Value>);

impl DeltaSum {
    /// Adds a delta: JSON text.
    pub fn add(&mut self, delta: &str) {
        if let Ok(Value::Object(delta)) = tree::read(delta) {
            merge(&mut self.0, delta);
        }
    }

    /// The message of the model.
    pub fn message(self) -> Value {
        let mut message = self.0;
        message.insert("role".to_owned(), json!("assistant"));
        let content = message.entry("content").or_insert(Value::Null);
        if content.as_str() == Some("") {
            *content = Value::Null;
        }
        for call in list(&mut message, "tool_calls") {
            if let Value::Object(call) = call {
                call.remove("index");
            }
        }
        for block in list(&mut message, "content_blocks") {
            *block = whole_block(block);
        }
        Value::Object(message)
    }
}

fn list<'m>(message: &'m mut Map<String, Value>, name: &str) -> impl Iterator<Item = &'m mut Value> {
    message.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten()
}

/// A block of a stream as a whole response has it.
fn whole_block(block: &Value) -> Value {
    let mut whole = block.get("delta").and_then(Value::as_object).cloned().unwrap_or_default();
    let kind = [
        ("signature", "thinking"),
        ("thinking", "thinking"),
        ("data", "redacted_thinking"),
        ("text", "text"),
    ]
    .into_iter()
    .find(|(member, _)| whole.contains_key(*member));
    if let Some((_, kind)) = kind {
        whole.entry("type").or_insert_with(|| json!(kind));
    }
    Value::Object(whole)
}

fn merge(sum: &mut Map<String, Value>, delta: Map<String, Value>) {
    for (name, new) in delta {
        match (sum.get_mut(&name), new) {
            (None, new) => {
                let mut empty = Value::Array(Vec::new());
                match new {
                    Value::Array(items) => {
                        merge_list(&mut empty, items);
                        sum.insert(name, empty);
                    }
                    new => {
                        sum.insert(name, new);
                    }
                }
            }
            (Some(_), Value::Null) => {}
            (Some(Value::String(old)), Value::String(new)) if !WHOLE.contains(&&*name) => old.push_str(&new),
            (Some(Value::String(_)), Value::String(new)) if new.is_empty() => {}
            (Some(Value::Object(old)), Value::Object(new)) => merge(old, new),
            (Some(old @ Value::Array(_)), Value::Array(new)) => merge_list(old, new),
            (Some(old), new) => *old = new,
        }
    }
}

fn merge_list(list: &mut Value, items: Vec<Value>) {
    let Value::Array(list) = list else { return };
    for item in items {
        let index = item.get("index").cloned();
        let same = list.iter_mut().find(|old| index.is_some() && old.get("index") == index.as_ref());
        match (same, item) {
            (Some(Value::Object(old)), Value::Object(new)) => merge(old, new),
            (_, item) => list.push(item),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deltas_become_the_message() {
        let mut sum = DeltaSum::default();
        for delta in [
            json!({"role": "assistant", "content": ""}),
            json!({"reasoning_content": "hm", "content_blocks": [{"index": 0, "delta": {"thinking": "hm"}}]}),
            json!({"content_blocks": [{"index": 0, "delta": {"signature": "s"}}]}),
            json!({"content": "a", "refusal": null}),
            json!({"content": "b"}),
            json!({"tool_calls": [{"index": 0, "id": "c0", "type": "function", "function": {"name": "f", "arguments": ""}}]}),
            json!({"tool_calls": [{"index": 1, "id": "c1", "type": "function", "function": {"name": "g", "arguments": "{}"}},
                {"index": 0, "id": "", "function": {"arguments": "{\"a\":"}}]}),
            json!({"tool_calls": [{"index": 0, "function": {"arguments": "1}", "thought_signature": "t"}}]}),
        ] {
            sum.add(&delta.to_string());
        }
        let wanted = json!({"role": "assistant", "content": "ab", "reasoning_content": "hm", "refusal": null,
            "content_blocks": [{"type": "thinking", "thinking": "hm", "signature": "s"}],
            "tool_calls": [
                {"id": "c0", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}", "thought_signature": "t"}},
                {"id": "c1", "type": "function", "function": {"name": "g", "arguments": "{}"}}]});
        assert_eq!(sum.message(), wanted);
        assert_eq!(DeltaSum::default().message(), json!({"role": "assistant", "content": null}));
    }
}
