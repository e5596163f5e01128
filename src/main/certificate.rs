//! A listener's certificate, and by which it judges those of clients, replaced without a restart when their files change.
//!
//! Not a certificate manager: it reads PEM files. What is invalid leaves the previous ones in use, all of them.

use super::client_verifier::ClientVerifier;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::fmt::{self, Display};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;
use words::settings::TlsFiles;

/// The newest valid pair of a listener's certificate files.
#[derive(Debug)]
pub struct Certificate {
    files: TlsFiles,
    current: ArcSwap<CertifiedKey>,
    clients: Option<Arc<ClientVerifier>>,
    read_at: Mutex<Stamp>,
}

/// Which of the files cannot be used.
#[derive(Debug)]
pub struct CertificateError {
    /// Its key in the settings: `cert`, `key`, `client_ca` or `client_crl`.
    pub key: &'static str,
    /// The file and the reason.
    pub why: String,
}

impl Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

/// When the files were last written.
type Stamp = [Option<SystemTime>; 4];

impl Certificate {
    /// Reads the files.
    ///
    /// # Errors
    /// Which file cannot be used and why.
    pub fn load(files: &TlsFiles) -> Result<Self, CertificateError> {
        let stamp = stamp(files);
        let current = ArcSwap::from_pointee(read(files)?);
        let clients = files.clients.as_ref().map(ClientVerifier::load).transpose()?.map(Arc::new);
        Ok(Self { files: files.clone(), current, clients, read_at: Mutex::new(stamp) })
    }

    /// What judges the certificates of clients, where the listener wants them.
    pub fn clients(&self) -> Option<&Arc<ClientVerifier>> {
        self.clients.as_ref()
    }

    /// The file of the certificate.
    pub fn file(&self) -> &Path {
        &self.files.cert
    }

    /// When the certificate in use expires, Unix seconds; `None`: it cannot be read that far.
    pub fn expires(&self) -> Option<i64> {
        let current = self.current.load();
        let (_, certificate) = x509_parser::parse_x509_certificate(current.cert.first()?).ok()?;
        Some(certificate.validity().not_after.timestamp())
    }

    /// Reads all again when a file changed. Returns whether one did.
    ///
    /// # Errors
    /// As [`Certificate::load`]; what is in use stays.
    pub fn reload(&self) -> Result<bool, CertificateError> {
        let stamp = stamp(&self.files);
        {
            let mut read_at = self.read_at.lock();
            if *read_at == stamp {
                return Ok(false);
            }
            *read_at = stamp;
        }
        let pair = read(&self.files)?;
        if let (Some(clients), Some(authority)) = (&self.clients, &self.files.clients) {
            clients.install(ClientVerifier::read(authority)?);
        }
        self.current.store(Arc::new(pair));
        Ok(true)
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

fn stamp(files: &TlsFiles) -> Stamp {
    let written = |path: &Path| std::fs::metadata(path).and_then(|data| data.modified()).ok();
    let clients = files.clients.as_ref();
    [
        written(&files.cert),
        written(&files.key),
        clients.and_then(|clients| written(&clients.ca)),
        clients.and_then(|clients| written(clients.crl.as_ref()?)),
    ]
}

fn read(files: &TlsFiles) -> Result<CertifiedKey, CertificateError> {
    let wrong = |key, path: &Path, why: &dyn Display| CertificateError {
        key,
        why: format!("{}: {why}", path.display()),
    };
    let chain = CertificateDer::pem_file_iter(&files.cert)
        .and_then(|chain| chain.collect::<Result<Vec<_>, _>>())
        .map_err(|why| wrong("cert", &files.cert, &why))?;
    if chain.is_empty() {
        return Err(wrong("cert", &files.cert, &"holds no certificate"));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|why| wrong("key", &files.key, &why))?;
    let pair = CertifiedKey::from_der(chain, key, &default_provider());
    pair.map_err(|why| {
        wrong("cert", &files.cert, &format!("does not go with {}: {why}", files.key.display()))
    })
}
