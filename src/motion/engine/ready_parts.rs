//! The part of a response that is ready for the client and not sent yet.

use bytes::Bytes;

/// What a chunk costs beside its bytes: its place in the list and its allocation, bytes.
const CHUNK_OVERHEAD: usize = 96;

/// Chunks in the order they are sent.
#[derive(Debug, Default)]
pub(super) struct ReadyParts {
    chunks: Vec<Bytes>,
    bytes: usize,
}

impl ReadyParts {
    /// Adds a chunk; an empty one is left out.
    pub fn push(&mut self, chunk: Bytes) {
        if !chunk.is_empty() {
            self.bytes += chunk.len();
            self.chunks.push(chunk);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// The bytes for the client.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// The memory it takes, bytes.
    pub fn held_bytes(&self) -> usize {
        self.bytes + self.chunks.len() * CHUNK_OVERHEAD
    }

    /// All bytes in one piece.
    pub fn concat(&self) -> Vec<u8> {
        self.chunks.concat()
    }

    pub fn take(&mut self) -> Vec<Bytes> {
        self.bytes = 0;
        std::mem::take(&mut self.chunks)
    }
}
