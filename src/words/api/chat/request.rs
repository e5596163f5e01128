//! The neutral form of a chat request.

use super::message::{Message, Part};
use super::params::Params;
use super::tool::{Tool, ToolChoice};
use crate::api::part_members::{BREAKPOINT, UnknownMembers};
use crate::json::Json;
use std::borrow::Cow;

/// A chat request. What every provider has to interpret has its own field. Everything else is in `params`
/// under OpenAI's chat names (`temperature`, `top_p`, `seed`, `top_k`, `user`, `metadata`, ...) or, if
/// OpenAI has no such parameter, under the client's name.
#[derive(Debug, Clone, Default)]
pub struct ChatRequest<'a> {
    pub messages: Vec<Message<'a>>,
    pub tools: Vec<Tool<'a>>,
    pub tool_choice: Option<ToolChoice<'a>>,
    pub parallel_tool_calls: Option<bool>,
    pub response_format: Option<ResponseFormat<'a>>,
    pub stop: Vec<Cow<'a, str>>,
    /// `max_completion_tokens`, or else `max_tokens`: a number, unchanged.
    pub max_tokens: Option<Json<'a>>,
    pub stream: bool,
    /// `stream_options.include_usage`.
    pub include_usage: bool,
    pub reasoning: Reasoning<'a>,
    pub params: Params<'a>,
    /// What parsing dropped, as messages for the client (`truncation: dropped, ...`). They are sent together
    /// with the warnings of the translation.
    pub warnings: Vec<String>,
    /// The client's name for the marks of where the prompt's cache may end.
    pub mark_name: MarkName,
}

/// What a client calls the mark of where the prompt's cache may end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MarkName {
    /// Anthropic's `cache_control`.
    #[default]
    CacheControl,
    /// OpenAI's `prompt_cache_breakpoint`.
    Breakpoint,
}

impl MarkName {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CacheControl => "cache_control",
            Self::Breakpoint => BREAKPOINT,
        }
    }
}

/// The most marks that Anthropic and Bedrock take in one request. OpenAI takes more, and uses the last ones.
const MAX_MARKS: usize = 4;

impl ChatRequest<'_> {
    /// Whether a part, a message or a tool has a `cache_control`.
    pub fn has_cache_marks(&self) -> bool {
        let is_marked = |part: &Part<'_>| match part {
            Part::Text { cache_control, .. } => cache_control.is_some(),
            Part::Image(image) => image.cache_control.is_some(),
            Part::File(file) => file.cache_control.is_some(),
            Part::ToolCall(call) => call.cache_control.is_some(),
            _ => false,
        };
        let in_messages = self
            .messages
            .iter()
            .any(|message| message.cache_control.is_some() || message.content.iter().any(is_marked));
        let mut tools = self.tools.iter();
        in_messages || tools.any(|tool| matches!(tool, Tool::Function { cache_control: Some(_), .. }))
    }
}

impl ChatRequest<'_> {
    /// Takes what was found in the client's parts, after its messages were read.
    pub(in crate::api) fn note_unknown_members(&mut self, found: UnknownMembers) {
        if found.has_breakpoints {
            self.mark_name = MarkName::Breakpoint;
            self.keep_last_marks();
        }
        self.warnings.extend(found.into_warnings());
    }

    /// Removes the marks of parts before the last ones that providers with a bound take.
    fn keep_last_marks(&mut self) {
        let mut left = MAX_MARKS;
        let mut removed = 0;
        for part in self.messages.iter_mut().rev().flat_map(|message| message.content.iter_mut().rev()) {
            let mark = match part {
                Part::Text { cache_control, .. } => cache_control,
                Part::Image(image) => &mut image.cache_control,
                Part::File(file) => &mut file.cache_control,
                _ => continue,
            };
            if mark.is_some() && left == 0 {
                *mark = None;
                removed += 1;
            } else if mark.is_some() {
                left -= 1;
            }
        }
        if removed > 0 {
            self.warnings
                .push(format!("{BREAKPOINT}: the first {removed} left out, at most {MAX_MARKS} are taken"));
        }
    }

    /// Whether the model must cite a document.
    pub fn has_citations(&self) -> bool {
        let is_cited = |part: &Part<'_>| matches!(part, Part::File(file) if file.has_citations);
        self.messages.iter().any(|message| message.content.iter().any(is_cited))
    }
}

/// How much the model should reason, in whichever form the client chose.
#[derive(Debug, Clone, Default)]
pub struct Reasoning<'a> {
    /// `none`, `minimal`, `low`, `medium`, `high`, `xhigh`, ...
    pub effort: Option<Cow<'a, str>>,
    /// The effort is Anthropic's `output_config.effort`, which is about the whole output and turns no thinking on.
    pub is_output_effort: bool,
    /// Anthropic's `thinking` object, unchanged: `{"type":"enabled","budget_tokens":2048}`.
    pub thinking: Option<Json<'a>>,
    /// `auto`, `concise`, `detailed` (Responses API).
    pub summary: Option<Cow<'a, str>>,
}

/// The format required of the response's text.
#[derive(Debug, Clone)]
pub enum ResponseFormat<'a> {
    Text,
    /// Any JSON object.
    JsonObject,
    JsonSchema {
        name: Cow<'a, str>,
        description: Option<Cow<'a, str>>,
        schema: Json<'a>,
        strict: Option<bool>,
    },
}

/// A schema with the description of its format, for vendors whose formats have none. A description of its own stays.
pub fn described<'a>(schema: &Json<'a>, description: Option<&str>) -> Json<'a> {
    let members = Json::members(schema.get());
    let Some(text) = description.filter(|text| !text.is_empty()) else { return schema.clone() };
    match members {
        Some(mut members) if !members.iter().any(|(name, _)| name == "description") => {
            members.push(("description".into(), Json::from_value(text)));
            Json::object(&members)
        }
        _ => schema.clone(),
    }
}
