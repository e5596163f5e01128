//! The messages of a chat as Converse's turns.
//!
//! Example: `system, user, assistant (2 calls), tool, tool, user` becomes the system blocks and three turns:
//! `user`, `assistant` with two `toolUse`, `user` with two `toolResult` followed by the text. Successive
//! messages of one speaker share a turn, because Bedrock requires speakers to alternate.

use super::NAME;
use super::documents::{self, DocumentNames};
use super::shape::{
    Block, CachePoint, Media, ReasoningText, ResultContent, Source, Thinking, ToolResult, ToolUse, Turn,
};
use crate::provider::bedrock::model::{Family, Model};
use crate::provider::translation_notes::TranslationNotes;
use serde::Deserialize;
use std::borrow::Cow;
use std::fmt;
use words::api::chat::{Image, Message, Part, Place, Role, Source as From, ToolCall};
use words::error::Error;
use words::json::{Json, JsonStr};

/// The system blocks and the turns.
///
/// # Errors
/// 400 for content that Bedrock does not support.
pub fn write<'a>(
    messages: &'a [Message<'a>],
    model: &Model<'_>,
    notes: &mut TranslationNotes,
) -> Result<(Vec<Block<'a>>, Vec<Turn<'a>>), Error> {
    let mut system = Vec::new();
    let mut turns: Vec<Turn<'a>> = Vec::new();
    let mut blocks = Blocks { model, notes, names: DocumentNames::default(), warned: Warned::default() };
    for (index, message) in messages.iter().enumerate() {
        let at = message.place(index);
        let (role, content) = match message.role {
            Role::System | Role::Developer => {
                blocks.write(&message.content, at, &mut system)?;
                let is_markable = !matches!(system.last(), None | Some(Block::CachePoint(_)));
                let point = blocks.cache_point(message.cache_control.as_ref().filter(|_| is_markable));
                system.extend(point);
                continue;
            }
            Role::User => ("user", &message.content),
            Role::Assistant => ("assistant", &message.content),
            Role::Tool => {
                let (result, inner_point) = blocks.tool_result(message, at)?;
                let point = blocks.cache_point(message.cache_control.as_ref()).or(inner_point);
                // Tool results come before all other content of the user's turn.
                let turn = users_turn(&mut turns);
                let new = [Some(Block::ToolResult(Box::new(result))), point].into_iter().flatten();
                let before = turn.content.len();
                turn.content.splice(turn.results..turn.results, new);
                turn.results += turn.content.len() - before;
                continue;
            }
        };
        if message.name.is_some() {
            blocks.warn_once(
                |warned| &mut warned.name,
                "messages.name",
                "dropped, bedrock knows no speakers' names",
            );
        }
        let mut written = Vec::with_capacity(content.len());
        blocks.write(content, at, &mut written)?;
        // Bedrock refuses an empty turn (an assistant's empty text), and it carries nothing.
        if !written.is_empty() {
            let control = message.cache_control.as_ref();
            let is_marked = matches!(written.last(), Some(Block::CachePoint(_)));
            written.extend(blocks.cache_point(control.filter(|_| !is_marked)));
            match turns.last_mut() {
                Some(last) if last.role == role => last.content.append(&mut written),
                _ => turns.push(Turn { role, content: written, results: 0 }),
            }
        }
    }
    blocks.name_documents(&mut turns);
    if turns.is_empty() && !system.is_empty() {
        // OpenAI accepts a system prompt alone; Bedrock requires a user's turn.
        notes.warn("messages", "no user speaks, the system prompt was sent as a user's message");
        turns.push(Turn { role: "user", content: std::mem::take(&mut system), results: 0 });
    }
    if let Some(Turn { role: "assistant", content, .. }) = turns.last_mut()
        && let Some(Block::Text(text)) = content.last_mut()
    {
        // Bedrock refuses otherwise: "final assistant content cannot end with trailing whitespace".
        *text = text.trim_end();
    }
    Ok((system, turns))
}

/// The last turn if it is the user's, or a new one.
fn users_turn<'t, 'a>(turns: &'t mut Vec<Turn<'a>>) -> &'t mut Turn<'a> {
    if turns.last().is_none_or(|last| last.role != "user") {
        turns.push(Turn { role: "user", content: Vec::new(), results: 0 });
    }
    let last = turns.len() - 1;
    #[expect(clippy::indexing_slicing, reason = "there is one: pushed just above if there was none")]
    &mut turns[last]
}

struct Blocks<'m, 'o> {
    model: &'m Model<'m>,
    notes: &'o mut TranslationNotes,
    names: DocumentNames,
    warned: Warned,
}

/// The warnings already given: each is given once per request.
#[derive(Default)]
struct Warned {
    name: bool,
    thinking: bool,
    cache: bool,
    detail: bool,
    server_tools: bool,
    blank_texts: bool,
    citations: bool,
}

impl Blocks<'_, '_> {
    fn warn_once(&mut self, flag: impl FnOnce(&mut Warned) -> &mut bool, param: &str, what: &str) {
        if !std::mem::replace(flag(&mut self.warned), true) {
            self.notes.warn(param, what);
        }
    }

    fn write<'a>(
        &mut self,
        parts: &'a [Part<'a>],
        message: Place,
        into: &mut Vec<Block<'a>>,
    ) -> Result<(), Error> {
        for (index, part) in parts.iter().enumerate() {
            let at = format_args!("{message}.content[{index}]");
            let cache = match part {
                Part::Text { text, cache_control } => {
                    into.extend(self.text(text));
                    cache_control.as_ref().filter(|_| !into.is_empty())
                }
                Part::Refusal(text) => {
                    into.extend(self.text(text));
                    None
                }
                Part::Image(image) => {
                    into.push(self.image(image, at)?);
                    image.cache_control.as_ref()
                }
                Part::File(file) => {
                    let cites = file.has_citations && self.cites();
                    into.push(documents::block(file, cites, &mut self.names, at)?);
                    file.cache_control.as_ref()
                }
                Part::Audio { data, format } => {
                    let format = documents::audio_format(format, at)?;
                    let source = Source::Bytes(Cow::Borrowed(data));
                    into.push(Block::Audio(Box::new(Media { format, source })));
                    None
                }
                Part::Reasoning { text, signature } => {
                    into.extend(self.thinking(text, signature.as_deref()));
                    None
                }
                Part::Redacted { data } => {
                    into.extend(self.redacted(data));
                    None
                }
                Part::ToolCall(call) => {
                    into.push(Block::ToolUse(Box::new(self.tool_use(call, at))));
                    call.cache_control.as_ref()
                }
                Part::Other { kind, .. } if is_foreign_tool(kind, part) => {
                    let what = "calls of another provider's own tools left out";
                    self.warn_once(|warned| &mut warned.server_tools, "messages", what);
                    None
                }
                Part::Other { kind, json } => {
                    into.push(server_tool(kind, json).ok_or_else(|| unknown(kind, at))?);
                    None
                }
            };
            into.extend(self.cache_point(cache));
        }
        Ok(())
    }

    /// Whether the model cites documents: Claude does. Called for documents that it must cite.
    fn cites(&mut self) -> bool {
        if matches!(self.model.family, Family::Anthropic | Family::Unknown) {
            return true;
        }
        self.warn_once(|warned| &mut warned.citations, "citations", "dropped, this model cites no documents");
        false
    }

    /// Bedrock refuses a text without any character but white space ("The text field in the ContentBlock object is blank").
    fn text<'a>(&mut self, text: &'a str) -> Option<Block<'a>> {
        if !text.trim().is_empty() {
            return Some(Block::Text(text));
        }
        if !text.is_empty() {
            let what = "texts of white space alone left out, bedrock refuses them";
            self.warn_once(|warned| &mut warned.blank_texts, "messages", what);
        }
        None
    }

    /// Thinking is sent back with its signature or not at all: Claude refuses thinking without its signature,
    /// and other models do not accept their own thinking.
    fn thinking<'a>(&mut self, text: &'a str, signature: Option<&'a str>) -> Option<Block<'a>> {
        if signature.is_some() && self.model.takes_thinking_back() {
            let text = ReasoningText { text, signature };
            return Some(Block::ReasoningContent(Thinking::ReasoningText(text)));
        }
        self.leave_thinking_out();
        None
    }

    fn redacted<'a>(&mut self, data: &'a str) -> Option<Block<'a>> {
        if self.model.takes_thinking_back() {
            return Some(Block::ReasoningContent(Thinking::RedactedContent(data)));
        }
        self.leave_thinking_out();
        None
    }

    fn leave_thinking_out(&mut self) {
        let what = "earlier thinking was left out: this model takes none back without its own signature";
        self.warn_once(|warned| &mut warned.thinking, "messages", what);
    }

    fn cache_point<'a>(&mut self, control: Option<&Json<'a>>) -> Option<Block<'a>> {
        let control = control?;
        if !self.model.caches() {
            self.warn_once(
                |warned| &mut warned.cache,
                "cache_control",
                "dropped, this model has no prompt cache",
            );
            return None;
        }
        Some(Block::CachePoint(Box::new(cache_point(control))))
    }

    fn image<'a>(&mut self, image: &'a Image<'a>, at: fmt::Arguments<'_>) -> Result<Block<'a>, Error> {
        if image.detail.as_deref().is_some_and(|detail| detail != "auto") {
            self.warn_once(
                |warned| &mut warned.detail,
                "image_url.detail",
                "dropped, bedrock has no such parameter",
            );
        }
        documents::image(&image.source, &mut self.names, at)
    }

    fn tool_use<'a>(&mut self, call: &'a ToolCall<'a>, at: fmt::Arguments<'_>) -> ToolUse<'a> {
        let input = call.arguments().unwrap_or_else(|| {
            // Malformed arguments that a model once wrote must not end the conversation; Bedrock accepts
            // objects only.
            self.notes
                .warn(format_args!("{at}.arguments"), "no JSON object, sent as {\"arguments\": <text>}");
            Json::object_with("arguments", call.arguments.as_ref())
        });
        ToolUse { tool_use_id: id(&call.id), name: &call.name, input, kind: None }
    }

    /// A tool result, and the cache point that stood in it: Converse has none inside a result, so it goes behind.
    fn tool_result<'a>(
        &mut self,
        message: &'a Message<'a>,
        at: Place,
    ) -> Result<(ToolResult<'a>, Option<Block<'a>>), Error> {
        let call = message.tool_call_id.as_deref().ok_or_else(|| {
            let param = format!("{at}.tool_call_id");
            let what = format!("{param} is missing: it must name the call that this is the result of.");
            Error::invalid_request(param, what)
        })?;
        let mut content = Vec::with_capacity(message.content.len());
        self.write(&message.content, at, &mut content)?;
        let is_point = |block: &Block<'_>| matches!(block, Block::CachePoint(_));
        let point = content.iter().rposition(is_point).map(|at| content.swap_remove(at));
        content.retain(|block| !is_point(block));
        let status = message.is_error.then_some(Cow::Borrowed("error"));
        let content = ResultContent::Blocks(content);
        Ok((ToolResult { tool_use_id: id(call), content, status, kind: None }, point))
    }

    /// Adds a text to every turn that has documents and none: "you must also include a ContentBlock with a text
    /// field" (<https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Message.html>).
    fn name_documents(&mut self, turns: &mut [Turn<'_>]) {
        for turn in turns {
            let has_text = turn.content.iter().any(|block| matches!(block, Block::Text(_)));
            let document = turn.content.iter().rposition(|block| matches!(block, Block::Document(_)));
            let Some(at) = document.filter(|_| !has_text) else { continue };
            turn.content.insert(at + 1, Block::Text("See the document."));
            self.notes.warn_once("messages", "a text was added beside documents, bedrock wants one");
        }
    }
}

/// The cache point for `cache_control` (`{"type":"ephemeral","ttl":"1h"}`).
pub(crate) fn cache_point<'a>(control: &Json<'_>) -> CachePoint<'a> {
    #[derive(Deserialize)]
    struct Control<'a> {
        #[serde(borrow)]
        ttl: Option<JsonStr<'a>>,
    }
    let ttl = control.read::<Control<'_>>().and_then(|control| Some(control.ttl?.0.into_owned()));
    CachePoint { kind: "default", ttl: ttl.map(Cow::Owned) }
}

/// A tool call's id; Bedrock requires one.
fn id(id: &str) -> Cow<'_, str> {
    Cow::Borrowed(if id.is_empty() { "call" } else { id })
}

/// A call or result of Bedrock's own tools from an earlier turn, in the form this gateway emits it in
/// `content_blocks`.
fn server_tool<'a>(kind: &str, json: &'a Json<'a>) -> Option<Block<'a>> {
    #[derive(Deserialize)]
    struct ServerToolBlock<'a> {
        #[serde(borrow)]
        id: Option<JsonStr<'a>>,
        name: Option<&'a str>,
        input: Option<Json<'a>>,
        tool_use_id: Option<JsonStr<'a>>,
        content: Option<Json<'a>>,
        status: Option<JsonStr<'a>>,
    }
    let block: ServerToolBlock<'a> = serde_json::from_str(json.get()).ok()?;
    if kind == "server_tool_use" {
        return Some(Block::ToolUse(Box::new(ToolUse {
            tool_use_id: Cow::Owned(id(&block.id?).into_owned()),
            name: block.name?,
            input: block.input?,
            kind: Some("server_tool_use"),
        })));
    }
    kind.strip_suffix("_result")?;
    let is_named = kind != crate::provider::bedrock::SERVER_RESULT;
    Some(Block::ToolResult(Box::new(ToolResult {
        tool_use_id: Cow::Owned(id(&block.tool_use_id?).into_owned()),
        content: ResultContent::Json(block.content?),
        status: block.status.map(|status| Cow::Owned(status.0.into_owned())),
        kind: is_named.then(|| Cow::Owned(kind.to_owned())),
    })))
}

/// Whether a part is a call or a result of a tool that another provider ran. Bedrock's own are Nova's.
fn is_foreign_tool(kind: &str, part: &Part<'_>) -> bool {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow)]
        name: Option<JsonStr<'a>>,
    }
    let Part::Other { json, .. } = part else { return false };
    match kind {
        "server_tool_use" => {
            let named = json.read::<Named<'_>>().and_then(|named| named.name);
            !named.is_some_and(|name| name.starts_with("nova_"))
        }
        crate::provider::bedrock::SERVER_RESULT => false,
        _ => (kind.ends_with("_result") || kind.ends_with("_tool_use")) && !kind.starts_with("nova_"),
    }
}

fn unknown(kind: &str, at: fmt::Arguments<'_>) -> Error {
    let message =
        format!("{NAME} has no content of the type {kind}. Leave it out, or choose another provider.");
    Error::invalid_request(format!("{at}.type"), message)
}

/// The `s3://` URI of an image or a file, if it has one.
pub(crate) fn is_s3<'a>(source: &'a From<'a>) -> Option<&'a str> {
    match source {
        From::Url { url, .. } if url.starts_with("s3://") => Some(url),
        _ => None,
    }
}
