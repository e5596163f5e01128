//! Puts an answer right in place: each stream event, or the whole body, is shown to a [`Mend`]; what it
//! leaves alone keeps every byte, comments and odd line ends included.

use super::way::Mend;
use crate::api::sse::{MAX_EVENT_BYTES, SseParser, first_event_end, write_event};

/// The largest whole answer held, bytes; a larger one passes as it is.
const MOST_HELD: usize = 16 << 20;

/// One answer on its way.
#[derive(Debug)]
pub(super) struct Mending {
    mend: &'static dyn Mend,
    streamed: bool,
    /// An event, or a body, whose end has not come yet.
    held: Vec<u8>,
    /// Too large to hold: the rest passes.
    passing: bool,
}

impl Mending {
    pub fn new(mend: &'static dyn Mend, streamed: bool) -> Self {
        Self { mend, streamed, held: Vec::new(), passing: false }
    }

    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.passing {
            return out.extend_from_slice(bytes);
        }
        self.held.extend_from_slice(bytes);
        let most = if self.streamed { MAX_EVENT_BYTES } else { MOST_HELD };
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
        if self.held.len() > most {
            self.passing = true;
            out.append(&mut self.held);
        }
    }

    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let held = std::mem::take(&mut self.held);
        match self.streamed {
            true if !held.is_empty() => self.event(&held, out),
            false => match self.mend.mend(&held, false) {
                Some(better) => out.extend_from_slice(&better),
                None => out.extend_from_slice(&held),
            },
            true => {}
        }
    }

    fn event(&self, event: &[u8], out: &mut Vec<u8>) {
        let mut better = None;
        let mut splitter = SseParser::default();
        let mut show = |event: crate::api::sse::Event<'_>| {
            if let Some(data) = self.mend.mend(event.data, true) {
                better = Some((event.name.map(str::to_owned), data));
            }
        };
        // Held below the limit: it cannot be too long.
        let _ = splitter.push(event, &mut show);
        splitter.finish(&mut show);
        match better {
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

    impl Mend for Shout {
        fn mend(&self, data: &[u8], _streamed: bool) -> Option<Vec<u8>> {
            (data == b"low").then(|| b"LOW".to_vec())
        }
    }

    #[test]
    fn what_is_left_alone_keeps_every_byte_whatever_the_cuts() {
        let text = ": hello\r\n\r\ndata: a\n\nevent: x\r\ndata:low\r\n\r\ndata: b\n\n\ndata: end";
        let wanted = ": hello\r\n\r\ndata: a\n\nevent: x\ndata: LOW\n\ndata: b\n\n\ndata: end";
        for size in 1..text.len() {
            let mut mending = Mending::new(&Shout, true);
            let mut out = Vec::new();
            for piece in text.as_bytes().chunks(size) {
                mending.push(piece, &mut out);
            }
            mending.finish(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), wanted, "{size}");
        }
        let mut mending = Mending::new(&Shout, false);
        let mut out = Vec::new();
        mending.push(b"lo", &mut out);
        mending.push(b"w", &mut out);
        mending.finish(&mut out);
        assert_eq!(out, b"LOW");
    }
}
