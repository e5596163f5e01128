//! Hands bytes on in whole events, as they came: a half event cannot be unsent when its stream breaks.
//!
//! Not the splitter: nothing is read here, every byte is kept, comments and line ends included.

use super::MAX_EVENT_BYTES;
use bytes::Bytes;
use memchr::memmem;

/// The end of an event that has not come yet.
#[derive(Debug, Default)]
pub struct EventBoundary {
    carry: Vec<u8>,
}

impl EventBoundary {
    /// The events that are whole now, as one run of bytes; empty when there is none. One larger than
    /// [`MAX_EVENT_BYTES`] comes in pieces.
    pub fn push(&mut self, chunk: &Bytes) -> Bytes {
        if self.carry.is_empty() {
            // Nearly always a chunk ends with an event.
            let end = last_event_end(chunk);
            self.carry.extend_from_slice(chunk.get(end..).unwrap_or_default());
            return if self.carry.len() > MAX_EVENT_BYTES { self.take_rest() } else { chunk.slice(..end) };
        }
        // The blank line may lie across the seam.
        let seam = self.carry.len().saturating_sub(3);
        self.carry.extend_from_slice(chunk);
        let end = match self.carry.get(seam..).map(last_event_end) {
            Some(end) if end > 0 => seam + end,
            _ if self.carry.len() > MAX_EVENT_BYTES => self.carry.len(),
            _ => return Bytes::new(),
        };
        let rest = self.carry.split_off(end);
        Bytes::from(std::mem::replace(&mut self.carry, rest))
    }

    /// What came after the last whole event; empty when the stream ended where it should.
    pub fn take_rest(&mut self) -> Bytes {
        Bytes::from(std::mem::take(&mut self.carry))
    }
}

/// The index behind the last blank line; zero where there is none.
fn last_event_end(bytes: &[u8]) -> usize {
    if bytes.ends_with(b"\n\n") {
        return bytes.len();
    }
    let plain = memmem::rfind(bytes, b"\n\n").map(|at| at + 2);
    let crlf = memmem::rfind(bytes, b"\n\r\n").map(|at| at + 3);
    plain.max(crlf).unwrap_or_default()
}

/// The index behind the blank line that ends the first event.
pub fn first_event_end(bytes: &[u8]) -> Option<usize> {
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
    fn output_is_whole_events_for_any_chunking() {
        let text = ": hello\r\n\r\ndata: a\n\nevent: x\r\ndata:low\r\n\r\ndata: b\n\n\ndata: end";
        for size in 1..=text.len() {
            let mut boundary = EventBoundary::default();
            let mut output = Vec::new();
            for chunk in text.as_bytes().chunks(size) {
                let events = boundary.push(&Bytes::copy_from_slice(chunk));
                assert!(
                    events.is_empty() || events.ends_with(b"\n\n") || events.ends_with(b"\n\r\n"),
                    "{events:?}"
                );
                output.extend_from_slice(&events);
            }
            let rest = boundary.take_rest();
            assert!(rest == "data: end" || rest == "\ndata: end", "{size}: {rest:?}");
            output.extend_from_slice(&rest);
            assert_eq!(output, text.as_bytes(), "{size}");
        }
    }
}
