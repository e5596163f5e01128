//! Addresses of the Internet Protocol, version 4 (dotted) and 6.
//!
//! A version number of four parts looks the same: it is left out where `version` stands before it, or a `v`.

use super::bytes::{Bytes, is_word};
use super::digits::{Digits, Gap};
use std::net::Ipv6Addr;
use std::ops::Range;

/// The longest text of an address, with an embedded one of version 4.
const MAX: usize = 45;

pub fn ipv4(digits: &Digits<'_>) -> Option<Range<usize>> {
    let groups = digits.groups().get(..4)?;
    let is_dotted = digits.gaps(5).enumerate().all(|(index, gap)| (gap == Gap::Dot) == (index < 3));
    let is_octet = |start: usize, end: usize| {
        let octet = digits.bytes.slice(start..end);
        let value = octet.iter().fold(0_u32, |value, byte| value.saturating_mul(10) + u32::from(byte - b'0'));
        octet.len() <= 3 && value <= 255 && (octet.len() == 1 || octet.first() != Some(&b'0'))
    };
    let fits = is_dotted && !digits.has_plus && groups.iter().all(|group| is_octet(group.start, group.end));
    fits.then(|| digits.range(4))
}

/// The address of version 6 that begins at a position, where no word character, colon or dot precedes.
pub fn ipv6(bytes: Bytes<'_>, start: usize) -> Option<Range<usize>> {
    if bytes.is_word_before(start) || matches!(bytes.before(start), b':' | b'.') {
        return None;
    }
    let mut end = bytes.run(start, MAX + 1, |byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.'));
    if is_word(bytes.at(end)) {
        return None;
    }
    while end > start
        && matches!(bytes.before(end), b'.' | b':')
        && bytes.slice(start..end).get(end - start - 2..) != Some(b"::")
    {
        end -= 1;
    }
    let address = bytes.slice(start..end);
    // `::1` and `a::b` are more often code than somebody's address.
    let is_long = address.len() >= 6 && address.iter().any(u8::is_ascii_digit);
    let text = std::str::from_utf8(address).ok()?;
    (is_long && text.parse::<Ipv6Addr>().is_ok()).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(text: &str) -> Option<&str> {
        let first = text.find(|c: char| c.is_ascii_digit()).unwrap();
        ipv4(&Digits::read(Bytes(text.as_bytes()), first)?).and_then(|range| text.get(range))
    }

    fn v6(text: &str) -> Option<&str> {
        ipv6(Bytes(text.as_bytes()), 0).and_then(|range| text.get(range))
    }

    #[test]
    fn version_4() {
        assert_eq!(v4("from 192.168.0.1:8080"), Some("192.168.0.1"));
        assert_eq!(v4("net 10.0.0.0/8"), Some("10.0.0.0"));
        assert_eq!(v4("at 8.8.8.8."), Some("8.8.8.8"));
        for text in ["256.1.1.1", "1.2.3", "1.2.3.4.5", "01.2.3.4", "v1.2.3.4", "1 2 3 4"] {
            assert_eq!(v4(text), None, "{text}");
        }
    }

    #[test]
    fn version_6() {
        assert_eq!(v6("2001:db8::ff00:42:8329, and"), Some("2001:db8::ff00:42:8329"));
        assert_eq!(v6("fe80::1."), Some("fe80::1"));
        assert_eq!(
            v6("4dcc:a0e6:47e7:f3cb:e553:ef87:f71:e85e"),
            Some("4dcc:a0e6:47e7:f3cb:e553:ef87:f71:e85e")
        );
        assert_eq!(v6("::ffff:192.0.2.1"), Some("::ffff:192.0.2.1"));
        for text in ["12:30:45", "a::b", "::1", "dead:beef", "aa:bb:cc:dd:ee:ff", "fe80::1z"] {
            assert_eq!(v6(text), None, "{text}");
        }
    }
}
