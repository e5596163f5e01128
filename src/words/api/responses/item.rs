//! One item of a response's output, as written in `output` and in the events of a stream.
//!
//! When an item starts and ends is decided in `output`.

use super::client_tools::BY_CLIENT;
use super::compaction::encrypted_content;
use super::freeform::FreeformInput;
use super::reasoning_token::ReasoningToken;
use crate::json::Json;
use serde::ser::{Serialize, Serializer};

/// The status of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    InProgress,
    Completed,
    /// The response was cut off within the item.
    Incomplete,
}

impl Status {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Incomplete => "incomplete",
        }
    }
}

#[derive(Debug)]
pub(super) struct Item {
    pub id: String,
    pub status: Status,
    pub kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    Message(Vec<Content>),
    Reasoning {
        /// Written as one summary, which every client shows.
        text: Option<String>,
        /// `encrypted_content`.
        token: Option<ReasoningToken<'static>>,
    },
    Call {
        /// The provider's index of the call.
        index: u32,
        call_id: String,
        namespace: Option<String>,
        name: String,
        arguments: String,
    },
    /// A call of a tool that takes a text of any form.
    FreeformCall {
        /// The provider's index of the call.
        index: u32,
        call_id: String,
        namespace: Option<String>,
        name: String,
        input: FreeformInput,
    },
    /// A call of the client's search for tools.
    ToolSearchCall {
        /// The provider's index of the call.
        index: u32,
        call_id: String,
        arguments: String,
    },
    Image {
        format: &'static str,
        /// Base64.
        data: Option<String>,
    },
    /// A web search made by the provider itself.
    Search {
        query: String,
    },
    /// What stands for the conversation before it.
    Compaction {
        summary: String,
    },
}

/// A part of a message.
#[derive(Debug)]
pub(super) enum Content {
    Text { text: String, annotations: Vec<Json<'static>>, logprobs: Vec<Json<'static>> },
    Refusal(String),
}

impl Content {
    pub const fn text() -> Self {
        Self::Text { text: String::new(), annotations: Vec::new(), logprobs: Vec::new() }
    }
}

impl Kind {
    /// The id of an item: the kind's prefix, the response's id and the item's place in the output.
    pub fn id(&self, response: &str, place: usize) -> String {
        format!("{}_{response}_{place}", self.prefix())
    }

    /// The prefix of an id that [`Kind::id`] made; `None` for ids of other origin (OpenAI's have no place at their end).
    pub(crate) fn of_id(id: &str) -> Option<&str> {
        let (prefix, rest) = id.split_once('_')?;
        let (response, place) = rest.rsplit_once('_')?;
        let is_number =
            !place.is_empty() && place.len() <= 6 && place.bytes().all(|byte| byte.is_ascii_digit());
        (is_number && !response.is_empty()).then_some(prefix)
    }

    /// The prefix of ids of this kind.
    pub const fn prefix(&self) -> &'static str {
        match self {
            Self::Message(_) => "msg",
            Self::Reasoning { .. } => "rs",
            Self::Call { .. } => "fc",
            Self::FreeformCall { .. } => "ctc",
            Self::ToolSearchCall { .. } => "tsc",
            Self::Image { .. } => "ig",
            Self::Search { .. } => "ws",
            Self::Compaction { .. } => "cmp",
        }
    }
}

#[derive(serde::Serialize)]
struct MessageOut<'a> {
    id: &'a str,
    r#type: &'static str,
    status: &'static str,
    content: &'a [Content],
    role: &'static str,
}

#[derive(serde::Serialize)]
struct ReasoningOut<'a> {
    id: &'a str,
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    encrypted_content: Option<&'a str>,
    summary: &'a [SummaryOut<'a>],
}

/// A part of a reasoning item's summary.
#[derive(serde::Serialize)]
pub(super) struct SummaryOut<'a> {
    r#type: &'static str,
    text: &'a str,
}

impl<'a> SummaryOut<'a> {
    pub const fn new(text: &'a str) -> Self {
        Self { r#type: "summary_text", text }
    }
}

#[derive(serde::Serialize)]
struct CallOut<'a> {
    id: &'a str,
    r#type: &'static str,
    status: &'static str,
    arguments: &'a str,
    call_id: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
}

#[derive(serde::Serialize)]
struct FreeformCallOut<'a> {
    id: &'a str,
    r#type: &'static str,
    status: &'static str,
    input: &'a str,
    call_id: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
}

#[derive(serde::Serialize)]
struct ToolSearchCallOut<'a> {
    id: &'a str,
    r#type: &'static str,
    status: &'static str,
    call_id: &'a str,
    execution: &'static str,
    arguments: Json<'a>,
}

#[derive(serde::Serialize)]
struct ImageOut<'a> {
    id: &'a str,
    r#type: &'static str,
    status: &'static str,
    output_format: &'static str,
    result: Option<&'a str>,
}

#[derive(serde::Serialize)]
struct SearchOut<'a> {
    id: &'a str,
    r#type: &'static str,
    status: &'static str,
    action: ActionOut<'a>,
}

#[derive(serde::Serialize)]
struct CompactionOut<'a> {
    id: &'a str,
    r#type: &'static str,
    encrypted_content: String,
}

#[derive(serde::Serialize)]
struct ActionOut<'a> {
    r#type: &'static str,
    query: &'a str,
}

impl Serialize for Item {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let id = self.id.as_str();
        let status = self.status.as_str();
        match &self.kind {
            Kind::Message(content) => {
                MessageOut { id, r#type: "message", status, content, role: "assistant" }.serialize(serializer)
            }
            Kind::Reasoning { text, token } => {
                let summary = text.as_deref().map(SummaryOut::new);
                let token = token.as_ref().map(ReasoningToken::encode);
                let encrypted_content = token.as_deref();
                let summary = summary.as_slice();
                ReasoningOut { id, r#type: "reasoning", encrypted_content, summary }.serialize(serializer)
            }
            Kind::Call { call_id, namespace, name, arguments, .. } => {
                let namespace = namespace.as_deref();
                CallOut { id, r#type: "function_call", status, arguments, call_id, name, namespace }
                    .serialize(serializer)
            }
            Kind::FreeformCall { call_id, namespace, name, input, .. } => {
                let input = input.text();
                let namespace = namespace.as_deref();
                FreeformCallOut { id, r#type: "custom_tool_call", status, input, call_id, name, namespace }
                    .serialize(serializer)
            }
            Kind::ToolSearchCall { call_id, arguments, .. } => {
                // An object: what the model wrote in another form is not known to be one.
                let written = Json::parse(arguments).filter(Json::is_object);
                let arguments = written.unwrap_or_else(Json::empty_object);
                ToolSearchCallOut {
                    id,
                    r#type: "tool_search_call",
                    status,
                    call_id,
                    execution: BY_CLIENT,
                    arguments,
                }
                .serialize(serializer)
            }
            Kind::Image { format, data } => {
                let output_format = *format;
                let result = data.as_deref();
                // Items of this kind are never incomplete: an image arrives in one event.
                ImageOut { id, r#type: "image_generation_call", status, output_format, result }
                    .serialize(serializer)
            }
            Kind::Search { query } => {
                let action = ActionOut { r#type: "search", query };
                SearchOut { id, r#type: "web_search_call", status, action }.serialize(serializer)
            }
            Kind::Compaction { summary } => {
                let encrypted_content = encrypted_content(summary);
                CompactionOut { id, r#type: "compaction", encrypted_content }.serialize(serializer)
            }
        }
    }
}

#[derive(serde::Serialize)]
struct TextOut<'a> {
    r#type: &'static str,
    annotations: &'a [Json<'static>],
    logprobs: &'a [Json<'static>],
    text: &'a str,
}

#[derive(serde::Serialize)]
struct RefusalOut<'a> {
    r#type: &'static str,
    refusal: &'a str,
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text { text, annotations, logprobs } => {
                TextOut { r#type: "output_text", annotations, logprobs, text }.serialize(serializer)
            }
            Self::Refusal(refusal) => RefusalOut { r#type: "refusal", refusal }.serialize(serializer),
        }
    }
}
