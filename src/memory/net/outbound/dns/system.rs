//! The machine's own DNS: `/etc/resolv.conf` and `/etc/hosts`, queried without blocking a thread; or `getaddrinfo`, which blocks one.
//!
//! Both files are read once, at start; by `getaddrinfo` whenever they change. Caches nothing; [`super::name_cache`] does.

use super::{LookupResult, Resolve, ResolveError, ServiceRecord};
use async_trait::async_trait;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{LookupIpStrategy, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError as LookupError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{RData, Record};
use std::time::{Duration, Instant};

/// Hickory's resolver on the system's configuration.
#[derive(Debug)]
pub(crate) struct SystemResolver {
    resolver: Result<TokioResolver, String>,
}

impl SystemResolver {
    /// Reads the configuration. Without one, `/etc/hosts` and localhost still resolve.
    #[allow(clippy::new_without_default, reason = "reads files, which a default should not")]
    pub fn new() -> Self {
        let provider = TokioRuntimeProvider::default();
        let mut builder = TokioResolver::builder_tokio().unwrap_or_else(|error| {
            log::warn!(target: "turnpike", "/etc/resolv.conf is not usable, only names in /etc/hosts resolve: {error}");
            TokioResolver::builder_with_config(ResolverConfig::default(), provider)
        });
        let options = builder.options_mut();
        // IPv4 first: a machine without IPv6 would otherwise try the unreachable half of every result first.
        options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        options.timeout = Duration::from_secs(2);
        options.attempts = 2;
        options.try_tcp_on_error = true;
        // We cache results ourselves; a second cache would return the old result when we refresh.
        options.cache_size = 0;
        Self { resolver: builder.build().map_err(|error| error.to_string()) }
    }
}

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, name: &str, search: bool) -> Result<LookupResult, ResolveError> {
        let resolver = self.resolver.as_ref().map_err(|cause| ResolveError::Failed(cause.clone()))?;
        let found = if search {
            resolver.lookup_ip(name).await
        } else {
            // With the final dot, search domains do not apply to a name that a client chose.
            resolver.lookup_ip(format!("{name}.")).await
        };
        match found {
            Ok(found) => {
                let ttl = found.valid_until().saturating_duration_since(Instant::now());
                Ok(LookupResult { ips: found.iter().collect(), ttl })
            }
            Err(error) => Err(failure(&error)),
        }
    }

    async fn services(&self, name: &str) -> Result<Vec<ServiceRecord>, ResolveError> {
        let resolver = self.resolver.as_ref().map_err(|cause| ResolveError::Failed(cause.clone()))?;
        let found = resolver.srv_lookup(name).await.map_err(|error| failure(&error))?;
        let service = |record: &Record| match &record.data {
            // A target of `.` says that there is no such service.
            RData::SRV(service) if !service.target.is_root() => Some(ServiceRecord {
                host: service.target.to_utf8().trim_end_matches('.').to_owned(),
                port: service.port,
                priority: service.priority,
                weight: service.weight,
            }),
            _ => None,
        };
        Ok(found.answers().iter().filter_map(service).collect())
    }
}

fn failure(error: &LookupError) -> ResolveError {
    if is_authoritative(error) { ResolveError::NotFound } else { ResolveError::Failed(error.to_string()) }
}

/// How long results of `getaddrinfo`, which tells none, are valid.
const LIBC_TTL: Duration = Duration::from_secs(30);

/// The system's `getaddrinfo`, with all that `/etc/nsswitch.conf` names.
#[derive(Debug)]
pub(crate) struct LibcResolver;

#[async_trait]
impl Resolve for LibcResolver {
    async fn resolve(&self, name: &str, search: bool) -> Result<LookupResult, ResolveError> {
        let name = if search { name.to_owned() } else { format!("{name}.") };
        // What does not exist and what cannot be found out now have no errors of their own here.
        let found = tokio::net::lookup_host((name, 0)).await;
        let found = found.map_err(|why| ResolveError::Failed(why.to_string()))?;
        Ok(LookupResult { ips: found.map(|address| address.ip()).collect(), ttl: LIBC_TTL })
    }
}

/// Whether the error means that the name does not exist. SERVFAIL and REFUSED are also reported as missing records,
/// but they do not mean that.
fn is_authoritative(error: &LookupError) -> bool {
    match error {
        LookupError::Dns(DnsError::NoRecordsFound(none)) => {
            matches!(none.response_code, ResponseCode::NXDomain | ResponseCode::NoError)
        }
        _ => false,
    }
}
