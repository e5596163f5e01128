//! Encodes a streamed response as Anthropic's event sequence: `message_start`, each block's start, deltas and stop,
//! `message_delta` with the stop reason and the usage, `message_stop`.
//!
//! The last two are written when the response is complete, because providers send their usage after the finish
//! reason. No `ping` events: keeping the connection alive is not the encoder's task.

use super::blocks::{Blocks, Step};
use super::envelope::Envelope;
use super::resume_state::ResumeState;
use super::vocabulary::UsageOut;
use super::wire::{BlockOut, DeltaOut};
use crate::api::Dialect;
use crate::api::chat::{EncodeContext, Encoder, Event, ProviderError};
use crate::api::sse::write_event;
use crate::json::Json;
use serde::Serialize;

/// Encodes one stream.
#[derive(Debug)]
pub(super) struct Stream {
    envelope: Envelope,
    blocks: Blocks,
    events: Events,
    started: bool,
}

impl Stream {
    pub(super) fn new(context: EncodeContext) -> Self {
        let blocks = Blocks::new(context.strict);
        let events = Events::default();
        Self { envelope: Envelope::new(context), blocks, events, started: false }
    }

    /// Continues a stream that was passed through until `state`.
    pub(super) fn resumed(context: EncodeContext, state: ResumeState) -> Self {
        let mut envelope = Envelope::new(context);
        state.emit(&mut |event| envelope.take(event));
        let ResumeState { started, index, open, .. } = state;
        let mut blocks = Blocks::new(envelope.is_strict());
        blocks.resume(open);
        Self { envelope, blocks, events: Events { index, data: Vec::new() }, started }
    }

    fn start(&mut self, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        self.envelope.estimate_input();
        let id = self.envelope.id();
        let message = MessageOut {
            id: &id,
            kind: "message",
            role: "assistant",
            model: self.envelope.model(),
            content: [],
            stop_reason: None,
            stop_sequence: None,
            usage: self.envelope.usage(),
        };
        self.events.put(&Out::MessageStart { message }, out);
    }
}

impl Encoder for Stream {
    fn write(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        self.envelope.take(event);
        // Nothing is written yet: usage that follows the start (Anthropic's first counts) becomes part of
        // `message_start`.
        if matches!(event, Event::Start(_)) {
            return;
        }
        self.start(out);
        let events = &mut self.events;
        self.blocks.take(event, &mut |step| events.step(step, out));
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        self.start(out);
        let events = &mut self.events;
        let id = self.envelope.id();
        self.blocks.end(&id, &mut |step| events.step(step, out));
        self.events.end(&self.envelope, out);
    }

    fn fail(&mut self, error: &ProviderError, out: &mut Vec<u8>) {
        error.event(Dialect::Anthropic, None, 0, out);
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Out<'a> {
    MessageStart { message: MessageOut<'a> },
    ContentBlockStart { index: u32, content_block: BlockOut<'a> },
    ContentBlockDelta { index: u32, delta: DeltaOut<'a> },
    ContentBlockStop { index: u32 },
    MessageStop,
}

#[derive(Serialize)]
struct MessageOut<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    role: &'static str,
    model: &'a str,
    content: [u8; 0],
    stop_reason: Option<&'static str>,
    stop_sequence: Option<&'static str>,
    usage: UsageOut,
}

impl Out<'_> {
    const fn name(&self) -> &'static str {
        match self {
            Self::MessageStart { .. } => "message_start",
            Self::ContentBlockStart { .. } => "content_block_start",
            Self::ContentBlockDelta { .. } => "content_block_delta",
            Self::ContentBlockStop { .. } => "content_block_stop",
            Self::MessageStop => "message_stop",
        }
    }
}

/// Writes events and counts blocks.
#[derive(Debug, Default)]
struct Events {
    /// The index of the open block, or else of the next.
    index: u32,
    /// The data of one event; the buffer is reused.
    data: Vec<u8>,
}

impl Events {
    fn put(&mut self, event: &Out<'_>, out: &mut Vec<u8>) {
        self.data.clear();
        // Strings, numbers and JSON texts always serialize.
        let _ = serde_json::to_writer(&mut self.data, event);
        write_event(out, Some(event.name()), &self.data);
    }

    fn open(&mut self, content_block: BlockOut<'_>, out: &mut Vec<u8>) {
        self.put(&Out::ContentBlockStart { index: self.index, content_block }, out);
    }

    fn delta(&mut self, delta: DeltaOut<'_>, out: &mut Vec<u8>) {
        self.put(&Out::ContentBlockDelta { index: self.index, delta }, out);
    }

    fn stop(&mut self, out: &mut Vec<u8>) {
        self.put(&Out::ContentBlockStop { index: self.index }, out);
        self.index += 1;
    }

    fn step(&mut self, step: Step<'_>, out: &mut Vec<u8>) {
        match step {
            Step::OpenText => self.open(BlockOut::Text { text: "", citations: &[] }, out),
            Step::OpenThinking => self.open(BlockOut::Thinking { thinking: "", signature: "" }, out),
            Step::OpenTool { id, name } => {
                let input = Json::parse("{}").unwrap_or_else(Json::null);
                self.open(BlockOut::ToolUse { id, name, input }, out);
            }
            Step::Text(text) => self.delta(DeltaOut::TextDelta { text }, out),
            Step::Thinking(thinking) => self.delta(DeltaOut::ThinkingDelta { thinking }, out),
            Step::Signature(signature) => self.delta(DeltaOut::SignatureDelta { signature }, out),
            Step::Input(partial_json) => self.delta(DeltaOut::InputJsonDelta { partial_json }, out),
            Step::Citation(citation) => {
                if let Some(citation) = Json::parse(citation) {
                    self.delta(DeltaOut::CitationsDelta { citation }, out);
                }
            }
            Step::Close => self.stop(out),
            Step::Block(json) => self.block(json, out),
        }
    }

    /// Writes a block in one step. A server-side tool call gets its input as a delta, as Anthropic sends it: clients
    /// that assemble the input from deltas would otherwise append to the input of the start.
    fn block(&mut self, json: &str, out: &mut Vec<u8>) {
        self.data.clear();
        self.data.extend_from_slice(b"{\"type\":\"content_block_start\",\"index\":");
        self.data.extend_from_slice(self.index.to_string().as_bytes());
        self.data.extend_from_slice(b",\"content_block\":");
        let input = put_without_input(json, &mut self.data);
        self.data.push(b'}');
        write_event(out, Some("content_block_start"), &self.data);
        if let Some(partial_json) = input {
            self.delta(DeltaOut::InputJsonDelta { partial_json: &partial_json }, out);
        }
        self.stop(out);
    }

    /// Writes `message_delta` and `message_stop`.
    fn end(&mut self, envelope: &Envelope, out: &mut Vec<u8>) {
        #[derive(Serialize)]
        struct Delta<'a> {
            stop_reason: &'static str,
            stop_sequence: Option<&'a str>,
        }
        let delta = Delta { stop_reason: envelope.stop_reason(), stop_sequence: envelope.stop_sequence() };
        self.data.clear();
        self.data.extend_from_slice(b"{\"type\":\"message_delta\",\"delta\":");
        // Strings and numbers always serialize.
        let _ = serde_json::to_writer(&mut self.data, &delta);
        self.data.pop();
        envelope.write_members(Some(true), &mut self.data);
        self.data.extend_from_slice(b"},\"usage\":");
        let _ = serde_json::to_writer(&mut self.data, &envelope.usage());
        envelope.write_members(Some(false), &mut self.data);
        self.data.push(b'}');
        write_event(out, Some("message_delta"), &self.data);
        self.put(&Out::MessageStop, out);
    }
}

/// Writes a block. A call (`server_tool_use`, `mcp_tool_use`) is written with an empty `input`, and its input is
/// returned.
fn put_without_input(json: &str, out: &mut Vec<u8>) -> Option<String> {
    let members = Json::members(json).unwrap_or_default();
    let is_call = members
        .iter()
        .any(|(name, value)| name == "type" && value.text().is_some_and(|kind| kind.ends_with("tool_use")));
    let input = members.iter().find(|(name, _)| name == "input");
    let Some((_, input)) = input.filter(|(_, input)| is_call && input.is_object() && input.get() != "{}")
    else {
        out.extend_from_slice(json.as_bytes());
        return None;
    };
    for (count, (name, value)) in members.iter().enumerate() {
        out.push(if count == 0 { b'{' } else { b',' });
        // Writing a string into a Vec cannot fail.
        let _ = serde_json::to_writer(&mut *out, name.as_ref());
        out.push(b':');
        out.extend_from_slice(if name == "input" { b"{}" } else { value.get().as_bytes() });
    }
    out.push(b'}');
    Some(input.get().to_owned())
}
