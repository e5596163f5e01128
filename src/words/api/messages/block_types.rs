//! The content blocks and server tools that Anthropic's responses have, as its published types list them.
//!
//! Clients parse a response by these lists: an SDK that finds another type, or a server tool of another name,
//! cannot read the message. Blocks of other providers' own tools (Google's search, Nova's grounding) are
//! therefore left out of standard responses.

use crate::json::{Json, JsonStr};
use serde::Deserialize;

/// Types of content blocks. Sources: `types/content_block.py` and `types/beta/beta_content_block.py` of
/// Anthropic's Python SDK 2.12.0. Not in the list: `text`, `thinking`, `redacted_thinking`, `tool_use`, which
/// are events of their own.
const BLOCKS: [&str; 14] = [
    "server_tool_use",
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
    "advisor_tool_result",
    "mcp_tool_use",
    "mcp_tool_result",
    "mcp_tool_listing",
    "container_upload",
    "compaction",
    "fallback",
];

/// Names of `server_tool_use`. Source: `types/beta/beta_server_tool_use_block.py` of the same SDK.
const SERVER_TOOLS: [&str; 8] = [
    "advisor",
    "web_search",
    "web_fetch",
    "code_execution",
    "bash_code_execution",
    "text_editor_code_execution",
    "tool_search_tool_regex",
    "tool_search_tool_bm25",
];

/// Whether a block of a response of this type has its text or its call in a place of its own, or no text of the model: it has media, reasoning,
/// or what a tool has found. Also those of other providers, in this shape.
pub fn is_listed_block(kind: &str) -> bool {
    let of_tool = kind.ends_with("tool_use") || kind.ends_with("_result");
    of_tool
        || matches!(
            kind,
            "text"
                | "thinking"
                | "redacted_thinking"
                | "image"
                | "audio"
                | "video"
                | "file_data"
                | "container_upload"
                | "fallback"
                | "compaction"
                | "mcp_tool_listing"
        )
}

/// What a block is to a client of this dialect.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BlockKind {
    /// One of Anthropic's.
    Standard,
    /// An image at this URL, which responses have no block for.
    ImageUrl(String),
    /// Another provider's.
    Foreign,
    /// Not an object with a `type`.
    Malformed,
}

impl BlockKind {
    pub(super) fn read(json: &str) -> Self {
        #[derive(Deserialize)]
        struct Block<'a> {
            #[serde(borrow, rename = "type")]
            kind: JsonStr<'a>,
            name: Option<Json<'a>>,
            source: Option<Source<'a>>,
        }
        #[derive(Deserialize)]
        struct Source<'a> {
            #[serde(borrow)]
            url: Option<JsonStr<'a>>,
        }
        let is_object = Json::parse(json).is_some_and(|json| json.is_object());
        let Ok(block) = serde_json::from_str::<Block<'_>>(json) else {
            return if is_object && has_type(json) { Self::Foreign } else { Self::Malformed };
        };
        let name = block.name.as_ref().and_then(Json::text);
        match &*block.kind {
            "server_tool_use" if !SERVER_TOOLS.contains(&name.as_deref().unwrap_or_default()) => {
                Self::Foreign
            }
            kind if BLOCKS.contains(&kind) => Self::Standard,
            "image" => match block.source.and_then(|source| source.url) {
                Some(url) => Self::ImageUrl(url.0.into_owned()),
                None => Self::Foreign,
            },
            _ => Self::Foreign,
        }
    }
}

/// Whether an object has a `type` that is a string, whatever its other members are.
fn has_type(json: &str) -> bool {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(borrow, rename = "type")]
        _kind: JsonStr<'a>,
    }
    serde_json::from_str::<Kind<'_>>(json).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_types_are_distinguished() {
        let cases = [
            (r#"{"type":"server_tool_use","id":"s","name":"web_search","input":{}}"#, BlockKind::Standard),
            (r#"{"type":"mcp_tool_use","id":"s","name":"mine","input":{}}"#, BlockKind::Standard),
            (r#"{"type":"code_execution_tool_result","tool_use_id":"s","content":{}}"#, BlockKind::Standard),
            (r#"{"type":"server_tool_use","id":"s","name":"google_search","input":{}}"#, BlockKind::Foreign),
            (r#"{"type":"server_tool_use","id":"s","name":"nova_grounding","input":{}}"#, BlockKind::Foreign),
            (r#"{"type":"server_tool_use","id":"s","input":{}}"#, BlockKind::Foreign),
            (r#"{"type":"google_search_tool_result","content":{}}"#, BlockKind::Foreign),
            (r#"{"type":"x","source":7}"#, BlockKind::Foreign),
            (
                r#"{"type":"image","source":{"type":"url","url":"https://a.example/b.png"}}"#,
                BlockKind::ImageUrl("https://a.example/b.png".to_owned()),
            ),
            (r#"{"name":"web_search"}"#, BlockKind::Malformed),
            ("[1]", BlockKind::Malformed),
            ("{", BlockKind::Malformed),
        ];
        for (json, wanted) in cases {
            assert_eq!(BlockKind::read(json), wanted, "{json}");
        }
    }
}
