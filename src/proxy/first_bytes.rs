//! Recognizes from its first bytes a connection that can never carry an HTTP request: TLS on a plain port, SSH, anything
//! binary. Such a client would otherwise wait for the end of the header timeout.
//!
//! Does not parse requests: what may still become one is left to the parser.

use words::error::Error;

/// The longest method. The longest registered one has 17 bytes.
const MAX_METHOD: usize = 32;

/// The error for a connection that begins with these bytes; `None` while they may become a request.
pub(super) fn refusal(bytes: &[u8]) -> Option<Error> {
    // The parser skips blank lines in front of a request.
    let start = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n'))?;
    let rest = bytes.get(start..).unwrap_or_default();
    if let [0x16] | [0x16, 0x03, ..] = rest {
        return Some(Error::bad_framing(
            "This port speaks plain HTTP, and the connection began with TLS. Use http:// in the base URL, or ask the \
             operator for a listener with tls.",
        ));
    }
    if can_become_request(rest) {
        None
    } else {
        Some(Error::bad_framing(
            "The connection did not begin with an HTTP request. This port speaks HTTP/1.1 and HTTP/2.",
        ))
    }
}

/// Whether a method, a target and a version follow each other, as far as they have arrived.
fn can_become_request(bytes: &[u8]) -> bool {
    let method = bytes.iter().position(|byte| *byte == b' ');
    let token = bytes.get(..method.unwrap_or(bytes.len())).unwrap_or_default();
    if token.is_empty() || token.len() > MAX_METHOD || !token.iter().all(|byte| is_token(*byte)) {
        return false;
    }
    let Some(end) = memchr::memchr(b'\n', bytes) else { return true };
    let line = bytes.get(..end).unwrap_or_default().trim_ascii_end();
    // Without a version it is HTTP/0.9, which nobody speaks.
    let version = line.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
    version.starts_with(b"HTTP/")
}

/// The characters of a method (RFC 9110, 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_become_a_request_is_awaited() {
        for bytes in [
            "",
            "\r\n",
            "G",
            "GET",
            "GET ",
            "GET /v1/models",
            "GET /v1/models HT",
            "\r\n\r\nPOST / HTTP/1.1\r\nhost",
            "PRI * HTTP/2.0\r\n\r\nSM",
            "M-SEARCH * HTTP/1.1\r\n",
            "GET http://a/b HTTP/1.0\n",
        ] {
            assert!(refusal(bytes.as_bytes()).is_none(), "{bytes:?}");
        }
    }

    #[test]
    fn what_cannot_become_a_request_is_refused_at_once() {
        for bytes in [
            &b"\x16"[..],
            b"\x16\x03\x01\x02\x00\x01\x00",
            b"\x16\x03\x01\x00\xaa\x0a\x0a",
            b"\r\n\x16\x03\x03",
        ] {
            assert!(refusal(bytes).unwrap().message.contains("TLS"), "{bytes:?}");
        }
        for bytes in [
            &b"SSH-2.0-OpenSSH_9.6\r\n"[..],
            b"\x80\x2e\x01\x03",
            b"\x00",
            b"\x16\x02",
            b"\x03\x00\x00\x13\x0e",
            b" GET / HTTP/1.1",
            b"GET\r\n",
            b"GET /\r\n",
            b"EHLO example.com\r\n",
            b"{\"model\"",
            b"\xff\xf4",
            b"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            "Größe".as_bytes(),
        ] {
            let message = refusal(bytes).unwrap().message;
            assert!(message.contains("did not begin with an HTTP"), "{bytes:?}: {message}");
        }
    }
}
