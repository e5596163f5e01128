//! Anthropic's content blocks and stream events. They are read in four places: in requests of clients, in streams that
//! this dialect continues, in responses of `provider::anthropic`, and by its whole and streamed decoder alike.
//!
//! What is read and what is written are two types of each: a reader needs flat structs, because serde's tagged enums
//! would copy their content; a writer needs enums, which say in ten lines what may stand together. Not here: the blocks
//! that `provider::anthropic` writes into requests, of which it holds thousands, and which are therefore small.
//! Sources: <https://platform.claude.com/docs/en/api/messages>, `.../build-with-claude/streaming`.

use crate::json::{Json, JsonStr};
use serde::{Deserialize, Serialize};

/// A content block, with the members of all kinds.
#[derive(Debug, Default, Deserialize)]
pub struct AnthropicBlock<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Option<JsonStr<'a>>,
    pub text: Option<JsonStr<'a>>,
    /// An object in most kinds; in `search_result` the URL.
    pub source: Option<Json<'a>>,
    pub title: Option<JsonStr<'a>>,
    pub context: Option<JsonStr<'a>>,
    pub thinking: Option<JsonStr<'a>>,
    pub signature: Option<JsonStr<'a>>,
    pub data: Option<JsonStr<'a>>,
    pub id: Option<JsonStr<'a>>,
    pub name: Option<JsonStr<'a>>,
    pub input: Option<Json<'a>>,
    pub tool_use_id: Option<JsonStr<'a>>,
    pub content: Option<Json<'a>>,
    pub is_error: Option<bool>,
    pub cache_control: Option<Json<'a>>,
    /// Of a document, an object; of a text, the citations that it has.
    pub citations: Option<Json<'a>>,
}

/// The `delta` of a `content_block_delta` or a `message_delta`.
#[derive(Debug, Default, Deserialize)]
pub struct AnthropicDelta<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Option<JsonStr<'a>>,
    pub text: Option<JsonStr<'a>>,
    pub partial_json: Option<JsonStr<'a>>,
    pub thinking: Option<JsonStr<'a>>,
    pub signature: Option<JsonStr<'a>>,
    pub citation: Option<Json<'a>>,
    pub stop_reason: Option<JsonStr<'a>>,
    pub stop_sequence: Option<Json<'a>>,
    pub stop_details: Option<Json<'a>>,
    pub container: Option<Json<'a>>,
    pub context_management: Option<Json<'a>>,
}

/// The data of one event of a stream.
#[derive(Debug, Deserialize)]
pub struct AnthropicEvent<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: JsonStr<'a>,
    pub index: Option<u64>,
    pub delta: Option<AnthropicDelta<'a>>,
    pub content_block: Option<Json<'a>>,
    pub message: Option<Json<'a>>,
    pub usage: Option<Json<'a>>,
    pub context_management: Option<Json<'a>>,
}

/// The message of a `message_start`, or a whole response.
#[derive(Debug, Deserialize)]
pub struct AnthropicMessage<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Option<JsonStr<'a>>,
    pub id: Option<JsonStr<'a>>,
    pub model: Option<JsonStr<'a>>,
    pub content: Option<Vec<Json<'a>>>,
    pub usage: Option<Json<'a>>,
    pub stop_reason: Option<JsonStr<'a>>,
    pub stop_sequence: Option<Json<'a>>,
    pub stop_details: Option<Json<'a>>,
    pub container: Option<Json<'a>>,
    pub context_management: Option<Json<'a>>,
}

/// A content block as it is written: a whole one, or the start of a streamed one.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum BlockOut<'a> {
    Text {
        text: &'a str,
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        citations: &'a [Json<'a>],
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: Json<'a>,
    },
}

/// The `delta` of a `content_block_delta` as it is written.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(clippy::enum_variant_names, reason = "these are the dialect's names")]
pub(super) enum DeltaOut<'a> {
    TextDelta { text: &'a str },
    ThinkingDelta { thinking: &'a str },
    SignatureDelta { signature: &'a str },
    InputJsonDelta { partial_json: &'a str },
    CitationsDelta { citation: Json<'a> },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each text member and JSON member that was written, with its name.
    type Members = Vec<(&'static str, Option<String>)>;

    fn block(written: &BlockOut<'_>) -> (Option<String>, Members) {
        let json = serde_json::to_string(written).unwrap();
        let read: AnthropicBlock<'_> = serde_json::from_str(&json).unwrap();
        let members = [
            ("text", read.text),
            ("thinking", read.thinking),
            ("signature", read.signature),
            ("data", read.data),
            ("id", read.id),
            ("name", read.name),
        ];
        let json = [("input", read.input), ("citations", read.citations)];
        let texts = members.into_iter().map(|(name, text)| (name, text.map(|text| text.0.into_owned())));
        let all =
            texts.chain(json.into_iter().map(|(name, json)| (name, json.map(|json| json.get().to_owned()))));
        (read.kind.map(|kind| kind.0.into_owned()), all.filter(|(_, value)| value.is_some()).collect())
    }

    #[test]
    fn blocks_that_are_written_are_read_back() {
        let some = |members: &[(&'static str, &str)]| -> Members {
            members.iter().map(|(name, value)| (*name, Some((*value).to_owned()))).collect()
        };
        let citations = [Json::parse(r#"{"start":1.0}"#).unwrap()];
        for (written, kind, members) in [
            (BlockOut::Text { text: "a\n\"", citations: &[] }, "text", some(&[("text", "a\n\"")])),
            (
                BlockOut::Text { text: "", citations: &citations },
                "text",
                some(&[("text", ""), ("citations", r#"[{"start":1.0}]"#)]),
            ),
            (
                BlockOut::Thinking { thinking: "t", signature: "s" },
                "thinking",
                some(&[("thinking", "t"), ("signature", "s")]),
            ),
            (BlockOut::RedactedThinking { data: "d" }, "redacted_thinking", some(&[("data", "d")])),
            (
                BlockOut::ToolUse { id: "i", name: "n", input: Json::parse(r#"{"a":1.0}"#).unwrap() },
                "tool_use",
                some(&[("id", "i"), ("name", "n"), ("input", r#"{"a":1.0}"#)]),
            ),
        ] {
            assert_eq!(block(&written), (Some(kind.to_owned()), members));
        }
    }

    #[test]
    fn deltas_that_are_written_are_read_back() {
        let read = |written: &DeltaOut<'_>| {
            let json = serde_json::to_string(written).unwrap();
            let delta: AnthropicDelta<'_> = serde_json::from_str(&json).unwrap();
            let texts = [delta.text, delta.thinking, delta.signature, delta.partial_json];
            let text = texts.into_iter().flatten().next().map(|text| text.0.into_owned());
            (delta.kind.unwrap().0.into_owned(), text.or(delta.citation.map(|json| json.get().to_owned())))
        };
        let citation = Json::parse(r#"{"end":2.0}"#).unwrap();
        for (written, kind, value) in [
            (DeltaOut::TextDelta { text: "a\u{1}" }, "text_delta", "a\u{1}"),
            (DeltaOut::ThinkingDelta { thinking: "t" }, "thinking_delta", "t"),
            (DeltaOut::SignatureDelta { signature: "s" }, "signature_delta", "s"),
            (DeltaOut::InputJsonDelta { partial_json: "{\"" }, "input_json_delta", "{\""),
            (DeltaOut::CitationsDelta { citation }, "citations_delta", r#"{"end":2.0}"#),
        ] {
            assert_eq!(read(&written), (kind.to_owned(), Some(value.to_owned())));
        }
    }
}
