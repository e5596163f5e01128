//! The messages of a chat and what they are made of.

use super::json::Json;
use std::borrow::Cow;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    System,
    /// A provider without it takes it for [`Role::System`].
    Developer,
    User,
    Assistant,
    /// The result of one tool call.
    Tool,
}

/// One message. An assistant's tool calls are parts of its content, in their place among the others.
#[derive(Debug, Clone)]
pub struct Message<'a> {
    pub role: Role,
    pub content: Vec<Part<'a>>,
    /// The speaker's name, where told.
    pub name: Option<Cow<'a, str>>,
    /// The call a [`Role::Tool`] message answers.
    pub tool_call_id: Option<Cow<'a, str>>,
    /// A [`Role::Tool`] message tells of a failure.
    pub is_error: bool,
    /// On a tool result as a whole (Anthropic's `cache_control`).
    pub cache_control: Option<Json<'a>>,
}

/// A piece of a message.
#[derive(Debug, Clone)]
pub enum Part<'a> {
    Text {
        text: Cow<'a, str>,
        cache_control: Option<Json<'a>>,
    },
    Image(Image<'a>),
    /// Base64 sound; `format` as OpenAI names it (`wav`, `mp3`).
    Audio {
        data: Cow<'a, str>,
        format: Cow<'a, str>,
    },
    File(File<'a>),
    /// Thinking of an earlier turn. `signature` is the provider's seal on it; without one it can be shown
    /// to other providers only as plain words, or not at all.
    Reasoning {
        text: Cow<'a, str>,
        signature: Option<Cow<'a, str>>,
    },
    /// Thinking only the provider can read.
    Redacted {
        data: Cow<'a, str>,
    },
    Refusal(Cow<'a, str>),
    ToolCall(ToolCall<'a>),
    /// A kind we have no word for: the caller's JSON, and the `type` in it. A provider that speaks the
    /// caller's dialect may take it as it is; others refuse it.
    Other {
        kind: Cow<'a, str>,
        json: Json<'a>,
    },
}

/// A picture.
#[derive(Debug, Clone)]
pub struct Image<'a> {
    pub source: Source<'a>,
    /// `low`, `high`, `auto`.
    pub detail: Option<Cow<'a, str>>,
    pub cache_control: Option<Json<'a>>,
}

/// A document: PDF, text, anything with a media type.
#[derive(Debug, Clone)]
pub struct File<'a> {
    pub source: Source<'a>,
    pub name: Option<Cow<'a, str>>,
    pub cache_control: Option<Json<'a>>,
}

/// Where the bytes of an image or a file are.
#[derive(Debug, Clone)]
pub enum Source<'a> {
    /// `media_type` where the caller says it.
    Url { url: Cow<'a, str>, media_type: Option<Cow<'a, str>> },
    /// Base64 (not decoded, not checked).
    Data { media_type: Cow<'a, str>, data: Cow<'a, str> },
    /// Plain text given as a document.
    Text(Cow<'a, str>),
    /// A file the provider keeps.
    Id(Cow<'a, str>),
}

/// A call the assistant made.
#[derive(Debug, Clone)]
pub struct ToolCall<'a> {
    pub id: Cow<'a, str>,
    pub name: Cow<'a, str>,
    /// JSON text, as the model wrote it: perhaps not valid. [`ToolCall::arguments`] has it valid.
    pub arguments: Cow<'a, str>,
    /// A provider's seal on the call (Gemini's thought signature).
    pub signature: Option<Cow<'a, str>>,
    pub cache_control: Option<Json<'a>>,
}

impl ToolCall<'_> {
    /// The arguments as a JSON object; `{}` where the model wrote none, `None` where they are no object.
    pub fn arguments(&self) -> Option<Json<'_>> {
        match self.arguments.trim() {
            "" | "null" => Json::parse("{}"),
            text => Json::parse(text).filter(Json::is_object),
        }
    }
}

impl<'a> Source<'a> {
    /// A `data:` URL taken apart (`;base64` only), or the URL itself.
    pub fn from_url(url: Cow<'a, str>) -> Self {
        let split = url.strip_prefix("data:").and_then(|rest| rest.split_once(','));
        let Some((metadata, _)) = split else { return Self::Url { url, media_type: None } };
        let Some(media) = metadata.strip_suffix(";base64") else {
            return Self::Url { url, media_type: None };
        };
        // `data:image/png;charset=x;base64,`: parameters say nothing a provider would read.
        let media = media.split(';').next().unwrap_or_default();
        let (from, to) = ("data:".len(), "data:".len() + media.len());
        let at = "data:".len() + metadata.len() + 1;
        match url {
            Cow::Borrowed(url) => Self::Data {
                media_type: Cow::Borrowed(url.get(from..to).unwrap_or_default()),
                data: Cow::Borrowed(url.get(at..).unwrap_or_default()),
            },
            Cow::Owned(url) => Self::Data {
                media_type: Cow::Owned(url.get(from..to).unwrap_or_default().to_owned()),
                data: Cow::Owned(url.get(at..).unwrap_or_default().to_owned()),
            },
        }
    }

    /// As one URL: `data:` for bytes. `None` for text and files the provider keeps.
    pub fn to_url(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Url { url, .. } => Some(Cow::Borrowed(url)),
            Self::Data { media_type, data } => Some(Cow::Owned(format!("data:{media_type};base64,{data}"))),
            Self::Text(_) | Self::Id(_) => None,
        }
    }
}

impl<'a> Message<'a> {
    pub fn new(role: Role, content: Vec<Part<'a>>) -> Self {
        Self { role, content, name: None, tool_call_id: None, is_error: false, cache_control: None }
    }

    /// All text parts put together, as one.
    pub fn text(&self) -> Cow<'_, str> {
        let mut texts = self.content.iter().filter_map(|part| match part {
            Part::Text { text, .. } | Part::Refusal(text) => Some(text.as_ref()),
            _ => None,
        });
        match (texts.next(), texts.next()) {
            (None, _) => Cow::Borrowed(""),
            (Some(only), None) => Cow::Borrowed(only),
            (Some(first), Some(second)) => {
                let mut whole = [first, second].concat();
                texts.for_each(|text| whole.push_str(text));
                Cow::Owned(whole)
            }
        }
    }
}

impl<'a> Part<'a> {
    pub fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text { text: text.into(), cache_control: None }
    }
}
