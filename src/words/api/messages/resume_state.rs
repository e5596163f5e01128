//! The state of an Anthropic stream that was passed through: whether it started, and which block is open. Only what
//! an encoder needs to continue it; the content is decoded elsewhere.

use super::blocks::{Extent, Open};
use super::wire::{AnthropicBlock, AnthropicDelta, AnthropicEvent, AnthropicMessage};
use crate::api::chat::{Event, Start};
use crate::api::sse::SseParser;
use crate::api::usage::UsageParts;
use crate::json::Json;
use bytes::Bytes;

/// The state of a stream after its last sent event.
#[derive(Debug, Default)]
pub(super) struct ResumeState {
    /// `message_start` was sent.
    pub started: bool,
    /// The index of the open block, or else of the next.
    pub index: u32,
    pub open: Option<Open>,
    /// The first `message_start`, JSON text.
    message: Option<String>,
    /// The number of calls of client tools so far.
    calls: u32,
    /// A block of unknown type is open.
    unknown_block_open: bool,
    ended: bool,
}

impl ResumeState {
    /// Reads the sent bytes; `None` when the stream cannot be continued.
    pub(crate) fn from_sent(sent: &[Bytes]) -> Option<Self> {
        let mut state = Self::default();
        let mut parser = SseParser::default();
        for bytes in sent {
            let run = parser.push(bytes);
            if run.is_oversized() {
                return None;
            }
            run.data().for_each(|data| state.take(&data));
        }
        (!state.ended && !state.unknown_block_open).then_some(state)
    }

    /// Emits the events that the envelope of the message needs.
    pub fn emit(&self, sink: &mut dyn FnMut(&Event<'_>)) {
        let read = |json| serde_json::from_str::<AnthropicMessage<'_>>(json).ok();
        if let Some(AnthropicMessage { id, model, usage, .. }) = self.message.as_deref().and_then(read) {
            sink(&Event::Start(Start { id: id.as_deref(), model: model.as_deref(), created: None }));
            if let Some(usage) = usage.and_then(|usage| UsageParts::read(usage.get().as_bytes())?.usage()) {
                sink(&Event::Usage(usage));
            }
        }
        if self.calls > 0 {
            sink(&Event::ToolCall { choice: 0, index: 0, id: "", name: "", signature: None });
        }
    }

    fn take(&mut self, data: &[u8]) {
        let Ok(event) = serde_json::from_slice::<AnthropicEvent<'_>>(data) else {
            // Not an event of this dialect.
            return self.ended = true;
        };
        let index = event.index.and_then(|index| u32::try_from(index).ok());
        match &*event.kind {
            "message_start" => {
                self.started = true;
                self.message = event.message.map(|message| message.get().to_owned());
            }
            "content_block_start" => {
                self.index = index.unwrap_or(self.index);
                self.begin_block(event.content_block.as_ref().and_then(Json::read));
            }
            "content_block_delta" => self.delta(event.delta),
            "content_block_stop" => {
                self.index = index.unwrap_or(self.index).saturating_add(1);
                self.open = None;
                self.unknown_block_open = false;
            }
            "message_delta" | "message_stop" | "error" => self.ended = true,
            _ => {}
        }
    }

    fn begin_block(&mut self, block: Option<AnthropicBlock<'_>>) {
        self.open = match block.and_then(|block| block.kind).as_deref() {
            Some("text") => Some(Open::Text { cited: false }),
            Some("thinking") => Some(Open::Thinking { signature: String::new() }),
            Some("tool_use") => {
                self.calls += 1;
                Some(Open::Call { index: self.calls - 1, input: Extent::default() })
            }
            _ => None,
        };
        self.unknown_block_open = self.open.is_none();
    }

    fn delta(&mut self, delta: Option<AnthropicDelta<'_>>) {
        let Some(delta) = delta else { return };
        match (delta.kind.as_deref(), &mut self.open) {
            (Some("citations_delta"), Some(Open::Text { cited })) => *cited = true,
            (Some("input_json_delta"), Some(Open::Call { input, .. })) => {
                input.scan(delta.partial_json.as_deref().unwrap_or_default());
            }
            _ => {}
        }
    }
}
