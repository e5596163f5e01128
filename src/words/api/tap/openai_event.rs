//! The few members of a stream event or a response that the tap reads, borrowed from its text.
//!
//! Lenient on purpose: a member of an unexpected type counts as absent. Not a decoder.

use super::web_searches::WebSearches;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// The longest error code that is kept for the access line, characters.
const MAX_CODE: usize = 64;

pub(super) type Raw<'a> = Option<&'a RawValue>;

/// A chunk of a chat or text completion.
#[derive(Debug, Deserialize)]
pub(super) struct ChatChunk<'a> {
    #[serde(borrow)]
    id: Raw<'a>,
    #[serde(rename = "responseId")]
    response_id: Raw<'a>,
    model: Raw<'a>,
    choices: Raw<'a>,
    usage: Raw<'a>,
    service_tier: Raw<'a>,
    error: Raw<'a>,
    /// Gemini's members: its chunks are events without a name too.
    pub(super) candidates: Raw<'a>,
    #[serde(rename = "modelVersion")]
    model_version: Raw<'a>,
    #[serde(rename = "usageMetadata")]
    usage_metadata: Raw<'a>,
    #[serde(rename = "promptFeedback")]
    pub(super) prompt_feedback: Raw<'a>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice<'a> {
    delta: Option<HasContent>,
    text: Option<NonEmpty>,
    #[serde(borrow)]
    finish_reason: Raw<'a>,
}

impl Choice<'_> {
    pub(super) fn has_content(&self) -> bool {
        self.delta.as_ref().is_some_and(|delta| delta.0) || self.text.as_ref().is_some_and(|text| text.0)
    }

    pub(super) fn finish(&self) -> Option<String> {
        raw_text(self.finish_reason).filter(|text| !text.is_empty())
    }
}

impl<'a> ChatChunk<'a> {
    pub(super) fn read(data: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(data).ok()
    }

    /// Parsed separately: an unexpected choice must not lose the usage of the same chunk.
    pub(super) fn choices(&self) -> Vec<Choice<'a>> {
        self.choices.and_then(parse).unwrap_or_default()
    }

    pub(super) fn id(&self) -> Option<String> {
        raw_text(self.id.or(self.response_id))
    }

    pub(super) fn model(&self) -> Option<String> {
        raw_text(self.model.or(self.model_version))
    }

    pub(super) fn usage(&self) -> Option<&'a [u8]> {
        bytes(self.usage.or(self.usage_metadata))
    }

    pub(super) fn service_tier(&self) -> Option<&'a [u8]> {
        bytes(self.service_tier)
    }

    /// Whether it is a chunk at all, and not an event with a `type`.
    pub(super) fn has_choices(&self) -> bool {
        self.choices.is_some()
    }

    pub(super) fn is_gemini(&self) -> bool {
        self.candidates.or(self.usage_metadata).or(self.prompt_feedback).is_some()
    }

    pub(super) fn error(&self) -> Option<&'a [u8]> {
        bytes(self.error)
    }
}

/// An event with a `type`: Anthropic's messages, OpenAI's responses, audio and images.
#[derive(Debug, Deserialize)]
pub(super) struct TypedEvent<'a> {
    #[serde(borrow)]
    message: Raw<'a>,
    response: Raw<'a>,
    delta: Raw<'a>,
    content_block: Raw<'a>,
    item: Raw<'a>,
    usage: Raw<'a>,
    error: Raw<'a>,
}

impl<'a> TypedEvent<'a> {
    pub(super) fn read(data: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(data).ok()
    }

    /// Whether it has content: a delta that is not empty, or the start of a block that is not an empty container. The
    /// start of a tool call has the tool's name.
    pub(super) fn has_content(&self) -> bool {
        #[derive(Deserialize)]
        struct Block<'a> {
            #[serde(rename = "type", borrow)]
            kind: Raw<'a>,
        }
        let opened = self.content_block.or(self.item);
        let kind = opened.and_then(|block| raw_text(parse::<Block<'_>>(block)?.kind));
        let is_container =
            |kind: String| matches!(kind.as_str(), "text" | "thinking" | "message" | "reasoning");
        match (self.delta, kind) {
            (Some(delta), _) => match parse::<NonEmpty>(delta) {
                Some(NonEmpty(non_empty)) if delta.get().starts_with('"') => non_empty,
                _ => parse::<HasContent>(delta).is_some_and(|delta| delta.0),
            },
            (None, Some(kind)) => !is_container(kind),
            // Events of speech have their bytes in another member.
            (None, None) => opened.is_none(),
        }
    }

    /// The message in `message_start`.
    pub(super) fn message(&self) -> Option<ResponseObject<'a>> {
        parse(self.message?)
    }

    /// The response in `response.created` and in the final events of a response.
    pub(super) fn response(&self) -> Option<ResponseObject<'a>> {
        parse(self.response?)
    }

    /// The stop reason in `message_delta`.
    pub(super) fn stop_reason(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Delta<'a> {
            #[serde(borrow)]
            stop_reason: Raw<'a>,
        }
        raw_text(parse::<Delta<'_>>(self.delta?)?.stop_reason)
    }

    pub(super) fn usage(&self) -> Option<&'a [u8]> {
        bytes(self.usage)
    }

    pub(super) fn error(&self) -> Option<&'a [u8]> {
        bytes(self.error)
    }
}

/// A message or a response object inside an event.
#[derive(Debug, Deserialize)]
pub(super) struct ResponseObject<'a> {
    #[serde(borrow)]
    id: Raw<'a>,
    model: Raw<'a>,
    usage: Raw<'a>,
    service_tier: Raw<'a>,
    status: Raw<'a>,
    error: Raw<'a>,
    incomplete_details: Raw<'a>,
    content: Option<NonEmpty>,
    stop_reason: Raw<'a>,
    output: Raw<'a>,
    tool_usage: Raw<'a>,
}

impl<'a> ResponseObject<'a> {
    /// Whether the message has content already, as after a programmatic tool call: then the whole message comes
    /// in its first event.
    pub(super) fn has_content(&self) -> bool {
        self.content.as_ref().is_some_and(|content| content.0)
    }

    pub(super) fn id(&self) -> Option<String> {
        raw_text(self.id)
    }

    pub(super) fn model(&self) -> Option<String> {
        raw_text(self.model)
    }

    pub(super) fn usage(&self) -> Option<&'a [u8]> {
        bytes(self.usage)
    }

    pub(super) fn service_tier(&self) -> Option<&'a [u8]> {
        bytes(self.service_tier)
    }

    pub(super) fn note_searches(&self, searches: &mut WebSearches) {
        if let Some(output) = bytes(self.output) {
            searches.take_output(output);
        }
        if let Some(usage) = bytes(self.tool_usage) {
            searches.take_tool_usage(usage);
        }
    }

    pub(super) fn error(&self) -> Option<&'a [u8]> {
        bytes(self.error)
    }

    pub(super) fn finish(&self) -> Option<String> {
        if self.has_content() {
            return raw_text(self.stop_reason).filter(|reason| !reason.is_empty());
        }
        let status = raw_text(self.status).filter(|status| is_final(status))?;
        let reason = self.incomplete_details.and_then(|details| reason(details.get().as_bytes()));
        Some(reason.unwrap_or(status))
    }
}

/// Whether a response with this status has ended.
pub(super) fn is_final(status: &str) -> bool {
    matches!(status, "completed" | "incomplete" | "failed" | "cancelled")
}

/// `reason` of a response's `incomplete_details`.
pub(super) fn reason(details: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Details<'a> {
        #[serde(borrow)]
        reason: Raw<'a>,
    }
    raw_text(serde_json::from_slice::<Details<'_>>(details).ok()?.reason)
}

/// The `code` of an error, or its `type`, or else `error`.
pub(super) fn error_code(error: &[u8]) -> String {
    #[derive(Deserialize)]
    struct ErrorObject<'a> {
        #[serde(borrow)]
        code: Raw<'a>,
        #[serde(rename = "type")]
        kind: Raw<'a>,
    }
    let code = serde_json::from_slice::<ErrorObject<'_>>(error).ok().and_then(|object| {
        // Some codes are numbers.
        let number = |raw: &RawValue| raw.get().parse::<u64>().ok().map(|number| number.to_string());
        let code = object.code.and_then(|raw| raw_text(Some(raw)).or_else(|| number(raw)));
        code.or_else(|| raw_text(object.kind))
    });
    let code = code.unwrap_or_else(|| "error".to_owned());
    code.chars().filter(|letter| !letter.is_control()).take(MAX_CODE).collect()
}

/// The text of a JSON string.
pub(super) fn text(json: &[u8]) -> Option<String> {
    serde_json::from_slice(json).ok()
}

/// The value of `type`, wherever it stands.
pub(super) fn type_anywhere(data: &[u8]) -> Option<&str> {
    #[derive(Deserialize)]
    struct Typed<'a> {
        #[serde(rename = "type")]
        kind: Option<&'a str>,
    }
    memchr::memmem::find(data, b"\"type\"")?;
    serde_json::from_slice::<Typed<'_>>(data).ok()?.kind
}

/// The value of `type` if it is the first member, as it is at nearly all providers whose typed events have no `event`
/// name.
pub(super) fn leading_type(data: &[u8]) -> Option<&str> {
    let rest = data.strip_prefix(b"{")?.trim_ascii_start().strip_prefix(b"\"type\"")?;
    let rest = rest.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start().strip_prefix(b"\"")?;
    let end = memchr::memchr2(b'"', b'\\', rest)?;
    std::str::from_utf8(rest.get(..end)?).ok()
}

pub(super) fn raw_text(raw: Raw<'_>) -> Option<String> {
    text(raw?.get().as_bytes())
}

pub(super) fn bytes<'a>(raw: Raw<'a>) -> Option<&'a [u8]> {
    raw.map(|raw| raw.get().as_bytes())
}

pub(super) fn parse<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    serde_json::from_str(raw.get()).ok()
}

/// Whether a delta has a member with content that a user would see.
#[derive(Debug)]
pub(super) struct HasContent(pub(super) bool);

impl<'de> Deserialize<'de> for HasContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = HasContent;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a delta")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<HasContent, A::Error> {
                let mut has_content = false;
                while let Some(IsContentKey(is_content)) = map.next_key()? {
                    if is_content {
                        has_content |= map.next_value::<NonEmpty>()?.0;
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(HasContent(has_content))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// Whether the name of a delta's member is one that has content: those of chat and its variants, then Anthropic's, then
/// those of Gemini's parts.
struct IsContentKey(bool);

impl<'de> Deserialize<'de> for IsContentKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;
        impl Visitor<'_> for Name {
            type Value = IsContentKey;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_str<E>(self, name: &str) -> Result<IsContentKey, E> {
                const NAMES: &[&str] = &[
                    "content",
                    "reasoning",
                    "reasoning_content",
                    "reasoning_details",
                    "tool_calls",
                    "function_call",
                    "refusal",
                    "audio",
                    "text",
                    "thinking",
                    "partial_json",
                    "citation",
                    "signature",
                    "functionCall",
                    "inlineData",
                    "executableCode",
                ];
                Ok(IsContentKey(NAMES.contains(&name)))
            }
        }
        deserializer.deserialize_str(Name)
    }
}

/// Whether a value is more than null, an empty string or an empty list.
#[derive(Debug)]
struct NonEmpty(bool);

impl<'de> Deserialize<'de> for NonEmpty {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = NonEmpty;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_str<E>(self, text: &str) -> Result<NonEmpty, E> {
                Ok(NonEmpty(!text.is_empty()))
            }

            fn visit_unit<E>(self) -> Result<NonEmpty, E> {
                Ok(NonEmpty(false))
            }

            fn visit_bool<E>(self, _: bool) -> Result<NonEmpty, E> {
                Ok(NonEmpty(false))
            }

            fn visit_u64<E>(self, _: u64) -> Result<NonEmpty, E> {
                Ok(NonEmpty(true))
            }

            fn visit_i64<E>(self, _: i64) -> Result<NonEmpty, E> {
                Ok(NonEmpty(true))
            }

            fn visit_f64<E>(self, _: f64) -> Result<NonEmpty, E> {
                Ok(NonEmpty(true))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<NonEmpty, A::Error> {
                let mut non_empty = false;
                while list.next_element::<IgnoredAny>()?.is_some() {
                    non_empty = true;
                }
                Ok(NonEmpty(non_empty))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<NonEmpty, A::Error> {
                let mut non_empty = false;
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                    non_empty = true;
                }
                Ok(NonEmpty(non_empty))
            }
        }
        deserializer.deserialize_any(Any)
    }
}
