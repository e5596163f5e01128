//! For tests: JSON values, other spellings of them, and the slow, obvious comparison.
//!
//! Not the text that stands for all spellings: that is `canonical`.

use proptest::prelude::*;
use serde_json::{Number, Value, json};

/// Small values, so that two of them are often equal.
pub fn any_value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..3).prop_map(Value::from),
        (-3_i64..3).prop_map(|number| json!(number as f64 / 2.0)),
        prop::sample::select(vec!["", "a", "b", "\"", "\\", "é", "1"]).prop_map(Value::from),
    ];
    scalar.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::hash_map("[ab]{0,1}", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// The slow and obvious comparison.
pub fn is_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, value)| other.get(name).is_some_and(|other| is_equal(value, other)))
        }
        (one, other) => one == other,
    }
}

/// Other spellings of the same value.
pub fn respelt(value: &Value, seed: u64) -> String {
    match value {
        Value::Number(number) => respelt_number(number, seed),
        Value::String(text) if seed.is_multiple_of(2) => {
            let escaped: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
            format!("\"{escaped}\"")
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| respelt(item, seed / 2)).collect();
            format!("[ {} ]", items.join(" , "))
        }
        Value::Object(members) => {
            let mut members: Vec<String> = members
                .iter()
                .map(|(name, value)| {
                    format!("{} :\t{}", Value::from(name.as_str()), respelt(value, seed / 3))
                })
                .collect();
            if seed.is_multiple_of(2) {
                members.reverse();
            }
            format!("{{{}}}", members.join(",\n"))
        }
        other => other.to_string(),
    }
}

fn respelt_number(number: &Number, seed: u64) -> String {
    let value = number.as_f64().unwrap();
    match seed % 3 {
        0 => format!("{value:e}"),
        1 => format!("{value:.4}"),
        _ => number.to_string(),
    }
}
