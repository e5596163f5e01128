//! The messages of a chat and the parts they consist of.

use crate::json::Json;
use std::borrow::Cow;
use std::fmt;

/// Who wrote the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    System,
    /// Providers without this role get it as [`Role::System`].
    Developer,
    User,
    Assistant,
    /// The result of one tool call.
    Tool,
}

/// One message. The assistant's tool calls are parts of its content and keep their position among the other
/// parts.
#[derive(Debug, Clone)]
pub struct Message<'a> {
    pub role: Role,
    pub content: Vec<Part<'a>>,
    /// Where the client wrote it. `None`: at its index among the messages.
    pub at: Option<Place>,
    /// The author's name, if the request gives one.
    pub name: Option<Cow<'a, str>>,
    /// For a [`Role::Tool`] message: the id of the call whose result it is.
    pub tool_call_id: Option<Cow<'a, str>>,
    /// For a [`Role::Tool`] message: the tool failed.
    pub is_error: bool,
    /// On a tool result as a whole (Anthropic's `cache_control`).
    pub cache_control: Option<Json<'a>>,
}

/// Where the client wrote a message: `messages[2]`, `input[0]`, `messages[2].content[1]`, `system`. Only a number or two, because a
/// request may have many messages; written out where an error or a warning names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    list: &'static str,
    index: Option<u32>,
    block: Option<u32>,
}

impl Place {
    /// A member that is a message: `system`.
    pub const fn member(name: &'static str) -> Self {
        Self { list: name, index: None, block: None }
    }

    /// An item of a list: `messages[2]`.
    pub fn item(list: &'static str, index: usize) -> Self {
        Self { list, index: u32::try_from(index).ok(), block: None }
    }

    /// A block of the item's content that is a message of its own: `messages[2].content[1]`.
    pub fn block(self, index: usize) -> Self {
        Self { block: u32::try_from(index).ok(), ..self }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.list)?;
        if let Some(index) = self.index {
            write!(f, "[{index}]")?;
        }
        match self.block {
            Some(block) => write!(f, ".content[{block}]"),
            None => Ok(()),
        }
    }
}

/// One part of a message's content. Large parts are boxed, because most parts are texts.
#[derive(Debug, Clone)]
pub enum Part<'a> {
    Text {
        text: Cow<'a, str>,
        cache_control: Option<Json<'a>>,
    },
    Image(Box<Image<'a>>),
    /// Base64 audio; `format` is OpenAI's name for it (`wav`, `mp3`).
    Audio {
        data: Cow<'a, str>,
        format: Cow<'a, str>,
    },
    File(Box<File<'a>>),
    /// Reasoning from an earlier turn. `signature` is the provider's signature on it. Reasoning without a
    /// signature can be sent to other providers only as plain text, or not at all.
    Reasoning {
        text: Cow<'a, str>,
        signature: Option<Cow<'a, str>>,
    },
    /// Encrypted reasoning that only the provider can read.
    Redacted {
        data: Cow<'a, str>,
    },
    Refusal(Cow<'a, str>),
    ToolCall(Box<ToolCall<'a>>),
    /// A kind the gateway does not model: the client's JSON and its `type`. A provider with the client's own
    /// dialect may accept it unchanged; others refuse it.
    Other {
        kind: Cow<'a, str>,
        json: Json<'a>,
    },
}

/// An image.
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
    /// The model must cite it (Anthropic's `citations: {"enabled": true}`).
    pub has_citations: bool,
}

/// The mark of a part where the prompt's cache may end: Anthropic's, or OpenAI's that means the same
/// (`prompt_cache_breakpoint`). Source: <https://developers.openai.com/api/docs/guides/prompt-caching>.
pub(crate) fn cache_mark<'a>(
    cache_control: Option<Json<'a>>,
    breakpoint: Option<Json<'a>>,
) -> Option<Json<'a>> {
    let breakpoint = breakpoint.filter(Json::is_object);
    cache_control
        .filter(|json| !json.is_null())
        .or_else(|| breakpoint.and_then(|_| Json::parse(r#"{"type":"ephemeral"}"#)))
}

/// Where the bytes of an image or a file come from.
#[derive(Debug, Clone)]
pub enum Source<'a> {
    /// `media_type` is set only if the client gives it.
    Url { url: Cow<'a, str>, media_type: Option<Cow<'a, str>> },
    /// Base64, neither decoded nor checked here.
    Data { media_type: Cow<'a, str>, data: Cow<'a, str> },
    /// Plain text given as a document.
    Text(Cow<'a, str>),
    /// The id of a file stored at the provider.
    Id(Cow<'a, str>),
}

/// A tool call made by the assistant.
#[derive(Debug, Clone)]
pub struct ToolCall<'a> {
    pub id: Cow<'a, str>,
    pub name: Cow<'a, str>,
    /// JSON text as the model wrote it, possibly invalid. [`ToolCall::arguments`] returns only valid JSON.
    pub arguments: Cow<'a, str>,
    /// The provider's signature on the call (Gemini's thought signature).
    pub signature: Option<Cow<'a, str>>,
    pub cache_control: Option<Json<'a>>,
}

impl ToolCall<'_> {
    /// The arguments of a call for dialects that have them as an object: `{}` if the model wrote none. What is no object
    /// is wrapped in the member that Anthropic's documentation gives for it, so that no tool runs with incomplete
    /// arguments.
    pub(crate) fn input(arguments: &str) -> Json<'_> {
        match arguments.trim() {
            "" | "null" => Json::empty_object(),
            text => Json::parse(text)
                .filter(Json::is_object)
                .unwrap_or_else(|| Json::object_with("INVALID_JSON", arguments)),
        }
    }

    /// The arguments as a JSON object: `{}` if the model wrote none, `None` if they are not an object.
    pub fn arguments(&self) -> Option<Json<'_>> {
        match self.arguments.trim() {
            "" | "null" => Json::parse("{}"),
            text => Json::parse(text).filter(Json::is_object),
        }
    }
}

impl<'a> Source<'a> {
    /// Base64 of a media type that a client wrote.
    pub(crate) fn data(media_type: Cow<'a, str>, data: Cow<'a, str>) -> Self {
        Self::Data { media_type: Self::registered(media_type), data }
    }

    /// The registered name of a media type: `image/jpg` is none, and Anthropic and Google list `image/jpeg` only.
    pub(crate) fn registered(media_type: Cow<'a, str>) -> Cow<'a, str> {
        if media_type.eq_ignore_ascii_case("image/jpg") { Cow::Borrowed("image/jpeg") } else { media_type }
    }

    /// Splits a `data:` URL into media type and base64 data. Any other URL (also `data:` without `;base64`)
    /// is kept as a URL.
    pub fn from_url(url: Cow<'a, str>) -> Self {
        let split = url.strip_prefix("data:").and_then(|rest| rest.split_once(','));
        let Some((metadata, _)) = split else { return Self::Url { url, media_type: None } };
        let Some(media) = metadata.strip_suffix(";base64") else {
            return Self::Url { url, media_type: None };
        };
        // In `data:image/png;charset=x;base64,` no provider reads the parameters, so they are dropped.
        let media = media.split(';').next().unwrap_or_default();
        let from = "data:".len();
        let to = "data:".len() + media.len();
        let at = "data:".len() + metadata.len() + 1;
        match url {
            Cow::Borrowed(url) => Self::data(
                Cow::Borrowed(url.get(from..to).unwrap_or_default()),
                Cow::Borrowed(url.get(at..).unwrap_or_default()),
            ),
            Cow::Owned(url) => Self::data(
                Cow::Owned(url.get(from..to).unwrap_or_default().to_owned()),
                Cow::Owned(url.get(at..).unwrap_or_default().to_owned()),
            ),
        }
    }
}

impl<'a> Message<'a> {
    pub fn new(role: Role, content: Vec<Part<'a>>) -> Self {
        Self { role, content, at: None, name: None, tool_call_id: None, is_error: false, cache_control: None }
    }

    /// What errors and warnings call it. `index`: among the messages.
    pub fn place(&self, index: usize) -> Place {
        self.at.unwrap_or_else(|| Place::item("messages", index))
    }

    /// The texts of all text and refusal parts, one below the other: nothing is put together that a guardrail has seen apart.
    pub fn text(&self) -> Cow<'_, str> {
        let mut texts = self.content.iter().filter_map(|part| match part {
            Part::Text { text, .. } | Part::Refusal(text) => {
                Some(text.as_ref()).filter(|text| !text.is_empty())
            }
            _ => None,
        });
        match (texts.next(), texts.next()) {
            (None, _) => Cow::Borrowed(""),
            (Some(only), None) => Cow::Borrowed(only),
            (Some(first), Some(second)) => {
                let mut whole = [first, second].join("\n");
                for text in texts {
                    whole.push('\n');
                    whole.push_str(text);
                }
                Cow::Owned(whole)
            }
        }
    }
}

impl<'a> Part<'a> {
    pub fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text { text: text.into(), cache_control: None }
    }

    pub fn image(source: Source<'a>) -> Self {
        Self::Image(Box::new(Image { source, detail: None, cache_control: None }))
    }
}
