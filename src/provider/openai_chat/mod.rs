//! OpenAI's chat completions as a target.
//!
//! For callers of other dialects (`/v1/messages`, `/v1/responses`, `/v1/completions`) requests are written from
//! the gateway's chat and answers read into it. A caller of `/v1/chat/completions` goes the same way unread but
//! for the vendor's accent: what the vendor would refuse or misread is changed in place (`edits`), and answers
//! that break OpenAI's shape are put right (`mend`). Which vendor has which accent is told in `accents`.

use crate::api::chat::{ChatRequest, Decoder};
use crate::error::Error;
use crate::provider::adapter::{CallTarget, ChatAdapter};
use crate::provider::translation_notes::TranslationNotes;

mod calls;
mod chunk;
mod decoder;
pub mod edits;
mod event_emitter;
mod messages;
mod parts;
mod patch;
mod provider_error;
pub mod quirks;
mod short_id;
mod splice;
mod thinking;
mod write;

pub use patch::CHAT_PATCH;

/// How one vendor speaks OpenAI's chat completions.
#[derive(Debug)]
pub struct OpenAiChat {
    /// It takes the role `developer`; others get `system`, which says the same there.
    pub developer: bool,
    pub max_tokens_param: MaxTokensParam,
    /// How thinking of earlier turns goes back.
    pub reasoning_field: ReasoningField,
    /// How thinking is asked for.
    pub reasoning_param: ReasoningParam,
    /// It takes `response_format.type` `json_schema`. Others get `json_object` and the schema in words.
    pub schemas: bool,
    /// It knows `stream_options`; others tell usage unasked.
    pub stream_options: bool,
    /// It passes `cache_control` on.
    pub cache_control: bool,
    pub documents: Documents,
    /// Ids of tool calls must be nine letters and digits.
    pub short_ids: bool,
    /// Members of messages it refuses; none of them says anything to a model.
    pub refuses: &'static [&'static str],
    /// Members of the request that go otherwise than OpenAI has them.
    pub rules: &'static [(&'static str, Rule)],
}

/// The name of the limit on the answer's tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxTokensParam {
    /// `max_completion_tokens`; the older name is refused by some models.
    MaxCompletionTokens,
    /// Both names are known, or nobody says: a caller's own stays, `max_tokens` is written.
    Both,
    /// `max_tokens`; the newer name is refused or passed over.
    MaxTokens,
}

/// Where an assistant's earlier thinking stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReasoningField {
    /// Nowhere: it is left out.
    Nowhere,
    /// In this member of the message.
    Member(&'static str),
    /// OpenRouter: `reasoning_details`, seals and all.
    Details,
    /// Mistral: parts of the content.
    Parts,
}

/// The words for thinking before the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReasoningParam {
    /// `reasoning_effort`.
    Effort,
    /// `thinking: {"type"}`, and `reasoning_effort` beside it.
    Thinking,
    /// `thinking: {"type"}` only.
    Switch,
    /// OpenRouter: `reasoning: {"effort" | "max_tokens" | "enabled"}`.
    Reasoning,
    /// Alibaba: `enable_thinking` and `thinking_budget`.
    Enable,
}

/// How documents stand in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Documents {
    /// OpenAI's `file` parts: base64 or a file's id.
    Files,
    /// The same, where `file_data` may be a URL (OpenRouter).
    FilesOrUrls,
    /// Mistral's `document_url` parts; sound is bare base64 there.
    DocumentUrls,
}

/// What becomes of a member of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// It has another name.
    Name(&'static str),
    /// These words are others.
    Values(&'static [(&'static str, &'static str)]),
    /// It is refused there and harmless to leave out.
    Drop,
    /// This word says nothing new, and is refused.
    DropValue(&'static str),
    /// Anthropic's `thinking`, passed over there: `reasoning_effort` says it.
    Effort,
}

/// OpenAI itself.
pub static OPENAI_CHAT: OpenAiChat = OpenAiChat::OPENAI;

impl OpenAiChat {
    pub const OPENAI: OpenAiChat = OpenAiChat {
        developer: true,
        max_tokens_param: MaxTokensParam::MaxCompletionTokens,
        reasoning_field: ReasoningField::Nowhere,
        reasoning_param: ReasoningParam::Effort,
        schemas: true,
        stream_options: true,
        cache_control: false,
        documents: Documents::Files,
        short_ids: false,
        refuses: &[],
        rules: &[],
    };
}

impl ChatAdapter for OpenAiChat {
    fn write(
        &self,
        request: ChatRequest<'_>,
        target: &CallTarget<'_>,
        notes: &mut TranslationNotes,
    ) -> Result<Vec<u8>, Error> {
        write::write(self, request, target, notes)
    }

    fn decoder(&self, streamed: bool) -> Box<dyn Decoder> {
        match streamed {
            true => Box::<decoder::Stream>::default(),
            false => Box::<decoder::Whole>::default(),
        }
    }
}

#[cfg(test)]
mod tests;
