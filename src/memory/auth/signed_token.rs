//! Reads a signed token: its header, and its claims once the signature is verified with a key of a set.
//!
//! Whether the claims are good (times, issuer, audience) is judged by whoever reads it: `jwt` for clients of the gateway, and a
//! check of guardrails.

use super::jwks::KeySet;
use super::jwt_crypto;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Header, Validation, decode, decode_header};
use serde_json::{Map, Value};

/// The longest token that is read, bytes.
const MAX_BYTES: usize = 16 << 10;

/// Why a token does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenRefusal {
    Malformed,
    Type,
    Algorithm,
    KidMissing,
    KidUnknown,
    Signature,
    Expired,
    NotYetValid,
    Issuer,
    Audience,
    ClaimMissing,
    /// Its role is no text.
    Role,
    WorkspaceUnknown,
    /// It answers another sign-in than this one.
    Nonce,
}

/// A token whose signature is not verified yet.
#[derive(Debug)]
pub struct SignedToken<'t> {
    text: &'t str,
    header: Header,
}

impl<'t> SignedToken<'t> {
    /// # Errors
    /// It is not a token, its algorithm is not one of the gateway's, or it demands an extension (`crit`).
    pub fn read(text: &'t str) -> Result<Self, TokenRefusal> {
        if text.len() > MAX_BYTES {
            return Err(TokenRefusal::Malformed);
        }
        let header = decode_header(text).map_err(|why| match why.kind() {
            // The header names an algorithm that the library does not know, or it is no header.
            jsonwebtoken::errors::ErrorKind::Json(_) => TokenRefusal::Algorithm,
            _ => TokenRefusal::Malformed,
        })?;
        if !jwt_crypto::ALGORITHMS.contains(&header.alg) {
            return Err(TokenRefusal::Algorithm);
        }
        let token = Self { text, header };
        // No extension is understood here, and a token that demands one must be refused (RFC 7515, 4.1.11).
        if token.header().contains_key("crit") { Err(TokenRefusal::Malformed) } else { Ok(token) }
    }

    /// The type in its header (`typ`).
    pub fn kind(&self) -> Option<&str> {
        self.header.typ.as_deref()
    }

    /// The name of its algorithm: `RS256`.
    pub fn algorithm(&self) -> String {
        format!("{:?}", self.header.alg)
    }

    /// The members of its header.
    pub fn header(&self) -> Map<String, Value> {
        let header = self.text.split('.').next().and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
        header.and_then(|header| serde_json::from_slice(&header).ok()).unwrap_or_default()
    }

    /// The claims, if the key that the token names signed it.
    ///
    /// # Errors
    /// The key is not in the set, or the signature was not made with it.
    pub fn claims(&self, keys: &KeySet) -> Result<Map<String, Value>, TokenRefusal> {
        jwt_crypto::install();
        let id = self.header.kid.as_deref().ok_or(TokenRefusal::KidMissing)?;
        let key = keys.find(id).ok_or(TokenRefusal::KidUnknown)?;
        if !key.algorithms.contains(&self.header.alg) {
            return Err(TokenRefusal::Algorithm);
        }
        let mut validation = Validation::new(self.header.alg);
        // The library reads the system's clock; here time is an argument.
        validation.required_spec_claims.clear();
        (validation.validate_exp, validation.validate_nbf, validation.validate_aud) = (false, false, false);
        let claims = decode::<Map<String, Value>>(self.text, &key.key, &validation);
        Ok(claims.map_err(|_| TokenRefusal::Signature)?.claims)
    }
}
