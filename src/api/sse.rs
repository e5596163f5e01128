//! Server-sent events: an incremental splitter of bytes into events, and the writer for our own.
//!
//! Framing only, as the HTML standard has it (LF, CR and CRLF; byte order mark; comments; several `data`
//! lines). What an event means is the business of `tap` and of the providers' rewriters.

mod event_boundary;

pub use event_boundary::{EventBoundary, first_event_end};

use memchr::memchr2;
use std::fmt;

/// The largest event we hold, in bytes with its field names and line ends. The largest real ones carry
/// an image as base64 (`image_generation.completed`, `response.completed`): a few MiB. Whatever is
/// larger must not fill our memory.
pub const MAX_EVENT_BYTES: usize = 16 << 20;

/// Above this size the carry-over buffer is given back after use, so that one large event does not cost
/// memory for the rest of a long stream.
const KEPT_CAPACITY: usize = 64 << 10;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One event. Borrowed from the chunk it came in, or from the splitter where it spans several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// The last `event` field; `None` when there is none, it is empty or not UTF-8.
    pub name: Option<&'a str>,
    /// All `data` fields, joined by LF.
    pub data: &'a [u8],
}

/// An event was over [`MAX_EVENT_BYTES`]; it was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a stream event is over {MAX_EVENT_BYTES} bytes")
    }
}

impl std::error::Error for TooLong {}

/// Cuts a byte stream into events, whatever the chunks it comes in.
#[derive(Debug)]
pub struct SseParser {
    /// The beginning of an event whose end has not come yet.
    carry: Vec<u8>,
    /// Where several `data` lines are joined.
    joined: Vec<u8>,
    limit: usize,
    /// No byte of the current line has been seen.
    at_line_start: bool,
    /// The last byte was a CR: an LF that follows belongs to it.
    after_cr: bool,
    /// The current event is over the limit: everything up to its end is thrown away.
    skipping: bool,
    /// Nothing has been handed out or skipped yet: a byte order mark may stand here.
    at_stream_start: bool,
}

impl Default for SseParser {
    fn default() -> Self {
        Self::with_limit(MAX_EVENT_BYTES)
    }
}

impl SseParser {
    fn with_limit(limit: usize) -> Self {
        Self {
            carry: Vec::new(),
            joined: Vec::new(),
            limit,
            at_line_start: true,
            after_cr: false,
            skipping: false,
            at_stream_start: true,
        }
    }

    /// Takes the next bytes and calls `on` for every event they complete, in order. An event without
    /// `data` is none, as in browsers.
    ///
    /// # Errors
    /// [`TooLong`] when an event went over the limit in this chunk. It is left out; the events around it
    /// have all been handed out, and pushing may go on.
    pub fn push(&mut self, chunk: &[u8], on: &mut dyn FnMut(Event<'_>)) -> Result<(), TooLong> {
        let mut rest = chunk;
        let mut result = Ok(());
        // An event ended on a CR at the end of the last chunk: this LF is the other half of its line end.
        if self.after_cr && self.at_line_start && self.carry.is_empty() && !self.skipping {
            self.after_cr = rest.is_empty();
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some((text, after)) = self.find_end(rest).and_then(|end| rest.split_at_checked(end)) {
            rest = after;
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            if self.carry.len() + text.len() > self.limit {
                result = Err(TooLong);
                self.at_stream_start = false;
                self.release();
            } else if self.carry.is_empty() {
                self.emit(text, on);
            } else {
                let mut carry = std::mem::take(&mut self.carry);
                carry.extend_from_slice(text);
                self.emit(&carry, on);
                self.carry = carry;
                self.release();
            }
        }
        if !self.skipping && self.carry.len() + rest.len() > self.limit {
            result = Err(TooLong);
            self.skipping = true;
            self.at_stream_start = false;
            self.release();
        } else if !self.skipping {
            self.carry.extend_from_slice(rest);
        }
        result
    }

    /// The stream is over. Hands out a last event whose blank line never came: some providers leave it
    /// out after `[DONE]`. Where the connection was cut, its data may be half a JSON text.
    pub fn finish(&mut self, on: &mut dyn FnMut(Event<'_>)) {
        let carry = std::mem::take(&mut self.carry);
        if !std::mem::take(&mut self.skipping) {
            self.emit(&carry, on);
        }
        self.at_line_start = true;
        self.after_cr = false;
    }

    /// The index behind the blank line that ends the current event.
    fn find_end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            at = usize::from(bytes.first() == Some(&b'\n'));
        }
        loop {
            let rest = bytes.get(at..)?;
            let Some(length) = memchr2(b'\n', b'\r', rest) else {
                self.at_line_start &= rest.is_empty();
                return None;
            };
            let blank = self.at_line_start && length == 0;
            self.at_line_start = true;
            at += length + 1;
            if rest.get(length) == Some(&b'\r') {
                match bytes.get(at) {
                    Some(b'\n') => at += 1,
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
            if blank {
                return Some(at);
            }
        }
    }

    /// Reads the fields of one event's text and hands it out when it has data.
    fn emit(&mut self, text: &[u8], on: &mut dyn FnMut(Event<'_>)) {
        let mut text = text;
        if std::mem::take(&mut self.at_stream_start) {
            text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        }
        // Nearly every event is this one line: nothing to tell apart, nothing to join.
        if let Some(data) = single_line_data(text) {
            return on(Event { name: None, data });
        }
        let mut name = None;
        let mut data: Option<&[u8]> = None;
        let mut joined = false;
        while !text.is_empty() {
            let line = next_line(&mut text);
            if let Some(value) = field(line, b"data") {
                match data {
                    None => data = Some(value),
                    Some(first) => {
                        if !joined {
                            self.joined.clear();
                            self.joined.extend_from_slice(first);
                            joined = true;
                        }
                        self.joined.push(b'\n');
                        self.joined.extend_from_slice(value);
                    }
                }
            } else if let Some(value) = field(line, b"event") {
                name = std::str::from_utf8(value).ok().filter(|name| !name.is_empty());
            }
        }
        if let Some(data) = data {
            on(Event { name, data: if joined { &self.joined } else { data } });
        }
    }

    fn release(&mut self) {
        self.carry.clear();
        self.carry.shrink_to(KEPT_CAPACITY);
        self.joined.shrink_to(KEPT_CAPACITY);
    }
}

/// The data of an event that is one `data` line and the blank one behind it; `None` for any other, which may have
/// data all the same.
pub fn single_line_data(text: &[u8]) -> Option<&[u8]> {
    let line = text.strip_prefix(b"data: ")?.strip_suffix(b"\n\n")?;
    memchr2(b'\n', b'\r', line).is_none().then_some(line)
}

/// Takes the next line off `text`, without its line end.
fn next_line<'a>(text: &mut &'a [u8]) -> &'a [u8] {
    let bytes = *text;
    let length = memchr2(b'\n', b'\r', bytes).unwrap_or(bytes.len());
    let (line, rest) = bytes.split_at_checked(length).unwrap_or((bytes, b""));
    *text = rest.strip_prefix(b"\r\n").or(rest.get(1..)).unwrap_or_default();
    line
}

/// The value of a line that holds the field `name`.
fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let rest = line.strip_prefix(name)?;
    match rest.strip_prefix(b":") {
        Some(value) => Some(value.strip_prefix(b" ").unwrap_or(value)),
        None if rest.is_empty() => Some(b""),
        None => None,
    }
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
