//! OpenAI's chat completions as the upstream format.
//!
//! For clients of other dialects (`/v1/messages`, `/v1/responses`, `/v1/completions`) requests are written
//! from the neutral chat and responses decoded into it. Requests of `/v1/chat/completions` are not decoded:
//! `edits` changes in place what the vendor would refuse or misread, and `patch` corrects responses that
//! deviate from OpenAI's shape. `quirks` lists how each vendor deviates.

use crate::provider::adapter::{CallTarget, ChatAdapter};
use crate::provider::call_ids::IdRule;
use crate::provider::tool_names::NameRule;
use crate::provider::translation_notes::TranslationNotes;
use crate::provider::turn_order::{TurnOrder, is_mistral};
use crate::provider::vendor_members::VendorMembers;
use words::api::chat::{ChatRequest, Decoder};
use words::config::account::Account;
use words::error::Error;

pub(super) mod cache_marks;
mod call_identity;
mod calls;
mod chunk;
mod conform;
pub(super) mod decoder;
mod deviations;
pub mod edits;
mod event_emitter;
mod messages;
mod mistral_order;
mod parts;
mod passed_names;
mod patch;
mod provider_error;
pub(crate) mod quirks;
mod stream_assembly;
mod thinking;
mod transcript;
mod write;

pub(super) use call_identity::Balance;
pub use conform::PublishedTypes;
pub use deviations::{Documents, MaxTokensParam, ReasoningField, ReasoningParam, Rule};
use event_emitter::EventEmitter;
pub(super) use parts::Url;
pub(super) use passed_names::restore as restore_names;
pub(crate) use patch::CHAT_PATCH;
pub(super) use provider_error::{error_in_success, error_instead_of_result};
pub(super) use stream_assembly::StreamAssembly;
pub(super) use write::effort;

/// How one vendor deviates from OpenAI's chat completions.
#[derive(Debug, Clone)]
pub struct OpenAiChat {
    /// It accepts the role `developer`. Others get `system`, which means the same.
    pub developer: bool,
    pub max_tokens_param: MaxTokensParam,
    /// Where thinking of earlier turns is sent.
    pub reasoning_field: ReasoningField,
    /// How thinking is requested.
    pub reasoning_param: ReasoningParam,
    /// It accepts `response_format.type` `json_schema`. Others get `json_object` and the schema as an
    /// instruction.
    pub schemas: bool,
    /// It accepts `stream_options`; others send usage by default.
    pub stream_options: bool,
    /// It accepts `cache_control`.
    pub cache_control: bool,
    /// The model accepts `prompt_cache_breakpoint`, which means the same. Only for one request: see `cache_marks`.
    pub breakpoints: bool,
    /// The type of its own search of the web, whose settings are in `parameters`.
    pub web_search: Option<&'static str>,
    pub documents: Documents,
    /// Which ids of tool calls it takes.
    pub call_ids: IdRule,
    /// Which names of tools it documents. `None`: any pass on, and translated chats have common ones.
    pub tool_names: Option<NameRule>,
    /// The last message needs `prefix: true` where it is the assistant's, for the model to continue.
    pub flags_prefix: bool,
    /// Members of messages that it refuses.
    pub refuses: &'static [&'static str],
    /// What its published types lack of OpenAI's; `None` where there are none.
    pub published: Option<&'static PublishedTypes>,
    /// Which members of the request it takes.
    pub members: VendorMembers,
    /// Which ones it takes at a custom host, where that may be another vendor's.
    pub custom_host_members: Option<VendorMembers>,
    /// Members of the request that differ from OpenAI's.
    pub rules: &'static [(&'static str, Rule)],
}

/// OpenAI's own chat, at OpenAI and in clouds.
pub(crate) static OPENAI_CHAT: OpenAiChat = OpenAiChat::OPENAI;

/// The provider `openai`: OpenAI itself, or any engine of its shape at a custom host.
pub(crate) static OPENAI_OR_ENGINE: OpenAiChat =
    OpenAiChat { custom_host_members: Some(VendorMembers::CUSTOM_HOST), ..OpenAiChat::OPENAI };

impl OpenAiChat {
    pub const OPENAI: OpenAiChat = OpenAiChat {
        developer: true,
        max_tokens_param: MaxTokensParam::MaxCompletionTokens,
        reasoning_field: ReasoningField::Nowhere,
        reasoning_param: ReasoningParam::Effort,
        schemas: true,
        stream_options: true,
        cache_control: false,
        breakpoints: false,
        web_search: None,
        documents: Documents::Files,
        call_ids: IdRule::OPENAI,
        tool_names: Some(NameRule::COMMON),
        flags_prefix: false,
        refuses: &[],
        published: None,
        members: VendorMembers::OPENAI,
        custom_host_members: None,
        rules: &[],
    };
}

impl OpenAiChat {
    /// Whether the assistant must speak between a tool's result and the user.
    fn answers_results(&self, model: &str) -> bool {
        self.call_ids == IdRule::Nine || is_mistral(model)
    }

    /// Which names of tools pass on: an engine at a custom host may take any.
    fn passed_names(&self, account: &Account) -> Option<NameRule> {
        let is_engine = self.custom_host_members.is_some() && account.custom_host.is_some();
        self.tool_names.filter(|_| !is_engine)
    }

    /// Whether a member belongs to another vendor's API; then its name as listed.
    fn foreign(&self, name: &[u8], account: &Account) -> Option<&'static str> {
        let at_custom_host = self.custom_host_members.as_ref().filter(|_| account.custom_host.is_some());
        let members = at_custom_host.unwrap_or(&self.members);
        let foreign = members.foreign(name)?;
        // What a rule handles may be another name of the vendor's own member.
        let is_renamed = matches!(foreign, "max_tokens" | "max_completion_tokens")
            || self.rules.iter().any(|(ruled, _)| *ruled == foreign);
        (!is_renamed).then_some(foreign)
    }
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

    fn tool_names(&self) -> NameRule {
        self.tool_names.unwrap_or(NameRule::COMMON)
    }

    fn call_ids(&self) -> IdRule {
        self.call_ids
    }

    fn turn_order(&self, model: &str) -> TurnOrder {
        if self.developer && !is_mistral(model) { TurnOrder::Any } else { TurnOrder::SystemFirst }
    }

    fn decoder(&self, streamed: bool) -> Box<dyn Decoder> {
        if streamed {
            Box::<decoder::Stream<EventEmitter>>::default()
        } else {
            Box::<decoder::Whole<EventEmitter>>::default()
        }
    }
}

#[cfg(test)]
mod tests;
