//! How much a model shall think first, in the words its family has for it: there is no common one.
//!
//! Sources: <https://docs.aws.amazon.com/bedrock/latest/userguide/claude-messages-extended-thinking.html>,
//! <https://docs.aws.amazon.com/nova/latest/nova2-userguide/extended-thinking.html>,
//! <https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-openai.html>.

use super::fields::Fields;
use super::object;
use crate::api::chat::{ChatRequest, Json, Text};
use crate::provider::bedrock::model::{Family, Model};
use crate::provider::outgoing::Outgoing;
use serde::Deserialize;

/// The least budget a Claude takes.
const LEAST_BUDGET: u64 = 1024;

/// Writes `reasoning_effort` and `thinking` into the additional fields.
pub fn write<'a>(
    request: &mut ChatRequest<'a>,
    model: &Model<'_>,
    fields: &mut Fields<'a>,
    outgoing: &mut Outgoing,
) {
    let reasoning = std::mem::take(&mut request.reasoning);
    let thinking = reasoning.thinking;
    let effort = reasoning.effort.as_deref().map(str::to_owned);
    match model.family {
        Family::Anthropic => claude(thinking, effort.as_deref(), request, model, fields, outgoing),
        Family::Unknown => {
            // The caller knows what its profile leads to: its own words pass.
            if let Some(thinking) = thinking {
                fields.add("thinking", thinking);
            } else if let Some(effort) = effort {
                fields.add("reasoning_effort", Json::of(&effort));
            }
        }
        family => {
            let wanted = effort.or_else(|| thinking.as_ref().and_then(as_effort));
            if let Some(wanted) = wanted {
                others(&wanted, family, model, fields, outgoing);
            }
        }
    }
}

fn claude<'a>(
    thinking: Option<Json<'a>>,
    effort: Option<&str>,
    request: &ChatRequest<'a>,
    model: &Model<'_>,
    fields: &mut Fields<'a>,
    outgoing: &mut Outgoing,
) {
    if let Some(thinking) = thinking {
        return fields.add("thinking", thinking);
    }
    let Some(effort) = effort.filter(|effort| *effort != "none") else { return };
    if model.is_claude_without_thinking() {
        return outgoing.warn("reasoning_effort", "dropped, this model does not think");
    }
    if !model.thinks_by_budget() {
        fields.add("thinking", object("type", "adaptive"));
        let word = if effort == "minimal" { "low" } else { effort };
        return fields.add("output_config", object("effort", word));
    }
    let wanted = match effort {
        "minimal" | "low" => LEAST_BUDGET,
        "medium" => 8 * LEAST_BUDGET,
        "high" => 16 * LEAST_BUDGET,
        _ => 24 * LEAST_BUDGET,
    };
    // The budget is a part of max_tokens and must leave room for the answer.
    let most = request.max_tokens.as_ref().and_then(Json::read::<u64>);
    let budget = most.map_or(wanted, |most| wanted.min(most / 2));
    if budget < LEAST_BUDGET {
        let what = "dropped, thinking takes at least 1024 tokens and max_tokens leaves no room for it";
        return outgoing.warn("reasoning_effort", what);
    }
    let thinking = format!(r#"{{"type":"enabled","budget_tokens":{budget}}}"#);
    if let Some(thinking) = Json::owned(thinking) {
        fields.add("thinking", thinking);
    }
}

/// Everybody else is told a word.
fn others<'a>(
    effort: &str,
    family: Family,
    model: &Model<'_>,
    fields: &mut Fields<'a>,
    outgoing: &mut Outgoing,
) {
    // What they know of OpenAI's list.
    let word = match effort {
        "minimal" | "low" => "low",
        "medium" => "medium",
        "none" => "none",
        _ => "high",
    };
    match family {
        Family::OpenAi if word != "none" => fields.add("reasoning_effort", Json::of(word)),
        Family::Qwen if word != "none" => fields.add("reasoning_config", Json::of(word)),
        Family::Amazon if model.is_thinking_nova() => {
            let config = match word {
                "none" => r#"{"type":"disabled"}"#.to_owned(),
                word => format!(r#"{{"type":"enabled","maxReasoningEffort":"{word}"}}"#),
            };
            if let Some(config) = Json::owned(config) {
                fields.add("reasoningConfig", config);
            }
        }
        // A model that does not think is as good as told not to.
        _ if word == "none" && family != Family::OpenAi && family != Family::Qwen => {}
        _ => {
            return outgoing.warn("reasoning_effort", "dropped, this model cannot be told how much to think");
        }
    }
    if !["none", word].contains(&effort) {
        outgoing.warn("reasoning_effort", format!("{effort} became {word}, the nearest this model has"));
    }
}

/// Anthropic's `thinking` as a word.
fn as_effort(thinking: &Json<'_>) -> Option<String> {
    #[derive(Deserialize)]
    struct Thinking<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<Text<'a>>,
        budget_tokens: Option<u64>,
    }
    let thinking = thinking.read::<Thinking<'_>>()?;
    let word = match (thinking.kind.as_deref()?, thinking.budget_tokens) {
        ("enabled", Some(..=4096)) => "low",
        ("enabled", Some(16_385..)) => "high",
        ("enabled", _) => "medium",
        ("disabled", _) => "none",
        // `adaptive`: as the model likes.
        _ => return None,
    };
    Some(word.to_owned())
}
