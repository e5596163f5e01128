//! `response_format`: Bedrock's structured output if the model has it, otherwise an instruction.

use super::NAME;
use crate::provider::anthropic::format::warn_moved;
use crate::provider::anthropic::schema::fit;
use crate::provider::bedrock::model::Model;
use crate::provider::translation_notes::TranslationNotes;
use serde::Serialize;
use words::api::chat::ResponseFormat;
use words::json::Json;

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

/// The `outputConfig`, or an instruction for the system prompt.
pub fn write(
    format: Option<&ResponseFormat<'_>>,
    model: &Model<'_>,
    notes: &mut TranslationNotes,
) -> (Option<Json<'static>>, Option<String>) {
    match format {
        None | Some(ResponseFormat::Text) => (None, None),
        Some(ResponseFormat::JsonObject) => {
            notes.warn("response_format", "asked for in the system prompt: bedrock has no JSON mode");
            let instruction =
                "Answer with one JSON object and nothing else: no words around it, no code fence.";
            (None, Some(instruction.to_owned()))
        }
        Some(ResponseFormat::JsonSchema { schema, description, .. }) if !model.has_structured_output() => {
            let what = "asked for in the system prompt: this model has no structured output";
            notes.warn("response_format", what);
            let description = description.as_ref().map(|text| format!(" It is: {text}.")).unwrap_or_default();
            let instruction = format!(
                "Answer with JSON that is valid against this JSON schema, and with nothing else: no words around \
                 it, no code fence.{description}\n{}",
                schema.get()
            );
            (None, Some(instruction))
        }
        Some(ResponseFormat::JsonSchema { name, description, schema, .. }) => {
            // Bedrock's structured output supports the same schema keywords as Anthropic's, for every model.
            let (schema, moved) = fit(schema);
            warn_moved("response_format", &moved, NAME, notes);
            let json_schema = Schema { name, schema: schema.get(), description: description.as_deref() };
            let text_format = TextFormat { kind: "json_schema", structure: Structure { json_schema } };
            (Some(Json::from_value(&OutputConfig { text_format })), None)
        }
    }
}
