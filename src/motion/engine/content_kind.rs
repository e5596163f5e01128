//! What a successful response is: judged by its header, and by its first byte where a model's output is due.
//!
//! A gateway of somebody else's, a captive portal or a broken server may respond with a page, a list or nothing at all
//! and still with the status 200. The rest of a response is judged by `response_body`.

use super::response_policy::ResponsePolicy;
use http::HeaderValue;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use pingora::http::ResponseHeader;

/// The longest document that is held until it is complete although no other attempt could replace it.
const MAX_SMALL: usize = 64 << 10;

/// What a response is, judged by its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentKind {
    Events,
    Json,
    /// Audio, files, or anything that cannot be read.
    Other,
    /// Whatever it is, it cannot be read.
    Compressed,
}

impl ContentKind {
    /// What a chat is when it is what was requested.
    pub const fn requested(streamed: bool) -> Self {
        if streamed { Self::Events } else { Self::Json }
    }

    /// Whether it is a stream of events or a whole document; `None`: neither, as far as can be seen.
    pub const fn is_stream(self) -> Option<bool> {
        match self {
            Self::Events => Some(true),
            Self::Json => Some(false),
            Self::Other | Self::Compressed => None,
        }
    }

    pub fn of(header: &ResponseHeader) -> Self {
        // `identity`, and no value at all, mean that nothing was done to the body.
        let is_plain = |value: &HeaderValue| {
            let value = value.as_bytes().trim_ascii();
            value.is_empty() || value.eq_ignore_ascii_case(b"identity")
        };
        if !header.headers.get_all(CONTENT_ENCODING).iter().all(is_plain) {
            return Self::Compressed;
        }
        let media =
            header.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        match media {
            _ if is_media(media, "text/event-stream") => Self::Events,
            _ if is_media(media, "application/vnd.amazon.eventstream") => Self::Events,
            _ if is_media(media, "application/json") => Self::Json,
            _ => Self::Other,
        }
    }
}

/// Whether a `Content-Type` is this media type, whatever its parameters are.
pub fn is_media(value: &str, wanted: &str) -> bool {
    let Some((essence, rest)) = value.trim_start().split_at_checked(wanted.len()) else { return false };
    essence.eq_ignore_ascii_case(wanted) && matches!(rest.trim_start().as_bytes().first(), None | Some(b';'))
}

/// Why a response cannot be a model's output, as far as its header shows.
pub(super) fn header_error(
    header: &ResponseHeader,
    kind: ContentKind,
    policy: &ResponsePolicy,
) -> Option<&'static str> {
    let media = || header.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match kind {
        _ if !policy.wanted.expects_model() => None,
        // Only chats are streamed.
        ContentKind::Events if !policy.wanted.operation.is_chat() => Some("the answer is a stream"),
        // A page, which some proxy in between sent in place of the provider.
        ContentKind::Other | ContentKind::Compressed if policy.validates && media().starts_with("text/") => {
            Some("the answer is neither JSON nor events")
        }
        _ => None,
    }
}

/// Whether a response that passes unchanged can be a model's output.
#[derive(Debug)]
pub(super) struct ContentCheck {
    kind: ContentKind,
    /// A model's output is due, and it can be read.
    applies: bool,
    /// The client requested a stream.
    streamed: bool,
    /// The first byte that is no white space.
    first_byte: Option<u8>,
}

impl ContentCheck {
    /// `expects_model`: the response must be a model's output; `streamed`: the client requested a stream.
    pub fn new(kind: ContentKind, expects_model: bool, streamed: bool) -> Self {
        let applies = expects_model && kind != ContentKind::Compressed;
        Self { kind, applies, streamed, first_byte: None }
    }

    /// Takes the next bytes. `Some`: why this cannot be a model's output.
    pub fn take(&mut self, chunk: &[u8]) -> Option<&'static str> {
        if !self.applies || self.first_byte.is_some() {
            return None;
        }
        self.first_byte = chunk.iter().copied().find(|byte| !byte.is_ascii_whitespace());
        match self.first_byte? {
            // No event begins so, in text or in frames.
            b'{' | b'[' | b'<' if self.kind == ContentKind::Events => {
                Some("the answer is no stream of events")
            }
            _ if self.kind == ContentKind::Events => None,
            b'{' if self.streamed && self.kind == ContentKind::Other => {
                Some("the answer is no stream of events")
            }
            // An object, or the byte order mark before one.
            b'{' | b'\xef' => None,
            // The comment or the fields of an event, where the header does not say that events follow.
            b':' | b'd' | b'e' | b'i' | b'r' if self.streamed && self.kind == ContentKind::Other => None,
            b'<' => Some("the answer is a page"),
            _ => Some("the answer is no JSON object"),
        }
    }

    /// The response has ended. `Some`: why it cannot be a model's output.
    pub fn finish(&self) -> Option<&'static str> {
        let is_empty = self.applies && self.first_byte.is_none() && self.kind != ContentKind::Events;
        is_empty.then_some("the answer is empty")
    }

    /// Whether more must arrive before the response may be committed: all of a small document, because an error in it must
    /// get a status of its own, and the first byte of anything else. `received`: how many bytes have arrived. White space
    /// that a provider sends to keep the connection alive is not held.
    pub fn is_open(&self, received: usize) -> bool {
        self.applies
            && match self.kind {
                ContentKind::Events | ContentKind::Compressed => false,
                ContentKind::Json => received == 0 || (self.first_byte.is_some() && received <= MAX_SMALL),
                ContentKind::Other => self.first_byte.is_none(),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(media: &'static str, streamed: bool) -> ContentCheck {
        let mut header = ResponseHeader::build(200, None).unwrap();
        header.insert_header("content-type", media).unwrap();
        ContentCheck::new(ContentKind::of(&header), true, streamed)
    }

    #[test]
    fn only_an_object_or_events_can_be_a_models_output() {
        for (media, streamed, body, fits) in [
            ("application/json", false, "\r\n {\"a\":1}", true),
            ("application/json; charset=utf-8", true, "\u{feff}{}", true),
            ("application/json", false, "[]", false),
            ("application/json", false, "null", false),
            ("application/json", true, "data: {}", false),
            ("text/html", false, "<!doctype html>", false),
            ("text/plain", false, "OK", false),
            ("text/plain", false, "{}", true),
            ("", true, "data: {}", true),
            ("", true, ": hello", true),
            ("", false, "data: {}", false),
            ("", true, "{}", false),
            ("application/octet-stream", true, "{}", false),
            ("application/octet-stream", false, "{}", true),
            ("text/event-stream", true, "anything", true),
            ("text/event-stream", true, "{\"a\":1}", false),
            ("text/event-stream", false, "[]", false),
            ("application/vnd.amazon.eventstream", true, "\0\0\0{", true),
        ] {
            let mut check = check(media, streamed);
            assert_eq!(check.take(b" ").or(check.take(body.as_bytes())).is_none(), fits, "{media} {body}");
            assert_eq!(check.finish(), None, "{media} {body}");
        }
        for media in ["application/json", "text/plain", ""] {
            let mut check = check(media, false);
            assert!(check.take(b" \n").is_none() && check.finish().is_some(), "{media}");
        }
    }

    #[test]
    fn a_small_document_is_held_and_other_bytes_are_not() {
        let mut document = check("application/json", false);
        assert!(document.is_open(0));
        document.take(b" ");
        assert!(!document.is_open(1), "a provider keeps the connection alive");
        document.take(b"{");
        assert!(document.is_open(2) && !document.is_open(MAX_SMALL + 1));
        let mut unlabelled = check("", true);
        assert!(unlabelled.is_open(0));
        unlabelled.take(b"data");
        assert!(!unlabelled.is_open(4));
        assert!(!check("text/event-stream", true).is_open(0));
    }

    #[test]
    fn compressed_responses_and_other_operations_are_not_judged() {
        for (kind, expects_model) in [(ContentKind::Other, false), (ContentKind::Compressed, true)] {
            let mut check = ContentCheck::new(kind, expects_model, false);
            assert!(check.take(b"<").is_none() && check.finish().is_none() && !check.is_open(0), "{kind:?}");
        }
        let mut header = ResponseHeader::build(200, None).unwrap();
        header.insert_header("content-type", "application/json").unwrap();
        for (encoding, wanted) in [
            ("gzip", ContentKind::Compressed),
            ("aws-chunked", ContentKind::Compressed),
            ("identity", ContentKind::Json),
            (" Identity ", ContentKind::Json),
            ("", ContentKind::Json),
        ] {
            header.insert_header("content-encoding", encoding).unwrap();
            assert_eq!(ContentKind::of(&header), wanted, "{encoding:?}");
        }
    }
}
