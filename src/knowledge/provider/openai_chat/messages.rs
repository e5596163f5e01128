//! Writes the messages of a chat in OpenAI's shape.
//!
//! A tool message takes text only, so images and documents of a tool result go into a user message after it.

use super::parts::{Mark, PartOut};
use super::{OpenAiChat, ReasoningField};
use crate::provider::translation_notes::TranslationNotes;
use serde::Serialize;
use std::borrow::Cow;
use words::api::chat::{Message, Part, Place, Role, ToolCall};
use words::error::Error;
use words::json::Json;

#[derive(Serialize)]
pub(super) struct MessageOut<'a> {
    role: &'static str,
    content: Option<Content<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasoning_details: Vec<Detail<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<CallOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    prefix: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<PartOut<'a>>),
}

/// One of OpenRouter's `reasoning_details`.
#[derive(Serialize)]
#[serde(untagged)]
enum Detail<'a> {
    Text {
        #[serde(rename = "type")]
        kind: &'static str,
        text: &'a str,
        signature: &'a str,
    },
    /// Passed on unchanged (see `thinking`).
    Whole(Json<'a>),
}

#[derive(Serialize)]
struct CallOut<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    function: FunctionOut<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<serde_json::Value>,
}

#[derive(Serialize)]
struct FunctionOut<'a> {
    name: &'a str,
    arguments: &'a str,
}

/// The parts of a tool result that do not fit into its message.
struct Shown<'a> {
    id: &'a str,
    parts: Vec<PartOut<'a>>,
}

/// The list of messages, written one by one: as a whole it would take far more memory than its text.
struct List<'a, 'o> {
    out: &'o mut Vec<u8>,
    last: Option<MessageOut<'a>>,
    /// The assistant says something between a tool's result and the user's words.
    answers_results: bool,
}

/// What it says.
pub(super) const ANSWER: &str = "OK.";

impl<'a> List<'a, '_> {
    fn push(&mut self, message: MessageOut<'a>) {
        let is_result = self.last.as_ref().is_some_and(|last| last.role == "tool");
        if self.answers_results && is_result && message.role == "user" {
            self.push(MessageOut::new("assistant", Some(Content::Text(Cow::Borrowed(ANSWER)))));
        }
        if let Some(before) = self.last.replace(message) {
            self.write(&before);
            self.out.push(b',');
        }
    }

    fn write(&mut self, message: &MessageOut<'_>) {
        // Cannot fail: the output is a `Vec`, and the types always serialize.
        let _ = serde_json::to_writer(&mut *self.out, message);
    }
}

/// Writes all messages, in order, behind an instruction of the gateway if there is one.
///
/// # Errors
/// 400 for what the vendor cannot represent.
pub(super) fn write(
    messages: &[Message<'_>],
    instruction: Option<String>,
    answers_results: bool,
    chat: &OpenAiChat,
    notes: &mut TranslationNotes,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    out.push(b'[');
    let mut out = List { out, last: None, answers_results };
    if let Some(text) = instruction {
        out.push(MessageOut::new("system", Some(Content::Text(Cow::Owned(text)))));
    }
    let mut shown: Vec<Shown<'_>> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let at = message.place(index);
        if message.role == Role::Tool {
            let (written, held_back) = tool(message, chat, at)?;
            out.push(written);
            shown.extend(held_back);
            continue;
        }
        let before = show(std::mem::take(&mut shown));
        if message.role == Role::User {
            out.push(user(message, before, chat, at)?);
            continue;
        }
        if !before.is_empty() {
            out.push(MessageOut::new("user", Some(Content::Parts(before))));
        }
        out.push(match message.role {
            Role::Assistant => assistant(message, chat, notes, at)?,
            _ => system(message, chat, at)?,
        });
    }
    let left = show(shown);
    if !left.is_empty() {
        out.push(MessageOut::new("user", Some(Content::Parts(left))));
    }
    if let Some(mut last) = out.last.take() {
        last.prefix = chat.flags_prefix && last.role == "assistant" && last.tool_calls.is_empty();
        out.write(&last);
    }
    out.out.push(b']');
    Ok(())
}

/// The parts of tool results, each group after a text that names its tool call.
fn show(shown: Vec<Shown<'_>>) -> Vec<PartOut<'_>> {
    let mut parts = Vec::new();
    for Shown { id, parts: pictures } in shown {
        parts.push(PartOut::Made {
            kind: "text",
            text: format!("Part of the result of tool call {id}:"),
            mark: None,
        });
        parts.extend(pictures);
    }
    parts
}

impl<'a> MessageOut<'a> {
    fn new(role: &'static str, content: Option<Content<'a>>) -> Self {
        Self {
            role,
            content,
            name: None,
            refusal: None,
            reasoning_content: None,
            reasoning: None,
            reasoning_details: Vec::new(),
            tool_calls: Vec::new(),
            tool_call_id: None,
            prefix: false,
        }
    }

    fn named(mut self, message: &'a Message<'a>, chat: &OpenAiChat) -> Self {
        self.name = message.name.as_deref().filter(|_| !chat.refuses.contains(&"name"));
        self
    }
}

fn system<'a>(message: &'a Message<'a>, chat: &OpenAiChat, at: Place) -> Result<MessageOut<'a>, Error> {
    let role = if message.role == Role::Developer && chat.developer { "developer" } else { "system" };
    let only_text = message.content.iter().all(|part| matches!(part, Part::Text { .. }));
    // Not every vendor accepts a list here.
    let content = if only_text && mark_of(message, chat).is_none() {
        Content::Text(joined(&message.content, "\n\n"))
    } else {
        content(message, Vec::new(), chat, at)?
    };
    Ok(MessageOut::new(role, Some(content)).named(message, chat))
}

fn user<'a>(
    message: &'a Message<'a>,
    before: Vec<PartOut<'a>>,
    chat: &OpenAiChat,
    at: Place,
) -> Result<MessageOut<'a>, Error> {
    Ok(MessageOut::new("user", Some(content(message, before, chat, at)?)).named(message, chat))
}

/// The mark of a message or of one of its texts, for a vendor that takes it there.
fn mark_of<'a>(message: &'a Message<'a>, chat: &OpenAiChat) -> Option<Mark<'a>> {
    let of_message = message.cache_control.as_ref().filter(|_| chat.breakpoints);
    let of_parts = || {
        message.content.iter().find_map(|part| match part {
            Part::Text { cache_control, .. } => cache_control.as_ref(),
            _ => None,
        })
    };
    Mark::of(of_message.or_else(of_parts), chat)
}

/// A single text as a string, everything else as a list.
fn content<'a>(
    message: &'a Message<'a>,
    before: Vec<PartOut<'a>>,
    chat: &OpenAiChat,
    at: Place,
) -> Result<Content<'a>, Error> {
    let mut parts = before;
    parts.reserve_exact(message.content.len());
    for (index, part) in message.content.iter().enumerate() {
        parts.extend(PartOut::from_part(part, chat, format_args!("{at}.content[{index}]"))?);
    }
    let of_message = message.cache_control.as_ref().filter(|_| chat.breakpoints);
    if let Some(last) = parts.last_mut() {
        last.set_mark(Mark::of(of_message, chat));
    }
    Ok(match parts.as_slice() {
        [] => Content::Text(Cow::Borrowed("")),
        [PartOut::Text { text, mark: None, .. }] => Content::Text(Cow::Borrowed(text)),
        _ => Content::Parts(parts),
    })
}

/// Joins the texts of a message.
fn joined<'a>(parts: &'a [Part<'a>], between: &str) -> Cow<'a, str> {
    let mut texts = parts.iter().filter_map(|part| match part {
        Part::Text { text, .. } if !text.is_empty() => Some(text.as_ref()),
        _ => None,
    });
    let Some(first) = texts.next() else { return Cow::Borrowed("") };
    texts.fold(Cow::Borrowed(first), |mut whole, text| {
        whole.to_mut().push_str(between);
        whole.to_mut().push_str(text);
        whole
    })
}

fn tool<'a>(
    message: &'a Message<'a>,
    chat: &OpenAiChat,
    at: Place,
) -> Result<(MessageOut<'a>, Option<Shown<'a>>), Error> {
    let id = message.tool_call_id.as_deref().unwrap_or_default();
    let mut pictures = Vec::new();
    for (index, part) in message.content.iter().enumerate() {
        match part {
            Part::Text { .. } => {}
            // Other kinds are passed on as JSON: a search result's text is inside it.
            Part::Other { json, .. } => {
                pictures.push(PartOut::Made { kind: "text", text: json.get().to_owned(), mark: None });
            }
            _ => pictures.extend(PartOut::from_part(part, chat, format_args!("{at}.content[{index}]"))?),
        }
    }
    let mut text = joined(&message.content, "\n");
    if text.is_empty() && !pictures.is_empty() {
        text = Cow::Borrowed("The result is in the next message.");
    }
    // A tool message has no error flag.
    if message.is_error && !text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("error")) {
        text = Cow::Owned(format!("Error: {text}"));
    }
    let content = match mark_of(message, chat).filter(|_| chat.breakpoints) {
        None => Content::Text(text),
        mark => Content::Parts(vec![PartOut::Made { kind: "text", text: text.into_owned(), mark }]),
    };
    let mut out = MessageOut::new("tool", Some(content));
    out.tool_call_id = Some(id);
    let shown = (!pictures.is_empty()).then_some(Shown { id, parts: pictures });
    Ok((out, shown))
}

fn assistant<'a>(
    message: &'a Message<'a>,
    chat: &OpenAiChat,
    notes: &mut TranslationNotes,
    at: Place,
) -> Result<MessageOut<'a>, Error> {
    let mut out = MessageOut::new("assistant", None).named(message, chat);
    let mut thoughts = String::new();
    let mut refusal = String::new();
    for part in &message.content {
        match part {
            Part::Text { .. } => {}
            Part::Refusal(text) => refusal.push_str(text),
            Part::Reasoning { text, signature } => {
                thoughts.push_str(text);
                if let (ReasoningField::Details, Some(signature)) = (chat.reasoning_field, signature) {
                    out.reasoning_details.push(Detail::Text { kind: "reasoning.text", text, signature });
                }
            }
            Part::Redacted { data } => {
                let detail = Json::parse(data).filter(Json::is_object);
                match detail.filter(|_| chat.reasoning_field == ReasoningField::Details) {
                    Some(detail) => out.reasoning_details.push(Detail::Whole(detail)),
                    None => notes
                        .warn_once("messages", "redacted thinking left out, only its provider can read it"),
                }
            }
            Part::ToolCall(call) => out.tool_calls.push(CallOut::new(call, chat)),
            // Calls of another provider's own tools are left out: the text covers their results.
            Part::Other { kind, .. } => {
                notes.warn(at, format!("{kind} left out, it is another provider's"));
            }
            Part::Image(_) | Part::Audio { .. } | Part::File(_) => {
                let message = format!("{at}: this provider takes text only in an assistant's message.");
                return Err(Error::invalid_request(at.to_string(), message));
            }
        }
    }
    let refused = !refusal.is_empty();
    if refused && !chat.refuses.contains(&"refusal") {
        out.refusal = Some(refusal);
        refusal = String::new();
    }
    // Not put together: guardrails have seen them apart.
    let mut text = joined(&message.content, "\n");
    text = match (text.is_empty(), refusal.is_empty()) {
        (_, true) => text,
        (true, false) => Cow::Owned(refusal),
        (false, false) => Cow::Owned(format!("{text}\n{refusal}")),
    };
    let no_content = text.is_empty() && (refused || !out.tool_calls.is_empty());
    out.content = (!no_content).then_some(Content::Text(text));
    if !thoughts.is_empty() {
        if chat.reasoning_field == ReasoningField::Nowhere {
            notes.warn_once("messages", "earlier thinking left out, this provider takes none back");
        }
        out.set_thinking(thoughts, &message.content, chat);
    }
    Ok(out)
}

impl<'a> MessageOut<'a> {
    fn set_thinking(&mut self, thoughts: String, content: &'a [Part<'a>], chat: &OpenAiChat) {
        match chat.reasoning_field {
            ReasoningField::Nowhere => {}
            ReasoningField::Details if !self.reasoning_details.is_empty() => {}
            ReasoningField::Member("reasoning_content") => self.reasoning_content = Some(thoughts),
            ReasoningField::Details | ReasoningField::Member(_) => self.reasoning = Some(thoughts),
            ReasoningField::Parts => {
                let parts = content.iter().filter_map(|part| match part {
                    Part::Reasoning { text, .. } if !text.is_empty() => Some(PartOut::thinking(text)),
                    Part::Text { text, .. } | Part::Refusal(text) if !text.is_empty() => {
                        Some(PartOut::text(text, None))
                    }
                    _ => None,
                });
                self.content = Some(Content::Parts(parts.collect()));
            }
        }
    }
}

impl<'a> CallOut<'a> {
    fn new(call: &'a ToolCall<'a>, chat: &OpenAiChat) -> Self {
        let arguments = if call.arguments.trim().is_empty() { "{}" } else { call.arguments.as_ref() };
        // OpenRouter's Gemini models require their thought signature back.
        let signature = call.signature.as_deref().filter(|_| chat.reasoning_field == ReasoningField::Details);
        Self {
            id: &call.id,
            kind: "function",
            function: FunctionOut { name: &call.name, arguments },
            extra_content: signature
                .map(|signature| serde_json::json!({"google": {"thought_signature": signature}})),
        }
    }
}
