//! A streamed answer in Anthropic's words, read into events.

use crate::api::chat::{Reader, Tell};

/// Server-sent events.
#[derive(Debug, Default)]
pub struct Stream {
    events: Events,
}

impl Reader for Stream {
    fn push(&mut self, _bytes: &[u8], _tell: Tell<'_>) {}

    fn finish(&mut self, _tell: Tell<'_>) {}
}

impl Stream {
    pub fn events(&self) -> &Events {
        &self.events
    }
}

/// The same without the framing: for Bedrock, whose frames carry one event each.
#[derive(Debug, Default)]
pub struct Events {}

impl Events {
    /// Takes one event's JSON. After an error or the end everything is passed over.
    pub fn take(&mut self, _data: &[u8], _tell: Tell<'_>) {}
}
