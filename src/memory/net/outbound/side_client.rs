//! HTTP clients for the gateway's own small requests: to token servers, metadata servers of clouds, MCP servers.
//!
//! Not for client traffic, which goes through Pingora. Each client connects to checked addresses of one host only, or to the proxy
//! before it, opens its own connections (such requests are rare, and a pooled connection would end with the runtime that opened it:
//! each service has one) and follows no redirects. What is sent, and bounds of body and time, are the users' own.

use super::authorities;
use super::custom_host::HostRules;
use super::dns::{Dns, ResolveError};
use super::origin::Origin;
use super::proxied::reach;
use super::proxies::Proxy;
use moka::sync::Cache;
use reqwest::redirect::Policy;
use rustls::ClientConfig;
use std::collections::hash_map::DefaultHasher;
use std::error::Error as StdError;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Why there is no response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchError {
    /// This account may not use this address; worded for the client.
    Refused(String),
    /// The request failed or its response is not usable; worded for the log.
    Broken(String),
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) | Self::Broken(why) => f.write_str(why),
        }
    }
}

/// A proxy resolves the name once more. With TLS a host that it finds elsewhere has no certificate for the name; without, nothing binds
/// the two, and the rules for hosts would not hold.
const UNCHECKED: &str = "This gateway reaches other hosts through a proxy, where it cannot check which host an http:// address leads \
                         to. Use https://, or ask the operator to open the host (custom_hosts.allow).";

/// How many clients with open connections are kept, and for how long unused.
const MAX_POOLED: u64 = 256;
const POOLED_IDLE: Duration = Duration::from_secs(60);
const MAX_IDLE_CONNECTIONS: usize = 32;

/// A client for requests to one host.
pub(crate) struct SideClient {
    pub http: reqwest::Client,
    way: Way,
}

/// How its host is reached, for messages.
struct Way {
    authority: String,
    has_tls: bool,
    proxy: Option<Arc<Proxy>>,
}

/// Makes the clients. The TLS configuration is built for the first one.
pub(crate) struct SideClients {
    /// Certificate authorities in place of the system's, as for providers.
    ca_file: Option<PathBuf>,
    tls: OnceLock<Result<ClientConfig, String>>,
    /// Clients by host and checked addresses; `None`: each is used once.
    pool: Option<Cache<String, reqwest::Client>>,
}

impl SideClients {
    pub fn new(ca_file: Option<PathBuf>) -> Self {
        Self { ca_file, tls: OnceLock::new(), pool: None }
    }

    /// Clients that are kept, with their connections.
    pub fn pooled(ca_file: Option<PathBuf>) -> Self {
        let pool = Cache::builder().max_capacity(MAX_POOLED).time_to_idle(POOLED_IDLE).build();
        Self { pool: Some(pool), ..Self::new(ca_file) }
    }

    /// A client for requests to `origin`, whose addresses are looked up and checked now.
    ///
    /// # Errors
    /// [`FetchError`].
    pub(crate) async fn client_for(
        &self,
        origin: &Origin,
        dns: &Dns,
        rules: &HostRules,
        connect_timeout: Duration,
    ) -> Result<SideClient, FetchError> {
        let reached = reach(dns, origin, rules, None, false).await.map_err(|why| match why {
            ResolveError::Refused(why) => FetchError::Refused(why),
            other => FetchError::Broken(format!("{}: {other}", origin.authority())),
        })?;
        let proxy = reached.proxied.as_ref().map(|proxied| &proxied.proxy);
        let way =
            Way { authority: origin.authority().to_owned(), has_tls: origin.tls, proxy: proxy.cloned() };
        if proxy.is_some() && !origin.tls && !rules.opens_name(origin) {
            return Err(FetchError::Refused(UNCHECKED.to_owned()));
        }
        let addresses: Vec<_> = reached.addresses.iter().collect();
        let source = reached.addresses.first().and_then(|to| rules.outbound.source.towards(to.ip()));
        let mut hasher = DefaultHasher::new();
        reached.proxied.hash(&mut hasher);
        let by = hasher.finish();
        let key = format!("{} {} {addresses:?} {source:?} {by:x}", origin.tls, origin.authority());
        if let Some(http) = self.pool.as_ref().and_then(|pool| pool.get(&key)) {
            return Ok(SideClient { http, way });
        }
        let idle = if self.pool.is_some() { MAX_IDLE_CONNECTIONS } else { 0 };
        let broken = |why| way.broken(why);
        let mut builder = reqwest::Client::builder().tls_backend_preconfigured(self.tls()?).no_proxy();
        if let Some(proxy) = proxy {
            builder = builder.proxy(proxy.for_reqwest().map_err(broken)?);
        }
        let http = builder
            .local_address(source)
            .redirect(Policy::none())
            .connect_timeout(connect_timeout)
            .pool_max_idle_per_host(idle)
            .pool_idle_timeout(POOLED_IDLE)
            .user_agent(concat!("turnpike/", env!("CARGO_PKG_VERSION")))
            // Connects to exactly the checked addresses: a name that changes its DNS result gains nothing.
            .resolve_to_addrs(proxy.map_or(origin, |proxy| &proxy.origin).sni(), &addresses)
            .build()
            .map_err(broken)?;
        if let Some(pool) = &self.pool {
            pool.insert(key, http.clone());
        }
        Ok(SideClient { http, way })
    }

    /// The TLS configuration, with the same certificate authorities as for providers.
    fn tls(&self) -> Result<ClientConfig, FetchError> {
        let config = self.tls.get_or_init(|| authorities::client_config(self.ca_file.as_deref()));
        config.clone().map_err(|why| FetchError::Broken(format!("authorities: {why}")))
    }
}

impl fmt::Debug for SideClients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SideClients").field("ca_file", &self.ca_file).finish_non_exhaustive()
    }
}

impl SideClient {
    /// Why a request has no response; names the proxy it went through.
    pub fn broken(&self, why: reqwest::Error) -> FetchError {
        self.way.broken(why)
    }

    /// The failure that a response means which a proxy gave in the place of an `http://` host.
    pub fn refused_by_proxy(&self, status: u16) -> Option<FetchError> {
        let Way { authority, has_tls, proxy } = &self.way;
        let proxy = proxy.as_ref().filter(|_| status == 407 && !has_tls)?;
        let why = format!("{authority}: the proxy {} demands credentials (407)", proxy.name());
        Some(FetchError::Broken(why))
    }
}

impl Way {
    fn broken(&self, why: reqwest::Error) -> FetchError {
        let by = self.proxy.as_ref().map(|proxy| format!(" (through the proxy {})", proxy.name()));
        FetchError::Broken(format!("{}{}: {}", self.authority, by.unwrap_or_default(), error_chain(why)))
    }
}

/// The error and its causes as text, without the URL: a query may contain a credential.
fn error_chain(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
