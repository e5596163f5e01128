//! Orders the events of a response as Anthropic does: one content block after the other, each closed before the
//! next opens.
//!
//! Unstreamed and streamed responses are both written from these steps, so they cannot differ. Other providers may
//! interleave the fragments of several tool calls; events of a later block are held until the call before it is
//! complete. Not here: JSON encoding, except of blocks that are written in one step.
//!
//! Example: `call 0`, `call 1`, `args 1 {}`, `args 0 {}` becomes `OpenTool 0`, `Input {}`, `Close`, `OpenTool 1`,
//! `Input {}`, `Close`: call 1 and its arguments are held until the arguments of call 0 are complete JSON.

use super::block_types::BlockKind;
use super::search_blocks;
use super::wire::BlockOut;
use super::{foreign_id, vocabulary};
use crate::api::chat::Event;
use crate::api::chat::searches::{self, Searches};
use serde::Serialize;
use std::collections::VecDeque;

/// The limit of what is held for an incomplete call, in bytes. Beyond it the call is closed as it is.
const MAX_HELD: usize = 8 << 20;

/// One step of writing. Between the opening of a block and its [`Step::Close`] are only steps of that block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step<'s> {
    OpenText,
    Text(&'s str),
    /// One citation of the preceding text, as JSON.
    Citation(&'s str),
    OpenThinking,
    Thinking(&'s str),
    /// At most one per block, its last step before the close.
    Signature(&'s str),
    OpenTool {
        id: &'s str,
        name: &'s str,
    },
    /// A fragment of the call's input, as JSON.
    Input(&'s str),
    Close,
    /// A block written in one step, opened and closed at once: a JSON object with a `type`.
    Block(&'s str),
}

/// Receives the steps.
pub(super) type StepSink<'o> = &'o mut dyn FnMut(Step<'_>);

/// The blocks of one response.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    open: Option<Open>,
    held: VecDeque<Held>,
    held_bytes: usize,
    /// Whether non-standard content is left out.
    strict: bool,
    /// Whether audio was left out. It comes in many pieces, so the note about it is written at the end.
    omitted_audio: Option<String>,
    /// Searches that the provider reports outside its content; written at the end.
    searches: Option<Searches>,
}

#[derive(Debug)]
pub(super) enum Open {
    Text { cited: bool },
    Thinking { signature: String },
    Call { index: u32, input: Extent },
}

/// An event held until the call before it is complete.
#[derive(Debug)]
enum Held {
    Text(String),
    Thinking(String),
    Signature(String),
    Citation(String),
    Block(String),
    Call { index: u32, id: String, name: String, call_signature: Option<String>, input: String },
}

impl Blocks {
    pub(super) fn new(strict: bool) -> Self {
        Self { strict, ..Self::default() }
    }

    /// Continues with a block that is already open.
    pub(super) fn resume(&mut self, open: Option<Open>) {
        self.open = open;
    }

    /// Takes one event. The dialect has only one choice, so all but the first are ignored.
    pub(super) fn take(&mut self, event: &Event<'_>, sink: StepSink<'_>) {
        match *event {
            Event::Text { choice: 0, text } | Event::Refusal { choice: 0, text } if !text.is_empty() => {
                if self.is_blocked() {
                    self.hold_text(text);
                } else {
                    self.text(text, sink);
                }
            }
            Event::Reasoning { choice: 0, text } if !text.is_empty() => {
                if self.is_blocked() {
                    self.hold_thinking(text);
                } else {
                    self.thinking(text, sink);
                }
            }
            Event::Signature { choice: 0, signature } => {
                if self.is_blocked() {
                    self.hold(Held::Signature(signature.to_owned()), signature.len());
                } else {
                    self.signature(signature, sink);
                }
            }
            Event::ToolCall { choice: 0, index, id, name, signature } => {
                if self.is_blocked() {
                    let call_signature = signature.map(str::to_owned);
                    let id = id.to_owned();
                    let name = name.to_owned();
                    let size = id.len() + name.len() + call_signature.as_ref().map_or(0, String::len);
                    self.hold(Held::Call { index, id, name, call_signature, input: String::new() }, size);
                } else {
                    self.call(index, id, name, signature, sink);
                }
            }
            Event::Arguments { choice: 0, index, fragment } => self.arguments(index, fragment, sink),
            Event::Redacted { choice: 0, data } => {
                self.block(&json(&BlockOut::RedactedThinking { data }), sink);
            }
            Event::Media { choice: 0, media_type, data } => self.media(media_type, data, sink),
            Event::Annotation { choice: 0, json } => {
                if let Some(citation) = super::citation::from_annotation(json) {
                    if self.is_blocked() {
                        self.hold(Held::Citation(citation.clone()), citation.len());
                    } else {
                        self.citation(&citation, sink);
                    }
                }
            }
            Event::Block { choice: 0, json } => self.provider_block(json, sink),
            Event::Member { name: searches::MEMBER, json } => self.searches = Searches::read(json),
            _ => {}
        }
        if self.held_bytes > MAX_HELD {
            self.release(true, sink);
        }
    }

    /// Ends the response: releases all held events and closes the last block. `id`: that of the message.
    pub(super) fn end(&mut self, id: &str, sink: StepSink<'_>) {
        self.release(true, sink);
        self.close(sink);
        for block in self.searches.take().iter().flat_map(|searches| search_blocks::write(searches, id)) {
            sink(Step::Block(&block));
        }
        if let Some(media_type) = self.omitted_audio.take() {
            self.text(&vocabulary::omission_note(&media_type, None), sink);
            self.close(sink);
        }
    }

    /// Whether an incomplete call is open, so that no other block may be opened.
    fn is_blocked(&self) -> bool {
        matches!(&self.open, Some(Open::Call { input, .. }) if !input.is_complete())
    }

    fn hold(&mut self, held: Held, size: usize) {
        self.held_bytes += size + size_of::<Held>();
        self.held.push_back(held);
    }

    fn hold_text(&mut self, text: &str) {
        match self.held.back_mut() {
            Some(Held::Text(whole)) => {
                self.held_bytes += text.len();
                whole.push_str(text);
            }
            _ => self.hold(Held::Text(text.to_owned()), text.len()),
        }
    }

    fn hold_thinking(&mut self, text: &str) {
        match self.held.back_mut() {
            Some(Held::Thinking(whole)) => {
                self.held_bytes += text.len();
                whole.push_str(text);
            }
            _ => self.hold(Held::Thinking(text.to_owned()), text.len()),
        }
    }

    /// Releases held events until a call is incomplete; with `all`, every one.
    fn release(&mut self, all: bool, sink: StepSink<'_>) {
        while all || !self.is_blocked() {
            let Some(held) = self.held.pop_front() else { break };
            match held {
                Held::Text(text) => self.text(&text, sink),
                Held::Thinking(text) => self.thinking(&text, sink),
                Held::Signature(signature) => self.signature(&signature, sink),
                Held::Citation(citation) => self.citation(&citation, sink),
                Held::Block(json) => {
                    self.close(sink);
                    sink(Step::Block(&json));
                }
                Held::Call { index, id, name, call_signature, input } => {
                    self.call(index, &id, &name, call_signature.as_deref(), sink);
                    self.arguments(index, &input, sink);
                }
            }
        }
        if self.held.is_empty() {
            self.held_bytes = 0;
        }
    }

    fn close(&mut self, sink: StepSink<'_>) {
        match self.open.take() {
            None => return,
            Some(Open::Thinking { signature }) if !signature.is_empty() => sink(Step::Signature(&signature)),
            Some(_) => {}
        }
        sink(Step::Close);
    }

    fn text(&mut self, text: &str, sink: StepSink<'_>) {
        // Text after a citation starts a new block, as Anthropic writes it.
        if !matches!(self.open, Some(Open::Text { cited: false })) {
            self.close(sink);
            self.open = Some(Open::Text { cited: false });
            sink(Step::OpenText);
        }
        sink(Step::Text(text));
    }

    fn citation(&mut self, citation: &str, sink: StepSink<'_>) {
        if !matches!(self.open, Some(Open::Text { .. })) {
            self.close(sink);
            sink(Step::OpenText);
        }
        self.open = Some(Open::Text { cited: true });
        sink(Step::Citation(citation));
    }

    fn thinking(&mut self, text: &str, sink: StepSink<'_>) {
        // A signature ends its thinking block.
        if !matches!(&self.open, Some(Open::Thinking { signature }) if signature.is_empty()) {
            self.open_thinking(sink);
        }
        sink(Step::Thinking(text));
    }

    fn open_thinking(&mut self, sink: StepSink<'_>) {
        self.close(sink);
        self.open = Some(Open::Thinking { signature: String::new() });
        sink(Step::OpenThinking);
    }

    fn signature(&mut self, more: &str, sink: StepSink<'_>) {
        if more.is_empty() {
            return;
        }
        if !matches!(self.open, Some(Open::Thinking { .. })) {
            self.open_thinking(sink);
        }
        // Collected until the block is closed: clients take the last signature they get for the whole one.
        if let Some(Open::Thinking { signature }) = &mut self.open {
            signature.push_str(more);
        }
    }

    fn call(&mut self, index: u32, id: &str, name: &str, call_signature: Option<&str>, sink: StepSink<'_>) {
        if let Some(call_signature) = call_signature.filter(|call_signature| !call_signature.is_empty()) {
            if !matches!(&self.open, Some(Open::Thinking { signature }) if signature.is_empty()) {
                self.open_thinking(sink);
            }
            self.signature(&vocabulary::encode_call_signature(call_signature), sink);
        }
        self.close(sink);
        self.open = Some(Open::Call { index, input: Extent::default() });
        sink(Step::OpenTool { id: &foreign_id::for_client(id), name });
    }

    fn arguments(&mut self, wanted: u32, fragment: &str, sink: StepSink<'_>) {
        if fragment.is_empty() {
            return;
        }
        if let Some(Open::Call { index, input }) = &mut self.open
            && *index == wanted
        {
            // Anything after a complete object is dropped.
            if input.is_complete() {
                return;
            }
            input.scan(fragment);
            sink(Step::Input(fragment));
            return self.release(false, sink);
        }
        for held in self.held.iter_mut().rev() {
            if let Held::Call { index, input, .. } = held
                && *index == wanted
            {
                self.held_bytes += fragment.len();
                return input.push_str(fragment);
            }
        }
    }

    fn media(&mut self, media_type: &str, data: &str, sink: StepSink<'_>) {
        let kind = match media_type.split('/').next() {
            Some("image") => "image",
            _ => "document",
        };
        let source = SourceOut { kind: "base64", media_type, data };
        if !self.strict {
            self.block(&json(&MediaOut { kind, source }), sink);
        } else if media_type.starts_with("audio/") {
            self.omitted_audio.get_or_insert_with(|| media_type.to_owned());
        } else {
            self.note(&vocabulary::omission_note(media_type, Some(data.len())), sink);
        }
    }

    /// Writes a text that stands for something else.
    fn note(&mut self, text: &str, sink: StepSink<'_>) {
        if self.is_blocked() { self.hold_text(text) } else { self.text(text, sink) }
    }

    /// A block that the provider's response has as it is.
    fn provider_block(&mut self, json: &str, sink: StepSink<'_>) {
        match BlockKind::read(json) {
            BlockKind::Malformed => {}
            BlockKind::Standard => self.block(json, sink),
            _ if !self.strict => self.block(json, sink),
            BlockKind::ImageUrl(url) => self.note(&vocabulary::image_note(&url), sink),
            BlockKind::Foreign => {}
        }
    }

    fn block(&mut self, json: &str, sink: StepSink<'_>) {
        if self.is_blocked() {
            return self.hold(Held::Block(json.to_owned()), json.len());
        }
        self.close(sink);
        sink(Step::Block(json));
    }
}

/// Tracks whether a JSON object or list is complete, without keeping its text.
#[derive(Debug, Default)]
pub(super) struct Extent {
    depth: usize,
    in_text: bool,
    escaped: bool,
    started: bool,
}

impl Extent {
    fn is_complete(&self) -> bool {
        self.started && self.depth == 0
    }

    pub(super) fn scan(&mut self, fragment: &str) {
        for byte in fragment.bytes() {
            if self.in_text {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_text = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'{' | b'[' => {
                    self.started = true;
                    self.depth += 1;
                }
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                b'"' => self.in_text = true,
                _ => {}
            }
        }
    }
}

#[derive(Serialize)]
struct MediaOut<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    source: SourceOut<'a>,
}

#[derive(Serialize)]
struct SourceOut<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    media_type: &'a str,
    data: &'a str,
}

fn json<T: Serialize>(value: &T) -> String {
    // Strings always serialize.
    serde_json::to_string(value).unwrap_or_default()
}
