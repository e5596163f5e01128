//! Writes a table of fields as JSON Schema, for the OpenAPI document.

use super::{Field, Type};
use knowledge::provider;
use memory::limits::FactKey;
use serde_json::{Map, Value, json};
use words::api::operation::Operation;
use words::settings::model_pattern;
use words::settings::scopes::Scope;

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
        Type::Sha256 => json!({"type": "string", "pattern": "^[0-9A-Fa-f]{64}$"}),
        Type::Time => json!({"type": "string", "format": "date-time"}),
        Type::Flag | Type::Switch => json!({"type": ["boolean", "integer"], "enum": [true, false, 1, 0]}),
        Type::Bit => json!({"type": "integer", "enum": [0, 1]}),
        Type::Integer(min, max) => json!({"type": "integer", "minimum": min, "maximum": max}),
        Type::Number(min, max) => json!({"type": "number", "minimum": min, "maximum": max}),
        Type::OneOf(names) => json!({"type": "string", "enum": names}),
        Type::Names(names) => {
            let any = names.join("|");
            json!({"type": "string", "pattern": format!("^ *({any}) *(, *({any}) *)*$")})
        }
        Type::Ids(max) => {
            json!({"type": "string", "pattern": format!("^[A-Za-z0-9._, -]{{0,{max}}}$")})
        }
        Type::Email => json!({"type": "string", "pattern": "^[!-?A-~]{1,64}@[!-?A-~]{1,255}$"}),
        Type::Vendor => json!({"type": "string", "enum": provider::names().collect::<Vec<_>>()}),
        Type::PolicyKey => {
            let names = FactKey::NAMES.join("|");
            json!({"type": "string", "pattern": format!("^({names}|metadata\\.[\\s\\S]{{1,64}})$")})
        }
        // As `Scope::parse` reads it.
        Type::Scope => {
            let names: Vec<&str> =
                Scope::ALL.iter().map(|scope| scope.as_str()).chain(["logs.read"]).collect();
            json!({"type": "string", "enum": names})
        }
        Type::ModelName => model_pattern::schema(),
        Type::Operation => json!({"type": "string", "enum": Operation::labels().collect::<Vec<_>>()}),
        Type::ConfigObject => json!({"$ref": "#/components/schemas/config"}),
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

#[cfg(test)]
mod tests {
    use super::super::{optional, read_text};
    use super::*;
    use words::config::read::Problems;

    /// Types whose schema is a pattern: reader and document accept the same texts.
    #[test]
    fn a_pattern_accepts_what_the_reader_accepts() {
        let names = Type::Names(&["active", "archived"]);
        for (of, text, is_right) in [
            (names, "active", true),
            (names, "archived, active", true),
            (names, "active,", false),
            (names, "gone", false),
            (Type::Ids(8), "a-1, b_2", true),
            (Type::Ids(8), "a/b", false),
            (Type::Ids(8), "a,b,c,d,e", false),
            (Type::Email, "ann@example.com", true),
            (Type::Email, "ann", false),
            (Type::Email, "a@b@c", false),
            (Type::Email, "a b@c", false),
            (Type::Slug(2, 4), "a.b", true),
            (Type::Slug(2, 4), "a", false),
        ] {
            let problems = Problems::default();
            let _ = read_text(&of, text, "", &problems);
            assert_eq!(problems.is_empty(), is_right, "{of:?} {text:?}");
            let schema = object_schema(&[optional("x", of, "")], true);
            let found = jsonschema::is_valid(&schema, &json!({"x": text}));
            assert_eq!(found, is_right, "{schema} {text:?}");
        }
    }

    #[test]
    fn a_vendor_is_one_of_those_that_the_reader_knows() {
        let Value::Array(names) = type_schema(&Type::Vendor, true)["enum"].clone() else { panic!() };
        for name in names {
            let problems = Problems::default();
            let _ = read_text(&Type::Vendor, name.as_str().unwrap(), "", &problems);
            assert!(problems.is_empty(), "{name}");
        }
    }
}
