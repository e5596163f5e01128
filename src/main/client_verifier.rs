//! Which certificates of clients a listener takes: those of its authorities that are not revoked, by files that may change.
//!
//! Not what a certificate is good for (`auth.client_certificates`), and not when files are read again (`certificate`).

use super::certificate::CertificateError;
use arc_swap::ArcSwap;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use words::settings::ClientAuthority;

/// The newest valid state of the files of authorities and revocations.
#[derive(Debug)]
pub struct ClientVerifier {
    is_required: bool,
    current: ArcSwap<Verifier>,
}

/// Sized, as `ArcSwap` needs it.
#[derive(Debug)]
struct Verifier(Arc<dyn ClientCertVerifier>);

/// A verifier that was read and is not in use yet.
#[derive(Debug)]
pub struct ReadVerifier(Arc<Verifier>);

impl ClientVerifier {
    /// # Errors
    /// Which file cannot be used and why.
    pub fn load(authority: &ClientAuthority) -> Result<Self, CertificateError> {
        let ReadVerifier(current) = Self::read(authority)?;
        Ok(Self { is_required: authority.is_required, current: ArcSwap::new(current) })
    }

    /// Reads the files.
    ///
    /// # Errors
    /// As [`ClientVerifier::load`].
    pub fn read(authority: &ClientAuthority) -> Result<ReadVerifier, CertificateError> {
        let wrong = |key, path: &Path, why: &dyn Display| CertificateError {
            key,
            why: format!("{}: {why}", path.display()),
        };
        let path = &authority.ca;
        let mut roots = RootCertStore::empty();
        let read = CertificateDer::pem_file_iter(path).and_then(|all| all.collect::<Result<Vec<_>, _>>());
        for certificate in read.map_err(|why| wrong("client_ca", path, &why))? {
            roots.add(certificate).map_err(|why| wrong("client_ca", path, &why))?;
        }
        if roots.is_empty() {
            return Err(wrong("client_ca", path, &"holds no certificate"));
        }
        let provider = Arc::new(default_provider());
        let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        if let Some(path) = &authority.crl {
            let read = CertificateRevocationListDer::pem_file_iter(path)
                .and_then(|all| all.collect::<Result<Vec<_>, _>>())
                .map_err(|why| wrong("client_crl", path, &why))?;
            if read.is_empty() {
                return Err(wrong("client_crl", path, &"holds no revocation list"));
            }
            builder = builder.with_crls(read).only_check_end_entity_revocation();
        }
        if !authority.is_required {
            builder = builder.allow_unauthenticated();
        }
        let blamed = authority.crl.as_ref().map_or(("client_ca", path), |crl| ("client_crl", crl));
        let built = builder.build().map_err(|why| wrong(blamed.0, blamed.1, &why))?;
        Ok(ReadVerifier(Arc::new(Verifier(built))))
    }

    /// Puts what was read in force, for the next handshakes.
    pub fn install(&self, read: ReadVerifier) {
        self.current.store(read.0);
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        self.is_required
    }

    /// None: they may change. Clients then offer the certificate that they have.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.current.load().0.verify_client_cert(end_entity, intermediates, now);
        // The client is told by an alert, which says little.
        if let Err(why) = &verified {
            log::info!(target: "turnpike", "refused a client's certificate: {why}");
        }
        verified
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.current.load().0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.current.load().0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.current.load().0.supported_verify_schemes()
    }
}
