//! Parses one HTTP/1.1 response as it arrives: headers, then a body by length, by chunks, or until the
//! connection ends.
//!
//! Not a server-grade parser: it accepts what the emulator, Pingora and the gateway send, and rejects the
//! rest.

use super::Failure;
use super::client::Expect;
use memchr::memmem;

/// How the end of the body is determined.
#[derive(Debug, Clone, Copy, Default)]
enum Framing {
    #[default]
    HeadersNotRead,
    Length(usize),
    Chunked,
    UntilClosed,
    Complete,
}

/// A response being read; its buffers live as long as the connection.
#[derive(Debug, Default)]
pub(crate) struct Response {
    input: Vec<u8>,
    /// How many bytes of `input` are consumed.
    used: usize,
    body: Vec<u8>,
    status: u16,
    close: bool,
    framing: Framing,
}

impl Response {
    /// Prepares for the next response on the same connection.
    pub(crate) fn restart(&mut self) {
        self.input.drain(..self.used);
        self.used = 0;
        self.body.clear();
        self.framing = Framing::HeadersNotRead;
    }

    /// The buffer for bytes from the socket.
    pub(crate) fn input(&mut self) -> &mut Vec<u8> {
        &mut self.input
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    pub(crate) fn is_complete(&self) -> bool {
        matches!(self.framing, Framing::Complete)
    }

    pub(crate) fn is_keep_alive(&self) -> bool {
        !self.close
    }

    /// Parses what has arrived.
    ///
    /// # Errors
    /// The bytes are not HTTP/1.1 as this parser expects it.
    pub(crate) fn advance(&mut self) -> Result<(), Failure> {
        if matches!(self.framing, Framing::HeadersNotRead) {
            self.read_headers()?;
        }
        match self.framing {
            Framing::HeadersNotRead | Framing::Complete => {}
            Framing::Length(length) => {
                self.take(length - self.body.len());
                if self.body.len() == length {
                    self.framing = Framing::Complete;
                }
            }
            Framing::Chunked => while self.read_chunk()? {},
            Framing::UntilClosed => self.take(usize::MAX),
        }
        Ok(())
    }

    /// The connection ended.
    ///
    /// # Errors
    /// The response was not complete.
    pub(crate) fn closed(&mut self) -> Result<(), Failure> {
        if !matches!(self.framing, Framing::UntilClosed) {
            return Err("the connection closed before the response was complete".into());
        }
        self.framing = Framing::Complete;
        self.close = true;
        Ok(())
    }

    /// Checks that this is the expected response.
    ///
    /// # Errors
    /// The response that came instead.
    pub(crate) fn check(&self, expect: Expect) -> Result<(), Failure> {
        let good = match expect {
            Expect::Whole => memmem::find(&self.body, b"\"choices\"").is_some(),
            Expect::Stream { events } => {
                memmem::find_iter(&self.body, b"data:").count() > events
                    && memmem::find(&self.body, b"data: [DONE]").is_some()
            }
        };
        if self.status == 200 && good {
            return Ok(());
        }
        let start = self.body.get(..400).unwrap_or(&self.body);
        Err(format!("not the expected response: {} {}", self.status, String::from_utf8_lossy(start)).into())
    }

    fn rest(&self) -> &[u8] {
        self.input.get(self.used..).unwrap_or_default()
    }

    /// Moves up to `limit` bytes from the input to the body.
    fn take(&mut self, limit: usize) {
        let rest = self.input.get(self.used..).unwrap_or_default();
        let taken = rest.get(..limit).unwrap_or(rest);
        self.body.extend_from_slice(taken);
        self.used += taken.len();
    }

    fn read_headers(&mut self) -> Result<(), Failure> {
        let Some(end) = memmem::find(self.rest(), b"\r\n\r\n") else { return Ok(()) };
        let head = std::str::from_utf8(self.rest().get(..end).unwrap_or_default())?;
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).ok_or("no status line")?;
        let status = status.parse()?;
        let mut close = false;
        let mut framing = Framing::UntilClosed;
        for line in lines {
            let (name, value) = line.split_once(':').ok_or("a header without a colon")?;
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") {
                framing = Framing::Length(value.parse()?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                framing = Framing::Chunked;
            } else if name.eq_ignore_ascii_case("connection") {
                close = value.eq_ignore_ascii_case("close");
            }
        }
        (self.status, self.close, self.framing) = (status, close, framing);
        self.used += end + 4;
        Ok(())
    }

    /// Consumes one whole chunk; `false` if more bytes are needed, or the last chunk was read.
    fn read_chunk(&mut self) -> Result<bool, Failure> {
        let rest = self.rest();
        let Some(line) = memmem::find(rest, b"\r\n") else { return Ok(false) };
        let size = std::str::from_utf8(rest.get(..line).unwrap_or_default())?;
        let size = usize::from_str_radix(size.split(';').next().unwrap_or_default().trim(), 16)?;
        if rest.len() < line + 2 + size + 2 {
            return Ok(false);
        }
        self.used += line + 2;
        self.take(size);
        self.used += 2;
        if size == 0 {
            self.framing = Framing::Complete;
        }
        Ok(size > 0)
    }
}
