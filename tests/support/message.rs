//! An HTTP/1.1 message as sent: start line, headers in their order and spelling, body.
//!
//! Nothing is normalised, so that a test sees what a proxy changed. Slow on large bodies.

/// A request or a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) start: String,
    pub(crate) headers: Vec<(String, String)>,
    /// Without the framing of a chunked body.
    pub(crate) body: Vec<u8>,
}

impl Message {
    /// The message at the start of `bytes` and its length; `None` if it is incomplete. With `closed`, nothing
    /// more will arrive, so a response without a length ends here.
    pub(crate) fn parse(bytes: &[u8], closed: bool) -> Option<(Self, usize)> {
        let end = memchr::memmem::find(bytes, b"\r\n\r\n")? + 4;
        let head = String::from_utf8_lossy(&bytes[..end - 4]);
        let mut lines = head.split("\r\n");
        let start = lines.next()?.to_owned();
        let split = |line: &str| {
            line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim_start().to_owned()))
        };
        let message = Self { start, headers: lines.filter_map(split).collect(), body: Vec::new() };
        let rest = &bytes[end..];
        let (body, length) = match (message.header("transfer-encoding"), message.header("content-length")) {
            (Some(_), _) => dechunked(rest)?,
            (None, Some(length)) => {
                let length: usize = length.parse().ok()?;
                (rest.get(..length)?.to_vec(), length)
            }
            (None, None) if message.start.starts_with("HTTP/") && !message.is_bodyless() => {
                closed.then(|| (rest.to_vec(), rest.len()))?
            }
            (None, None) => (Vec::new(), 0),
        };
        Some((Self { body, ..message }, end + length))
    }

    /// The first value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The status of a response.
    pub(crate) fn status(&self) -> u16 {
        self.start.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default()
    }

    /// The body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn is_bodyless(&self) -> bool {
        matches!(self.status(), 100..=199 | 204 | 304)
    }
}

fn dechunked(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let mut body = Vec::new();
    let mut at = 0;
    loop {
        let line = memchr::memmem::find(bytes.get(at..)?, b"\r\n")?;
        let size = std::str::from_utf8(&bytes[at..at + line]).ok()?;
        let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
        at += line + 2;
        body.extend_from_slice(bytes.get(at..at + size)?);
        at += size + 2;
        if size == 0 {
            return (bytes.len() >= at).then_some((body, at));
        }
    }
}
