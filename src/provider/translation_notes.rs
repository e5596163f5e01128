//! What goes out beside the body, and what was left out of it.

use crate::api::chat::Params;
use crate::error::Error;
use http::HeaderMap;

/// Collected while a request is translated.
#[derive(Debug, Default)]
pub struct TranslationNotes {
    /// Headers the request's content asks for (`anthropic-beta`, `anthropic-version`). How they meet the
    /// caller's own: `route::asked`.
    pub headers: HeaderMap,
    /// What was dropped or changed, in words for the caller: the `x-gateway-warnings` header.
    pub warnings: Vec<String>,
}

/// The most warnings told: a header must stay small.
const MAX_WARNINGS: usize = 16;

impl TranslationNotes {
    /// Notes something dropped or changed. `param` is the caller's name of it.
    pub fn warn(&mut self, param: &str, what: impl AsRef<str>) {
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(format!("{param}: {}", what.as_ref()));
        }
    }

    /// Notes that a parameter was dropped because `provider` has nothing like it.
    pub fn drop_param(&mut self, param: &str, provider: &str) {
        self.warn(param, format!("dropped, {provider} has no such parameter"));
    }

    /// Settles what a translation had no word for, and gives back what passes as it is: OpenAI's parameters
    /// that change nothing but the manner of an answer are dropped with a warning; those that would change
    /// what the caller gets are refused; what is not OpenAI's at all passes (it is the provider's own, or
    /// the provider will say that it is not).
    ///
    /// # Errors
    /// 400 that names the first parameter the provider cannot honour.
    pub fn filter_params<'a>(&mut self, params: Params<'a>, provider: &str) -> Result<Params<'a>, Error> {
        let mut passes = Params::default();
        for (name, value) in params.into_iter() {
            if value.is_null() {
                continue;
            }
            match name.as_ref() {
                // Without effect, or with an effect on the provider's side only.
                "user"
                | "metadata"
                | "store"
                | "service_tier"
                | "safety_identifier"
                | "prompt_cache_key"
                | "prompt_cache_retention"
                | "verbosity"
                | "prediction"
                | "stream_options"
                | "logit_bias"
                | "presence_penalty"
                | "frequency_penalty"
                | "seed"
                | "parallel_tool_calls"
                | "moderation" => self.drop_param(&name, provider),
                "n" if value.get() == "1" => {}
                "logprobs" if value.get() == "false" => {}
                "top_logprobs" if value.get() == "0" => {}
                "modalities" if value.get().replace(' ', "") == r#"["text"]"# => {}
                "n" | "logprobs" | "top_logprobs" | "modalities" | "audio" | "web_search_options"
                | "functions" | "function_call" | "best_of" | "echo" | "suffix" => {
                    let message =
                        format!("{provider} cannot do {name}. Leave it out, or choose another provider.");
                    return Err(Error::invalid_request(name.into_owned(), message));
                }
                _ => passes.set(name, value),
            }
        }
        Ok(passes)
    }
}
