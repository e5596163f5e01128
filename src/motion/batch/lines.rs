//! The lines of a JSONL blob, one at a time, each of a bounded size.
//!
//! Not here: what a line has to be (`validation`). A line ends with LF or CRLF, the last one may have no end; a byte order mark at the
//! start is skipped; lines of blanks are skipped and counted.

use super::blobs::BlobError;
use super::job_state::Position;
use super::line_error::LineError;
use bytes::{Buf as _, Bytes, BytesMut};
use futures_util::stream::{BoxStream, Stream, StreamExt as _};
use memchr::memchr;

/// The last line that may be a request, blank lines counted. Results are kept in a set that grows with the number.
pub(crate) const MAX_LINE_NUMBER: u32 = 10_000_000;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// What a line may have beyond its content: the mark before it and CR behind it.
const MAX_EXTRA: usize = 4;

/// One line, without its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// From 1.
    pub number: u32,
    /// Memory of its own, so that a line in flight does not hold the piece that it came with.
    pub bytes: Bytes,
}

/// The lines of a blob.
pub(crate) type FileLines = LineReader<BoxStream<'static, Result<Bytes, BlobError>>>;

/// Reads lines. Holds one piece of the stream, and of a line that spans pieces at most `max_line_bytes`.
pub(crate) struct LineReader<S> {
    stream: S,
    max_line_bytes: usize,
    /// What is left of the last piece.
    piece: Bytes,
    /// The beginning of a line whose end is in a later piece.
    partial: BytesMut,
    /// The current line is too long: the rest of it is dropped.
    too_long: bool,
    /// Of the last line, from 1.
    number: u32,
    /// Bytes before what is left of the last piece.
    byte: u64,
}

impl<S> LineReader<S>
where
    S: Stream<Item = Result<Bytes, BlobError>> + Unpin,
{
    pub fn new(stream: S, max_line_bytes: usize) -> Self {
        Self::at(stream, max_line_bytes, Position::default())
    }

    /// Reads a stream that begins at this place.
    pub fn at(stream: S, max_line_bytes: usize, Position { line, byte }: Position) -> Self {
        Self {
            stream,
            max_line_bytes,
            piece: Bytes::new(),
            partial: BytesMut::new(),
            too_long: false,
            number: line,
            byte,
        }
    }

    /// Of the last line.
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// After the last line.
    pub const fn position(&self) -> Position {
        Position { line: self.number, byte: self.byte }
    }

    /// The next line that is not blank, or that it is too long; `None` at the end. `Err`: the blob cannot be read.
    pub async fn next(&mut self) -> Result<Option<Result<Line, LineError>>, BlobError> {
        loop {
            if self.piece.is_empty() {
                match self.stream.next().await {
                    Some(piece) => self.piece = piece?,
                    None if self.partial.is_empty() && !self.too_long => return Ok(None),
                    None => {
                        if let Some(line) = self.end_line(Bytes::new()) {
                            return Ok(Some(line));
                        }
                        continue;
                    }
                }
            }
            let Some(at) = memchr(b'\n', &self.piece) else {
                let rest = std::mem::take(&mut self.piece);
                self.byte += rest.len() as u64;
                self.keep(&rest);
                continue;
            };
            let end = self.piece.split_to(at);
            self.piece.advance(1);
            self.byte += at as u64 + 1;
            if let Some(line) = self.end_line(end) {
                return Ok(Some(line));
            }
        }
    }

    /// Adds to the beginning of the current line, unless it is too long already.
    fn keep(&mut self, bytes: &[u8]) {
        let max = self.max_line_bytes.saturating_add(MAX_EXTRA);
        if self.too_long || self.partial.len().saturating_add(bytes.len()) > max {
            self.too_long = true;
            self.partial = BytesMut::new();
        } else {
            self.partial.extend_from_slice(bytes);
        }
    }

    /// The current line, complete with `end`; `None` if it is blank.
    fn end_line(&mut self, end: Bytes) -> Option<Result<Line, LineError>> {
        self.number = self.number.saturating_add(1);
        let whole = if self.partial.is_empty() && !self.too_long {
            end
        } else {
            self.keep(&end);
            std::mem::take(&mut self.partial).freeze()
        };
        let mark = if self.number == 1 { BYTE_ORDER_MARK } else { b"" };
        let content = whole.strip_prefix(mark).unwrap_or(&whole);
        let content = content.strip_suffix(b"\r").unwrap_or(content);
        if std::mem::take(&mut self.too_long) || content.len() > self.max_line_bytes {
            return Some(Err(self.error()));
        }
        if content.trim_ascii().is_empty() {
            return None;
        }
        Some(Ok(Line { number: self.number, bytes: Bytes::copy_from_slice(content) }))
    }

    fn error(&self) -> LineError {
        let message = format!(
            "This line is longer than {} bytes, the most a line of a batch may have. Make the request shorter.",
            self.max_line_bytes
        );
        LineError { code: "line_too_long", message, param: None, line: Some(self.number) }
    }
}

#[cfg(test)]
mod tests;
