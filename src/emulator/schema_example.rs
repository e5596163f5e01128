//! Generates a value that a JSON schema accepts: arguments of tool calls, structured output.
//!
//! Not a validator, and simple: every property is filled, the first of all alternatives is taken.

use serde_json::{Map, Value, json};

/// Deeper schemas get null: a schema may refer to itself.
const MAX_DEPTH: usize = 8;

/// An example of what `schema` describes.
pub(super) fn example(schema: &Value) -> Value {
    build(schema, schema, 0)
}

fn build(schema: &Value, root: &Value, depth: usize) -> Value {
    if depth > MAX_DEPTH {
        return Value::Null;
    }
    if let Some(pointer) = schema.get("$ref").and_then(Value::as_str) {
        let found = pointer.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return found.map_or(Value::Null, |schema| build(schema, root, depth + 1));
    }
    let first = |key: &str| schema.get(key).and_then(Value::as_array).and_then(|list| list.first());
    if let Some(value) = schema.get("const").or_else(|| first("enum")) {
        return value.clone();
    }
    if let Some(choice) = first("anyOf").or_else(|| first("oneOf")).or_else(|| first("allOf")) {
        return build(choice, root, depth + 1);
    }
    let kind = schema.get("type").and_then(Value::as_str).or_else(|| first("type").and_then(Value::as_str));
    let minimum = schema.get("minimum").filter(|minimum| minimum.is_number()).cloned();
    match kind {
        Some("array") => match schema.get("items") {
            Some(items) => json!([build(items, root, depth + 1)]),
            None => json!([]),
        },
        Some("string") => string(schema).into(),
        Some("integer") => minimum.unwrap_or_else(|| json!(1)),
        Some("number") => minimum.unwrap_or_else(|| json!(1.5)),
        Some("boolean") => true.into(),
        Some("null") => Value::Null,
        _ => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let fill = |(name, schema): (&String, &Value)| (name.clone(), build(schema, root, depth + 1));
            Value::Object(
                properties.map(|all| all.iter().map(fill).collect::<Map<_, _>>()).unwrap_or_default(),
            )
        }
    }
}

fn string(schema: &Value) -> &'static str {
    match schema.get("format").and_then(Value::as_str) {
        Some("date-time") => "2026-01-02T03:04:05Z",
        Some("date") => "2026-01-02",
        Some("time") => "03:04:05Z",
        Some("email") => "fox@example.com",
        Some("uri" | "url") => "https://example.com/fox",
        Some("uuid") => "0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b",
        _ => "quick brown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_fit_their_schemas() {
        for (schema, expected) in [
            (
                json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer", "minimum": 4}}}),
                json!({"a": "quick brown", "b": 4}),
            ),
            (json!({"type": "array", "items": {"enum": ["x", "y"]}}), json!(["x"])),
            (json!({"anyOf": [{"type": "null"}, {"type": "string"}]}), Value::Null),
            (json!({"type": ["number", "null"]}), json!(1.5)),
            (
                json!({"$ref": "#/$defs/d", "$defs": {"d": {"type": "string", "format": "date"}}}),
                json!("2026-01-02"),
            ),
            (json!({}), json!({})),
            (json!(true), json!({})),
        ] {
            assert_eq!(example(&schema), expected, "{schema}");
        }
    }

    #[test]
    fn a_recursive_schema_terminates() {
        let schema = json!({"type": "object", "properties": {"next": {"$ref": "#"}}});
        assert!(example(&schema).to_string().len() < 200);
    }
}
