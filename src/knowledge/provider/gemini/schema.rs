//! JSON schemas in the form Gemini supports.
//!
//! Examples: `{"const":"a"}` becomes `{"enum":["a"],"type":"string"}`, and `{"type":"string","format":"uri"}`
//! becomes `{"type":"string","description":"(format: uri)"}`.
//!
//! `parametersJsonSchema` and `responseJsonSchema` support most of JSON schema (`$ref`, `$defs`, `anyOf`,
//! `additionalProperties`, lists of types, defaults: all present in recorded traffic), unlike the older
//! `parameters`, which refuses most of it. Keywords that they misread or ignore are replaced by supported
//! ones, or added to the description that the model reads. A schema that needs no change stays byte for byte.

use std::borrow::Cow;
use words::api::body::MAX_MEMBERS;
use words::json::Json;

/// Schemas below this depth stay unchanged: no model could follow them.
const MAX_DEPTH: usize = 64;

/// The schema with unsupported keywords replaced.
pub(super) fn tidy<'a>(schema: &Json<'a>) -> Json<'a> {
    tidied(schema.get(), 0).and_then(Json::owned).unwrap_or_else(|| schema.clone())
}

/// The rewritten schema; `None` when nothing changes.
fn tidied(text: &str, depth: usize) -> Option<String> {
    if depth > MAX_DEPTH || !text.starts_with('{') {
        return None;
    }
    let mut out = Members::default();
    let mut notes: Vec<String> = Vec::new();
    let members = members(text)?;
    let kind = members.iter().find(|(name, _)| name == "type").map(|(_, kind)| kind);
    let is_integer = kind.is_some_and(|kind| kind.text().as_deref() == Some("integer"));
    for (name, value) in &members {
        let raw = value.get();
        match name.as_ref() {
            // These describe the schema itself, not values.
            "$schema" | "$id" | "$comment" => out.changed = true,
            "const" => {
                out.changed = true;
                out.push("enum", format!("[{raw}]"));
                if let Some(kind) = kind_of(raw).filter(|_| kind.is_none()) {
                    out.push("type", format!("\"{kind}\""));
                }
            }
            "format" if value.text().is_some_and(|format| !is_supported_format(&format)) => {
                out.changed = true;
                notes.push(format!("format: {}", value.text().unwrap_or_default()));
            }
            "exclusiveMinimum" | "exclusiveMaximum" => {
                out.changed = true;
                let (limit, step) = if name == "exclusiveMinimum" { ("minimum", 1) } else { ("maximum", -1) };
                match raw.parse::<i64>().ok().and_then(|bound| bound.checked_add(step)) {
                    Some(bound) if is_integer => out.push(limit, bound.to_string()),
                    _ => notes.push(format!("{name}: {raw}")),
                }
            }
            "definitions" => {
                out.changed = true;
                out.push("$defs", each_member(raw, depth).unwrap_or_else(|| raw.to_owned()));
            }
            "$ref" if raw.starts_with("\"#/definitions/") => {
                out.changed = true;
                out.push("$ref", raw.replacen("#/definitions/", "#/$defs/", 1));
            }
            "properties" | "$defs" | "patternProperties" => out.keep(name, raw, each_member(raw, depth)),
            "items" | "additionalProperties" | "not" | "contains" | "propertyNames"
                if raw.starts_with('{') =>
            {
                out.keep(name, raw, tidied(raw, depth + 1));
            }
            // A list of one means the same under `anyOf`, which Gemini supports.
            "allOf"
                if Json::parse(raw).and_then(|json| Some(json.read::<Vec<Json<'_>>>()?.len())) == Some(1) =>
            {
                out.changed = true;
                out.push("anyOf", each_item(raw, depth).unwrap_or_else(|| raw.to_owned()));
            }
            "anyOf" | "oneOf" | "allOf" | "prefixItems" | "items" => {
                out.keep(name, raw, each_item(raw, depth));
            }
            _ => out.push(name, raw.to_owned()),
        }
    }
    out.describe(&notes);
    out.changed.then(|| out.json())
}

/// The members of an object. One with very many stays unchanged, as one that is very deep: no model could follow it.
fn members(text: &str) -> Option<Vec<(Cow<'_, str>, Json<'_>)>> {
    Json::members(text).filter(|members| members.len() <= MAX_MEMBERS)
}

/// Tidies every member of an object of schemas.
fn each_member(text: &str, depth: usize) -> Option<String> {
    let mut out = Members::default();
    for (name, value) in members(text)? {
        out.keep(&name, value.get(), tidied(value.get(), depth + 1));
    }
    out.changed.then(|| out.json())
}

/// Tidies every item of a list of schemas.
fn each_item(text: &str, depth: usize) -> Option<String> {
    let list: Vec<Json<'_>> = serde_json::from_str(text).ok()?;
    let tidy: Vec<Option<String>> = list.iter().map(|item| tidied(item.get(), depth + 1)).collect();
    if tidy.iter().all(Option::is_none) {
        return None;
    }
    let texts = list.iter().zip(tidy).map(|(old, new)| new.map_or(Cow::Borrowed(old.get()), Cow::Owned));
    Some(format!("[{}]", texts.collect::<Vec<_>>().join(",")))
}

fn is_supported_format(format: &str) -> bool {
    // <https://ai.google.dev/gemini-api/docs/structured-output>, and the number formats of OpenAPI.
    matches!(format, "date-time" | "date" | "time" | "enum" | "int32" | "int64" | "float" | "double")
}

/// The schema type of a JSON value.
fn kind_of(raw: &str) -> Option<&'static str> {
    Some(match raw.as_bytes().first()? {
        b'"' => "string",
        b't' | b'f' => "boolean",
        b'-' | b'0'..=b'9' if raw.contains(['.', 'e', 'E']) => "number",
        b'-' | b'0'..=b'9' => "integer",
        _ => return None,
    })
}

/// An object under construction.
#[derive(Default)]
struct Members {
    list: Vec<(String, String)>,
    changed: bool,
}

impl Members {
    fn push(&mut self, name: &str, json: String) {
        self.list.push((name.to_owned(), json));
    }

    fn keep(&mut self, name: &str, old: &str, new: Option<String>) {
        self.changed |= new.is_some();
        self.push(name, new.unwrap_or_else(|| old.to_owned()));
    }

    /// Adds the notes to the description.
    fn describe(&mut self, notes: &[String]) {
        if notes.is_empty() {
            return;
        }
        let notes = format!("({})", notes.join(", "));
        match self.list.iter_mut().find(|(name, _)| name == "description") {
            Some((_, json)) => {
                let old: String = serde_json::from_str(json).unwrap_or_default();
                *json = Json::from_value(&format!("{old} {notes}")).get().to_owned();
            }
            None => self.push("description", Json::from_value(&notes).get().to_owned()),
        }
    }

    fn json(&self) -> String {
        let members = self.list.iter().map(|(name, json)| format!("{}:{json}", Json::from_value(name).get()));
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(from: &str, to: &str) {
        assert_eq!(tidy(&Json::parse(from).unwrap()).get(), to, "{from}");
    }

    #[test]
    fn what_gemini_takes_stays_byte_for_byte() {
        for same in [
            r##"{ "type":"object", "properties":{"a":{"$ref":"#/$defs/A","description":"x","default":1.0}},
                "$defs":{"A":{"anyOf":[{"type":"string","minLength":1},{"type":"null"}]}},
                "additionalProperties":false,"required":["a"]}"##,
            r#"{"type":"array","prefixItems":[{"type":"number"}],"items":{"type":["string","null"]}}"#,
            r#"{"type":"object","properties":{"format":{"type":"string","format":"date"},"const":{"type":"null"}}}"#,
            "true",
            "[]",
        ] {
            check(same, same);
        }
    }

    #[test]
    fn unsupported_keywords_are_rewritten() {
        check(r#"{"$schema":"x","type":"object"}"#, r#"{"type":"object"}"#);
        check(r#"{"const":"a"}"#, r#"{"enum":["a"],"type":"string"}"#);
        check(r#"{"type":"integer","const":3}"#, r#"{"type":"integer","enum":[3]}"#);
        check(r#"{"const":null}"#, r#"{"enum":[null]}"#);
        check(
            r#"{"type":"string","description":"Where.","format":"uri"}"#,
            r#"{"type":"string","description":"Where. (format: uri)"}"#,
        );
        check(
            r#"{"type":"integer","exclusiveMinimum":0,"exclusiveMaximum":10}"#,
            r#"{"type":"integer","minimum":1,"maximum":9}"#,
        );
        check(
            r#"{"type":"number","exclusiveMinimum":0}"#,
            r#"{"type":"number","description":"(exclusiveMinimum: 0)"}"#,
        );
        check(
            r##"{"definitions":{"A":{"const":1}},"properties":{"definitions":{"$ref":"#/definitions/A"}}}"##,
            r##"{"$defs":{"A":{"enum":[1],"type":"integer"}},"properties":{"definitions":{"$ref":"#/$defs/A"}}}"##,
        );
        check(r##"{"allOf":[{"$ref":"#/$defs/A"}]}"##, r##"{"anyOf":[{"$ref":"#/$defs/A"}]}"##);
        check(
            r#"{"items":{"oneOf":[{"const":true},{"type":"null"}]}}"#,
            r#"{"items":{"oneOf":[{"enum":[true],"type":"boolean"},{"type":"null"}]}}"#,
        );
    }

    #[test]
    fn a_too_deep_schema_is_left_alone() {
        let deep = format!("{}{{\"const\":1}}{}", "{\"items\":".repeat(100), "}".repeat(100));
        check(&deep, &deep);
    }
}
