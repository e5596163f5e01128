//! E-mail addresses, found from their `@`.
//!
//! Plain ASCII addresses of a domain with a dot. Not found: quoted local parts, addresses without a top-level domain,
//! internationalised ones.

use super::bytes::Bytes;
use std::ops::Range;

/// RFC 5321, section 4.5.3.1: the local part has at most 64 bytes. Domains of 255 bytes do not occur: 120 keep streams moving.
const MAX_LOCAL: usize = 64;
const MAX_DOMAIN: usize = 120;
pub const MAX: usize = MAX_LOCAL + 1 + MAX_DOMAIN;

/// The address around the `@` at a position.
pub(crate) fn email_at(bytes: Bytes<'_>, at: usize) -> Option<Range<usize>> {
    let first = at.saturating_sub(MAX_LOCAL);
    let local = bytes.slice(first..at).iter().rev().take_while(|byte| is_local(**byte)).count();
    let mut start = at - local;
    // Punctuation in front is the sentence's.
    while matches!(bytes.at(start), b'.' | b'-' | b'+' | b'\'' | b'/' | b'=' | b'&') && start < at {
        start += 1;
    }
    if start == at || bytes.before(at) == b'.' {
        return None;
    }
    let domain = at + 1;
    let mut end =
        bytes.run(domain, MAX_DOMAIN, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'));
    while end > domain && !bytes.before(end).is_ascii_alphanumeric() {
        end -= 1;
    }
    let name = bytes.slice(domain..end);
    let dot = name.iter().rposition(|byte| *byte == b'.')?;
    let top = name.get(dot + 1..)?;
    let is_domain = dot > 0
        && top.len() >= 2
        && top.iter().all(u8::is_ascii_alphabetic)
        && name.first().is_some_and(u8::is_ascii_alphanumeric)
        && !name.windows(2).any(|pair| pair == b"..");
    is_domain.then_some(start..end)
}

fn is_local(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'.' | b'_' | b'-' | b'+' | b'%' | b'\'' | b'&' | b'=' | b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<&str> {
        let at = text.find('@').unwrap();
        email_at(Bytes(text.as_bytes()), at).and_then(|range| text.get(range))
    }

    #[test]
    fn addresses_end_where_the_sentence_goes_on() {
        assert_eq!(
            found("write to john.doe+tag@mail.example.co.uk."),
            Some("john.doe+tag@mail.example.co.uk")
        );
        assert_eq!(found("<o'neil_1@ex-ample.com>, and"), Some("o'neil_1@ex-ample.com"));
        assert_eq!(found("'a@b.io'"), Some("a@b.io"));
        assert_eq!(found("é.x@b.de-"), Some("x@b.de"));
        assert_eq!(found("mailto:x@b.de?subject=a"), Some("x@b.de"));
    }

    #[test]
    fn what_has_no_domain_is_no_address() {
        for text in
            ["@handle", "a @ b.com", "me@localhost", "a@b..com", "a@.com", "x@1.2", "a.@b.com", "a@b.c"]
        {
            assert_eq!(found(text), None, "{text}");
        }
    }
}
