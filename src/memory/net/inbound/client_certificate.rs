//! The certificate with which a client has connected, if its listener wants one: the names in it, for who maps them to service keys.
//!
//! Verified after each handshake, also after one that resumes an earlier session, which TLS does not verify again: else a revoked
//! certificate would be good for as long as its session. Not here: the authorities and the revocation list (`main`), and which key a
//! name stands for (`auth`).

use async_trait::async_trait;
use pingora_core::listeners::TlsAccept;
use pingora_core::protocols::Stream;
use pingora_core::protocols::http::ServerSession;
use pingora_core::protocols::tls::TlsRef;
use rustls::pki_types::UnixTime;
use rustls::server::danger::ClientCertVerifier;
use std::any::Any;
use std::sync::Arc;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The most names that are read of a certificate.
const MAX_NAMES: usize = 64;

/// A good certificate of a client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientCertificate {
    /// DNS names, URIs and addresses of its alternative names, then its common names, in their order.
    pub names: Vec<String>,
}

impl ClientCertificate {
    /// That of the connection on which a request came.
    pub fn of(session: &ServerSession) -> Option<&Self> {
        match session.digest()?.ssl_digest.as_ref()?.extension.get::<Presented>()? {
            Presented::Good(certificate) => Some(certificate),
            Presented::Bad => None,
        }
    }

    /// Reads the names. `None`: it cannot be read.
    fn read(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let alternatives = certificate.subject_alternative_name().ok().flatten();
        let alternatives = alternatives.into_iter().flat_map(|extension| &extension.value.general_names);
        let alternatives = alternatives.filter_map(|name| match name {
            GeneralName::DNSName(name) | GeneralName::URI(name) | GeneralName::RFC822Name(name) => {
                Some(*name)
            }
            _ => None,
        });
        let common = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
        Some(Self { names: alternatives.chain(common).take(MAX_NAMES).map(str::to_owned).collect() })
    }
}

/// What a client has presented, in the digest of its connection. Absent where it has presented nothing.
#[derive(Debug)]
enum Presented {
    Good(ClientCertificate),
    /// It was good in an earlier session of which this one is the continuation.
    Bad,
}

/// Verifies what a client has presented, by the authorities and the revocation list of that time.
#[derive(Debug)]
pub struct CertificateCheck(pub Arc<dyn ClientCertVerifier>);

#[async_trait]
impl TlsAccept for CertificateCheck {
    async fn handshake_complete_callback(&self, tls: &TlsRef) -> Option<Arc<dyn Any + Send + Sync>> {
        let (end_entity, intermediates) = tls.peer_cert_chain_der()?.split_first()?;
        let verified = self.0.verify_client_cert(end_entity, intermediates, UnixTime::now());
        let read = verified.ok().and_then(|_| ClientCertificate::read(end_entity));
        Some(Arc::new(read.map_or(Presented::Bad, Presented::Good)))
    }
}

/// Whether a connection has a certificate that is not good any more.
pub(super) fn is_refused(stream: &Stream) -> bool {
    let digest = stream.get_ssl_digest();
    matches!(digest.as_ref().and_then(|digest| digest.extension.get()), Some(Presented::Bad))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    #[test]
    fn names_are_the_alternative_ones_and_then_the_common_one() {
        let mut params = CertificateParams::new(["a.example".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "team-a");
        params.distinguished_name.push(DnType::OrganizationName, "not a name");
        params.subject_alt_names.push(SanType::URI("spiffe://example/a".try_into().unwrap()));
        params.subject_alt_names.push(SanType::Rfc822Name("a@example.com".try_into().unwrap()));
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let read = ClientCertificate::read(certificate.der()).unwrap();
        assert_eq!(read.names, ["a.example", "spiffe://example/a", "a@example.com", "team-a"]);
        assert_eq!(ClientCertificate::read(b"no certificate"), None);
    }
}
