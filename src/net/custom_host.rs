//! Which hosts a caller may name: the rules behind `custom_hosts` in the settings.
//!
//! For origins that came in a header or an inline config. What the operator wrote is trusted and passes
//! untouched. Two questions: may this name be asked for at all ([`HostRules::check_name`], before DNS), and
//! may we connect to this address ([`HostRules::check_address`], for each address DNS gave). Resolving and
//! connecting to exactly what was checked is [`super::dns`].
//!
//! Reference section 11 is followed where it is right. On purpose it is not where it trusts localhost by
//! default, skips DNS, lets documentation and benchmarking ranges pass and refuses every IPv6 literal.

use super::origin::{Host, Origin};
use super::ranges::{Class, Ranges, carried};
use ipnet::IpNet;
use std::net::IpAddr;

/// Names that mean a private network: nothing public answers to them (reference section 11, rule 7).
const LOCAL_SUFFIXES: &[&str] = &[
    "local",
    "localdomain",
    "internal",
    "intranet",
    "lan",
    "home",
    "corp",
    "test",
    "invalid",
    "onion",
    "localhost",
    "private",
    "home.arpa",
];

/// Names of metadata services (rule 6); opened by an allow rule of exactly that name only.
const METADATA_NAMES: &[&str] = &[
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "metadata.azure.com",
    "metadata.azure.internal",
    "instance-data",
    "instance-data.ec2.internal",
];

/// What `custom_hosts` says, ready to be asked.
#[derive(Debug, Clone, Default)]
pub struct HostRules {
    allow_private: bool,
    allow: Vec<AllowRule>,
    ranges: Ranges,
}

/// One entry of `custom_hosts.allow`, with an optional `:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowRule {
    target: Target,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    /// `llm.corp`: this name, wherever it points.
    Name(Box<str>),
    /// `*.corp`: every name below it; held with its leading dot.
    Below(Box<str>),
    /// `10.0.0.5`, `10.0.0.0/8`: these addresses, whatever the name.
    Net(IpNet),
}

impl HostRules {
    /// Reads the list of `custom_hosts.allow`.
    ///
    /// # Errors
    /// Every entry that cannot be read, as its index and what is wrong with it.
    pub fn new(allow_private: bool, allow: &[String]) -> Result<Self, Vec<(usize, String)>> {
        let mut rules = Vec::with_capacity(allow.len());
        let mut problems = Vec::new();
        for (index, text) in allow.iter().enumerate() {
            match AllowRule::parse(text) {
                Ok(rule) => rules.push(rule),
                Err(problem) => problems.push((index, problem)),
            }
        }
        if problems.is_empty() {
            Ok(Self { allow_private, allow: rules, ranges: Ranges::default() })
        } else {
            Err(problems)
        }
    }

    /// Whether a caller may ask for this host at all; for an IP literal this is the whole check.
    ///
    /// # Errors
    /// The refusal, worded for the caller.
    pub fn check_name(&self, origin: &Origin) -> Result<(), String> {
        if origin.trusted {
            return Ok(());
        }
        let name: &str = match &origin.host {
            Host::Ip(ip) => return self.check_address(origin, *ip),
            Host::Name(name) => name,
        };
        let metadata = METADATA_NAMES.contains(&name);
        if self.rules_for(origin).any(|rule| rule.names(name) && (!metadata || rule.names_exactly(name))) {
            return Ok(());
        }
        if metadata {
            return Err(refusal(&format!("the host `{name}` is a metadata service")));
        }
        // A range the operator opened is open under any name; the address decides then.
        let opened = self.allow_private || self.rules_for(origin).any(AllowRule::is_net);
        if !opened && is_local(name) {
            return Err(refusal(&format!("the host `{name}` belongs to a private network")));
        }
        Ok(())
    }

    /// Whether we may connect to `ip`, one of the addresses that `origin`'s host has.
    ///
    /// # Errors
    /// The refusal, worded for the caller. An address that came from DNS is not told: the caller would
    /// learn how the network behind us is laid out.
    pub fn check_address(&self, origin: &Origin, ip: IpAddr) -> Result<(), String> {
        if origin.trusted {
            return Ok(());
        }
        let ip = ip.to_canonical();
        let Some((what, class)) = self.ranges.special(ip) else { return Ok(()) };
        if class == Class::Private && self.allow_private {
            return Ok(());
        }
        let named = |rule: &AllowRule| match &origin.host {
            Host::Name(name) => class != Class::Metadata && rule.names(name),
            Host::Ip(_) => false,
        };
        if self.rules_for(origin).any(|rule| rule.holds(ip) || named(rule)) {
            return Ok(());
        }
        Err(match &origin.host {
            Host::Ip(_) => refusal(&format!("{} is a {what} address", origin.sni())),
            Host::Name(name) => refusal(&format!("the host `{name}` has an address that is not public")),
        })
    }

    /// The allow rules that say nothing about the port, or this port.
    fn rules_for(&self, origin: &Origin) -> impl Iterator<Item = &AllowRule> {
        let port = origin.port;
        self.allow.iter().filter(move |rule| rule.port.is_none_or(|allowed| allowed == port))
    }
}

impl AllowRule {
    /// Reads a host name, `*.suffix`, an address or a range, each with an optional `:port`. IPv6 with a
    /// port stands in brackets: `[fd00::/8]:8000`.
    ///
    /// # Errors
    /// What is wrong and what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.contains("://") {
            return Err("must be a host, an address or a range, not a URL".to_owned());
        }
        let (host, port) = split_port(text)?;
        if let Ok(net) = host.parse::<IpNet>() {
            return Ok(Self { target: Target::Net(canonical(net.trunc())?), port });
        }
        if host.contains('/') {
            return Err(format!("`{host}` is not a range of addresses such as 10.0.0.0/8"));
        }
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Ok(Self { target: Target::Net(ip.to_canonical().into()), port });
        }
        let (below, name) = match host.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, host),
        };
        if name.contains('*') {
            return Err("may have one *, as its first label: *.example.com".to_owned());
        }
        let wrong = || format!("`{host}` is not a host name, an address or a range");
        let name = match url::Host::parse(name).map_err(|_| wrong())? {
            url::Host::Domain(name) if !name.is_empty() && !name.ends_with('.') => name,
            // An odd spelling of an address (decimal, hex): what it means is what is allowed.
            url::Host::Ipv4(ip) if !below => {
                return Ok(Self { target: Target::Net(IpAddr::V4(ip).into()), port });
            }
            _ => return Err(wrong()),
        };
        let target = if below { Target::Below(format!(".{name}").into()) } else { Target::Name(name.into()) };
        Ok(Self { target, port })
    }

    fn names(&self, name: &str) -> bool {
        match &self.target {
            Target::Name(allowed) => **allowed == *name,
            Target::Below(suffix) => name.len() > suffix.len() && name.ends_with(&**suffix),
            Target::Net(_) => false,
        }
    }

    fn names_exactly(&self, name: &str) -> bool {
        matches!(&self.target, Target::Name(allowed) if **allowed == *name)
    }

    fn is_net(&self) -> bool {
        matches!(self.target, Target::Net(_))
    }

    fn holds(&self, ip: IpAddr) -> bool {
        let Target::Net(net) = &self.target else { return false };
        net.contains(&ip) || carried(ip).is_some_and(|v4| net.contains(&IpAddr::V4(v4)))
    }
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

/// A range written inside ::ffff:0:0/96 as the IPv4 range it means, since addresses are compared so.
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

fn is_local(name: &str) -> bool {
    // host.docker.internal and kubernetes.docker.internal fall under .internal.
    LOCAL_SUFFIXES.iter().any(|suffix| {
        name.strip_suffix(suffix).is_some_and(|before| before.is_empty() || before.ends_with('.'))
    })
}

fn refusal(why: &str) -> String {
    format!(
        "Invalid custom host: {why}, and this gateway does not connect to such hosts for its callers. \
         The operator can open it with custom_hosts.allow."
    )
}

#[cfg(test)]
mod tests;
