//! How much the model shall think: OpenAI's `reasoning_effort` in Anthropic's format.
//!
//! A `thinking` object of the client passes unchanged. Otherwise, by the model's generation:
//!
//! | | 3.7 to 4.5 | from 4.6 |
//! |---|---|---|
//! | `minimal`, `low`, `medium`, `high`, `xhigh`, `max` | a budget of 1,024, 2,048, 8,192, 16,384, 24,576 tokens | `adaptive` with that `effort` |
//! | `none` | no thinking | no thinking, if the model allows that |
//!
//! OpenAI counts reasoning in `max_completion_tokens`. Anthropic counts it in `max_tokens`, which must be
//! larger than the budget, so a budget set by the gateway takes at most half of it.

use super::generation::Generation;
use crate::provider::translation_notes::TranslationNotes;
use std::borrow::Cow;
use words::api::chat::{Message, Part, Reasoning, Role};
use words::error::Error;
use words::json::Json;

/// The smallest budget Anthropic accepts.
const MIN_BUDGET: u64 = 1_024;

/// What goes into the body.
#[derive(Debug, Default)]
pub(in crate::provider) struct Thinking<'a> {
    pub thinking: Option<Json<'a>>,
    /// `output_config.effort`.
    pub effort: Option<Cow<'a, str>>,
    /// The gateway turned thinking on, so it may adjust parameters that do not go with it.
    pub is_ours: bool,
}

/// The properties of the request that the decision depends on.
pub(in crate::provider) struct Case<'c> {
    pub model: Generation,
    /// The client's value, if any.
    pub max_tokens: Option<&'c Json<'c>>,
    /// The request forces a tool call.
    pub is_forced: bool,
    /// The tool calls that the request responds to came without their thinking.
    pub is_thoughtless: bool,
    pub provider: &'static str,
}

/// Decides how the model shall think.
///
/// # Errors
/// 400 for an unknown effort.
pub(in crate::provider) fn decide<'a>(
    reasoning: Reasoning<'a>,
    case: &Case<'_>,
    notes: &mut TranslationNotes,
) -> Result<Thinking<'a>, Error> {
    let Reasoning { effort, thinking, summary: _, is_output_effort } = reasoning;
    let Some(effort) = effort else { return Ok(Thinking { thinking, ..Thinking::default() }) };
    if thinking.is_some() || is_output_effort {
        let effort = effort_value(effort, case, notes).filter(|_| case.model.has_effort());
        match is_output_effort {
            _ if effort.is_some() => {}
            true => notes.warn("output_config.effort", "dropped, this model takes no effort"),
            false => notes.warn("reasoning_effort", "dropped, thinking says how much the model shall think"),
        }
        return Ok(Thinking { thinking, effort, is_ours: false });
    }
    if effort == "none" {
        return Ok(none(case, notes));
    }
    if !case.model.thinks() {
        notes.warn("reasoning_effort", "dropped, this model cannot think first");
        return Ok(Thinking::default());
    }
    if !case.model.adapts() {
        return budget(&effort, case, notes);
    }
    let display = if case.model.hides_thinking() { r#","display":"summarized""# } else { "" };
    let thinking = Json::owned(format!(r#"{{"type":"adaptive"{display}}}"#));
    Ok(Thinking { thinking, effort: effort_value(effort, case, notes), is_ours: true })
}

/// Whether a request has the results of calls that were made without thinking. With a thinking budget the model then
/// refuses it ("a final assistant message must start with a thinking block"). What the user says beside the results
/// belongs to the same turn.
pub(in crate::provider) fn answers_calls_without_thinking(messages: &[Message<'_>]) -> bool {
    let mut has_results = false;
    for message in messages.iter().rev() {
        match message.role {
            Role::Tool => has_results = true,
            // Parts that are not sent leave the turn to the one before.
            Role::Assistant => match message.content.iter().find(|part| is_sent(part)) {
                None => {}
                Some(Part::Reasoning { .. } | Part::Redacted { .. }) => return false,
                Some(_) => return has_results,
            },
            Role::System | Role::Developer | Role::User => {}
        }
    }
    false
}

/// Whether a part becomes a block: blank texts and thinking without its signature do not.
fn is_sent(part: &Part<'_>) -> bool {
    match part {
        Part::Text { text, .. } | Part::Refusal(text) => !text.trim().is_empty(),
        Part::Reasoning { signature, .. } => signature.is_some(),
        _ => true,
    }
}

/// The effort under Anthropic's name for it.
fn effort_value<'a>(
    effort: Cow<'a, str>,
    case: &Case<'_>,
    notes: &mut TranslationNotes,
) -> Option<Cow<'a, str>> {
    match effort.as_ref() {
        "none" => None,
        "minimal" => {
            notes.warn("reasoning_effort", format!("{} has no minimal, low was sent", case.provider));
            Some(Cow::Borrowed("low"))
        }
        "xhigh" if !case.model.has_xhigh() => Some(Cow::Borrowed("max")),
        // Unknown values are left for the provider to check.
        _ => Some(effort),
    }
}

fn none<'a>(case: &Case<'_>, notes: &mut TranslationNotes) -> Thinking<'a> {
    if case.model.always_thinks() {
        notes.warn("reasoning_effort", "this model always thinks, low was sent");
        return Thinking { effort: Some(Cow::Borrowed("low")), ..Thinking::default() };
    }
    let disabled =
        case.model.thinks_by_default().then(|| Json::owned(r#"{"type":"disabled"}"#.to_owned())).flatten();
    Thinking { thinking: disabled, ..Thinking::default() }
}

fn budget<'a>(effort: &str, case: &Case<'_>, notes: &mut TranslationNotes) -> Result<Thinking<'a>, Error> {
    let wanted = match effort {
        "minimal" => MIN_BUDGET,
        "low" => 2_048,
        "medium" => 8_192,
        "high" => 16_384,
        "xhigh" | "max" => 24_576,
        _ => {
            let message = "reasoning_effort must be none, minimal, low, medium, high, xhigh or max.";
            return Err(Error::invalid_request("reasoning_effort", message));
        }
    };
    // Anthropic: "Thinking may not be enabled when tool_choice forces tool use."
    if case.is_forced {
        notes.warn("reasoning_effort", "dropped, this model cannot think before a tool call it must make");
        return Ok(Thinking::default());
    }
    // Clients in strict mode do not get the signed thinking that they would have to send back.
    if case.is_thoughtless {
        let why = "dropped, the tool calls being answered came without their thinking (content_blocks)";
        notes.warn("reasoning_effort", why);
        return Ok(Thinking::default());
    }
    let limit = case.max_tokens.and_then(|json| json.get().parse::<f64>().ok()).map(|limit| limit as u64);
    let budget = match limit {
        Some(limit) if limit <= MIN_BUDGET => {
            let why = format!("dropped, thinking takes at least {MIN_BUDGET} tokens of max_tokens");
            notes.warn("reasoning_effort", why);
            return Ok(Thinking::default());
        }
        Some(limit) => wanted.min((limit / 2).max(MIN_BUDGET)),
        None => wanted,
    };
    let thinking = Json::owned(format!(r#"{{"type":"enabled","budget_tokens":{budget}}}"#));
    Ok(Thinking { thinking, effort: None, is_ours: true })
}

/// The `max_tokens` for requests without one: larger than the client's thinking budget.
pub(in crate::provider) fn max_tokens(model: Generation, thinking: Option<&Json<'_>>) -> u64 {
    #[derive(serde::Deserialize)]
    struct Budget {
        budget_tokens: Option<u64>,
    }
    let budget = thinking.and_then(|thinking| thinking.read::<Budget>()?.budget_tokens).unwrap_or_default();
    model.max_tokens().max(budget.saturating_add(4_096))
}
