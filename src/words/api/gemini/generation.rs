//! `generationConfig`: the parameters of generation, under OpenAI's names where OpenAI has them.

use super::names::camel;
use super::schema::json_schema;
use crate::api::chat::read::{parse_string, reread};
use crate::api::chat::{ChatRequest, Params, ResponseFormat};
use crate::error::Error;
use crate::json::{Json, JsonStr};
use serde::Deserialize;
use std::borrow::Cow;

/// Gemini's parameters with OpenAI's names.
const SAME: &[(&str, &str)] = &[
    ("temperature", "temperature"),
    ("topP", "top_p"),
    ("topK", "top_k"),
    ("candidateCount", "n"),
    ("seed", "seed"),
    ("presencePenalty", "presence_penalty"),
    ("frequencyPenalty", "frequency_penalty"),
    ("logprobs", "top_logprobs"),
    ("responseLogprobs", "logprobs"),
    ("mediaResolution", "mediaResolution"),
    ("speechConfig", "speechConfig"),
    ("imageConfig", "imageConfig"),
];

/// Google's parameter for one of OpenAI's names.
pub(super) fn own_name(openai: &str) -> Option<&'static str> {
    match openai {
        "max_tokens" | "max_completion_tokens" => Some("maxOutputTokens"),
        "stop" => Some("stopSequences"),
        "top_logprobs" | "logprobs" => None,
        _ => SAME.iter().find(|(_, theirs)| *theirs == openai).map(|(own, _)| *own),
    }
}

/// Reads `generationConfig` into the request.
///
/// # Errors
/// 400 that names the `param`.
pub(super) fn read<'a>(json: &Json<'a>, request: &mut ChatRequest<'a>) -> Result<(), Error> {
    let wrong = || Error::invalid_request("generationConfig", "generationConfig must be an object.");
    let members = json.source().and_then(Json::members).ok_or_else(wrong)?;
    let mut mime_type = None;
    let mut schema = None;
    let mut rest = Params::default();
    for (name, value) in members.into_iter().filter(|(_, value)| !value.is_null()) {
        let name = camel(&name).into_owned();
        match name.as_str() {
            "maxOutputTokens" => request.max_tokens = Some(value),
            "stopSequences" => {
                let list: Vec<JsonStr<'a>> =
                    reread(&value, "generationConfig.stopSequences", "a list of texts")?;
                request.stop = list.into_iter().map(|text| text.0).collect();
            }
            "responseMimeType" => mime_type = value.source().and_then(parse_string),
            "responseSchema" => schema = schema.or_else(|| Some(json_schema(&value))),
            "responseJsonSchema" | "_responseJsonSchema" => schema = Some(value),
            "responseModalities" => modalities(&value, request)?,
            "thinkingConfig" => thinking(&value, request)?,
            _ => match SAME.iter().find(|(own, _)| *own == name) {
                // One candidate is what every provider gives.
                Some((_, "n")) if value.get() == "1" => {}
                Some((_, theirs)) => request.params.set(*theirs, value),
                None => rest.set(name, value),
            },
        }
    }
    if !rest.is_empty() {
        let rest = Json::object_of(rest.iter().map(|(name, value)| (name, value.get())));
        request.params.set("generationConfig", rest);
    }
    request.response_format = format(mime_type.as_deref(), schema, request);
    Ok(())
}

fn format<'a>(
    mime_type: Option<&str>,
    schema: Option<Json<'a>>,
    request: &mut ChatRequest<'a>,
) -> Option<ResponseFormat<'a>> {
    match (mime_type, schema) {
        (Some("application/json"), None) => Some(ResponseFormat::JsonObject),
        (Some("application/json") | None, Some(schema)) => Some(ResponseFormat::JsonSchema {
            name: Cow::Borrowed("response"),
            description: None,
            schema,
            // Google holds the model to the schema; OpenAI's `strict` refuses schemas with optional properties.
            strict: None,
        }),
        (None | Some("text/plain"), _) => None,
        (Some(other), _) => {
            request
                .warnings
                .push(format!("generationConfig.responseMimeType: {other} dropped, only Google has it"));
            None
        }
    }
}

/// `["TEXT","IMAGE"]` in OpenAI's spelling; text alone is what every chat gives.
fn modalities<'a>(json: &Json<'a>, request: &mut ChatRequest<'a>) -> Result<(), Error> {
    let list: Vec<JsonStr<'_>> = reread(json, "generationConfig.responseModalities", "a list of names")?;
    let names: Vec<String> = list.iter().map(|name| name.to_ascii_lowercase()).collect();
    if !names.is_empty() && names != ["text"] {
        request.params.set("modalities", Json::from_value(&names));
    }
    Ok(())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Thinking<'a> {
    #[serde(alias = "include_thoughts")]
    include_thoughts: Option<bool>,
    #[serde(alias = "thinking_budget")]
    thinking_budget: Option<i64>,
    #[serde(borrow, alias = "thinking_level")]
    thinking_level: Option<JsonStr<'a>>,
}

/// A level is an effort, and so is a number of tokens: providers with budgets want them in proportion to their own limits, which
/// an effort follows. -1 leaves the amount to the model.
fn thinking<'a>(json: &Json<'a>, request: &mut ChatRequest<'a>) -> Result<(), Error> {
    let at = "generationConfig.thinkingConfig";
    let wanted = "an object with thinkingBudget, thinkingLevel or includeThoughts";
    let config: Thinking<'a> = if json.is_object() {
        reread(json, at, wanted)?
    } else {
        return Err(Error::invalid_request(at, format!("{at} must be {wanted}.")));
    };
    let reasoning = &mut request.reasoning;
    if config.include_thoughts == Some(true) {
        reasoning.summary = Some(Cow::Borrowed("auto"));
    }
    let level = config.thinking_level.map(|level| level.to_ascii_lowercase());
    match (level.as_deref(), config.thinking_budget) {
        (Some("" | "thinking_level_unspecified") | None, None) => {}
        (Some(level), _) => reasoning.effort = Some(Cow::Owned(level.to_owned())),
        (None, Some(0)) => reasoning.effort = Some(Cow::Borrowed("none")),
        (None, Some(..0)) => reasoning.effort = Some(Cow::Borrowed("medium")),
        (None, Some(..=2048)) => reasoning.effort = Some(Cow::Borrowed("low")),
        (None, Some(..=8192)) => reasoning.effort = Some(Cow::Borrowed("medium")),
        (None, Some(_)) => reasoning.effort = Some(Cow::Borrowed("high")),
    }
    Ok(())
}
