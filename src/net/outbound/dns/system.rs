//! The machine's own DNS: `/etc/resolv.conf` and `/etc/hosts`, asked without blocking a thread.
//!
//! Read once, at start. Remembers nothing (that is [`super::names`]).

use super::{LookupResult, Resolve, ResolveError};
use async_trait::async_trait;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{LookupIpStrategy, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError as LookupError};
use hickory_resolver::proto::op::ResponseCode;
use std::time::{Duration, Instant};

/// Hickory's resolver on the system's configuration.
#[derive(Debug)]
pub struct SystemResolver {
    resolver: Result<TokioResolver, String>,
}

impl SystemResolver {
    /// Reads the configuration. A machine without one still knows its `/etc/hosts` and localhost.
    #[allow(clippy::new_without_default, reason = "reads files, which a default should not")]
    pub fn new() -> Self {
        let provider = TokioRuntimeProvider::default();
        let mut builder = TokioResolver::builder_tokio().unwrap_or_else(|error| {
            log::warn!(target: "turnpike", "no usable /etc/resolv.conf, only /etc/hosts is known: {error}");
            TokioResolver::builder_with_config(ResolverConfig::default(), provider)
        });
        let options = builder.options_mut();
        // IPv4 first: a machine without IPv6 would fail on the other half of every answer first.
        options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        options.timeout = Duration::from_secs(2);
        options.attempts = 2;
        options.try_tcp_on_error = true;
        // We remember answers ourselves; a second memory would hand out what we want renewed.
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
            // The final dot keeps search domains away from a name that a caller chose.
            resolver.lookup_ip(format!("{name}.")).await
        };
        match found {
            Ok(found) => {
                let ttl = found.valid_until().saturating_duration_since(Instant::now());
                Ok(LookupResult { ips: found.iter().collect(), ttl })
            }
            Err(error) if is_authoritative(&error) => Err(ResolveError::NotFound),
            Err(error) => Err(ResolveError::Failed(error.to_string())),
        }
    }
}

/// Whether the answer is "no", not "I cannot tell": SERVFAIL and REFUSED come as missing records, too.
fn is_authoritative(error: &LookupError) -> bool {
    match error {
        LookupError::Dns(DnsError::NoRecordsFound(none)) => {
            matches!(none.response_code, ResponseCode::NXDomain | ResponseCode::NoError)
        }
        _ => false,
    }
}
