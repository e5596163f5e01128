//! Answers an authority that verifies a name by TLS-ALPN-01 (RFC 8737): a connection that offers the protocol `acme-tls/1` alone gets
//! the certificate that proves the name, in the place of the listener's, and is then closed.
//!
//! Looked at before TLS begins, and only while a proof is waited for: otherwise a connection costs one read of a counter. Pingora has no
//! list of protocols of one's own, so its TLS never sees such a connection. Not here: when there is something to prove, and the
//! certificates (`main`).

use super::proxy_protocol::ProxyProtocol;
use async_trait::async_trait;
use bytes::BytesMut;
use parking_lot::Mutex;
use pingora_core::listeners::PreTlsProcess;
use pingora_core::protocols::l4::stream::Stream as Socket;
use pingora_core::{Error as PingoraError, ErrorType};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::server::{Acceptor, ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// The protocol's name in TLS.
const ACME_TLS: &[u8] = b"acme-tls/1";
/// The most names that are proved at a time.
const MAX_NAMES: usize = 1_000;
/// The longest first message of a client that is looked at. Those of browsers, with keys for after quantum computers, have some 2 KiB.
const MAX_HELLO_BYTES: usize = 16 << 10;
/// For the first message, and for the handshake after it.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// The certificates that prove names now, by name.
#[derive(Debug, Default)]
pub struct ChallengeCertificates {
    by_name: Mutex<HashMap<String, Arc<CertifiedKey>>>,
    /// Their number, read without the lock.
    count: AtomicUsize,
}

impl ChallengeCertificates {
    /// Answers for `name` from now on. `false`: too many are answered already.
    pub fn insert(&self, name: &str, certificate: Arc<CertifiedKey>) -> bool {
        let mut by_name = self.by_name.lock();
        let has_room = by_name.len() < MAX_NAMES;
        if has_room {
            by_name.insert(name.to_owned(), certificate);
            self.count.store(by_name.len(), Ordering::Release);
        }
        has_room
    }

    pub fn remove(&self, name: &str) {
        let mut by_name = self.by_name.lock();
        by_name.remove(name);
        self.count.store(by_name.len(), Ordering::Release);
    }

    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }
}

impl ResolvesServerCert for ChallengeCertificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.by_name.lock().get(&hello.server_name()?.to_ascii_lowercase()).map(Arc::clone)
    }
}

/// What a service with such listeners does with a connection before TLS.
pub struct ChallengeResponder {
    /// Read first, where the listeners have it.
    header: Option<Arc<ProxyProtocol>>,
    certificates: Arc<ChallengeCertificates>,
    config: Arc<ServerConfig>,
}

impl ChallengeResponder {
    /// # Errors
    /// TLS cannot be set up.
    pub fn new(
        header: Option<Arc<ProxyProtocol>>,
        certificates: Arc<ChallengeCertificates>,
    ) -> Result<Self, rustls::Error> {
        let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth();
        let mut config = builder.with_cert_resolver(Arc::clone(&certificates) as _);
        config.alpn_protocols = vec![ACME_TLS.to_vec()];
        Ok(Self { header, certificates, config: Arc::new(config) })
    }

    /// Answers where it is the authority that connects. `true`: it was, and the connection is of no more use.
    async fn answer(&self, socket: &mut Socket) -> bool {
        let mut read = BytesMut::new();
        let is_authority = matches!(timeout(HELLO_TIMEOUT, is_challenge(socket, &mut read)).await, Ok(true));
        // Whoever comes next reads all of it again.
        socket.rewind(&read);
        if !is_authority {
            return false;
        }
        let handshake = async {
            let mut stream = TlsAcceptor::from(Arc::clone(&self.config)).accept(&mut *socket).await?;
            stream.shutdown().await
        };
        let outcome = timeout(HELLO_TIMEOUT, handshake).await.map_err(io::Error::from).flatten();
        if let Err(why) = outcome {
            log::info!(target: "turnpike", "a connection of a certificate authority (acme-tls/1) ended early: {why}");
        }
        true
    }
}

#[async_trait]
impl PreTlsProcess for ChallengeResponder {
    async fn process(&self, socket: &mut Socket) -> pingora_core::Result<()> {
        if let Some(header) = &self.header {
            header.process(socket).await?;
        }
        if !self.certificates.is_empty() && self.answer(socket).await {
            let why = "answered a certificate authority: nothing is served on this connection";
            return Err(PingoraError::explain(ErrorType::HandshakeError, why));
        }
        Ok(())
    }
}

/// Reads the client's first message into `read` and looks at the protocols that it offers.
async fn is_challenge(from: &mut (impl AsyncRead + Unpin), read: &mut BytesMut) -> bool {
    let mut acceptor = Acceptor::default();
    while read.len() < MAX_HELLO_BYTES {
        let before = read.len();
        if from.read_buf(read).await.map_or(0, |count| count) == 0 {
            return false;
        }
        let mut new = read.get(before..).unwrap_or_default();
        while !new.is_empty() {
            if acceptor.read_tls(&mut new).is_err() {
                return false;
            }
            match acceptor.accept() {
                Ok(Some(accepted)) => return offers_challenge(&accepted.client_hello()),
                Ok(None) => {}
                Err(_) => return false,
            }
        }
    }
    false
}

fn offers_challenge(hello: &ClientHello<'_>) -> bool {
    let Some(mut offered) = hello.alpn() else { return false };
    offered.next() == Some(ACME_TLS) && offered.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rcgen::{CertificateParams, KeyPair};
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, ClientConnection, RootCertStore};

    /// The first message of a client that offers these protocols.
    fn hello(protocols: &[&[u8]]) -> Vec<u8> {
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let mut config = builder
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let name = ServerName::try_from("a.example").unwrap();
        let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut out = Vec::new();
        client.write_tls(&mut out).unwrap();
        out
    }

    async fn looked_at(bytes: &[u8], most_at_once: usize) -> (bool, Vec<u8>) {
        let (mut near, mut far) = tokio::io::duplex(most_at_once);
        let bytes = bytes.to_vec();
        let writing = tokio::spawn(async move {
            let _ = far.write_all(&bytes).await;
        });
        let mut read = BytesMut::new();
        let is_authority = is_challenge(&mut near, &mut read).await;
        drop(near);
        writing.await.unwrap();
        (is_authority, read.to_vec())
    }

    #[tokio::test]
    async fn only_a_client_that_offers_the_protocol_alone_is_an_authority() {
        let offers: [(&[&[u8]], bool); 5] = [
            (&[ACME_TLS], true),
            (&[], false),
            (&[b"h2", b"http/1.1"], false),
            (&[ACME_TLS, b"h2"], false),
            (&[b"h2", ACME_TLS], false),
        ];
        for (protocols, expected) in offers {
            let message = hello(protocols);
            for most_at_once in [1, 7, 4096] {
                let (is_authority, read) = looked_at(&message, most_at_once).await;
                assert_eq!(is_authority, expected, "{protocols:?}");
                assert!(message.starts_with(&read), "what was read is what was sent");
            }
        }
        let mut endless = vec![0x16, 3, 1, 0x40, 0];
        endless.resize(MAX_HELLO_BYTES * 2, 0);
        for bytes in [&b""[..], b"GET / HTTP/1.1\r\n\r\n", &hello(&[ACME_TLS])[..40], &endless] {
            assert!(!looked_at(bytes, 4096).await.0);
        }
    }

    #[test]
    fn a_name_is_answered_for_until_it_is_removed() {
        let certificates = ChallengeCertificates::default();
        let key = KeyPair::generate().unwrap();
        let made = CertificateParams::new(["a.example".to_owned()]).unwrap().self_signed(&key).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let pair = CertifiedKey::from_der(vec![made.der().clone()], key, &default_provider()).unwrap();
        let pair = Arc::new(pair);
        assert!(certificates.is_empty());
        assert!(certificates.insert("a.example", Arc::clone(&pair)) && !certificates.is_empty());
        certificates.remove("b.example");
        assert!(!certificates.is_empty());
        certificates.remove("a.example");
        assert!(certificates.is_empty());
        for number in 0..MAX_NAMES {
            assert!(certificates.insert(&number.to_string(), Arc::clone(&pair)));
        }
        assert!(!certificates.insert("one-more", pair));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, record: bool) {
            let start: &[u8] = if record { &[0x16, 3, 1] } else { &[] };
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let whole = [start, &bytes].concat();
            let mut read = BytesMut::new();
            let _ = runtime.block_on(is_challenge(&mut &whole[..], &mut read));
            prop_assert!(whole.starts_with(&read));
        }
    }
}
