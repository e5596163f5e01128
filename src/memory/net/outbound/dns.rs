//! Resolves a host to the addresses we may connect to: resolved once, every address checked, cached.
//!
//! The only place where a name becomes an address. Connections go to exactly the returned [`Addresses`], so a
//! name that changes its DNS result between check and connect (rebinding) gains nothing. Not a connector and
//! not a health check: it only remembers which address failed last.
//!
//! Names from operators and from clients have separate caches, so no client can evict a provider's name.

mod name_cache;
mod system;

pub(crate) use name_cache::LookupResult;
use name_cache::{Entry, NameCache};
pub(crate) use system::{LibcResolver, SystemResolver};

use super::custom_host::HostRules;
use super::origin::{Host, Origin};
use async_trait::async_trait;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;
use words::settings::outbound::{IpVersions, NameResolver, Outbound};

/// Maximum number of names in each of the two caches.
const MAX_NAMES: u64 = 4096;

/// Why a host has no address we may connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResolveError {
    /// The rules for custom hosts forbid it; worded for the client.
    Refused(String),
    /// The name does not exist, or it has no address.
    NotFound,
    /// The lookup failed; the cause is for the log.
    Failed(String),
    /// The proxy before the host has no address.
    Proxy { proxy: String, cause: String },
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResolveError::Refused(text) => f.write_str(text),
            ResolveError::NotFound => f.write_str("the host name does not exist or has no address"),
            ResolveError::Failed(cause) => write!(f, "the host name could not be resolved: {cause}"),
            ResolveError::Proxy { proxy, cause } => write!(f, "proxy {proxy}: {cause}"),
        }
    }
}

impl std::error::Error for ResolveError {}

/// A name resolver: the system's DNS, or a script in tests.
#[async_trait]
pub(crate) trait Resolve: Send + Sync + fmt::Debug {
    /// All addresses of `name`, in the order in which to try them. `search`: the machine's search domains apply;
    /// they never do for clients' names.
    ///
    /// # Errors
    /// [`ResolveError::NotFound`] or [`ResolveError::Failed`].
    async fn resolve(&self, name: &str, search: bool) -> Result<LookupResult, ResolveError>;

    /// The services of a name of the operator's (SRV, RFC 2782).
    ///
    /// # Errors
    /// As [`Resolve::resolve`].
    async fn services(&self, name: &str) -> Result<Vec<ServiceRecord>, ResolveError> {
        Err(ResolveError::Failed(format!("this resolver finds no services of {name}")))
    }
}

/// A host that serves a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceRecord {
    pub host: String,
    pub port: u16,
    /// The lower, the earlier.
    pub priority: u16,
    pub weight: u16,
}

/// The resolver with its caches. Cheap to share; works from any runtime.
#[derive(Debug)]
pub struct Dns {
    resolver: Arc<dyn Resolve>,
    /// For `outbound.dns: system`.
    system: Arc<dyn Resolve>,
    operators: Arc<NameCache>,
    clients: Arc<NameCache>,
}

/// The addresses of a host, the one to try first in front.
#[derive(Debug, Clone)]
pub struct Addresses {
    list: AddressList,
    first: usize,
    port: u16,
    /// The addresses of a name that are used.
    ip: IpVersions,
}

#[derive(Debug, Clone)]
enum AddressList {
    Literal(IpAddr),
    Resolved(Arc<Entry>),
}

impl Dns {
    /// Uses the machine's DNS configuration. Does not need a runtime.
    pub fn system() -> Self {
        Self::with_resolver(Arc::new(SystemResolver::new()))
    }

    /// Uses `resolver` instead of the system's.
    pub(crate) fn with_resolver(resolver: Arc<dyn Resolve>) -> Self {
        Self {
            resolver,
            system: Arc::new(LibcResolver),
            operators: NameCache::new(true, MAX_NAMES),
            clients: NameCache::new(false, MAX_NAMES),
        }
    }

    /// Drops the names whose time is over; otherwise only the next lookups do.
    pub fn drop_expired(&self) {
        self.operators.drop_expired();
        self.clients.drop_expired();
    }

    /// The addresses to connect to for `origin`; never empty. A single forbidden address refuses the whole host: a
    /// name that also points into a private network is not trustworthy. Trusted origins are not checked.
    ///
    /// # Errors
    /// [`ResolveError`]. When lookups fail, a trusted origin keeps its last good addresses until ten minutes after
    /// they expired.
    pub async fn addresses(&self, origin: &Origin, rules: &HostRules) -> Result<Addresses, ResolveError> {
        self.addresses_at(origin, rules, Instant::now()).await
    }

    async fn addresses_at(
        &self,
        origin: &Origin,
        rules: &HostRules,
        now: Instant,
    ) -> Result<Addresses, ResolveError> {
        rules.check_name(origin).map_err(ResolveError::Refused)?;
        let name = match &origin.host {
            Host::Ip(ip) => {
                let list = AddressList::Literal(*ip);
                return Ok(Addresses { list, first: 0, port: origin.port, ip: IpVersions::Any });
            }
            Host::Name(name) => name,
        };
        let resolver = match rules.outbound.resolver {
            NameResolver::Own => &self.resolver,
            NameResolver::System => &self.system,
        };
        let entry = self.cache_for(origin).entry(name, resolver, now).await?;
        // Checked on every use, not when cached: the rules may have been reloaded since.
        for ip in entry.ips() {
            rules.check_address(origin, *ip).map_err(ResolveError::Refused)?;
        }
        let first = entry.first();
        let ip = rules.outbound.ip;
        let found = Addresses { list: AddressList::Resolved(entry), first, port: origin.port, ip };
        if found.first().is_none() {
            return Err(ResolveError::Failed(format!("it has no {} address (outbound.ip)", ip.name())));
        }
        Ok(found)
    }

    /// All addresses of a name of the operator's, asked for anew.
    ///
    /// # Errors
    /// [`ResolveError`].
    pub(crate) async fn all_addresses(
        &self,
        name: &str,
        outbound: &Outbound,
    ) -> Result<Vec<IpAddr>, ResolveError> {
        let resolver = match outbound.resolver {
            NameResolver::Own => &self.resolver,
            NameResolver::System => &self.system,
        };
        let mut ips = resolver.resolve(name, true).await?.ips;
        ips.retain(|ip| outbound.ip.has(*ip));
        if ips.is_empty() { Err(ResolveError::NotFound) } else { Ok(ips) }
    }

    /// The services of a name of the operator's: always by the own resolver, since the system's has no such question.
    ///
    /// # Errors
    /// [`ResolveError`].
    pub(crate) async fn services(&self, name: &str) -> Result<Vec<ServiceRecord>, ResolveError> {
        let services = self.resolver.services(name).await?;
        if services.is_empty() { Err(ResolveError::NotFound) } else { Ok(services) }
    }

    /// Records that connecting to `address` failed, so that the next call starts with another one.
    pub fn connect_failed(&self, origin: &Origin, address: SocketAddr) {
        if let Host::Name(name) = &origin.host {
            self.cache_for(origin).connect_failed(name, address.ip());
        }
    }

    fn cache_for(&self, origin: &Origin) -> &Arc<NameCache> {
        if origin.trusted { &self.operators } else { &self.clients }
    }
}

impl Addresses {
    /// All addresses, in the order in which to try them.
    pub fn iter(&self) -> impl Iterator<Item = SocketAddr> {
        let ips = match &self.list {
            AddressList::Literal(ip) => std::slice::from_ref(ip),
            AddressList::Resolved(entry) => entry.ips(),
        };
        let (front, back) = ips.split_at_checked(self.first).unwrap_or((ips, &[]));
        let used = back.iter().chain(front).filter(|ip| self.ip.has(**ip));
        used.map(|ip| SocketAddr::new(*ip, self.port))
    }

    /// The address to try first.
    pub fn first(&self) -> Option<SocketAddr> {
        self.iter().next()
    }
}

#[cfg(test)]
mod tests;
