//! The items of a request's input, parsed into messages.
//!
//! Consecutive items of the assistant (reasoning, text, calls) become one message, in their order, so that
//! signed reasoning stays in front of the calls it belongs to:
//!
//! ```text
//! reasoning "hm", function_call f     assistant: [Reasoning "hm", ToolCall f]
//! function_call_output                tool: [Text]
//! ```

use super::client_tools::{BY_CLIENT, ClientTools};
use super::compaction::{self, SUMMARIES, TRIGGER};
use super::item::Kind;
use super::reasoning_token::ReasoningToken;
use super::request::{INSTEAD, system};
use super::tools::ToolReader;
use crate::api::chat::read::{missing, parse, parse_string, reread, source};
use crate::api::chat::{File, Image, Message, Part, Place, Role, Source, Tool, ToolCall, cache_mark};
use crate::api::part_members::{BREAKPOINT, Inner, PartKind, PartShapes};
use crate::error::Error;
use crate::json::{Json, JsonStr};
use serde::Deserialize;
use std::borrow::Cow;
use std::fmt;

/// The conversation so far.
#[derive(Debug)]
pub(super) struct Input<'a, 't> {
    messages: Vec<Message<'a>>,
    /// Tools listed by items of the input.
    tools: Vec<Tool<'a>>,
    /// The signature of the next call.
    call_signature: Option<Cow<'a, str>>,
    /// A reference to a text of the assistant: whether it can be left out depends on what follows.
    text_reference: Option<Place>,
    /// What was left out, for the client.
    warnings: Vec<String>,
    /// An item requests to compact the conversation.
    has_trigger: bool,
    /// The tools that are functions of another name.
    client_tools: &'t ClientTools,
}

/// The members of all kinds of items in one struct.
#[derive(Deserialize)]
struct ItemIn<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<JsonStr<'a>>,
    role: Option<JsonStr<'a>>,
    content: Option<Json<'a>>,
    call_id: Option<JsonStr<'a>>,
    id: Option<JsonStr<'a>>,
    name: Option<JsonStr<'a>>,
    namespace: Option<JsonStr<'a>>,
    arguments: Option<Json<'a>>,
    input: Option<Json<'a>>,
    output: Option<Json<'a>>,
    summary: Option<Json<'a>>,
    encrypted_content: Option<JsonStr<'a>>,
    tools: Option<Json<'a>>,
    execution: Option<JsonStr<'a>>,
    result: Option<Json<'a>>,
    cache_control: Option<Json<'a>>,
}

impl ItemIn<'_> {
    /// Whether the client ran this search for tools. Those that OpenAI ran have no id by which a result finds its call.
    fn is_run_by_client(&self) -> bool {
        self.execution.as_deref() == Some(BY_CLIENT) && self.call_id.is_some()
    }
}

impl<'a, 't> Input<'a, 't> {
    /// Of nothing yet.
    pub fn new(client_tools: &'t ClientTools) -> Self {
        Self {
            messages: Vec::new(),
            tools: Vec::new(),
            call_signature: None,
            text_reference: None,
            warnings: Vec::new(),
            has_trigger: false,
            client_tools,
        }
    }

    /// Whether an item requests to compact the conversation.
    pub fn has_trigger(&self) -> bool {
        self.has_trigger
    }

    /// Adds a system message.
    pub(crate) fn push_system(&mut self, text: Cow<'a, str>) {
        if !text.is_empty() {
            self.messages.push(system(text));
        }
    }

    /// Parses a user text or a list of items.
    ///
    /// # Errors
    /// 400 that names the item.
    pub fn read(&mut self, text: &'a str, member: &'static str) -> Result<(), Error> {
        if let Some(text) = parse_string(text) {
            self.messages.push(Message::new(Role::User, vec![Part::text(text)]));
            return Ok(());
        }
        let list: Vec<Json<'a>> = parse(text, member, "a string or a list of items")?;
        self.messages.reserve_exact(list.len());
        for (index, json) in list.into_iter().enumerate() {
            self.item(json, Place::item(member, index))?;
        }
        self.check_text_reference()
    }

    /// The messages, the tools that items of the input listed, and what was left out.
    pub fn finish(mut self) -> (Vec<Message<'a>>, Vec<Tool<'a>>, Vec<String>) {
        // Drop an assistant message that holds only reasoning (its response was cut off there): there is
        // nothing to continue from, and providers refuse it.
        let is_thinking = |part: &Part<'_>| matches!(part, Part::Reasoning { .. } | Part::Redacted { .. });
        self.messages
            .retain(|message| message.role != Role::Assistant || !message.content.iter().all(is_thinking));
        (self.messages, self.tools, self.warnings)
    }

    fn item(&mut self, json: Json<'a>, at: Place) -> Result<(), Error> {
        let item: ItemIn<'a> = reread(&json, at, "an item: an object with a type or a role")?;
        let kind = match (&item.kind, &item.role) {
            (Some(kind), _) => kind.0.clone(),
            (None, Some(_)) => Cow::Borrowed("message"),
            (None, None) => Cow::Borrowed("item_reference"),
        };
        let is_call = matches!(kind.as_ref(), "function_call" | "custom_tool_call" | "tool_search_call");
        if !is_call && !matches!(kind.as_ref(), "reasoning" | "item_reference") {
            self.check_text_reference()?;
        }
        match kind.as_ref() {
            "message" => self.message(item, at),
            "function_call" | "custom_tool_call" => {
                self.leave_out_text_reference();
                self.call(item, at)
            }
            "function_call_output" | "custom_tool_call_output" => self.result(item, at),
            "reasoning" => self.reasoning(item, at),
            "image_generation_call" => self.generated_image(&item, at),
            "tool_search_call" if item.is_run_by_client() => self.search_call(item, at),
            "tool_search_output" if item.is_run_by_client() => self.search_result(item, at),
            "additional_tools" | "tool_search_output" => self.collect_tools(&item, at),
            // Calls of built-in tools: the message after them contains the result.
            "web_search_call"
            | "file_search_call"
            | "code_interpreter_call"
            | "mcp_list_tools"
            | "mcp_call"
            | "tool_search_call" => Ok(()),
            TRIGGER => {
                self.has_trigger = true;
                Ok(())
            }
            kind if SUMMARIES.contains(&kind) => {
                self.summary(item.encrypted_content.as_deref(), at);
                Ok(())
            }
            "item_reference" => self.reference(item.id.as_deref().unwrap_or_default(), at),
            kind => {
                let message = format!("{at} is a {kind}, which no chat has. Leave it out, or {INSTEAD}.");
                Err(Error::invalid_request(format!("{at}.type"), message))
            }
        }
    }

    /// A reference to an item of an earlier response that is not kept (`references`). What this gateway made when it translated a
    /// response is left out if the conversation can go on without it.
    fn reference(&mut self, id: &str, at: Place) -> Result<(), Error> {
        match Kind::of_id(id) {
            Some("rs") => self.left_out(at, "earlier reasoning"),
            Some("ws" | "ig") => self.left_out(at, "the call of a built-in tool"),
            Some("msg") => {
                self.check_text_reference()?;
                self.text_reference = Some(at);
            }
            _ => return Err(unknown_reference(at)),
        }
        Ok(())
    }

    fn leave_out_text_reference(&mut self) {
        if let Some(text) = self.text_reference.take() {
            self.left_out(text, "the text before a tool call");
        }
    }

    fn left_out(&mut self, at: Place, what: &str) {
        self.warnings
            .push(format!("{at}: left out, it refers to {what} and this provider keeps no responses"));
    }

    /// Refuses a reference to a text of the assistant that no tool call follows: it is a turn of the conversation.
    fn check_text_reference(&mut self) -> Result<(), Error> {
        self.text_reference.take().map_or(Ok(()), |at| Err(unknown_reference(at)))
    }

    fn message(&mut self, item: ItemIn<'a>, at: Place) -> Result<(), Error> {
        let role = match item.role.as_deref() {
            Some("user") => Role::User,
            Some("assistant") => Role::Assistant,
            Some("system") => Role::System,
            Some("developer") => Role::Developer,
            _ => {
                let at = format!("{at}.role");
                let message = format!("{at} must be user, assistant, system or developer.");
                return Err(Error::invalid_request(at, message));
            }
        };
        let content = item.content.ok_or_else(|| missing(format_args!("{at}.content")))?;
        if role == Role::Assistant {
            return parts(&content, format_args!("{at}.content"), self.assistant(at));
        }
        self.call_signature = None;
        let mut message = Message::new(role, Vec::new());
        message.at = Some(at);
        parts(&content, format_args!("{at}.content"), &mut message.content)?;
        message.cache_control = item.cache_control.filter(|json| !json.is_null());
        self.messages.push(message);
        Ok(())
    }

    /// The content of the assistant's last message; a new message if another role came last.
    fn assistant(&mut self, place: Place) -> &mut Vec<Part<'a>> {
        let continues = self.messages.last().is_some_and(|message| message.role == Role::Assistant);
        let at = if continues { self.messages.len() - 1 } else { self.messages.len() };
        if !continues {
            let message = Message::new(Role::Assistant, Vec::new());
            self.messages.push(Message { at: Some(place), ..message });
        }
        #[expect(clippy::indexing_slicing, reason = "the vector has this index by now")]
        &mut self.messages[at].content
    }

    fn call(&mut self, item: ItemIn<'a>, at: Place) -> Result<(), Error> {
        let id = item.call_id.or(item.id).ok_or_else(|| missing(format_args!("{at}.call_id")))?;
        let name = item.name.ok_or_else(|| missing(format_args!("{at}.name")))?;
        let arguments = match (item.arguments, item.input) {
            (Some(json), _) => {
                let text = source(&json)?;
                // A string by the API; some clients send the object itself.
                parse_string(text).unwrap_or(Cow::Borrowed(text))
            }
            // A custom tool takes plain text; as the arguments of a function it becomes one member, `input`.
            (None, Some(input)) => Cow::Owned(format!(r#"{{"input":{}}}"#, input.get())),
            (None, None) => Cow::Borrowed(""),
        };
        let cache_control = item.cache_control.filter(|json| !json.is_null());
        let signature = self.call_signature.take();
        let name = self.client_tools.function(item.namespace.as_deref(), name.0);
        let call = ToolCall { id: id.0, name, arguments, signature, cache_control };
        self.assistant(at).push(Part::ToolCall(Box::new(call)));
        Ok(())
    }

    /// A call of the client's search for tools: of a function, whose arguments are written as the object itself.
    fn search_call(&mut self, item: ItemIn<'a>, at: Place) -> Result<(), Error> {
        self.leave_out_text_reference();
        let item =
            ItemIn { name: Some(JsonStr(self.client_tools.search_function())), namespace: None, ..item };
        self.call(item, at)
    }

    /// Its result: the names of the tools that were found, which the request declares from here on.
    fn search_result(&mut self, item: ItemIn<'a>, at: Place) -> Result<(), Error> {
        let before = self.tools.len();
        self.collect_tools(&item, at)?;
        let found = self.tools.iter().skip(before).filter_map(|tool| match tool {
            Tool::Function { name, .. } => Some(&**name),
            Tool::Other { .. } => None,
        });
        let names = found.collect::<Vec<_>>().join(", ");
        let text = if names.is_empty() {
            "No tools were found.".to_owned()
        } else {
            format!("Found, and can be called now: {names}.")
        };
        self.call_signature = None;
        let mut message = Message::new(Role::Tool, vec![Part::text(text)]);
        message.at = Some(at);
        message.tool_call_id = item.call_id.map(|id| id.0);
        self.messages.push(message);
        Ok(())
    }

    fn result(&mut self, item: ItemIn<'a>, at: Place) -> Result<(), Error> {
        let id = item.call_id.ok_or_else(|| missing(format_args!("{at}.call_id")))?;
        let output = item.output.ok_or_else(|| missing(format_args!("{at}.output")))?;
        self.call_signature = None;
        let mut message = Message::new(Role::Tool, Vec::new());
        message.at = Some(at);
        match source(&output)? {
            text if text.starts_with(['"', '[']) => {
                parts(&output, format_args!("{at}.output"), &mut message.content)?;
            }
            // Some clients send the object itself.
            text => message.content.push(Part::text(text)),
        }
        message.tool_call_id = Some(id.0);
        message.cache_control = item.cache_control.filter(|json| !json.is_null());
        self.messages.push(message);
        Ok(())
    }

    fn reasoning(&mut self, item: ItemIn<'a>, at: Place) -> Result<(), Error> {
        let content = joined_texts(item.content.as_ref(), format_args!("{at}.content"))?;
        let text = if content.is_empty() {
            joined_texts(item.summary.as_ref(), format_args!("{at}.summary"))?
        } else {
            content
        };
        let encrypted = item.encrypted_content.filter(|text| !text.is_empty());
        match encrypted.map(|text| ReasoningToken::parse(text.0)) {
            Some(ReasoningToken::Signature(signature)) => {
                self.assistant(at).push(Part::Reasoning { text, signature: Some(signature) });
            }
            Some(ReasoningToken::Redacted(data)) => self.assistant(at).push(Part::Redacted { data }),
            Some(ReasoningToken::Call(signature)) => self.call_signature = Some(signature),
            None | Some(ReasoningToken::Foreign) if text.is_empty() => {}
            None | Some(ReasoningToken::Foreign) => {
                self.assistant(at).push(Part::Reasoning { text, signature: None });
            }
        }
        Ok(())
    }

    /// What stands for the conversation before it.
    fn summary(&mut self, encrypted: Option<&str>, at: Place) {
        // Codex keeps an item without one where it compacted by itself.
        let Some(encrypted) = encrypted.filter(|text| !text.is_empty()) else { return };
        let (text, is_read) = compaction::summary_text(encrypted);
        if !is_read {
            self.warnings.push(format!(
                "{at}: left out, another provider encrypted this summary, and the model is told that it is missing"
            ));
        }
        self.call_signature = None;
        let message = Message::new(Role::User, vec![Part::text(text)]);
        self.messages.push(Message { at: Some(at), ..message });
    }

    /// An image generated earlier in the conversation, which the model may edit.
    fn generated_image(&mut self, item: &ItemIn<'a>, at: Place) -> Result<(), Error> {
        let data = item.result.as_ref().and_then(Json::source).and_then(parse_string);
        let Some(data) = data.filter(|data| !data.is_empty()) else { return Ok(()) };
        // The item does not give the media type, but its first bytes show it.
        let media_type = match &*data {
            data if data.starts_with("/9j/") => "image/jpeg",
            data if data.starts_with("UklGR") => "image/webp",
            data if data.starts_with("R0lGOD") => "image/gif",
            _ => "image/png",
        };
        let source = Source::Data { media_type: Cow::Borrowed(media_type), data };
        self.assistant(at).push(Part::image(source));
        Ok(())
    }

    /// Functions the model discovered during the conversation: a chat needs them in `tools` from the start.
    fn collect_tools(&mut self, item: &ItemIn<'a>, at: Place) -> Result<(), Error> {
        if let Some(list) = item.tools.as_ref().filter(|json| !json.is_null()) {
            let mut reader = ToolReader { table: self.client_tools, warnings: &mut self.warnings };
            self.tools.append(&mut reader.list(source(list)?, &format!("{at}.tools"))?);
        }
        Ok(())
    }
}

fn unknown_reference(at: Place) -> Error {
    let message = format!(
        "{at} refers to an item of an earlier response. This provider keeps no responses: send the item itself \
         (SDKs do with store: false), or {INSTEAD}."
    );
    Error::invalid_request(at.to_string(), message)
}

#[derive(Deserialize)]
struct PartIn<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<JsonStr<'a>>,
    text: Option<JsonStr<'a>>,
    refusal: Option<JsonStr<'a>>,
    image_url: Option<Json<'a>>,
    detail: Option<JsonStr<'a>>,
    file_id: Option<JsonStr<'a>>,
    file_data: Option<JsonStr<'a>>,
    file_url: Option<JsonStr<'a>>,
    filename: Option<JsonStr<'a>>,
    input_audio: Option<AudioIn<'a>>,
    cache_control: Option<Json<'a>>,
    prompt_cache_breakpoint: Option<Json<'a>>,
}

/// What is read of parts. The annotations and probabilities of an earlier output are for the client alone.
pub(super) const PARTS: PartShapes = PartShapes {
    lists: &["content", "output"],
    kinds: &[
        PartKind { kind: "input_text", members: TEXT, inner: &[] },
        PartKind { kind: "output_text", members: TEXT, inner: &[] },
        PartKind { kind: "text", members: TEXT, inner: &[] },
        PartKind { kind: "refusal", members: &["refusal"], inner: &[] },
        PartKind {
            kind: "input_image",
            members: &["image_url", "detail", "file_id", "cache_control", BREAKPOINT],
            inner: &[],
        },
        PartKind {
            kind: "input_file",
            members: &["file_data", "file_id", "file_url", "filename", "detail", "cache_control", BREAKPOINT],
            inner: &[],
        },
        PartKind {
            kind: "input_audio",
            members: &["input_audio"],
            inner: &[Inner { name: "input_audio", members: &["data", "format"] }],
        },
    ],
};
const TEXT: &[&str] = &["text", "annotations", "logprobs", "cache_control", BREAKPOINT];

impl<'a> PartIn<'a> {
    fn take_mark(&mut self) -> Option<Json<'a>> {
        cache_mark(self.cache_control.take(), self.prompt_cache_breakpoint.take())
    }
}

#[derive(Deserialize)]
struct AudioIn<'a> {
    #[serde(borrow)]
    data: JsonStr<'a>,
    format: Option<JsonStr<'a>>,
}

/// The texts of a reasoning item's `summary` or `content`, joined by blank lines.
fn joined_texts<'a>(list: Option<&Json<'a>>, at: fmt::Arguments<'_>) -> Result<Cow<'a, str>, Error> {
    let Some(list) = list.filter(|json| !json.is_null()) else { return Ok(Cow::Borrowed("")) };
    let expected = "a list of texts";
    let list: Vec<Json<'a>> = reread(list, at, expected)?;
    let mut all = Cow::Borrowed("");
    for json in list {
        let part: PartIn<'a> = reread(&json, at, expected)?;
        match part.text.unwrap_or_default().0 {
            text if text.is_empty() => {}
            text if all.is_empty() => all = text,
            text => all.to_mut().extend(["\n\n", &*text]),
        }
    }
    Ok(all)
}

fn parts<'a>(content: &Json<'a>, at: fmt::Arguments<'_>, into: &mut Vec<Part<'a>>) -> Result<(), Error> {
    let text = source(content)?;
    if let Some(text) = parse_string(text) {
        if !text.is_empty() {
            if into.is_empty() {
                // Most messages have one part.
                into.reserve_exact(1);
            }
            into.push(Part::text(text));
        }
        return Ok(());
    }
    let list: Vec<Json<'a>> = parse(text, at, "a string or a list of parts")?;
    into.reserve(list.len());
    for (index, json) in list.into_iter().enumerate() {
        into.push(part(json, format_args!("{at}[{index}]"))?);
    }
    Ok(())
}

fn part<'a>(json: Json<'a>, at: fmt::Arguments<'_>) -> Result<Part<'a>, Error> {
    let mut input: PartIn<'a> = reread(&json, at, "a part of a message: an object with a type")?;
    let kind = input.kind.clone().unwrap_or_default();
    Ok(match kind.as_ref() {
        "input_text" | "output_text" | "text" => Part::Text {
            text: input.text.take().ok_or_else(|| missing(format_args!("{at}.text")))?.0,
            cache_control: input.take_mark(),
        },
        "refusal" => Part::Refusal(input.refusal.unwrap_or_default().0),
        "input_image" => image(input, at)?,
        "input_file" => file(input, at)?,
        "input_audio" => {
            let audio = input.input_audio.ok_or_else(|| missing(format_args!("{at}.input_audio")))?;
            let format = audio.format.map_or(Cow::Borrowed("wav"), |format| format.0);
            Part::Audio { data: audio.data.0, format }
        }
        _ => Part::Other { kind: kind.0, json },
    })
}

fn image<'a>(mut input: PartIn<'a>, at: fmt::Arguments<'_>) -> Result<Part<'a>, Error> {
    let cache_control = input.take_mark();
    let url = input.image_url.filter(|json| !json.is_null());
    let source = match (url, input.file_id) {
        (Some(url), _) => {
            let at = format_args!("{at}.image_url");
            Source::from_url(
                reread::<JsonStr<'a>>(&url, at, "a URL, or a data: URL with the picture in base64")?.0,
            )
        }
        (None, Some(id)) => Source::Id(id.0),
        (None, None) => return Err(missing(format_args!("{at}.image_url"))),
    };
    let detail = input.detail.map(|text| text.0);
    Ok(Part::Image(Box::new(Image { source, detail, cache_control })))
}

fn file<'a>(mut input: PartIn<'a>, at: fmt::Arguments<'_>) -> Result<Part<'a>, Error> {
    let cache_control = input.take_mark();
    let source = match (input.file_data, input.file_url, input.file_id) {
        (Some(data), _, _) => match Source::from_url(data.0) {
            // Bare base64 is a PDF, as in chat completions.
            Source::Url { url, .. } => {
                Source::Data { media_type: Cow::Borrowed("application/pdf"), data: url }
            }
            source => source,
        },
        (None, Some(url), _) => Source::from_url(url.0),
        (None, None, Some(id)) => Source::Id(id.0),
        (None, None, None) => return Err(missing(format_args!("{at}.file_data"))),
    };
    let name = input.filename.map(|text| text.0);
    Ok(Part::File(Box::new(File { source, name, cache_control, has_citations: false })))
}
