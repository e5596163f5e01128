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
    /// The events that are whole now, as one run of bytes; empty when there is none. One larger than
    /// [`MAX_EVENT_BYTES`] comes in pieces.
    pub fn push(&mut self, chunk: &Bytes) -> Bytes {
        if self.carry.is_empty() {
            // Nearly always a chunk ends with an event.
            let end = end_of_last(chunk);
            self.carry.extend_from_slice(chunk.get(end..).unwrap_or_default());
            return if self.carry.len() > MAX_EVENT_BYTES { self.rest() } else { chunk.slice(..end) };
        }
        // The blank line may lie across the seam.
        let seam = self.carry.len().saturating_sub(3);
        self.carry.extend_from_slice(chunk);
        let end = match self.carry.get(seam..).map(end_of_last) {
            Some(end) if end > 0 => seam + end,
            _ if self.carry.len() > MAX_EVENT_BYTES => self.carry.len(),
            _ => return Bytes::new(),
        };
        let rest = self.carry.split_off(end);
        Bytes::from(std::mem::replace(&mut self.carry, rest))
    }

    /// What came after the last whole event; empty when the stream ended where it should.
    pub fn rest(&mut self) -> Bytes {
        Bytes::from(std::mem::take(&mut self.carry))
    }
}

/// The index behind the last blank line; zero where there is none.
fn end_of_last(bytes: &[u8]) -> usize {
    if bytes.ends_with(b"\n\n") {
        return bytes.len();
    }
    let plain = memmem::rfind(bytes, b"\n\n").map(|at| at + 2);
    let crlf = memmem::rfind(bytes, b"\n\r\n").map(|at| at + 3);
    plain.max(crlf).unwrap_or_default()
}

/// The index behind the blank line that ends the first event.
pub fn end_of_event(bytes: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'\n', bytes).find_map(|at| match bytes.get(at + 1..)? {
        [b'\n', ..] => Some(at + 2),
        [b'\r', b'\n', ..] => Some(at + 3),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_whole_whatever_the_cuts() {
        let text = ": hello\r\n\r\ndata: a\n\nevent: x\r\ndata:low\r\n\r\ndata: b\n\n\ndata: end";
        for size in 1..=text.len() {
            let mut edge = Edge::default();
            let mut told = Vec::new();
            for piece in text.as_bytes().chunks(size) {
                let run = edge.push(&Bytes::copy_from_slice(piece));
                assert!(run.is_empty() || run.ends_with(b"\n\n") || run.ends_with(b"\n\r\n"), "{run:?}");
                told.extend_from_slice(&run);
            }
            let rest = edge.rest();
            assert!(rest == "data: end" || rest == "\ndata: end", "{size}: {rest:?}");
            told.extend_from_slice(&rest);
            assert_eq!(told, text.as_bytes(), "{size}");
        }
    }
}
