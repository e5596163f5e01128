//! The content blocks of a request in Anthropic's format, and how message parts are translated into them.
//!
//! Source: <https://platform.claude.com/docs/en/api/messages> (`messages.content`).

use crate::provider::translation_notes::TranslationNotes;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use std::borrow::Cow;
use std::fmt;
use words::api::chat::{File, Image, Part, Source, ToolCall};
use words::error::Error;
use words::json::Json;

/// One content block of a request. Large blocks are boxed, because most blocks are texts.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block<'a> {
    Text {
        text: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Json<'a>>,
    },
    Image(Box<ImageBlock<'a>>),
    Document(Box<Document<'a>>),
    Thinking {
        thinking: Cow<'a, str>,
        signature: Cow<'a, str>,
    },
    RedactedThinking {
        data: Cow<'a, str>,
    },
    ToolUse(Box<ToolUse<'a>>),
    ToolResult(Box<ToolResult<'a>>),
    /// A block that the client wrote in Anthropic's format.
    #[serde(untagged)]
    Other(Json<'a>),
}

/// A picture.
#[derive(Debug, Serialize)]
pub(super) struct ImageBlock<'a> {
    source: Bytes<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Json<'a>>,
}

/// A document: a PDF or a text.
#[derive(Debug, Serialize)]
pub(super) struct Document<'a> {
    source: Bytes<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    citations: Option<Citations>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Json<'a>>,
}

/// A tool call that the model made.
#[derive(Debug, Serialize)]
pub(super) struct ToolUse<'a> {
    id: Cow<'a, str>,
    name: Cow<'a, str>,
    input: Json<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Json<'a>>,
}

/// The result of a tool call.
#[derive(Debug, Serialize)]
pub(super) struct ToolResult<'a> {
    pub tool_use_id: Cow<'a, str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<Block<'a>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_control: Option<Json<'a>>,
}

/// Whether the model cites a document.
#[derive(Debug, Serialize)]
pub(super) struct Citations {
    enabled: bool,
}

/// The source of an image or a document.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Bytes<'a> {
    Base64 { media_type: Cow<'a, str>, data: Cow<'a, str> },
    Url { url: Cow<'a, str> },
    Text { media_type: &'static str, data: Cow<'a, str> },
    File { file_id: Cow<'a, str> },
}

/// Translates message parts into blocks.
pub(super) struct Blocks<'o> {
    pub provider: &'static str,
    pub notes: &'o mut TranslationNotes,
    /// A file stored at the provider is referenced, which requires a beta header.
    pub uses_files: bool,
    /// Whether the warning about unsigned reasoning was already given.
    pub warned_reasoning: bool,
}

impl Blocks<'_> {
    /// Translates a part; `None` for parts that Anthropic has no use for.
    ///
    /// # Errors
    /// 400 for parts that Anthropic does not accept.
    pub fn block<'a>(&mut self, part: Part<'a>, at: fmt::Arguments<'_>) -> Result<Option<Block<'a>>, Error> {
        Ok(Some(match part {
            // Anthropic refuses empty texts; OpenAI's clients send them.
            Part::Text { text, .. } if text.trim().is_empty() => return Ok(None),
            Part::Text { text, cache_control } => Block::Text { text, cache_control },
            Part::Refusal(text) if text.trim().is_empty() => return Ok(None),
            Part::Refusal(text) => Block::Text { text, cache_control: None },
            Part::Image(image) => self.image(*image, at)?,
            Part::File(file) => self.file(*file, at)?,
            Part::Audio { .. } => {
                let message = format!("{} takes no audio. Send its transcript.", self.provider);
                return Err(Error::invalid_request(at.to_string(), message));
            }
            Part::Reasoning { text, signature: Some(signature) } => {
                Block::Thinking { thinking: text, signature }
            }
            Part::Reasoning { signature: None, .. } => {
                if !std::mem::replace(&mut self.warned_reasoning, true) {
                    let why = "left out of the history, without its signature it cannot be sent";
                    self.notes.warn("reasoning_content", why);
                }
                return Ok(None);
            }
            Part::Redacted { data } => Block::RedactedThinking { data },
            Part::ToolCall(call) => self.call(*call, at)?,
            Part::Other { json, .. } => Block::Other(json),
        }))
    }

    fn image<'a>(&mut self, image: Image<'a>, at: fmt::Arguments<'_>) -> Result<Block<'a>, Error> {
        if image.detail.as_deref().is_some_and(|detail| detail != "auto") {
            self.notes.drop_param("image_url.detail", self.provider);
        }
        let cache_control = image.cache_control;
        let source = match image.source {
            // A PDF sent as an image is accepted, as at Portkey.
            Source::Data { ref media_type, .. } if !media_type.starts_with("image/") => {
                let file = File { source: image.source, name: None, cache_control, has_citations: false };
                return self.file(file, at);
            }
            Source::Data { media_type, data } => Bytes::Base64 { media_type, data },
            Source::Url { url, .. } => Bytes::Url { url },
            Source::Id(file_id) => self.uploaded_file(file_id),
            Source::Text(_) => {
                return Err(Error::invalid_request(at.to_string(), format!("{at} is text, not an image.")));
            }
        };
        Ok(Block::Image(Box::new(ImageBlock { source, cache_control })))
    }

    fn file<'a>(&mut self, file: File<'a>, at: fmt::Arguments<'_>) -> Result<Block<'a>, Error> {
        let File { source, name: title, cache_control, has_citations } = file;
        let source = match source {
            Source::Data { media_type, data } if media_type.starts_with("image/") => {
                let source = Bytes::Base64 { media_type, data };
                return Ok(Block::Image(Box::new(ImageBlock { source, cache_control })));
            }
            Source::Url { url, media_type }
                if media_type.as_ref().is_some_and(|m| m.starts_with("image/")) =>
            {
                let source = Bytes::Url { url };
                return Ok(Block::Image(Box::new(ImageBlock { source, cache_control })));
            }
            Source::Data { media_type, data } if media_type == "application/pdf" => {
                Bytes::Base64 { media_type, data }
            }
            Source::Data { media_type, data } if is_text(&media_type) => {
                Bytes::Text { media_type: "text/plain", data: Cow::Owned(decoded(&data, at)?) }
            }
            Source::Data { media_type, .. } => {
                let provider = self.provider;
                let message = format!("{provider} reads PDF, text and images, not {media_type:?}.");
                return Err(Error::invalid_request(at.to_string(), message));
            }
            Source::Text(data) => Bytes::Text { media_type: "text/plain", data },
            Source::Url { url, .. } => Bytes::Url { url },
            Source::Id(file_id) => self.uploaded_file(file_id),
        };
        let citations = has_citations.then_some(Citations { enabled: true });
        Ok(Block::Document(Box::new(Document { source, title, citations, cache_control })))
    }

    fn uploaded_file<'a>(&mut self, file_id: Cow<'a, str>) -> Bytes<'a> {
        self.uses_files = true;
        Bytes::File { file_id }
    }

    fn call<'a>(&mut self, call: ToolCall<'a>, at: fmt::Arguments<'_>) -> Result<Block<'a>, Error> {
        let input = match call.arguments() {
            Some(_) => arguments(call.arguments),
            None => {
                let why = "arguments of an earlier call are no JSON object, they were sent as a text in one";
                self.notes.warn(at, why);
                Json::from_value(&serde_json::json!({ "arguments": call.arguments }))
            }
        };
        let id = call_id(call.id, at)?;
        let block = ToolUse { id, name: call.name, input, cache_control: call.cache_control };
        Ok(Block::ToolUse(Box::new(block)))
    }
}

impl<'a> Block<'a> {
    /// Applies the cache control of the whole message, unless the block has its own.
    pub fn cache(&mut self, on_message: Json<'a>) {
        let own = match self {
            Self::Text { cache_control, .. } => cache_control,
            Self::Image(image) => &mut image.cache_control,
            Self::Document(document) => &mut document.cache_control,
            Self::ToolUse(call) => &mut call.cache_control,
            Self::ToolResult(result) => &mut result.cache_control,
            Self::Thinking { .. } | Self::RedactedThinking { .. } | Self::Other(_) => return,
        };
        own.get_or_insert(on_message);
    }
}

/// The id of a call.
///
/// # Errors
/// 400 when it is empty.
pub(super) fn call_id<'a>(id: Cow<'a, str>, at: fmt::Arguments<'_>) -> Result<Cow<'a, str>, Error> {
    if id.is_empty() {
        return Err(Error::invalid_request(at.to_string(), format!("{at} needs the id of its tool call.")));
    }
    Ok(id)
}

/// The arguments as a JSON object; `{}` if they are empty.
fn arguments(text: Cow<'_, str>) -> Json<'_> {
    let given = match text {
        Cow::Borrowed(text) => Json::parse(text.trim()),
        Cow::Owned(text) => Json::owned(text.trim().to_owned()),
    };
    let given = given.filter(Json::is_object);
    given.unwrap_or_else(Json::empty_object)
}

fn is_text(media_type: &str) -> bool {
    let plain = media_type.split(';').next().unwrap_or_default();
    plain.starts_with("text/") || matches!(plain, "application/json" | "application/xml" | "application/yaml")
}

fn decoded(data: &str, at: fmt::Arguments<'_>) -> Result<String, Error> {
    let bytes = STANDARD.decode(data).ok();
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(|| {
        Error::invalid_request(at.to_string(), format!("{at} is not base64 of text in UTF-8."))
    })
}
