//! What a process with such certificates has: the files of the authority, the proofs, and what is to be ordered.
//!
//! Built with the listeners (`serve`), and then run by [`AcmeRenewer`].

use super::files::AcmeFiles;
use super::http_proofs::{ProofApp, proof_app};
use super::proofs::Proofs;
use super::renewer::{AcmeRenewer, OrderedCertificate};
use crate::certificate::{Certificate, CertificateError, CertificateFiles};
use jiff::Timestamp;
use memory::net::inbound::challenge_certificates::ChallengeCertificates;
use memory::state::Shared;
use std::path::Path;
use std::sync::Arc;
use words::settings::{AcmeChallenge, AcmeSettings, CertificateSource, ListenerTls, Settings};

/// The certificates of one process that an authority issues.
pub struct Acme {
    settings: AcmeSettings,
    is_used: bool,
    files: AcmeFiles,
    proofs: Proofs,
    ordered: Vec<OrderedCertificate>,
}

/// The files of a listener, wherever its certificate is from.
pub fn files_of(tls: &ListenerTls, issued: &AcmeFiles) -> CertificateFiles {
    let clients = tls.clients.clone();
    match &tls.certificate {
        CertificateSource::Files { cert, key } => {
            CertificateFiles { cert: cert.clone(), key: key.clone(), clients, is_issued: false }
        }
        CertificateSource::Acme(names) => {
            let pem = issued.issued(names).pem;
            CertificateFiles { cert: pem.clone(), key: pem, clients, is_issued: true }
        }
    }
}

impl Acme {
    pub fn new(settings: &Settings, state_dir: &Path) -> Self {
        let mut acme = settings.acme.clone();
        acme.ca_file = acme.ca_file.or_else(|| settings.tls.ca_file.clone());
        Self {
            files: AcmeFiles::new(state_dir, &acme.directory),
            proofs: Proofs::new(acme.challenge),
            settings: acme,
            is_used: settings.uses_acme(),
            ordered: Vec::new(),
        }
    }

    /// The certificate of a listener, which is ordered from now on where an authority issues it.
    ///
    /// # Errors
    /// A file of the operator's cannot be used.
    pub fn certificate(&mut self, tls: &ListenerTls) -> Result<Arc<Certificate>, CertificateError> {
        let certificate = Arc::new(Certificate::load(files_of(tls, &self.files))?);
        if let CertificateSource::Acme(names) = &tls.certificate {
            self.stand_in(&certificate, names);
            let files = self.files.issued(names);
            match self.ordered.iter_mut().find(|ordered| ordered.is_in(&files)) {
                Some(ordered) => ordered.add(Arc::clone(&certificate)),
                None => self.ordered.push(OrderedCertificate::new(names, files, Arc::clone(&certificate))),
            }
        }
        Ok(certificate)
    }

    /// Where the certificate of these names is not there yet, one of an earlier set serves those that both have.
    fn stand_in(&self, certificate: &Certificate, names: &[String]) {
        if certificate.der().is_some() {
            return;
        }
        let Some(pem) = self.files.stand_in(names, Timestamp::now().as_second()) else { return };
        if let Err(why) = certificate.stand_in(&pem) {
            log::error!(target: "turnpike", "certificate for {}: no stand-in: {why}", names.join(", "));
        }
    }

    /// What listeners prove names with before TLS; `None`: they do not.
    pub fn challenges(&self) -> Option<&Arc<ChallengeCertificates>> {
        let is_such = self.is_used && self.settings.challenge == AcmeChallenge::TlsAlpn01;
        is_such.then_some(&self.proofs.certificates)
    }

    /// The app of the listener that proves names by HTTP.
    pub fn http_app(&self) -> ProofApp {
        let names = self.ordered.iter().flat_map(OrderedCertificate::names).cloned();
        let redirected = if self.settings.redirect_http { names.collect() } else { Vec::new() };
        proof_app(Arc::clone(&self.proofs.http), redirected)
    }

    /// The task that orders; `None`: there is nothing to order.
    pub fn renewer(self, shared: &Arc<Shared>) -> Option<AcmeRenewer> {
        let Self { settings, files, proofs, ordered, .. } = self;
        let shared = Arc::clone(shared);
        (!ordered.is_empty()).then_some(AcmeRenewer {
            shared,
            settings,
            files,
            proofs,
            certificates: ordered,
        })
    }
}
