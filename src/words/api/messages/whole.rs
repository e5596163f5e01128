//! Encodes an unstreamed response: one `Message` object, written when the response is complete.

use super::blocks::{Blocks, Step};
use super::envelope::Envelope;
use super::vocabulary::UsageOut;
use super::wire::BlockOut;
use crate::api::Dialect;
use crate::api::chat::{EncodeContext, Encoder, Event, ProviderError, ToolCall};
use crate::json::Json;
use serde::Serialize;

/// Collects the events of one response and writes them as one object.
#[derive(Debug)]
pub(super) struct Whole {
    envelope: Envelope,
    blocks: Blocks,
    content: Content,
}

impl Whole {
    pub(super) fn new(context: EncodeContext) -> Self {
        let blocks = Blocks::new(context.strict);
        Self { envelope: Envelope::new(context), blocks, content: Content::default() }
    }
}

impl Encoder for Whole {
    fn write(&mut self, event: &Event<'_>, _out: &mut Vec<u8>) {
        self.envelope.take(event);
        let content = &mut self.content;
        self.blocks.take(event, &mut |step| content.take(step));
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        let content = &mut self.content;
        let id = self.envelope.id();
        self.blocks.end(&id, &mut |step| content.take(step));
        let leading =
            LeadingMembers { id: &id, kind: "message", role: "assistant", model: self.envelope.model() };
        let trailing = TrailingMembers {
            stop_reason: self.envelope.stop_reason(),
            stop_sequence: self.envelope.stop_sequence(),
            usage: self.envelope.usage(),
        };
        // Written in parts: the content may be large and is already JSON.
        put_open(&leading, out);
        out.extend_from_slice(b",\"content\":[");
        out.append(&mut self.content.written);
        out.extend_from_slice(b"],");
        let mut rest = Vec::new();
        put_open(&trailing, &mut rest);
        out.extend_from_slice(rest.strip_prefix(b"{").unwrap_or(&rest));
        self.envelope.write_members(None, out);
        out.push(b'}');
    }

    fn fail(&mut self, error: &ProviderError, out: &mut Vec<u8>) {
        out.extend_from_slice(&error.body(Dialect::Anthropic, None, None));
    }
}

/// Writes an object without its closing brace.
fn put_open<T: Serialize>(value: &T, out: &mut Vec<u8>) {
    // Strings and numbers always serialize.
    let _ = serde_json::to_writer(&mut *out, value);
    out.pop();
}

#[derive(Serialize)]
struct LeadingMembers<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    role: &'static str,
    model: &'a str,
}

#[derive(Serialize)]
struct TrailingMembers<'a> {
    stop_reason: &'static str,
    stop_sequence: Option<&'a str>,
    usage: UsageOut,
}

/// The closed blocks, and the open one.
#[derive(Debug, Default)]
struct Content {
    /// The closed blocks as JSON, separated by commas.
    written: Vec<u8>,
    text: String,
    citations: Vec<String>,
    signature: String,
    tool: Option<(String, String)>,
    kind: Kind,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Kind {
    #[default]
    Text,
    Thinking,
    Tool,
}

impl Content {
    fn take(&mut self, step: Step<'_>) {
        match step {
            Step::OpenText => self.kind = Kind::Text,
            Step::OpenThinking => self.kind = Kind::Thinking,
            Step::OpenTool { id, name } => {
                self.kind = Kind::Tool;
                self.tool = Some((id.to_owned(), name.to_owned()));
            }
            Step::Text(text) | Step::Thinking(text) | Step::Input(text) => self.text.push_str(text),
            Step::Citation(citation) => self.citations.push(citation.to_owned()),
            Step::Signature(signature) => signature.clone_into(&mut self.signature),
            Step::Close => self.close(),
            Step::Block(json) => {
                self.comma();
                self.written.extend_from_slice(json.as_bytes());
            }
        }
    }

    fn comma(&mut self) {
        if !self.written.is_empty() {
            self.written.push(b',');
        }
    }

    fn close(&mut self) {
        self.comma();
        let text = std::mem::take(&mut self.text);
        let citations = std::mem::take(&mut self.citations);
        let signature = std::mem::take(&mut self.signature);
        let citations: Vec<Json<'_>> =
            citations.iter().filter_map(|citation| Json::parse(citation)).collect();
        let tool = self.tool.take().unwrap_or_default();
        let block = match self.kind {
            Kind::Text => BlockOut::Text { text: &text, citations: &citations },
            Kind::Thinking => BlockOut::Thinking { thinking: &text, signature: &signature },
            Kind::Tool => BlockOut::ToolUse { id: &tool.0, name: &tool.1, input: ToolCall::input(&text) },
        };
        // Strings and JSON texts always serialize.
        let _ = serde_json::to_writer(&mut self.written, &block);
    }
}
