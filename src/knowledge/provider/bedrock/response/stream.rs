//! Decodes ConverseStream's events into chat events, and its exception frames into errors.

use super::super::SERVER_RESULT;
use super::citations::Citations;
use super::finish_reason;
use super::shapes::{Block, ResponseExtras, ServerCall, ServerResult, ToolResult, ToolUse, emit_block};
use aws_smithy_types::event_stream::Message;
use serde::Deserialize;
use words::api::chat::{Event, EventSink, ProviderError, Start};
use words::api::usage::VendorUsage;
use words::json::{Json, JsonStr};

/// The most bytes held of blocks that can only be emitted whole.
const MAX_HELD: usize = 32 << 20;
/// The most blocks open at a time; Bedrock opens one.
const MAX_OPEN: usize = 64;

/// The state of one stream.
#[derive(Debug, Default)]
pub(super) struct Stream {
    started: bool,
    /// `metadata`, the last event, was decoded.
    ended: bool,
    calls: u32,
    open_blocks: Vec<(u64, OpenBlock)>,
    held: usize,
    /// The block of the last text.
    text_block: Option<u64>,
    citations: Citations,
}

/// A block that has started and not stopped.
#[derive(Debug)]
enum OpenBlock {
    /// A call of one of the client's tools, with its index among the calls.
    Call(u32),
    /// A call of a tool that Bedrock runs itself.
    ServerCall {
        id: String,
        name: String,
        input: String,
    },
    /// The result of such a tool; `content` is a JSON list that is not closed yet.
    ServerResult {
        kind: String,
        id: String,
        status: Option<String>,
        content: String,
    },
    Image {
        format: String,
        data: String,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payload<'a> {
    content_block_index: Option<u64>,
    #[serde(borrow)]
    start: Option<Json<'a>>,
    delta: Option<Json<'a>>,
    stop_reason: Option<JsonStr<'a>>,
    usage: Option<VendorUsage<'a>>,
}

impl Stream {
    /// Decodes one frame.
    ///
    /// # Errors
    /// The error an exception frame reports, or that the frame cannot be read.
    pub fn take(&mut self, frame: &Message, sink: EventSink<'_>) -> Result<(), ProviderError> {
        let event = match header(frame, ":message-type") {
            Some("exception" | "error") => return Err(provider_error(frame)),
            // Proxies and test servers leave the header out; then the others show what the frame is.
            None if header(frame, ":exception-type").or(header(frame, ":error-code")).is_some() => {
                return Err(provider_error(frame));
            }
            Some("event") | None => header(frame, ":event-type"),
            Some(_) => None,
        };
        let event = event
            .ok_or_else(|| ProviderError::unreadable("an event stream frame does not say what it is"))?;
        if self.ended {
            return Ok(());
        }
        let text = std::str::from_utf8(frame.payload()).map_err(|_| malformed(event))?;
        let payload: Payload<'_> = serde_json::from_str(text).map_err(|_| malformed(event))?;
        if !self.started {
            self.started = true;
            sink(Event::Start(Start::default()));
        }
        let index = payload.content_block_index.unwrap_or_default();
        match event {
            "messageStart" => {}
            "contentBlockStart" => self.start(index, &read(payload.start, event)?, sink)?,
            "contentBlockDelta" => self.delta(index, &read(payload.delta, event)?, sink)?,
            "contentBlockStop" => self.stop(index, sink),
            "messageStop" => {
                let reason = payload.stop_reason.ok_or_else(|| malformed(event))?;
                let finish = finish_reason(&reason)?;
                self.citations.finish(sink);
                emit_extras(text, sink);
                sink(Event::Finish { choice: 0, reason: finish, native: &reason });
            }
            // The last event: usage comes after the stop.
            "metadata" => {
                emit_extras(text, sink);
                if let Some(usage) = payload.usage {
                    sink(Event::Usage(usage.usage().unwrap_or_default()));
                }
                self.ended = true;
                sink(Event::End);
            }
            // Events Bedrock may add.
            _ => {}
        }
        Ok(())
    }

    fn start(&mut self, index: u64, block: &Block<'_>, sink: EventSink<'_>) -> Result<(), ProviderError> {
        let open = if let Some(call) = &block.tool_use {
            self.call(call, sink)?
        } else if let Some(json) = &block.tool_result {
            let result: ToolResult<'_> = json.read().ok_or_else(|| malformed("contentBlockStart"))?;
            OpenBlock::ServerResult {
                kind: result.kind.as_deref().unwrap_or(SERVER_RESULT).to_owned(),
                id: result.tool_use_id.as_deref().unwrap_or_default().to_owned(),
                status: result.status.as_deref().map(str::to_owned),
                content: String::from("["),
            }
        } else if let Some(image) = &block.image {
            let format = image.format.as_deref().unwrap_or("png").to_owned();
            OpenBlock::Image { format, data: String::new() }
        } else {
            return Ok(());
        };
        self.open_blocks.retain(|(open_index, _)| *open_index != index);
        if self.open_blocks.len() >= MAX_OPEN {
            return Err(ProviderError::unreadable("it has too many content blocks open at a time"));
        }
        self.open_blocks.push((index, open));
        Ok(())
    }

    fn call(&mut self, call: &ToolUse<'_>, sink: EventSink<'_>) -> Result<OpenBlock, ProviderError> {
        let name = call.name.as_deref().ok_or_else(|| malformed("contentBlockStart"))?;
        let id = call.tool_use_id.as_deref().unwrap_or_default();
        if call.is_server_tool() {
            return Ok(OpenBlock::ServerCall {
                id: id.to_owned(),
                name: name.to_owned(),
                input: String::new(),
            });
        }
        let index = self.calls;
        self.calls += 1;
        sink(Event::ToolCall { choice: 0, index, id, name, signature: None });
        Ok(OpenBlock::Call(index))
    }

    fn delta(&mut self, index: u64, delta: &Block<'_>, sink: EventSink<'_>) -> Result<(), ProviderError> {
        if let Some(text) = &delta.text {
            if self.text_block.replace(index) != Some(index) {
                self.citations.begin();
            }
            self.citations.count(text);
            if !text.is_empty() {
                sink(Event::Text { choice: 0, text });
            }
        }
        if let Some(thinking) = &delta.reasoning_content {
            thinking.emit(sink);
        }
        if let Some(citation) = &delta.citation {
            self.citations.take(citation, sink);
        }
        if let Some(input) = delta.tool_use.as_ref().and_then(|call| call.input.as_ref()) {
            self.input(index, input, sink)?;
        }
        if let Some(parts) = &delta.tool_result {
            self.hold(parts.get().len())?;
            let parts: Vec<Json<'_>> = parts.read().ok_or_else(|| malformed("contentBlockDelta"))?;
            let Some(OpenBlock::ServerResult { content, .. }) = self.open_block(index) else {
                return Err(unstarted_block());
            };
            for part in parts {
                if content.len() > 1 {
                    content.push(',');
                }
                content.push_str(part.get());
            }
        }
        if let Some(image) = &delta.image {
            self.hold(image.bytes().len())?;
            let Some(OpenBlock::Image { data, .. }) = self.open_block(index) else {
                return Err(unstarted_block());
            };
            data.push_str(image.bytes());
        }
        Ok(())
    }

    /// A fragment of a call's arguments.
    fn input(&mut self, index: u64, input: &Json<'_>, sink: EventSink<'_>) -> Result<(), ProviderError> {
        let fragment = input.text();
        // Documented as a string; an object is taken as its JSON text.
        let fragment = fragment.as_deref().unwrap_or_else(|| input.get());
        if matches!(self.open_block(index), Some(OpenBlock::ServerCall { .. })) {
            self.hold(fragment.len())?;
        }
        match self.open_block(index) {
            Some(OpenBlock::Call(call)) => {
                let call = *call;
                if !fragment.is_empty() {
                    sink(Event::Arguments { choice: 0, index: call, fragment });
                }
                Ok(())
            }
            Some(OpenBlock::ServerCall { input, .. }) => {
                input.push_str(fragment);
                Ok(())
            }
            _ => Err(unstarted_block()),
        }
    }

    fn stop(&mut self, index: u64, sink: EventSink<'_>) {
        let Some(at) = self.open_blocks.iter().position(|(open_index, _)| *open_index == index) else {
            return;
        };
        match self.open_blocks.swap_remove(at).1 {
            OpenBlock::Call(_) => {}
            OpenBlock::ServerCall { id, name, input } => {
                let input = Json::parse(&input).unwrap_or_else(|| Json::from_value(&serde_json::Map::new()));
                emit_block(&ServerCall::new(&id, &name, &input), sink);
            }
            OpenBlock::ServerResult { kind, id, status, mut content } => {
                content.push(']');
                if let Some(content) = Json::parse(&content) {
                    let kind = kind.as_str();
                    let tool_use_id = id.as_str();
                    let result =
                        ServerResult { kind, tool_use_id, content: &content, status: status.as_deref() };
                    emit_block(&result, sink);
                }
            }
            OpenBlock::Image { format, data } => {
                if !data.is_empty() {
                    let media_type = format!("image/{format}");
                    sink(Event::Media { choice: 0, media_type: &media_type, data: &data });
                }
            }
        }
    }

    fn open_block(&mut self, index: u64) -> Option<&mut OpenBlock> {
        self.open_blocks.iter_mut().find(|(open_index, _)| *open_index == index).map(|(_, open)| open)
    }

    fn hold(&mut self, more: usize) -> Result<(), ProviderError> {
        self.held = self.held.saturating_add(more);
        if self.held > MAX_HELD {
            return Err(ProviderError::unreadable("its pictures and tool results are over 32 MiB"));
        }
        Ok(())
    }
}

fn read<'a>(json: Option<Json<'a>>, event: &str) -> Result<Block<'a>, ProviderError> {
    let text = json.as_ref().and_then(Json::source).ok_or_else(|| malformed(event))?;
    serde_json::from_str(text).map_err(|_| malformed(event))
}

fn emit_extras(text: &str, sink: EventSink<'_>) {
    if let Ok(extras) = serde_json::from_str::<ResponseExtras<'_>>(text) {
        extras.emit(sink);
    }
}

fn malformed(event: &str) -> ProviderError {
    let event: String = event.chars().filter(char::is_ascii_alphanumeric).take(40).collect();
    ProviderError::unreadable(&format!("a frame of the kind {event} is malformed"))
}

fn unstarted_block() -> ProviderError {
    ProviderError::unreadable("it goes on with a content block that was never started")
}

fn header<'a>(frame: &'a Message, name: &str) -> Option<&'a str> {
    let header = frame.headers().iter().find(|header| header.name().as_str() == name)?;
    header.value().as_string().ok().map(|text| text.as_str())
}

/// The error in an exception frame (`:exception-type`, the message in the payload) or in an error frame
/// (`:error-code`, `:error-message`).
fn provider_error(frame: &Message) -> ProviderError {
    let kind = header(frame, ":exception-type").or_else(|| header(frame, ":error-code")).unwrap_or_default();
    let status = status(kind);
    let mut error = match header(frame, ":error-message") {
        Some(message) if !message.is_empty() => ProviderError::new(status, message),
        _ => ProviderError::read(status, frame.payload()),
    };
    // The failing model's own message.
    if let Ok(more) = serde_json::from_slice::<Original>(frame.payload())
        && let Some(original) = more.original_message.filter(|original| !error.message.contains(original))
    {
        error.message = format!("{} {original}", error.message);
    }
    if !kind.is_empty() {
        error.code = Some(kind.to_owned());
    }
    error
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Original {
    original_message: Option<String>,
}

/// The HTTP status that Bedrock uses for the exception outside of a stream.
/// Source: <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html>.
fn status(kind: &str) -> u16 {
    match kind.to_ascii_lowercase().trim_end_matches("exception") {
        "validation" | "servicequotaexceeded" | "conflict" => 400,
        "accessdenied" | "expiredtoken" | "unrecognizedclient" => 403,
        "resourcenotfound" => 404,
        "modeltimeout" => 408,
        "modelerror" | "modelstreamerror" => 424,
        "throttling" | "modelnotready" => 429,
        "serviceunavailable" => 503,
        _ => 500,
    }
}
