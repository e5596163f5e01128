//! Server-sent events: an incremental parser that splits bytes into events, and a writer for the gateway's own events.
//!
//! Only framing, as in the HTML standard (LF, CR and CRLF; byte order mark; comments; several `data` lines). `tap` and
//! the decoders interpret the events. No byte is lost: the runs of a stream, concatenated, are the stream.
//!
//! Two chunks, and the runs the parser makes of them:
//!
//! ```text
//! chunk "data: a\n\n: hi\n\nda"  ->  run "data: a\n\n: hi\n\n"  events: data "a"; no data (a comment)
//! chunk "ta: b\n\n"              ->  run "data: b\n\n"          events: data "b"; the carry "da" is in front
//! ```

mod event;

pub use event::{Events, SseEvent};

use bytes::Bytes;
use memchr::{memchr2, memchr2_iter, memrchr2};
use std::borrow::Cow;
use std::ops::Range;

/// The largest event that is held in memory, bytes, with its field names and line ends. The largest real ones contain
/// an image as base64 (`image_generation.completed`, `response.completed`): a few MiB.
pub const MAX_EVENT_BYTES: usize = 16 << 20;

/// Splits a byte stream into events, independently of its chunks.
#[derive(Debug, Clone)]
pub struct SseParser {
    /// The beginning of an event whose end has not arrived yet.
    carry: Vec<u8>,
    limit: usize,
    /// Set while the current event is over the limit: its last byte so far. Its bytes pass without being an event.
    skipping: Option<u8>,
    /// Whether no byte was returned yet, so that a byte order mark may follow.
    at_stream_start: bool,
}

/// The bytes that one push completed: whole events, unless one is over the limit.
#[derive(Debug)]
pub struct Run<'c> {
    bytes: Cow<'c, [u8]>,
    /// The position of the events; all other bytes belong to an event over the limit.
    events: Range<usize>,
    limit: usize,
    at_stream_start: bool,
    oversized: bool,
}

impl Default for SseParser {
    fn default() -> Self {
        Self::with_limit(MAX_EVENT_BYTES)
    }
}

impl SseParser {
    fn with_limit(limit: usize) -> Self {
        Self { carry: Vec::new(), limit, skipping: None, at_stream_start: true }
    }

    /// Takes the next bytes, and returns the events that are complete now. The run borrows from `chunk` unless an event
    /// spans several chunks. An event that grows over the limit is not held: its bytes are returned as they arrive,
    /// without being an event ([`Run::is_oversized`]).
    pub fn push<'c>(&mut self, chunk: &'c [u8]) -> Run<'c> {
        let mut from = 0;
        if let Some(before) = self.skipping {
            let Some(end) = first_event_end(before, chunk) else {
                self.skipping = chunk.last().copied().or(self.skipping);
                return self.run(Cow::Borrowed(chunk), 0..0, true);
            };
            self.skipping = None;
            from = end;
        }
        let oversized = from > 0;
        let rest = chunk.get(from..).unwrap_or_default();
        let Some(length) = self.event_end(rest) else {
            // The skipped bytes are returned, the bytes after them are held.
            let skipped = chunk.get(..from).unwrap_or_default();
            self.carry.extend_from_slice(rest);
            if self.carry.len() <= self.limit {
                return self.run(Cow::Borrowed(skipped), from..from, oversized);
            }
            self.skipping = rest.last().copied();
            let held = std::mem::take(&mut self.carry);
            return self.run(Cow::Owned([skipped, &held].concat()), 0..0, true);
        };
        let end = from + length;
        let incomplete = chunk.get(end..).unwrap_or_default();
        // The whole chunk is returned if the incomplete event at its end is too long to be held.
        let too_long = incomplete.len() > self.limit;
        let taken = if too_long { chunk } else { chunk.get(..end).unwrap_or_default() };
        let (bytes, events) = if self.carry.is_empty() {
            (Cow::Borrowed(taken), from..end)
        } else {
            // Nothing was skipped: while bytes are skipped, none are held.
            let carried = self.carry.len();
            self.carry.extend_from_slice(taken);
            (Cow::Owned(std::mem::take(&mut self.carry)), 0..carried + end)
        };
        if too_long {
            self.skipping = incomplete.last().copied();
        } else {
            self.carry.extend_from_slice(incomplete);
        }
        self.run(bytes, events, oversized || too_long)
    }

    /// The stream has ended: returns a last event without a blank line, which some providers leave out after `[DONE]`.
    /// If the connection broke, its data may be an incomplete JSON text.
    pub fn finish(&mut self) -> Run<'static> {
        self.skipping = None;
        let rest = std::mem::take(&mut self.carry);
        let length = rest.len();
        self.run(Cow::Owned(rest), 0..length, false)
    }

    /// How many bytes it holds of an event that has not ended.
    pub fn held_bytes(&self) -> usize {
        self.carry.len()
    }

    /// The index behind the last event that ends in `bytes`, the bytes that follow the carry.
    fn event_end(&self, bytes: &[u8]) -> Option<usize> {
        let end = last_event_end(self.carry.last().copied(), bytes);
        let is_open = || self.carry.ends_with(b"\n\r") && !bytes.is_empty();
        end.or_else(|| is_open().then(|| usize::from(bytes.first() == Some(&b'\n'))))
    }

    fn run<'c>(&mut self, bytes: Cow<'c, [u8]>, events: Range<usize>, oversized: bool) -> Run<'c> {
        let at_stream_start = self.at_stream_start && !bytes.is_empty();
        self.at_stream_start &= bytes.is_empty();
        let mut run = Run { bytes, events, limit: self.limit, at_stream_start, oversized };
        if run.events.len() > run.limit {
            let limit = run.limit;
            run.oversized |= run.events().any(|event| event.raw.len() > limit);
        }
        run
    }
}

impl Run<'_> {
    /// All bytes of the run, exactly as they were received.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes as a slice of `chunk`, the chunk that was pushed; nothing is copied.
    pub fn into_bytes(self, chunk: &Bytes) -> Bytes {
        match self.bytes {
            Cow::Borrowed(part) => chunk.slice_ref(part),
            Cow::Owned(bytes) => Bytes::from(bytes),
        }
    }

    /// Whether some of its bytes belong to an event over the limit; they are in no event, or in one without data.
    pub fn is_oversized(&self) -> bool {
        self.oversized
    }

    /// The events, in order. Blocks that are comments only, or empty, are events without data.
    pub fn events(&self) -> Events<'_> {
        Events::new(&self.bytes, &self.events, self.limit, self.at_stream_start)
    }

    /// The data of all events that have some, for readers that need nothing else.
    pub fn data(&self) -> impl Iterator<Item = Cow<'_, [u8]>> {
        self.events().filter_map(|event| event.data)
    }
}

/// Whether a line end `this` with the byte `before` in front of it closes a blank line: both are line ends, and not the
/// two halves of a CRLF.
fn ends_blank_line(before: Option<u8>, this: Option<u8>) -> bool {
    let ends_line = |byte: Option<u8>| matches!(byte, Some(b'\n' | b'\r'));
    ends_line(before) && ends_line(this) && !(before == Some(b'\r') && this == Some(b'\n'))
}

/// The index behind a line end at `at`.
fn behind_line_end(bytes: &[u8], at: usize) -> usize {
    let is_crlf = bytes.get(at) == Some(&b'\r') && bytes.get(at + 1) == Some(&b'\n');
    at + 1 + usize::from(is_crlf)
}

/// The index behind the last blank line; `before` is the byte in front of `bytes`.
///
/// It does not find a blank line that is the very first line: that is returned in front of the next event. Nor one
/// whose CR is the last byte and follows an LF: it may be the first half of a CRLF. A CR that follows a CR ends the
/// event at once; if an LF follows, it is an empty block of the next run.
fn last_event_end(before: Option<u8>, bytes: &[u8]) -> Option<usize> {
    // Nearly always a chunk ends with an event.
    if bytes.ends_with(b"\n\n") {
        return Some(bytes.len());
    }
    let mut rest = bytes;
    while let Some(at) = memrchr2(b'\n', b'\r', rest) {
        let previous = at.checked_sub(1).map_or(before, |index| bytes.get(index).copied());
        let is_open = previous == Some(b'\n') && at + 1 == bytes.len() && bytes.ends_with(b"\r");
        if !is_open && ends_blank_line(previous, bytes.get(at).copied()) {
            return Some(behind_line_end(bytes, at));
        }
        rest = bytes.get(..at)?;
    }
    None
}

/// The index behind the first blank line; `before` is the byte in front of `bytes`.
fn first_event_end(before: u8, bytes: &[u8]) -> Option<usize> {
    let at = memchr2_iter(b'\n', b'\r', bytes).find(|at| {
        let previous = at.checked_sub(1).map_or(Some(before), |index| bytes.get(index).copied());
        ends_blank_line(previous, bytes.get(*at).copied())
    })?;
    Some(behind_line_end(bytes, at))
}

/// Removes the next line from `text`, and returns it without its line end.
fn next_line<'a>(text: &mut &'a [u8]) -> &'a [u8] {
    let bytes = *text;
    let length = memchr2(b'\n', b'\r', bytes).unwrap_or(bytes.len());
    let (line, rest) = bytes.split_at_checked(length).unwrap_or((bytes, b""));
    *text = rest.strip_prefix(b"\r\n").or(rest.get(1..)).unwrap_or_default();
    line
}

/// Appends one event to `out`; data of several lines becomes several `data` fields.
pub fn write_event(out: &mut Vec<u8>, event: Option<&str>, data: &[u8]) {
    if let Some(name) = event {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(name.as_bytes());
        out.push(b'\n');
    }
    let mut rest = data;
    loop {
        let more = memchr2(b'\n', b'\r', rest).is_some();
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(next_line(&mut rest));
        out.push(b'\n');
        if !more {
            break;
        }
    }
    out.push(b'\n');
}

#[cfg(test)]
mod tests;
