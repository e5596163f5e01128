//! Gemini's `logprobsResult` as OpenAI's `logprobs`. Numbers keep their digits.

use serde::{Deserialize, Serialize};
use words::json::{Json, JsonStr};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LogprobsIn<'a> {
    #[serde(borrow)]
    chosen_candidates: Option<Vec<TokenIn<'a>>>,
    top_candidates: Option<Vec<TopIn<'a>>>,
}

#[derive(Debug, Deserialize)]
struct TopIn<'a> {
    #[serde(borrow)]
    candidates: Option<Vec<TokenIn<'a>>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TokenIn<'a> {
    #[serde(borrow)]
    token: Option<JsonStr<'a>>,
    log_probability: Option<Json<'a>>,
}

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

impl TokenIn<'_> {
    fn token(&self) -> &str {
        self.token.as_deref().unwrap_or_default()
    }

    /// Google's JSON leaves out a 0, the logprob of a certain token.
    fn logprob(&self) -> Json<'_> {
        self.log_probability.clone().unwrap_or_else(|| Json::from_value(&0))
    }
}

impl LogprobsIn<'_> {
    /// OpenAI's `logprobs` object; `None` without any token.
    pub(super) fn json(&self) -> Option<String> {
        let chosen = self.chosen_candidates.as_deref().filter(|chosen| !chosen.is_empty())?;
        let tops = self.top_candidates.as_deref().unwrap_or_default();
        let tokens = chosen.iter().enumerate().map(|(at, token)| {
            let tops = tops.get(at).and_then(|top| top.candidates.as_deref()).unwrap_or_default();
            let top = |top| {
                let top: &TokenIn<'_> = top;
                TopOut { token: top.token(), logprob: top.logprob(), bytes: top.token().as_bytes() }
            };
            TokenOut {
                token: token.token(),
                logprob: token.logprob(),
                bytes: token.token().as_bytes(),
                top_logprobs: tops.iter().map(top).collect(),
            }
        });
        serde_json::to_string(&LogprobsOut { content: tokens.collect(), refusal: None }).ok()
    }
}
