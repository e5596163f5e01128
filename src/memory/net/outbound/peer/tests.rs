//! That connections are kept apart: tested on the pool keys and on real TLS connections.

use super::*;
use pingora::http::RequestHeader;
use pingora_core::connectors::ConnectorOptions;
use pingora_core::connectors::http::Connector;
use pingora_core::protocols::http::client::HttpSession;
use pingora_core::upstreams::peer::Peer;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::io::{Read, Write};
use std::net::TcpListener;
use tokio::sync::mpsc;

const HOST: &str = "upstream.example";

/// A certificate authority: its PEM, and a server certificate it signed with the key.
struct Authority {
    pem: String,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Authority {
    fn new() -> Self {
        let ca_key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = params.self_signed(&ca_key).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![HOST.to_owned()]).unwrap();
        let certificate = certificate.signed_by(&key, &Issuer::new(params, ca_key)).unwrap();
        Self {
            pem: ca.pem(),
            certificate: certificate.der().clone(),
            key: PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        }
    }

    fn ca(&self) -> Arc<TrustRoots> {
        Arc::new(TrustRoots::from_pem(self.pem.as_bytes()).unwrap())
    }

    fn serve(&self) -> SocketAddr {
        self.serve_with_end_events().0
    }

    /// Serves `200 ok` over TLS with keep-alive, one thread per connection. The receiver gets a message for each
    /// connection that ends.
    fn serve_with_end_events(&self) -> (SocketAddr, mpsc::UnboundedReceiver<()>) {
        let (end_sender, ended) = mpsc::unbounded_channel();
        let _ = rustls::crypto::ring::default_provider().install_default();
        let config = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], self.key.clone_key())
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let mut socket = socket.unwrap();
                let mut tls = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
                let end_sender = end_sender.clone();
                std::thread::spawn(move || {
                    let mut stream = rustls::Stream::new(&mut tls, &mut socket);
                    let mut received = Vec::new();
                    let mut chunk = [0; 1024];
                    while let Ok(read @ 1..) = stream.read(&mut chunk) {
                        received.extend_from_slice(&chunk[..read]);
                        if received.ends_with(b"\r\n\r\n") {
                            received.clear();
                            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
                        }
                    }
                    // Fails when the test is over.
                    let _ = end_sender.send(());
                });
            }
        });
        (address, ended)
    }
}

/// Sends one request. Returns whether a pooled connection was used.
async fn request(connector: &Connector, peer: &HttpPeer) -> Result<bool, String> {
    let (session, reused) = connector.get_http_session(peer).await.map_err(|error| error.to_string())?;
    let HttpSession::H1(mut session) = session else { panic!("HTTP/1.1 expected") };
    let mut header = RequestHeader::build("GET", b"/", None).unwrap();
    header.insert_header("Host", HOST).unwrap();
    session.write_request_header(Box::new(header)).await.unwrap();
    session.read_response().await.map_err(|error| error.to_string())?;
    session.respect_keepalive();
    while session.read_body_bytes().await.unwrap().is_some() {}
    connector.release_http_session(HttpSession::H1(session), peer, peer.idle_timeout()).await;
    Ok(reused)
}

fn origin(url: &str, trusted: bool) -> Origin {
    Origin::parse(url, trusted).unwrap()
}

/// A connector that by default trusts only `authority`, whatever this machine trusts.
fn connector(authority: &Authority) -> (Connector, tempfile::NamedTempFile) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(authority.pem.as_bytes()).unwrap();
    let mut options = ConnectorOptions::new(16);
    options.ca_file = Some(file.path().to_str().unwrap().to_owned());
    (Connector::new(Some(options)), file)
}

#[tokio::test]
async fn a_connection_verified_with_one_ca_is_never_used_for_another() {
    let one = Authority::new();
    let two = Authority::new();
    let system = Authority::new();
    let first = one.serve();
    let second = two.serve();
    let (connector, _file) = connector(&system);
    let url = format!("https://{HOST}:{}", first.port());
    let peer_options = |ca: Option<Arc<TrustRoots>>| PeerOptions { ca, ..PeerOptions::default() };
    let with = |address: SocketAddr, ca| peer(&origin(&url, true), address, &peer_options(ca));

    assert_eq!(request(&connector, &with(first, Some(one.ca()))).await, Ok(false));
    assert_eq!(request(&connector, &with(first, Some(one.ca()))).await, Ok(true), "the same CA shares");
    // The same address and name with another CA or with the system's must open a new connection and fail.
    assert!(request(&connector, &with(first, Some(two.ca()))).await.is_err());
    assert!(request(&connector, &with(first, None)).await.is_err());
    assert_eq!(request(&connector, &with(first, Some(one.ca()))).await, Ok(true), "its own is still there");

    assert_eq!(request(&connector, &with(second, Some(two.ca()))).await, Ok(false));
    assert!(request(&connector, &with(second, Some(one.ca()))).await.is_err());
}

#[tokio::test]
async fn without_the_group_key_pingora_would_reuse_it() {
    // Shows that the group key is needed: when Pingora includes the CA in its pool key, this test fails and the
    // group key may go.
    let one = Authority::new();
    let system = Authority::new();
    let address = one.serve();
    let (connector, _file) = connector(&system);
    let origin = origin(&format!("https://{HOST}:{}", address.port()), true);
    let mut verified = peer(&origin, address, &PeerOptions { ca: Some(one.ca()), ..PeerOptions::default() });
    let mut unverified = peer(&origin, address, &PeerOptions::default());
    verified.group_key = 0;
    unverified.group_key = 0;
    assert_eq!(request(&connector, &verified).await, Ok(false));
    assert_eq!(request(&connector, &unverified).await, Ok(true));
}

#[tokio::test]
async fn the_certificate_must_be_for_the_host_that_was_named() {
    let one = Authority::new();
    let address = one.serve();
    let (connector, _file) = connector(&one);
    let named = |host: &str| origin(&format!("https://{host}:{}", address.port()), true);
    assert!(request(&connector, &peer(&named(HOST), address, &PeerOptions::default())).await.is_ok());
    for host in ["other.example", "127.0.0.1"] {
        let peer = peer(&named(host), address, &PeerOptions::default());
        assert!(request(&connector, &peer).await.is_err(), "{host}");
    }
}

#[tokio::test]
async fn a_peer_without_idle_time_keeps_no_connection() {
    let one = Authority::new();
    let (address, mut ended) = one.serve_with_end_events();
    let (connector, _file) = connector(&one);
    let origin = origin(&format!("https://{HOST}:{}", address.port()), false);
    let peer =
        peer(&origin, address, &PeerOptions { idle_timeout: Duration::ZERO, ..PeerOptions::default() });
    for _ in 0..3 {
        assert_eq!(request(&connector, &peer).await, Ok(false));
        let ended = tokio::time::timeout(Duration::from_secs(5), ended.recv()).await;
        assert_eq!(ended, Ok(Some(())), "the connection is closed, not kept");
    }
}

#[test]
fn everything_that_must_keep_connections_apart_is_in_the_key() {
    let address = SocketAddr::from(([1, 1, 1, 1], 443));
    let one = Authority::new().ca();
    let two = Authority::new().ca();
    let api = origin("https://api.example.com", true);
    let key = |origin: &Origin, peer_options: PeerOptions| peer(origin, address, &peer_options).reuse_hash();
    let base = || PeerOptions::default();
    let keys = [
        key(&api, base()),
        key(&api, PeerOptions { protocol: Protocol::H1, ..base() }),
        key(&api, PeerOptions { tenant: 7, ..base() }),
        key(&api, PeerOptions { ca: Some(Arc::clone(&one)), ..base() }),
        key(&api, PeerOptions { ca: Some(two), ..base() }),
        key(&origin("https://api.example.com", false), base()),
        key(&origin("https://api2.example.com", true), base()),
        key(&origin("http://api.example.com:443", true), base()),
        key(&origin("http://api2.example.com:443", true), base()),
    ];
    let distinct: std::collections::HashSet<u64> = keys.into_iter().collect();
    assert_eq!(distinct.len(), keys.len());
    // Timeouts are not part of the key.
    assert_eq!(keys[0], key(&api, PeerOptions { read_timeout: Some(Duration::from_secs(1)), ..base() }));
}

#[test]
fn plain_connections_and_upgrades_speak_http_1() {
    let address = SocketAddr::from(([1, 1, 1, 1], 80));
    let plain = peer(&origin("http://api.example.com", true), address, &PeerOptions::default());
    assert_eq!((plain.options.alpn.get_max_http_version(), plain.is_tls()), (1, false));
    let peer_options = PeerOptions { protocol: Protocol::H1, ..PeerOptions::default() };
    let upgrade = peer(&origin("https://api.example.com", true), address, &peer_options);
    assert_eq!(upgrade.options.alpn.get_max_http_version(), 1);
    let tls = peer(&origin("https://[2606:4700::1]", true), address, &PeerOptions::default());
    assert_eq!((tls.options.alpn.get_max_http_version(), tls.options.max_h2_streams), (2, 100));
    assert_eq!(tls.sni, "2606:4700::1");
}

#[test]
fn a_ca_file_that_is_none_is_refused() {
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for pem in ["", "hello", broken, "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n"] {
        assert!(TrustRoots::from_pem(pem.as_bytes()).is_err(), "{pem}");
    }
    let two = format!("{}{}", Authority::new().pem, Authority::new().pem);
    assert_eq!(TrustRoots::from_pem(two.as_bytes()).unwrap().certificates.len(), 2);
}
