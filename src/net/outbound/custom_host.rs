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
use super::ranges::{Class, Ranges, embedded_ipv4};
use crate::settings::{AllowRule, CustomHosts};
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

impl HostRules {
    pub fn new(hosts: &CustomHosts) -> Self {
        Self { allow_private: hosts.allow_private, allow: hosts.allow.clone(), ranges: Ranges::default() }
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
        if self
            .rules_for(origin)
            .any(|rule| rule.matches_name(name) && (!metadata || rule.matches_exact_name(name)))
        {
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
            Host::Name(name) => class != Class::Metadata && rule.matches_name(name),
            Host::Ip(_) => false,
        };
        if self.rules_for(origin).any(|rule| rule_covers(rule, ip) || named(rule)) {
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

/// An IPv6 address that carries an IPv4 one is opened by either.
fn rule_covers(rule: &AllowRule, ip: IpAddr) -> bool {
    rule.contains_address(ip) || embedded_ipv4(ip).is_some_and(|v4| rule.contains_address(IpAddr::V4(v4)))
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
