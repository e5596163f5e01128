//! Address ranges outside the public internet: the IANA special-purpose registries and the metadata services of
//! clouds, as one table.
//!
//! Classifies addresses only; [`super::custom_host`] decides who may connect to them anyway. An address with an
//! embedded IPv4 address (mapped, NAT64, 6to4) has the class of that IPv4 address.

use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The kind of an address range; it determines what it takes to open it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A private network: `custom_hosts.allow_private` opens it.
    Private,
    /// No HTTP server is expected here: only an allow rule opens it.
    Reserved,
    /// Serves the credentials of a machine: only an allow rule with the address opens it. A rule with a name is not
    /// enough, because the owner of the name's DNS could point it here.
    Metadata,
}

use Class::{Metadata, Private, Reserved};

/// A range, its description in messages to clients, and its class. The first match counts.
type Row = (&'static str, &'static str, Class);

/// IANA IPv4 special-purpose registry, every entry that is not globally reachable.
const V4: &[Row] = &[
    ("169.254.0.0/16", "link-local and metadata", Metadata),
    ("100.100.100.200/32", "metadata", Metadata), // Alibaba Cloud, inside the shared range
    ("168.63.129.16/32", "metadata", Metadata),   // Azure's platform address, publicly numbered
    ("192.0.0.192/32", "metadata", Metadata),     // Oracle Cloud
    ("0.0.0.0/8", "this network", Reserved),
    ("10.0.0.0/8", "private", Private),
    ("100.64.0.0/10", "shared (carrier NAT)", Private),
    ("127.0.0.0/8", "loopback", Private),
    ("172.16.0.0/12", "private", Private),
    ("192.0.0.0/24", "reserved", Reserved),
    ("192.0.2.0/24", "documentation", Reserved),
    ("192.88.99.0/24", "reserved", Reserved), // 6to4 relays, withdrawn by RFC 7526
    ("192.168.0.0/16", "private", Private),
    ("198.18.0.0/15", "benchmarking", Reserved),
    ("198.51.100.0/24", "documentation", Reserved),
    ("203.0.113.0/24", "documentation", Reserved),
    ("224.0.0.0/4", "multicast", Reserved),
    ("240.0.0.0/4", "reserved", Reserved), // includes 255.255.255.255
];

/// IANA IPv6 special-purpose registry. Addresses outside 2000::/3 that are not listed are reserved, too.
const V6: &[Row] = &[
    ("fd00:ec2::/32", "metadata", Metadata), // AWS: ::254, time, DNS, credentials
    ("fd20:ce::254/128", "metadata", Metadata), // Google Cloud
    ("fd00:42::42/128", "metadata", Metadata), // Scaleway
    ("::/128", "unspecified", Reserved),
    ("::1/128", "loopback", Private),
    ("::/96", "reserved", Reserved),        // v4-compatible, deprecated
    ("64:ff9b:1::/48", "private", Private), // local-use NAT64: the local network decides the target
    ("100::/64", "discard", Reserved),
    ("2001::/23", "reserved", Reserved), // Teredo, ORCHID, benchmarking and other protocol assignments
    ("2001:db8::/32", "documentation", Reserved),
    ("3fff::/20", "documentation", Reserved),
    ("fc00::/7", "private", Private),
    ("fe80::/10", "link-local", Reserved),
    ("fec0::/10", "private", Private), // site-local, deprecated
    ("ff00::/8", "multicast", Reserved),
];

/// The table with its ranges parsed.
#[derive(Debug, Clone)]
pub(crate) struct Ranges {
    rows: Vec<(IpNet, &'static str, Class)>,
}

impl Default for Ranges {
    fn default() -> Self {
        let rows = V4.iter().chain(V6);
        Self { rows: rows.filter_map(|&(net, what, class)| Some((net.parse().ok()?, what, class))).collect() }
    }
}

impl Ranges {
    /// The description and class of `ip`; `None` when it is a public address.
    pub fn special(&self, ip: IpAddr) -> Option<(&'static str, Class)> {
        let effective = embedded_ipv4(ip).map_or(ip, IpAddr::V4);
        if let Some(&(_, what, class)) = self.rows.iter().find(|(net, ..)| net.contains(&effective)) {
            return Some((what, class));
        }
        match effective {
            IpAddr::V6(ip) if ip.segments()[0] & 0xe000 != 0x2000 => Some(("reserved", Reserved)),
            _ => None,
        }
    }
}

/// The IPv4 address that a packet to `ip` finally reaches: v4-mapped, NAT64 (64:ff9b::/96) and 6to4 (2002::/16).
pub(crate) fn embedded_ipv4(ip: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(v6) = ip else { return None };
    let [a, b, c, _, _, _, g, h] = v6.segments();
    let join = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    if v6.to_ipv4_mapped().is_some() || is_nat64(v6) {
        Some(join(g, h))
    } else if a == 0x2002 {
        Some(join(b, c))
    } else {
        None
    }
}

fn is_nat64(ip: Ipv6Addr) -> bool {
    ip.to_bits() >> 32 == 0x0064_ff9b_u128 << 64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(ip: &str) -> Option<Class> {
        Ranges::default().special(ip.parse().unwrap()).map(|(_, class)| class)
    }

    #[test]
    fn every_row_of_the_table_parses() {
        assert_eq!(Ranges::default().rows.len(), V4.len() + V6.len());
    }

    #[test]
    #[allow(clippy::too_many_lines, reason = "a table")]
    fn range_boundaries_and_their_neighbours() {
        let rows = [
            ("0.0.0.0", Some(Reserved)),
            ("0.255.255.255", Some(Reserved)),
            ("1.0.0.0", None),
            ("9.255.255.255", None),
            ("10.0.0.0", Some(Private)),
            ("10.255.255.255", Some(Private)),
            ("11.0.0.0", None),
            ("100.63.255.255", None),
            ("100.64.0.0", Some(Private)),
            ("100.100.100.200", Some(Metadata)),
            ("100.127.255.255", Some(Private)),
            ("100.128.0.1", None),
            ("126.255.255.255", None),
            ("127.0.0.0", Some(Private)),
            ("127.255.255.255", Some(Private)),
            ("128.0.0.0", None),
            ("168.63.129.16", Some(Metadata)),
            ("168.63.129.17", None),
            ("169.253.255.255", None),
            ("169.254.0.0", Some(Metadata)),
            ("169.254.169.254", Some(Metadata)),
            ("169.254.170.2", Some(Metadata)),
            ("169.255.0.0", None),
            ("172.15.255.255", None),
            ("172.16.0.0", Some(Private)),
            ("172.31.255.255", Some(Private)),
            ("172.32.0.1", None),
            ("192.0.0.0", Some(Reserved)),
            ("192.0.0.192", Some(Metadata)),
            ("192.0.1.0", None),
            ("192.0.2.1", Some(Reserved)),
            ("192.0.3.0", None),
            ("192.88.99.1", Some(Reserved)),
            ("192.167.255.255", None),
            ("192.168.0.0", Some(Private)),
            ("192.168.255.255", Some(Private)),
            ("192.169.0.0", None),
            ("198.17.255.255", None),
            ("198.18.0.0", Some(Reserved)),
            ("198.19.255.255", Some(Reserved)),
            ("198.20.0.0", None),
            ("198.51.100.255", Some(Reserved)),
            ("203.0.113.0", Some(Reserved)),
            ("223.255.255.255", None),
            ("224.0.0.0", Some(Reserved)),
            ("239.255.255.255", Some(Reserved)),
            ("240.0.0.0", Some(Reserved)),
            ("255.255.255.255", Some(Reserved)),
            ("8.8.8.8", None),
        ];
        for (ip, wanted) in rows {
            assert_eq!(class(ip), wanted, "{ip}");
            // The same address embedded in every kind of IPv6 address.
            let [a, b, c, d] = ip.parse::<Ipv4Addr>().unwrap().octets();
            let high = u16::from_be_bytes([a, b]);
            let low = u16::from_be_bytes([c, d]);
            assert_eq!(class(&format!("::ffff:{ip}")), wanted, "mapped {ip}");
            assert_eq!(class(&format!("64:ff9b::{ip}")), wanted, "NAT64 {ip}");
            assert_eq!(class(&format!("2002:{high:x}:{low:x}::1")), wanted, "6to4 {ip}");
            assert!(class(&format!("::{high:x}:{low:x}")).is_some(), "v4-compatible {ip}");
            assert!(class(&format!("64:ff9b:1::{ip}")).is_some(), "local NAT64 {ip}");
            assert!(class(&format!("2001:0:{high:x}:{low:x}::1")).is_some(), "Teredo {ip}");
        }
    }

    #[test]
    fn ipv6_ranges() {
        let rows = [
            ("::", Some(Reserved)),
            ("::1", Some(Private)),
            ("::2", Some(Reserved)),
            ("::ffff:0:1.2.3.4", Some(Reserved)), // SIIT, outside 2000::/3
            ("64:ff9b:1:ffff::1", Some(Private)),
            ("64:ff9b:2::1", Some(Reserved)),
            ("100::1", Some(Reserved)),
            ("100:0:0:1::1", Some(Reserved)),
            ("1fff:ffff::1", Some(Reserved)),
            ("2000::1", None),
            ("2001::1", Some(Reserved)),
            ("2001:1ff:ffff::1", Some(Reserved)),
            ("2001:200::1", None),
            ("2001:4860:4860::8888", None),
            ("2001:db7:ffff::1", None),
            ("2001:db8::1", Some(Reserved)),
            ("2001:db9::1", None),
            ("2606:4700::1111", None),
            ("3ffe:ffff::1", None),
            ("3fff::1", Some(Reserved)),
            ("3fff:fff:ffff::1", Some(Reserved)),
            ("3fff:1000::1", None),
            ("4000::1", Some(Reserved)),
            ("5f00::1", Some(Reserved)),
            ("fbff::1", Some(Reserved)),
            ("fc00::1", Some(Private)),
            ("fdff::1", Some(Private)),
            ("fd00:ec2::254", Some(Metadata)),
            ("fd00:ec2::23", Some(Metadata)),
            ("fd20:ce::254", Some(Metadata)),
            ("fd20:ce::253", Some(Private)),
            ("fe80::1", Some(Reserved)),
            ("febf::1", Some(Reserved)),
            ("fec0::1", Some(Private)),
            ("feff::1", Some(Private)),
            ("ff02::1", Some(Reserved)),
        ];
        for (ip, wanted) in rows {
            assert_eq!(class(ip), wanted, "{ip}");
        }
    }
}
