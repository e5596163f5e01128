//! From a host to the addresses we may connect to: resolved once, every address checked, kept in memory.
//!
//! The only place a name becomes an address. Callers connect to exactly the [`Addresses`] they get, so a
//! name that changes its answer between check and connect (rebinding) gains nothing. Not a connector and
//! not a health check: it only remembers which address failed last.
//!
//! Operators' names and callers' names are kept apart, so no caller can push a provider out of memory.

mod name_cache;
mod system;

pub use name_cache::LookupResult;
use name_cache::{Entry, NameCache};
pub use system::SystemResolver;

use super::custom_host::HostRules;
use super::origin::{Host, Origin};
use async_trait::async_trait;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

/// Most names remembered of either kind.
const MAX_NAMES: u64 = 4096;

/// Why a host has no address for us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResolveError {
    /// The rules for custom hosts forbid it; worded for the caller.
    Refused(String),
    /// DNS says there is no such name, or it has no address.
    NotFound,
    /// DNS did not answer; the cause is for the log.
    Failed(String),
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResolveError::Refused(text) => f.write_str(text),
            ResolveError::NotFound => f.write_str("the host name does not exist or has no address"),
            ResolveError::Failed(cause) => write!(f, "the host name could not be resolved: {cause}"),
        }
    }
}

impl std::error::Error for ResolveError {}

/// Something that resolves names: the system's DNS, or a script in tests.
#[async_trait]
pub trait Resolve: Send + Sync + fmt::Debug {
    /// All addresses of `name`, in the order they should be tried. `search` says whether the machine's
    /// search domains apply; for callers' names they never do.
    ///
    /// # Errors
    /// [`NetError::NotFound`] or [`NetError::Failed`].
    async fn resolve(&self, name: &str, search: bool) -> Result<LookupResult, ResolveError>;
}

/// Resolves and remembers. Cheap to share; works from any runtime.
#[derive(Debug)]
pub struct Dns {
    resolver: Arc<dyn Resolve>,
    operators: Arc<NameCache>,
    clients: Arc<NameCache>,
}

/// Where a host can be reached, best address first.
#[derive(Debug, Clone)]
pub struct Addresses {
    list: AddressList,
    first: usize,
    port: u16,
}

#[derive(Debug, Clone)]
enum AddressList {
    Literal(IpAddr),
    Resolved(Arc<Entry>),
}

impl Dns {
    /// The machine's own DNS configuration; needs no runtime yet.
    pub fn system() -> Self {
        Self::with_resolver(Arc::new(SystemResolver::new()))
    }

    /// Another resolver than the system's.
    pub fn with_resolver(resolver: Arc<dyn Resolve>) -> Self {
        Self {
            resolver,
            operators: NameCache::new(true, MAX_NAMES),
            clients: NameCache::new(false, MAX_NAMES),
        }
    }

    /// The addresses `origin` may be reached at; never empty. One forbidden address refuses the host: a
    /// name that also points inside is no name we want to talk to. Trusted origins are not checked.
    ///
    /// # Errors
    /// [`NetError`]; a resolver that fails is covered up for a trusted origin while its last good
    /// addresses are not older than ten minutes.
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
                return Ok(Addresses { list: AddressList::Literal(*ip), first: 0, port: origin.port });
            }
            Host::Name(name) => name,
        };
        let entry = self.cache_for(origin).entry(name, &self.resolver, now).await?;
        // Judged on every use, not when stored: the rules may have been reloaded since.
        for ip in entry.ips() {
            rules.check_address(origin, *ip).map_err(ResolveError::Refused)?;
        }
        let first = entry.first();
        Ok(Addresses { list: AddressList::Resolved(entry), first, port: origin.port })
    }

    /// Tells that connecting to `address` failed, so that the next call begins with another one.
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
    /// All addresses, the one to try first first.
    pub fn iter(&self) -> impl Iterator<Item = SocketAddr> {
        let ips = match &self.list {
            AddressList::Literal(ip) => std::slice::from_ref(ip),
            AddressList::Resolved(entry) => entry.ips(),
        };
        let (front, back) = ips.split_at_checked(self.first).unwrap_or((ips, &[]));
        back.iter().chain(front).map(|ip| SocketAddr::new(*ip, self.port))
    }

    /// The address to try first.
    pub fn first(&self) -> Option<SocketAddr> {
        self.iter().next()
    }
}

#[cfg(test)]
mod tests;
