//! Adapts a JSON schema to Anthropic's structured outputs, which support fewer keywords than OpenAI's.
//!
//! Unsupported keywords (`minimum`, `maxLength`, ...) would be refused with a 400. They are moved into the
//! `description`, as Anthropic's own SDKs do. Objects are closed (`additionalProperties: false`), as
//! Anthropic requires. Everything else is kept, including order and digits.
//!
//! For example, `{"type":"integer","description":"age","minimum":1}` becomes
//! `{"type":"integer","description":"age\n\n{minimum: 1}"}`.
//!
//! Source: <https://platform.claude.com/docs/en/build-with-claude/structured-outputs>, "JSON Schema
//! limitations".

use std::borrow::Cow;
use words::api::body::MAX_MEMBERS;
use words::json::Json;
use words::json::write::{ObjectWriter, key};

/// Deeper than any schema Anthropic would compile; anything deeper is left unchanged.
const MAX_DEPTH: usize = 64;

/// Keywords that Anthropic refuses.
const UNSUPPORTED: [&str; 15] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "maxItems",
    "uniqueItems",
    "contains",
    "minContains",
    "maxContains",
    "minProperties",
    "maxProperties",
    "propertyNames",
];

/// Values of `format` that Anthropic supports.
const FORMATS: [&str; 10] = [
    "\"date-time\"",
    "\"time\"",
    "\"date\"",
    "\"duration\"",
    "\"email\"",
    "\"hostname\"",
    "\"uri\"",
    "\"ipv4\"",
    "\"ipv6\"",
    "\"uuid\"",
];

/// Returns the adapted schema and the names of the keywords that were moved into descriptions.
pub(in crate::provider) fn fit(schema: &Json<'_>) -> (Json<'static>, Vec<String>) {
    let mut fitting = Fitting::default();
    let mut out = Vec::with_capacity(schema.get().len() + 64);
    fitting.schema(schema, 0, &mut out);
    (Json::written(out).unwrap_or_else(Json::null), fitting.moved)
}

#[derive(Default)]
struct Fitting {
    moved: Vec<String>,
}

impl Fitting {
    fn schema(&mut self, json: &Json<'_>, depth: usize, out: &mut Vec<u8>) {
        let Some(members) = members(json).filter(|_| depth < MAX_DEPTH) else {
            return out.extend_from_slice(json.get().as_bytes());
        };
        let (unsupported, kept): (Vec<_>, Vec<_>) =
            members.iter().partition(|(name, value)| is_unsupported(name, value));
        // Of members of one name the last one counts. It alone is described: otherwise many of them would multiply the text.
        let described = kept.iter().rposition(|(name, _)| name == "description");
        let mut object = ObjectWriter::open(out);
        for (index, (name, value)) in kept.iter().enumerate() {
            match name.as_ref() {
                "description" if !unsupported.is_empty() && described == Some(index) => {
                    object.raw(&**name, describe(&value.text().unwrap_or_default(), &unsupported).get());
                }
                "properties" | "$defs" | "definitions" | "patternProperties" => {
                    self.map(value, depth + 1, object.name(&**name));
                }
                "anyOf" | "allOf" | "prefixItems" => self.list(value, depth + 1, object.name(&**name)),
                // Anthropic's SDKs do the same.
                "oneOf" => self.list(value, depth + 1, object.name(key!("anyOf"))),
                "items" | "additionalProperties" | "not" => {
                    self.schema(value, depth + 1, object.name(&**name));
                }
                _ => object.raw(&**name, value.get()),
            }
        }
        let has = |wanted: &str| kept.iter().any(|(name, _)| name == wanted);
        if has("properties") && !has("additionalProperties") {
            object.flag(key!("additionalProperties"), false);
        }
        if described.is_none() && !unsupported.is_empty() {
            object.raw(key!("description"), describe("", &unsupported).get());
        }
        object.close();
        self.moved.extend(unsupported.iter().map(|(name, _)| name.to_string()));
    }

    fn map(&mut self, json: &Json<'_>, depth: usize, out: &mut Vec<u8>) {
        let Some(members) = members(json) else {
            return out.extend_from_slice(json.get().as_bytes());
        };
        let mut object = ObjectWriter::open(out);
        for (name, value) in &members {
            self.schema(value, depth, object.name(&**name));
        }
        object.close();
    }

    fn list(&mut self, json: &Json<'_>, depth: usize, out: &mut Vec<u8>) {
        let Some(list) = json.read::<Vec<Json<'_>>>() else {
            return out.extend_from_slice(json.get().as_bytes());
        };
        out.push(b'[');
        for (index, value) in list.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            self.schema(value, depth, out);
        }
        out.push(b']');
    }
}

/// The members of an object. One with very many stays unchanged, as one that is very deep.
fn members<'j>(json: &'j Json<'_>) -> Option<Vec<(Cow<'j, str>, Json<'j>)>> {
    Json::members(json.get()).filter(|members| members.len() <= MAX_MEMBERS)
}

fn is_unsupported(name: &str, value: &Json<'_>) -> bool {
    match name {
        "minItems" => !matches!(value.get(), "0" | "1"),
        "format" => !FORMATS.contains(&value.get()),
        _ => UNSUPPORTED.contains(&name),
    }
}

/// A description with the unsupported keywords appended.
fn describe(text: &str, unsupported: &[&(Cow<'_, str>, Json<'_>)]) -> Json<'static> {
    let parts: Vec<String> =
        unsupported.iter().map(|(name, value)| format!("{name}: {}", value.get())).collect();
    let note = format!("{{{}}}", parts.join(", "));
    Json::from_value(&if text.is_empty() { note } else { format!("{text}\n\n{note}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_keywords_move_into_the_description() {
        let cases = [
            (r#"{"type":"string","enum":["b","a"]}"#, r#"{"type":"string","enum":["b","a"]}"#, ""),
            (
                r#"{"type":"object","properties":{"n":{"minimum":1.0,"type":"number","description":"how many"}}}"#,
                r#"{"type":"object","properties":{"n":{"type":"number","description":"how many\n\n{minimum: 1.0}"}},"additionalProperties":false}"#,
                "minimum",
            ),
            (
                r#"{"type":"array","minItems":1,"maxItems":3,"items":{"oneOf":[{"type":"null"},{"format":"byte"}]}}"#,
                r#"{"type":"array","minItems":1,"items":{"anyOf":[{"type":"null"},{"description":"{format: \"byte\"}"}]},"description":"{maxItems: 3}"}"#,
                "format maxItems",
            ),
            (
                r##"{"$defs":{"a":{"type":"object","properties":{},"additionalProperties":true}},"$ref":"#/$defs/a"}"##,
                r##"{"$defs":{"a":{"type":"object","properties":{},"additionalProperties":true}},"$ref":"#/$defs/a"}"##,
                "",
            ),
            // A property may have the name of a keyword.
            (
                r#"{"properties":{"minimum":{"type":"integer"}},"additionalProperties":false}"#,
                r#"{"properties":{"minimum":{"type":"integer"}},"additionalProperties":false}"#,
                "",
            ),
            ("true", "true", ""),
        ];
        for (schema, wanted, moved_names) in cases {
            let (got, moved) = fit(&Json::parse(schema).unwrap());
            assert_eq!((got.get(), moved.join(" ").as_str()), (wanted, moved_names), "{schema}");
        }
    }

    #[test]
    fn any_schema_depth_is_survived() {
        let deep = format!("{}{}{}", r#"{"items":"#.repeat(100), "{}", "}".repeat(100));
        assert_eq!(fit(&Json::parse(&deep).unwrap()).0.get(), deep);
    }
}
