//! The messages of a chat request in Cohere's format.
//!
//! Tool calls of earlier turns are sent along with their results. Reasoning of earlier turns is sent back in the member
//! in which Cohere delivered it: as `tool_plan` in a message with tool calls, as thinking content otherwise.

use crate::provider::translation_notes::TranslationNotes;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde::ser::Serializer;
use std::borrow::Cow;
use words::api::chat::{File, Image, MarkName, Message, Part, Role, Source, ToolCall};
use words::error::Error;

/// One message of the request.
#[derive(Serialize)]
pub(super) struct MessageOut<'a> {
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Content<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_plan: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<CallOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<Cow<'a, str>>,
}

/// A single text is written as a string, because the older models accept nothing else.
#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<PartOut<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum PartOut<'a> {
    Text { text: Cow<'a, str> },
    Thinking { thinking: Cow<'a, str> },
    ImageUrl { image_url: ImageOut<'a> },
}

#[derive(Serialize)]
struct ImageOut<'a> {
    #[serde(serialize_with = "url")]
    url: Source<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<Cow<'a, str>>,
}

/// Writes the data URL straight into the body, so that the image is not copied again.
fn url<S: Serializer>(source: &Source<'_>, serializer: S) -> Result<S::Ok, S::Error> {
    match source {
        Source::Data { media_type, data } => {
            serializer.collect_str(&format_args!("data:{media_type};base64,{data}"))
        }
        Source::Url { url, .. } | Source::Text(url) | Source::Id(url) => serializer.serialize_str(url),
    }
}

#[derive(Serialize)]
struct CallOut<'a> {
    id: Cow<'a, str>,
    #[serde(rename = "type")]
    kind: &'static str,
    function: FunctionOut<'a>,
}

#[derive(Serialize)]
struct FunctionOut<'a> {
    name: Cow<'a, str>,
    arguments: Cow<'a, str>,
}

/// Translates all messages.
///
/// # Errors
/// 400 that names the part Cohere does not support.
pub(super) fn messages<'a>(
    messages: Vec<Message<'a>>,
    mark_name: MarkName,
    notes: &mut TranslationNotes,
) -> Result<Vec<MessageOut<'a>>, Error> {
    let mut dropped = Dropped::default();
    let mut out = Vec::with_capacity(messages.len());
    for (index, message) in messages.into_iter().enumerate() {
        out.push(message_out(message, index, &mut dropped)?);
    }
    for (param, found) in [("messages[].name", dropped.name), (mark_name.as_str(), dropped.cache_control)] {
        if found {
            notes.drop_param(param, "cohere");
        }
    }
    if dropped.server_tools {
        notes.warn("messages", "calls of another provider's own tools dropped");
    }
    if dropped.redacted {
        notes.warn("messages", "redacted thinking dropped, only the provider that wrote it can read it");
    }
    Ok(out)
}

/// Which members were dropped because Cohere does not support them.
#[derive(Default)]
struct Dropped {
    name: bool,
    cache_control: bool,
    redacted: bool,
    server_tools: bool,
}

fn message_out<'a>(
    message: Message<'a>,
    index: usize,
    dropped: &mut Dropped,
) -> Result<MessageOut<'a>, Error> {
    let at_message = message.place(index);
    let Message { role, mut content, name, tool_call_id, cache_control, is_error, .. } = message;
    if is_error {
        // A tool message has no error flag.
        mark_error(&mut content);
    }
    dropped.name |= name.is_some() && role != Role::Tool;
    dropped.cache_control |= cache_control.is_some();
    let mut out = MessageOut {
        role: role_name(role),
        content: None,
        tool_plan: None,
        tool_calls: Vec::new(),
        tool_call_id: None,
    };
    let has_calls = content.iter().any(|part| matches!(part, Part::ToolCall(_)));
    let mut parts = Vec::with_capacity(content.len());
    for (at, part) in content.into_iter().enumerate() {
        let place = || format!("{at_message}.content[{at}]");
        match part {
            Part::Text { text, cache_control } => {
                dropped.cache_control |= cache_control.is_some();
                parts.push(PartOut::Text { text });
            }
            Part::Refusal(text) => parts.push(PartOut::Text { text }),
            Part::Reasoning { text, .. } if has_calls => {
                out.tool_plan.get_or_insert_default().push_str(&text);
            }
            Part::Reasoning { text, .. } if text.is_empty() => {}
            Part::Reasoning { text, .. } => parts.push(PartOut::Thinking { thinking: text }),
            Part::Redacted { .. } => dropped.redacted = true,
            Part::ToolCall(call) => {
                dropped.cache_control |= call.cache_control.is_some();
                out.tool_calls.push(call_out(*call));
            }
            Part::Image(image) if role == Role::User => {
                dropped.cache_control |= image.cache_control.is_some();
                parts.push(picture(*image, &place)?);
            }
            Part::File(file) => {
                dropped.cache_control |= file.cache_control.is_some();
                parts.push(PartOut::Text { text: document(*file, &place)? });
            }
            Part::Image(_) => return Err(unsupported(place(), "pictures are for user messages")),
            Part::Audio { .. } => return Err(unsupported(place(), "it takes no sound")),
            // Calls of another provider's own tools: the text covers their results.
            Part::Other { .. } if role == Role::Assistant => dropped.server_tools = true,
            Part::Other { kind, .. } => {
                return Err(unsupported(place(), &format!("it has no content of type {kind:?}")));
            }
        }
    }
    out.content = join_parts(parts, role == Role::Assistant && has_calls);
    if role == Role::Tool {
        out.tool_call_id = Some(tool_call_id.ok_or_else(|| {
            let at = format!("{at_message}.tool_call_id");
            Error::invalid_request(at.clone(), format!("{at} is missing: which call is this the result of?"))
        })?);
    }
    Ok(out)
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::System | Role::Developer => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

fn picture<'a>(image: Image<'a>, place: &dyn Fn() -> String) -> Result<PartOut<'a>, Error> {
    if matches!(image.source, Source::Text(_) | Source::Id(_)) {
        return Err(unsupported(place(), "a picture needs a URL or base64 data"));
    }
    Ok(PartOut::ImageUrl { image_url: ImageOut { url: image.source, detail: image.detail } })
}

/// Says in the first text that the tool failed.
fn mark_error(content: &mut Vec<Part<'_>>) {
    let first = content.iter_mut().find_map(|part| match part {
        Part::Text { text, .. } => Some(text),
        _ => None,
    });
    match first {
        Some(text) if text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("error")) => {}
        Some(text) => *text = Cow::Owned(format!("Error: {text}")),
        None => content.insert(0, Part::text("Error:")),
    }
}

fn call_out(call: ToolCall<'_>) -> CallOut<'_> {
    let arguments = match call.arguments.trim() {
        "" | "null" => Cow::Borrowed("{}"),
        _ => call.arguments,
    };
    let function = FunctionOut { name: call.name, arguments };
    CallOut { id: call.id, kind: "function", function }
}

fn join_parts(mut parts: Vec<PartOut<'_>>, may_be_absent: bool) -> Option<Content<'_>> {
    match (parts.len(), parts.pop()) {
        (_, None) => (!may_be_absent).then_some(Content::Text(Cow::Borrowed(""))),
        (1, Some(PartOut::Text { text })) => Some(Content::Text(text)),
        (_, Some(last)) => {
            parts.push(last);
            Some(Content::Parts(parts))
        }
    }
}

/// A plain-text document as text, preceded by its name. Cohere reads no other documents.
fn document<'a>(file: File<'a>, place: &dyn Fn() -> String) -> Result<Cow<'a, str>, Error> {
    let text = match file.source {
        Source::Text(text) => Some(text),
        Source::Data { media_type, data } if media_type.starts_with("text/") => {
            let bytes = STANDARD.decode(data.as_bytes()).ok();
            bytes.and_then(|bytes| String::from_utf8(bytes).ok()).map(Cow::Owned)
        }
        _ => None,
    };
    match (text, file.name) {
        (Some(text), None) => Ok(text),
        (Some(text), Some(name)) => Ok(Cow::Owned(format!("{name}:\n{text}"))),
        (None, _) => Err(unsupported(place(), "it reads no files but plain text: send what they say")),
    }
}

fn unsupported(param: String, why: &str) -> Error {
    let message = format!("cohere cannot take {param}: {why}.");
    Error::invalid_request(param, message)
}
