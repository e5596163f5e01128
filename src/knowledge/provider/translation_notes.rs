//! What a translation adds besides the body, and what it left out of it.

use super::tool_names::ToolNames;
use super::vendor_members::VendorMembers;
use http::HeaderMap;
use std::fmt::Display;
use words::api::chat::{Params, Reasoning, Tool};
use words::error::Error;
use words::json::{Json, JsonStr};

/// Headers and warnings, collected while a request is translated.
#[derive(Debug, Default)]
pub struct TranslationNotes {
    /// Headers that the request's content requires (`anthropic-beta`, `anthropic-version`).
    /// `route::vendor_headers` merges them with the client's own.
    pub headers: HeaderMap,
    /// What was dropped or changed, for the client: the `x-gateway-warnings` header.
    pub warnings: Vec<String>,
    /// The tools of a chat that passes on whose names were changed: the response gets the client's names back.
    pub(crate) tool_names: Option<ToolNames>,
}

/// The maximum number of warnings: a header must stay small.
const MAX_WARNINGS: usize = 16;

impl TranslationNotes {
    /// Records something dropped or changed. `param` is the client's name for it.
    pub fn warn(&mut self, param: impl Display, what: impl AsRef<str>) {
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(format!("{param}: {}", what.as_ref()));
        }
    }

    /// As [`warn`](Self::warn), but a warning that was given already is not repeated.
    pub(crate) fn warn_once(&mut self, param: &str, what: &str) {
        let is_given = |warning: &String| {
            warning.strip_prefix(param).and_then(|rest| rest.strip_prefix(": ")) == Some(what)
        };
        if self.warnings.len() < MAX_WARNINGS && !self.warnings.iter().any(is_given) {
            self.warn(param, what);
        }
    }

    /// Records that a parameter was dropped because `provider` has no equivalent.
    pub(crate) fn drop_param(&mut self, param: &str, provider: &str) {
        self.warn(param, format!("dropped, {provider} has no such parameter"));
    }

    /// Leaves out the client's members that the translation has written itself: no body has a member twice, and what was translated counts.
    pub(crate) fn leave_out_written<'a>(
        &mut self,
        params: Params<'a>,
        is_written: impl Fn(&str) -> bool,
    ) -> Params<'a> {
        if !params.iter().any(|(name, _)| is_written(name)) {
            return params;
        }
        let mut others = Params::default();
        for (name, value) in params.into_iter() {
            if is_written(&name) {
                self.leave_out_second(&name);
            } else {
                others.set(name, value);
            }
        }
        others
    }

    /// Records that a member was left out because the translation has written one of that name.
    pub(crate) fn leave_out_second(&mut self, name: &str) {
        self.warn(name, "dropped, the translated request has this member already");
    }

    /// Records that a tool was left out because `provider` has none of its type.
    pub(crate) fn leave_out_tool(&mut self, index: usize, kind: &str, provider: &str) {
        self.warn(
            format_args!("tools[{index}]"),
            format!("left out, {provider} has no tool of type {kind:?}"),
        );
    }

    /// Records that a search was left out because it must stay within domains: without the limit the model would read what it must
    /// not.
    pub(crate) fn leave_out_search(&mut self, index: usize, provider: &str) {
        self.warn(
            format_args!("tools[{index}]"),
            format!("left out, {provider} cannot limit its search to domains"),
        );
    }

    /// Records that a choice of a tool that was left out, or that `provider` does not have, became a free one.
    pub(crate) fn free_choice(&mut self, provider: &str) {
        self.warn("tool_choice", format!("auto, {provider} has no such tool to choose"));
    }

    /// Records that a value was replaced by the nearest one that the provider has.
    pub fn nearest(&mut self, param: &str, value: &str) {
        self.warn(param, format!("sent as {value}, the nearest that this provider has"));
    }

    /// Records that a kind of thinking that only Anthropic has (`between_tools`) becomes plain thinking.
    pub(crate) fn simplify_thinking(&mut self, reasoning: &Reasoning<'_>, provider: &str) {
        #[derive(serde::Deserialize)]
        struct Kind<'a> {
            #[serde(borrow, rename = "type")]
            kind: Option<JsonStr<'a>>,
        }
        let Some(kind) = reasoning.thinking.as_ref().and_then(Json::read::<Kind<'_>>) else { return };
        if kind.kind.is_some_and(|kind| !matches!(&*kind, "enabled" | "disabled" | "adaptive" | "auto")) {
            self.warn(
                "thinking.type",
                format!("{provider} has no such kind of thinking, it thinks as usual"),
            );
        }
    }

    /// Records that `display: omitted` (Anthropic's) has no effect: `provider` always sends its thinking.
    pub(crate) fn show_thinking(&mut self, reasoning: &Reasoning<'_>, provider: &str) {
        #[derive(serde::Deserialize)]
        struct Display<'a> {
            #[serde(borrow)]
            display: Option<JsonStr<'a>>,
        }
        let wanted = reasoning.thinking.as_ref().and_then(Json::read::<Display<'_>>);
        if wanted.and_then(|wanted| wanted.display).is_some_and(|display| &*display == "omitted") {
            self.warn("thinking.display", format!("dropped, {provider} sends what it thinks"));
        }
    }

    /// Records the members of tools, besides those every provider has, that `provider` has no equivalent for.
    pub(crate) fn drop_tool_members(&mut self, tools: &[Tool<'_>], provider: &str) {
        for (index, tool) in tools.iter().enumerate() {
            let Tool::Function { rest, .. } = tool else { continue };
            for (name, _) in rest.iter() {
                self.drop_param(&format!("tools[{index}].{name}"), provider);
            }
        }
    }

    /// Handles the parameters that a translation did not consume and returns those to pass on. OpenAI's
    /// parameters that only tune how the model answers are dropped with a warning; those that would change
    /// what the response contains are refused. Other vendors' parameters are dropped with a warning; the rest
    /// passes (it is the provider's own, or the provider will refuse it).
    ///
    /// # Errors
    /// 400 that names the first parameter the provider cannot honour.
    pub(crate) fn filter_params<'a>(
        &mut self,
        params: Params<'a>,
        provider: &str,
        members: &VendorMembers,
    ) -> Result<Params<'a>, Error> {
        let mut passes = Params::default();
        for (name, value) in params.into_iter() {
            if value.is_null() {
                continue;
            }
            match name.as_ref() {
                // No effect on the response, or only on the provider's side.
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
                // As a tool that the provider does not have.
                | "web_search_options" => self.drop_param(&name, provider),
                "n" if value.get() == "1" => {}
                "logprobs" if value.get() == "false" => {}
                "top_logprobs" if value.get() == "0" => {}
                "modalities" if value.get().replace(' ', "") == r#"["text"]"# => {}
                "n" | "logprobs" | "top_logprobs" | "modalities" | "audio" | "best_of" | "echo" | "suffix" => {
                    let message =
                        format!("{provider} cannot do {name}. Leave it out, or choose another provider.");
                    return Err(Error::invalid_request(name.into_owned(), message));
                }
                _ if members.foreign(name.as_bytes()).is_some() => self.drop_param(&name, provider),
                _ => passes.set(name, value),
            }
        }
        Ok(passes)
    }
}
