//! What an answer tells, piece by piece: whole and streamed answers alike.
//!
//! The order a reader keeps: `Start`; pieces; `Finish` per choice; `Usage` (any time, cumulative, the last
//! one counts); `End` where the provider says that it is over. A whole answer is told in the same way,
//! each text in one piece.

use super::provider_error::ProviderError;
use crate::api::usage::Usage;

/// One thing an answer tells. `choice` counts from 0; only `n > 1` has more than one.
#[derive(Debug, Clone)]
pub enum Event<'a> {
    Start(Start<'a>),
    Text {
        choice: u32,
        text: &'a str,
    },
    Refusal {
        choice: u32,
        text: &'a str,
    },
    Reasoning {
        choice: u32,
        text: &'a str,
    },
    /// The provider's seal on the reasoning just told: it ends that piece of thinking.
    Signature {
        choice: u32,
        signature: &'a str,
    },
    /// Thinking only the provider can read.
    Redacted {
        choice: u32,
        data: &'a str,
    },
    /// A call of one of the caller's tools begins. `index` counts the calls of this choice from 0. A
    /// provider without call ids leaves `id` empty: one is made (see `provider::rewriter`).
    ToolCall {
        choice: u32,
        index: u32,
        id: &'a str,
        name: &'a str,
        signature: Option<&'a str>,
    },
    /// A fragment of that call's arguments, JSON text. A call without any gets `{}`.
    Arguments {
        choice: u32,
        index: u32,
        fragment: &'a str,
    },
    /// A picture or sound in base64.
    Media {
        choice: u32,
        media_type: &'a str,
        data: &'a str,
    },
    /// One annotation in OpenAI's shape (`{"type":"url_citation","url_citation":{...}}`), JSON text.
    Annotation {
        choice: u32,
        json: &'a str,
    },
    /// OpenAI's `logprobs` object for the pieces just told, JSON text.
    Logprobs {
        choice: u32,
        json: &'a str,
    },
    /// A content block nobody else has a word for, in Anthropic's shape, JSON text (`server_tool_use`, a web
    /// search's result): shown in `content_blocks` and to callers of `/v1/messages`.
    Block {
        choice: u32,
        json: &'a str,
    },
    /// Why it stopped. A reader tells `Stop` when a provider says so even if tools were called: the
    /// rewriter knows better. `native` is the provider's own word.
    Finish {
        choice: u32,
        reason: Finish,
        native: &'a str,
    },
    /// Figures so far; later ones replace earlier ones.
    Usage(Usage),
    /// A further member of the answer for whoever wants it (`system_fingerprint`, `service_tier`,
    /// `citations`, `grounding_metadata`): JSON text, told once.
    Member {
        name: &'a str,
        json: &'a str,
    },
    /// The provider says that it failed: the last thing told.
    Error(&'a ProviderError),
    /// The provider says that the answer is over.
    End,
}

/// How an answer begins. Absent where the provider does not tell.
#[derive(Debug, Clone, Copy, Default)]
pub struct Start<'a> {
    pub id: Option<&'a str>,
    pub model: Option<&'a str>,
    /// Unix seconds.
    pub created: Option<u64>,
}

/// Why an answer stopped, in OpenAI's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    Stop,
    Length,
    ToolCalls,
    ContentFilter,
}

impl Finish {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::ContentFilter => "content_filter",
        }
    }
}
