//! The service keys of one generation of settings, and the headers that may contain one.
//!
//! The time of a lookup does not reveal how much of a key was right. What a key may do is not decided here.

use crate::config::secret::Secret;
use crate::settings::Settings;
use http::HeaderName;
use ring::digest::{SHA256, digest};
use std::collections::HashMap;
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// Up to this many keys, comparing with each one is cheaper than a digest.
const MAX_COMPARED_KEYS: usize = 8;

/// All service keys of the settings.
#[derive(Debug)]
pub struct ServiceKeys {
    /// The headers that may contain a service key, one per accepted prefix.
    pub headers: Vec<HeaderName>,
    /// Names by the digest of their key, so that a lookup never compares two keys byte by byte.
    by_digest: HashMap<[u8; 32], Arc<str>>,
    /// All keys if there are at most [`MAX_COMPARED_KEYS`], otherwise empty.
    compared: Vec<(Secret, Arc<str>)>,
}

impl ServiceKeys {
    pub fn new(settings: &Settings) -> Self {
        let named = || settings.service_keys.iter().map(|key| (key, Arc::<str>::from(key.name.as_str())));
        let few = settings.service_keys.len() <= MAX_COMPARED_KEYS;
        Self {
            headers: settings.prefixed_headers("api-key"),
            by_digest: named().map(|(key, name)| (key_digest(key.key.expose().as_bytes()), name)).collect(),
            compared: named().filter(|_| few).map(|(key, name)| (key.key.clone(), name)).collect(),
        }
    }

    /// Whether clients must show a service key.
    pub fn are_required(&self) -> bool {
        !self.by_digest.is_empty()
    }

    /// The name of a service key. Few keys are compared one by one in constant time; many are found by digest, so
    /// that the time does not grow with their number.
    pub fn name_of(&self, key: &[u8]) -> Option<Arc<str>> {
        if self.compared.len() == self.by_digest.len() {
            let matches = |entry: &&(Secret, Arc<str>)| bool::from(entry.0.expose().as_bytes().ct_eq(key));
            return self.compared.iter().find(matches).map(|(_, name)| Arc::clone(name));
        }
        self.by_digest.get(&key_digest(key)).cloned()
    }
}

fn key_digest(key: &[u8]) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, key).as_ref());
    bytes
}
