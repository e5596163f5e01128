//! How much output a request may have: the bound of its operation, and how often it holds, as the least strict provider reads them. Of
//! a member that is there twice that is the larger one.
//!
//! Members of other operations are no bounds: a provider does not know them. Whether members are valid is judged in `rules`, what is
//! expected in `engine::usage_estimate`.

use super::Dialect;
use super::body::Body;
use super::gemini;
use super::operation::Operation;
use crate::json::walk;
use crate::json::whole_number::whole_number;

/// How many outputs are generated, at least 1: choices or candidates, and of a completion those of each prompt.
pub fn outputs(operation: Operation, body: &Body) -> u64 {
    let number = |name| body.every(name).filter_map(whole_number).max().unwrap_or(1);
    let outputs = match (operation, operation.dialect()) {
        (_, Dialect::Google) => gemini::candidates(body),
        // The best of them is returned, all are charged.
        (Operation::Completions, _) => {
            let prompts = body.every("prompt").map(prompts).max().unwrap_or(1);
            number("n").max(number("best_of")).saturating_mul(prompts)
        }
        _ => number("n"),
    };
    outputs.max(1)
}

/// The bound of all outputs together, in tokens; `None`: as for [`bound`].
pub fn bound_of_all(operation: Operation, body: &Body) -> Option<u64> {
    Some(bound(operation, body)?.saturating_mul(outputs(operation, body)))
}

/// The bound of each output, in tokens; `None`: the operation's request has none, or none that can be read.
pub fn bound(operation: Operation, body: &Body) -> Option<u64> {
    let names: &[&str] = match (operation, operation.dialect()) {
        (_, Dialect::Google) => return gemini::most_output(body),
        // Some providers read one of them, some the other.
        (Operation::ChatCompletions, _) => &["max_completion_tokens", "max_tokens"],
        (Operation::Completions | Operation::Messages, _) => &["max_tokens"],
        (Operation::Responses | Operation::ResponsesCompact, _) => &["max_output_tokens"],
        _ => return None,
    };
    most(names.iter().flat_map(|name| body.every(name)))
}

/// Whether a number is more than that, as the least strict provider reads it.
pub fn exceeds(json: &str, most: u64) -> bool {
    whole_number(json.as_bytes()).is_some_and(|number| number > most)
}

/// The largest of the values; `None` where there is none, or one that is no number. `null` is no value. 0 is no bound: some servers take it
/// for none.
pub(super) fn most<'b>(values: impl Iterator<Item = &'b [u8]>) -> Option<u64> {
    let bound = |value| whole_number(value).filter(|number| *number > 0);
    let mut numbers = values.filter(|value| *value != b"null").map(bound);
    numbers.try_fold(None, |most, number| number.map(|number| most.max(Some(number)))).flatten()
}

/// The number of prompts: a list of tokens is one.
fn prompts(json: &[u8]) -> u64 {
    let Some(items) = walk::items(json) else { return 1 };
    let is_one = items.clone().next().is_none_or(|first| first.first().is_some_and(u8::is_ascii_digit));
    if is_one { 1 } else { items.count() as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn body(json: &str) -> Body {
        Body::parse(Bytes::from(json.to_owned())).unwrap()
    }

    #[test]
    fn outputs_are_choices_times_prompts() {
        use Operation::{ChatCompletions, Completions, GenerateContent, Messages};
        for (operation, json, wanted) in [
            (ChatCompletions, "{}", 1),
            (ChatCompletions, r#"{"n": 20}"#, 20),
            (ChatCompletions, r#"{"n": 20.0}"#, 20),
            (ChatCompletions, r#"{"n": "20"}"#, 20),
            (ChatCompletions, r#"{"n": 0}"#, 1),
            (ChatCompletions, r#"{"n": 20, "\u006e": 1}"#, 20),
            (ChatCompletions, r#"{"n": null, "best_of": 5}"#, 1),
            (Messages, r#"{"max_tokens": 5}"#, 1),
            (Completions, r#"{"prompt": "a", "best_of": 20}"#, 20),
            (Completions, r#"{"prompt": "a", "best_of": 3, "n": 2}"#, 3),
            (Completions, r#"{"prompt": ["a", "b", "c"]}"#, 3),
            (Completions, r#"{"prompt": ["a", "b"], "best_of": 4}"#, 8),
            (Completions, r#"{"prompt": [1, 2, 3]}"#, 1),
            (Completions, r#"{"prompt": [[1, 2, 3], [4]]}"#, 2),
            (Completions, r#"{"prompt": []}"#, 1),
            (GenerateContent, r#"{"generationConfig": {"candidateCount": 3.0}}"#, 3),
            (
                GenerateContent,
                r#"{"generation_config": {"candidate_count": 4}, "generationConfig": {"candidateCount": 2}}"#,
                4,
            ),
        ] {
            assert_eq!(outputs(operation, &body(json)), wanted, "{json}");
        }
    }

    #[test]
    fn only_the_operations_own_bounds_count() {
        use Operation::{
            ChatCompletions, Completions, GenerateContent, Images, Messages, Passthrough, Responses,
        };
        for (operation, json, wanted) in [
            (ChatCompletions, "{}", None),
            (ChatCompletions, r#"{"max_tokens": 10}"#, Some(10)),
            (ChatCompletions, r#"{"max_tokens": 10, "max_completion_tokens": null}"#, Some(10)),
            (ChatCompletions, r#"{"max_tokens": 10, "max_completion_tokens": 5000.0}"#, Some(5000)),
            (ChatCompletions, r#"{"max_tokens": 10, "max_completion_tokens": []}"#, None),
            (ChatCompletions, r#"{"max_tokens": 10, "max_tokens": 5}"#, Some(10)),
            (ChatCompletions, r#"{"max_tokens": -1}"#, None),
            (ChatCompletions, r#"{"max_tokens": 0}"#, None),
            (ChatCompletions, r#"{"max_tokens": 0, "max_completion_tokens": 10}"#, None),
            (Messages, r#"{"max_tokens": 0.0}"#, None),
            (Responses, r#"{"max_output_tokens": 0}"#, None),
            (GenerateContent, r#"{"generationConfig": {"maxOutputTokens": 0}}"#, None),
            (ChatCompletions, r#"{"max_output_tokens": 10}"#, None),
            (Completions, r#"{"max_tokens": 10, "max_completion_tokens": 5}"#, Some(10)),
            (Completions, r#"{"max_completion_tokens": 5}"#, None),
            (Messages, r#"{"max_tokens": 10}"#, Some(10)),
            (Responses, r#"{"max_tokens": 10}"#, None),
            (Responses, r#"{"max_output_tokens": 10}"#, Some(10)),
            (Images, r#"{"max_tokens": 10}"#, None),
            (Passthrough, r#"{"max_tokens": 10}"#, None),
            (GenerateContent, r#"{"max_tokens": 10}"#, None),
            (GenerateContent, r#"{"generationConfig": {"maxOutputTokens": 10}}"#, Some(10)),
            (
                GenerateContent,
                r#"{"generationConfig": {"maxOutputTokens": 10}, "generationConfig": {"maxOutputTokens": 5}}"#,
                Some(10),
            ),
            (
                GenerateContent,
                r#"{"generationConfig": {"maxOutputTokens": 10}, "generation_config": {"max_output_tokens": 20}}"#,
                Some(20),
            ),
            (
                GenerateContent,
                r#"{"generationConfig": {"maxOutputTokens": 10, "maxOutputTokens": "x"}}"#,
                None,
            ),
        ] {
            assert_eq!(bound(operation, &body(json)), wanted, "{operation:?} {json}");
        }
    }
}
