//! A listener's certificate, and by which it judges those of clients, replaced without a restart when their files change.
//!
//! Not a certificate manager: it reads PEM files. What is invalid leaves the previous ones in use, all of them. Where an authority
//! issues the certificate, `acme` writes the file, and there may be none yet: handshakes fail then.

use super::client_verifier::ClientVerifier;
use arc_swap::{ArcSwapOption, Guard};
use parking_lot::Mutex;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use words::settings::ClientAuthority;

/// The files of a listener.
#[derive(Debug, Clone)]
pub struct CertificateFiles {
    pub cert: PathBuf,
    pub key: PathBuf,
    /// Which certificates clients may present; `None`: none is wanted.
    pub clients: Option<ClientAuthority>,
    /// An authority issues it: there may be none yet.
    pub is_issued: bool,
}

/// The newest valid pair of a listener's certificate files.
#[derive(Debug)]
pub struct Certificate {
    files: CertificateFiles,
    current: ArcSwapOption<CertifiedKey>,
    clients: Option<Arc<ClientVerifier>>,
    read_at: Mutex<Stamp>,
}

/// How long a certificate is good, Unix seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    pub from: i64,
    pub until: i64,
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
    /// Which file cannot be used and why. One that an authority issued is then ordered anew, and none is in use until it is there.
    pub fn load(files: CertificateFiles) -> Result<Self, CertificateError> {
        let read_at = Mutex::new(stamp(&files));
        let current = match read(&files) {
            Ok(pair) => Some(Arc::new(pair)),
            Err(error) if !files.is_issued => return Err(error),
            Err(error) => {
                if files.cert.exists() {
                    log::error!(target: "turnpike", "certificate not used, and ordered anew: {error}");
                }
                None
            }
        };
        let clients = files.clients.as_ref().map(ClientVerifier::load).transpose()?.map(Arc::new);
        Ok(Self { files, current: ArcSwapOption::new(current), clients, read_at })
    }

    /// What judges the certificates of clients, where the listener wants them.
    pub fn clients(&self) -> Option<&Arc<ClientVerifier>> {
        self.clients.as_ref()
    }

    /// The file of the certificate.
    pub fn file(&self) -> &Path {
        &self.files.cert
    }

    /// The one in use, DER; `None`: there is none.
    pub fn der(&self) -> Option<CertificateDer<'static>> {
        let current: Guard<Option<Arc<CertifiedKey>>> = self.current.load();
        current.as_ref()?.cert.first().cloned()
    }

    /// How long the certificate in use is good; `None`: there is none, or it cannot be read that far.
    pub fn validity(&self) -> Option<Validity> {
        validity(&self.der()?)
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
        // Where an authority issues it, the file may be away; what is in use stays, as with any other mistake.
        let pair = match self.files.is_issued && !self.files.cert.exists() {
            true => None,
            false => Some(Arc::new(read(&self.files)?)),
        };
        if let (Some(clients), Some(authority)) = (&self.clients, &self.files.clients) {
            clients.install(ClientVerifier::read(authority)?);
        }
        if pair.is_some() {
            self.current.store(pair);
        }
        Ok(true)
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current.load_full()
    }
}

/// How long a certificate is good; `None`: it cannot be read that far.
pub fn validity(der: &[u8]) -> Option<Validity> {
    let (_, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
    let validity = certificate.validity();
    Some(Validity { from: validity.not_before.timestamp(), until: validity.not_after.timestamp() })
}

fn stamp(files: &CertificateFiles) -> Stamp {
    let written = |path: &Path| std::fs::metadata(path).and_then(|data| data.modified()).ok();
    let clients = files.clients.as_ref();
    [
        written(&files.cert),
        written(&files.key),
        clients.and_then(|clients| written(&clients.ca)),
        clients.and_then(|clients| written(clients.crl.as_ref()?)),
    ]
}

fn read(files: &CertificateFiles) -> Result<CertifiedKey, CertificateError> {
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
