//! The sum of what several responses report as `usage`, in the same form.
//!
//! Counts alone: what is no number is the last response's. What the rounds cost is the log's to say, which has a row for each.

use crate::json::tree;
use serde_json::{Map, Value};

/// The sum so far.
#[derive(Debug, Default)]
pub(super) struct UsageSum(Option<Value>);

impl UsageSum {
    /// Adds the usage of one more response: JSON text.
    pub fn add(&mut self, usage: &str) {
        let Ok(usage @ Value::Object(_)) = tree::read(usage) else { return };
        self.0 = Some(match self.0.take() {
            Some(sum) => added(sum, usage),
            None => usage,
        });
    }

    /// The sum with the usage of one more response: JSON text.
    pub fn with(&self, usage: &str) -> Option<String> {
        let mut sum = Self(self.0.clone());
        sum.add(usage);
        sum.json()
    }

    /// `None`: no response has reported any.
    pub fn json(&self) -> Option<String> {
        self.0.as_ref().map(Value::to_string)
    }
}

fn added(one: Value, other: Value) -> Value {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => Value::Object(added_members(one, other)),
        (Value::Number(one), Value::Number(other)) => match (one.as_u64(), other.as_u64()) {
            (Some(a), Some(b)) => a.saturating_add(b).into(),
            _ => (one.as_f64().unwrap_or_default() + other.as_f64().unwrap_or_default()).into(),
        },
        (one, Value::Null) => one,
        (_, other) => other,
    }
}

fn added_members(mut one: Map<String, Value>, other: Map<String, Value>) -> Map<String, Value> {
    for (name, value) in other {
        let sum = match one.remove(&name) {
            Some(before) => added(before, value),
            None => value,
        };
        one.insert(name, sum);
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn counts_are_added_and_the_rest_is_the_last() {
        let mut sum = UsageSum::default();
        assert_eq!(sum.json(), None);
        sum.add(r#"{"total_tokens":3,"details":{"cached":1},"cost":0.5,"tier":"a","x":null}"#);
        sum.add(r#"{"total_tokens":4,"details":{"cached":2,"new":1},"cost":0.25,"tier":"b"}"#);
        sum.add("null");
        let read: Value = serde_json::from_str(&sum.json().unwrap()).unwrap();
        let wanted = json!({"total_tokens": 7, "details": {"cached": 3, "new": 1}, "cost": 0.75, "tier": "b", "x": null});
        assert_eq!(read, wanted);
        assert!(sum.with(r#"{"total_tokens":1}"#).unwrap().contains(r#""total_tokens":8"#));
    }
}
