//! ConverseStream's events, told as ours; and its exception frames, which are failures.

use super::super::SERVER_RESULT;
use super::citations::Citations;
use super::finish;
use super::shapes::{Beside, Block, ServerCall, ServerResult, TokenUsage, ToolResult, ToolUse, tell_block};
use crate::api::chat::{Event, EventSink, Json, ProviderError, Start, Text};
use aws_smithy_types::event_stream::Message;
use serde::Deserialize;

/// The most that is held of blocks that can only be told once they are whole, bytes.
const MOST_HELD: usize = 32 << 20;
/// Blocks open at a time: Bedrock has one.
const MOST_OPEN: usize = 64;

/// The state of one stream.
#[derive(Debug, Default)]
pub struct Stream {
    started: bool,
    /// The answer has been told to its end.
    ended: bool,
    calls: u32,
    open: Vec<(u64, Open)>,
    held: usize,
    /// The block the last text belonged to.
    text_block: Option<u64>,
    citations: Citations,
}

/// A block that was started and not stopped.
#[derive(Debug)]
enum Open {
    /// One of the caller's tools is called, the so-many-th.
    Call(u32),
    /// A tool of Bedrock's own is called.
    ServerCall {
        id: String,
        name: String,
        input: String,
    },
    /// What such a tool brought: a JSON list without its end.
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
    stop_reason: Option<Text<'a>>,
    usage: Option<TokenUsage>,
}

impl Stream {
    /// Takes one frame.
    ///
    /// # Errors
    /// The failure it tells of, or that it cannot be read.
    pub fn take(&mut self, frame: &Message, tell: EventSink<'_>) -> Result<(), ProviderError> {
        let event = match header(frame, ":message-type") {
            Some("event") => header(frame, ":event-type"),
            Some("exception" | "error") => return Err(failure(frame)),
            _ => None,
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
            tell(Event::Start(Start::default()));
        }
        let index = payload.content_block_index.unwrap_or_default();
        match event {
            "messageStart" => {}
            "contentBlockStart" => self.start(index, &read(payload.start, event)?, tell)?,
            "contentBlockDelta" => self.delta(index, &read(payload.delta, event)?, tell)?,
            "contentBlockStop" => self.stop(index, tell),
            "messageStop" => {
                let reason = payload.stop_reason.ok_or_else(|| malformed(event))?;
                let finish = finish(&reason)?;
                self.citations.finish(tell);
                beside(text, tell);
                tell(Event::Finish { choice: 0, reason: finish, native: &reason });
            }
            // The last one: usage comes after the stop.
            "metadata" => {
                beside(text, tell);
                if let Some(usage) = payload.usage {
                    tell(Event::Usage(usage.usage()));
                }
                self.ended = true;
                tell(Event::End);
            }
            // What Bedrock may add.
            _ => {}
        }
        Ok(())
    }

    fn start(&mut self, index: u64, block: &Block<'_>, tell: EventSink<'_>) -> Result<(), ProviderError> {
        let open = if let Some(call) = &block.tool_use {
            self.call(call, tell)?
        } else if let Some(json) = &block.tool_result {
            let result: ToolResult<'_> = json.read().ok_or_else(|| malformed("contentBlockStart"))?;
            Open::ServerResult {
                kind: result.kind.as_deref().unwrap_or(SERVER_RESULT).to_owned(),
                id: result.tool_use_id.as_deref().unwrap_or_default().to_owned(),
                status: result.status.as_deref().map(str::to_owned),
                content: String::from("["),
            }
        } else if let Some(image) = &block.image {
            let format = image.format.as_deref().unwrap_or("png").to_owned();
            Open::Image { format, data: String::new() }
        } else {
            return Ok(());
        };
        self.open.retain(|(known, _)| *known != index);
        if self.open.len() >= MOST_OPEN {
            return Err(ProviderError::unreadable("it has too many content blocks open at a time"));
        }
        self.open.push((index, open));
        Ok(())
    }

    fn call(&mut self, call: &ToolUse<'_>, tell: EventSink<'_>) -> Result<Open, ProviderError> {
        let name = call.name.as_deref().ok_or_else(|| malformed("contentBlockStart"))?;
        let id = call.tool_use_id.as_deref().unwrap_or_default();
        if call.is_servers() {
            return Ok(Open::ServerCall { id: id.to_owned(), name: name.to_owned(), input: String::new() });
        }
        let index = self.calls;
        self.calls += 1;
        tell(Event::ToolCall { choice: 0, index, id, name, signature: None });
        Ok(Open::Call(index))
    }

    fn delta(&mut self, index: u64, delta: &Block<'_>, tell: EventSink<'_>) -> Result<(), ProviderError> {
        if let Some(text) = &delta.text {
            if self.text_block.replace(index) != Some(index) {
                self.citations.begin();
            }
            self.citations.count(text);
            if !text.is_empty() {
                tell(Event::Text { choice: 0, text });
            }
        }
        if let Some(thinking) = &delta.reasoning_content {
            thinking.tell(tell);
        }
        if let Some(citation) = &delta.citation {
            self.citations.take(citation, tell);
        }
        if let Some(input) = delta.tool_use.as_ref().and_then(|call| call.input.as_ref()) {
            self.input(index, input, tell)?;
        }
        if let Some(pieces) = &delta.tool_result {
            self.hold(pieces.get().len())?;
            let pieces: Vec<Json<'_>> = pieces.read().ok_or_else(|| malformed("contentBlockDelta"))?;
            let Some(Open::ServerResult { content, .. }) = self.opened(index) else { return Err(stray()) };
            for piece in pieces {
                if content.len() > 1 {
                    content.push(',');
                }
                content.push_str(piece.get());
            }
        }
        if let Some(image) = &delta.image {
            self.hold(image.bytes().len())?;
            let Some(Open::Image { data, .. }) = self.opened(index) else { return Err(stray()) };
            data.push_str(image.bytes());
        }
        Ok(())
    }

    /// A piece of a call's arguments.
    fn input(&mut self, index: u64, input: &Json<'_>, tell: EventSink<'_>) -> Result<(), ProviderError> {
        let fragment = input.text();
        // A string by the book; an object is taken as it stands.
        let fragment = fragment.as_deref().unwrap_or_else(|| input.get());
        if matches!(self.opened(index), Some(Open::ServerCall { .. })) {
            self.hold(fragment.len())?;
        }
        match self.opened(index) {
            Some(Open::Call(call)) => {
                let call = *call;
                if !fragment.is_empty() {
                    tell(Event::Arguments { choice: 0, index: call, fragment });
                }
                Ok(())
            }
            Some(Open::ServerCall { input, .. }) => {
                input.push_str(fragment);
                Ok(())
            }
            _ => Err(stray()),
        }
    }

    fn stop(&mut self, index: u64, tell: EventSink<'_>) {
        let Some(at) = self.open.iter().position(|(known, _)| *known == index) else { return };
        match self.open.swap_remove(at).1 {
            Open::Call(_) => {}
            Open::ServerCall { id, name, input } => {
                let input = Json::parse(&input).unwrap_or_else(|| Json::from_value(&serde_json::Map::new()));
                tell_block(&ServerCall::new(&id, &name, &input), tell);
            }
            Open::ServerResult { kind, id, status, mut content } => {
                content.push(']');
                if let Some(content) = Json::parse(&content) {
                    let (kind, tool_use_id) = (kind.as_str(), id.as_str());
                    let told =
                        ServerResult { kind, tool_use_id, content: &content, status: status.as_deref() };
                    tell_block(&told, tell);
                }
            }
            Open::Image { format, data } => {
                if !data.is_empty() {
                    let media_type = format!("image/{format}");
                    tell(Event::Media { choice: 0, media_type: &media_type, data: &data });
                }
            }
        }
    }

    fn opened(&mut self, index: u64) -> Option<&mut Open> {
        self.open.iter_mut().find(|(known, _)| *known == index).map(|(_, open)| open)
    }

    fn hold(&mut self, more: usize) -> Result<(), ProviderError> {
        self.held = self.held.saturating_add(more);
        if self.held > MOST_HELD {
            return Err(ProviderError::unreadable("its pictures and tool results are over 32 MiB"));
        }
        Ok(())
    }
}

fn read<'a>(json: Option<Json<'a>>, event: &str) -> Result<Block<'a>, ProviderError> {
    let text = json.as_ref().and_then(Json::source).ok_or_else(|| malformed(event))?;
    serde_json::from_str(text).map_err(|_| malformed(event))
}

fn beside(text: &str, tell: EventSink<'_>) {
    if let Ok(beside) = serde_json::from_str::<Beside<'_>>(text) {
        beside.tell(tell);
    }
}

fn malformed(event: &str) -> ProviderError {
    let event: String = event.chars().filter(char::is_ascii_alphanumeric).take(40).collect();
    ProviderError::unreadable(&format!("a frame of the kind {event} is malformed"))
}

fn stray() -> ProviderError {
    ProviderError::unreadable("it goes on with a content block that was never started")
}

fn header<'a>(frame: &'a Message, name: &str) -> Option<&'a str> {
    let header = frame.headers().iter().find(|header| header.name().as_str() == name)?;
    header.value().as_string().ok().map(|text| text.as_str())
}

/// What an exception frame (`:exception-type`, the text in its payload) or an error frame (`:error-code`,
/// `:error-message`) says went wrong.
fn failure(frame: &Message) -> ProviderError {
    let kind = header(frame, ":exception-type").or_else(|| header(frame, ":error-code")).unwrap_or_default();
    let status = status(kind);
    let mut fault = match header(frame, ":error-message") {
        Some(message) if !message.is_empty() => ProviderError::new(status, message),
        _ => ProviderError::read(status, frame.payload()),
    };
    // A failing model's own words.
    if let Ok(more) = serde_json::from_slice::<Original>(frame.payload())
        && let Some(original) = more.original_message.filter(|original| !fault.message.contains(original))
    {
        fault.message = format!("{} {original}", fault.message);
    }
    if !kind.is_empty() {
        fault.code = Some(kind.to_owned());
    }
    fault
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Original {
    original_message: Option<String>,
}

/// The status the exception has when it is answered with one.
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
