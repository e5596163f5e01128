//! A whole answer in Anthropic's words, read into events.

use crate::api::chat::{Reader, Tell};

/// Collects the bytes; all is told at the end.
#[derive(Debug, Default)]
pub struct Whole {
    held: Vec<u8>,
}

impl Reader for Whole {
    fn push(&mut self, bytes: &[u8], _tell: Tell<'_>) {
        self.held.extend_from_slice(bytes);
    }

    fn finish(&mut self, _tell: Tell<'_>) {}
}
