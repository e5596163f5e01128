//! `listen.trusted_proxies`: the balancers and proxies before the gateway whose word on a client's address counts.
//!
//! Not here: reading what they send (`net::inbound`).

use super::allow_rule;
use crate::config::members::{Form, form};
use crate::json::schema;
use ipnet::IpNet;
use std::net::IpAddr;

/// Addresses and ranges; none by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustedProxies(Vec<IpNet>);

impl TrustedProxies {
    pub fn new(ranges: Vec<IpNet>) -> Self {
        Self(ranges)
    }

    /// Whether this is the address of one of them. An IPv4 address that is written as IPv6 counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        !self.0.is_empty() && {
            let address = address.to_canonical();
            self.0.iter().any(|range| range.contains(&address))
        }
    }
}

/// An address, or a range of them.
pub(super) const RANGE: Form<IpNet> = form(
    |at| match allow_rule::addresses(at.text()?.trim()) {
        Ok(Some(range)) => Some(range),
        Ok(None) => {
            at.problem("must be an address or a range, such as 10.0.0.5, 10.0.0.0/24 or fd00::/8");
            None
        }
        Err(why) => {
            at.problem(why);
            None
        }
    },
    |doc| schema::pattern(doc, "^[0-9A-Fa-f.:]+(/[0-9]{1,3})?$", &["10.0.0.5", "10.0.0.0/24", "fd00::/8"]),
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_ranges_are_found_in_both_spellings() {
        let ranges = ["10.0.0.0/24", "192.0.2.7", "2001:db8::/32", "::ffff:198.51.100.0/120"];
        let read = |text: &&str| allow_rule::addresses(text).unwrap().unwrap();
        let trusted = TrustedProxies::new(ranges.iter().map(read).collect());
        let contains = |address: &str| trusted.contains(address.parse().unwrap());
        for address in
            ["10.0.0.1", "::ffff:10.0.0.1", "192.0.2.7", "2001:db8::9", "198.51.100.3", "::ffff:198.51.100.3"]
        {
            assert!(contains(address), "{address}");
        }
        for address in ["10.0.1.1", "192.0.2.8", "2001:db9::1", "127.0.0.1", "::1"] {
            assert!(!contains(address), "{address}");
        }
        assert!(!TrustedProxies::default().contains("127.0.0.1".parse().unwrap()));
    }
}
