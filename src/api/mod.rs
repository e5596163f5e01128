//! The words callers speak: operations, bodies, request rules, usage, event framing, our own replies.
//!
//! Pure: no I/O, no clock, no provider. A provider's own words live with the provider.

pub mod body;
pub mod chat;
pub mod chat_completions;
pub mod completions;
pub mod connection_header;
pub mod error_body;
pub mod messages;
pub mod operation;
pub mod responses;
pub mod retry_after;
pub mod rules;
pub mod sse;
pub mod tap;
pub mod trace;
pub mod usage;

/// Whose error bodies and stream events the caller expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    #[default]
    OpenAi,
    Anthropic,
    /// OpenAI's Responses API: error bodies as [`Dialect::OpenAi`], but its own stream events.
    Responses,
}
