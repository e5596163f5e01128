//! What proves at this moment that a name leads here: certificates for TLS-ALPN-01, texts for HTTP-01. Gone when the order ends.
//!
//! Not how connections are answered: `memory::net::inbound::challenge_certificates` and `http_proofs`.

use super::http_proofs::HttpProofs;
use instant_acme::{ChallengeType, KeyAuthorization};
use memory::net::inbound::challenge_certificates::ChallengeCertificates;
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::CertifiedKey;
use std::sync::Arc;
use words::settings::AcmeChallenge;

/// The proofs of all orders of the process.
#[derive(Debug, Clone)]
pub struct Proofs {
    pub challenge: AcmeChallenge,
    pub certificates: Arc<ChallengeCertificates>,
    pub http: Arc<HttpProofs>,
}

/// A proof, until it is dropped.
#[derive(Debug)]
pub struct Proof {
    proofs: Proofs,
    /// The name, or the token.
    key: String,
}

impl Proofs {
    pub fn new(challenge: AcmeChallenge) -> Self {
        Self { challenge, certificates: Arc::default(), http: Arc::default() }
    }

    pub const fn kind(&self) -> ChallengeType {
        match self.challenge {
            AcmeChallenge::TlsAlpn01 => ChallengeType::TlsAlpn01,
            AcmeChallenge::Http01 => ChallengeType::Http01,
        }
    }

    /// Proves `name` from now on.
    ///
    /// # Errors
    /// The certificate cannot be made, or there are too many proofs.
    pub fn give(&self, name: &str, token: &str, text: &KeyAuthorization) -> Result<Proof, String> {
        let has_room = match self.challenge {
            AcmeChallenge::TlsAlpn01 => {
                let certificate = challenge_certificate(name, text.digest().as_ref())?;
                self.certificates.insert(name, Arc::new(certificate))
            }
            AcmeChallenge::Http01 => self.http.insert(token, text.as_str()),
        };
        let key = match self.challenge {
            AcmeChallenge::TlsAlpn01 => name,
            AcmeChallenge::Http01 => token,
        };
        let proof = Proof { proofs: self.clone(), key: key.to_owned() };
        if has_room { Ok(proof) } else { Err("too many names are proved at a time".to_owned()) }
    }
}

impl Drop for Proof {
    fn drop(&mut self) {
        match self.proofs.challenge {
            AcmeChallenge::TlsAlpn01 => self.proofs.certificates.remove(&self.key),
            AcmeChallenge::Http01 => self.proofs.http.remove(&self.key),
        }
    }
}

/// The certificate of RFC 8737: for the name alone, with the digest in an extension of its own.
fn challenge_certificate(name: &str, digest: &[u8]) -> Result<CertifiedKey, String> {
    let wrong = |why: &dyn std::fmt::Display| format!("the certificate that proves {name}: {why}");
    let mut params = CertificateParams::new([name.to_owned()]).map_err(|why| wrong(&why))?;
    params.custom_extensions.push(CustomExtension::new_acme_identifier(digest));
    let key = KeyPair::generate().map_err(|why| wrong(&why))?;
    let certificate = params.self_signed(&key).map_err(|why| wrong(&why))?;
    let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(|why| wrong(&why))?;
    // Not checked against each other: rustls does not take the extension, which clients must not pass over.
    let key = default_provider().key_provider.load_private_key(key).map_err(|why| wrong(&why))?;
    Ok(CertifiedKey::new(vec![certificate.der().clone()], key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use x509_parser::extensions::GeneralName;

    #[test]
    fn a_challenge_certificate_is_for_one_name_and_has_the_digest() {
        let made = challenge_certificate("a.example", &[7; 32]).unwrap();
        let (_, read) = x509_parser::parse_x509_certificate(&made.cert[0]).unwrap();
        let names = read.subject_alternative_name().unwrap().unwrap();
        assert_eq!(names.value.general_names, [GeneralName::DNSName("a.example")]);
        let extension = read.extensions().iter().find(|one| one.oid.to_id_string() == "1.3.6.1.5.5.7.1.31");
        let extension = extension.unwrap();
        assert!(extension.critical, "RFC 8737, section 3");
        assert_eq!(extension.value, [&[0x04, 32][..], &[7; 32]].concat());
    }
}
