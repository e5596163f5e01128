//! One entry of `custom_hosts.allow`: a name, a suffix, an address or a range, each with an optional port.
//!
//! Parses the entry and matches hosts against it. Not here: the ranges refused by default, and resolving
//! names (`net`).

use ipnet::IpNet;
use std::net::IpAddr;

/// One entry of `custom_hosts.allow`, with an optional `:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowRule {
    pattern: HostPattern,
    /// The only port it allows; `None`: every port.
    pub port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HostPattern {
    /// `llm.corp`: this name, whatever it resolves to.
    Name(Box<str>),
    /// `*.corp`: every name below it; stored with its leading dot.
    Suffix(Box<str>),
    /// `10.0.0.5`, `10.0.0.0/8`: these addresses, under any name.
    Net(IpNet),
}

impl AllowRule {
    /// Reads a host name, `*.suffix`, an address or a range, each with an optional `:port`. IPv6 with a
    /// port is written in brackets: `[fd00::/8]:8000`.
    ///
    /// # Errors
    /// What is wrong, and where possible the right form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.contains("://") {
            return Err("must be a host, an address or a range, not a URL".to_owned());
        }
        let (host, port) = split_port(text)?;
        if let Some(net) = addresses(host)? {
            return Ok(Self { pattern: HostPattern::Net(net), port });
        }
        let (is_suffix, name) = match host.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, host),
        };
        if name.contains('*') {
            return Err("may have one *, as its first label: *.example.com".to_owned());
        }
        let wrong = || format!("`{host}` is not a host name, an address or a range");
        let name = match url::Host::parse(name).map_err(|_| wrong())? {
            url::Host::Domain(name) if !name.is_empty() && !name.ends_with('.') => name,
            // An unusual spelling of an address (decimal, hex): the address it denotes is allowed.
            url::Host::Ipv4(ip) if !is_suffix => {
                return Ok(Self { pattern: HostPattern::Net(IpAddr::V4(ip).into()), port });
            }
            _ => return Err(wrong()),
        };
        let pattern = if is_suffix {
            HostPattern::Suffix(format!(".{name}").into())
        } else {
            HostPattern::Name(name.into())
        };
        Ok(Self { pattern, port })
    }

    /// Whether it allows `name` (lower-case, as in a URL) by name or suffix.
    pub fn matches_name(&self, name: &str) -> bool {
        match &self.pattern {
            HostPattern::Name(allowed) => **allowed == *name,
            HostPattern::Suffix(suffix) => name.len() > suffix.len() && name.ends_with(&**suffix),
            HostPattern::Net(_) => false,
        }
    }

    /// Whether it is exactly this name. Used for metadata services, which a suffix does not allow.
    pub fn matches_exact_name(&self, name: &str) -> bool {
        matches!(&self.pattern, HostPattern::Name(allowed) if **allowed == *name)
    }

    /// Whether it allows addresses, independent of their names.
    pub fn is_net(&self) -> bool {
        matches!(self.pattern, HostPattern::Net(_))
    }

    /// Whether it is a range that contains this address.
    pub fn contains_address(&self, ip: IpAddr) -> bool {
        matches!(&self.pattern, HostPattern::Net(net) if net.contains(&ip))
    }
}

/// An address, or a range of them; `None`: it is neither, and may be a name.
///
/// # Errors
/// What is wrong with the range.
pub(super) fn addresses(text: &str) -> Result<Option<IpNet>, String> {
    if let Ok(net) = text.parse::<IpNet>() {
        let whole = net.trunc();
        if whole != net {
            return Err(format!("has bits set behind its prefix; did you mean {whole}?"));
        }
        return canonical(net).map(Some);
    }
    if text.contains('/') {
        return Err(format!("`{text}` is not a range of addresses such as 10.0.0.0/8"));
    }
    Ok(text.parse::<IpAddr>().ok().map(|ip| ip.to_canonical().into()))
}

/// Splits off `:port`; a bare IPv6 address has none.
fn split_port(text: &str) -> Result<(&str, Option<u16>), String> {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (inside, after) = rest.split_once(']').ok_or("has a [ without its ]")?;
        match after.strip_prefix(':') {
            Some(port) => (inside, Some(port)),
            None if after.is_empty() => (inside, None),
            None => return Err("has text after its ] that is no port".to_owned()),
        }
    } else if text.matches(':').count() == 1 {
        text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)))
    } else {
        (text, None)
    };
    let digits = |port: &&str| port.bytes().all(|byte| byte.is_ascii_digit());
    match port {
        None => Ok((host, None)),
        Some(port) => match Some(port).filter(digits).and_then(|port| port.parse::<u16>().ok()) {
            Some(port @ 1..) => Ok((host, Some(port))),
            _ => Err(format!("`{port}` is not a port from 1 to 65535")),
        },
    }
}

/// Converts a range inside ::ffff:0:0/96 to the IPv4 range it denotes, because addresses are compared in that
/// form.
fn canonical(net: IpNet) -> Result<IpNet, String> {
    match net {
        IpNet::V6(v6) => match v6.addr().to_ipv4_mapped() {
            Some(v4) if v6.prefix_len() >= 96 => IpNet::new(IpAddr::V4(v4), v6.prefix_len() - 96)
                .map_err(|error| format!("is not a range of addresses: {error}")),
            _ => Ok(net),
        },
        IpNet::V4(_) => Ok(net),
    }
}
