//! Schemas of functions and responses: Google's form of OpenAPI's, with types in capitals, as JSON schema.
//!
//! Example: `{"type":"STRING","nullable":true,"maxLength":"9"}` becomes `{"type":["string","null"],"maxLength":9}`. A schema
//! that is JSON schema already stays what it is; `parametersJsonSchema` and `responseJsonSchema` are not read here.

use super::names::camel;
use crate::api::body::MAX_MEMBERS;
use crate::json::Json;
use crate::json::write::ObjectWriter;
use std::borrow::Cow;

/// Members whose value is a number that protobuf's JSON may write as a text.
const NUMBERS: [&str; 6] =
    ["minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"];

/// Schemas below this depth stay unchanged: no model could follow them.
const MAX_DEPTH: usize = 64;

/// The JSON schema; `null` if the schema is no object.
pub(super) fn json_schema(schema: &Json<'_>) -> Json<'static> {
    let mut out = Vec::new();
    write_schema(schema.get(), 0, &mut out);
    Json::written(out).unwrap_or_else(Json::null)
}

fn write_schema(text: &str, depth: usize, out: &mut Vec<u8>) {
    // `true` and `false` are schemas, too.
    let members = members(text).filter(|_| depth < MAX_DEPTH);
    let Some(members) = members else { return out.extend_from_slice(text.as_bytes()) };
    let inner = depth + 1;
    let is_nullable = members.iter().any(|(name, value)| name == "nullable" && value.is_true());
    let mut object = ObjectWriter::open(out);
    for (name, value) in &members {
        let text = value.get();
        match camel(name).as_ref() {
            // The order of properties and examples are Google's additions.
            "nullable" | "propertyOrdering" | "example" => {}
            "type" => write_type(value, is_nullable, &mut object),
            "properties" | "defs" | "$defs" | "definitions" => {
                let name = if name == "defs" { "$defs" } else { name.as_ref() };
                write_named(text, inner, object.name(name));
            }
            plain @ ("items" | "additionalProperties" | "not") => {
                write_schema(text, inner, object.name(plain));
            }
            plain @ ("anyOf" | "oneOf" | "allOf" | "prefixItems") => {
                write_list(value, inner, object.name(plain));
            }
            plain if NUMBERS.contains(&plain) => object.raw(plain, text.trim_matches('"')),
            // An enumeration needs no format.
            "format" if text == "\"enum\"" => {}
            "ref" => object.raw("$ref", text),
            plain => object.raw(if name.starts_with('$') { name.as_ref() } else { plain }, text),
        }
    }
    object.close();
}

/// The members of an object. One with very many stays unchanged, as one that is very deep.
fn members(text: &str) -> Option<Vec<(Cow<'_, str>, Json<'_>)>> {
    Json::members(text).filter(|members| members.len() <= MAX_MEMBERS)
}

/// An object of schemas, whose names are the client's.
fn write_named(text: &str, depth: usize, out: &mut Vec<u8>) {
    let Some(schemas) = members(text) else { return out.extend_from_slice(text.as_bytes()) };
    let mut object = ObjectWriter::open(out);
    for (name, schema) in &schemas {
        write_schema(schema.get(), depth, object.name(name.as_ref()));
    }
    object.close();
}

fn write_list(list: &Json<'_>, depth: usize, out: &mut Vec<u8>) {
    let Some(schemas) = list.read::<Vec<Json<'_>>>() else {
        return out.extend_from_slice(list.get().as_bytes());
    };
    out.push(b'[');
    for (index, schema) in schemas.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_schema(schema.get(), depth, out);
    }
    out.push(b']');
}

fn write_type(value: &Json<'_>, is_nullable: bool, object: &mut ObjectWriter<'_>) {
    let name = value.text().map(|name| name.to_ascii_lowercase());
    match name.as_deref() {
        Some("type_unspecified") => {}
        Some(name) if is_nullable && name != "null" => {
            object.raw("type", Json::from_value(&[name, "null"]).get());
        }
        Some(name) => object.text("type", name),
        // A list of types, as JSON schema has it.
        None => object.raw("type", value.get()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_of_any_depth_is_written() {
        // The stack of a thread does not hold as many calls.
        const DEPTH: usize = 20_000;
        let nested = |kind: &str| {
            let inner = format!(r#"{{"items":{{"type":"{kind}"}},"anyOf":["#).repeat(DEPTH);
            format!("{inner}1{}", "]}".repeat(DEPTH))
        };
        let written = json_schema(&Json::parse(&nested("STRING")).unwrap());
        let deep = written.get().len();
        assert!(
            written.get().starts_with(r#"{"items":{"type":"string"},"anyOf":[{"items":{"type":"string"}"#)
        );
        assert!(written.get().contains("STRING"), "what is deep stays as it is");
        assert_eq!(deep, nested("string").len());
    }

    #[test]
    fn types_in_capitals_become_json_schema() {
        for (schema, wanted) in [
            (
                r#"{"type":"OBJECT","properties":{"a_b":{"type":"STRING","nullable":true,"maxLength":"9"},
                    "type":{"type":"ARRAY","items":{"type":"INTEGER","format":"int32"},"min_items":"1"}},
                    "required":["a_b"],"propertyOrdering":["a_b"]}"#,
                r#"{"type":"object","properties":{"a_b":{"type":["string","null"],"maxLength":9},"type":{"type":"array","items":{"type":"integer","format":"int32"},"minItems":1}},"required":["a_b"]}"#,
            ),
            (
                r#"{"any_of":[{"type":"NUMBER"},{"type":"NULL"}],"title":"T"}"#,
                r#"{"anyOf":[{"type":"number"},{"type":"null"}],"title":"T"}"#,
            ),
            (
                r#"{"type":"STRING","format":"enum","enum":["A","B"]}"#,
                r#"{"type":"string","enum":["A","B"]}"#,
            ),
            (
                r#"{"type":["string","null"],"$ref":"x","additionalProperties":false}"#,
                r#"{"type":["string","null"],"$ref":"x","additionalProperties":false}"#,
            ),
            (r#"{"properties":3,"items":[],"anyOf":1}"#, r#"{"properties":3,"items":[],"anyOf":1}"#),
            ("3", "3"),
        ] {
            assert_eq!(json_schema(&Json::parse(schema).unwrap()).get(), wanted);
        }
    }
}
