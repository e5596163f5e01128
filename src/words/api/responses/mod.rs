//! OpenAI's Responses API for providers that only have chat.
//!
//! A request is parsed into [`super::chat`]; the response is encoded from its events, whole or as a stream
//! of numbered, typed events. The gateway stores nothing: references to an earlier response are refused, and
//! everything the next request needs (also signatures, in `encrypted_content`) is in the returned items. Not
//! used for providers that have a Responses API themselves: they get the client's bytes.
//!
//! Content without an item in this API is dropped: audio, and Anthropic's content blocks other than web
//! searches.

use crate::api::chat::{EncodeContext, Encoder};

mod builder;
mod client_tools;
mod compaction;
mod conversion;
mod freeform;
mod from_chat;
mod input;
mod item;
mod output;
mod reasoning_token;
mod references;
mod request;
mod response;
pub mod socket;
mod stream;
mod tools;
mod whole;

pub use compaction::{
    added_bytes, compaction_encoder, compacts, input_with_messages, own_summary, read_compaction,
};
pub use conversion::{Ending, ending, write_events};
pub use reasoning_token::is_openais_thinking;
pub use references::with_kept_items;
pub use request::read;

/// The response body of a count of input tokens.
pub fn count_response(tokens: u64) -> Vec<u8> {
    format!("{{\"object\":\"response.input_tokens\",\"input_tokens\":{tokens}}}").into_bytes()
}

/// The member with the text of the answer in a part of this type of a message; `None`: reasoning is no part of it. A part without a type has
/// a text.
pub fn text_of_part(kind: &str) -> Option<&'static str> {
    match kind {
        "reasoning_text" | "summary_text" => None,
        "refusal" => Some("refusal"),
        _ => Some("text"),
    }
}

/// Whether an item of this type is a call: what the model has written for a tool. One that waits for a consent is.
pub fn is_call(kind: &str) -> bool {
    kind.ends_with("_call") || kind == "mcp_approval_request"
}

/// Whether an item of the output of this type has a text or a call in a place of its own, or none that a model has written.
pub fn is_listed_item(kind: &str) -> bool {
    let of_tool = kind.ends_with("_output") || kind.ends_with("_results") || kind.starts_with("openrouter:");
    is_call(kind)
        || of_tool
        || matches!(kind, "message" | "reasoning" | "mcp_list_tools" | "compaction" | "compaction_summary")
}

/// Whether a part of a message of this type has its text in a place of its own, or none of the answer.
pub fn is_listed_part(kind: &str) -> bool {
    matches!(kind, "output_text" | "text" | "input_text" | "refusal" | "reasoning_text" | "summary_text")
}

/// Whether an event of a stream of this type has its texts in places of their own, or none of the answer: it may have media, reasoning, what a
/// tool has found, or an error.
pub fn is_listed_event(kind: &str) -> bool {
    let Some(kind) = kind.strip_prefix("response.") else {
        return matches!(kind, "error" | "keepalive" | "ping" | "codex.rate_limits");
    };
    let of_output = [
        "output_item.",
        "content_part.",
        "output_text.",
        "output_text_annotation.",
        "refusal.",
        "reasoning.",
        "reasoning_text.",
        "reasoning_summary.",
        "reasoning_summary_text.",
        "reasoning_summary_part.",
        "mcp_list_tools.",
    ];
    let is_of_output = of_output.iter().any(|kinds| kind.starts_with(kinds)) || kind.contains("_call");
    is_of_output
        || matches!(
            kind,
            "created"
                | "in_progress"
                | "queued"
                | "completed"
                | "incomplete"
                | "cancelled"
                | "failed"
                | "metadata"
                | "output_audio.delta"
                | "output_audio.done"
                | "audio.delta"
                | "audio.done"
        )
}

/// The encoder for one response.
pub fn encoder(streamed: bool, context: EncodeContext) -> Box<dyn Encoder> {
    if streamed { Box::new(stream::Stream::new(&context)) } else { Box::new(whole::Whole::new(&context)) }
}

#[cfg(test)]
mod tests;
