//! Rules of POST /completions.
//!
//! "`best_of` cannot be streamed" is applied as OpenAI does: only to values above the default, 1.

use super::{
    CHOICES, Fields, INTEGER, PENALTY, Row, Rule, STOP, TEMPERATURE, TOP_P, Table, optional, required,
};
use crate::error::Error;

const ROWS: &[Row] = &[
    required("model", Rule::Text),
    required("prompt", Rule::Prompt),
    optional("best_of", Rule::Integer { min: 0, max: 20 }),
    optional("echo", Rule::Flag),
    optional("frequency_penalty", PENALTY),
    optional("presence_penalty", PENALTY),
    optional("logit_bias", Rule::Biases),
    optional("logprobs", Rule::Integer { min: 0, max: 5 }),
    optional("max_tokens", Rule::Integer { min: 0, max: i64::MAX }),
    optional("n", CHOICES),
    optional("seed", INTEGER),
    optional("stop", STOP),
    optional("stream", Rule::Flag),
    optional("stream_options", Rule::Object),
    optional("suffix", Rule::Text),
    optional("temperature", TEMPERATURE),
    optional("top_p", TOP_P),
    optional("user", Rule::Text),
];

pub(in crate::api) const TABLE: Table = Table { rows: ROWS, across };

fn across(fields: &Fields<'_>) -> Result<(), Error> {
    if let Some(best_of) = fields.integer("best_of") {
        let n = fields.integer("n").filter(|&n| best_of <= n);
        if let Some(n) = n
            && !fields.is_given(&["best_of", "n"])
        {
            let message = format!(
                "Invalid 'best_of': must be greater than 'n'. Expected a value > {n}, but got {best_of} instead."
            );
            return Err(Error::invalid_request("best_of", message));
        }
        if best_of > 1 && fields.is_true("stream") && !fields.is_given(&["best_of", "stream"]) {
            let message = "The 'best_of' parameter above 1 is not allowed when 'stream' is true.";
            return Err(Error::invalid_request("best_of", message));
        }
    }
    fields.stream_options()
}
