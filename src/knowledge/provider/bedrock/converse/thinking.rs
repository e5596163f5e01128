//! How much a model thinks before it responds, in the parameters of its family: Converse has none of its own.
//! Claude uses Anthropic's (see [`crate::provider::anthropic`]).
//!
//! Sources: <https://docs.aws.amazon.com/bedrock/latest/userguide/claude-messages-extended-thinking.html>,
//! <https://docs.aws.amazon.com/nova/latest/nova2-userguide/extended-thinking.html>,
//! <https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-openai.html>.

use super::NAME;
use super::fields::Fields;
use super::tools::offers_any;
use crate::provider::anthropic::generation::Generation;
use crate::provider::anthropic::request::output_config;
use crate::provider::anthropic::sampling::adjust;
use crate::provider::anthropic::thinking::{Case, Thinking, answers_calls_without_thinking, decide};
use crate::provider::anthropic::tools::is_forced;
use crate::provider::bedrock::model::{Family, Model};
use crate::provider::translation_notes::TranslationNotes;
use serde::Deserialize;
use words::api::chat::{ChatRequest, Reasoning};
use words::error::Error;
use words::json::{Json, JsonStr};

/// Writes `reasoning_effort` and `thinking` into the additional fields. For Claude it also fixes the
/// parameters that conflict with thinking.
///
/// # Errors
/// 400 for an invalid effort.
pub fn write<'a>(
    request: &mut ChatRequest<'a>,
    model: &Model<'_>,
    fields: &mut Fields<'a>,
    notes: &mut TranslationNotes,
) -> Result<(), Error> {
    let reasoning = std::mem::take(&mut request.reasoning);
    match model.family {
        Family::Anthropic => claude(reasoning, request, model, fields, notes)?,
        Family::Unknown => {
            // The model behind the profile is unknown here: pass the client's own parameters.
            let mut config = output_config(&mut request.params);
            let has_thinking = reasoning.thinking.is_some();
            if let Some(thinking) = reasoning.thinking {
                fields.add("thinking", thinking);
            }
            match reasoning.effort {
                Some(effort) if reasoning.is_output_effort => {
                    config.set("effort", Json::from_value(effort.as_ref()));
                }
                Some(effort) if !has_thinking => {
                    fields.add("reasoning_effort", Json::from_value(effort.as_ref()));
                }
                _ => {}
            }
            fields.merge("output_config", config);
        }
        family => {
            notes.show_thinking(&reasoning, "this model");
            let effort = reasoning.effort.as_deref().map(str::to_owned);
            match effort.or_else(|| reasoning.thinking.as_ref().and_then(as_effort)) {
                Some(wanted) => write_effort(&wanted, family, model, fields, notes),
                None if reasoning.thinking.is_some() => {
                    notes.warn("thinking", "dropped, this model is told how much to think by an effort");
                }
                None => {}
            }
        }
    }
    Ok(())
}

fn claude<'a>(
    reasoning: Reasoning<'a>,
    request: &mut ChatRequest<'a>,
    model: &Model<'_>,
    fields: &mut Fields<'a>,
    notes: &mut TranslationNotes,
) -> Result<(), Error> {
    let generation = Generation::from_model(model.id);
    let case = Case {
        model: generation,
        max_tokens: request.max_tokens.as_ref(),
        is_forced: is_forced(request.tool_choice.as_ref()) && offers_any(request),
        is_thoughtless: answers_calls_without_thinking(&request.messages),
        provider: NAME,
    };
    let Thinking { thinking, effort, is_ours } = decide(reasoning, &case, notes)?;
    adjust(&mut request.params, generation, is_ours && thinking.is_some(), notes);
    if let Some(thinking) = thinking {
        fields.add("thinking", thinking);
    }
    let mut config = output_config(&mut request.params);
    if let Some(effort) = effort.filter(|_| config.get("effort").is_none()) {
        config.set("effort", Json::from_value(effort.as_ref()));
    }
    fields.merge("output_config", config);
    Ok(())
}

/// All other families take an effort level.
fn write_effort<'a>(
    effort: &str,
    family: Family,
    model: &Model<'_>,
    fields: &mut Fields<'a>,
    notes: &mut TranslationNotes,
) {
    // The levels of OpenAI's that these models have.
    let level = match effort {
        "minimal" | "low" => "low",
        "medium" => "medium",
        "none" => "none",
        _ => "high",
    };
    match family {
        Family::OpenAi if level != "none" => fields.add("reasoning_effort", Json::from_value(level)),
        Family::Qwen if level != "none" => fields.add("reasoning_config", Json::from_value(level)),
        Family::Amazon if model.is_thinking_nova() => {
            let config = match level {
                "none" => r#"{"type":"disabled"}"#.to_owned(),
                level => format!(r#"{{"type":"enabled","maxReasoningEffort":"{level}"}}"#),
            };
            if let Some(config) = Json::owned(config) {
                fields.add("reasoningConfig", config);
            }
        }
        // The model does not think anyway.
        _ if level == "none" && family != Family::OpenAi && family != Family::Qwen => {}
        _ => {
            return notes.warn("reasoning_effort", "dropped, this model cannot be told how much to think");
        }
    }
    if !["none", level].contains(&effort) {
        notes.warn("reasoning_effort", format!("{effort} became {level}, the nearest this model has"));
    }
}

/// Anthropic's `thinking` as an effort.
fn as_effort(thinking: &Json<'_>) -> Option<String> {
    #[derive(Deserialize)]
    struct Thinking<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<JsonStr<'a>>,
        budget_tokens: Option<u64>,
    }
    let thinking = thinking.read::<Thinking<'_>>()?;
    let effort = match (thinking.kind.as_deref()?, thinking.budget_tokens) {
        ("enabled", Some(..=4096)) => "low",
        ("enabled", Some(16_385..)) => "high",
        ("enabled", _) => "medium",
        ("disabled", _) => "none",
        // `adaptive`: the model decides.
        _ => return None,
    };
    Some(effort.to_owned())
}
