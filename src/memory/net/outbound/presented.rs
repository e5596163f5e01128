//! The certificates that the gateway presents to providers with mutual TLS, read from files.
//!
//! Read with the settings, and kept for as long as they are in force. Which provider has one is in its policies.

use pingora_core::utils::tls::CertKey;
use ring::digest::{SHA256, digest};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::fmt::{self, Display};
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::Arc;
use words::config::policies::CertificateFiles;
use words::settings::Settings;

/// A certificate with its key.
#[derive(Clone)]
pub struct PresentedCertificate {
    pair: Arc<CertKey>,
    digest: [u8; 32],
}

impl PresentedCertificate {
    /// Reads the files.
    ///
    /// # Errors
    /// Which member of the settings is wrong (`cert` or `key`), and why.
    pub fn read(files: &CertificateFiles) -> Result<Self, (&'static str, String)> {
        let wrong = |member, path: &Path, why: &dyn Display| (member, format!("{}: {why}", path.display()));
        let chain = CertificateDer::pem_file_iter(&files.cert)
            .and_then(|chain| chain.collect::<Result<Vec<_>, _>>())
            .map_err(|why| wrong("cert", &files.cert, &why))?;
        let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|why| wrong("key", &files.key, &why))?;
        let Some(leaf) = chain.first() else {
            return Err(wrong("cert", &files.cert, &"holds no certificate"));
        };
        let digest = digest(&SHA256, leaf).as_ref().try_into().unwrap_or_default();
        let ders: Vec<Vec<u8>> = chain.iter().map(|der| der.to_vec()).collect();
        let secret = key.secret_der().to_vec();
        // Pingora looks at the bytes alone, and panics where it does not find what kind of key they are.
        PrivateKeyDer::try_from(secret.as_slice()).map_err(|why| wrong("key", &files.key, &why))?;
        let provider = rustls::crypto::ring::default_provider();
        CertifiedKey::from_der(chain, key, &provider).map_err(|why| {
            wrong("cert", &files.cert, &format!("does not go with {}: {why}", files.key.display()))
        })?;
        // Pingora's parser is stricter than rustls and panics on a certificate that it cannot read.
        let pair = std::panic::catch_unwind(|| CertKey::new(ders, secret))
            .map_err(|_| wrong("cert", &files.cert, &"has a certificate that Pingora cannot read"))?;
        Ok(Self { pair: Arc::new(pair), digest })
    }

    /// As a peer takes it.
    pub(super) fn pair(&self) -> &Arc<CertKey> {
        &self.pair
    }
}

impl fmt::Debug for PresentedCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PresentedCertificate(***)")
    }
}

impl PartialEq for PresentedCertificate {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for PresentedCertificate {}

impl Hash for PresentedCertificate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest.hash(state);
    }
}

/// Those of all providers of the settings, by their files.
#[derive(Debug, Clone, Default)]
pub struct PresentedCertificates(HashMap<Arc<CertificateFiles>, PresentedCertificate>);

impl PresentedCertificates {
    /// What cannot be read is left out: the check of the settings has refused it.
    pub fn new(settings: &Settings) -> Self {
        let files =
            settings.providers.values().filter_map(|stored| stored.policies.client_certificate.as_ref());
        Self(
            files
                .filter_map(|files| Some((Arc::clone(files), PresentedCertificate::read(files).ok()?)))
                .collect(),
        )
    }

    pub fn get(&self, files: &CertificateFiles) -> Option<&PresentedCertificate> {
        self.0.get(files)
    }
}
