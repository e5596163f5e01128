//! Opens connections through an HTTP proxy, in place of Pingora's own connect: TCP, TLS to the proxy if it has some, and `CONNECT`. TLS
//! with the provider follows on the connection, as on a direct one.
//!
//! Pingora's own `CONNECT` reaches proxies on Unix sockets only. Not here: which proxy, and what it is asked for ([`super::proxied`]).

use super::proxied::Proxied;
use super::proxies::Proxy;
use async_trait::async_trait;
use pingora_core::connectors::l4::Connect;
use pingora_core::protocols::l4::socket::SocketAddr as PeerAddress;
use pingora_core::protocols::l4::stream::Stream;
use pingora_core::{Error, ErrorType, Result};
use rustls::pki_types::ServerName;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpSocket, TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

/// The most bytes of the header of a response to `CONNECT`.
const MAX_HEADER: usize = 16 << 10;
/// How much of a proxy's reason is repeated.
const MAX_REASON_CHARS: usize = 100;

/// Why a connection through a proxy failed. Shows no credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyFailure {
    /// `http://proxy.corp:3128`.
    pub proxy: String,
    pub why: Why,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// It answered with this status, and with this reason.
    Refused(u16, String),
    /// It could not be reached, or broke off.
    Unreachable(String),
    TimedOut,
}

impl ProxyFailure {
    pub(super) fn refused(proxy: &Proxy, status: u16, reason: String) -> Self {
        Self { proxy: proxy.name().to_owned(), why: Why::Refused(status, reason) }
    }

    /// The one that is the cause of a Pingora error.
    pub fn of(error: &Error) -> Option<&Self> {
        error.root_cause().downcast_ref()
    }
}

impl fmt::Display for ProxyFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let proxy = &self.proxy;
        match &self.why {
            Why::Refused(status, reason) if reason.is_empty() => write!(f, "proxy {proxy}: {status}"),
            Why::Refused(status, reason) => write!(f, "proxy {proxy}: {status} {reason}"),
            Why::Unreachable(cause) => write!(f, "proxy {proxy}: {cause}"),
            Why::TimedOut => write!(f, "proxy {proxy}: no answer in time"),
        }
    }
}

impl std::error::Error for ProxyFailure {}

/// Connects one peer.
#[derive(Debug)]
pub(super) struct ProxyConnector {
    pub proxied: Proxied,
    pub source: Option<IpAddr>,
    /// Until the proxy has connected.
    pub timeout: Duration,
}

#[async_trait]
impl Connect for ProxyConnector {
    async fn connect(&self, address: &PeerAddress) -> Result<Stream> {
        let Some(address) = address.as_inet() else {
            return Err(Error::explain(ErrorType::InternalError, "a proxy without an IP address"));
        };
        let opened = tokio::time::timeout(self.timeout, self.open(*address)).await;
        opened.unwrap_or(Err(Why::TimedOut)).map_err(|why| {
            let failure = ProxyFailure { proxy: self.proxied.proxy.name().to_owned(), why };
            Error::because(ErrorType::ConnectProxyFailure, "through a proxy", failure)
        })
    }
}

impl ProxyConnector {
    async fn open(&self, address: SocketAddr) -> std::result::Result<Stream, Why> {
        let mut tcp = self.tcp(address).await.map_err(unreachable)?;
        let proxy = &self.proxied.proxy;
        if !proxy.origin.tls {
            self.tunnel(&mut tcp).await?;
            return Ok(tcp.into());
        }
        let name = ServerName::try_from(proxy.origin.sni().to_owned()).map_err(unreachable)?;
        let config = proxy.tls().map_err(Why::Unreachable)?;
        let mut tls = TlsConnector::from(config).connect(name, tcp).await.map_err(unreachable)?;
        self.tunnel(&mut tls).await?;
        // Pingora's streams are sockets: the other end of this one is copied to and from the proxy's.
        let (near, mut far) = UnixStream::pair().map_err(unreachable)?;
        tokio::spawn(async move {
            // Both ends see the end of the other; there is nothing else to do about an error.
            let _ = copy_bidirectional(&mut tls, &mut far).await;
        });
        Ok(near.into())
    }

    async fn tcp(&self, address: SocketAddr) -> std::io::Result<TcpStream> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        if let Some(source) = self.source {
            socket.bind(SocketAddr::new(source, 0))?;
        }
        socket.connect(address).await
    }

    /// Has the proxy connect to the host, if that is what it is for.
    async fn tunnel<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut S,
    ) -> std::result::Result<(), Why> {
        let Some(authority) = self.proxied.tunnel() else { return Ok(()) };
        let mut request = format!(
            "CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: turnpike/{}\r\n",
            env!("CARGO_PKG_VERSION")
        )
        .into_bytes();
        if let Some(value) = self.proxied.proxy.authorization() {
            request.extend_from_slice(b"Proxy-Authorization: ");
            request.extend_from_slice(value.as_bytes());
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"\r\n");
        stream.write_all(&request).await.map_err(unreachable)?;
        stream.flush().await.map_err(unreachable)?;
        let (status, reason) = response(stream).await?;
        if (200..300).contains(&status) { Ok(()) } else { Err(Why::Refused(status, reason)) }
    }
}

/// Status and reason of the response to `CONNECT`. Reads its header and no byte more: what follows is the provider's.
async fn response<S: AsyncRead + Unpin>(stream: &mut S) -> std::result::Result<(u16, String), Why> {
    let mut header = Vec::with_capacity(256);
    while !header.ends_with(b"\r\n\r\n") && !header.ends_with(b"\n\n") {
        if header.len() >= MAX_HEADER {
            return Err(Why::Unreachable("its answer to CONNECT is too long".to_owned()));
        }
        let byte = stream.read_u8().await;
        header.push(byte.map_err(|_| Why::Unreachable("it closed the connection at CONNECT".to_owned()))?);
    }
    let text = String::from_utf8_lossy(&header);
    let line = text.lines().next().unwrap_or_default();
    let rest = line.strip_prefix("HTTP/1.").and_then(|rest| rest.split_once(' ')).map(|(_, rest)| rest);
    let (status, reason) = rest.map(|rest| rest.split_once(' ').unwrap_or((rest, ""))).unwrap_or_default();
    match status.parse::<u16>() {
        Ok(status @ 100..600) => {
            let printable = reason.trim().chars().filter(|c| !c.is_control());
            Ok((status, printable.take(MAX_REASON_CHARS).collect()))
        }
        _ => Err(Why::Unreachable("its answer to CONNECT is no HTTP".to_owned())),
    }
}

fn unreachable(why: impl fmt::Display) -> Why {
    Why::Unreachable(why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(bytes: &'static [u8]) -> std::result::Result<(u16, String), Why> {
        response(&mut &*bytes).await
    }

    #[tokio::test]
    async fn the_answer_to_connect_is_read_to_the_end_of_its_header_and_no_further() {
        let mut stream: &[u8] = b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\nrest";
        assert_eq!(response(&mut stream).await, Ok((200, "Connection established".to_owned())));
        assert_eq!(stream, b"rest");
        assert_eq!(read(b"HTTP/1.0 403\r\n\r\n").await, Ok((403, String::new())));
        assert_eq!(read(b"HTTP/1.1 407 No\x1b[31m\r\n\r\n").await, Ok((407, "No[31m".to_owned())));
    }

    #[tokio::test]
    async fn what_is_no_answer_is_a_failure() {
        for bytes in [
            &b""[..],
            b"HTTP/1.1 200 OK\r\n",
            b"SSH-2.0-x\r\n\r\n",
            b"HTTP/1.1 x\r\n\r\n",
            b"HTTP/1.1 999 x\r\n\r\n",
        ] {
            assert!(matches!(read(bytes).await, Err(Why::Unreachable(_))), "{bytes:?}");
        }
        assert!(response(&mut tokio::io::repeat(b'a')).await.is_err());
    }
}
