//! A listener's certificate, and by which it judges those of clients, replaced without a restart when their files change.
//!
//! Not a certificate manager: it reads PEM files. What is invalid leaves the previous ones in use, all of them. Where an authority
//! issues the certificate, `acme` writes the file, and there may be none yet: handshakes fail then, or a stand-in of `acme` is served.

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
use std::sync::atomic::{AtomicBool, Ordering};
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
    /// The one in use was issued for other names, until the own one is there.
    is_stand_in: AtomicBool,
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
        let current = ArcSwapOption::new(current);
        Ok(Self { files, current, is_stand_in: AtomicBool::new(false), clients, read_at })
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

    /// Whether the one in use is a stand-in.
    pub fn is_stand_in(&self) -> bool {
        self.is_stand_in.load(Ordering::Acquire)
    }

    /// Serves what an authority has just issued: key and chain, PEM.
    ///
    /// # Errors
    /// It cannot be used; what is in use stays.
    pub fn install(&self, pem: &str) -> Result<(), CertificateError> {
        self.serve(pem, false)
    }

    /// Serves this one, of other names, until the own one is there.
    ///
    /// # Errors
    /// It cannot be used; what is in use stays.
    pub fn stand_in(&self, pem: &str) -> Result<(), CertificateError> {
        self.serve(pem, true)
    }

    fn serve(&self, pem: &str, is_stand_in: bool) -> Result<(), CertificateError> {
        let unusable = |why: &dyn Display| CertificateError {
            key: "cert",
            why: format!("the certificate that is issued cannot be used: {why}"),
        };
        let chain = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|why| unusable(&why))?;
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|why| unusable(&why))?;
        let pair = CertifiedKey::from_der(chain, key, &default_provider()).map_err(|why| unusable(&why))?;
        self.is_stand_in.store(is_stand_in, Ordering::Release);
        self.current.store(Some(Arc::new(pair)));
        Ok(())
    }

    /// How long the certificate in use is good; `None`: there is none, or it cannot be read that far.
    pub fn validity(&self) -> Option<Validity> {
        validity(&self.der()?)
    }

    /// Reads all again when a file changed. Returns whether one did.
    ///
    /// # Errors
    /// As [`Certificate::load`]; what is in use stays. One that an authority issued is served also where the files of clients are wrong.
    pub fn reload(&self) -> Result<bool, CertificateError> {
        let stamp = stamp(&self.files);
        let before = std::mem::replace(&mut *self.read_at.lock(), stamp);
        if before == stamp {
            return Ok(false);
        }
        // Where an authority issues it, the file may be away, or older than what is in use where a newer one could not be written.
        if self.files.is_issued {
            let is_newer = before.first() != stamp.first() && self.files.cert.exists();
            let loaded = if is_newer { self.reload_issued() } else { Ok(()) };
            self.reload_clients()?;
            return loaded.map(|()| true);
        }
        let pair = read(&self.files)?;
        self.reload_clients()?;
        self.current.store(Some(Arc::new(pair)));
        Ok(true)
    }

    /// By itself: a mistake in the files of clients is no reason to serve none, or an older one.
    fn reload_issued(&self) -> Result<(), CertificateError> {
        let pair = read(&self.files)?;
        self.is_stand_in.store(false, Ordering::Release);
        self.current.store(Some(Arc::new(pair)));
        Ok(())
    }

    fn reload_clients(&self) -> Result<(), CertificateError> {
        if let (Some(clients), Some(authority)) = (&self.clients, &self.files.clients) {
            clients.install(ClientVerifier::read(authority)?);
        }
        Ok(())
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

/// Whether the certificate is for this name.
pub fn is_for(certificate: &CertificateDer<'_>, name: &str) -> bool {
    use x509_parser::extensions::GeneralName;
    let Ok((_, read)) = x509_parser::parse_x509_certificate(certificate) else { return false };
    let Ok(Some(names)) = read.subject_alternative_name() else { return false };
    let mut names = names.value.general_names.iter();
    names.any(|own| matches!(own, GeneralName::DNSName(own) if own.eq_ignore_ascii_case(name)))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn pem(name: &str) -> String {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        key.serialize_pem() + &params.self_signed(&key).unwrap().pem()
    }

    fn serves(certificate: &Certificate, name: &str) -> bool {
        certificate.der().is_some_and(|der| is_for(&der, name))
    }

    #[test]
    fn what_is_issued_is_served_whatever_else_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("issued.pem");
        let ca = folder.path().join("ca.pem");
        std::fs::write(&ca, pem("ca.x")).unwrap();
        let clients = Some(ClientAuthority { ca: ca.clone(), crl: None, is_required: true });
        let files = CertificateFiles { cert: file.clone(), key: file.clone(), clients, is_issued: true };
        let certificate = Certificate::load(files).unwrap();
        assert!(certificate.der().is_none() && !certificate.reload().unwrap());

        certificate.stand_in(&pem("before.x")).unwrap();
        assert!(serves(&certificate, "before.x") && certificate.is_stand_in());
        std::fs::remove_file(&ca).unwrap();
        std::fs::write(&file, pem("first.x")).unwrap();
        assert_eq!(certificate.reload().unwrap_err().key, "client_ca");
        assert!(serves(&certificate, "first.x") && !certificate.is_stand_in());

        // It could not be written: the older file does not come back when another one changes.
        certificate.install(&pem("second.x")).unwrap();
        std::fs::write(&ca, pem("ca.x")).unwrap();
        assert!(certificate.reload().unwrap());
        assert!(serves(&certificate, "second.x"));
        assert_eq!(certificate.install("no PEM").unwrap_err().key, "cert");
        assert!(serves(&certificate, "second.x"));
    }
}
