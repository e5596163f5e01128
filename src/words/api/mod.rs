//! The APIs that clients use: operations, bodies, request rules, dialects, usage, event framing, error bodies.
//!
//! Pure: no I/O, no clock, no provider. Providers' own APIs are in `provider`.

pub mod body;
pub mod chat;
pub mod chat_completions;
pub mod completions;
pub mod connection_header;
pub mod embedding_list;
pub mod error_body;
pub mod error_class;
pub mod error_names;
pub mod gemini;
pub mod input_reach;
pub mod mcp;
pub mod messages;
pub mod model_facts;
pub mod model_list;
pub mod openapi;
pub mod operation;
pub mod output_bounds;
pub mod output_text;
pub mod own_ids;
pub mod part_members;
pub mod prompt_parting;
pub mod realtime;
pub mod request_id;
pub mod responses;
pub mod retry_after;
pub mod rules;
pub mod search_bounds;
pub mod service_tier;
pub mod sse;
pub mod tap;
pub mod token_estimate;
pub mod tool_rounds;
pub mod trace;
pub mod unlisted;
pub mod usage;

/// Whose error bodies and stream events the client expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    #[default]
    OpenAi,
    Anthropic,
    /// OpenAI's Responses API: error bodies as [`Dialect::OpenAi`], but its own stream events.
    Responses,
    /// Google's Gemini API.
    Google,
    /// JSON-RPC of the Model Context Protocol.
    Mcp,
}
