//! The beginning of a request, by blocks: a chain of hashes, by which later requests with the same beginning are recognized.
//!
//! Hashed are the texts of the body in the order in which caches of prompts have them: tools, system prompt, messages. Each hash covers
//! all texts up to the end of its block, so that equal hashes mean equal beginnings. Left out is what a client changes from turn to
//! turn and no cache looks at: names of members, `type`, the marks of `cache_control`, and Claude Code's first line. The texts are
//! borrowed from the body; nothing is parsed or allocated. The hash is the same in every process, so that several gateways agree.
//! Not here: the choice (`prefix_choice`).

use super::attempt::{Attempt, Request};
use foldhash::quality::FixedState;
use std::hash::{BuildHasher, Hasher};
use words::api::body::Body;
use words::api::operation::Operation;
use words::json::string_walk::{JsonString, StringWalk};
use words::json::walk;

/// The most blocks of a request. What comes behind them is not looked at.
pub const MAX_BLOCKS: usize = 64;

/// So many blocks have the same size; then they are four times as large: 16 of 1 KiB, of 4, of 16 and of 64 KiB, 1.3 MiB in all.
const BLOCKS_OF_A_SIZE: usize = 16;
const FIRST_BLOCK_BYTES: usize = 1024;

/// The first line of Claude Code's system prompt changes with every request (`knowledge::provider`).
const CHANGING_LINE: &[u8] = b"x-anthropic-billing-header:";

/// The beginning of a request.
#[derive(Debug, Clone)]
pub struct PromptPrefix {
    blocks: [u64; MAX_BLOCKS],
    count: usize,
    first_part: u64,
    /// The client asks the provider to keep it for the longer of its times.
    pub is_kept_longer: bool,
}

/// The members that hold a request's texts.
#[derive(Clone, Copy)]
struct TextMembers {
    /// Tools before the system prompt.
    before: &'static [&'static str],
    history: &'static str,
}

impl PromptPrefix {
    /// The beginning of a request; `None` for what is no prompt, or was not read.
    pub fn of(request: &Request) -> Option<Self> {
        Self::new(request.operation, request.model.as_deref(), request.body.as_ref()?)
    }

    /// The beginning of a request for a model; `None` for what is no prompt.
    pub fn new(operation: Operation, model: Option<&str>, body: &Body) -> Option<Self> {
        let members = text_members(operation)?;
        let mut chain = Chain::new(model.unwrap_or_default());
        let mut first_part = chain.add_members(members, |name| body.value(name))?;
        // A prompt grows at its end, so only its first block stays.
        if let (Operation::Completions, 1..) = (operation, chain.count) {
            first_part = chain.blocks.first().copied().unwrap_or_default();
        }
        let is_kept_longer = chain.has_long_mark
            || body.value("prompt_cache_retention") == Some(br#""24h""#)
            || body.value("cache_control").is_some_and(is_long);
        Some(Self { blocks: chain.blocks, count: chain.count, first_part, is_kept_longer })
    }

    /// A hash for each block that is full, over all texts up to its end.
    pub fn blocks(&self) -> &[u64] {
        self.blocks.get(..self.count).unwrap_or_default()
    }

    /// The hash of what stays the same in a conversation, however short: all up to the first message of the user.
    pub fn first_part(&self) -> u64 {
        self.first_part
    }

    /// The bytes of text in the first `count` blocks.
    pub fn bytes_of(count: usize) -> usize {
        (0..count.min(MAX_BLOCKS)).map(block_bytes).sum()
    }
}

/// The prompt of a body as it was sent, in whichever format that is.
#[derive(Debug)]
pub struct SentPrompt {
    pub prefix: PromptPrefix,
    /// The hash of the first message of the user: of one conversation it stays the same, whatever stands before it.
    pub conversation: u64,
}

/// Tools and system prompt under all their names, and the histories.
const SENT_BEFORE: &[&str] =
    &["tools", "toolConfig", "system", "systemInstruction", "system_instruction", "instructions"];
const SENT_HISTORIES: [&str; 3] = ["messages", "contents", "input"];

impl SentPrompt {
    /// `None` for what is no prompt. `body`: JSON that is proven valid. The model is no part of the hashes.
    pub fn of(body: &[u8]) -> Option<Self> {
        let body = body.trim_ascii();
        let value = |wanted: &str| {
            walk::members(body)?.find(|(name, _)| *name == wanted.as_bytes()).map(|(_, value)| value)
        };
        let history = SENT_HISTORIES.into_iter().find(|name| value(name).is_some())?;
        let mut chain = Chain::new("");
        let first_part = chain.add_members(TextMembers { before: SENT_BEFORE, history }, value)?;
        let Chain { blocks, count, has_long_mark, .. } = chain;
        let prefix = PromptPrefix { blocks, count, first_part, is_kept_longer: has_long_mark };
        let messages = value(history)?;
        let first = match walk::items(messages) {
            Some(mut messages) => messages.find(|message| is_of_user(message))?,
            None => messages,
        };
        let mut conversation = Chain::new("conversation");
        conversation.add_all(first);
        Some(Self { prefix, conversation: conversation.hasher.finish() })
    }
}

/// The hash of who is called: the provider's cache of one is not that of another.
pub fn target_hash(attempt: &Attempt) -> u32 {
    let target = &attempt.target;
    let place = (target.provider.id(), attempt.origin().authority(), target.slug.as_deref());
    let hash = FixedState::with_seed(1).hash_one((place, attempt.model.as_deref()));
    (hash >> 32) as u32
}

fn text_members(operation: Operation) -> Option<TextMembers> {
    let (before, history): (&[&str], _) = match operation {
        Operation::ChatCompletions => (&["tools", "functions"], "messages"),
        Operation::Messages => (&["tools", "system"], "messages"),
        Operation::Responses | Operation::ResponsesCompact => (&["tools", "instructions"], "input"),
        Operation::GenerateContent | Operation::StreamGenerateContent | Operation::ListGenerateContent => {
            (&["tools", "systemInstruction", "system_instruction"], "contents")
        }
        Operation::Completions => (&[], "prompt"),
        _ => return None,
    };
    Some(TextMembers { before, history })
}

fn block_bytes(index: usize) -> usize {
    FIRST_BLOCK_BYTES << (2 * (index / BLOCKS_OF_A_SIZE))
}

/// Whether a `cache_control` asks for an hour (`ttl`).
fn is_long(mark: &[u8]) -> bool {
    memchr::memmem::find(mark, br#""1h""#).is_some()
}

fn is_of_user(message: &[u8]) -> bool {
    walk::members(message)
        .is_some_and(|mut members| members.any(|(name, value)| name == b"role" && value == br#""user""#))
}

/// The chain as it grows.
struct Chain {
    blocks: [u64; MAX_BLOCKS],
    count: usize,
    /// Over the current block, and by its seed over all before.
    hasher: foldhash::quality::FoldHasher<'static>,
    /// Bytes until the current block is full.
    left: usize,
    has_long_mark: bool,
}

impl Chain {
    fn new(model: &str) -> Self {
        let mut hasher = FixedState::with_seed(0).build_hasher();
        hasher.write(model.as_bytes());
        Self { blocks: [0; MAX_BLOCKS], count: 0, hasher, left: block_bytes(0), has_long_mark: false }
    }

    /// The texts of a request's members; returns the hash of all up to the first message of the user. `None`: it has no history.
    fn add_members<'b>(
        &mut self,
        members: TextMembers,
        value: impl Fn(&str) -> Option<&'b [u8]>,
    ) -> Option<u64> {
        members.before.iter().filter_map(|name| value(name)).for_each(|value| self.add_all(value));
        Some(self.add_history(value(members.history)?))
    }

    fn is_full(&self) -> bool {
        self.count == MAX_BLOCKS
    }

    /// The texts of the history; returns the hash of all up to the first message of the user.
    fn add_history(&mut self, history: &[u8]) -> u64 {
        let Some(mut messages) = walk::items(history) else {
            // A text alone is a message of the user; as one of a list it has its role before it.
            self.add(b"user");
            self.add_all(history);
            return self.hasher.finish();
        };
        let mut first_part = None;
        while first_part.is_none() && !self.is_full() {
            let Some(message) = messages.next() else { break };
            self.add_all(message);
            first_part = is_of_user(message).then(|| self.hasher.finish());
        }
        let first_part = first_part.unwrap_or_else(|| self.hasher.finish());
        self.add_all(history.get(messages.offset()..).unwrap_or_default());
        first_part
    }

    /// All texts of a JSON value.
    fn add_all(&mut self, value: &[u8]) {
        let mut strings = StringWalk::new(value);
        while !self.is_full() {
            match strings.next() {
                Some(JsonString::Name(b"cache_control" | b"cachePoint")) => {
                    self.has_long_mark |= strings.skip_value().is_some_and(is_long);
                }
                Some(JsonString::Name(b"type")) => {
                    strings.skip_value();
                }
                Some(JsonString::Name(_)) => {}
                Some(JsonString::Value(text)) if text.starts_with(CHANGING_LINE) => {}
                Some(JsonString::Value(text)) => self.add(text),
                None => return,
            }
        }
    }

    fn add(&mut self, text: &[u8]) {
        let mut rest = text;
        while !self.is_full() {
            let (now, later) = rest.split_at(self.left.min(rest.len()));
            self.hasher.write(now);
            self.left -= now.len();
            if self.left > 0 {
                return;
            }
            let hash = self.hasher.finish();
            if let Some(block) = self.blocks.get_mut(self.count) {
                *block = hash;
            }
            self.count += 1;
            self.hasher = FixedState::with_seed(hash).build_hasher();
            self.left = block_bytes(self.count);
            rest = later;
        }
    }
}

#[cfg(test)]
mod tests;
