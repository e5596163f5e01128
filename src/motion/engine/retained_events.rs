//! The events of a stream that were sent to the client, retained so that another attempt can continue the stream.
//!
//! Only of streams in the client's own dialect: a translated one keeps a transcript (`provider::rescue`).

use bytes::Bytes;

/// The most bytes that are retained of one stream.
const MAX_BYTES: usize = 4 << 20;

/// All events sent so far, or none if they are not needed or too many.
#[derive(Debug)]
pub(super) struct RetainedEvents {
    events: Option<Vec<Bytes>>,
    bytes: usize,
}

impl RetainedEvents {
    /// `retains`: false where they are not needed.
    pub fn new(retains: bool) -> Self {
        Self { events: retains.then(Vec::new), bytes: 0 }
    }

    /// Adds events that are sent.
    pub fn add(&mut self, events: &Bytes) {
        let Some(retained) = &mut self.events else { return };
        self.bytes += events.len();
        if self.bytes > MAX_BYTES {
            *self = Self::new(false);
        } else {
            retained.push(events.clone());
        }
    }

    /// Whether everything that was sent is here.
    pub fn is_complete(&self) -> bool {
        self.events.is_some()
    }

    /// The memory they take, bytes.
    pub fn held_bytes(&self) -> usize {
        self.bytes
    }

    /// `None` if they are not complete.
    pub(crate) fn into_events(self) -> Option<Vec<Bytes>> {
        self.events
    }
}
