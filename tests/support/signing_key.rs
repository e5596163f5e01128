//! A key of an identity provider of a test, and the tokens that it signs.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// A key of the provider.
pub(crate) struct SigningKey {
    id: &'static str,
    pair: Ed25519KeyPair,
}

impl SigningKey {
    pub(crate) fn new(id: &'static str) -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self { id, pair: Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap() }
    }

    /// As the provider publishes it.
    pub(crate) fn public(&self) -> Value {
        let x = URL_SAFE_NO_PAD.encode(self.pair.public_key());
        json!({"kty": "OKP", "crv": "Ed25519", "kid": self.id, "x": x})
    }

    /// A token of the user `ann` that is good for ten minutes, with these claims more.
    pub(crate) fn token(&self, more: &Value) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let mut claims = json!({"iss": "https://id.test", "aud": "turnpike", "sub": "ann", "exp": now + 600,
            "workspace_slug": "default", "scope": "completions.write"});
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let header = json!({"alg": "EdDSA", "kid": self.id, "typ": "JWT"});
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let message =
            format!("{}.{}", encode(header.to_string().as_bytes()), encode(claims.to_string().as_bytes()));
        format!("{message}.{}", encode(self.pair.sign(message.as_bytes()).as_ref()))
    }
}

/// The claims of a token, whoever signed it.
pub(crate) fn claims(token: &str) -> Value {
    let payload = token.split('.').nth(1).and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
    payload.and_then(|payload| serde_json::from_slice(&payload).ok()).unwrap_or_default()
}
