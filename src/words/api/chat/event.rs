//! The events a response is decoded into, the same for whole and streamed responses.
//!
//! Order: `Start`; content events; one `Finish` per choice; `Usage` at any time (cumulative, the last one
//! counts); `End` if the provider marks the end of the response. A whole response yields the same events,
//! with each text in one event:
//!
//! ```text
//! {"id":"x","choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}],"usage":{..}}
//! Start{id:x}  Text{choice:0, text:"Hi"}  Finish{choice:0, reason:Stop, native:"stop"}  Usage(..)  End
//! ```

use super::provider_error::ProviderError;
use crate::api::usage::Usage;

/// One event of a response. `choice` counts from 0; there is more than one only if the request has `n > 1`.
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
    /// The provider's signature on the preceding reasoning; it ends that reasoning block.
    Signature {
        choice: u32,
        signature: &'a str,
    },
    /// Encrypted reasoning that only the provider can read.
    Redacted {
        choice: u32,
        data: &'a str,
    },
    /// Start of a call of one of the client's tools. `index` counts the calls of this choice from 0. A
    /// provider without call ids leaves `id` empty; `provider::rewriter` generates one.
    ToolCall {
        choice: u32,
        index: u32,
        id: &'a str,
        name: &'a str,
        signature: Option<&'a str>,
    },
    /// A fragment of that call's arguments, JSON text. A call without any fragment gets `{}`.
    Arguments {
        choice: u32,
        index: u32,
        fragment: &'a str,
    },
    /// An image or audio in base64.
    Media {
        choice: u32,
        media_type: &'a str,
        data: &'a str,
    },
    /// One annotation in OpenAI's format (`{"type":"url_citation","url_citation":{...}}`), JSON text.
    Annotation {
        choice: u32,
        json: &'a str,
    },
    /// OpenAI's `logprobs` object for the preceding content events, JSON text.
    Logprobs {
        choice: u32,
        json: &'a str,
    },
    /// A content block that only Anthropic's format has (`server_tool_use`, a web search result), JSON text.
    /// Clients see it in `content_blocks` and on `/v1/messages`.
    Block {
        choice: u32,
        json: &'a str,
    },
    /// Why the choice ended. A decoder reports `Stop` whenever the provider does, even after tool calls; the
    /// rewriter corrects that. `native` is the provider's own finish reason.
    Finish {
        choice: u32,
        reason: Finish,
        native: &'a str,
    },
    /// Usage so far; each event replaces the one before.
    Usage(Usage),
    /// Another top-level member of the response (`system_fingerprint`, `service_tier`, `citations`,
    /// `grounding_metadata`): JSON text, emitted once.
    Member {
        name: &'a str,
        json: &'a str,
    },
    /// The provider reports a failure. Always the last event.
    Error(&'a ProviderError),
    /// The provider marks the end of the response.
    End,
}

/// Data about the response known at its start. A member is `None` if the provider does not send it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Start<'a> {
    pub id: Option<&'a str>,
    pub model: Option<&'a str>,
    /// Unix seconds.
    pub created: Option<u64>,
}

/// Why a choice ended, as OpenAI's `finish_reason`.
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
