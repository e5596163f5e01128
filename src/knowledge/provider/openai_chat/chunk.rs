//! The shape of a response, whole or a chunk of a stream, as loosely as vendors follow it.
//!
//! Every member may be absent, null or of another type. A malformed member is ignored; the rest is still
//! read.

use serde::Deserialize;
use words::json::{Json, JsonStr};

/// One choice of a response, or a chunk of it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChoiceIn<'a> {
    #[serde(borrow)]
    pub index: Option<Json<'a>>,
    pub delta: Option<Json<'a>>,
    pub message: Option<Json<'a>>,
    pub finish_reason: Option<Json<'a>>,
    pub logprobs: Option<Json<'a>>,
    /// OpenRouter.
    pub error: Option<Json<'a>>,
    /// Moonshot, in the last chunk.
    pub usage: Option<Json<'a>>,
}

/// A message or delta, with every vendor's name for thinking.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct MessageIn<'a> {
    #[serde(borrow)]
    pub content: Option<Json<'a>>,
    pub refusal: Option<Json<'a>>,
    /// DeepSeek, Z.ai, Moonshot, dashscope, xAI and most hosts of open models.
    pub reasoning_content: Option<Json<'a>>,
    /// OpenRouter, Groq, Cerebras, Together, Ollama, newer vLLM.
    pub reasoning: Option<Json<'a>>,
    /// OpenRouter and MiniMax: the same as separate parts.
    pub reasoning_details: Option<Json<'a>>,
    /// LiteLLM, for Anthropic's models.
    pub thinking_blocks: Option<Json<'a>>,
    pub tool_calls: Option<Json<'a>>,
    pub function_call: Option<Json<'a>>,
    pub annotations: Option<Json<'a>>,
    pub audio: Option<Json<'a>>,
    /// OpenRouter: images made by the model.
    pub images: Option<Json<'a>>,
    /// Groq: the calls of its own tools.
    pub executed_tools: Option<Json<'a>>,
}

/// A tool call or a fragment of one.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CallIn<'a> {
    #[serde(borrow)]
    pub index: Option<Json<'a>>,
    pub id: Option<Json<'a>>,
    pub function: Option<FunctionIn<'a>>,
    pub custom: Option<FunctionIn<'a>>,
    pub extra_content: Option<Extra<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FunctionIn<'a> {
    #[serde(borrow)]
    pub name: Option<Json<'a>>,
    pub arguments: Option<Json<'a>>,
    /// The input of a custom tool: text.
    pub input: Option<Json<'a>>,
    pub thought_signature: Option<Json<'a>>,
}

/// Where Google's compatible endpoint and OpenRouter's Gemini models put the thought signature.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Extra<'a> {
    #[serde(borrow)]
    pub google: Option<GoogleExtra<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct GoogleExtra<'a> {
    #[serde(borrow)]
    pub thought_signature: Option<Json<'a>>,
}

/// A part of a content list, a thinking block, a reasoning detail or an image of any vendor.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PartIn<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Option<JsonStr<'a>>,
    pub text: Option<Json<'a>>,
    pub refusal: Option<Json<'a>>,
    /// Mistral: a list of parts. Anthropic's models: text.
    pub thinking: Option<Json<'a>>,
    /// OpenRouter: text. Databricks: a list of parts.
    pub summary: Option<Json<'a>>,
    pub signature: Option<Json<'a>>,
    pub data: Option<Json<'a>>,
    pub image_url: Option<Json<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AudioIn<'a> {
    #[serde(borrow)]
    pub data: Option<Json<'a>>,
    pub transcript: Option<Json<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct UrlIn<'a> {
    #[serde(borrow)]
    pub url: Option<Json<'a>>,
}

/// The text of a JSON string, if it is not empty.
pub(super) fn non_empty_text<'j>(json: &'j Option<Json<'_>>) -> Option<std::borrow::Cow<'j, str>> {
    json.as_ref()?.text().filter(|text| !text.is_empty())
}
