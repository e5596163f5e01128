//! A streamed chat completion: events in, chunks out.
//!
//! The finish chunk is held back until `close`: some providers send their usage only after the finish
//! reason, and a finish that was already sent could not be withdrawn if the stream broke.

use super::usage::UsageOut;
use super::{functions, is_standard, omission_note};
use crate::api::Dialect;
use crate::api::chat::{EncodeContext, Encoder, Event, Finish, ProviderError};
use crate::api::usage::Usage;
use crate::json::write::{ObjectWriter, write_string};
use serde::Serialize;
use std::io::Write;

/// Encodes one stream.
#[derive(Debug)]
pub(super) struct Stream {
    context: EncodeContext,
    /// A call is a `function_call`.
    uses_functions: bool,
    /// The part of each chunk before the choice's index, the same in every chunk: `data:
    /// {"id":..,"choices":[`.
    chunk_prefix: Vec<u8>,
    choices: Vec<ChoiceState>,
    usage: Option<Usage>,
    /// Further members for the last chunk: name and JSON text.
    members: Vec<(String, String)>,
    events: u64,
}

/// What a tool call begins with; its arguments follow.
struct CallHead<'a> {
    index: u32,
    id: &'a str,
    name: &'a str,
    signature: Option<&'a str>,
}

/// The state of one choice.
#[derive(Debug, Default)]
struct ChoiceState {
    started: bool,
    finish: Option<(Finish, String)>,
    /// Number of content blocks started, for clients that allow more than the standard.
    blocks: u32,
    open: OpenBlock,
    /// Annotations that are held back, separated by commas. OpenAI sends all of them in one delta, and its SDK cannot
    /// join lists of several deltas whose members have no `index`.
    annotations: String,
    /// Number of images written, which are members with an `index`.
    images: u32,
}

/// The kind of the current content block.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum OpenBlock {
    #[default]
    None,
    Text,
    Thinking,
}

/// More choices than any request has.
const MAX_CHOICES: usize = 128;
/// The maximum of annotations held back for a choice, in bytes. Beyond it they are written before the end.
const MAX_ANNOTATIONS: usize = 256 << 10;

#[derive(Serialize)]
struct ChunkHeader<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'a str>,
}

impl Stream {
    pub fn new(context: EncodeContext) -> Self {
        Self {
            uses_functions: functions::are_used(&context),
            context,
            chunk_prefix: Vec::new(),
            choices: Vec::new(),
            usage: None,
            members: Vec::new(),
            events: 0,
        }
    }

    /// Fixes id, model and time for the whole stream: the provider's values from the start, or else our own.
    fn ensure_prefix(&mut self, id: Option<&str>, model: Option<&str>, created: Option<u64>) {
        if !self.chunk_prefix.is_empty() {
            return;
        }
        let generated_id = format!("chatcmpl-{}", self.context.id);
        let header = ChunkHeader {
            id: id.filter(|id| !id.is_empty()).unwrap_or(&generated_id),
            object: "chat.completion.chunk",
            created: created.unwrap_or(self.context.created),
            model: model.filter(|model| !model.is_empty()).unwrap_or(&self.context.model),
            provider: Some(self.context.provider).filter(|_| !self.context.strict),
        };
        self.chunk_prefix.extend_from_slice(b"data: ");
        json(&mut self.chunk_prefix, &header);
        self.chunk_prefix.pop();
        self.chunk_prefix.extend_from_slice(br#","choices":["#);
    }

    /// Writes a chunk with one choice; `delta` writes the members of its delta.
    fn chunk(&mut self, choice: u32, out: &mut Vec<u8>, delta: impl FnOnce(&mut Vec<u8>)) {
        self.open_choice(choice, out);
        self.write_chunk(choice, out, delta);
    }

    fn write_chunk(&mut self, choice: u32, out: &mut Vec<u8>, delta: impl FnOnce(&mut Vec<u8>)) {
        self.events += 1;
        out.extend_from_slice(&self.chunk_prefix);
        index(out, choice);
        out.extend_from_slice(br#","delta":{"#);
        delta(out);
        out.extend_from_slice(b"},\"finish_reason\":null}]}\n\n");
    }

    /// The first chunk of a choice carries the role.
    fn open_choice(&mut self, choice: u32, out: &mut Vec<u8>) {
        self.ensure_prefix(None, None, None);
        if std::mem::replace(&mut self.choice_state(choice).started, true) {
            return;
        }
        self.write_chunk(choice, out, |out| out.extend_from_slice(br#""role":"assistant","content":"""#));
    }

    fn choice_state(&mut self, choice: u32) -> &mut ChoiceState {
        let at = (choice as usize).min(MAX_CHOICES - 1);
        if self.choices.len() <= at {
            self.choices.resize_with(at + 1, ChoiceState::default);
        }
        #[expect(clippy::indexing_slicing, reason = "the vector has this index by now")]
        &mut self.choices[at]
    }

    /// The index of the content block for content of this `kind`: a new block if the current one is of
    /// another kind.
    fn block(&mut self, choice: u32, kind: OpenBlock) -> u32 {
        let state = self.choice_state(choice);
        if state.open != kind || kind == OpenBlock::None {
            state.open = kind;
            state.blocks += 1;
        }
        state.blocks.saturating_sub(1)
    }

    /// One delta of text under `name`; unless strict, the same chunk also carries it as a content block.
    fn text_delta(&mut self, choice: u32, name: &str, text: &str, kind: OpenBlock, out: &mut Vec<u8>) {
        let block = if self.context.strict { None } else { Some(self.block(choice, kind)) };
        self.chunk(choice, out, |out| {
            member(out, name, text);
            if let Some(block) = block {
                let key = if kind == OpenBlock::Thinking { "thinking" } else { "text" };
                let _ = write!(out, r#","content_blocks":[{{"index":{block},"delta":{{"#);
                member(out, key, text);
                out.extend_from_slice(b"}}]");
            }
        });
    }

    /// A content block that the standard has no member for: written only unless strict.
    fn block_only(
        &mut self,
        choice: u32,
        kind: OpenBlock,
        out: &mut Vec<u8>,
        delta: impl FnOnce(&mut Vec<u8>),
    ) {
        if self.context.strict {
            return;
        }
        let block = self.block(choice, kind);
        self.chunk(choice, out, |out| {
            let _ = write!(out, r#""content_blocks":[{{"index":{block},"delta":"#);
            delta(out);
            out.extend_from_slice(b"}]");
        });
    }

    fn tool_call(&mut self, choice: u32, head: CallHead<'_>, out: &mut Vec<u8>) {
        let CallHead { index, id, name, signature } = head;
        let signature = signature.filter(|_| !self.context.strict);
        self.choice_state(choice).open = OpenBlock::None;
        if self.uses_functions {
            if index == 0 {
                self.chunk(choice, out, |out| {
                    out.extend_from_slice(br#""function_call":{"#);
                    member(out, "name", name);
                    out.extend_from_slice(br#","arguments":""}"#);
                });
            }
            return;
        }
        self.chunk(choice, out, |out| {
            let _ = write!(out, r#""tool_calls":[{{"index":{index},"#);
            member(out, "id", id);
            out.extend_from_slice(br#","type":"function","function":{"#);
            member(out, "name", name);
            out.extend_from_slice(br#","arguments":"""#);
            if let Some(signature) = signature {
                out.push(b',');
                member(out, "thought_signature", signature);
            }
            out.extend_from_slice(b"}}]");
        });
    }

    fn arguments(&mut self, choice: u32, index: u32, fragment: &str, out: &mut Vec<u8>) {
        let is_function = self.uses_functions;
        if is_function && index > 0 {
            return;
        }
        self.chunk(choice, out, |out| {
            if is_function {
                out.extend_from_slice(br#""function_call":{"#);
            } else {
                let _ = write!(out, r#""tool_calls":[{{"index":{index},"function":{{"#);
            }
            member(out, "arguments", fragment);
            out.extend_from_slice(if is_function { b"}" } else { b"}}]" });
        });
    }

    fn annotation(&mut self, choice: u32, json: &str, out: &mut Vec<u8>) {
        let held = &mut self.choice_state(choice).annotations;
        if !held.is_empty() {
            held.push(',');
        }
        held.push_str(json);
        if held.len() > MAX_ANNOTATIONS {
            self.write_annotations(choice, out);
        }
    }

    fn write_annotations(&mut self, choice: u32, out: &mut Vec<u8>) {
        let held = std::mem::take(&mut self.choice_state(choice).annotations);
        if !held.is_empty() {
            self.chunk(choice, out, |out| {
                let _ = write!(out, r#""annotations":[{held}]"#);
            });
        }
    }

    /// The index of the next image; audio has none.
    fn image_index(&mut self, choice: u32, media_type: &str) -> u32 {
        let images = &mut self.choice_state(choice).images;
        if !media_type.starts_with("audio/") {
            *images += 1;
        }
        images.saturating_sub(1)
    }

    fn finish_choice(&mut self, choice: u32, out: &mut Vec<u8>, usage: Option<Usage>) {
        self.open_choice(choice, out);
        self.write_annotations(choice, out);
        let Some((reason, native)) = self.choice_state(choice).finish.take() else { return };
        self.events += 1;
        out.extend_from_slice(&self.chunk_prefix);
        index(out, choice);
        let reason = functions::finish_reason(reason, self.uses_functions);
        let _ = write!(out, r#","delta":{{}},"finish_reason":"{reason}""#);
        if !self.context.strict && !native.is_empty() {
            out.push(b',');
            member(out, "native_finish_reason", &native);
        }
        out.extend_from_slice(b"}]");
        if let Some(usage) = usage {
            out.extend_from_slice(br#","usage":"#);
            json(out, &UsageOut::new(usage, self.context.strict));
        }
        for (name, value) in std::mem::take(&mut self.members) {
            out.push(b',');
            write_string(out, &name);
            out.push(b':');
            out.extend_from_slice(value.as_bytes());
        }
        out.extend_from_slice(b"}\n\n");
    }
}

impl Encoder for Stream {
    fn has_refusals(&self) -> bool {
        true
    }

    fn write(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        match *event {
            Event::Start(start) => self.ensure_prefix(start.id, start.model, start.created),
            Event::Text { choice, text } => self.text_delta(choice, "content", text, OpenBlock::Text, out),
            // The role is sent, so that the client sees the stream begin.
            Event::Reasoning { choice, .. } if self.context.is_bare() => self.open_choice(choice, out),
            Event::Reasoning { choice, text } => {
                self.text_delta(choice, "reasoning_content", text, OpenBlock::Thinking, out);
            }
            Event::Refusal { choice, text } => self.chunk(choice, out, |out| member(out, "refusal", text)),
            Event::Signature { choice, signature } => {
                self.block_only(choice, OpenBlock::Thinking, out, |out| object(out, "signature", signature));
                self.choice_state(choice).open = OpenBlock::None;
            }
            Event::Redacted { choice, data } => {
                self.block_only(choice, OpenBlock::None, out, |out| object(out, "data", data));
            }
            Event::Block { choice, json } => {
                self.block_only(choice, OpenBlock::None, out, |out| out.extend_from_slice(json.as_bytes()));
            }
            Event::ToolCall { choice, index, id, name, signature } => {
                let head = CallHead { index, id, name, signature };
                self.tool_call(choice, head, out);
            }
            Event::Arguments { choice, index, fragment } => {
                self.arguments(choice, index, fragment, out);
            }
            Event::Media { choice, media_type, data }
                if self.context.is_bare() && !media_type.starts_with("audio/") =>
            {
                let note = omission_note(media_type, data.len());
                self.text_delta(choice, "content", &note, OpenBlock::Text, out);
            }
            Event::Media { choice, media_type, data } => {
                let index = self.image_index(choice, media_type);
                self.chunk(choice, out, |out| media(out, media_type, data, index));
            }
            Event::Annotation { choice, json } => self.annotation(choice, json, out),
            Event::Logprobs { choice, json } => {
                self.open_choice(choice, out);
                self.events += 1;
                out.extend_from_slice(&self.chunk_prefix);
                index(out, choice);
                let _ = write!(out, ",\"delta\":{{}},\"logprobs\":{json},\"finish_reason\":null}}]}}\n\n");
            }
            Event::Finish { choice, reason, native } => {
                self.choice_state(choice).finish = Some((reason, native.to_owned()));
            }
            Event::Usage(usage) => self.usage = Some(usage),
            Event::Member { name, json } => {
                if !self.context.strict || is_standard(name, json) {
                    // The second response of a resumed stream sends the member again.
                    match self.members.iter_mut().find(|(key, _)| key == name) {
                        Some((_, old)) => json.clone_into(old),
                        None => self.members.push((name.to_owned(), json.to_owned())),
                    }
                }
            }
            Event::Error(_) | Event::End => {}
        }
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        self.ensure_prefix(None, None, None);
        let last = self.choices.iter().rposition(|state| state.finish.is_some()).unwrap_or(0);
        for choice in 0..self.choices.len() {
            let with_usage = !self.context.include_usage && choice == last;
            let usage = self.usage.filter(|_| with_usage);
            // Fewer than `MAX_CHOICES`: it fits.
            self.finish_choice(u32::try_from(choice).unwrap_or(0), out, usage);
        }
        if let (true, Some(usage)) = (self.context.include_usage, self.usage) {
            out.extend_from_slice(&self.chunk_prefix);
            out.extend_from_slice(br#"],"usage":"#);
            json(out, &UsageOut::new(usage, self.context.strict));
            out.extend_from_slice(b"}\n\n");
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
    }

    fn fail(&mut self, error: &ProviderError, out: &mut Vec<u8>) {
        error.event(Dialect::OpenAi, Some(self.context.provider), self.events, out);
    }
}

fn index(out: &mut Vec<u8>, choice: u32) {
    let _ = write!(out, r#"{{"index":{choice}"#);
}

/// `"name":"text"`, escaped.
fn member(out: &mut Vec<u8>, name: &str, text: &str) {
    let _ = write!(out, r#""{name}":"#);
    write_string(out, text);
}

/// `{"name":"text"}`.
fn object(out: &mut Vec<u8>, name: &str, text: &str) {
    let mut object = ObjectWriter::open(out);
    object.text(name, text);
    object.close();
}

/// An image as OpenRouter and LiteLLM send it; audio as OpenAI does.
fn media(out: &mut Vec<u8>, media_type: &str, data: &str, index: u32) {
    if media_type.starts_with("audio/") {
        out.extend_from_slice(br#""audio":{"#);
        member(out, "data", data);
        out.push(b'}');
        return;
    }
    out.extend_from_slice(br#""images":[{"type":"image_url","image_url":{"url":""#);
    // Valid base64 and media types need no escapes, but a provider may send something else.
    let plain = |text: &str| !text.bytes().any(|byte| byte == b'"' || byte == b'\\' || byte < 0x20);
    if plain(media_type) && plain(data) {
        let _ = write!(out, "data:{media_type};base64,{data}");
    }
    let _ = write!(out, r#""}},"index":{index}}}]"#);
}

fn json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    // Writing strings and numbers into a Vec cannot fail.
    let _ = serde_json::to_writer(out, value);
}
