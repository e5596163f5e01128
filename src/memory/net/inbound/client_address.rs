//! The address of the client behind trusted balancers and proxies, from `X-Forwarded-For` or `Forwarded` (RFC 7239).
//!
//! Each proxy adds the address it was called from at the end. So the client is the last address that is not a trusted proxy's; what is
//! before that, the client may have written itself. `X-Forwarded-For` is what balancers write unasked, so `Forwarded` is read only where
//! there is none. Not here: the PROXY protocol, which tells it once for a connection (`proxy_protocol`).

use http::header::FORWARDED;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::net::{IpAddr, SocketAddr};
use words::settings::TrustedProxies;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The client of a request that came from `peer`.
pub fn client_address(peer: IpAddr, headers: &HeaderMap, trusted: &TrustedProxies) -> IpAddr {
    if !trusted.contains(peer) {
        return peer;
    }
    let lines = |name| headers.get_all(name).iter().rev().map(HeaderValue::as_bytes);
    if headers.contains_key(&X_FORWARDED_FOR) {
        let entries = lines(&X_FORWARDED_FOR).flat_map(|line| line.rsplit(|byte| *byte == b','));
        first_untrusted(peer, entries.map(|entry| address(str::from_utf8(entry).ok()?)), trusted)
    } else {
        let entries = lines(&FORWARDED).flat_map(|line| unquoted(line, b',').into_iter().rev());
        first_untrusted(peer, entries.map(|entry| address(forwarded_for(entry)?)), trusted)
    }
}

/// The first address that is not a trusted proxy's, from the nearest on. Behind an entry that is no address nothing is believed: the
/// address is then that of the proxy that wrote the entry. The last one, if all are trusted.
fn first_untrusted(
    peer: IpAddr,
    nearest_first: impl Iterator<Item = Option<IpAddr>>,
    trusted: &TrustedProxies,
) -> IpAddr {
    let mut client = peer;
    for entry in nearest_first {
        let Some(address) = entry else { break };
        client = address;
        if !trusted.contains(address) {
            break;
        }
    }
    client
}

/// `192.0.2.1`, `2001:db8::1`, `[2001:db8::1]`, each with or without a port, which may be hidden (`:_a`).
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let text = match text.rsplit_once(':') {
        Some((host, port)) if port.starts_with('_') => host,
        _ => text,
    };
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let ip = bare.parse().or_else(|_| text.parse().map(|address: SocketAddr| address.ip()));
    ip.ok().map(|ip| ip.to_canonical())
}

/// The value of `for` in one element of `Forwarded`, without its quotes. An address has nothing that is escaped.
fn forwarded_for(element: &[u8]) -> Option<&str> {
    unquoted(element, b';').into_iter().find_map(|pair| {
        let (name, value) = str::from_utf8(pair).ok()?.split_once('=')?;
        name.trim().eq_ignore_ascii_case("for").then(|| value.trim().trim_matches('"'))
    })
}

/// The parts between separators that are in no quoted string (RFC 9110, 5.6.4). A text whose last string has no end is one part without
/// anything: a client could hide the entry behind it that way, and have its own believed.
fn unquoted(text: &[u8], separator: u8) -> Vec<&[u8]> {
    let mut is_quoted = false;
    let mut is_escaped = false;
    let is_separator = |byte: &u8| {
        let after_backslash = std::mem::take(&mut is_escaped);
        if after_backslash {
            return false;
        }
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'\\' => is_escaped = is_quoted,
            _ => {}
        }
        *byte == separator && !is_quoted
    };
    let parts = text.split(is_separator).collect();
    if is_quoted { vec![b""] } else { parts }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10.0.0.0/8 and 2001:db8:ffff::/48 are balancers.
    fn found(peer: &str, lines: &[(&'static str, &str)]) -> String {
        let ranges = ["10.0.0.0/8", "2001:db8:ffff::/48"].map(|range| range.parse().unwrap());
        let trusted = TrustedProxies::new(ranges.to_vec());
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        client_address(peer.parse().unwrap(), &headers, &trusted).to_string()
    }

    #[test]
    fn the_last_address_that_is_not_trusted_is_the_client() {
        const XFF: &str = "x-forwarded-for";
        let rows: &[(&str, &[&str], &str)] = &[
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["192.0.2.9"], "192.0.2.9"),
            // What is no text is the client's own entry; the balancer's is behind it.
            ("10.0.0.1", &["\u{ff}, 192.0.2.9"], "192.0.2.9"),
            ("::ffff:10.0.0.1", &["192.0.2.9"], "192.0.2.9"),
            // What the client wrote itself stands before its address.
            ("10.0.0.1", &["1.1.1.1, 192.0.2.9"], "192.0.2.9"),
            ("10.0.0.1", &["1.1.1.1", "192.0.2.9, 10.0.0.7"], "192.0.2.9"),
            ("10.0.0.1", &["192.0.2.9 , 10.0.0.8", "10.0.0.7"], "192.0.2.9"),
            // All are trusted: the farthest one.
            ("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
            // Ports and brackets, which some balancers write.
            ("10.0.0.1", &["192.0.2.9:4711"], "192.0.2.9"),
            ("10.0.0.1", &["[2001:db8::1]:4711"], "2001:db8::1"),
            ("10.0.0.1", &["2001:db8::1"], "2001:db8::1"),
            ("10.0.0.1", &["::ffff:192.0.2.9"], "192.0.2.9"),
            ("2001:db8:ffff::1", &["2001:db8::1, 2001:db8:ffff::2"], "2001:db8::1"),
            // Nothing is believed behind what is no address.
            ("10.0.0.1", &["192.0.2.9, unknown"], "10.0.0.1"),
            ("10.0.0.1", &["192.0.2.9, unknown, 10.0.0.7"], "10.0.0.7"),
            ("10.0.0.1", &["192.0.2.9,"], "10.0.0.1"),
            ("10.0.0.1", &["999.0.0.1"], "10.0.0.1"),
            // Others may write what they like.
            ("192.0.2.1", &["192.0.2.9"], "192.0.2.1"),
            ("2001:db8::5", &["192.0.2.9"], "2001:db8::5"),
        ];
        for (peer, lines, client) in rows {
            let lines: Vec<_> = lines.iter().map(|line| (XFF, *line)).collect();
            assert_eq!(found(peer, &lines), *client, "{peer} {lines:?}");
        }
    }

    #[test]
    fn forwarded_is_read_where_there_is_no_x_forwarded_for() {
        let rows: &[(&[&str], &str)] = &[
            (&["for=192.0.2.9"], "192.0.2.9"),
            (&["For=\"[2001:db8::1]:4711\";proto=https;by=10.0.0.1"], "2001:db8::1"),
            (&["proto=https; for=192.0.2.9:_port"], "192.0.2.9"),
            (&["for=1.1.1.1, for=192.0.2.9, for=10.0.0.7"], "192.0.2.9"),
            (&["for=192.0.2.9;host=\"a,b;for=1.1.1.1\"", "for=10.0.0.7"], "192.0.2.9"),
            (&["for=192.0.2.9;host=\"a\\\",for=1.1.1.1\""], "192.0.2.9"),
            // A string of the client's that has no end, before what the balancer has added.
            (&["for=1.1.1.1;x=\", for=192.0.2.9"], "10.0.0.1"),
            (&["for=1.1.1.1;x=\", for=\"[2001:db8::1]\""], "10.0.0.1"),
            (&["x=\u{ff}, for=192.0.2.9"], "192.0.2.9"),
            (&["for=192.0.2.9, for=_hidden"], "10.0.0.1"),
            (&["for=192.0.2.9, proto=https"], "10.0.0.1"),
        ];
        for (lines, client) in rows {
            let lines: Vec<_> = lines.iter().map(|line| ("forwarded", *line)).collect();
            assert_eq!(found("10.0.0.1", &lines), *client, "{lines:?}");
            assert_eq!(found("192.0.2.1", &lines), "192.0.2.1");
        }
        let both = [("forwarded", "for=1.1.1.1"), ("x-forwarded-for", "192.0.2.9")];
        assert_eq!(found("10.0.0.1", &both), "192.0.2.9");
    }
}
