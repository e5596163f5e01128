//! What must be known of a raw request head before it is parsed: where it ends, how many headers it has, and whether a
//! body follows.
//!
//! Does not parse it. Where it is not sure it says what is safe: that a body follows.

/// The index behind a head and its blank line. Accepts bare line feeds, as the parser does.
pub(super) fn end(bytes: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'\n', bytes).find_map(|at| match bytes.get(at + 1..)? {
        [b'\n', ..] => Some(at + 2),
        [b'\r', b'\n', ..] => Some(at + 3),
        _ => None,
    })
}

/// The number of headers of a whole head.
pub(super) fn header_count(head: &[u8]) -> usize {
    // Two of the lines are the request line and the blank one.
    memchr::memchr_iter(b'\n', head).count().saturating_sub(2)
}

/// How many bytes behind a head belong to its request. `None`: only a parser can tell. `head`: up to its end.
pub(super) fn body_length(head: &[u8]) -> Option<usize> {
    // The parser skips blank lines in front of a head, so what looks like its end may be its beginning.
    if !head.first().is_some_and(u8::is_ascii_uppercase)
        || names(head, b"transfer-encoding") > 0
        || names(head, b"upgrade") > 0
    {
        return None;
    }
    match names(head, b"content-length") {
        0 => Some(0),
        1 => {
            let value = header(head, b"content-length")?;
            // As the parser has it: no sign.
            value.iter().all(u8::is_ascii_digit).then_some(())?;
            std::str::from_utf8(value).ok()?.parse().ok()
        }
        _ => None,
    }
}

/// Whether the client may want another protocol on this connection.
pub(super) fn may_upgrade(head: &[u8]) -> bool {
    names(head, b"upgrade") > 0
}

/// How many lines have this name somewhere in them, as a header or not.
fn names(head: &[u8], name: &[u8]) -> usize {
    head.split(|byte| *byte == b'\n').filter(|line| contains(line, name)).count()
}

/// The value of the first header with this name in a head, or in the part of it that has arrived.
pub(super) fn header<'h>(head: &'h [u8], name: &[u8]) -> Option<&'h [u8]> {
    // The last piece is empty, or a line that is not complete.
    let mut lines = head.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")).skip(1);
    lines.find_map(|line| {
        let (found, value) = line.split_at_checked(line.iter().position(|byte| *byte == b':')?)?;
        found.eq_ignore_ascii_case(name).then(|| value.get(1..).map(<[u8]>::trim_ascii))?
    })
}

fn contains(line: &[u8], name: &[u8]) -> bool {
    line.windows(name.len()).any(|part| part.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_head_is_its_blank_line() {
        for (head, rest) in [
            ("GET / HTTP/1.1\r\n\r\n", ""),
            ("GET / HTTP/1.1\r\na: b\r\n\r\n", "GET"),
            ("GET / HTTP/1.1\na: b\n\n", "\n"),
            ("GET / HTTP/1.1\na: b\n\r\n", "x"),
        ] {
            assert_eq!(end(format!("{head}{rest}").as_bytes()), Some(head.len()), "{head}");
        }
        assert_eq!(end(b"GET / HTTP/1.1\r\na: b\r\n"), None);
    }

    #[test]
    fn headers_are_counted() {
        assert_eq!(header_count(b"GET / HTTP/1.1\r\n\r\n"), 0);
        assert_eq!(header_count(b"GET / HTTP/1.1\r\na: b\r\nc: d\r\n\r\n"), 2);
        assert_eq!(header_count(b""), 0);
    }

    #[test]
    fn the_length_of_a_body_is_read_where_nothing_is_unclear() {
        for (head, length) in [
            ("GET / HTTP/1.1\r\nhost: a\r\n\r\n", Some(0)),
            ("DELETE /v1/files/a HTTP/1.0\n\n", Some(0)),
            ("POST / HTTP/1.1\r\na: b\r\nContent-Length: 57 \r\n\r\n", Some(57)),
            ("POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n", None),
            ("POST / HTTP/1.1\r\ncontent-length: +5\r\n\r\n", None),
            ("POST / HTTP/1.1\r\ncontent-length: 5\r\nContent-Length: 6\r\n\r\n", None),
            ("POST / HTTP/1.1\r\nx: y\r\n CONTENT-LENGTH : 5\r\n\r\n", None),
            ("POST / HTTP/1.1\ncontent-length: 5\nTransfer-encoding: chunked\n\n", None),
            ("GET / HTTP/1.1\r\nupgrade: websocket\r\n\r\n", None),
            ("\r\n\r\n", None),
            ("", None),
        ] {
            assert_eq!(body_length(head.as_bytes()), length, "{head}");
        }
        assert_eq!(
            header(b"GET / HTTP/1.1\r\nOrigin: https://a.example \r\nx", b"origin"),
            Some(&b"https://a.example"[..])
        );
        assert_eq!(header(b"GET / HTTP/1.1\r\nOrigin: https://a.exam", b"origin"), None);
    }
}
