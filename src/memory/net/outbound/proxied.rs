//! How one host is reached: directly at its checked addresses, or through a proxy.
//!
//! A proxy is handed the name of an operator's host and resolves it itself. A host that a client names is resolved and checked here, and
//! the proxy is handed the checked address, so that the rules for custom hosts hold behind it; a name that the operator opened by name
//! (`custom_hosts.allow`) is handed over as it is. Not here: which proxy ([`super::proxies`]), and connecting.

use super::custom_host::HostRules;
use super::dns::{Addresses, Dns, ResolveError};
use super::origin::{Host, Origin};
use super::proxies::Proxy;
use http::header::PROXY_AUTHORIZATION;
use pingora::http::RequestHeader;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use words::config::proxy_url::ProxyChoice;

/// The addresses to connect to, and what they are the addresses of.
#[derive(Debug, Clone)]
pub struct Reached {
    pub addresses: Addresses,
    /// `None`: the addresses are the host's own.
    pub proxied: Option<Proxied>,
}

/// A host behind a proxy.
#[derive(Debug, Clone)]
pub struct Proxied {
    pub proxy: Arc<Proxy>,
    form: Form,
}

#[derive(Debug, Clone, Hash)]
enum Form {
    /// A connection to this host and port, which the proxy opens at `CONNECT`.
    Tunnel(Box<str>),
    /// The proxy is sent each request with an absolute target, which begins so: for `http://` addresses.
    Absolute(Box<str>),
}

/// How `origin` is reached. `choice`: what its provider says of proxies; `is_upgrade`: the connection will switch protocols, so the
/// proxy must not read along.
///
/// # Errors
/// [`ResolveError`], of the host or of the proxy.
pub async fn reach(
    dns: &Dns,
    origin: &Origin,
    rules: &HostRules,
    choice: Option<&ProxyChoice>,
    is_upgrade: bool,
) -> Result<Reached, ResolveError> {
    let Some(proxy) = rules.outbound.proxies.for_origin(origin, choice) else {
        return Ok(Reached { addresses: dns.addresses(origin, rules).await?, proxied: None });
    };
    rules.check_name(origin).map_err(ResolveError::Refused)?;
    let form = if !rules.opens_name(origin) {
        let checked = dns.addresses(origin, rules).await?.first().ok_or(ResolveError::NotFound)?;
        Form::Tunnel(checked.to_string().into())
    } else if origin.tls || is_upgrade {
        Form::Tunnel(authority(&origin.host, origin.port))
    } else {
        Form::Absolute(format!("http://{}", origin.authority()).into())
    };
    let addresses = dns
        .addresses(&proxy.origin, rules)
        .await
        .map_err(|why| ResolveError::Proxy { proxy: proxy.name().to_owned(), cause: why.to_string() })?;
    Ok(Reached { addresses, proxied: Some(Proxied { proxy, form }) })
}

/// Host and port, both always written.
fn authority(host: &Host, port: u16) -> Box<str> {
    match host {
        Host::Name(name) => format!("{name}:{port}"),
        Host::Ip(ip) => SocketAddr::new(*ip, port).to_string(),
    }
    .into()
}

impl Proxied {
    /// What the proxy is asked to connect to; `None`: it is sent the requests themselves.
    pub(super) fn tunnel(&self) -> Option<&str> {
        match &self.form {
            Form::Tunnel(authority) => Some(authority),
            Form::Absolute(_) => None,
        }
    }

    /// The address of the host, if the proxy was handed one.
    pub fn handed_address(&self) -> Option<SocketAddr> {
        self.tunnel()?.parse().ok()
    }

    /// Whether the proxy is sent the requests themselves, and answers in the provider's place where it cannot forward one.
    pub fn is_forwarding(&self) -> bool {
        self.tunnel().is_none()
    }

    /// Whether a connection may carry HTTP/2. One to a proxy with TLS goes through a socket pair, which Pingora's pool of HTTP/2
    /// connections does not take for one of its own.
    pub(super) fn allows_h2(&self) -> bool {
        !self.proxy.origin.tls
    }

    /// Gives a complete request header the form that the proxy needs.
    ///
    /// # Errors
    /// Pingora's, for a target that cannot be sent.
    pub fn apply(&self, header: &mut RequestHeader) -> pingora_core::Result<()> {
        let Form::Absolute(prefix) = &self.form else { return Ok(()) };
        let path = header.raw_path();
        if path.starts_with(b"/") {
            let target = [prefix.as_bytes(), path].concat();
            header.set_raw_path(&target)?;
        }
        if let Some(value) = self.proxy.authorization() {
            header.insert_header(PROXY_AUTHORIZATION, value.clone())?;
        }
        Ok(())
    }

    /// The failure that a forwarding proxy's status means; other statuses are taken for the provider's.
    pub fn refusal(&self, status: u16) -> Option<super::proxy_connector::ProxyFailure> {
        (status == 407 && self.is_forwarding())
            .then(|| super::proxy_connector::ProxyFailure::refused(&self.proxy, status, String::new()))
    }
}

/// Connections are shared only by requests with the same proxy, credentials and destination.
impl Hash for Proxied {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.proxy.url().hash(state);
        self.form.hash(state);
    }
}

/// The addresses that connections come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SourceAddresses {
    v4: Option<IpAddr>,
    v6: Option<IpAddr>,
}

impl SourceAddresses {
    pub fn new(addresses: &[IpAddr]) -> Self {
        let find = |is_v4: bool| addresses.iter().copied().find(|ip| ip.is_ipv4() == is_v4);
        Self { v4: find(true), v6: find(false) }
    }

    /// The one for clients that take only one.
    pub fn any(&self) -> Option<IpAddr> {
        self.v4.or(self.v6)
    }

    /// The one for connections to `to`.
    pub fn towards(&self, to: IpAddr) -> Option<IpAddr> {
        if to.is_ipv4() { self.v4 } else { self.v6 }
    }
}

#[cfg(test)]
mod tests;
