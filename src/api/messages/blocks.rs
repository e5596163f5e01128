//! An answer's pieces put in Anthropic's order: one content block after the other, each ended before the next.
//!
//! Whole and streamed answers are both written from these steps, so they cannot tell different things. Other
//! providers may tell fragments of several tool calls in turn: what comes for a later block waits until the
//! call before it is complete. Not here: any JSON but what makes a block of one piece.

use super::words;
use crate::api::chat::{Event, Json};
use serde::Serialize;
use std::collections::VecDeque;

/// The most that waits for an incomplete call, bytes. Beyond it that call is ended as it is.
const MOST_HELD: usize = 8 << 20;

/// What happens next. Between an opening and its [`Step::Close`] come only steps of that block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step<'s> {
    OpenText,
    Text(&'s str),
    /// One citation of the text just told, JSON text.
    Citation(&'s str),
    OpenThinking,
    Thinking(&'s str),
    /// At most one, the last of its block.
    Signature(&'s str),
    OpenTool {
        id: &'s str,
        name: &'s str,
    },
    /// A fragment of the call's input, JSON text.
    Input(&'s str),
    Close,
    /// A block of one piece: opened and closed at once. JSON text of an object with a `type`.
    Block(&'s str),
}

/// Where the steps go.
pub(super) type On<'o> = &'o mut dyn FnMut(Step<'_>);

/// One answer's blocks.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    open: Option<Open>,
    held: VecDeque<Held>,
    held_bytes: usize,
    /// Whether non-standard content is left out.
    strict: bool,
}

#[derive(Debug)]
pub(super) enum Open {
    Text { cited: bool },
    Thinking { signature: String },
    Call { index: u32, input: Extent },
}

/// What waits for the call before it.
#[derive(Debug)]
enum Held {
    Text(String),
    Thinking(String),
    Signature(String),
    Citation(String),
    Block(String),
    Call { index: u32, id: String, name: String, seal: Option<String>, input: String },
}

impl Blocks {
    pub(super) fn new(strict: bool) -> Self {
        Self { strict, ..Self::default() }
    }

    /// Takes over a block that is under way.
    pub(super) fn go_on(&mut self, open: Option<Open>) {
        self.open = open;
    }

    /// Takes one event in. Of several choices only the first can be told in this dialect.
    pub(super) fn take(&mut self, event: &Event<'_>, on: On<'_>) {
        match *event {
            Event::Text { choice: 0, text } | Event::Refusal { choice: 0, text } if !text.is_empty() => {
                match self.waits() {
                    true => self.hold_text(text),
                    false => self.text(text, on),
                }
            }
            Event::Reasoning { choice: 0, text } if !text.is_empty() => match self.waits() {
                true => self.hold_thinking(text),
                false => self.thinking(text, on),
            },
            Event::Signature { choice: 0, signature } => match self.waits() {
                true => self.hold(Held::Signature(signature.to_owned()), signature.len()),
                false => self.signature(signature, on),
            },
            Event::ToolCall { choice: 0, index, id, name, signature } => match self.waits() {
                true => {
                    let seal = signature.map(str::to_owned);
                    let (id, name) = (id.to_owned(), name.to_owned());
                    let size = id.len() + name.len() + seal.as_ref().map_or(0, String::len);
                    self.hold(Held::Call { index, id, name, seal, input: String::new() }, size);
                }
                false => self.call(index, id, name, signature, on),
            },
            Event::Arguments { choice: 0, index, fragment } => self.arguments(index, fragment, on),
            Event::Redacted { choice: 0, data } => self.block(&json(&Redacted::of(data)), on),
            Event::Media { choice: 0, media_type, data } => self.media(media_type, data, on),
            Event::Annotation { choice: 0, json } => {
                if let Some(citation) = super::citation::of(json) {
                    match self.waits() {
                        true => self.hold(Held::Citation(citation.clone()), citation.len()),
                        false => self.citation(&citation, on),
                    }
                }
            }
            Event::Block { choice: 0, json } if is_block(json) => self.block(json, on),
            _ => {}
        }
        if self.held_bytes > MOST_HELD {
            self.release(true, on);
        }
    }

    /// The answer is over: what waited comes now, and the last block ends.
    pub(super) fn end(&mut self, on: On<'_>) {
        self.release(true, on);
        self.close(on);
    }

    /// Whether an incomplete call keeps the next block from being opened.
    fn waits(&self) -> bool {
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

    /// Lets out what waits, as far as it can go; `all`: as if every call were complete.
    fn release(&mut self, all: bool, on: On<'_>) {
        while all || !self.waits() {
            let Some(held) = self.held.pop_front() else { break };
            match held {
                Held::Text(text) => self.text(&text, on),
                Held::Thinking(text) => self.thinking(&text, on),
                Held::Signature(signature) => self.signature(&signature, on),
                Held::Citation(citation) => self.citation(&citation, on),
                Held::Block(json) => {
                    self.close(on);
                    on(Step::Block(&json));
                }
                Held::Call { index, id, name, seal, input } => {
                    self.call(index, &id, &name, seal.as_deref(), on);
                    self.arguments(index, &input, on);
                }
            }
        }
        if self.held.is_empty() {
            self.held_bytes = 0;
        }
    }

    fn close(&mut self, on: On<'_>) {
        match self.open.take() {
            None => return,
            Some(Open::Thinking { signature }) if !signature.is_empty() => on(Step::Signature(&signature)),
            Some(_) => {}
        }
        on(Step::Close);
    }

    fn text(&mut self, text: &str, on: On<'_>) {
        // What comes behind a citation is another stretch of text: Anthropic gives each one a block.
        if !matches!(self.open, Some(Open::Text { cited: false })) {
            self.close(on);
            self.open = Some(Open::Text { cited: false });
            on(Step::OpenText);
        }
        on(Step::Text(text));
    }

    fn citation(&mut self, citation: &str, on: On<'_>) {
        if !matches!(self.open, Some(Open::Text { .. })) {
            self.close(on);
            on(Step::OpenText);
        }
        self.open = Some(Open::Text { cited: true });
        on(Step::Citation(citation));
    }

    fn thinking(&mut self, text: &str, on: On<'_>) {
        // A signature ends its piece of thinking.
        if !matches!(&self.open, Some(Open::Thinking { signature }) if signature.is_empty()) {
            self.open_thinking(on);
        }
        on(Step::Thinking(text));
    }

    fn open_thinking(&mut self, on: On<'_>) {
        self.close(on);
        self.open = Some(Open::Thinking { signature: String::new() });
        on(Step::OpenThinking);
    }

    fn signature(&mut self, more: &str, on: On<'_>) {
        if more.is_empty() {
            return;
        }
        if !matches!(self.open, Some(Open::Thinking { .. })) {
            self.open_thinking(on);
        }
        // Written when the block ends: clients take the last one they get for the whole.
        if let Some(Open::Thinking { signature }) = &mut self.open {
            signature.push_str(more);
        }
    }

    fn call(&mut self, index: u32, id: &str, name: &str, seal: Option<&str>, on: On<'_>) {
        if let Some(seal) = seal.filter(|seal| !seal.is_empty()) {
            if !matches!(&self.open, Some(Open::Thinking { signature }) if signature.is_empty()) {
                self.open_thinking(on);
            }
            self.signature(&words::sealed(seal), on);
        }
        self.close(on);
        self.open = Some(Open::Call { index, input: Extent::default() });
        on(Step::OpenTool { id, name });
    }

    fn arguments(&mut self, wanted: u32, fragment: &str, on: On<'_>) {
        if fragment.is_empty() {
            return;
        }
        if let Some(Open::Call { index, input }) = &mut self.open
            && *index == wanted
        {
            // Whatever follows a complete object belongs to nothing.
            if input.is_complete() {
                return;
            }
            input.read(fragment);
            on(Step::Input(fragment));
            return self.release(false, on);
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

    fn media(&mut self, media_type: &str, data: &str, on: On<'_>) {
        let kind = match media_type.split('/').next() {
            Some("image") => "image",
            _ => "document",
        };
        let source = SourceOut { kind: "base64", media_type, data };
        match (self.strict, self.waits()) {
            (false, _) => self.block(&json(&MediaOut { kind, source }), on),
            (true, true) => self.hold_text(&words::left_out(media_type, data.len())),
            (true, false) => self.text(&words::left_out(media_type, data.len()), on),
        }
    }

    fn block(&mut self, json: &str, on: On<'_>) {
        if self.waits() {
            return self.hold(Held::Block(json.to_owned()), json.len());
        }
        self.close(on);
        on(Step::Block(json));
    }
}

/// How far a JSON object or list has come: its text is looked at, not kept.
#[derive(Debug, Default)]
pub(super) struct Extent {
    depth: usize,
    in_text: bool,
    escaped: bool,
    begun: bool,
}

impl Extent {
    fn is_complete(&self) -> bool {
        self.begun && self.depth == 0
    }

    pub(super) fn read(&mut self, fragment: &str) {
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
                    self.begun = true;
                    self.depth += 1;
                }
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                b'"' => self.in_text = true,
                _ => {}
            }
        }
    }
}

/// Whether it is an object with a `type`: anything else is no content block.
fn is_block(json: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Kind<'a> {
        #[serde(borrow, rename = "type")]
        _kind: crate::api::chat::Text<'a>,
    }
    Json::parse(json).is_some_and(|json| json.is_object() && json.read::<Kind<'_>>().is_some())
}

#[derive(Serialize)]
struct Redacted<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    data: &'a str,
}

impl<'a> Redacted<'a> {
    fn of(data: &'a str) -> Self {
        Self { kind: "redacted_thinking", data }
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
