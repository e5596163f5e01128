//! OpenAI's `logprobs` as `logprobsResult`. Numbers keep their digits.

use super::wire::{GeminiLogprobs, GeminiToken, GeminiTopTokens};
use crate::api::chat::logprobs::{Logprobs, Token};

/// `logprobsResult` of several `logprobs` objects, in order; `None` where they have no tokens.
pub(super) fn logprobs_result<'j>(objects: impl Iterator<Item = &'j str>) -> Option<GeminiLogprobs<'j>> {
    let objects = objects.filter_map(|json| serde_json::from_str::<Logprobs<'j>>(json).ok());
    let tokens: Vec<Token<'j>> = objects.flat_map(|object| object.content.unwrap_or_default()).collect();
    let top = |token: &Token<'j>| token.top().iter().map(written).collect();
    (!tokens.is_empty()).then(|| GeminiLogprobs {
        chosen_candidates: Some(tokens.iter().map(written).collect()),
        top_candidates: Some(
            tokens.iter().map(|token| GeminiTopTokens { candidates: Some(top(token)) }).collect(),
        ),
    })
}

fn written<'j>(token: &Token<'j>) -> GeminiToken<'j> {
    GeminiToken { token: Some(token.token.clone()), log_probability: Some(token.logprob.clone()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_keep_their_digits() {
        let one = r#"{"content":[{"token":"a","logprob":-0.10,"bytes":[97],"top_logprobs":[{"token":"b","logprob":-2.0}]}],"refusal":null}"#;
        let two = r#"{"content":[{"token":"c","logprob":0,"top_logprobs":null}]}"#;
        assert_eq!(
            serde_json::to_string(&logprobs_result([one, "{}", two].into_iter()).unwrap()).unwrap(),
            r#"{"chosenCandidates":[{"token":"a","logProbability":-0.10},{"token":"c","logProbability":0}],"topCandidates":[{"candidates":[{"token":"b","logProbability":-2.0}]},{"candidates":[]}]}"#
        );
        assert!(logprobs_result([r#"{"content":null}"#].into_iter()).is_none());
    }
}
