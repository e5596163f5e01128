//! `response_format`: Bedrock's structured output where the model has it, an instruction where not.

use crate::api::chat::{Json, ResponseFormat};
use crate::provider::bedrock::model::Model;
use crate::provider::outgoing::Outgoing;
use serde::Serialize;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OutputConfig<'a> {
    text_format: TextFormat<'a>,
}

#[derive(Serialize)]
struct TextFormat<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    structure: Structure<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Structure<'a> {
    json_schema: Schema<'a>,
}

#[derive(Serialize)]
struct Schema<'a> {
    name: &'a str,
    /// The schema's JSON text, as a string.
    schema: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
}

/// The `outputConfig`, or else what the system shall say.
pub fn write(
    format: Option<&ResponseFormat<'_>>,
    model: &Model<'_>,
    outgoing: &mut Outgoing,
) -> (Option<Json<'static>>, Option<String>) {
    match format {
        None | Some(ResponseFormat::Text) => (None, None),
        Some(ResponseFormat::JsonObject) => {
            outgoing.warn("response_format", "asked for in the system prompt: bedrock has no JSON mode");
            let instruction =
                "Answer with one JSON object and nothing else: no words around it, no code fence.";
            (None, Some(instruction.to_owned()))
        }
        Some(ResponseFormat::JsonSchema { schema, description, .. }) if !model.has_structured_output() => {
            let what = "asked for in the system prompt: this model has no structured output";
            outgoing.warn("response_format", what);
            let about = description.as_ref().map(|text| format!(" It is: {text}.")).unwrap_or_default();
            let instruction = format!(
                "Answer with JSON that is valid against this JSON schema, and with nothing else: no words around \
                 it, no code fence.{about}\n{}",
                schema.get()
            );
            (None, Some(instruction))
        }
        Some(ResponseFormat::JsonSchema { name, description, schema, .. }) => {
            let schema = closed(schema.get());
            let json_schema = Schema { name, schema: &schema, description: description.as_deref() };
            let text_format = TextFormat { kind: "json_schema", structure: Structure { json_schema } };
            (Some(Json::of(&OutputConfig { text_format })), None)
        }
    }
}

/// Deeper schemas pass as they are.
const MOST_DEPTH: usize = 64;

/// The schema with `additionalProperties: false` on every object that does not say: Bedrock's structured output
/// demands it (OpenAI's only where `strict`), and what such a schema lets through, the caller's lets through.
pub fn closed(schema: &str) -> String {
    let mut out = String::with_capacity(schema.len() + 64);
    close(schema, 0, &mut out);
    out
}

fn close(schema: &str, depth: usize, out: &mut String) {
    let Some(members) = Json::members(schema).filter(|_| depth < MOST_DEPTH) else {
        return out.push_str(schema);
    };
    let is = |wanted: &str| members.iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
    let is_object = is("type").and_then(Json::text).as_deref() == Some("object");
    let open = is_object && is("additionalProperties").is_none();
    out.push('{');
    for (index, (name, value)) in members.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(Json::of(name).get());
        out.push(':');
        match name.as_ref() {
            "properties" | "$defs" | "definitions" => close_each(value, depth + 1, out),
            "items" => close(value.get(), depth + 1, out),
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => close_list(value, depth + 1, out),
            _ => out.push_str(value.get()),
        }
    }
    if open {
        out.push_str(r#","additionalProperties":false"#);
    }
    out.push('}');
}

/// Schemas by name.
fn close_each(map: &Json<'_>, depth: usize, out: &mut String) {
    let Some(members) = Json::members(map.get()) else { return out.push_str(map.get()) };
    out.push('{');
    for (index, (name, value)) in members.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(Json::of(name).get());
        out.push(':');
        close(value.get(), depth, out);
    }
    out.push('}');
}

fn close_list(list: &Json<'_>, depth: usize, out: &mut String) {
    let Some(schemas) = list.read::<Vec<Json<'_>>>() else { return out.push_str(list.get()) };
    out.push('[');
    for (index, schema) in schemas.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        close(schema.get(), depth, out);
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_closed_where_they_do_not_say() {
        let cases = [
            (r#"{"type":"object"}"#, r#"{"type":"object","additionalProperties":false}"#),
            (
                r#"{"additionalProperties":true,"type":"object"}"#,
                r#"{"additionalProperties":true,"type":"object"}"#,
            ),
            (
                r#"{"type":"object","properties":{"type":{"type":"object","default":{"type":"object"}},"b":{"type":"array","items":{"type":"object"}}},"$defs":{"x":{"anyOf":[{"type":"object"},{"type":"null"}]}}}"#,
                r#"{"type":"object","properties":{"type":{"type":"object","default":{"type":"object"},"additionalProperties":false},"b":{"type":"array","items":{"type":"object","additionalProperties":false}}},"$defs":{"x":{"anyOf":[{"type":"object","additionalProperties":false},{"type":"null"}]}},"additionalProperties":false}"#,
            ),
            (r#"{"type":"number","maximum":1.0}"#, r#"{"type":"number","maximum":1.0}"#),
            ("true", "true"),
        ];
        for (schema, wanted) in cases {
            assert_eq!(closed(schema), wanted);
        }
        let deep = [r#"{"items":"#.repeat(5_000), "1".to_owned(), "}".repeat(5_000)].concat();
        assert_eq!(closed(&deep), deep);
    }
}
