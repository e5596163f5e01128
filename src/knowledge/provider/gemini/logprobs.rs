//! Gemini's `logprobsResult` as OpenAI's `logprobs`. Numbers keep their digits.

use serde::Serialize;
use words::api::gemini::wire::{GeminiLogprobs, GeminiToken};
use words::json::Json;

#[derive(Serialize)]
struct LogprobsOut<'a> {
    content: Vec<TokenOut<'a>>,
    refusal: Option<()>,
}

#[derive(Serialize)]
struct TokenOut<'a> {
    token: &'a str,
    logprob: Json<'a>,
    bytes: &'a [u8],
    top_logprobs: Vec<TopOut<'a>>,
}

#[derive(Serialize)]
struct TopOut<'a> {
    token: &'a str,
    logprob: Json<'a>,
    bytes: &'a [u8],
}

/// OpenAI's `logprobs` object; `None` without any token.
pub(super) fn json(logprobs: &GeminiLogprobs<'_>) -> Option<String> {
    let chosen = logprobs.chosen_candidates.as_deref().filter(|chosen| !chosen.is_empty())?;
    let tops = logprobs.top_candidates.as_deref().unwrap_or_default();
    let tokens = chosen.iter().enumerate().map(|(at, chosen)| {
        let tops = tops.get(at).and_then(|top| top.candidates.as_deref()).unwrap_or_default();
        let top = |top| TopOut { token: token(top), logprob: logprob(top), bytes: token(top).as_bytes() };
        TokenOut {
            token: token(chosen),
            logprob: logprob(chosen),
            bytes: token(chosen).as_bytes(),
            top_logprobs: tops.iter().map(top).collect(),
        }
    });
    serde_json::to_string(&LogprobsOut { content: tokens.collect(), refusal: None }).ok()
}

fn token<'t>(token: &'t GeminiToken<'_>) -> &'t str {
    token.token.as_deref().unwrap_or_default()
}

/// Google's JSON leaves out a 0, the logprob of a certain token.
fn logprob<'t>(token: &'t GeminiToken<'_>) -> Json<'t> {
    token.log_probability.clone().unwrap_or_else(|| Json::from_value(&0))
}
