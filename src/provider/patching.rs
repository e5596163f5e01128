//! Applies a [`ResponsePatch`] to a response: to each stream event, or to the whole body. What the patch
//! leaves alone keeps every byte, including comments and unusual line ends.

use super::adapter::ResponsePatch;
use crate::api::sse::{MAX_EVENT_BYTES, SseParser, first_event_end, write_event};

/// The largest whole response held, in bytes; a larger one passes unpatched.
const MAX_HELD: usize = 16 << 20;

/// The patching of one response.
#[derive(Debug)]
pub(super) struct Patcher {
    patch: &'static dyn ResponsePatch,
    streamed: bool,
    /// An event, or a body, that is not complete yet.
    held: Vec<u8>,
    /// The response was too large to hold: the rest passes unpatched.
    passing: bool,
}

impl Patcher {
    pub fn new(patch: &'static dyn ResponsePatch, streamed: bool) -> Self {
        Self { patch, streamed, held: Vec::new(), passing: false }
    }

    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.passing {
            return out.extend_from_slice(bytes);
        }
        self.held.extend_from_slice(bytes);
        let max = if self.streamed { MAX_EVENT_BYTES } else { MAX_HELD };
        if self.streamed {
            let held = std::mem::take(&mut self.held);
            let mut rest = held.as_slice();
            while let Some((event, after)) = first_event_end(rest).and_then(|end| rest.split_at_checked(end))
            {
                self.event(event, out);
                rest = after;
            }
            self.held = rest.to_vec();
        }
        if self.held.len() > max {
            self.passing = true;
            out.append(&mut self.held);
        }
    }

    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let held = std::mem::take(&mut self.held);
        match self.streamed {
            true if !held.is_empty() => self.event(&held, out),
            false => match self.patch.patch(&held, false) {
                Some(patched) => out.extend_from_slice(&patched),
                None => out.extend_from_slice(&held),
            },
            true => {}
        }
    }

    fn event(&self, event: &[u8], out: &mut Vec<u8>) {
        let mut patched = None;
        let mut parser = SseParser::default();
        let mut apply = |event: crate::api::sse::Event<'_>| {
            if let Some(data) = self.patch.patch(event.data, true) {
                patched = Some((event.name.map(str::to_owned), data));
            }
        };
        // Cannot fail: the event is below the limit.
        let _ = parser.push(event, &mut apply);
        parser.finish(&mut apply);
        match patched {
            Some((name, data)) => write_event(out, name.as_deref(), &data),
            None => out.extend_from_slice(event),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Shout;

    impl ResponsePatch for Shout {
        fn patch(&self, data: &[u8], _streamed: bool) -> Option<Vec<u8>> {
            (data == b"low").then(|| b"LOW".to_vec())
        }
    }

    #[test]
    fn unpatched_events_keep_every_byte_at_any_chunk_size() {
        let text = ": hello\r\n\r\ndata: a\n\nevent: x\r\ndata:low\r\n\r\ndata: b\n\n\ndata: end";
        let wanted = ": hello\r\n\r\ndata: a\n\nevent: x\ndata: LOW\n\ndata: b\n\n\ndata: end";
        for size in 1..text.len() {
            let mut patcher = Patcher::new(&Shout, true);
            let mut out = Vec::new();
            for chunk in text.as_bytes().chunks(size) {
                patcher.push(chunk, &mut out);
            }
            patcher.finish(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), wanted, "{size}");
        }
        let mut patcher = Patcher::new(&Shout, false);
        let mut out = Vec::new();
        patcher.push(b"lo", &mut out);
        patcher.push(b"w", &mut out);
        patcher.finish(&mut out);
        assert_eq!(out, b"LOW");
    }
}
