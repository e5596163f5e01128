//! One event and its fields, read from the bytes of a run.
//!
//! Does not find the end of a run; the parser (`api::sse`) does.

use super::next_line;
use memchr::memchr2;
use std::borrow::Cow;
use std::ops::Range;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One event, borrowed from its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// The last `event` field; `None` if there is none, or it is empty or not UTF-8.
    pub name: Option<&'a str>,
    /// All `data` fields, joined by LF; `None` for a comment or an empty block, which browsers do not report, and for
    /// an event over the limit.
    pub data: Option<Cow<'a, [u8]>>,
    /// Its bytes as they were received, with the blank line.
    pub raw: &'a [u8],
    /// Where `raw` begins in the run.
    pub start: usize,
}

impl SseEvent<'_> {
    /// The index behind it in the run.
    pub fn end(&self) -> usize {
        self.start + self.raw.len()
    }
}

/// The events of one run, in order.
#[derive(Debug, Clone)]
pub struct Events<'a> {
    /// What is left of the run, from `at` to the end of its events.
    rest: &'a [u8],
    at: usize,
    limit: usize,
    at_stream_start: bool,
}

impl<'a> Events<'a> {
    pub(super) fn new(run: &'a [u8], events: &Range<usize>, limit: usize, at_stream_start: bool) -> Self {
        let rest = run.get(events.clone()).unwrap_or_default();
        Self { rest, at: events.start, limit, at_stream_start }
    }

    /// Removes the next `length` bytes as one event.
    fn event(&mut self, length: usize, name: Option<&'a str>, data: Option<Cow<'a, [u8]>>) -> SseEvent<'a> {
        let (raw, rest) = self.rest.split_at_checked(length).unwrap_or((self.rest, b""));
        let start = self.at;
        self.rest = rest;
        self.at += raw.len();
        SseEvent { name, data: data.filter(|_| raw.len() <= self.limit), raw, start }
    }
}

impl<'a> Iterator for Events<'a> {
    type Item = SseEvent<'a>;

    fn next(&mut self) -> Option<SseEvent<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        // Nearly every event is a single `data` line, which needs no parsing of fields.
        if let Some((length, data)) = single_line(self.rest) {
            self.at_stream_start = false;
            return Some(self.event(length, None, Some(Cow::Borrowed(data))));
        }
        if let Some(length) = blank_lines(self.rest, self.limit) {
            self.at_stream_start = false;
            return Some(self.event(length, None, None));
        }
        let mut text = self.rest;
        if std::mem::take(&mut self.at_stream_start) {
            text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        }
        let mut name = None;
        let mut data: Option<Cow<'a, [u8]>> = None;
        while !text.is_empty() {
            let line = next_line(&mut text);
            if line.is_empty() {
                break;
            }
            if let Some(value) = field(line, b"data") {
                match &mut data {
                    None => data = Some(Cow::Borrowed(value)),
                    Some(joined) => {
                        let joined = joined.to_mut();
                        joined.push(b'\n');
                        joined.extend_from_slice(value);
                    }
                }
            } else if let Some(value) = field(line, b"event") {
                name = std::str::from_utf8(value).ok().filter(|name| !name.is_empty());
            }
        }
        Some(self.event(self.rest.len() - text.len(), name, data))
    }
}

/// The length and the data of an event that is one `data` line and a blank one; `None` for any other.
fn single_line(text: &[u8]) -> Option<(usize, &[u8])> {
    let line = text.strip_prefix(b"data: ")?;
    let length = memchr2(b'\n', b'\r', line)?;
    line.get(length..)?.starts_with(b"\n\n").then_some(())?;
    Some((b"data: ".len() + length + 2, line.get(..length)?))
}

/// The length of the blank lines at the start of a text, at most `limit`; `None` if there are none. Together they are one
/// empty event: as an event each, a stream of line ends would cost many times what other bytes cost.
fn blank_lines(text: &[u8], limit: usize) -> Option<usize> {
    let text = text.get(..limit).unwrap_or(text);
    let length = text.iter().position(|byte| !matches!(byte, b'\n' | b'\r')).unwrap_or(text.len());
    (length > 0).then_some(length)
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
