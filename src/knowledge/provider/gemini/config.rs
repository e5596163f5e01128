//! `generationConfig`: the parameters of generation.

use super::model::{Model, Thinking};
use super::{Gemini, schema};
use crate::provider::translation_notes::TranslationNotes;
use serde::Deserialize;
use words::api::chat::{ChatRequest, Params, Reasoning, ResponseFormat, described};
use words::error::Error;
use words::json::{Json, JsonStr};

/// OpenAI's parameters (and Gemini's own, as clients spell them) with Gemini's names.
const SAME: &[(&str, &str)] = &[
    ("temperature", "temperature"),
    ("top_p", "topP"),
    ("top_k", "topK"),
    ("seed", "seed"),
    ("presence_penalty", "presencePenalty"),
    ("frequency_penalty", "frequencyPenalty"),
    ("image_config", "imageConfig"),
    ("imageConfig", "imageConfig"),
    ("media_resolution", "mediaResolution"),
    ("mediaResolution", "mediaResolution"),
    ("speech_config", "speechConfig"),
    ("speechConfig", "speechConfig"),
];

/// Takes the parameters of `generationConfig` out of `request`.
///
/// # Errors
/// 400 that names a parameter Gemini does not support.
pub(super) fn config<'a>(
    request: &mut ChatRequest<'a>,
    gemini: Gemini,
    model: Model,
    notes: &mut TranslationNotes,
) -> Result<Params<'a>, Error> {
    let mut config = Params::default();
    let params = &mut request.params;
    for (theirs, ours) in SAME {
        if let Some(value) = params.take(theirs) {
            config.set(*ours, value);
        }
    }
    if let Some(limit) = request.max_tokens.take() {
        config.set("maxOutputTokens", limit);
    }
    let stop = std::mem::take(&mut request.stop);
    if !stop.is_empty() {
        config.set("stopSequences", Json::from_value(&stop));
    }
    match params.take("n") {
        Some(n) if n.get() != "1" => config.set("candidateCount", n),
        _ => {}
    }
    logprobs(params, &mut config);
    output(params, &mut config, notes);
    match request.response_format.take() {
        None | Some(ResponseFormat::Text) => {}
        Some(ResponseFormat::JsonObject) => {
            config.set("responseMimeType", Json::from_value("application/json"));
        }
        Some(ResponseFormat::JsonSchema { schema, description, .. }) => {
            config.set("responseMimeType", Json::from_value("application/json"));
            config.set("responseJsonSchema", schema::tidy(&described(&schema, description.as_deref())));
        }
    }
    let own = params.take("thinking_config").or_else(|| params.take("thinkingConfig"));
    let reasoning = std::mem::take(&mut request.reasoning);
    if let Some(thinking) = own.or_else(|| thinking(&reasoning, gemini, model, notes)) {
        config.set("thinkingConfig", thinking);
    }
    // The client's own `generation_config` takes precedence.
    for name in ["generation_config", "generationConfig"] {
        if let Some(own) = params.take(name) {
            overlay(&mut config, &own, name)?;
        }
    }
    Ok(config)
}

fn overlay<'a>(config: &mut Params<'a>, own: &Json<'a>, name: &str) -> Result<(), Error> {
    let members = own.own_members();
    let members =
        members.ok_or_else(|| Error::invalid_request(name, format!("{name} must be an object.")))?;
    for (member, value) in members {
        config.set(camel(&member), value);
    }
    Ok(())
}

/// `max_output_tokens` as `maxOutputTokens`: Google accepts either, but not both at once.
pub(super) fn camel(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut raise = false;
    for char in name.chars() {
        match char {
            '_' => raise = true,
            char if std::mem::take(&mut raise) => out.extend(char.to_uppercase()),
            char => out.push(char),
        }
    }
    out
}

fn logprobs<'a>(params: &mut Params<'a>, config: &mut Params<'a>) {
    let wanted = params.get("logprobs").is_some_and(Json::is_true);
    if !wanted {
        return;
    }
    params.take("logprobs");
    config.set("responseLogprobs", Json::from_value(&true));
    if let Some(top) = params.take("top_logprobs").filter(|top| top.get() != "0") {
        config.set("logprobs", top);
    }
}

/// `modalities` and `audio`.
fn output<'a>(params: &mut Params<'a>, config: &mut Params<'a>, notes: &mut TranslationNotes) {
    #[derive(Deserialize)]
    struct Audio<'a> {
        #[serde(borrow)]
        voice: Option<JsonStr<'a>>,
        format: Option<JsonStr<'a>>,
    }
    let modalities = params.get("modalities").and_then(Json::read::<Vec<JsonStr<'_>>>);
    let names: Option<Vec<String>> = modalities
        .map(|modalities| modalities.iter().map(|modality| modality.to_ascii_uppercase()).collect());
    if let Some(names) = names {
        params.take("modalities");
        if names != ["TEXT"] {
            config.set("responseModalities", Json::from_value(&names));
        }
    }
    let Some(audio) = params.take("audio") else { return };
    let Some(audio) = audio.read::<Audio<'_>>() else { return };
    if let Some(voice) = audio.voice {
        let voice = Json::object(&[("voiceName", Json::from_value(&*voice))]);
        let voice = Json::object(&[("prebuiltVoiceConfig", voice)]);
        config.set("speechConfig", Json::object(&[("voiceConfig", voice)]));
    }
    if let Some(format) = audio.format.filter(|format| **format != *"pcm16") {
        notes.warn("audio.format", format!("Gemini answers in PCM, not {}", &*format));
    }
}

/// Anthropic's `thinking`, with Portkey's additional members.
#[derive(Deserialize)]
struct ThinkingParam<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<JsonStr<'a>>,
    budget_tokens: Option<Json<'a>>,
    include_thoughts: Option<bool>,
    /// `omitted`: the model thinks, and the client does not see it.
    display: Option<JsonStr<'a>>,
}

/// `thinkingConfig` in the form of the model's generation. The levels for efforts are those of Google's own
/// compatible endpoint: <https://ai.google.dev/gemini-api/docs/openai#thinking>.
fn thinking(
    reasoning: &Reasoning<'_>,
    gemini: Gemini,
    model: Model,
    notes: &mut TranslationNotes,
) -> Option<Json<'static>> {
    notes.simplify_thinking(reasoning, gemini.provider());
    let param = "reasoning_effort";
    let mut effort = reasoning.effort.as_deref();
    let mut members: Vec<(&str, Json<'_>)> = Vec::new();
    let mut show = reasoning.summary.is_some() || effort.is_some_and(|effort| effort != "none");
    let thinking = reasoning.thinking.as_ref().and_then(Json::read::<ThinkingParam<'_>>);
    if let Some(thinking) = &thinking {
        let kind = thinking.kind.as_deref().unwrap_or("enabled");
        show = kind != "disabled" && thinking.display.as_deref() != Some("omitted");
        if kind == "disabled" {
            effort = Some("none");
        } else if let Some(budget) = thinking.budget_tokens.clone().filter(|budget| !budget.is_null()) {
            members.push(("thinkingBudget", budget));
            effort = None;
        }
        show = thinking.include_thoughts.unwrap_or(show);
    }
    if effort.is_none() && members.is_empty() && !show {
        return None;
    }
    if model.thinking == Thinking::None {
        if effort != Some("none") {
            notes.warn(param, format!("dropped, this model of {} does not think", gemini.provider()));
        }
        return None;
    }
    match effort {
        None | Some("auto" | "default") => {}
        Some(effort) if model.thinking == Thinking::Budget => {
            members.push(("thinkingBudget", Json::from_value(&budget(effort, model, notes))));
        }
        Some(effort) => members.push(("thinkingLevel", Json::from_value(level(effort, model, notes)))),
    }
    if show {
        members.push(("includeThoughts", Json::from_value(&true)));
    }
    (!members.is_empty()).then(|| Json::object(&members))
}

fn budget(effort: &str, model: Model, notes: &mut TranslationNotes) -> u32 {
    match effort {
        "none" if model.is_pro => {
            notes.warn("reasoning_effort", "this model always thinks: asked for the least");
            128
        }
        "none" => 0,
        "minimal" | "low" => 1024,
        "medium" => 8192,
        _ => 24576,
    }
}

fn level(effort: &str, model: Model, notes: &mut TranslationNotes) -> &'static str {
    if effort == "none" {
        notes.warn("reasoning_effort", "this model always thinks: asked for the least");
    }
    match effort {
        "none" | "minimal" if model.is_pro => "LOW",
        "none" | "minimal" => "MINIMAL",
        "low" => "LOW",
        "medium" => "MEDIUM",
        _ => "HIGH",
    }
}
