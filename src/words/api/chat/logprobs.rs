//! OpenAI's `logprobs` object of a choice, for dialects that write it differently. Numbers keep their text.

use crate::json::{Json, JsonStr};
use serde::Deserialize;

/// A `logprobs` object.
#[derive(Debug, Deserialize)]
pub struct Logprobs<'a> {
    #[serde(borrow)]
    pub content: Option<Vec<Token<'a>>>,
}

/// A token of the text, or one that the model considered in its place.
#[derive(Debug, Deserialize)]
pub struct Token<'a> {
    #[serde(borrow)]
    pub token: JsonStr<'a>,
    pub logprob: Json<'a>,
    pub bytes: Option<Json<'a>>,
    #[serde(default)]
    top_logprobs: Option<Vec<Token<'a>>>,
}

impl<'a> Token<'a> {
    /// The tokens that the model considered in its place; none where the vendor leaves them out.
    pub fn top(&self) -> &[Token<'a>] {
        self.top_logprobs.as_deref().unwrap_or_default()
    }
}
