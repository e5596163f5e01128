//! `custom_hosts`: which hosts beyond the public ones callers may have us connect to.
//!
//! Parsed rules and what they match. Not here: the ranges refused by default and resolving names (`net`), and
//! the operator's own `custom_host` values, which are trusted.

use crate::config::read::{At, Fields};
use ipnet::IpNet;
use std::net::{IpAddr, SocketAddr};

/// `custom_hosts`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CustomHosts {
    /// Opens every private and loopback range at once.
    pub allow_private: bool,
    pub allow: Vec<AllowRule>,
}

/// One entry of `custom_hosts.allow`. Without a port it opens every port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowRule {
    /// A host name, lower-case, without a trailing dot.
    Host { name: String, port: Option<u16> },
    /// Every name below `suffix` (`*.example.com` as `example.com`), not `suffix` itself.
    Suffix { suffix: String, port: Option<u16> },
    /// A range of addresses; a single address is a range of one.
    Net { net: IpNet, port: Option<u16> },
}

impl CustomHosts {
    pub(super) fn read(mut fields: Fields<'_>) -> Self {
        let allow_private = fields.flag(&["allow_private"]).unwrap_or_default();
        let items = fields.get(&["allow"]).and_then(|at| at.list()).unwrap_or_default();
        fields.close(&["allow_private", "allow"]);
        Self { allow_private, allow: items.iter().filter_map(AllowRule::read).collect() }
    }
}

impl AllowRule {
    fn read(at: &At<'_>) -> Option<Self> {
        match Self::parse(at.text()?) {
            Ok(rule) => Some(rule),
            Err(message) => {
                at.problem(message);
                None
            }
        }
    }

    /// Reads `host`, `*.suffix`, an IP or a CIDR range, each but the range with an optional `:port`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        const FORMS: &str = "must be a host name, *.suffix, an IP address or a range such as 10.0.0.0/8";
        if let Ok(net) = text.parse::<IpNet>() {
            let whole = net.trunc();
            return if whole == net {
                Ok(Self::Net { net, port: None })
            } else {
                Err(format!("has bits set behind its prefix; did you mean {whole}?"))
            };
        }
        if let Ok(ip) = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            return Ok(Self::Net { net: ip.into(), port: None });
        }
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Self::Net { net: address.ip().into(), port: Some(address.port()) });
        }
        let (host, port) = match text.split_once(':') {
            Some((host, port)) => (host, Some(port.parse().map_err(|_| FORMS.to_owned())?)),
            None => (text, None),
        };
        let (name, below) = match host.strip_prefix("*.") {
            Some(suffix) => (suffix, true),
            None => (host, false),
        };
        let name = host_name(name).ok_or(FORMS)?;
        Ok(if below { Self::Suffix { suffix: name, port } } else { Self::Host { name, port } })
    }

    /// Whether the rule opens `host` (as written in the URL, lower-case) at `port` by its name.
    pub fn opens_name(&self, host: &str, port: u16) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        match self {
            Self::Host { name, port: only } => name == host && only.is_none_or(|only| only == port),
            Self::Suffix { suffix, port: only } => {
                let below = host.strip_suffix(suffix.as_str()).and_then(|rest| rest.strip_suffix('.'));
                below.is_some_and(|label| !label.is_empty()) && only.is_none_or(|only| only == port)
            }
            Self::Net { .. } => false,
        }
    }

    /// Whether the rule opens the resolved address `ip` at `port`. `::ffff:a.b.c.d` is judged as `a.b.c.d`.
    pub fn opens_address(&self, ip: IpAddr, port: u16) -> bool {
        match self {
            Self::Net { net, port: only } => {
                net.contains(&ip.to_canonical()) && only.is_none_or(|only| only == port)
            }
            Self::Host { .. } | Self::Suffix { .. } => false,
        }
    }
}

/// `text` as browsers would write that name: lower-case, punycode. `None` when it is no name (numbers that
/// stand for an IPv4 address, as in `0x7f.1`, are none).
fn host_name(text: &str) -> Option<String> {
    let text = text.strip_suffix('.').unwrap_or(text);
    match url::Host::parse(text).ok()? {
        url::Host::Domain(name) if !name.contains('*') && !name.is_empty() => Some(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str, port: Option<u16>) -> AllowRule {
        AllowRule::Net { net: text.parse().unwrap(), port }
    }

    #[test]
    fn rules_are_read_in_all_their_forms() {
        let host = |name: &str, port| AllowRule::Host { name: name.to_owned(), port };
        let suffix = |suffix: &str, port| AllowRule::Suffix { suffix: suffix.to_owned(), port };
        for (text, wanted) in [
            ("vllm", host("vllm", None)),
            ("Vllm.Internal.:8000", host("vllm.internal", Some(8000))),
            ("bücher.example", host("xn--bcher-kva.example", None)),
            ("*.corp.example", suffix("corp.example", None)),
            ("*.corp.example:443", suffix("corp.example", Some(443))),
            ("10.1.2.3", net("10.1.2.3/32", None)),
            ("10.1.2.3:80", net("10.1.2.3/32", Some(80))),
            ("10.0.0.0/8", net("10.0.0.0/8", None)),
            ("fd00::/8", net("fd00::/8", None)),
            ("::1", net("::1/128", None)),
            ("[::1]:8790", net("::1/128", Some(8790))),
        ] {
            assert_eq!(AllowRule::parse(text), Ok(wanted), "{text}");
        }
        for bad in [
            "",
            "*",
            "*.",
            "a b",
            "http://a",
            "a:b",
            "a:70000",
            "10.0.0.1/8",
            "10.0.0.0/33",
            "0x7f.1",
            "a.*.b",
            "1.2",
        ] {
            assert!(AllowRule::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_rule_opens_what_it_names_and_nothing_beside_it() {
        let open = |rule: &str, host: &str, port| AllowRule::parse(rule).unwrap().opens_name(host, port);
        assert!(open("vllm", "vllm", 1) && open("vllm:80", "vllm", 80) && open("vllm", "vllm.", 1));
        assert!(!open("vllm:80", "vllm", 81) && !open("vllm", "vllm.example", 1));
        assert!(open("*.a.b", "x.a.b", 1) && open("*.a.b", "x.y.a.b", 1));
        assert!(!open("*.a.b", "a.b", 1) && !open("*.a.b", "xa.b", 1) && !open("*.a.b", ".a.b", 1));
        let rule = AllowRule::parse("10.0.0.0/8").unwrap();
        assert!(rule.opens_address("10.9.9.9".parse().unwrap(), 1));
        assert!(!rule.opens_address("11.0.0.1".parse().unwrap(), 1));
    }
}
