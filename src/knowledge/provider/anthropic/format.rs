//! `response_format` as Anthropic's structured outputs, or as an instruction where they do not exist.
//!
//! Models before Claude 4.5 (except Opus 4.1) have no schemas, and no model has a JSON mode. There the system
//! prompt instructs the model, and a warning tells the client that nothing is enforced.

use super::generation::Generation;
use super::schema::fit;
use crate::provider::translation_notes::TranslationNotes;
use words::api::chat::{ResponseFormat, described};
use words::json::Json;

/// How a `response_format` is sent.
#[derive(Debug)]
pub(super) enum Format {
    Any,
    /// `output_config.format`.
    Schema(Json<'static>),
    /// An instruction at the end of the system prompt.
    Instruction(String),
}

pub(super) fn decide(
    wanted: Option<ResponseFormat<'_>>,
    model: Generation,
    provider: &str,
    notes: &mut TranslationNotes,
) -> Format {
    const ONLY: &str = "and nothing else: no words around it, no code fence.";
    match wanted {
        None | Some(ResponseFormat::Text) => Format::Any,
        Some(ResponseFormat::JsonObject) => {
            let why = format!("{provider} has no JSON mode, the model was told to answer with a JSON object");
            notes.warn("response_format", why);
            Format::Instruction(format!("Answer with one JSON object {ONLY}"))
        }
        Some(ResponseFormat::JsonSchema { schema, description, .. }) if model.has_schemas() => {
            let (schema, moved) = fit(&described(&schema, description.as_deref()));
            warn_moved("response_format", &moved, provider, notes);
            Format::Schema(Json::from_value(&Native { kind: "json_schema", schema }))
        }
        Some(ResponseFormat::JsonSchema { schema, description, .. }) => {
            let why = "this model takes no schema, it was told to follow it";
            notes.warn("response_format", why);
            let schema = described(&schema, description.as_deref());
            let schema = schema.get();
            Format::Instruction(format!(
                "Answer with one JSON value that matches this JSON schema {ONLY}\n\n{schema}"
            ))
        }
    }
}

/// Warns which keywords of a schema were moved into a description.
pub(in crate::provider) fn warn_moved(
    param: &str,
    moved: &[String],
    provider: &str,
    notes: &mut TranslationNotes,
) {
    let mut names: Vec<&str> = moved.iter().map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    if !names.is_empty() {
        let names = names.join(", ");
        notes.warn(param, format!("{provider} cannot enforce {names}, the model was told in words"));
    }
}

#[derive(serde::Serialize)]
struct Native {
    #[serde(rename = "type")]
    kind: &'static str,
    schema: Json<'static>,
}
