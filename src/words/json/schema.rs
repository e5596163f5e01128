//! The types of values in JSON Schema: one function for each kind that the readers of configs and settings know.
//!
//! These readers take `null` for an absent key, and a text may be a reference to a secret; both are part of the types here. Not here:
//! which members an object has.

use serde_json::{Map, Value, json};

/// A text that the reader replaces: `${NAME}` anywhere in it, or `credential:NAME`.
pub(crate) const REFERENCE: &str = r"\$\{|^credential:.";

/// Any text.
pub(crate) fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

/// A text that is not blank.
pub(crate) fn non_empty(description: &str) -> Value {
    json!({"type": "string", "pattern": r"\S", "description": description})
}

/// A text of this form, or a reference.
pub(crate) fn pattern(description: &str, pattern: &str, examples: &[&str]) -> Value {
    json!({
        "anyOf": [{"type": "string", "pattern": pattern}, {"$ref": "#/$defs/reference"}],
        "description": description,
        "examples": examples,
    })
}

/// One of these texts, or a reference.
pub(crate) fn one_of<'a>(description: &str, values: impl IntoIterator<Item = &'a str>) -> Value {
    let values: Vec<&str> = values.into_iter().collect();
    json!({"anyOf": [{"enum": values}, {"$ref": "#/$defs/reference"}], "description": description})
}

pub(crate) fn flag(description: &str) -> Value {
    json!({"type": "boolean", "description": description})
}

/// A whole number; without `max` as large as the reader takes.
pub(crate) fn integer(description: &str, min: i64, max: Option<i64>) -> Value {
    let max = max.unwrap_or(i64::MAX);
    json!({"type": "integer", "minimum": min, "maximum": max, "description": description})
}

/// A number of at least `min`.
pub(crate) fn number(description: &str, min: f64) -> Value {
    json!({"type": "number", "minimum": min, "description": description})
}

/// A list of HTTP statuses.
pub(crate) fn statuses(description: &str) -> Value {
    list(description, json!({"type": "integer", "minimum": 100, "maximum": 599}))
}

pub(crate) fn list(description: &str, items: Value) -> Value {
    json!({"type": "array", "items": items, "description": description})
}

/// An object whose content is not looked at.
pub(crate) fn free(description: &str) -> Value {
    json!({"type": "object", "description": description})
}

/// Another definition, described here where there is more to say of it.
pub(crate) fn see(name: &str, description: &str) -> Value {
    let reference = format!("#/$defs/{name}");
    match description {
        "" => json!({"$ref": reference}),
        _ => json!({"$ref": reference, "description": description}),
    }
}

/// The value that holds when the key is absent.
pub(crate) fn or(mut schema: Value, default: impl Into<Value>) -> Value {
    if let Value::Object(members) = &mut schema {
        members.insert("default".to_owned(), default.into());
    }
    schema
}

/// An object with these keys and no others. `null` counts as an absent key, so it is not enough for a required one.
pub(crate) fn object(description: &str, required: &[&str], keys: Vec<(&str, Value)>) -> Value {
    let mut properties = Map::new();
    for (name, schema) in keys {
        let schema = if required.contains(&name) { schema } else { or_null(schema) };
        properties.insert(name.to_owned(), schema);
    }
    let mut schema = json!({
        "type": "object",
        "description": description,
        "properties": properties,
        "additionalProperties": false,
    });
    if let (false, Value::Object(members)) = (required.is_empty(), &mut schema) {
        members.insert("required".to_owned(), required.into());
    }
    schema
}

/// The schema, and `null`.
fn or_null(mut schema: Value) -> Value {
    let Value::Object(members) = &mut schema else { return schema };
    if let Some(kind) = members.get_mut("type") {
        if *kind != "null" {
            *kind = json!([kind.clone(), "null"]);
        }
    } else if let Some(Value::Array(choices)) = members.get_mut("anyOf") {
        choices.push(json!({"type": "null"}));
    } else if let Some(reference) = members.remove("$ref") {
        members.insert("anyOf".to_owned(), json!([{"$ref": reference}, {"type": "null"}]));
    }
    schema
}
