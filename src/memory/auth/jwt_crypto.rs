//! Verifies the signatures of tokens with `ring`, the cryptography of everything else here, for the library that reads tokens.
//!
//! Public keys only: HMAC is not among the algorithms, and nothing is ever signed.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::signature::{Error as SignatureError, Verifier};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};

/// The algorithms of which a token may name one.
pub(super) const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: signer,
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Must run before any token is read. The library keeps its provider for the process; a second call changes nothing.
pub(super) fn install() {
    let _ = PROVIDER.install_default();
}

fn signer(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>, Error> {
    Err(ErrorKind::UnsupportedAlgorithm.into())
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    // A key of one family must never verify for another: that is how public keys were passed off as HMAC secrets.
    if key.family() != family(*algorithm).ok_or(ErrorKind::UnsupportedAlgorithm)? {
        return Err(ErrorKind::InvalidKeyFormat.into());
    }
    Ok(Box::new(RingVerifier { algorithm: *algorithm, key: key.clone() }))
}

fn family(algorithm: Algorithm) -> Option<AlgorithmFamily> {
    match algorithm {
        Algorithm::ES256 | Algorithm::ES384 => Some(AlgorithmFamily::Ec),
        Algorithm::EdDSA => Some(AlgorithmFamily::Ed),
        _ => rsa(algorithm).map(|_| AlgorithmFamily::Rsa),
    }
}

/// Keys of less than 2048 bits are refused.
fn rsa(algorithm: Algorithm) -> Option<&'static signature::RsaParameters> {
    match algorithm {
        Algorithm::RS256 => Some(&signature::RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => Some(&signature::RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => Some(&signature::RSA_PKCS1_2048_8192_SHA512),
        Algorithm::PS256 => Some(&signature::RSA_PSS_2048_8192_SHA256),
        Algorithm::PS384 => Some(&signature::RSA_PSS_2048_8192_SHA384),
        Algorithm::PS512 => Some(&signature::RSA_PSS_2048_8192_SHA512),
        _ => None,
    }
}

struct RingVerifier {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), SignatureError> {
        let failed = |_| SignatureError::new();
        let with = |algorithm: &'static dyn VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(algorithm, key).verify(message, signature).map_err(failed)
        };
        match (self.key.kind(), self.algorithm) {
            (DecodingKeyKind::RsaModulusExponent { n, e }, algorithm) => {
                let parameters = rsa(algorithm).ok_or_else(SignatureError::new)?;
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature).map_err(failed)
            }
            (DecodingKeyKind::SecretOrDer(key), Algorithm::ES256) => {
                with(&signature::ECDSA_P256_SHA256_FIXED, key)
            }
            (DecodingKeyKind::SecretOrDer(key), Algorithm::ES384) => {
                with(&signature::ECDSA_P384_SHA384_FIXED, key)
            }
            (DecodingKeyKind::SecretOrDer(key), Algorithm::EdDSA) => with(&signature::ED25519, key),
            _ => Err(SignatureError::new()),
        }
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
