//! The messages of a Messages request: content blocks read into parts.
//!
//! An Anthropic user message holds tool results along with the user's own content, while in a [`ChatRequest`] each
//! result is a message of its own. So one message may become several, results first, which is Anthropic's order too:
//!
//! - in: `user: [tool_result t1, tool_result t2, text]`
//! - out: `tool (t1)`, `tool (t2)`, `user: [text]`
//!
//! [`ChatRequest`]: crate::api::chat::ChatRequest

use super::request::reread;
use super::search_blocks::is_foreign_search;
use super::wire::AnthropicBlock;
use super::{foreign_id, vocabulary};
use crate::api::chat::read::{missing, parse, parse_string};
use crate::api::chat::{File, Image, Message, Part, Place, Role, Source, ToolCall};
use crate::api::part_members::{Inner, PartKind, PartShapes};
use crate::error::Error;
use crate::json::{Json, JsonStr};
use serde::Deserialize;
use std::borrow::Cow;
use std::fmt;

/// The media type of a document given by URL: Anthropic takes only PDFs that way.
const PDF: &str = "application/pdf";

#[derive(Deserialize)]
struct MessageIn<'a> {
    #[serde(borrow)]
    role: Option<JsonStr<'a>>,
    content: Option<Json<'a>>,
}

/// What is read of blocks. Who has called a tool is for Anthropic alone.
pub(super) const BLOCKS: PartShapes = PartShapes {
    lists: &["content"],
    kinds: &[
        PartKind { kind: "text", members: &["text", "citations", "cache_control"], inner: &[] },
        PartKind { kind: "image", members: &["source", "cache_control"], inner: &[SOURCE] },
        PartKind {
            kind: "document",
            members: &["source", "title", "context", "citations", "cache_control"],
            inner: &[SOURCE],
        },
        PartKind {
            kind: "tool_use",
            members: &["id", "name", "input", "caller", "cache_control"],
            inner: &[],
        },
        PartKind {
            kind: "tool_result",
            members: &["tool_use_id", "content", "is_error", "cache_control"],
            inner: &[],
        },
        PartKind { kind: "thinking", members: &["thinking", "signature"], inner: &[] },
        PartKind { kind: "redacted_thinking", members: &["data"], inner: &[] },
    ],
};
const SOURCE: Inner =
    Inner { name: "source", members: &["type", "media_type", "data", "url", "file_id", "content"] };

impl<'a> AnthropicBlock<'a> {
    /// The blocks that a document consists of, if they are not all texts.
    fn mixed_content(&self) -> Option<Json<'a>> {
        let source: SourceIn<'a> = serde_json::from_str(self.source.as_ref()?.source()?).ok()?;
        let content = source.content.filter(|_| source.kind.as_deref() == Some("content"))?;
        all_text(&content).is_none().then_some(content)
    }

    fn has_citations(&self) -> bool {
        #[derive(Deserialize)]
        struct Citations {
            enabled: Option<bool>,
        }
        let citations = self.citations.as_ref().and_then(Json::read::<Citations>);
        citations.is_some_and(|citations| citations.enabled == Some(true))
    }
}

#[derive(Deserialize)]
struct SourceIn<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<JsonStr<'a>>,
    media_type: Option<JsonStr<'a>>,
    data: Option<JsonStr<'a>>,
    url: Option<JsonStr<'a>>,
    file_id: Option<JsonStr<'a>>,
    content: Option<Json<'a>>,
}

/// The parts of `system`, which is a string or a list of blocks.
pub(super) fn system(text: &str) -> Result<Vec<Part<'_>>, Error> {
    let json = Json::parse(text).ok_or_else(|| missing("system"))?;
    let mut reader = BlockReader::default();
    reader.read(&json, format_args!("system"), None)?;
    Ok(reader.parts)
}

pub(super) fn messages(text: &str) -> Result<Vec<Message<'_>>, Error> {
    let list: Vec<Json<'_>> = parse(text, "messages", "a list of messages")?;
    let mut messages = Vec::with_capacity(list.len());
    for (index, json) in list.into_iter().enumerate() {
        message(&json, Place::item("messages", index), &mut messages)?;
    }
    Ok(messages)
}

fn message<'a>(json: &Json<'a>, place: Place, into: &mut Vec<Message<'a>>) -> Result<(), Error> {
    let message_in: MessageIn<'a> = reread(json, place, "a message: an object with role and content")?;
    let role = match message_in.role.as_deref() {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        // Newer models take system messages in the middle of a chat.
        Some("system") => Role::System,
        _ => {
            let message = format!("{place}.role must be user, assistant or system.");
            return Err(Error::invalid_request(format!("{place}.role"), message));
        }
    };
    let at = format_args!("{place}.content");
    let content = message_in.content.filter(|content| !content.is_null()).ok_or_else(|| missing(at))?;
    let mut reader = BlockReader { assistant: role == Role::Assistant, ..BlockReader::default() };
    reader.read(&content, at, Some(place))?;
    // A message with only tool results has no content of its own. One that was empty from the start is kept.
    let has_own = reader.tool_results.is_empty() || !reader.parts.is_empty();
    into.append(&mut reader.tool_results);
    if has_own {
        into.push(Message { at: Some(place), ..Message::new(role, reader.parts) });
    }
    Ok(())
}

/// Reads the blocks of one message, with tool results apart from the other parts.
#[derive(Default)]
struct BlockReader<'a> {
    tool_results: Vec<Message<'a>>,
    parts: Vec<Part<'a>>,
    assistant: bool,
    /// The provider's signature of the call that follows (see [`vocabulary::decode_call_signature`]).
    call_signature: Option<Cow<'a, str>>,
}

impl<'a> BlockReader<'a> {
    /// Reads a string or a list of blocks. `message`: it is the content of that message, which may hold tool results.
    fn read(
        &mut self,
        content: &Json<'a>,
        at: fmt::Arguments<'_>,
        message: Option<Place>,
    ) -> Result<(), Error> {
        if let Some(text) = content.source().and_then(parse_string) {
            if self.parts.is_empty() {
                // Most messages have one part.
                self.parts.reserve_exact(1);
            }
            self.push_text(text, None);
            return Ok(());
        }
        let blocks: Vec<Json<'a>> = reread(content, at, "a list of content blocks, or a string")?;
        for (index, json) in blocks.into_iter().enumerate() {
            let place = message.map(|message| message.block(index));
            self.block(json, format_args!("{at}[{index}]"), place)?;
        }
        Ok(())
    }

    fn push_text(&mut self, text: Cow<'a, str>, cache_control: Option<Json<'a>>) {
        // Providers reject empty texts.
        if !text.is_empty() {
            self.parts.push(Part::Text { text, cache_control });
        }
    }

    /// `place`: where a tool result may stand.
    fn block(&mut self, json: Json<'a>, at: fmt::Arguments<'_>, place: Option<Place>) -> Result<(), Error> {
        let mut block: AnthropicBlock<'a> = reread(&json, at, "a content block: an object with a type")?;
        let kind = block.kind.take().ok_or_else(|| missing(format_args!("{at}.type")))?.0;
        let cache_control = block.cache_control.take().filter(|json| !json.is_null());
        match kind.as_ref() {
            "tool_result" if let Some(place) = place.filter(|_| !self.assistant) => {
                self.tool_results.push(result(block, cache_control, place)?);
            }
            "text" => {
                let text = block.text.ok_or_else(|| missing(format_args!("{at}.text")))?;
                self.push_text(text.0, cache_control);
            }
            "image" => {
                let source = source(&block, &kind, at)?.ok_or_else(|| unknown_source(at))?;
                self.parts.push(Part::Image(Box::new(Image { source, detail: None, cache_control })));
            }
            "document" => return self.push_document(block, cache_control, kind, json, at),
            "search_result" => {
                self.parts.push(search_result(&block, cache_control).unwrap_or(Part::Other { kind, json }));
            }
            "thinking" => self.push_thinking(block),
            "redacted_thinking" => {
                self.parts.push(Part::Redacted { data: block.data.unwrap_or_default().0 });
            }
            // Of a search that another provider made: its findings are in the text.
            "server_tool_use" | "web_search_tool_result"
                if block
                    .id
                    .as_ref()
                    .or(block.tool_use_id.as_ref())
                    .is_some_and(|id| is_foreign_search(id)) => {}
            "tool_use" if self.assistant => self.push_call(block, cache_control, at)?,
            _ => self.parts.push(Part::Other { kind, json }),
        }
        Ok(())
    }

    fn push_thinking(&mut self, block: AnthropicBlock<'a>) {
        let text = block.thinking.unwrap_or_default().0;
        let mut signature = block.signature.map(|text| text.0).filter(|text| !text.is_empty());
        if let Some(call_signature) = signature.as_ref().and_then(vocabulary::decode_call_signature) {
            self.call_signature = Some(call_signature);
            signature = None;
        }
        if !text.is_empty() || signature.is_some() {
            self.parts.push(Part::Reasoning { text, signature });
        }
    }

    fn push_call(
        &mut self,
        block: AnthropicBlock<'a>,
        cache_control: Option<Json<'a>>,
        at: fmt::Arguments<'_>,
    ) -> Result<(), Error> {
        let id = foreign_id::from_client(block.id.ok_or_else(|| missing(format_args!("{at}.id")))?.0);
        let name = block.name.ok_or_else(|| missing(format_args!("{at}.name")))?.0;
        let input = block.input.filter(|input| !input.is_null());
        let arguments = Cow::Borrowed(input.as_ref().and_then(Json::source).unwrap_or("{}"));
        let signature = self.call_signature.take();
        let call = ToolCall { id, name, arguments, signature, cache_control };
        self.parts.push(Part::ToolCall(Box::new(call)));
        Ok(())
    }

    fn push_document(
        &mut self,
        block: AnthropicBlock<'a>,
        cache_control: Option<Json<'a>>,
        kind: Cow<'a, str>,
        json: Json<'a>,
        at: fmt::Arguments<'_>,
    ) -> Result<(), Error> {
        if let Some(content) = block.mixed_content() {
            if !is_of_texts_and_images(&content) {
                self.parts.push(Part::Other { kind, json });
                return Ok(());
            }
            return self.push_document_content(block, &content, cache_control, at);
        }
        let has_citations = block.has_citations();
        let part = match source(&block, &kind, at)? {
            Some(source) => {
                // Text about the document that is not part of it. Other providers have no member for it.
                if let Some(context) = block.context {
                    self.push_text(context.0, None);
                }
                let name = block.title.map(|text| text.0);
                Part::File(Box::new(File { source, name, cache_control, has_citations }))
            }
            None => Part::Other { kind, json },
        };
        self.parts.push(part);
        Ok(())
    }
}

impl<'a> BlockReader<'a> {
    /// A document that consists of texts and images: providers other than Anthropic have none, so its parts stand for it,
    /// after its title. Its texts are documents of their own where they are to be cited.
    fn push_document_content(
        &mut self,
        block: AnthropicBlock<'a>,
        content: &Json<'a>,
        cache_control: Option<Json<'a>>,
        at: fmt::Arguments<'_>,
    ) -> Result<(), Error> {
        let has_citations = block.has_citations();
        for text in [block.title, block.context].into_iter().flatten() {
            self.push_text(text.0, None);
        }
        let first = self.parts.len();
        self.read(content, format_args!("{at}.source.content"), None)?;
        let own = match self.parts.last_mut() {
            Some(Part::Text { cache_control, .. }) => Some(cache_control),
            Some(Part::Image(image)) => Some(&mut image.cache_control),
            _ => None,
        };
        if let Some(own) = own {
            *own = own.take().or(cache_control);
        }
        for part in self.parts.iter_mut().skip(first).filter(|_| has_citations) {
            if let Part::Text { text, cache_control } = part {
                let source = Source::Text(std::mem::take(text));
                let cache_control = cache_control.take();
                *part = Part::File(Box::new(File { source, name: None, cache_control, has_citations }));
            }
        }
        Ok(())
    }
}

/// Whether these are the only blocks, as Anthropic's type has it. Others could be documents again, without an end.
fn is_of_texts_and_images(content: &Json<'_>) -> bool {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<JsonStr<'a>>,
    }
    let blocks: Option<Vec<Kind<'_>>> = content.read();
    blocks.is_some_and(|blocks| {
        blocks.iter().all(|block| matches!(block.kind.as_deref(), Some("text" | "image")))
    })
}

/// The source of an image or a document; `None` for an unknown source type.
fn source<'a>(
    block: &AnthropicBlock<'a>,
    kind: &str,
    at: fmt::Arguments<'_>,
) -> Result<Option<Source<'a>>, Error> {
    let at = format_args!("{at}.source");
    let json = block.source.as_ref().ok_or_else(|| missing(at))?;
    let source: SourceIn<'a> = reread(json, at, "an object with a type")?;
    let missing = |member: &str| missing(format_args!("{at}.{member}"));
    Ok(Some(match source.kind.as_deref() {
        Some("base64") => Source::data(
            source.media_type.ok_or_else(|| missing("media_type"))?.0,
            source.data.ok_or_else(|| missing("data"))?.0,
        ),
        Some("url") => match Source::from_url(source.url.ok_or_else(|| missing("url"))?.0) {
            Source::Url { url, .. } => {
                Source::Url { url, media_type: (kind == "document").then_some(Cow::Borrowed(PDF)) }
            }
            data => data,
        },
        Some("text") => Source::Text(source.data.ok_or_else(|| missing("data"))?.0),
        Some("file") => Source::Id(source.file_id.ok_or_else(|| missing("file_id"))?.0),
        Some("content") => {
            let content = source.content.ok_or_else(|| missing("content"))?;
            return Ok(all_text(&content).map(Source::Text));
        }
        _ => return Ok(None),
    }))
}

fn unknown_source(at: fmt::Arguments<'_>) -> Error {
    let message = format!("{at}.source.type must be base64, url or file.");
    Error::invalid_request(format!("{at}.source.type"), message)
}

/// The result of one tool call as a message of its own.
fn result<'a>(
    block: AnthropicBlock<'a>,
    cache_control: Option<Json<'a>>,
    at: Place,
) -> Result<Message<'a>, Error> {
    let id = block.tool_use_id.ok_or_else(|| missing(format_args!("{at}.tool_use_id")))?;
    let mut reader = BlockReader::default();
    if let Some(content) = block.content.filter(|content| !content.is_null()) {
        reader.read(&content, format_args!("{at}.content"), None)?;
    }
    let mut message = Message::new(Role::Tool, reader.parts);
    message.at = Some(at);
    message.tool_call_id = Some(foreign_id::from_client(id.0));
    message.is_error = block.is_error == Some(true);
    message.cache_control = cache_control;
    Ok(message)
}

/// A result of the client's own search as a text document that starts with its URL, because a document has no
/// member for one. `None` when it holds more than text.
fn search_result<'a>(block: &AnthropicBlock<'a>, cache_control: Option<Json<'a>>) -> Option<Part<'a>> {
    let text = all_text(block.content.as_ref()?)?;
    let address = block.source.as_ref()?.text()?.into_owned();
    let source = Source::Text(Cow::Owned(format!("Source: {address}\n\n{text}")));
    let name = block.title.clone().map(|text| text.0);
    Some(Part::File(Box::new(File { source, name, cache_control, has_citations: block.has_citations() })))
}

/// The text of content that is a string or consists of text blocks only.
fn all_text<'a>(content: &Json<'a>) -> Option<Cow<'a, str>> {
    let source = content.source()?;
    if let Some(text) = parse_string(source) {
        return Some(text);
    }
    let mut whole: Option<Cow<'a, str>> = None;
    for json in serde_json::from_str::<Vec<Json<'a>>>(source).ok()? {
        let block: AnthropicBlock<'a> = serde_json::from_str(json.source()?).ok()?;
        let text = block.text.filter(|_| block.kind.as_deref() == Some("text"))?.0;
        match &mut whole {
            None => whole = Some(text),
            Some(before) => before.to_mut().extend(["\n\n", &*text]),
        }
    }
    whole
}
