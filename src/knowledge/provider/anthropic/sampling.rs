//! `temperature`, `top_p` and `top_k`, within what Anthropic's models allow.
//!
//! OpenAI's temperatures go up to 2, Anthropic's to 1. Newer models take only one of temperature and `top_p`,
//! the newest only the default values. A request that is valid for OpenAI must not fail because of that:
//! whatever is changed or left out is reported in a warning.

use super::generation::Generation;
use crate::provider::translation_notes::TranslationNotes;
use words::api::chat::Params;
use words::json::Json;

/// Removes all three, for a version of the API that has none of them.
pub(super) fn remove(params: &mut Params<'_>, notes: &mut TranslationNotes) {
    for name in ["temperature", "top_p", "top_k"] {
        if params.take(name).is_some() {
            notes.warn(name, "dropped, this version of Anthropic's API has no such parameter");
        }
    }
}

/// Adjusts the three in `params`. `thinks`: the gateway turned thinking on, which requires a temperature of
/// 1.
pub(in crate::provider) fn adjust(
    params: &mut Params<'_>,
    model: Generation,
    thinks: bool,
    notes: &mut TranslationNotes,
) {
    let number = |json: &Json<'_>| json.get().parse::<f64>().ok();
    let fixed = model.has_fixed_sampling();
    for name in ["temperature", "top_p", "top_k"] {
        let Some(value) = params.get(name) else { continue };
        let is_default = value.is_null() || (name != "top_k" && number(value) == Some(1.0));
        let harms_thinking = thinks && !(name == "top_p" && number(value).is_some_and(|top_p| top_p >= 0.95));
        if !fixed && !harms_thinking {
            continue;
        }
        params.take(name);
        if !is_default {
            let why = if fixed { "this model samples its own way" } else { "thinking does not go with it" };
            notes.warn(name, format!("dropped, {why}"));
        }
    }
    if params.get("temperature").and_then(number).is_some_and(|temperature| temperature > 1.0) {
        notes.warn("temperature", "1 was sent, the highest this model takes");
        params.set("temperature", Json::from_value(&1));
    }
    if model.takes_one_sampling_param()
        && params.get("temperature").is_some()
        && params.get("top_p").is_some()
    {
        let top_p = params.take("top_p");
        if top_p.as_ref().and_then(number) != Some(1.0) {
            notes.warn("top_p", "dropped, this model takes temperature or top_p, not both");
        }
    }
}
