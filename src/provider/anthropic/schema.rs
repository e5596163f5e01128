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

use crate::json::Json;
use std::borrow::Cow;

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
    let mut fitting = Fitting { out: String::with_capacity(schema.get().len() + 64), moved: Vec::new() };
    fitting.schema(schema, 0);
    let Fitting { out, moved } = fitting;
    (Json::owned(out).unwrap_or_else(|| Json::from_value(&())), moved)
}

struct Fitting {
    out: String,
    moved: Vec<String>,
}

impl Fitting {
    fn schema(&mut self, json: &Json<'_>, depth: usize) {
        let Some(members) = Json::members(json.get()).filter(|_| depth < MAX_DEPTH) else {
            return self.out.push_str(json.get());
        };
        let (unsupported, kept): (Vec<_>, Vec<_>) =
            members.iter().partition(|(name, value)| is_unsupported(name, value));
        let described = kept.iter().any(|(name, _)| name == "description");
        let mut first = true;
        self.out.push('{');
        for (name, value) in &kept {
            match name.as_ref() {
                "description" if !unsupported.is_empty() => {
                    self.member(
                        &mut first,
                        name,
                        describe(&value.text().unwrap_or_default(), &unsupported).get(),
                    );
                }
                "properties" | "$defs" | "definitions" | "patternProperties" => {
                    self.name(&mut first, name);
                    self.map(value, depth + 1);
                }
                "anyOf" | "allOf" | "prefixItems" => {
                    self.name(&mut first, name);
                    self.list(value, depth + 1);
                }
                // Anthropic's SDKs do the same.
                "oneOf" => {
                    self.name(&mut first, "anyOf");
                    self.list(value, depth + 1);
                }
                "items" | "additionalProperties" | "not" => {
                    self.name(&mut first, name);
                    self.schema(value, depth + 1);
                }
                _ => self.member(&mut first, name, value.get()),
            }
        }
        let has = |wanted: &str| kept.iter().any(|(name, _)| name == wanted);
        if has("properties") && !has("additionalProperties") {
            self.member(&mut first, "additionalProperties", "false");
        }
        if !described && !unsupported.is_empty() {
            self.member(&mut first, "description", describe("", &unsupported).get());
        }
        self.out.push('}');
        self.moved.extend(unsupported.iter().map(|(name, _)| name.to_string()));
    }

    fn map(&mut self, json: &Json<'_>, depth: usize) {
        let Some(members) = Json::members(json.get()) else { return self.out.push_str(json.get()) };
        let mut first = true;
        self.out.push('{');
        for (name, value) in &members {
            self.name(&mut first, name);
            self.schema(value, depth);
        }
        self.out.push('}');
    }

    fn list(&mut self, json: &Json<'_>, depth: usize) {
        let Some(list) = json.read::<Vec<Json<'_>>>() else { return self.out.push_str(json.get()) };
        self.out.push('[');
        for (index, value) in list.iter().enumerate() {
            if index > 0 {
                self.out.push(',');
            }
            self.schema(value, depth);
        }
        self.out.push(']');
    }

    fn name(&mut self, first: &mut bool, name: &str) {
        if !std::mem::take(first) {
            self.out.push(',');
        }
        self.out.push_str(Json::from_value(name).get());
        self.out.push(':');
    }

    fn member(&mut self, first: &mut bool, name: &str, value: &str) {
        self.name(first, name);
        self.out.push_str(value);
    }
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
