//! Translates the messages of a chat into Anthropic's system prompt and turns.
//!
//! Anthropic has only the roles `user` and `assistant`. System and developer messages become the system
//! prompt, wherever they are. Tool results become blocks of a user turn: all results for one assistant turn
//! go into the same turn, before the rest of its content.

use super::blocks::{Block, Blocks, ToolResult, call_id};
use serde::Serialize;
use std::borrow::Cow;
use words::api::chat::{Message, Place, Role};
use words::error::Error;

/// One turn of a request.
#[derive(Debug, Serialize)]
pub(super) struct Turn<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
    /// How many blocks at the start are tool results.
    #[serde(skip)]
    results: usize,
}

/// The system prompt and the turns.
#[derive(Debug, Default)]
pub(super) struct Turns<'a> {
    pub system: Vec<Block<'a>>,
    pub turns: Vec<Turn<'a>>,
}

impl<'a> Turns<'a> {
    /// Translates the messages.
    ///
    /// # Errors
    /// 400 for what Anthropic does not accept.
    pub(crate) fn from_messages(messages: Vec<Message<'a>>, blocks: &mut Blocks<'_>) -> Result<Self, Error> {
        let mut turns = Self::default();
        let mut warned_name = false;
        for (index, message) in messages.into_iter().enumerate() {
            if message.name.is_some() && message.role == Role::User && !warned_name {
                warned_name = true;
                blocks.notes.drop_param("messages.name", blocks.provider);
            }
            let at = message.place(index);
            turns.take(message, at, blocks)?;
        }
        if turns.turns.is_empty() && !turns.system.is_empty() {
            // OpenAI accepts a system prompt alone; Anthropic requires a user message.
            blocks.notes.warn("messages", "no user speaks, the system prompt was sent as a user's message");
            let content = std::mem::take(&mut turns.system);
            turns.turn("user", content);
        }
        if let Some(Turn { role: "assistant", content, .. }) = turns.turns.last_mut()
            && let Some(Block::Text { text, .. }) = content.last_mut()
        {
            // "final assistant content cannot end with trailing whitespace"
            let kept = text.trim_end().len();
            match text {
                Cow::Borrowed(text) => *text = text.get(..kept).unwrap_or_default(),
                Cow::Owned(text) => text.truncate(kept),
            }
        }
        Ok(turns)
    }

    fn take(&mut self, message: Message<'a>, at: Place, blocks: &mut Blocks<'_>) -> Result<(), Error> {
        let mut content = Vec::with_capacity(message.content.len());
        for (index, part) in message.content.into_iter().enumerate() {
            content.extend(blocks.block(part, format_args!("{at}.content[{index}]"))?);
        }
        if message.role == Role::Tool {
            let id = message.tool_call_id.unwrap_or_default();
            self.result(Block::ToolResult(Box::new(ToolResult {
                tool_use_id: call_id(id, format_args!("{at}.tool_call_id"))?,
                content,
                is_error: message.is_error,
                cache_control: message.cache_control,
            })));
            return Ok(());
        }
        if let (Some(cache_control), Some(last)) = (message.cache_control, content.last_mut()) {
            last.cache(cache_control);
        }
        match message.role {
            Role::System | Role::Developer => self.system.append(&mut content),
            Role::Assistant => self.turn("assistant", content),
            Role::User | Role::Tool => match self.turns.last_mut() {
                Some(Turn { role: "user", content: before, results: 1.. }) => before.append(&mut content),
                _ => self.turn("user", content),
            },
        }
        Ok(())
    }

    fn turn(&mut self, role: &'static str, content: Vec<Block<'a>>) {
        // An empty turn would be refused. It has no content, so leaving it out needs no warning.
        if !content.is_empty() {
            self.turns.push(Turn { role, content, results: 0 });
        }
    }

    fn result(&mut self, result: Block<'a>) {
        match self.turns.last_mut() {
            Some(Turn { role: "user", content, results }) => {
                content.insert(*results, result);
                *results += 1;
            }
            _ => self.turns.push(Turn { role: "user", content: vec![result], results: 1 }),
        }
    }
}
