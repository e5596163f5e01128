//! Writes a table of fields as JSON Schema, for the OpenAPI document.

use super::{Field, Type};
use serde_json::{Map, Value, json};

/// The schema of an object with these members. `is_closed`: whether it has no others.
pub(in super::super) fn object_schema(fields: &[Field], is_closed: bool) -> Value {
    let mut properties = Map::new();
    for field in fields {
        let mut schema = type_schema(&field.of, is_closed);
        if field.is_nullable {
            schema = or_null(schema);
        }
        if let Value::Object(members) = &mut schema {
            members.insert("description".to_owned(), field.doc.into());
        }
        properties.insert(field.name.to_owned(), schema);
    }
    let names: Vec<&str> = fields.iter().filter(|field| field.is_required).map(|field| field.name).collect();
    let mut schema = json!({"type": "object", "properties": properties});
    if let Value::Object(members) = &mut schema {
        if !names.is_empty() {
            members.insert("required".to_owned(), names.into());
        }
        if is_closed {
            members.insert("additionalProperties".to_owned(), false.into());
        }
    }
    schema
}

pub(in super::super) fn type_schema(of: &Type, is_closed: bool) -> Value {
    match of {
        Type::Text(max) => json!({"type": "string", "maxLength": max}),
        Type::Name(max) => json!({"type": "string", "minLength": 1, "maxLength": max, "pattern": "\\S"}),
        Type::Slug(min, max) => {
            json!({"type": "string", "pattern": format!("^[A-Za-z0-9._-]{{{min},{max}}}$")})
        }
        Type::Uuid => json!({"type": "string", "format": "uuid"}),
        Type::Time => json!({"type": "string", "format": "date-time"}),
        Type::Flag => json!({"type": ["boolean", "integer"], "enum": [true, false, 1, 0]}),
        Type::Bit => json!({"type": "integer", "enum": [0, 1]}),
        Type::Integer(min, max) => json!({"type": "integer", "minimum": min, "maximum": max}),
        Type::Number(min, max) => json!({"type": "number", "minimum": min, "maximum": max}),
        Type::OneOf(names) => json!({"type": "string", "enum": names}),
        Type::List(of, min, max) => {
            json!({"type": "array", "items": type_schema(of, is_closed), "minItems": min, "maxItems": max})
        }
        Type::Map(of, max) => {
            json!({"type": "object", "additionalProperties": type_schema(of, is_closed), "maxProperties": max})
        }
        Type::Object(fields) => object_schema(fields, is_closed),
        Type::AnyOf(types) => {
            let schemas: Vec<Value> = types.iter().map(|of| type_schema(of, is_closed)).collect();
            json!({"anyOf": schemas})
        }
        Type::AnyObject => json!({"type": "object"}),
        Type::Any => json!({}),
    }
}

fn or_null(mut schema: Value) -> Value {
    let Value::Object(members) = &mut schema else { return schema };
    if let Some(Value::Array(names)) = members.get_mut("enum") {
        names.push(Value::Null);
    }
    match members.get_mut("type") {
        Some(Value::Array(kinds)) => kinds.push("null".into()),
        Some(kind) => *kind = json!([kind.clone(), "null"]),
        None => {
            if let Some(Value::Array(choices)) = members.get_mut("anyOf") {
                choices.push(json!({"type": "null"}));
            }
        }
    }
    schema
}
