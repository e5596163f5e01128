//! Sends the gateway's own small requests to token servers and cloud metadata servers, and bounds body and time of their responses.
//!
//! Which addresses they may reach, and how connections are made, is [`super::side_client`]'s.

use super::custom_host::HostRules;
use super::dns::Dns;
use super::origin::{Host, Origin};
use super::side_client::{FetchError, SideClients};
use knowledge::provider::token_exchange::{TokenRequest, TokenResponse};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::AsyncReadExt;

/// Maximum response body, bytes. Token responses are a few kilobytes.
const MAX_BODY_BYTES: usize = 64 << 10;
/// The timeout of a whole request, including the response body.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Short, because packets to a metadata server that does not exist are dropped silently.
const METADATA_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Sends token requests.
#[derive(Debug)]
pub(crate) struct TokenHttpClient {
    clients: SideClients,
}

impl TokenHttpClient {
    pub fn new(ca_file: Option<PathBuf>) -> Self {
        Self { clients: SideClients::new(ca_file) }
    }

    /// Sends a token request, or reads its local source. `by_operator`: the operator wrote the account it is made
    /// from; otherwise its address must be one that a client may name.
    ///
    /// # Errors
    /// [`FetchError`]; no text contains a query, a header or a body.
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
        let origin = origin(token_request, by_operator, rules)?;
        let connect = if token_request.is_metadata { METADATA_CONNECT_TIMEOUT } else { CONNECT_TIMEOUT };
        let client = self.clients.client_for(&origin, dns, rules, connect).await?;
        let request = client
            .http
            .request(token_request.method.clone(), &token_request.url)
            .headers(token_request.headers.clone())
            .body(token_request.body.clone());
        let mut response = request.send().await.map_err(|why| client.broken(why))?;
        let status = response.status().as_u16();
        if let Some(refused) = client.refused_by_proxy(status) {
            return Err(refused);
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|why| client.broken(why))? {
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
}

/// The message to a client whose request would use the machine's identity.
const MACHINE_IDENTITY_REFUSED: &str = "This way of signing in uses an identity of the gateway's own machine, which only \
                       accounts the operator wrote may use: stored providers and saved configs, without a \
                       host named by the caller. Name one of these, or send credentials of your own.";

/// The origin of a token request, if the request may be sent there.
fn origin(token_request: &TokenRequest, by_operator: bool, rules: &HostRules) -> Result<Origin, FetchError> {
    let bare = token_request.url.split(['?', '#']).next().unwrap_or_default();
    let origin = Origin::parse(bare, by_operator)
        .map_err(|why| FetchError::Refused(format!("The address of the token server {why}.")))?;
    let loopback = matches!(origin.host, Host::Ip(ip) if ip.is_loopback());
    if token_request.is_metadata && !origin.tls && !loopback && !is_metadata(&origin.host) {
        return Err(FetchError::Broken(format!("{} is no metadata server", origin.authority())));
    }
    // Plain HTTP would expose credentials to the network, except on loopback, if clients may name that.
    let is_shown = !origin.tls && !token_request.is_metadata;
    if is_shown && !(loopback && (by_operator || rules.check_name(&origin).is_ok())) {
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
        // AWS (with EKS), then Google Cloud.
        Host::Ip(IpAddr::V6(ip)) => {
            let segments = ip.segments();
            segments.starts_with(&[0xfd00, 0x0ec2]) || segments == [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254]
        }
    }
}

/// A source on the machine itself, read without a network.
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

    /// Reads the source. A missing one is a 404, as from a server.
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

#[cfg(test)]
mod tests;
