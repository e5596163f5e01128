//! OpenAI's `logprobs` as `logprobsResult`. Numbers keep their digits.

use crate::api::chat::logprobs::{Logprobs, Token};
use crate::json::Json;
use serde::Serialize;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResultOut<'a> {
    chosen_candidates: Vec<TokenOut<'a>>,
    top_candidates: Vec<TopOut<'a>>,
}

#[derive(Serialize)]
struct TopOut<'a> {
    candidates: Vec<TokenOut<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TokenOut<'a> {
    token: &'a str,
    log_probability: &'a Json<'a>,
}

/// `logprobsResult` of several `logprobs` objects, in order; `None` where they have no tokens.
pub(super) fn logprobs_result<'j>(objects: impl Iterator<Item = &'j str>) -> Option<Json<'static>> {
    let objects: Vec<Logprobs<'_>> = objects.filter_map(|json| serde_json::from_str(json).ok()).collect();
    let tokens: Vec<&Token<'_>> = objects.iter().flat_map(|object| object.content.iter().flatten()).collect();
    (!tokens.is_empty()).then(|| {
        let top_candidates = tokens.iter().map(|token| TopOut {
            candidates: token
                .top()
                .iter()
                .map(|top| TokenOut { token: &top.token, log_probability: &top.logprob })
                .collect(),
        });
        Json::from_value(&ResultOut {
            top_candidates: top_candidates.collect(),
            chosen_candidates: tokens
                .iter()
                .map(|token| TokenOut { token: &token.token, log_probability: &token.logprob })
                .collect(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_keep_their_digits() {
        let one = r#"{"content":[{"token":"a","logprob":-0.10,"bytes":[97],"top_logprobs":[{"token":"b","logprob":-2.0}]}],"refusal":null}"#;
        let two = r#"{"content":[{"token":"c","logprob":0,"top_logprobs":null}]}"#;
        assert_eq!(
            logprobs_result([one, "{}", two].into_iter()).unwrap().get(),
            r#"{"chosenCandidates":[{"token":"a","logProbability":-0.10},{"token":"c","logProbability":0}],"topCandidates":[{"candidates":[{"token":"b","logProbability":-2.0}]},{"candidates":[]}]}"#
        );
        assert!(logprobs_result([r#"{"content":null}"#].into_iter()).is_none());
    }
}
