//! Sets the marks of a provider's cache of prompts, where a config wants it (`prompt_cache: auto`) and the client has set none.
//!
//! Anthropic's models cache a prompt only up to marks, at most four, and look for earlier entries no more than 20 blocks before each.
//! Marked are the end of the system prompt (without one that of the tools), and the ends of the last three requests of the
//! conversation: the last message, and each message of the user that an assistant's follows. So the mark at the end of one request
//! stands at the same place in the next two. What was written there is found however many blocks were added since, and what is
//! written is only what is new.
//!
//! The marks are set in the body as it is sent, in one pass after its translation: nothing else of it changes. Not here: marks of
//! clients, which are translated (`openai_chat::cache_marks`), and whether a config wants any (`words::config::policies`).
//!
//! Sources: <https://platform.claude.com/docs/en/build-with-claude/prompt-caching> ("What can be cached": no thinking, no empty
//! texts), <https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html> (models, fields),
//! <https://openrouter.ai/docs/guides/best-practices/prompt-caching> (parts of type `text`). Read in November 2026.

mod places;

pub use places::places;

use super::Provider;
use super::adapter::CallTarget;
use super::openai_chat::cache_marks::CACHE_CONTROL;
use super::prompt_cache::PromptCache;
use memchr::memmem;
use std::ops::Range;
use words::api::chat::{ChatRequest, Tool};
use words::api::operation::Operation;
use words::api::part_members::BREAKPOINT;
use words::config::policies::MarkTtl;
use words::json::splice;
use words::json::string_walk::{JsonString, StringWalk};
use words::json::walk;

/// How many ends of requests are marked. With that of the system prompt they are four, which is what providers take.
const MAX_ENDS: usize = 3;

/// What marks are called in each format.
const MARKS: [&str; 3] = [CACHE_CONTROL, BREAKPOINT, CACHE_POINT];
const CACHE_POINT: &str = "cachePoint";

/// Members with values of tools: what looks like a mark in them is none.
const OF_TOOLS: [&[u8]; 7] =
    [b"input", b"input_schema", b"inputSchema", b"parameters", b"arguments", b"json", b"properties"];

const TEXT: &[u8] = b"\"text\"";
/// Types of blocks that may have a mark in Anthropic's format.
const MARKABLE: [&[u8]; 6] =
    [TEXT, b"\"image\"", b"\"document\"", b"\"tool_use\"", b"\"tool_result\"", b"\"search_result\""];
/// Blocks of Claude that a cache point may follow in Converse. It is refused behind documents that are no PDF.
const POINTABLE: [&[u8]; 4] = [b"text", b"image", b"toolUse", b"toolResult"];
/// The same of Nova, which refuses it behind results of tools and images.
const POINTABLE_OF_NOVA: [&[u8]; 1] = [b"text"];

/// What stands in a body for more tokens than it has bytes there.
const OTHER_MEDIA: [&str; 4] = ["image", "document", "file", "container"];

/// How marks are written in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkForm {
    /// `cache_control` in Anthropic's format.
    Messages,
    /// `cache_control` on the texts of a chat completion.
    Chat,
    /// `cachePoint` of Converse. `on_tools`: behind tools too, which Nova does not take. `for_an_hour`: it may have a `ttl` of an hour.
    Converse { on_tools: bool, for_an_hour: bool },
}

impl MarkForm {
    /// Of a host of Anthropic's API, where a call is one of messages.
    pub(super) fn of_messages(operation: Operation) -> Option<Self> {
        matches!(operation, Operation::Messages | Operation::ChatCompletions).then_some(Self::Messages)
    }
}

/// The marks of one request.
#[derive(Debug)]
pub(super) struct Marks {
    form: MarkForm,
    ttl: MarkTtl,
    /// The provider caches nothing of a shorter prompt.
    min_tokens: usize,
}

impl Marks {
    /// Those that a config wants for a call, as it is sent. `None`: it wants none, or the provider takes none.
    pub fn find(provider: &dyn Provider, target: &CallTarget<'_>, ttl: Option<MarkTtl>) -> Option<Self> {
        let ttl = ttl?;
        let form = provider.mark_form(target)?;
        let takes_ttl = !matches!(form, MarkForm::Converse { for_an_hour: false, .. });
        let ttl = if takes_ttl { ttl } else { MarkTtl::FiveMinutes };
        let has_own_host = target.account.custom_host.is_some();
        let cache = PromptCache::find(provider.id(), has_own_host, target.model);
        Some(Self { form, ttl, min_tokens: cache.min_tokens as usize })
    }

    /// Puts the tools of a chat in the order of their names: a client that lists them in another order with each request would never
    /// find its prompt again. Those of the provider's own stay behind them, in the client's order.
    pub fn sort_tools(request: &mut ChatRequest<'_>) {
        if request.has_cache_marks() || request.params.get(CACHE_CONTROL).is_some() {
            return;
        }
        request.tools.sort_by(|one, other| match (one, other) {
            (Tool::Function { name: one, .. }, Tool::Function { name: other, .. }) => one.cmp(other),
            (one, other) => is_own(one).cmp(&is_own(other)),
        });
    }

    /// The body with marks; `None` where it gets none: it has some, or is too short.
    pub fn placed(&self, body: &[u8]) -> Option<Vec<u8>> {
        let body = body.trim_ascii();
        if self.is_too_short(body) || has_marks(body) {
            return None;
        }
        let prompt = Prompt::read(self.form, body)?;
        let mut changes = Vec::with_capacity(8);
        let text = Text { body, form: self.form, ttl: self.ttl };
        prompt.mark_beginning(&text, &mut changes);
        prompt.mark_ends(&text, &mut changes);
        changes.sort_by_key(|(range, _)| range.start);
        (!changes.is_empty()).then(|| splice::apply(body, &changes))
    }

    /// Whether the prompt is surely below the provider's minimum. A token has some four bytes, in the densest texts two.
    fn is_too_short(&self, body: &[u8]) -> bool {
        let has_media = || OTHER_MEDIA.iter().any(|name| memmem::find(body, name.as_bytes()).is_some());
        body.len() < 2 * self.min_tokens && !has_media()
    }
}

fn is_own(tool: &Tool<'_>) -> bool {
    !matches!(tool, Tool::Function { .. })
}

/// Whether there is a mark anywhere but in what tools take and give.
fn has_marks(body: &[u8]) -> bool {
    if MARKS.iter().all(|name| memmem::find(body, name.as_bytes()).is_none()) {
        return false;
    }
    let mut strings = StringWalk::new(body);
    while let Some(string) = strings.next() {
        let JsonString::Name(name) = string else { continue };
        if OF_TOOLS.contains(&name) {
            strings.skip_value();
        } else if MARKS.iter().any(|mark| mark.as_bytes() == name)
            && strings.skip_value().is_some_and(|value| value != b"null")
        {
            return true;
        }
    }
    false
}

type Changes = Vec<(Range<usize>, String)>;

/// A body, and how its marks are written.
struct Text<'b> {
    body: &'b [u8],
    form: MarkForm,
    ttl: MarkTtl,
}

impl Text<'_> {
    fn place(&self, part: &[u8]) -> Range<usize> {
        let start = (part.as_ptr() as usize).saturating_sub(self.body.as_ptr() as usize);
        start..start + part.len()
    }

    fn mark(&self) -> String {
        let kind = if matches!(self.form, MarkForm::Converse { .. }) { "default" } else { "ephemeral" };
        match self.ttl {
            MarkTtl::FiveMinutes => format!(r#"{{"type":"{kind}"}}"#),
            ttl @ MarkTtl::Hour => format!(r#"{{"type":"{kind}","ttl":"{}"}}"#, ttl.as_str()),
        }
    }

    /// Marks an object: in it, or behind it.
    fn mark_object(&self, object: &[u8], changes: &mut Changes) {
        let Range { end, .. } = self.place(object);
        if matches!(self.form, MarkForm::Converse { .. }) {
            changes.push((end..end, format!(r#",{{"{CACHE_POINT}":{}}}"#, self.mark())));
            return;
        }
        let null = walk::members(object)
            .and_then(|mut members| members.find(|(name, _)| *name == CACHE_CONTROL.as_bytes()));
        match null {
            Some((_, value)) => changes.push((self.place(value), self.mark())),
            None => changes.push((end - 1..end - 1, format!(r#","{CACHE_CONTROL}":{}"#, self.mark()))),
        }
    }

    /// Marks the last block of a content that may have a mark: a text, or a list. Returns whether there is one.
    fn mark_content(&self, content: &[u8], changes: &mut Changes) -> bool {
        if let Some(items) = walk::items(content) {
            let last = items.filter(|block| self.is_markable(block)).last();
            last.into_iter().for_each(|block| self.mark_object(block, changes));
            return last.is_some();
        }
        if !content.starts_with(b"\"") || is_blank(content) || matches!(self.form, MarkForm::Converse { .. })
        {
            return false;
        }
        let Range { start, end } = self.place(content);
        changes.push((start..start, r#"[{"type":"text","text":"#.to_owned()));
        changes.push((end..end, format!(r#","{CACHE_CONTROL}":{}}}]"#, self.mark())));
        true
    }

    fn is_markable(&self, block: &[u8]) -> bool {
        let Some(mut members) = walk::members(block) else { return false };
        if matches!(self.form, MarkForm::Converse { .. }) {
            let is_nova = matches!(self.form, MarkForm::Converse { on_tools: false, .. });
            let kinds: &[&[u8]] = if is_nova { &POINTABLE_OF_NOVA } else { &POINTABLE };
            return members
                .next()
                .is_some_and(|(name, value)| kinds.contains(&name) && !(name == b"text" && is_blank(value)));
        }
        let types: &[&[u8]] = if self.form == MarkForm::Chat { &[TEXT] } else { &MARKABLE };
        let Some(kind) = member(block, b"type").filter(|kind| types.contains(kind)) else { return false };
        let is_text = |text: &[u8]| text.starts_with(b"\"") && !is_blank(text);
        kind != TEXT || member(block, b"text").is_some_and(is_text)
    }
}

/// Whether a JSON text is a string of nothing but white space.
fn is_blank(text: &[u8]) -> bool {
    let Some(text) = text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")) else { return false };
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        rest = match (first, behind.first()) {
            (b' ', _) => behind,
            (b'\\', Some(b'n' | b'r' | b't')) => behind.get(1..).unwrap_or_default(),
            _ => return false,
        };
    }
    true
}

fn member<'b>(object: &'b [u8], wanted: &[u8]) -> Option<&'b [u8]> {
    walk::members(object)?.find(|(name, _)| *name == wanted).map(|(_, value)| value)
}

/// The parts of a prompt, as they stand in the body.
#[derive(Default)]
struct Prompt<'b> {
    tools: Option<&'b [u8]>,
    system: Option<&'b [u8]>,
    messages: Vec<Message<'b>>,
}

struct Message<'b> {
    role: Role,
    content: &'b [u8],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    System,
    Assistant,
    /// The user's words, or a tool's result.
    User,
    /// What has no marks.
    Other,
}

impl<'b> Message<'b> {
    fn read(form: MarkForm, message: &'b [u8]) -> Self {
        let mut read = Self { role: Role::Other, content: b"" };
        for (name, value) in walk::members(message).into_iter().flatten() {
            match (name, value) {
                (b"content", content) => read.content = content,
                (b"role", b"\"assistant\"") => read.role = Role::Assistant,
                (b"role", b"\"user\"") => read.role = Role::User,
                (b"role", b"\"tool\"") if form == MarkForm::Chat => read.role = Role::User,
                (b"role", b"\"system\"" | b"\"developer\"") => read.role = Role::System,
                _ => {}
            }
        }
        read
    }
}

impl<'b> Prompt<'b> {
    /// `None`: it has no messages, or two lists of them.
    fn read(form: MarkForm, body: &'b [u8]) -> Option<Self> {
        let mut prompt = Self::default();
        let mut messages = None;
        for (name, value) in walk::members(body)? {
            let slot = match name {
                b"messages" => &mut messages,
                b"system" if form != MarkForm::Chat => &mut prompt.system,
                b"tools" if form == MarkForm::Messages => &mut prompt.tools,
                b"toolConfig" if matches!(form, MarkForm::Converse { on_tools: true, .. }) => {
                    prompt.tools = member(value, b"tools");
                    continue;
                }
                _ => continue,
            };
            // Parsers differ in which of two members they take.
            if slot.replace(value).is_some() {
                return None;
            }
        }
        prompt.messages = walk::items(messages?)?.map(|message| Message::read(form, message)).collect();
        Some(prompt)
    }

    /// Marks the end of what stays the same in all conversations: the system prompt, or the tools before it.
    fn mark_beginning(&self, text: &Text<'_>, changes: &mut Changes) {
        if text.form == MarkForm::Chat {
            let system = self.messages.iter().take_while(|message| message.role == Role::System);
            let contents: Vec<&[u8]> = system.map(|message| message.content).collect();
            let _ = contents.iter().rev().any(|content| text.mark_content(content, changes));
            return;
        }
        if self.system.is_some_and(|system| text.mark_content(system, changes)) {
            return;
        }
        let tools = self.tools.and_then(walk::items);
        // A deferred tool is no part of the beginning, and may have no mark.
        let is_deferred = |object: &[u8]| member(object, b"defer_loading") == Some(b"true");
        let is_loaded = |tool: &&[u8]| {
            let has_members = walk::members(tool).is_some_and(|mut members| members.next().is_some());
            has_members && !is_deferred(tool) && !member(tool, b"default_config").is_some_and(is_deferred)
        };
        let last = tools.and_then(|tools| tools.filter(is_loaded).last());
        last.into_iter().for_each(|tool| text.mark_object(tool, changes));
    }

    /// Marks the ends of the last requests of the conversation.
    fn mark_ends(&self, text: &Text<'_>, changes: &mut Changes) {
        let mut upper = self.messages.len();
        for end in self.ends().into_iter().flatten() {
            // What cannot be marked leaves the mark to the message before: each request has chosen the same.
            let before = self.messages.get(..=end).unwrap_or_default().iter().enumerate().rev();
            let mut before = before.filter(|(_, message)| message.role == Role::User);
            let marked = before.find(|(index, message)| {
                // Another end may have left its mark there.
                *index >= upper || text.mark_content(message.content, changes)
            });
            upper = marked.map_or(upper, |(index, _)| index.min(upper));
        }
    }

    /// The last messages with which a request ended, the last one first: an assistant's follows, or nothing.
    fn ends(&self) -> [Option<usize>; MAX_ENDS] {
        let is_end = |index: &usize| {
            let is_assistant =
                |index: usize| self.messages.get(index).map(|message| message.role == Role::Assistant);
            is_assistant(*index) == Some(false) && is_assistant(index + 1) != Some(false)
        };
        let mut ends = (0..self.messages.len()).rev().filter(is_end);
        std::array::from_fn(|_| ends.next())
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(in crate::provider) use tests::taken_out;
