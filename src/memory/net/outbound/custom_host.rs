//! Which hosts a client may name: the rules behind `custom_hosts` in the settings.
//!
//! Applies to origins from a header or an inline config; origins written by the operator are trusted and not checked.
//! There are two checks: [`HostRules::check_name`] before DNS, and [`HostRules::check_address`] for each address that
//! DNS returned. Resolving, and connecting to exactly the checked addresses, is [`super::dns`].
//!
//! Portkey's rules are followed except where they trust localhost by default, skip DNS, let documentation and
//! benchmarking ranges pass, and refuse every IPv6 literal.
//!
//! Example: with `allow: ["*.corp"]`, `http://db.corp` passes both checks even at `10.0.0.1`, but not at the metadata
//! address `169.254.169.254`; without the rule it is refused before DNS is queried.

use super::origin::{Host, Origin};
use super::presented::PresentedCertificates;
use super::proxied::SourceAddresses;
use super::proxies::Proxies;
use super::ranges::{Class, Ranges, embedded_ipv4};
use std::net::IpAddr;
use words::settings::outbound::{IpVersions, NameResolver};
use words::settings::{AllowRule, CustomHosts, Settings};

/// Suffixes of names in private networks; no public host has one.
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

/// Names of metadata services (rule 6). Only an allow rule with exactly that name opens one.
pub(super) const METADATA_NAMES: &[&str] = &[
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "metadata.azure.com",
    "metadata.azure.internal",
    "instance-data",
    "instance-data.ec2.internal",
];

/// The compiled `custom_hosts` settings.
#[derive(Debug, Clone, Default)]
pub struct HostRules {
    allow_private: bool,
    allow: Vec<AllowRule>,
    ranges: Ranges,
    /// How the hosts that may be reached are reached.
    pub outbound: OutboundRules,
    /// What is presented to providers that want mutual TLS.
    pub presented: PresentedCertificates,
}

/// The compiled `outbound` settings.
#[derive(Debug, Clone, Default)]
pub struct OutboundRules {
    pub proxies: Proxies,
    pub source: SourceAddresses,
    pub ip: IpVersions,
    pub resolver: NameResolver,
}

impl OutboundRules {
    fn new(settings: &Settings) -> Self {
        let outbound = &settings.outbound;
        Self {
            proxies: Proxies::new(settings),
            source: SourceAddresses::new(&outbound.source_addresses),
            ip: outbound.ip,
            resolver: outbound.resolver,
        }
    }
}

impl HostRules {
    pub fn new(hosts: &CustomHosts) -> Self {
        Self { allow_private: hosts.allow_private, allow: hosts.allow.clone(), ..Self::default() }
    }

    /// The rules of these settings, with how hosts are reached.
    pub fn of(settings: &Settings) -> Self {
        let presented = PresentedCertificates::new(settings);
        Self { outbound: OutboundRules::new(settings), presented, ..Self::new(&settings.custom_hosts) }
    }

    /// Whether the operator wrote the host, or opened it by its name: whatever its addresses are, it may be reached.
    pub(super) fn opens_name(&self, origin: &Origin) -> bool {
        match &origin.host {
            _ if origin.trusted => true,
            Host::Name(name) => {
                let is_metadata = METADATA_NAMES.contains(&&**name);
                self.rules_for(origin).any(|rule| {
                    if is_metadata { rule.matches_exact_name(name) } else { rule.matches_name(name) }
                })
            }
            Host::Ip(_) => false,
        }
    }

    /// Checks the host itself, before DNS. For an IP literal this is the whole check.
    ///
    /// # Errors
    /// The refusal, worded for the client.
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
        // An address range that the operator opened is open under any name; the address check decides then.
        let opened = self.allow_private || self.rules_for(origin).any(AllowRule::is_net);
        if !opened && is_local(name) {
            return Err(refusal(&format!("the host `{name}` belongs to a private network")));
        }
        Ok(())
    }

    /// Checks whether we may connect to `ip`, one of the addresses of `origin`'s host.
    ///
    /// # Errors
    /// The refusal, worded for the client. It does not contain an address that came from DNS, which would reveal
    /// the layout of the internal network.
    pub(crate) fn check_address(&self, origin: &Origin, ip: IpAddr) -> Result<(), String> {
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

    /// The allow rules for any port or for this port.
    fn rules_for(&self, origin: &Origin) -> impl Iterator<Item = &AllowRule> {
        let port = origin.port;
        self.allow.iter().filter(move |rule| rule.port.is_none_or(|allowed| allowed == port))
    }
}

/// An IPv6 address with an embedded IPv4 address is opened by a rule for either.
fn rule_covers(rule: &AllowRule, ip: IpAddr) -> bool {
    rule.contains_address(ip) || embedded_ipv4(ip).is_some_and(|v4| rule.contains_address(IpAddr::V4(v4)))
}

fn is_local(name: &str) -> bool {
    // host.docker.internal and kubernetes.docker.internal match `internal`.
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
