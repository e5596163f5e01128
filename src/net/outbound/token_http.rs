//! One small request of the gateway's own, to a token server or a cloud's metadata server.
//!
//! Not for callers' traffic: that goes through Pingora. Each call has its own connection, because such calls
//! are rare and a pooled connection would die with the runtime that opened it (each service has one). No
//! proxy of the environment, no redirect, a bounded body and a bounded time.

use super::custom_host::HostRules;
use super::dns::Dns;
use super::origin::{Host, Origin};
use crate::provider::token_exchange::{TokenRequest, TokenResponse};
use pingora_core::tls::{load_ca_file_into_store, load_platform_certs_incl_env_into_store};
use reqwest::redirect::Policy;
use rustls::{ClientConfig, RootCertStore};
use std::error::Error as StdError;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::io::AsyncReadExt;

/// Token answers are a few kilobytes.
const MAX_BODY_BYTES: usize = 64 << 10;
/// The whole call, with all its body.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Where there is no metadata server, packets to it vanish: nobody should wait long to learn that.
const METADATA_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Why nothing was brought back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchError {
    /// This address is not called for this account; worded for the caller.
    Refused(String),
    /// No answer we can use; for the log.
    Broken(String),
}

/// Makes side calls. Cheap until the first one.
pub struct TokenHttpClient {
    /// Authorities in place of the machine's, as for providers.
    ca_file: Option<PathBuf>,
    tls: OnceLock<Result<ClientConfig, String>>,
}

impl TokenHttpClient {
    pub fn new(ca_file: Option<PathBuf>) -> Self {
        Self { ca_file, tls: OnceLock::new() }
    }

    /// Runs an errand. `by_operator`: the operator wrote what it is made from. Otherwise its address must be
    /// one that a caller may name.
    ///
    /// # Errors
    /// [`Failed`]; no text holds a query, a header or a body.
    pub async fn run(
        &self,
        token_request: &TokenRequest,
        by_operator: bool,
        dns: &Dns,
        rules: &HostRules,
    ) -> Result<TokenResponse, FetchError> {
        if token_request.is_metadata && !by_operator {
            return Err(FetchError::Refused(MACHINE_IDENTITY_REFUSED.to_owned()));
        }
        if token_request.is_metadata
            && let Some(local) = LocalSource::parse(&token_request.url)
        {
            return local.read().await;
        }
        let bounded =
            tokio::time::timeout(REQUEST_TIMEOUT, self.send(token_request, by_operator, dns, rules));
        bounded
            .await
            .unwrap_or_else(|_| Err(FetchError::Broken(format!("no answer within {REQUEST_TIMEOUT:?}"))))
    }

    async fn send(
        &self,
        token_request: &TokenRequest,
        by_operator: bool,
        dns: &Dns,
        rules: &HostRules,
    ) -> Result<TokenResponse, FetchError> {
        let origin = origin(token_request, by_operator)?;
        let addresses = dns.addresses(&origin, rules).await.map_err(|why| match why {
            super::dns::ResolveError::Refused(why) => FetchError::Refused(why),
            other => FetchError::Broken(format!("{}: {other}", origin.authority())),
        })?;
        let addresses: Vec<_> = addresses.iter().collect();
        let broken =
            |why: reqwest::Error| FetchError::Broken(format!("{}: {}", origin.authority(), error_chain(why)));
        let connect = if token_request.is_metadata { METADATA_CONNECT_TIMEOUT } else { CONNECT_TIMEOUT };
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(self.tls()?)
            .no_proxy()
            .redirect(Policy::none())
            .connect_timeout(connect)
            .pool_max_idle_per_host(0)
            .user_agent(concat!("turnpike/", env!("CARGO_PKG_VERSION")))
            // Exactly the addresses that were checked: a name that changes its answer gains nothing.
            .resolve_to_addrs(origin.sni(), &addresses)
            .build()
            .map_err(broken)?;
        let request = client
            .request(token_request.method.clone(), &token_request.url)
            .headers(token_request.headers.clone())
            .body(token_request.body.clone());
        let mut response = request.send().await.map_err(broken)?;
        let status = response.status().as_u16();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(broken)? {
            if body.len() + chunk.len() > MAX_BODY_BYTES {
                return Err(FetchError::Broken(format!(
                    "{}: the answer is over {MAX_BODY_BYTES} bytes",
                    origin.authority()
                )));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(TokenResponse { status, body })
    }

    /// The same authorities that providers are trusted by.
    fn tls(&self) -> Result<ClientConfig, FetchError> {
        let config = self.tls.get_or_init(|| {
            let mut roots = RootCertStore::empty();
            match &self.ca_file {
                Some(path) => load_ca_file_into_store(path, &mut roots),
                None => load_platform_certs_incl_env_into_store(&mut roots),
            }
            .map_err(|why| why.to_string())?;
            let provider = rustls::crypto::ring::default_provider().into();
            let config = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .map_err(|why| why.to_string())?;
            Ok(config.with_root_certificates(roots).with_no_client_auth())
        });
        config.clone().map_err(|why| FetchError::Broken(format!("authorities: {why}")))
    }
}

impl fmt::Debug for TokenHttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SideCalls").field("ca_file", &self.ca_file).finish_non_exhaustive()
    }
}

/// What a caller is told who would borrow the machine's identity.
const MACHINE_IDENTITY_REFUSED: &str = "This way of signing in uses an identity of the gateway's own machine, which only \
                       accounts the operator wrote may use: stored providers and saved configs, without a \
                       host named by the caller. Name one of these, or send credentials of your own.";

/// Where the errand goes, when it may go there at all.
fn origin(token_request: &TokenRequest, by_operator: bool) -> Result<Origin, FetchError> {
    let bare = token_request.url.split(['?', '#']).next().unwrap_or_default();
    let origin = Origin::parse(bare, by_operator)
        .map_err(|why| FetchError::Refused(format!("The address of the token server {why}.")))?;
    let loopback = matches!(origin.host, Host::Ip(ip) if ip.is_loopback());
    if token_request.is_metadata && !origin.tls && !loopback && !is_metadata(&origin.host) {
        return Err(FetchError::Broken(format!("{} is no metadata server", origin.authority())));
    }
    // Plain HTTP would show credentials to the network; not on the machine itself.
    let is_shown = !origin.tls && !token_request.is_metadata;
    if is_shown && !(by_operator && loopback) {
        return Err(FetchError::Refused(
            "The address of the token server must begin with https://.".to_owned(),
        ));
    }
    Ok(origin)
}

fn is_metadata(host: &Host) -> bool {
    match host {
        Host::Name(name) => matches!(&**name, "metadata.google.internal" | "metadata"),
        Host::Ip(IpAddr::V4(ip)) => ip.is_link_local(),
        // Cloud A's (and EKS's), then cloud B's.
        Host::Ip(IpAddr::V6(ip)) => {
            let segments = ip.segments();
            segments.starts_with(&[0xfd00, 0x0ec2]) || segments == [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254]
        }
    }
}

/// What is found on the machine itself, without a network.
enum LocalSource<'a> {
    Variable(&'a str),
    File(&'a str),
}

impl<'a> LocalSource<'a> {
    fn parse(url: &'a str) -> Option<Self> {
        url.strip_prefix("env:")
            .map(LocalSource::Variable)
            .or_else(|| url.strip_prefix("file:").map(LocalSource::File))
    }

    /// 404 where it is not there, as a server would say it.
    async fn read(&self) -> Result<TokenResponse, FetchError> {
        let found = match self {
            LocalSource::Variable(name) => std::env::var(name).ok().map(String::into_bytes),
            LocalSource::File(path) => match tokio::fs::File::open(path).await {
                Ok(file) => {
                    let mut body = Vec::new();
                    let read = file.take(MAX_BODY_BYTES as u64).read_to_end(&mut body).await;
                    read.map_err(|why| FetchError::Broken(format!("{path}: {why}")))?;
                    Some(body)
                }
                Err(why) if why.kind() == std::io::ErrorKind::NotFound => None,
                Err(why) => return Err(FetchError::Broken(format!("{path}: {why}"))),
            },
        };
        Ok(found.map_or(TokenResponse { status: 404, body: Vec::new() }, |body| TokenResponse {
            status: 200,
            body,
        }))
    }
}

/// An error and what is behind it, without the URL: a query may hold a credential.
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

#[cfg(test)]
mod tests;
