//! Hands bytes on in whole events, as they came: a half event cannot be unsent when its stream breaks.
//!
//! Not the splitter: nothing is read here, every byte is kept, comments and line ends included.

use super::MAX_EVENT_BYTES;
use bytes::Bytes;
use memchr::memmem;

/// The end of an event that has not come yet.
#[derive(Debug, Default)]
pub struct Edge {
    carry: Vec<u8>,
}

impl Edge {
    /// Calls `on` for each event that is whole, in order. One larger than [`MAX_EVENT_BYTES`] is handed out
    /// in pieces.
    pub fn push(&mut self, chunk: &Bytes, on: &mut dyn FnMut(Bytes)) {
        let mut rest = chunk.clone();
        if !self.carry.is_empty() {
            // The blank line may lie across the seam.
            let seam = self.carry.len().saturating_sub(3);
            self.carry.extend_from_slice(&rest);
            let Some(end) = self.carry.get(seam..).and_then(end_of_event).map(|end| seam + end) else {
                return self.spill(on);
            };
            let mut whole = std::mem::take(&mut self.carry);
            let after = whole.len().saturating_sub(end);
            whole.truncate(end);
            on(Bytes::from(whole));
            rest = chunk.slice(chunk.len().saturating_sub(after)..);
        }
        while let Some(end) = end_of_event(&rest) {
            on(rest.split_to(end));
        }
        self.carry.extend_from_slice(&rest);
        self.spill(on);
    }

    /// What came after the last whole event; empty when the stream ended where it should.
    pub fn rest(&mut self) -> Bytes {
        Bytes::from(std::mem::take(&mut self.carry))
    }

    fn spill(&mut self, on: &mut dyn FnMut(Bytes)) {
        if self.carry.len() > MAX_EVENT_BYTES {
            on(self.rest());
        }
    }
}

/// The index behind the blank line that ends the first event.
pub fn end_of_event(bytes: &[u8]) -> Option<usize> {
    let plain = memmem::find(bytes, b"\n\n").map(|at| at + 2);
    let crlf = memmem::find(bytes, b"\n\r\n").map(|at| at + 3);
    match (plain, crlf) {
        (Some(plain), Some(crlf)) => Some(plain.min(crlf)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_whole_whatever_the_cuts() {
        let text = ": hello\r\n\r\ndata: a\n\nevent: x\r\ndata:low\r\n\r\ndata: b\n\n\ndata: end";
        let events = [": hello\r\n\r\n", "data: a\n\n", "event: x\r\ndata:low\r\n\r\n", "data: b\n\n"];
        for size in 1..=text.len() {
            let mut edge = Edge::default();
            let mut told = Vec::new();
            for piece in text.as_bytes().chunks(size) {
                edge.push(&Bytes::copy_from_slice(piece), &mut |event| told.push(event));
            }
            assert_eq!(told, events.map(str::as_bytes), "{size}");
            assert_eq!(edge.rest(), "\ndata: end");
        }
    }
}
