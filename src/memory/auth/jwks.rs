//! The public keys of an identity provider: a JSON Web Key Set (RFC 7517), read.
//!
//! Not here: where it comes from (`state::jwks`).

use super::jwt_crypto::ALGORITHMS;
use jsonwebtoken::jwk::{Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;

/// The most keys of a set. Providers publish two to five.
const MAX_KEYS: usize = 100;

/// The keys that tokens may be signed with, by their ids.
#[derive(Debug, Default)]
pub struct KeySet(HashMap<String, SigningKey>);

/// One public key.
#[derive(Debug)]
pub(super) struct SigningKey {
    pub key: DecodingKey,
    /// The algorithms it may be used with.
    pub algorithms: Vec<Algorithm>,
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<Value>,
}

impl KeySet {
    /// Reads a set. Keys that cannot verify a token (of other algorithms, without an id, for encryption) are left out.
    ///
    /// # Errors
    /// Why it is no key set, or has no usable key.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let document: Document =
            serde_json::from_slice(text).map_err(|why| format!("it is no JSON Web Key Set: {why}"))?;
        let keys = document.keys.into_iter().take(MAX_KEYS).filter_map(SigningKey::read).collect();
        let set = Self(keys);
        if set.0.is_empty() {
            Err("it has no public key with a kid for RS*, PS*, ES256, ES384 or EdDSA".to_owned())
        } else {
            Ok(set)
        }
    }

    pub(super) fn find(&self, id: &str) -> Option<&SigningKey> {
        self.0.get(id)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl SigningKey {
    fn read(value: Value) -> Option<(String, Self)> {
        let jwk: Jwk = serde_json::from_value(value).ok()?;
        let id = jwk.common.key_id.clone().filter(|id| !id.is_empty())?;
        if matches!(jwk.common.public_key_use, Some(PublicKeyUse::Encryption)) {
            return None;
        }
        let key = DecodingKey::from_jwk(&jwk).ok()?;
        let of_family = match key.family() {
            AlgorithmFamily::Hmac => return None,
            family => family.algorithms().to_vec(),
        };
        let named = match jwk.common.key_algorithm {
            Some(algorithm) => Some(Algorithm::try_from(algorithm).ok()?),
            None => None,
        };
        let usable = |algorithm: &Algorithm| {
            ALGORITHMS.contains(algorithm) && named.is_none_or(|named| named == *algorithm)
        };
        let algorithms: Vec<_> = of_family.into_iter().filter(usable).collect();
        (!algorithms.is_empty()).then_some((id, Self { key, algorithms }))
    }
}
