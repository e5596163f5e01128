//! The PROXY protocol, versions 1 and 2: the header with which a balancer tells the client's address once for a connection, before TLS
//! (<https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt>).
//!
//! Read from trusted peers only, within a bound and a time; others are closed. The client's address then stands in the place of the
//! peer's for the whole connection. Pingora reads it before TLS by [`PreTlsProcess`]; on plain connections `checked_app` does.
//! Parsing is `proxy-header`'s. The additional fields of version 2 are not used.

use async_trait::async_trait;
use bytes::BytesMut;
use log::Level;
use pingora_core::listeners::PreTlsProcess;
use pingora_core::protocols::l4::socket::SocketAddr as PeerAddress;
use pingora_core::protocols::l4::stream::Stream as Socket;
use pingora_core::protocols::{GetSocketDigest, SocketDigest, UniqueID};
use pingora_core::{Error as PingoraError, ErrorType};
use proxy_header::{ParseConfig, ProxyHeader};
use std::fmt::{self, Debug, Display};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

/// The longest header, bytes. One of version 1 has at most 107; in version 2 the fields of TLS connections take a few hundred.
const MAX_HEADER_BYTES: usize = 4096;
/// More than a header usually has.
const FIRST_READ: usize = 256;
/// How long the header may take. A balancer sends it at once.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// Whether a peer is a trusted proxy.
pub type Trust = Arc<dyn Fn(IpAddr) -> bool + Send + Sync>;

/// Reads the header of each new connection.
pub struct ProxyProtocol {
    trust: Trust,
}

impl Debug for ProxyProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyProtocol").finish_non_exhaustive()
    }
}

/// Why a connection is closed before its first request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderError {
    /// The peer is not one of `listen.trusted_proxies`.
    Untrusted,
    /// The peer closed the connection. Health checks that only connect do.
    Closed,
    /// The header did not arrive in time.
    Late,
    /// What arrived is no header, or one that is too long.
    Invalid,
}

impl Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Untrusted => {
                "this listener has proxy_protocol, and the peer is not in listen.trusted_proxies"
            }
            Self::Closed => "it ended before the header of the PROXY protocol",
            Self::Late => "the header of the PROXY protocol did not arrive within 5 s",
            Self::Invalid => {
                "it does not begin with a header of the PROXY protocol, version 1 or 2, of at most 4 KiB"
            }
        })
    }
}

impl ProxyProtocol {
    pub fn new(trust: Trust) -> Self {
        Self { trust }
    }

    /// Reads the header, and puts the client's address into the place of the peer's. A header that names none (`LOCAL`, `UNKNOWN`, a
    /// Unix socket), as health checks of balancers send, leaves the peer's.
    ///
    /// # Errors
    /// Why the connection must be closed, which is logged.
    pub(super) async fn take(&self, socket: &mut Socket) -> Result<(), HeaderError> {
        let taken = self.find(socket).await;
        if let Err(why) = taken {
            let level = if why == HeaderError::Closed { Level::Debug } else { Level::Info };
            log_closed(level, socket, &why);
        }
        taken
    }

    async fn find(&self, socket: &mut Socket) -> Result<(), HeaderError> {
        let peer = socket.get_socket_digest().and_then(|digest| digest.peer_addr()?.as_inet().copied());
        if !peer.is_some_and(|peer| (self.trust)(peer.ip())) {
            return Err(HeaderError::Untrusted);
        }
        let reading = timeout(HEADER_TIMEOUT, read_header(socket));
        let Header { client, rest } = reading.await.map_err(|_| HeaderError::Late)??;
        socket.rewind(&rest);
        if let Some(client) = client {
            let digest = SocketDigest::from_raw_fd(socket.id());
            // It is new, so nothing is set yet.
            let _ = digest.peer_addr.set(Some(PeerAddress::Inet(client)));
            socket.set_socket_digest(digest);
        }
        Ok(())
    }
}

#[async_trait]
impl PreTlsProcess for ProxyProtocol {
    async fn process(&self, socket: &mut Socket) -> pingora_core::Result<()> {
        let taken = self.take(socket).await;
        taken.map_err(|why| PingoraError::explain(ErrorType::HandshakeError, why.to_string()))
    }
}

/// What a connection begins with.
#[derive(Debug, PartialEq, Eq)]
struct Header {
    client: Option<SocketAddr>,
    /// What was read beyond it.
    rest: BytesMut,
}

async fn read_header(from: &mut (impl AsyncRead + Unpin)) -> Result<Header, HeaderError> {
    let mut read = BytesMut::with_capacity(FIRST_READ);
    loop {
        if from.read_buf(&mut read).await.map_or(0, |count| count) == 0 {
            return Err(HeaderError::Closed);
        }
        match ProxyHeader::parse(&read, ParseConfig::default()) {
            Ok((header, length)) => {
                let client = header.proxied_address().map(|proxied| proxied.source);
                let client = client.map(|from| SocketAddr::new(from.ip().to_canonical(), from.port()));
                let rest = read.split_off(length.min(read.len()));
                return Ok(Header { client, rest });
            }
            Err(proxy_header::Error::BufferTooShort) if read.len() < MAX_HEADER_BYTES => {}
            Err(_) => return Err(HeaderError::Invalid),
        }
    }
}

/// Logs that a connection ends before its first request.
pub(super) fn log_closed(level: Level, connection: &(impl GetSocketDigest + ?Sized), why: &dyn Display) {
    let digest = connection.get_socket_digest();
    let peer = digest.and_then(|digest| digest.peer_addr().map(ToString::to_string)).unwrap_or_default();
    log::log!(target: "turnpike", level, "closed a connection from {peer} before its request: {why}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tokio::io::AsyncWriteExt;

    const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

    /// A header of version 2: command and family, then what follows the length.
    fn v2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(body.len()).unwrap().to_be_bytes();
        [V2, &[command, family], &length, body].concat()
    }

    /// 192.0.2.9:4711 to 192.0.2.1:443.
    const IPV4: &[u8] = &[192, 0, 2, 9, 192, 0, 2, 1, 0x12, 0x67, 1, 0xbb];

    /// What is read of a connection that brings these parts and then ends.
    async fn read(parts: &[&[u8]]) -> Result<Header, HeaderError> {
        // As small as a connection's first segment may be.
        let (mut near, mut far) = tokio::io::duplex(7);
        let parts: Vec<Vec<u8>> = parts.iter().map(|part| part.to_vec()).collect();
        let writing = tokio::spawn(async move {
            for part in parts {
                if far.write_all(&part).await.is_err() {
                    break;
                }
            }
        });
        let header = read_header(&mut near).await;
        drop(near);
        writing.await.unwrap();
        header
    }

    async fn client(bytes: &[u8]) -> Option<String> {
        let whole = [bytes, b"GET / HTTP/1.1\r\n"].concat();
        let header = read(&[&whole]).await.unwrap();
        assert!(b"GET / HTTP/1.1\r\n".starts_with(&header.rest), "{:?}", header.rest);
        header.client.map(|client| client.to_string())
    }

    #[tokio::test]
    async fn both_versions_name_the_client() {
        let named = |text: &str| Some(text.to_owned());
        let v1 = b"PROXY TCP4 192.0.2.9 192.0.2.1 4711 443\r\n";
        assert_eq!(client(v1).await, named("192.0.2.9:4711"));
        assert_eq!(client(b"PROXY TCP6 2001:db8::9 ::1 4711 443\r\n").await, named("[2001:db8::9]:4711"));
        assert_eq!(client(b"PROXY TCP6 ::ffff:192.0.2.9 ::1 4711 443\r\n").await, named("192.0.2.9:4711"));
        assert_eq!(client(b"PROXY UNKNOWN\r\n").await, None);
        assert_eq!(client(b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n").await, None);
        assert_eq!(client(&v2(0x21, 0x11, IPV4)).await, named("192.0.2.9:4711"));
        // With a field behind the addresses, of a balancer that ended TLS.
        let fields = [IPV4, &[0x20, 0, 5, 1, 0, 0, 0, 0], &[0x02, 0, 3], b"a.b"].concat();
        assert_eq!(client(&v2(0x21, 0x11, &fields)).await, named("192.0.2.9:4711"));
        let ipv6 = [&[0x20, 1, 0xd, 0xb8][..], &[0; 11], &[9], &[0; 15], &[1, 0x12, 0x67, 1, 0xbb]].concat();
        assert_eq!(client(&v2(0x21, 0x21, &ipv6)).await, named("[2001:db8::9]:4711"));
        // A balancer's own connection, such as a health check; a Unix socket.
        assert_eq!(client(&v2(0x20, 0, b"")).await, None);
        assert_eq!(client(&v2(0x20, 0x11, IPV4)).await, None);
        assert_eq!(client(&v2(0x21, 0x31, &[0; 216])).await, None);
    }

    #[tokio::test]
    async fn what_is_no_header_closes_the_connection() {
        let long_v1 = [&b"PROXY TCP4 "[..], &[b'1'; 200]].concat();
        let long_v2 = [&v2(0x21, 0x11, IPV4)[..14], &[0xff, 0xff], &[0; 5000]].concat();
        let refused: [(&[u8], HeaderError); 9] = [
            (b"", HeaderError::Closed),
            (b"PROXY TCP4 192.0.2.9", HeaderError::Closed),
            (&V2[..8], HeaderError::Closed),
            (b"GET / HTTP/1.1\r\nhost: a\r\n\r\n", HeaderError::Invalid),
            (b"POST /v1/chat/completions HTTP/1.1\r\n", HeaderError::Invalid),
            (b"\x16\x03\x01\x02\x00\x01\x00", HeaderError::Invalid),
            (b"PROXY TCP4 192.0.2.999 192.0.2.1 4711 443\r\n", HeaderError::Invalid),
            (&long_v1, HeaderError::Invalid),
            (&long_v2, HeaderError::Invalid),
        ];
        for (bytes, why) in refused {
            assert_eq!(read(&[bytes]).await, Err(why), "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, begins in 0..3usize) {
            let start: &[u8] = [&b""[..], b"PROXY ", V2][begins];
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let whole = [start, &bytes].concat();
            let _ = runtime.block_on(async { read_header(&mut &whole[..]).await });
        }
    }
}
