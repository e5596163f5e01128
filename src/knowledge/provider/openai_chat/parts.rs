//! The parts of messages in OpenAI's chat shape.

use super::{Documents, OpenAiChat};
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use words::api::chat::{File, Image, Part, Source};
use words::error::Error;
use words::json::Json;

/// One part of a content list. Large ones are boxed, because most parts are texts.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum PartOut<'a> {
    Text {
        #[serde(rename = "type")]
        kind: &'static str,
        text: &'a str,
        #[serde(flatten)]
        mark: Option<Mark<'a>>,
    },
    Image {
        #[serde(rename = "type")]
        kind: &'static str,
        image_url: Box<ImageOut<'a>>,
        #[serde(flatten)]
        mark: Option<Mark<'a>>,
    },
    Audio {
        #[serde(rename = "type")]
        kind: &'static str,
        input_audio: AudioOut<'a>,
    },
    /// Mistral's audio.
    BareAudio {
        #[serde(rename = "type")]
        kind: &'static str,
        input_audio: &'a str,
    },
    File {
        #[serde(rename = "type")]
        kind: &'static str,
        file: Box<FileOut<'a>>,
        #[serde(flatten)]
        mark: Option<Mark<'a>>,
    },
    Document {
        #[serde(rename = "type")]
        kind: &'static str,
        document_url: Box<Url<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        document_name: Option<&'a str>,
    },
    /// Text made by the gateway.
    Made {
        #[serde(rename = "type")]
        kind: &'static str,
        text: String,
        #[serde(flatten)]
        mark: Option<Mark<'a>>,
    },
    /// Mistral's thinking.
    Thinking {
        #[serde(rename = "type")]
        kind: &'static str,
        thinking: [Thought<'a>; 1],
    },
    Other(&'a Json<'a>),
}

/// Where the prompt's cache may end, in the vendor's words.
#[derive(Clone, Copy, Serialize)]
pub(super) enum Mark<'a> {
    #[serde(rename = "cache_control")]
    CacheControl(&'a Json<'a>),
    #[serde(rename = "prompt_cache_breakpoint")]
    Breakpoint(Explicit),
}

#[derive(Clone, Copy, Serialize)]
pub(super) struct Explicit {
    mode: &'static str,
}

impl<'a> Mark<'a> {
    /// What the vendor takes for a mark, if anything.
    pub fn of(mark: Option<&'a Json<'a>>, chat: &OpenAiChat) -> Option<Self> {
        match mark {
            Some(json) if chat.cache_control => Some(Self::CacheControl(json)),
            Some(_) if chat.breakpoints => Some(Self::Breakpoint(Explicit { mode: "explicit" })),
            _ => None,
        }
    }
}

#[derive(Serialize)]
pub(super) struct Thought<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: &'a str,
}

#[derive(Serialize)]
pub(super) struct ImageOut<'a> {
    url: Url<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
}

#[derive(Serialize)]
pub(super) struct AudioOut<'a> {
    data: &'a str,
    format: &'a str,
}

#[derive(Serialize)]
pub(super) struct FileOut<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    file_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    filename: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_data: Option<Url<'a>>,
}

/// A URL, or bytes as a `data:` URL. Serialized directly, so that a large image is not copied on the way.
pub(in crate::provider) enum Url<'a> {
    Plain(&'a str),
    Data(&'a str, &'a str),
}

impl fmt::Display for Url<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(url) => f.write_str(url),
            Self::Data(media_type, data) => write!(f, "data:{media_type};base64,{data}"),
        }
    }
}

impl Serialize for Url<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'a> PartOut<'a> {
    pub fn text(text: &'a str, mark: Option<Mark<'a>>) -> Self {
        Self::Text { kind: "text", text, mark }
    }

    /// Marks it, if it has no mark.
    pub fn set_mark(&mut self, of_message: Option<Mark<'a>>) {
        if let Self::Text { mark, .. }
        | Self::Image { mark, .. }
        | Self::File { mark, .. }
        | Self::Made { mark, .. } = self
        {
            *mark = mark.or(of_message);
        }
    }

    pub fn thinking(text: &'a str) -> Self {
        Self::Thinking { kind: "thinking", thinking: [Thought { kind: "text", text }] }
    }

    /// Translates a part of a user or tool message; `None` for parts that belong elsewhere.
    ///
    /// # Errors
    /// 400 for what the vendor has no part for.
    pub fn from_part(
        part: &'a Part<'a>,
        chat: &OpenAiChat,
        at: fmt::Arguments<'_>,
    ) -> Result<Option<Self>, Error> {
        let mark = |json: &'a Option<Json<'a>>| Mark::of(json.as_ref(), chat);
        if let Some(published) = chat.published {
            published.check_part(kind(part, chat.documents), at)?;
        }
        Ok(Some(match part {
            Part::Text { text, .. } if text.is_empty() => return Ok(None),
            Part::Text { text, cache_control } => Self::text(text, mark(cache_control)),
            Part::Refusal(text) => Self::text(text, None),
            Part::Image(image) => Self::image(image, mark(&image.cache_control), at)?,
            Part::Audio { data, .. } if chat.documents == Documents::DocumentUrls => {
                Self::BareAudio { kind: "input_audio", input_audio: data }
            }
            Part::Audio { data, format } => {
                Self::Audio { kind: "input_audio", input_audio: AudioOut { data, format } }
            }
            Part::File(file) => Self::file(file, chat.documents, mark(&file.cache_control), at)?,
            // Kinds of the vendor's own (`video_url`) in the shape of a chat part.
            Part::Other { kind, json } if is_chat_part(kind, json) => Self::Other(json),
            Part::Other { kind, .. } => {
                return Err(Error::invalid_request(
                    at.to_string(),
                    format!("{at}: this provider takes no {kind} here."),
                ));
            }
            Part::Reasoning { .. } | Part::Redacted { .. } | Part::ToolCall(_) => return Ok(None),
        }))
    }

    fn image(image: &'a Image<'a>, mark: Option<Mark<'a>>, at: fmt::Arguments<'_>) -> Result<Self, Error> {
        let url = match &image.source {
            Source::Url { url, .. } => Url::Plain(url),
            Source::Data { media_type, data } => Url::Data(media_type, data),
            Source::Text(_) | Source::Id(_) => {
                let message = format!("{at}: this provider takes pictures by URL or in base64 only.");
                return Err(Error::invalid_request(at.to_string(), message));
            }
        };
        // Only OpenAI has the detail `original`.
        let detail = image.detail.as_deref().map(|detail| if detail == "original" { "high" } else { detail });
        let image_url = Box::new(ImageOut { url, detail });
        Ok(Self::Image { kind: "image_url", image_url, mark })
    }

    fn file(
        file: &'a File<'a>,
        documents: Documents,
        mark: Option<Mark<'a>>,
        at: fmt::Arguments<'_>,
    ) -> Result<Self, Error> {
        let name = file.name.as_deref();
        let out = |file_id, file_data| {
            let filename = match (name, &file_data) {
                (Some(name), _) => Some(Cow::Borrowed(name)),
                // OpenAI requires a name with the bytes.
                (None, Some(_)) => Some(Cow::Borrowed("document.pdf")),
                (None, None) => None,
            };
            let file = Box::new(FileOut { file_id, filename, file_data });
            Self::File { kind: "file", file, mark }
        };
        let document = |url| {
            let document_url = Box::new(url);
            Self::Document { kind: "document_url", document_url, document_name: name }
        };
        Ok(match (&file.source, documents) {
            (Source::Text(text), _) => match name {
                Some(name) => Self::Made { kind: "text", text: format!("{name}:\n{text}"), mark },
                None => Self::text(text, mark),
            },
            (Source::Data { media_type, data }, Documents::DocumentUrls) => {
                document(Url::Data(media_type, data))
            }
            (Source::Url { url, .. }, Documents::DocumentUrls) => document(Url::Plain(url)),
            (Source::Data { media_type, data }, _) => out(None, Some(Url::Data(media_type, data))),
            (Source::Url { url, .. }, Documents::FilesOrUrls) => out(None, Some(Url::Plain(url))),
            (Source::Id(id), Documents::Files) => out(Some(id), None),
            (Source::Url { .. }, _) => {
                let message = format!("{at}: this provider takes documents in base64 only, not by URL.");
                return Err(Error::invalid_request(at.to_string(), message));
            }
            (Source::Id(_), _) => {
                let message = format!("{at}: this provider keeps no files; send the document in base64.");
                return Err(Error::invalid_request(at.to_string(), message));
            }
        })
    }
}

/// The type of the part that is written for one of the chat's.
fn kind<'a>(part: &'a Part<'_>, documents: Documents) -> &'a str {
    match part {
        Part::Image(_) => "image_url",
        Part::Audio { .. } => "input_audio",
        Part::File(file) if matches!(file.source, Source::Text(_)) => "text",
        Part::File(_) if documents == Documents::DocumentUrls => "document_url",
        Part::File(_) => "file",
        Part::Other { kind, .. } => kind,
        _ => "text",
    }
}

/// Whether a part has the shape `{"type": X, X: ..}`, as all of chat's own parts do.
fn is_chat_part(kind: &str, json: &Json<'_>) -> bool {
    let members = Json::members(json.get()).unwrap_or_default();
    !kind.is_empty() && members.iter().any(|(name, _)| name == kind)
}
